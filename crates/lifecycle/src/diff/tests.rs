use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use api::reconciled::ReconciledSpec;

fn spec(value: Value) -> FlinkDeploymentSpec {
    serde_json::from_value(value).unwrap()
}

/// A spec with every kind of field; tests override what they need.
fn base() -> Value {
    json!({
        "image": "flink:1.20",
        "flinkVersion": "v1_20",
        "serviceAccount": "flink",
        "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"},
        "podTemplate": {"spec": {"containers": [{"name": "flink-main-container"}]}},
        "jobManager": {"resource": {"memory": "1g", "cpu": 1}},
        "taskManager": {"resource": {"memory": "1g", "cpu": 1}},
        "job": {"jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": "savepoint"},
    })
}

#[track_caller]
fn check(path: &str, value: Value, expected: Expect) {
    let mut wanted = base();
    let (parent, name) = path.rsplit_once('/').unwrap();
    let parent = if parent.is_empty() { &mut wanted } else { wanted.pointer_mut(parent).unwrap() };
    parent[name] = value;
    let diff = diff(&spec(base()), &spec(wanted));
    expected.assert_eq(&format!("{} {diff}", diff.class().into_str()));
}

/// Returns the spec with the defaults that storing adds.
fn as_stored(spec: FlinkDeploymentSpec) -> FlinkDeploymentSpec {
    ReconciledSpec::parse(&ReconciledSpec::new(spec, false).to_text()).unwrap().spec
}

#[test]
fn what_storing_writes_into_a_spec_makes_no_whole_comparison() {
    let mut wanted = base();
    wanted["jobManager"] = json!({"resource": {"memory": "1g"}});
    wanted["job"].as_object_mut().unwrap().remove("parallelism");
    for mode in [Value::Null, json!("native")] {
        wanted["mode"] = mode;
        let wanted = spec(wanted.clone());
        let stored = as_stored(wanted.clone());
        assert_ne!(stored, wanted);
        assert!(only_jobs(&stored, &wanted).is_some());
        assert!(diff(&stored, &wanted).changes.is_empty());
    }
}

#[test]
fn the_same_spec_has_no_changes() {
    assert!(diff(&spec(base()), &spec(base())).changes.is_empty());
}

#[test]
fn how_a_change_is_brought_about() {
    check(
        "/image",
        json!("flink:1.20.1"),
        expect!["UPGRADE Diff: FlinkDeploymentSpec[image : flink:1.20 -> flink:1.20.1]"],
    );
    check(
        "/restartNonce",
        json!(1),
        expect!["UPGRADE Diff: FlinkDeploymentSpec[restartNonce : null -> 1]"],
    );
    check(
        "/job/parallelism",
        json!(4),
        expect!["UPGRADE Diff: FlinkDeploymentSpec[job.parallelism : 2 -> 4]"],
    );
    check(
        "/job/state",
        json!("suspended"),
        expect!["UPGRADE Diff: FlinkDeploymentSpec[job.state : running -> suspended]"],
    );
    check(
        "/job/upgradeMode",
        json!("last-state"),
        expect!["IGNORE Diff: FlinkDeploymentSpec[job.upgradeMode : savepoint -> last-state]"],
    );
    check(
        "/job/initialSavepointPath",
        json!("s3://a"),
        expect!["IGNORE Diff: FlinkDeploymentSpec[job.initialSavepointPath : null -> s3://a]"],
    );
    check(
        "/job/savepointRedeployNonce",
        json!(1),
        expect![
            "SAVEPOINT_REDEPLOY Diff: FlinkDeploymentSpec[job.savepointRedeployNonce : null -> 1]"
        ],
    );
    check(
        "/flinkConfiguration/kubernetes.operator.x",
        json!(1),
        expect![
            "IGNORE Diff: FlinkDeploymentSpec[flinkConfiguration.kubernetes.operator.x : null -> 1]"
        ],
    );
    check(
        "/flinkConfiguration/pipeline.jobvertex-parallelism-overrides",
        json!("v:2"),
        expect![
            "SCALE Diff: FlinkDeploymentSpec[flinkConfiguration.pipeline.jobvertex-parallelism-overrides : null -> v:2]"
        ],
    );
    check(
        "/flinkConfiguration/state.backend.type",
        json!("rocksdb"),
        expect![
            "UPGRADE Diff: FlinkDeploymentSpec[flinkConfiguration.state.backend.type : null -> rocksdb]"
        ],
    );
}

#[test]
fn a_nonce_that_is_taken_away_asks_for_nothing() {
    let mut before = base();
    before["restartNonce"] = json!(3);
    before["job"]["savepointRedeployNonce"] = json!(3);
    assert_eq!(diff(&spec(before), &spec(base())).class(), ChangeClass::Ignore);
}

#[test]
fn defaults_and_form_are_no_change() {
    let mut stored = base();
    stored["jobManager"]["replicas"] = json!(1);
    stored["jobManager"]["podTemplate"] = Value::Null;
    stored["job"]["args"] = Value::Null;
    stored["job"]["state"] = json!("running");
    stored["mode"] = json!("native");
    stored["podTemplate"]["kind"] = json!("Pod");
    stored["podTemplate"]["apiVersion"] = json!("v1");
    stored["podTemplate"]["spec"]["containers"][0]["image"] = Value::Null;
    stored["flinkConfiguration"] = json!({"taskmanager": {"numberOfTaskSlots": 2}});
    let diff = diff(&spec(stored), &spec(base()));
    assert!(diff.changes.is_empty(), "{diff}");
}

#[test]
fn a_template_change_is_seen() {
    check(
        "/podTemplate/spec",
        json!({"containers": [{"name": "flink-main-container"}], "nodeName": "a"}),
        expect![[
            r#"UPGRADE Diff: FlinkDeploymentSpec[podTemplate : {"spec":{"containers":[{"name":"flink-main-container"}]}} -> {"spec":{"containers":[{"name":"flink-main-container"}],"nodeName":"a"}}]"#
        ]],
    );
}

#[test]
fn section_6_each_field_by_its_row() {
    use ChangeClass::{Ignore, SavepointRedeploy, Scale, Upgrade};
    let overrides = "/flinkConfiguration/pipeline.jobvertex-parallelism-overrides";
    // Path, value, class in native and in standalone mode.
    let rows = [
        ("/job/savepointTriggerNonce", json!(1), Ignore, Ignore),
        ("/job/checkpointTriggerNonce", json!(1), Ignore, Ignore),
        ("/job/initialSavepointPath", json!("s3://a"), Ignore, Ignore),
        ("/job/upgradeMode", json!("stateless"), Ignore, Ignore),
        ("/job/allowNonRestoredState", json!(true), Ignore, Ignore),
        ("/job/autoscalerResetNonce", json!(1), Ignore, Ignore),
        ("/job/parallelism", json!(4), Upgrade, Scale),
        ("/taskManager/replicas", json!(4), Upgrade, Scale),
        ("/job/savepointRedeployNonce", json!(1), SavepointRedeploy, SavepointRedeploy),
        ("/restartNonce", json!(1), Upgrade, Upgrade),
        ("/flinkConfiguration/job.autoscaler.enabled", json!(true), Ignore, Ignore),
        ("/flinkConfiguration/parallelism.default", json!(3), Ignore, Ignore),
        ("/flinkConfiguration/kubernetes.operator.x", json!(1), Ignore, Ignore),
        (overrides, json!("v:2"), Scale, Upgrade),
        ("/flinkConfiguration/kubernetes.cluster-id", json!("a"), Upgrade, Upgrade),
        ("/job/state", json!("suspended"), Upgrade, Upgrade),
        ("/job/args", json!(["a"]), Upgrade, Upgrade),
        ("/job/entryClass", json!("A"), Upgrade, Upgrade),
        ("/job/jarURI", json!("local:///other.jar"), Upgrade, Upgrade),
        ("/image", json!("flink:2"), Upgrade, Upgrade),
        ("/imagePullPolicy", json!("Always"), Upgrade, Upgrade),
        ("/serviceAccount", json!("other"), Upgrade, Upgrade),
        ("/flinkVersion", json!("v1_19"), Upgrade, Upgrade),
        // The Java operator restarts the job for it.
        ("/ingress", json!({"template": "a.b"}), Ignore, Ignore),
        ("/logConfiguration", json!({"log4j-console.properties": "a"}), Upgrade, Upgrade),
        ("/podTemplate/metadata", json!({"labels": {"a": "b"}}), Upgrade, Upgrade),
        ("/jobManager/replicas", json!(2), Upgrade, Upgrade),
        ("/taskManager/resource/cpu", json!(2), Upgrade, Upgrade),
    ];
    for (path, value, native, standalone) in rows {
        for (mode, class) in [("native", native), ("standalone", standalone)] {
            let mut before = base();
            before["mode"] = json!(mode);
            let mut after = before.clone();
            let (parent, name) = path.rsplit_once('/').unwrap();
            let parent =
                if parent.is_empty() { &mut after } else { after.pointer_mut(parent).unwrap() };
            parent[name] = value.clone();
            let (before, after) = (as_stored(spec(before)), spec(after));
            assert_eq!(diff(&before, &after).class(), class, "{path} in {mode} mode");
            let mode = after.mode.unwrap();
            let whole = changes(
                (&comparable(&before), &before.flink_configuration),
                (&comparable(&after), &after.flink_configuration),
                mode,
            );
            let jobs = only_jobs(&before, &after);
            let of_job = jobs.map(|(from, to)| changes_of_job(from, to, mode));
            assert_eq!(of_job, path.starts_with("/job/").then_some(whole), "{path}");
        }
    }
}

#[test]
fn section_6_the_greatest_class_wins() {
    let mut wanted = base();
    wanted["job"]["upgradeMode"] = json!("stateless");
    wanted["flinkConfiguration"]["pipeline.jobvertex-parallelism-overrides"] = json!("v:2");
    assert_eq!(diff(&spec(base()), &spec(wanted.clone())).class(), ChangeClass::Scale);
    wanted["image"] = json!("flink:2");
    assert_eq!(diff(&spec(base()), &spec(wanted.clone())).class(), ChangeClass::Upgrade);
    wanted["job"]["savepointRedeployNonce"] = json!(1);
    assert_eq!(diff(&spec(base()), &spec(wanted)).class(), ChangeClass::SavepointRedeploy);
}

#[test]
fn secrets_are_not_shown() {
    let options = json!({"taskmanager.numberOfTaskSlots": "2", "s3.secret-key": "abc"});
    check(
        "/flinkConfiguration",
        options,
        expect![
            "UPGRADE Diff: FlinkDeploymentSpec[flinkConfiguration.s3.secret-key : null -> ******]"
        ],
    );
    let container = json!({"name": "a", "env": [{"name": "DB_PASSWORD", "value": "abc"}]});
    let template = json!({"spec": {"containers": [container]}});
    check(
        "/podTemplate",
        template,
        expect![[
            r#"UPGRADE Diff: FlinkDeploymentSpec[podTemplate : {"spec":{"containers":[{"name":"flink-main-container"}]}} -> {"spec":{"containers":[{"name":"a","env":[{"name":"DB_PASSWORD","value":"******"}]}]}}]"#
        ]],
    );
    check(
        "/flinkConfiguration",
        json!({"taskmanager.numberOfTaskSlots": "2", "env.java.opts.all": "-Da=b -Dx.password=abc"}),
        expect![
            "UPGRADE Diff: FlinkDeploymentSpec[flinkConfiguration.env.java.opts.all : null -> ******]"
        ],
    );
    let job = json!({"jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": "savepoint",
        "args": ["-Da=b -Dx.password=abc"]});
    check(
        "/job",
        job,
        expect![[
            r#"UPGRADE Diff: FlinkDeploymentSpec[job.args : [] -> ["-Da=b -Dx.password=******"]]"#
        ]],
    );
}
