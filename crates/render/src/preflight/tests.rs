use serde_json::json;

use super::*;
use crate::Submission;
use crate::files::HadoopConf;
use crate::names::{INSTANCE_LABEL, NAME_LABEL};
use crate::render_cluster;
use crate::tests::{id, main_container, manifest, submission};
use config::OperatorConfig;
use config::cluster::deploy_config;

fn preflight_by(over: Value, hadoop_conf: Option<&HadoopConf>) -> Preflight {
    let (id, spec, submission) = (id(), manifest(over), submission());
    let config = deploy_config(&OperatorConfig::default(), &id, &spec, None, 1).unwrap();
    let input =
        RenderInput { id: &id, spec: &spec, config: &config, submission: &submission, hadoop_conf };
    let cluster = render_cluster(&input).unwrap();
    let preflight = Preflight::of(&input).unwrap();
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].clone();
    assert_eq!(image(&preflight.pods[0]), main_container(&cluster.deployment)["image"]);
    preflight
}

fn preflight(over: Value) -> Preflight {
    preflight_by(over, None)
}

fn template() -> Value {
    json!({"spec": {
        "initContainers": [
            {"name": "fetch", "image": "curl", "command": ["curl"]},
            {"name": "mesh", "image": "envoy", "restartPolicy": "Always"},
        ],
        "containers": [
            {"name": "flink-main-container", "volumeMounts": [{"name": "data", "mountPath": "/data"}],
             "lifecycle": {"preStop": {"exec": {"command": ["sync"]}}}},
            {"name": "logs", "image": "fluent-bit", "readinessProbe": {"tcpSocket": {"port": 1}}},
        ],
        "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
        "nodeSelector": {"pool": "flink"},
        "affinity": {"nodeAffinity": {"a": 1}, "podAntiAffinity": {"b": 2}},
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "unheardOf": true,
    }})
}

#[test]
fn a_pod_of_each_role_has_what_the_new_pods_have() {
    let Preflight { pods, as_deployed, .. } = preflight(json!({"podTemplate": template()}));
    assert_eq!((pods.len(), as_deployed.len()), (2, 2));
    for (pod, deployed) in pods.iter().zip(&as_deployed) {
        let (spec, of_cluster) = (&pod["spec"], &deployed["spec"]);
        for field in ["nodeSelector", "serviceAccountName", "unheardOf"] {
            assert_eq!(spec[field], of_cluster[field], "{field}");
        }
        assert_eq!(spec["affinity"], json!({"nodeAffinity": {"a": 1}}));
        assert_eq!(spec["topologySpreadConstraints"], Value::Null);
        assert_eq!(spec["initContainers"].as_array().unwrap().len(), 1);
        assert_eq!(spec["initContainers"][0]["command"], json!(["curl"]));
        assert_eq!(spec["volumes"][0], json!({"name": "data", "emptyDir": {}}));
        let containers = spec["containers"].as_array().unwrap();
        let names: Vec<_> = containers.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["flink-main-container", "mesh", "logs"]);
        assert_eq!(containers[0]["volumeMounts"][0]["mountPath"], "/data");
        for container in containers {
            for field in ["lifecycle", "readinessProbe", "startupProbe", "ports", "restartPolicy"] {
                assert_eq!(container[field], Value::Null, "{field} of {}", container["name"]);
            }
            assert_eq!(container["resources"]["requests"]["cpu"], "10m");
        }
        assert_eq!(containers[2]["command"], json!(["true"]));
    }
    let templates = pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap());
    let names: Vec<_> = templates.collect();
    assert_eq!(names, ["orders-preflight-jobmanager", "orders-preflight-taskmanager"]);
}

#[test]
fn nothing_selects_a_pod_that_tries_a_spec_and_its_resource_owns_it() {
    for mode in ["native", "standalone"] {
        let labels = json!({"team": "a", "app": "mine"});
        let template = json!({"metadata": {"labels": labels}});
        for pod in preflight(json!({"mode": mode, "podTemplate": template})).pods {
            let metadata = &pod["metadata"];
            assert_eq!(metadata["labels"]["team"], "a", "network policies go by such labels");
            for label in ["app", "component", "type"] {
                assert_eq!(metadata["labels"][label], Value::Null);
            }
            assert_eq!(metadata["labels"][NAME_LABEL], NAME);
            assert_eq!(metadata["ownerReferences"][0]["uid"], "u1");
            assert_eq!(pod["spec"]["readinessGates"][0]["conditionType"], NEVER_READY);
            assert!(pod["spec"]["activeDeadlineSeconds"].is_i64());
        }
    }
}

#[test]
fn the_new_configuration_is_mounted_and_not_that_of_what_runs() {
    let Preflight { config_maps, pods, .. } = preflight(json!({"podTemplate": template()}));
    let names: Vec<_> = config_maps.iter().map(|map| map["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["preflight-flink-config-orders", "preflight-pod-template-orders"]);
    for map in &config_maps {
        assert_eq!(map["metadata"]["labels"][INSTANCE_LABEL], "orders");
        assert_eq!(map["metadata"]["ownerReferences"][0]["kind"], "FlinkDeployment");
    }
    for pod in pods {
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let mounted = volumes.iter().find(|it| it["name"] == "flink-config-volume").unwrap();
        assert_eq!(mounted["configMap"]["name"], names[0]);
    }
}

#[test]
fn a_keytab_of_the_operator_is_not_copied_and_hadoops_configuration_is() {
    let hadoop =
        HadoopConf { directory: "/etc/hadoop".to_owned(), files: vec!["core-site.xml".to_owned()] };
    let options = json!({
        "security.kerberos.login.keytab": "/opt/it.keytab",
        "security.kerberos.login.principal": "flink",
    });
    let preflight = preflight_by(json!({"flinkConfiguration": options}), Some(&hadoop));
    let made: Vec<_> = preflight.files.iter().map(|it| &it.manifest["metadata"]["name"]).collect();
    assert_eq!(made, ["preflight-hadoop-config-orders"]);
    let volumes = preflight.pods[0]["spec"]["volumes"].as_array().unwrap();
    let of = |name: &str| volumes.iter().find(|it| it["name"] == name).unwrap();
    assert_eq!(of("hadoop-config-volume")["configMap"]["name"], "preflight-hadoop-config-orders");
    assert_eq!(of("kerberos-keytab-volume")["secret"]["optional"], true);
}

#[test]
fn the_check_names_the_jars_of_the_image_and_the_role() {
    let check = |over: Value, role: usize| {
        let container = preflight(over).pods[role]["spec"]["containers"][0].clone();
        let words = ["command", "args"]
            .into_iter()
            .flat_map(|field| container[field].as_array().cloned().unwrap_or_default().into_iter());
        words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let job = |uri: &str| json!({"job": {"jarURI": uri, "parallelism": 1}});
    let of_job_manager = check(job("local:///opt/it's ROLE.jar"), 0);
    assert_eq!(of_job_manager[0], "/docker-entrypoint.sh");
    assert!(of_job_manager[5].starts_with(r"set -- '/opt/it'\''s ROLE.jar'"), "{of_job_manager:?}");
    assert!(of_job_manager[5].contains("GET_JM_RESOURCE_PARAMS"));
    assert!(check(job("https://example.com/a.jar"), 0)[5].starts_with("set -- \n"));
    let of_task_manager = &check(job("local:///opt/a.jar"), 1)[5];
    assert!(of_task_manager.starts_with("set -- \n"), "{of_task_manager}");
    assert!(of_task_manager.contains("GET_TM_RESOURCE_PARAMS"));
    let options = json!({"kubernetes.entry.path": "/start.sh"});
    assert_eq!(check(json!({"flinkConfiguration": options}), 0)[0], "bash");
}

#[test]
fn the_same_spec_has_the_same_digest_whatever_start_it_is_for() {
    let digest = |over: Value| preflight(over).digest;
    let plain = digest(json!({}));
    assert_eq!(plain, digest(json!({})));
    assert_ne!(plain, digest(json!({"image": "flink:1.21"})));
    assert_ne!(plain, digest(json!({"flinkConfiguration": {"a": "b"}})));
    assert_eq!(
        preflight(json!({})).pods[0]["metadata"]["annotations"][PREFLIGHT_ANNOTATION],
        plain
    );
}

#[test]
fn pods_that_stand_by_are_those_of_the_cluster_under_other_labels() {
    let over = json!({"mode": "standalone", "taskManager": {"replicas": 2, "resource": {"memory": "1g", "cpu": 1}}});
    let (id, spec) = (id(), manifest(over));
    let submission = Submission { job_result_store_id: "7-1".to_owned(), ..submission() };
    let config = deploy_config(&OperatorConfig::default(), &id, &spec, None, 1).unwrap();
    let input = RenderInput {
        id: &id,
        spec: &spec,
        config: &config,
        submission: &submission,
        hadoop_conf: None,
    };
    let cluster = render_cluster(&input).unwrap();
    let standby = Preflight::standby_of(&input).unwrap().unwrap();
    assert_eq!((standby.pods.len(), standby.deployments.len()), (3, 2));
    let map = format!("flink-config-{}-7-1", id.name);
    assert_eq!(standby.config_maps[0]["metadata"]["name"], map.as_str());
    let made = [&cluster.deployment, cluster.task_managers.as_ref().unwrap()];
    for (deployment, made) in standby.deployments.iter().zip(made) {
        assert_eq!(deployment["spec"]["template"], made["spec"]["template"], "of the same hash");
        assert_eq!(deployment["spec"]["replicas"], 0);
        assert_ne!(deployment["metadata"]["name"], made["metadata"]["name"]);
    }
    for pod in &standby.pods {
        let labels = &pod["metadata"]["labels"];
        assert!(labels["app"].is_null() && labels["component"].is_null(), "{labels}");
        assert_eq!(labels[NAME_LABEL], "flink-preflight");
        assert_eq!(pod["metadata"]["annotations"][STANDBY_ANNOTATION], "7-1");
        assert_eq!(pod["metadata"]["annotations"][PREFLIGHT_ANNOTATION], standby.digest.as_str());
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        assert!(volumes.iter().any(|it| it["configMap"]["name"] == map.as_str()), "{volumes:?}");
        assert!(pod["spec"]["containers"][0]["readinessProbe"]["tcpSocket"]["port"].is_u64());
        assert!(pod["spec"]["activeDeadlineSeconds"].is_null(), "they are to stay");
    }
    let text = standby.config_maps[0]["data"].to_string();
    assert!(text.contains("leader-election.retry-period: 500 ms"), "{text}");
}
