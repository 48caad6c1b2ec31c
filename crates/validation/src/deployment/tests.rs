use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::{lines, validate};
use config::OperatorConfig;

/// A valid application; tests override what they need.
fn application() -> Value {
    json!({
        "image": "flink:1.20",
        "flinkVersion": "v1_20",
        "serviceAccount": "flink",
        "jobManager": { "resource": { "memory": "2048m", "cpu": 1 } },
        "taskManager": { "resource": { "memory": "2048m", "cpu": 1 } },
        "job": { "jarURI": "local:///opt/flink/job.jar", "parallelism": 2 }
    })
}

/// Returns `base` with each value at its pointer; `null` removes.
fn with(mut base: Value, changes: &[(&str, Value)]) -> Value {
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let mut target = &mut base;
        for part in parent.split('/').filter(|part| !part.is_empty()) {
            target = target.as_object_mut().unwrap().entry(part).or_insert(json!({}));
        }
        target.as_object_mut().unwrap().insert((*name).to_owned(), value.clone());
    }
    base
}

fn spec(value: &Value) -> FlinkDeploymentSpec {
    serde_json::from_value(value.clone()).unwrap()
}

struct Case<'a> {
    name: &'a str,
    spec: Value,
    last: Option<Value>,
    operator: &'a [(&'a str, &'a str)],
}

fn case(changes: &[(&str, Value)]) -> Case<'static> {
    Case { name: "job", spec: with(application(), changes), last: None, operator: &[] }
}

impl Case<'_> {
    #[track_caller]
    fn check(&self, expected: Expect) {
        let operator = OperatorConfig::new(self.operator.iter().copied().collect());
        let spec_now = spec(&self.spec);
        let last = self.last.as_ref().map(spec);
        let violations = validate(&ValidationInput {
            name: self.name,
            namespace: "ns",
            spec: &spec_now,
            last_reconciled: last.as_ref(),
            operator: &operator,
        });
        expected.assert_eq(&lines(&violations));
    }
}

#[test]
fn a_sound_application_has_no_violations() {
    case(&[]).check(expect![""]);
}

#[test]
fn a_sound_session_cluster_has_no_violations() {
    case(&[("/job", Value::Null)]).check(expect![""]);
}

/// One edit can fix them all.
#[test]
fn all_violations_are_reported_at_once() {
    Case {
        name: "My_Job",
        spec: json!({ "job": { "upgradeMode": "last-state" } }),
        last: None,
        operator: &[],
    }
    .check(expect![[r#"
        metadata.name: invalid name `My_Job`: it must start with a lower case letter, end with a letter or digit, and have at most 45 lower case letters, digits and `-`
        spec.flinkVersion: must be set to the Flink version of the image, such as `v1_20`
        spec.flinkConfiguration.state.checkpoints.dir: must be set: upgrade mode `last-state` restores from it
        spec.job.parallelism: is missing: it must be 1 or more
        spec.jobManager.resource.memory: must be set, or `jobmanager.memory.process.size` in spec.flinkConfiguration
        spec.taskManager.resource.memory: must be set, or `taskmanager.memory.process.size` in spec.flinkConfiguration
        spec.serviceAccount: must be set; `kubectl flink init` creates one named `flink`
    "#]]);
}

#[test]
fn d01_names() {
    let long = "a".repeat(45);
    for name in ["a", "a1", "my-job", &long] {
        Case { name, ..case(&[]) }.check(expect![""]);
    }
    let too_long = "a".repeat(46);
    for name in ["", "1a", "a-", "a.b", "A", &too_long] {
        let name_is_blamed = {
            let operator = OperatorConfig::default();
            let spec = spec(&application());
            validate(&ValidationInput {
                name,
                namespace: "ns",
                spec: &spec,
                last_reconciled: None,
                operator: &operator,
            })
        };
        assert_eq!(name_is_blamed.len(), 1, "{name}");
        assert_eq!(name_is_blamed[0].path, "metadata.name");
    }
}

#[test]
fn d02_d03_versions() {
    case(&[("/flinkVersion", Value::Null)]).check(expect![[r#"
        spec.flinkVersion: must be set to the Flink version of the image, such as `v1_20`
    "#]]);
    case(&[("/flinkVersion", json!("v1_14"))]).check(expect![[r#"
        spec.flinkVersion: `v1_14` is not supported; the oldest supported version is `v1_15`
    "#]]);
    case(&[("/flinkVersion", json!("v1_15"))]).check(expect![""]);
}

#[test]
fn d05_keys_of_the_operator() {
    case(&[(
        "/flinkConfiguration",
        json!({ "kubernetes": { "cluster-id": "x" }, "high-availability.cluster-id": "y" }),
    )])
    .check(expect![[r#"
        spec.flinkConfiguration.kubernetes.cluster-id: the operator alone sets this key
        spec.flinkConfiguration.high-availability.cluster-id: the operator alone sets this key
    "#]]);
    Case { operator: &[("kubernetes.namespace", "x")], ..case(&[]) }.check(expect![[r#"
        operator configuration `kubernetes.namespace`: the operator alone sets this key
    "#]]);
}

#[test]
fn d06_rollback_needs_high_availability() {
    let on = json!({ "kubernetes.operator.deployment.rollback.enabled": true });
    case(&[("/flinkConfiguration", on.clone())]).check(expect![[r#"
        spec.flinkConfiguration.kubernetes.operator.deployment.rollback.enabled: rollback needs high availability: set `high-availability.type: kubernetes`
    "#]]);
    for ha in ["high-availability", "high-availability.type"] {
        let mut on = on.clone();
        on[ha] = json!("kubernetes");
        case(&[("/flinkConfiguration", on)]).check(expect![""]);
    }
}

#[test]
fn d07_health_check_needs_recovery() {
    case(&[(
        "/flinkConfiguration",
        json!({
            "kubernetes.operator.cluster.health-check.enabled": true,
            "kubernetes.operator.jm-deployment-recovery.enabled": "false"
        }),
    )])
    .check(expect![[r#"
        spec.flinkConfiguration.kubernetes.operator.cluster.health-check.enabled: the health check restarts clusters: it needs `kubernetes.operator.jm-deployment-recovery.enabled`
    "#]]);
}

#[test]
fn values_that_cannot_be_read() {
    case(&[(
        "/flinkConfiguration",
        json!({
            "kubernetes.operator.deployment.rollback.enabled": "maybe",
            "kubernetes.operator.reconcile.interval": "soon",
            "taskmanager.numberOfTaskSlots": 0,
            "kubernetes.jobmanager.annotations": "no-colon"
        }),
    )])
    .check(expect![[r#"
        spec.flinkConfiguration.kubernetes.operator.reconcile.interval: invalid value `soon`: expected a whole number and one of d, h, min, s, ms, us or ns, such as `30 s`
        spec.flinkConfiguration.kubernetes.operator.deployment.rollback.enabled: invalid value `maybe`: expected `true` or `false`
        spec.flinkConfiguration.kubernetes.jobmanager.annotations: invalid value `no-colon`: expected a map such as `k1:v1,k2:v2`
        spec.flinkConfiguration.taskmanager.numberOfTaskSlots: is `0`: it must be 1 or more
    "#]]);
}

#[test]
fn d08_d09_ingress_templates() {
    case(&[("/ingress", json!({}))]).check(expect![[r#"
        spec.ingress.template: must be set, such as `{{name}}.{{namespace}}.flink.example.com`
    "#]]);
    case(&[("/ingress", json!({ "template": "example.com:port" }))]).check(expect![[r#"
        spec.ingress.template: `example.com:port` is not a URL: `port` is not a port
    "#]]);
    for template in [
        "",
        "{{name}}.{{NAMESPACE}}.example.com",
        "/{{namespace}}/{{name}}(/|$)(.*)",
        "HTTPS://a:8443/b",
    ] {
        case(&[("/ingress", json!({ "template": template }))]).check(expect![""]);
    }
    assert_eq!(fill_in("{{Name}}.x/{{namespace}}", "{{name}}", "n"), "http://{{name}}.x/n");
}

#[test]
fn d10_log_files() {
    case(&[(
        "/logConfiguration",
        json!({ "log4j-console.properties": "", "log4j.properties": "" }),
    )])
    .check(expect![[r#"
        spec.logConfiguration.log4j.properties: only `log4j-console.properties` and `logback-console.xml` can be set
    "#]]);
}

#[test]
fn d11_d12_directories_that_upgrades_need() {
    case(&[("/job/upgradeMode", json!("last-state"))]).check(expect![[r#"
        spec.flinkConfiguration.state.checkpoints.dir: must be set: upgrade mode `last-state` restores from it
    "#]]);
    case(&[
        ("/job/upgradeMode", json!("savepoint")),
        ("/flinkConfiguration", json!({ "execution.checkpointing.dir": " " })),
    ])
    .check(expect![[r#"
        spec.flinkConfiguration.execution.checkpointing.dir: must be set: upgrade mode `savepoint` restores from it
        spec.flinkConfiguration.state.savepoints.dir: must be set: upgrade mode `savepoint` writes to it
    "#]]);
    case(&[
        ("/job/upgradeMode", json!("savepoint")),
        (
            "/flinkConfiguration",
            json!({ "state.checkpoints.dir": "s3://c", "state.savepoints.dir": "s3://s" }),
        ),
    ])
    .check(expect![""]);
    case(&[
        ("/job/savepointTriggerNonce", json!(1)),
        (
            "/flinkConfiguration",
            json!({
                "kubernetes.operator.periodic.savepoint.interval": "",
                "kubernetes.operator.job.upgrade.last-state.max.allowed.checkpoint.age": "1 h"
            }),
        ),
    ])
    .check(expect![[r#"
        spec.flinkConfiguration.state.savepoints.dir: must be set: `savepointTriggerNonce` asks for a savepoint, and `kubernetes.operator.periodic.savepoint.interval` is set, and `kubernetes.operator.job.upgrade.last-state.max.allowed.checkpoint.age` falls back to savepoints
    "#]]);
}

#[test]
fn d13_d14_d18_d19_d23_parallelism_and_replicas() {
    case(&[("/job/parallelism", Value::Null)]).check(expect![[r#"
        spec.job.parallelism: is missing: it must be 1 or more
    "#]]);
    case(&[("/job/parallelism", json!(0)), ("/taskManager/replicas", json!(2))]).check(expect![""]);
    case(&[("/taskManager/replicas", json!(0))]).check(expect![[r#"
        spec.taskManager.replicas: is `0`: it must be 1 or more; to stop the job set spec.job.state to `suspended`
    "#]]);
    case(&[("/job", Value::Null), ("/taskManager/replicas", json!(0))]).check(expect![[r#"
        spec.taskManager.replicas: is `0`: it must be 1 or more
    "#]]);
    case(&[("/jobManager/replicas", json!(0))]).check(expect![[r#"
        spec.jobManager.replicas: is `0`: it must be 1 or more
    "#]]);
    case(&[("/jobManager/replicas", json!(2))]).check(expect![[r#"
        spec.jobManager.replicas: standby JobManagers need high availability: set `high-availability.type: kubernetes`
    "#]]);
    case(&[
        ("/jobManager/replicas", json!(2)),
        ("/flinkConfiguration", json!({ "high-availability.type": "kubernetes" })),
    ])
    .check(expect![""]);
}

#[test]
fn jars_that_cannot_be_named() {
    case(&[("/job/jarURI", json!("local:///my job.jar"))]).check(expect![[r#"
        spec.job.jarURI: `local:///my job.jar` is not a URI: character ` ` must be escaped
    "#]]);
    case(&[("/job/jarURI", Value::Null)]).check(expect![""]);
}

#[test]
fn d15_d16_d17_d20_d21_d22_memory() {
    case(&[("/jobManager", Value::Null), ("/taskManager", Value::Null)]).check(expect![[r#"
        spec.jobManager.resource.memory: must be set, or `jobmanager.memory.process.size` in spec.flinkConfiguration
        spec.taskManager.resource.memory: must be set, or `taskmanager.memory.process.size` in spec.flinkConfiguration
    "#]]);
    case(&[
        ("/jobManager", Value::Null),
        ("/taskManager", Value::Null),
        (
            "/flinkConfiguration",
            json!({ "jobmanager.memory.heap.size": "1g", "taskmanager.memory.flink.size": "2g" }),
        ),
    ])
    .check(expect![""]);
    case(&[
        ("/jobManager/resource/memory", json!("400m")),
        ("/taskManager/resource/memory", json!("1.5Gi")),
    ])
    .check(expect![[r#"
        spec.jobManager.resource.memory: `jobmanager.memory.process.size` of 400 mb is less than the required 448 mb: metaspace 256 mb, JVM overhead 192 mb
        spec.taskManager.resource.memory: invalid value `1.5Gi`: expected a whole number and one of b, kb, mb, gb or tb, such as `2048 mb`, or a quantity such as `2Gi`
    "#]]);
    case(&[(
        "/taskManager/resources",
        json!({ "requests": { "memory": "600m" }, "limits": { "memory": "500m" } }),
    )])
    .check(expect![[r#"
        spec.taskManager.resources.requests.memory: `taskmanager.memory.process.size` of 600 mb is less than the required 829 mb: metaspace and JVM overhead 448 mb, framework and task off-heap memory 256 mb, managed memory 61 mb, network memory 64 mb
        spec.taskManager.resources.requests.memory: `600m` must not exceed the limit, which is `500m`
    "#]]);
}

#[test]
fn keys_that_a_tree_cannot_hold() {
    let both =
        json!({ "high-availability": "kubernetes", "high-availability.storageDir": "s3://h" });
    case(&[("/flinkConfiguration", both.clone())]).check(expect![""]);
    case(&[("/flinkVersion", json!("v2_0")), ("/flinkConfiguration", both)])
        .check(expect![[r#"
            spec.flinkConfiguration.high-availability: cannot be set together with `high-availability.storageDir`: Flink 2 keeps options as a tree
        "#]]);
}

#[test]
fn d24_d25_d26_d27_what_must_not_change() {
    let last = |changes: &[(&str, Value)]| Some(with(application(), changes));
    Case { last: last(&[("/job", Value::Null)]), ..case(&[]) }.check(expect![[r#"
        spec.job: a session cluster cannot become an application cluster
    "#]]);
    Case { last: last(&[]), ..case(&[("/job", Value::Null)]) }.check(expect![[r#"
        spec.job: an application cluster cannot become a session cluster
    "#]]);
    Case { last: last(&[]), ..case(&[("/mode", json!("standalone"))]) }.check(expect![[r#"
        spec.mode: cannot change from `native` to `standalone`
    "#]]);
    Case { last: last(&[("/mode", json!("standalone"))]), ..case(&[]) }.check(expect![[r#"
        spec.mode: cannot change from `standalone` to `native`
    "#]]);
    Case { last: last(&[]), ..case(&[("/mode", json!("native"))]) }.check(expect![""]);
}

#[test]
fn d04_version_is_fixed_while_suspended_by_last_state() {
    let suspended = [("/job/state", json!("suspended")), ("/job/upgradeMode", json!("last-state"))];
    let last = Some(with(application(), &suspended));
    let directory = ("/flinkConfiguration", json!({ "state.checkpoints.dir": "s3://c" }));
    let newer = ("/flinkVersion", json!("v2_0"));
    let mode = ("/job/upgradeMode", json!("last-state"));
    Case { last: last.clone(), ..case(&[newer.clone(), mode.clone(), directory.clone()]) }
        .check(expect![[r#"
            spec.flinkVersion: cannot change while the job is suspended by `last-state`: resume it with `v1_20` first, then upgrade
        "#]]);
    Case { last: last.clone(), ..case(&[mode, directory]) }.check(expect![""]);
    Case { last, ..case(&[newer]) }.check(expect![""]);
}

#[test]
fn d28_savepoint_redeploy_needs_its_savepoint() {
    let last = || Some(with(application(), &[("/job/savepointRedeployNonce", json!(1))]));
    Case {
        last: last(),
        ..case(&[
            ("/job/savepointRedeployNonce", json!(2)),
            ("/job/initialSavepointPath", json!(" ")),
        ])
    }
    .check(expect![[r#"
        spec.job.initialSavepointPath: must be set: `savepointRedeployNonce` starts the job from it
    "#]]);
    Case { last: last(), ..case(&[("/job/savepointRedeployNonce", json!(1))]) }.check(expect![""]);
    Case { last: last(), ..case(&[]) }.check(expect![""]);
}

#[test]
fn d29_pods() {
    case(&[("/serviceAccount", Value::Null), ("/imagePullPolicy", json!("always"))])
        .check(expect![[r#"
            spec.serviceAccount: must be set; `kubectl flink init` creates one named `flink`
            spec.imagePullPolicy: invalid value `always`: expected `IfNotPresent`, `Always` or `Never`
        "#]]);
    case(&[("/serviceAccount", json!(""))]).check(expect![""]);
}

#[test]
fn arguments_that_the_old_file_would_cut_are_refused_where_they_pass_through_it() {
    let args = ("/job/args", json!(["--ok", "a#b", " it's; fine ", "two\nlines"]));
    case(std::slice::from_ref(&args)).check(expect![[r##"
        spec.job.args[1]: contains a `#` or a line break, where flink-conf.yaml would cut it; Flink 2.0 and standalone mode pass it unchanged
        spec.job.args[3]: contains a `#` or a line break, where flink-conf.yaml would cut it; Flink 2.0 and standalone mode pass it unchanged
    "##]]);
    case(&[args.clone(), ("/flinkVersion", json!("v2_0"))]).check(expect![""]);
    case(&[args, ("/mode", json!("standalone"))]).check(expect![""]);
}

const KEYTAB: &str = "/flinkConfiguration/security.kerberos.login.keytab";
const KEYTAB_SECRET: &str = "/flinkConfiguration/kubernetes.operator.kerberos.keytab.secret.name";
const PRINCIPAL: &str = "/flinkConfiguration/security.kerberos.login.principal";

#[test]
fn a_keytab_goes_with_a_principal() {
    let (keytab, principal) = ((KEYTAB, json!("/k/it.keytab")), (PRINCIPAL, json!("it@EXAMPLE")));
    let krb5 = ("/flinkConfiguration/security.kerberos.krb5-conf.path", json!("/k/krb5.conf"));
    // Only the operator knows whether it has these files.
    case(&[keytab.clone(), principal, krb5]).check(expect![""]);
    case(std::slice::from_ref(&keytab)).check(expect![[r#"
        spec.flinkConfiguration.security.kerberos.login.keytab: is a keytab without a principal, and Flink does not start with it: set `security.kerberos.login.principal`
    "#]]);
    case(&[(KEYTAB_SECRET, json!("orders-keytab"))]).check(expect![[r#"
        spec.flinkConfiguration.kubernetes.operator.kerberos.keytab.secret.name: is a keytab without a principal, and Flink does not start with it: set `security.kerberos.login.principal`
    "#]]);
    // A suspended job starts no pods.
    case(&[keytab, ("/job/state", json!("suspended"))]).check(expect![""]);
    // Options that need no file are up to Flink.
    case(&[(
        "/flinkConfiguration",
        json!({
            "security.kerberos.login.contexts": "Client,KafkaClient",
            "security.kerberos.login.use-ticket-cache": true,
            "security.kerberos.login.keytab": " "
        }),
    )])
    .check(expect![""]);
    let of_defaults = [("security.keytab", "/etc/it.keytab")];
    Case { operator: &of_defaults, ..case(&[]) }.check(expect![[r#"
        operator configuration `security.keytab`: is a keytab without a principal, and Flink does not start with it: set `security.kerberos.login.principal`
    "#]]);
}

#[test]
fn a_secret_of_the_user_needs_a_flink_that_leaves_its_own_out() {
    let secret = (KEYTAB_SECRET, json!("orders-keytab"));
    let principal = (PRINCIPAL, json!("it@EXAMPLE"));
    let old = ("/flinkVersion", json!("v1_16"));
    case(&[secret.clone(), principal.clone()]).check(expect![""]);
    case(&[secret.clone(), principal.clone(), old.clone()]).check(expect![[r#"
        spec.flinkConfiguration.kubernetes.operator.kerberos.keytab.secret.name: before Flink 1.17 a native JobManager starts TaskManagers that wait for a different Secret: use Flink 1.17, or `spec.mode: standalone`
    "#]]);
    case(&[secret, principal, old, ("/mode", json!("standalone"))]).check(expect![""]);
    // A switch that is neither on nor off.
    let switch = ("/flinkConfiguration/kubernetes.decorator.kerberos-mount.enabled", json!("no"));
    let of_hadoop =
        ("/flinkConfiguration/kubernetes.decorator.hadoop-conf-mount.enabled", json!("no"));
    case(&[switch, of_hadoop]).check(expect![[r#"
        spec.flinkConfiguration.kubernetes.decorator.kerberos-mount.enabled: invalid value `no`: expected `true` or `false`
        spec.flinkConfiguration.kubernetes.decorator.hadoop-conf-mount.enabled: invalid value `no`: expected `true` or `false`
    "#]]);
}
