//! Resources made from the schema of their definition, field by field, in the simulated world.
//!
//! The schema is the one that is published, so a field that is added is tried without a word here.
//! Laws: what the schema accepts the types accept, and nothing of it is lost; it is refused with a
//! field and a reason, or rendered; what was decided once is not decided again; and an edit does to
//! the cluster what its class says.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kubectl_flink::api::crd;
use kubectl_flink::api::manifest::{self, Resource};
use kubectl_flink::decide::diff::{ChangeClass, diff};
use kubectl_flink::decide::reconciled::ReconciledSpec;
use serde_json::Value;

use super::*;
use crate::support::acceptance::accepted;

/// Deepest value that is made below a field.
const DEPTH_MAX: usize = 4;
/// Texts that mean something somewhere, and some that mean nothing anywhere.
const TEXTS: [&str; 32] = [
    "",
    " ",
    "a",
    "b",
    "1",
    "-1",
    "0.5",
    "500m",
    "1g",
    "1Gi",
    "2048m",
    "2Gi",
    "1.5Gi",
    "true",
    "flink",
    "orders",
    "Always",
    "IfNotPresent",
    "local:///job.jar",
    "https://example.com/a.jar",
    "s3://lake/sp/1",
    "{{name}}.{{namespace}}.example.com",
    "/{{namespace}}/{{name}}(/|$)(.*)",
    "a: b",
    "it's \"quoted\"",
    "#",
    "two\nlines",
    "\u{e9}\u{1f600}",
    "../..",
    "A_b",
    "main",
    "0 0 * * * ?",
];
const INTEGERS: [i64; 9] = [0, 1, 2, 3, -1, 100, 65535, 2_147_483_647, i64::MAX];
const OPTIONS: [(&str, &str); 12] = [
    ("taskmanager.numberOfTaskSlots", "4"),
    ("taskmanager.memory.process.size", "2g"),
    ("execution.checkpointing.interval", "10 s"),
    ("parallelism.default", "9"),
    ("kubernetes.operator.savepoint.history.max.count", "3"),
    ("kubernetes.operator.snapshot.resource.enabled", "true"),
    ("job.autoscaler.enabled", "false"),
    ("job.autoscaler.target.utilization", "0.5"),
    ("pipeline.object-reuse", "true"),
    ("kubernetes.jobmanager.annotations", "a:b,c:d"),
    ("env.java.opts.all", "-Da=b: c"),
    ("rest.port", "8081"),
];

/// A field of a definition: where it is, and what it may hold.
#[derive(Clone)]
struct Field<'a> {
    /// Names from the root; `[]` for the items of a list, `{}` for the values of a map.
    path: Vec<&'a str>,
    schema: &'a JSONSchemaProps,
}

impl Field<'_> {
    fn is_in_pod_template(&self) -> bool {
        self.path.contains(&"podTemplate")
    }
}

/// All fields at and below `schema`.
fn fields<'a>(path: &[&'a str], schema: &'a JSONSchemaProps, all: &mut Vec<Field<'a>>) {
    all.push(Field { path: path.to_vec(), schema });
    for (name, property) in schema.properties.iter().flatten() {
        fields(&[path, &[name]].concat(), property, all);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        fields(&[path, &["[]"]].concat(), items, all);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        fields(&[path, &["{}"]].concat(), values, all);
    }
}

fn one_of<T: Copy>(all: &[T], choices: &mut Choices) -> T {
    all[usize::try_from(choices.below(all.len() as u64)).unwrap()]
}

/// A value that the schema accepts.
fn value(name: &str, schema: &JSONSchemaProps, depth: usize, choices: &mut Choices) -> Value {
    let kind = schema.type_.as_deref().unwrap_or("any");
    if let Some(values) = &schema.enum_ {
        let at = usize::try_from(choices.below(values.len() as u64)).unwrap();
        return values[at].0.clone();
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        return if choices.below(2) == 0 {
            json!(one_of(&INTEGERS, choices))
        } else {
            text(choices)
        };
    }
    match kind {
        // The schema says of these that they are text, and the types that they are times.
        "string" if name == "time" || name.ends_with("Timestamp") => json!("2026-01-01T00:00:00Z"),
        "string" => text(choices),
        "integer" => json!(integer(name, choices)),
        "number" => {
            one_of(&[0.0, 0.1, 0.5, 1.0, 2.5, -1.0, 1e9, 0.300_000_000_000_000_04], choices).into()
        }
        "boolean" => json!(choices.below(2) == 0),
        "array" => items(schema, depth, choices),
        "object" => object(schema, depth, choices),
        _ => options(choices),
    }
}

fn text(choices: &mut Choices) -> Value {
    json!(one_of(&TEXTS, choices))
}

/// The types are a little stricter than the schema: a replica count has 32 bits.
fn integer(name: &str, choices: &mut Choices) -> i64 {
    let is_small = ["replicas", "parallelism", "backoffLimit", "failures"].contains(&name);
    let number = one_of(&INTEGERS, choices);
    if is_small { number.min(i64::from(i32::MAX)) } else { number }
}

fn items(schema: &JSONSchemaProps, depth: usize, choices: &mut Choices) -> Value {
    let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items else { return json!([]) };
    let count = if depth == 0 { 0 } else { choices.below(3) };
    (0..count).map(|_| value("", item, depth - 1, choices)).collect()
}

fn object(schema: &JSONSchemaProps, depth: usize, choices: &mut Choices) -> Value {
    let mut fields = serde_json::Map::new();
    if depth == 0 {
        return Value::Object(fields);
    }
    let properties: Vec<_> = schema.properties.iter().flatten().collect();
    // A pod has many fields: a few of them at a time.
    let share = u64::try_from(properties.len()).unwrap().div_ceil(3).max(1);
    for (name, property) in properties {
        if choices.below(share) == 0 {
            fields.insert(name.clone(), value(name, property, depth - 1, choices));
        }
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        for _ in 0..choices.below(3) {
            let key = one_of(&TEXTS, choices).to_owned();
            fields.insert(key, value("", values, depth - 1, choices));
        }
    }
    if schema.x_kubernetes_preserve_unknown_fields == Some(true) && choices.below(3) == 0 {
        fields.insert("fieldOfTomorrow".to_owned(), json!({"nested": [1, "two", null, {}]}));
    }
    Value::Object(fields)
}

fn options(choices: &mut Choices) -> Value {
    let mut options = serde_json::Map::new();
    for _ in 0..choices.below(4) {
        let (key, value) = one_of(&OPTIONS, choices);
        let value = if choices.below(6) == 0 { text(choices) } else { json!(value) };
        options.insert(key.to_owned(), value);
    }
    if choices.below(4) == 0 {
        options.insert(
            "nested".to_owned(),
            json!({"a": {"b": one_of(&INTEGERS, choices)}, "c": [1, 2.5, true]}),
        );
    }
    Value::Object(options)
}

/// A value of another type than the field's.
fn wrong(schema: &JSONSchemaProps, choices: &mut Choices) -> Option<Value> {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return Some(json!({"a": 1}));
    }
    let others = [json!({"a": 1}), json!(["a"]), json!("a"), json!(1.5), json!(true)];
    let of = ["object", "array", "string", "number", "boolean"];
    let kind = schema.type_.as_deref()?;
    let at = usize::try_from(choices.below(5)).unwrap();
    (of[at] != kind).then(|| others[at].clone())
}

/// Puts `new` at `path`, and what is missing on the way.
fn put(target: &mut Value, path: &[&str], new: Value) {
    let Some((first, rest)) = path.split_first() else {
        *target = new;
        return;
    };
    let child = match *first {
        "[]" => {
            if !target.is_array() {
                *target = json!([null]);
            }
            let items = target.as_array_mut().unwrap();
            if items.is_empty() {
                items.push(Value::Null);
            }
            &mut items[0]
        }
        name => {
            if !target.is_object() {
                *target = json!({});
            }
            let name = if name == "{}" { "a" } else { name };
            target.as_object_mut().unwrap().entry(name).or_insert(Value::Null)
        }
    };
    put(child, rest, new);
}

/// A resource of each kind to start from.
fn base(kind: &str) -> Value {
    let spec = match kind {
        "FlinkDeployment" => serde_json::to_value(resource("savepoint").spec).unwrap(),
        "FlinkSessionJob" => json!({
            "deploymentName": "lab",
            "job": {"jarURI": "https://example.com/a.jar", "parallelism": 2, "upgradeMode": "savepoint"},
        }),
        "FlinkStateSnapshot" => json!({
            "jobReference": {"kind": "FlinkDeployment", "name": "orders"}, "savepoint": {},
        }),
        _ => json!({"template": {"spec": resource("savepoint").spec}}),
    };
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": kind,
        "metadata": {"name": "orders", "namespace": "shop", "uid": "u1", "generation": 1},
        "spec": spec,
    })
}

/// Every field below `spec` of a definition, the root of the schema above it left out.
fn spec_fields(definition: &CustomResourceDefinition) -> Vec<Field<'_>> {
    let root = crd::root(definition).unwrap();
    let mut all = Vec::new();
    fields(&["spec"], &root.properties.as_ref().unwrap()["spec"], &mut all);
    all
}

/// What is wrong with a manifest that the schema accepts, or the resource.
fn read(object: &Value) -> Result<Resource, Vec<manifest::Problem>> {
    let mut documents = manifest::parse("generated.json", &object.to_string())?;
    Ok(documents.remove(0).resource)
}

fn written(resource: &Resource) -> Value {
    match resource {
        Resource::Deployment(resource) => serde_json::to_value(resource),
        Resource::SessionJob(resource) => serde_json::to_value(resource),
        Resource::StateSnapshot(resource) => serde_json::to_value(resource),
        Resource::BlueGreenDeployment(resource) => serde_json::to_value(resource),
        Resource::Foreign { .. } => panic!("it is one of ours"),
    }
    .unwrap()
}

/// Everything that `before` says, `after` says: nulls and what is empty say nothing.
fn assert_kept(path: &str, before: &Value, after: &Value) {
    match (before, after) {
        (Value::Null, _) => {}
        (Value::Object(fields), after) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                assert_kept(&path, value, after.get(name).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            assert_eq!(items.len(), others.len(), "{path}");
            for (index, (item, other)) in items.iter().zip(others).enumerate() {
                assert_kept(&format!("{path}[{index}]"), item, other);
            }
        }
        (Value::Array(items), Value::Null) if items.is_empty() => {}
        (Value::Number(one), Value::Number(other)) => {
            assert_eq!(one.as_f64(), other.as_f64(), "{path}");
        }
        (before, after) => assert_eq!(before, after, "{path} is lost"),
    }
}

/// How many resources and edits: where fewer are asked for of the other simulations, as many as ever.
fn generated() -> u64 {
    const DEFAULT: u64 = 60;
    cases(DEFAULT).max(DEFAULT)
}

/// Each kind with choices of its own, and once more where there is another seed.
fn of_each_kind() -> impl Iterator<Item = (Choices, CustomResourceDefinition)> {
    let seeds = std::iter::once(0).chain(another_seed());
    seeds.flat_map(|seed| crd::all().into_iter().map(move |kind| (Choices::new(seed), kind)))
}

/// Each field of each kind, with a few values of its type.
#[test]
fn what_the_schema_accepts_is_read_kept_and_judged() {
    let (mut tried, mut rendered, mut refused) = (0, 0, 0);
    for (mut choices, definition) in of_each_kind() {
        let kind = definition.spec.names.kind.as_str();
        let base = base(kind);
        for field in spec_fields(&definition) {
            // The three templates have thousands of fields, and one of them stands for the others.
            let share = if field.is_in_pod_template() { 24 } else { 1 };
            if choices.below(share) != 0 {
                continue;
            }
            for _ in 0..generated().div_ceil(20) {
                let name = field.path.last().unwrap();
                let mut object = base.clone();
                put(&mut object, &field.path, value(name, field.schema, DEPTH_MAX, &mut choices));
                let resource = read(&object).unwrap_or_else(|problems| {
                    panic!("{kind}: {}: {}", problems[0], object["spec"])
                });
                assert_kept("", &object, &written(&resource));
                tried += 1;
                if let Resource::Deployment(deployment) = resource {
                    match accepted(&deployment) {
                        Ok(_) => rendered += 1,
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    println!("generated {tried} resources: {rendered} rendered, {refused} refused");
    assert!(rendered > 100 && refused > 50, "{rendered} {refused}");
}

/// A value of another type is refused, and its field is named.
#[test]
fn what_the_schema_refuses_is_refused_by_its_field() {
    let mut refused = 0;
    for (mut choices, definition) in of_each_kind() {
        let base = base(&definition.spec.names.kind);
        for field in spec_fields(&definition) {
            let share = if field.is_in_pod_template() { 16 } else { 1 };
            let Some(wrong) = wrong(field.schema, &mut choices) else { continue };
            if choices.below(share) != 0 {
                continue;
            }
            let mut object = base.clone();
            put(&mut object, &field.path, wrong.clone());
            // A whole number with a fraction is none; a number takes any.
            let place = field.path.join(".").replace(".[]", "[0]").replace("{}", "a");
            match read(&object) {
                Ok(_) => panic!("{place} takes {wrong}"),
                Err(problems) => {
                    assert!(
                        problems.iter().any(|problem| problem.path == place
                            || problem.path.starts_with(&format!("{place}."))
                            || problem.path.starts_with(&format!("{place}["))),
                        "{place}: {}",
                        problems[0]
                    );
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 200, "{refused}");
}

/// What the simulated Flink does not play: other clusters, HA that comes and goes, jobs that end.
fn is_playable(deployment: &FlinkDeployment) -> bool {
    let spec = &deployment.spec;
    let version = spec.flink_version.map(kubectl_flink::api::version::FlinkVersion::as_str);
    let plays = |job: &kubectl_flink::api::job::JobSpec| {
        job.state == JobState::Running
            && job.parallelism != Some(FAILING_PARALLELISM)
            && job.initial_savepoint_path.is_none()
            && job.savepoint_redeploy_nonce.is_none()
    };
    version == Some("v1_20")
        && spec.job.as_ref().is_some_and(plays)
        && spec.flink_configuration.0.get("high-availability.type") == Some(&json!("kubernetes"))
}

impl Sim {
    /// Until the resource is stable as it is wanted; not where it is at rest before that.
    fn settles(&mut self) -> bool {
        let mut quiet = 0;
        for _ in 0..60 {
            self.tick();
            let before = self.status.clone();
            let plan = self.pass(None);
            if self.status.lifecycle_state == Some(LifecycleState::Stable)
                && self.status.observed_generation == self.resource.metadata.generation
                && self.has_slots()
            {
                return true;
            }
            // Longer than anything takes in this world.
            quiet = if plan.steps.is_empty() && self.status == before { quiet + 1 } else { 0 };
            if quiet > 8 {
                return false;
            }
        }
        false
    }
}

/// Users edit a running job field by field.
#[test]
fn an_edit_does_to_the_cluster_what_its_class_says() {
    let definitions = crd::all();
    let all = spec_fields(&definitions[0]);
    let mut count = BTreeMap::new();
    for seed in (0..generated().div_ceil(12)).chain(another_seed()) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new("savepoint");
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..6 {
                let outcome = edited(sim, &all, &mut choices);
                *count.entry(outcome).or_insert(0) += 1;
            }
        });
    }
    println!("edits: {count:?}");
    assert!(["Ignore", "Upgrade", "refused"].iter().all(|outcome| count.contains_key(outcome)));
}

/// What became of one edit.
fn edited(sim: &mut Sim, all: &[Field<'_>], choices: &mut Choices) -> &'static str {
    let mut field = &all[usize::try_from(choices.below(all.len() as u64)).unwrap()];
    while field.is_in_pod_template() && choices.below(30) != 0 {
        field = &all[usize::try_from(choices.below(all.len() as u64)).unwrap()];
    }
    let mut object = serde_json::to_value(&sim.resource).unwrap();
    let new = value(field.path.last().unwrap(), field.schema, DEPTH_MAX, choices);
    sim.log.push(format!("  edit: {} = {new}", field.path.join(".")));
    put(&mut object, &field.path, new);
    let Ok(Resource::Deployment(mut wanted)) = read(&object) else {
        panic!("the schema takes it: {object}")
    };
    if field.path == ["spec"] || field.path == ["spec", "flinkConfiguration"] {
        keep_alive(&mut wanted);
    }
    if !is_playable(&wanted) {
        return "not played";
    }
    let (before, starts) = (sim.resource.spec.clone(), sim.starts);
    let last = sim.status.reconciliation_status.last_reconciled_spec.clone().unwrap();
    let last = ReconciledSpec::parse(&last).unwrap();
    sim.edit(|r| r.spec = wanted.spec.clone());
    let class = diff(&last.spec, &wanted.spec).class();
    let is_settled = sim.settles();
    if !is_settled {
        let error = sim.status.error.clone().unwrap_or_default();
        assert!(!error.is_empty(), "neither stable nor a reason: {:?}", sim.status);
        assert_eq!(sim.starts, starts, "a refused edit touches nothing: {error}");
        sim.assert_at_rest();
        sim.edit(|r| r.spec = before);
        assert!(sim.settles(), "the spec that runs is fine: {:?}", sim.status.error);
        assert_eq!(sim.starts, starts, "nothing was changed in the end");
        return "refused";
    }
    sim.assert_at_rest();
    match class {
        ChangeClass::Ignore => {
            assert_eq!(sim.starts, starts, "an ignored edit restarts nothing");
            "Ignore"
        }
        ChangeClass::Upgrade => {
            assert_eq!(sim.starts, starts + 1, "an upgrade is one restart");
            "Upgrade"
        }
        ChangeClass::Scale => "Scale",
        ChangeClass::SavepointRedeploy => "SavepointRedeploy",
    }
}

/// Options that the simulated world depends on.
fn keep_alive(deployment: &mut FlinkDeployment) {
    let options = resource("savepoint").spec.flink_configuration.0;
    for (key, value) in options {
        deployment.spec.flink_configuration.0.entry(key).or_insert(value);
    }
}
