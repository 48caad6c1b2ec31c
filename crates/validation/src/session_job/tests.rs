use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::lines;

fn spec(value: Value) -> FlinkSessionJobSpec {
    serde_json::from_value(value).unwrap()
}

fn job() -> Value {
    json!({ "jarURI": "https://repo.example.com/job.jar", "parallelism": 1 })
}

fn input<'a>(spec: &'a FlinkSessionJobSpec, operator: &'a OperatorConfig) -> SessionJobInput<'a> {
    SessionJobInput {
        namespace: "ns",
        spec,
        last_reconciled: None,
        cluster: None,
        operator,
        host: None,
    }
}

#[track_caller]
fn check(input: &SessionJobInput<'_>, expected: Expect) {
    let text = lines(&validate(input));
    expected.assert_eq(&text);
}

#[test]
fn j01_j02_cluster_and_job_are_needed() {
    let operator = OperatorConfig::default();
    check(&input(&spec(json!({ "deploymentName": "s", "job": job() })), &operator), expect![""]);
    check(
        &input(&spec(json!({})), &operator),
        expect![[r#"
            spec.deploymentName: invalid name ``: it must start with a lower case letter, end with a letter or digit, and have at most 45 lower case letters, digits and `-`
            spec.job: must be set: it describes the job to run in the session cluster, such as its `jarURI`
        "#]],
    );
}

#[test]
fn j03_cluster_cannot_change() {
    let operator = OperatorConfig::default();
    let before = spec(json!({ "deploymentName": "old", "job": job() }));
    let after = spec(json!({ "deploymentName": "new", "job": job() }));
    check(
        &SessionJobInput { last_reconciled: Some(&before), ..input(&after, &operator) },
        expect![[r#"
            spec.deploymentName: cannot change from `old`: delete the job and create it in the other cluster
        "#]],
    );
}

#[test]
fn d28_a_redeploy_of_a_session_job_needs_its_savepoint() {
    let operator = OperatorConfig::default();
    let of = |nonce: i64, path: Value| {
        let mut job = job();
        job["savepointRedeployNonce"] = json!(nonce);
        job["initialSavepointPath"] = path;
        spec(json!({ "deploymentName": "s", "job": job }))
    };
    let before = of(1, Value::Null);
    let check_after = |after: FlinkSessionJobSpec, expected: Expect| {
        check(
            &SessionJobInput { last_reconciled: Some(&before), ..input(&after, &operator) },
            expected,
        );
    };
    for path in [Value::Null, json!(" ")] {
        check_after(
            of(2, path),
            expect![[r#"
                spec.job.initialSavepointPath: must be set: `savepointRedeployNonce` starts the job from it
            "#]],
        );
    }
    check_after(of(1, Value::Null), expect![""]);
    check_after(of(2, json!("s3://lake/sp/1")), expect![""]);
}

#[track_caller]
fn check_jar(jar: &str, operator: &[(&str, &str)], host: Option<HostLookup>, expected: Expect) {
    let operator = OperatorConfig::new(operator.iter().copied().collect());
    let spec = spec(json!({ "deploymentName": "s", "job": { "jarURI": jar, "parallelism": 1 } }));
    check(&SessionJobInput { host, ..input(&spec, &operator) }, expected);
}

#[test]
fn j04_j05_j06_j07_jars_come_from_allowed_places() {
    check_jar(
        "https://h/my job.jar",
        &[],
        None,
        expect![[r#"
        spec.job.jarURI: `https://h/my job.jar` is not a URI: character ` ` must be escaped
    "#]],
    );
    let schemes = ("kubernetes.operator.user.artifacts.allowed-schemes", "https;s3;http");
    check_jar("s3://bucket/a.jar", &[schemes], None, expect![""]);
    check_jar(
        "local:///a.jar",
        &[],
        None,
        expect![[r#"
            spec.job.jarURI: scheme `local` is not one of `https`: the operator allows more with `kubernetes.operator.user.artifacts.allowed-schemes`
        "#]],
    );
    check_jar(
        "a.jar",
        &[],
        None,
        expect![[r#"
            spec.job.jarURI: `a.jar` has no scheme, such as `https://`
        "#]],
    );
    check_jar(
        "https:///a.jar",
        &[],
        None,
        expect![[r#"
            spec.job.jarURI: `https:///a.jar` has no host
        "#]],
    );
}

#[test]
fn j07_j08_jars_come_from_public_hosts() {
    let jar = "https://repo.example.com/a.jar";
    let at = |text: &str| Some(HostLookup::Address(text.parse().unwrap()));
    check_jar(jar, &[], at("93.184.216.34"), expect![""]);
    check_jar(
        jar,
        &[],
        Some(HostLookup::Unknown),
        expect![[r#"
            spec.job.jarURI: host `repo.example.com` cannot be resolved: correct it, or add it to DNS
        "#]],
    );
    check_jar(
        jar,
        &[],
        at("10.1.2.3"),
        expect![[r#"
        spec.job.jarURI: host `repo.example.com` is `10.1.2.3`, which is not a public address: the operator allows such hosts with `kubernetes.operator.user.artifacts.disallow-restricted-hosts: false`
    "#]],
    );
    let range = ("kubernetes.operator.user.artifacts.restricted-ranges", "93.184.216.0/24");
    check_jar(
        jar,
        &[range],
        at("93.184.216.34"),
        expect![[r#"
        spec.job.jarURI: host `repo.example.com` is `93.184.216.34`, which is not a public address: the operator allows such hosts with `kubernetes.operator.user.artifacts.disallow-restricted-hosts: false`
    "#]],
    );
    let open = ("kubernetes.operator.user.artifacts.disallow-restricted-hosts", "false");
    check_jar(jar, &[open], at("127.0.0.1"), expect![""]);
}

#[test]
fn only_web_hosts_are_resolved() {
    let operator = OperatorConfig::default();
    let host = |jar: &str| {
        let spec = spec(json!({ "job": { "jarURI": jar } }));
        host_to_resolve(&spec, &operator).map(ToOwned::to_owned)
    };
    assert_eq!(host("HTTPS://example.com/a.jar").as_deref(), Some("example.com"));
    assert_eq!(host("s3://bucket/a.jar"), None);
    assert_eq!(host("not a uri"), None);
}

#[test]
fn j09_to_j13_what_the_cluster_adds() {
    let operator = OperatorConfig::default();
    let application: FlinkDeploymentSpec =
        serde_json::from_value(json!({ "flinkVersion": "v1_20", "job": {} })).unwrap();
    let spec = spec(json!({
        "deploymentName": "s",
        "job": { "jarURI": "https://h/a.jar", "upgradeMode": "savepoint" },
        "flinkConfiguration": { "job.autoscaler.enabled": "true", "job.autoscaler.utilization.target": 3, "job.autoscaler.metrics.window": "1 s" }
    }));
    let cluster = Some(SessionCluster { name: "other", spec: &application });
    check(
        &SessionJobInput { cluster, ..input(&spec, &operator) },
        expect![[r#"
            spec.deploymentName: `other` is an application cluster, which only runs its own job
            spec.deploymentName: does not name the session cluster `other`
            spec.flinkConfiguration.state.checkpoints.dir: must be set: upgrade mode `savepoint` restores from it
            spec.flinkConfiguration.state.savepoints.dir: must be set: upgrade mode `savepoint` writes to it
            spec.job.parallelism: is missing: it must be 1 or more
            spec.flinkConfiguration.job.autoscaler.utilization.target: `3` is out of range: it must be from 0 to 1
            spec.flinkConfiguration.job.autoscaler.metrics.window: `1 s` is shorter than `kubernetes.operator.reconcile.interval`, which is 1 min: there would be fewer than two samples
        "#]],
    );
}

#[test]
fn j11_no_cluster_takes_a_job_without_parallelism() {
    let operator = OperatorConfig::default();
    let spec = spec(json!({ "deploymentName": "s", "job": { "jarURI": "https://h/a.jar" } }));
    check(
        &input(&spec, &operator),
        expect![[r#"
            spec.job.parallelism: is missing: it must be 1 or more
        "#]],
    );
}

#[test]
fn j13a_high_availability_is_the_clusters() {
    let operator = OperatorConfig::default();
    let with = |options: Value| {
        spec(json!({ "deploymentName": "s", "job": job(), "flinkConfiguration": options }))
    };
    let copied = with(json!({
        "high-availability": {"type": "kubernetes", "storageDir": "s3://lake/ha"},
        "state.backend.type": "rocksdb",
    }));
    check(
        &input(&copied, &operator),
        expect![[r#"
            spec.flinkConfiguration.high-availability.storageDir: a session job uses the high availability of its cluster: remove the option, or set it there
            spec.flinkConfiguration.high-availability.type: a session job uses the high availability of its cluster: remove the option, or set it there
        "#]],
    );
    // A job that has been running like this is left alone.
    let mut input = input(&copied, &operator);
    input.last_reconciled = Some(&copied);
    check(&input, expect![""]);
    let older = with(json!({"high-availability.type": "NONE"}));
    input.last_reconciled = Some(&older);
    check(
        &input,
        expect![[r#"
            spec.flinkConfiguration.high-availability.storageDir: a session job uses the high availability of its cluster: remove the option, or set it there
        "#]],
    );
}
