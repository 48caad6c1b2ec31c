//! What tools that know nothing of Flink say of a resource, by the rules that they go by.

use std::fs;

use cel::{Context, Program};
use mlua::{Lua, LuaSerdeExt, Table};
use serde_json::Value;

use crate::sources::path;

fn condition<'o>(object: &'o Value, type_: &str) -> Option<&'o Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == type_)
}

fn is_true(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|condition| condition["status"] == "True")
}

/// Returns what the tools say that go by conditions, in the order of the tables of `docs/gitops.md`.
pub fn cells(object: &Value) -> String {
    let [ready, stalled] = ["Ready", "Stalled"].map(|type_| waits(object, type_));
    let condition = condition(object, "Ready").unwrap();
    let [status, reason] = ["status", "reason"].map(|field| condition[field].as_str().unwrap());
    let (kstatus, flux) = (kstatus(object), flux(object));
    format!("{status}, {reason} | {kstatus} | {ready} | {stalled} | {flux}")
}

/// The rules of kstatus, and with it of Flux, for a kind that it does not know: `status.observedGeneration` comes before
/// all conditions.
fn kstatus(object: &Value) -> &'static str {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating";
    }
    let observed = &object["status"]["observedGeneration"];
    let is_behind = observed.is_i64() && *observed != object["metadata"]["generation"];
    if is_behind || is_true(object, "Reconciling") {
        return "InProgress";
    }
    match (is_true(object, "Stalled"), is_true(object, "Ready")) {
        (true, _) => "Failed",
        (false, true) => "Current",
        (false, false) => "InProgress",
    }
}

/// `kubectl wait --for=condition=…` goes by the generation of the condition, if it has one.
fn waits(object: &Value, type_: &str) -> &'static str {
    let is_current =
        |condition: &Value| condition["observedGeneration"] == object["metadata"]["generation"];
    if condition(object, type_).is_some_and(is_current) && is_true(object, type_) {
        "met"
    } else {
        "waits"
    }
}

/// The rules of the script for a `FlinkDeployment` that Argo CD itself has since 2026: the generation comes first, and
/// nothing is known of conditions.
pub fn argo_cd(object: &Value) -> &'static str {
    let status = &object["status"];
    let is_behind =
        status["observedGeneration"].as_i64() < object["metadata"]["generation"].as_i64();
    if is_behind || status["observedGeneration"].is_null() {
        return "Progressing";
    }
    match status["reconciliationStatus"]["state"].as_str() {
        Some("UPGRADING" | "ROLLING_BACK") => return "Progressing",
        Some("ROLLED_BACK") => return "Degraded",
        _ => {}
    }
    match (status["lifecycleState"].as_str(), status["jobStatus"]["state"].as_str()) {
        (Some("STABLE"), Some("RESTARTING")) | (Some("FAILED" | "ROLLED_BACK"), _) => "Degraded",
        (Some("STABLE"), _) => "Healthy",
        (Some("SUSPENDED"), _) => "Suspended",
        _ => "Progressing",
    }
}

/// Runs the script of `examples/gitops/argocd-cm.yaml` for a kind, and returns its status and message.
pub fn argo_cd_with_our_script(object: &Value) -> (String, String) {
    let page = fs::read_to_string(path("examples/gitops/argocd-cm.yaml")).unwrap();
    let page: Value = serde_yaml::from_str(&page).unwrap();
    let kind = object["kind"].as_str().unwrap();
    let key = format!("resource.customizations.health.flink.apache.org_{kind}");
    let script = page["data"][&key].as_str().unwrap_or_else(|| panic!("no script for {kind}"));
    let lua = Lua::new();
    // As Argo CD does, with what is absent left out.
    lua.globals().set("obj", lua.to_value(&without_nulls(object)).unwrap()).unwrap();
    let health: Table = lua.load(script).eval().unwrap_or_else(|error| panic!("{error}: {object}"));
    (health.get("status").unwrap(), health.get("message").unwrap())
}

/// Evaluates the expressions of `examples/gitops/flux.yaml` in Flux's order.
fn flux(object: &Value) -> &'static str {
    let page = fs::read_to_string(path("examples/gitops/flux.yaml")).unwrap();
    let page: Value = serde_yaml::from_str(&page).unwrap();
    let all = page["spec"]["healthCheckExprs"].as_array().unwrap();
    let of_kind = all.iter().find(|it| it["kind"] == object["kind"]).unwrap();
    let is_so = |of: &str| {
        let text = of_kind[of].as_str().unwrap();
        let program = Program::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut context = Context::default();
        for part in ["metadata", "status"] {
            context.add_variable(part, without_nulls(&object[part])).unwrap();
        }
        matches!(program.execute(&context), Ok(cel::Value::Bool(true)))
    };
    match (is_so("failed"), is_so("current")) {
        (true, _) => "Failed",
        (false, true) => "Current",
        (false, false) => "InProgress",
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let there = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(there.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}
