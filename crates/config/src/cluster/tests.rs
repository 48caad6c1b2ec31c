use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn id() -> ResourceId {
    ResourceId { namespace: "shop".into(), name: "orders".into(), uid: "u1".into() }
}

fn spec(value: Value) -> FlinkDeploymentSpec {
    serde_json::from_value(value).unwrap()
}

fn operator() -> OperatorConfig {
    OperatorConfig::default()
}

/// The derived part: without what every cluster has.
fn check(config: &FlinkConfig, expected: Expect) {
    let common = [
        "env.java.default-opts.all",
        "kubernetes.namespace",
        "kubernetes.cluster-id",
        "web.cancel.enable",
        "kubernetes.rest-service.exposed.type",
        "kubernetes.jobmanager.owner.reference",
        "$internal.flink.version",
    ];
    let lines: Vec<_> = config
        .iter()
        .filter(|(key, _)| !common.contains(key))
        .map(|(key, value)| format!("{key}: {value}\n"))
        .collect();
    expected.assert_eq(&lines.concat());
}

fn deploy(value: Value) -> Result<FlinkConfig, InvalidValue> {
    let spec = spec(value);
    let mode = spec.job.as_ref().map(|job| job.upgrade_mode);
    deploy_config(&operator(), &id(), &spec, mode, 3)
}

#[test]
fn options_that_flink_2_does_not_read_count_for_nothing_there() {
    let of = |version| {
        deploy(json!({
            "flinkVersion": version,
            "flinkConfiguration": {
                "security.ssl.enabled": "true", "jobmanager.heap.size": "3g", "jobmanager.heap.mb": 2048,
                "taskmanager.network.numberOfBuffers": 1024,
                "taskmanager.network.memory.buffers-per-channel": 4,
                "taskmanager.network.memory.floating-buffers-per-gate": 16,
                "taskmanager.network.memory.min": "32m", "state.backend.fs.checkpointdir": "s3://b/chk",
            },
        }))
        .unwrap()
    };
    for (version, is_read) in [("v1_20", true), ("v2_0", false), ("v2_3", false)] {
        let config = of(version);
        for key in options::GONE_IN_FLINK_2 {
            assert_eq!(config.contains(key), is_read, "{key} of {version}");
        }
        assert_eq!(config.get(&options::SSL_REST_ENABLED), Ok(is_read), "{version}");
        // Names that are deprecated in both.
        assert_eq!(config.text_of(&options::TASK_MANAGER_NETWORK_MIN), Some("32m"));
        assert_eq!(config.text_of(&options::CHECKPOINT_DIRECTORY), Some("s3://b/chk"));
    }
}

#[test]
fn a_native_application() {
    check(
        &deploy(json!({
            "flinkVersion": "v1_20", "image": "i", "imagePullPolicy": "Always", "serviceAccount": "flink",
            "flinkConfiguration": {"high-availability": {"type": "kubernetes"}, "kubernetes.jobmanager.annotations": "a:b"},
            "jobManager": {"resource": {"memory": "2048m", "cpu": 0.5}},
            "taskManager": {"resource": {"memory": "4Gi", "cpu": 2}},
            "job": {"jarURI": "local:///a.jar", "entryClass": "C", "args": ["--w", "3;s"], "parallelism": 5, "upgradeMode": "last-state", "allowNonRestoredState": true},
        }))
        .unwrap(),
        expect![[r#"
            $internal.application.main: C
            $internal.application.program-args: --w;'3;s'
            execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION
            execution.checkpointing.interval: 5 min
            execution.savepoint.ignore-unclaimed-state: true
            execution.shutdown-on-application-finish: false
            execution.submit-failed-job-on-application-error: true
            execution.target: kubernetes-application
            high-availability.cluster-id: orders
            high-availability.type: kubernetes
            jobmanager.memory.process.size: 2 gb
            kubernetes.container.image.pull-policy: Always
            kubernetes.container.image.ref: i
            kubernetes.jobmanager.annotations: a:b,flinkdeployment.flink.apache.org/generation:3
            kubernetes.jobmanager.cpu.amount: 0.5
            kubernetes.jobmanager.replicas: 1
            kubernetes.service-account: flink
            kubernetes.taskmanager.cpu.amount: 2.0
            parallelism.default: 5
            pipeline.jars: local:///a.jar
            pipeline.name: orders
            taskmanager.memory.process.size: 4294967296
        "#]],
    );
}

#[test]
fn flink_before_1_17_gets_the_older_names() {
    check(
        &deploy(json!({"flinkVersion": "v1_16", "image": "i", "jobManager": {"resource": {"cpu": 1}, "replicas": 2}})).unwrap(),
        expect![[r#"
            execution.target: kubernetes-session
            kubernetes.container.image: i
            kubernetes.jobmanager.annotations: flinkdeployment.flink.apache.org/generation:3
            kubernetes.jobmanager.cpu: 1.0
            kubernetes.jobmanager.cpu.amount: 1.0
            kubernetes.jobmanager.replicas: 2
        "#]],
    );
}

#[test]
fn requests_and_limits_make_factors_by_one_rule() {
    check(
        &deploy(json!({
            "flinkVersion": "v1_20",
            "jobManager": {
                "resource": {"memory": "1g"},
                "resources": {"requests": {"memory": "2048m", "cpu": "500m"}, "limits": {"memory": "4Gi", "cpu": 1}},
            },
            "taskManager": {"resources": {"limits": {"memory": "2Gi", "nvidia.com/gpu": 1}}},
        }))
        .unwrap(),
        expect![[r#"
            execution.target: kubernetes-session
            jobmanager.memory.process.size: 2 gb
            kubernetes.jobmanager.annotations: flinkdeployment.flink.apache.org/generation:3
            kubernetes.jobmanager.cpu.amount: 0.5
            kubernetes.jobmanager.cpu.limit-factor: 2.0
            kubernetes.jobmanager.memory.limit-factor: 2.0
            kubernetes.jobmanager.replicas: 1
            taskmanager.memory.process.size: 2147483648
        "#]],
    );
}

#[test]
fn standalone_replicas_follow_parallelism_or_decide_it() {
    let job = |task_manager: Value, overrides: &str| {
        let config = deploy(json!({
            "flinkVersion": "v1_20", "mode": "standalone", "taskManager": task_manager,
            "flinkConfiguration": {"taskmanager.numberOfTaskSlots": 2, "pipeline.jobvertex-parallelism-overrides": overrides},
            "job": {"jarURI": "local:///a.jar", "parallelism": 5},
        }))
        .unwrap();
        let text = |key| config.get_text(key).unwrap().to_owned();
        (text("parallelism.default"), text("kubernetes.internal.taskmanager.replicas"))
    };
    assert_eq!(job(json!({}), ""), ("5".into(), "3".into()));
    assert_eq!(job(json!({"replicas": 4}), ""), ("8".into(), "4".into()));
    assert_eq!(job(json!({}), "a:3,b:9"), ("9".into(), "5".into()));
}

#[test]
fn the_checkpoint_default_follows_what_the_user_asks_for() {
    let stored = spec(json!({"flinkVersion": "v1_20", "job": {"upgradeMode": "stateless"}}));
    let interval = |mode| {
        let config = deploy_config(&operator(), &id(), &stored, Some(mode), 1).unwrap();
        config.text_of(&options::CHECKPOINTING_INTERVAL).map(str::to_owned)
    };
    assert_eq!(interval(UpgradeMode::LastState).as_deref(), Some("5 min"));
    assert_eq!(interval(UpgradeMode::Savepoint), None);
}

#[test]
fn forced_values_win_under_every_name() {
    let config = deploy(json!({
        "flinkVersion": "v1_20", "image": "mine",
        "flinkConfiguration": {
            "kubernetes.container.image": "theirs", "high-availability": "kubernetes",
            "high-availability.zookeeper.path.namespace": "/x", "execution.state-recovery.ignore-unclaimed-state": "true",
        },
        "job": {"allowNonRestoredState": false},
    }));
    let config = config.unwrap();
    assert_eq!(config.text_of(&options::CONTAINER_IMAGE), Some("mine"));
    assert_eq!(config.text_of(&options::HA_CLUSTER_ID), Some("orders"));
    assert_eq!(config.get(&options::SAVEPOINT_IGNORE_UNCLAIMED_STATE), Ok(false));
    assert!(!config.contains("kubernetes.container.image"));
}

#[test]
fn operator_options_and_savepoint_directory_are_observed_from_the_current_spec() {
    let deployed = spec(json!({"flinkVersion": "v1_20", "flinkConfiguration": {
        "state.savepoints.dir": "s3://old", "k": "old",
        "kubernetes.operator.job.restart.failed": "true", "kubernetes.operator.savepoint.format.type": "NATIVE",
    }}));
    let current = spec(json!({"flinkVersion": "v2_0", "flinkConfiguration": {
        "execution.checkpointing.savepoint-dir": "s3://new", "k": "new",
        "kubernetes.operator.job.restart.failed": "false",
    }}));
    check(
        &observe_config(&operator(), &id(), &deployed, &current).unwrap(),
        expect![[r#"
            execution.checkpointing.savepoint-dir: s3://new
            execution.target: kubernetes-session
            k: old
            kubernetes.operator.job.restart.failed: false
        "#]],
    );
}

#[test]
fn high_availability_is_anything_but_none() {
    let on =
        |key: &str, value: &str| is_high_availability_on(&[(key, value)].into_iter().collect());
    assert!(on("high-availability.type", "kubernetes"));
    assert!(on("high-availability", "org.example.Factory"));
    assert!(!on("high-availability.type", "NONE"));
    assert!(!on("high-availability.type", " "));
    assert!(!is_high_availability_on(&FlinkConfig::new()));
}

#[test]
fn metadata_are_found_again_in_the_same_kind_of_store_at_the_same_root() {
    let config = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<FlinkConfig>();
    let zookeeper = |quorum, root| {
        config(&[
            ("high-availability.type", "zookeeper"),
            ("high-availability.zookeeper.quorum", quorum),
            ("high-availability.zookeeper.path.root", root),
        ])
    };
    let kubernetes = config(&[("high-availability.type", "kubernetes")]);
    let former = config(&[(
        "high-availability",
        "org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory",
    )]);
    let none = FlinkConfig::new();
    let home = zookeeper("a:2181,b:2181", "/flink");
    assert!(is_metadata_shared(&kubernetes, &former));
    assert!(is_metadata_shared(&home, &zookeeper("c:2181, B:2181", "flink/")));
    for (one, other) in [
        (&kubernetes, &home),
        (&home, &kubernetes),
        (&kubernetes, &none),
        (&none, &kubernetes),
        (&none, &none),
        (&home, &zookeeper("a:2181", "/other")),
        (&home, &zookeeper("c:2181", "/flink")),
    ] {
        assert!(!is_metadata_shared(one, other), "{one:?} {other:?}");
    }
}

#[test]
fn only_the_zookeeper_that_the_operator_allows_is_in_reach() {
    let reason = |operator: &[(&str, &str)], quorum, root| {
        let config = [
            ("high-availability.zookeeper.quorum", quorum),
            ("high-availability.zookeeper.path.root", root),
        ];
        let operator = operator.iter().copied().collect();
        zookeeper_out_of_reach(&config.into_iter().collect(), &operator)
    };
    let allowed = ("kubernetes.operator.zookeeper.allowed-servers", "a:2181; B,[::1]:2182");
    for quorum in ["a:2181", "A , b:2181/any", "[::1]:2182"] {
        assert_eq!(reason(&[allowed], quorum, "/other"), None, "{quorum}");
    }
    for quorum in ["a:2182", "a:2181,kafka-zk.kafka:2181", "[::1]", "tcp://a:2181", "a.b"] {
        assert_eq!(reason(&[], quorum, "/other"), None, "{quorum}");
        let reason = reason(&[allowed], quorum, "/other").unwrap();
        assert!(reason.contains("allowed-servers"), "{quorum}: {reason}");
    }
    let root = ("high-availability.zookeeper.path.root", "/flink/");
    for (quorum, root_of_job) in [("a", "flink"), ("a", "/flink/team"), ("a/flink", "/")] {
        assert_eq!(reason(&[allowed, root], quorum, root_of_job), None, "{quorum} {root_of_job}");
    }
    for (quorum, root_of_job) in [("a", "/"), ("a", "/flinks"), ("a/kafka", "/flink")] {
        assert_eq!(reason(&[root], quorum, root_of_job), None);
        let reason = reason(&[allowed, root], quorum, root_of_job).unwrap();
        assert!(reason.contains("not below `/flink`"), "{quorum} {root_of_job}: {reason}");
    }
}

#[test]
fn values_out_of_range_are_refused_with_their_path() {
    let message = |value: Value| deploy(value).unwrap_err().to_string();
    assert!(
        message(json!({"imagePullPolicy": "always"}))
            .starts_with("invalid value `always` of `spec.imagePullPolicy`")
    );
    assert!(
        message(json!({"jobManager": {"resource": {"memory": "1.5g"}}}))
            .contains("`spec.jobManager.resource.memory`")
    );
    assert!(
        message(json!({"taskManager": {"resources": {"limits": {"cpu": "much"}}}}))
            .contains("`spec.taskManager.resources.limits.cpu`")
    );
}
