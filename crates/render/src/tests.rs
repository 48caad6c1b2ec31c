use expect_test::{Expect, expect};

use super::*;
use config::cluster::deploy_config;
use config::memory::StatedMemory;
use config::{OperatorConfig, quantity};

pub(crate) fn id() -> ResourceId {
    ResourceId { namespace: "shop".into(), name: "orders".into(), uid: "u1".into() }
}

pub(crate) fn submission() -> Submission {
    Submission {
        job_id: "5e9c1f0a3b7d4c2e8f6a90b1c2d3e4f5".into(),
        savepoint_path: None,
        job_result_store_id: "run-1".into(),
    }
}

/// A small native application; tests override what they need.
pub(crate) fn manifest(over: Value) -> FlinkDeploymentSpec {
    let base = json!({
        "flinkVersion": "v1_20",
        "image": "flink:1.20",
        "serviceAccount": "flink",
        "jobManager": {"resource": {"memory": "1g", "cpu": 0.5}},
        "taskManager": {"resource": {"memory": "2g", "cpu": 1}},
        "job": {"jarURI": "local:///a.jar", "parallelism": 2},
    });
    let mut merged = base.as_object().unwrap().clone();
    for (key, value) in over.as_object().unwrap() {
        merged.insert(key.clone(), value.clone());
    }
    merged.retain(|_, value| !value.is_null());
    serde_json::from_value(Value::Object(merged)).unwrap()
}

fn try_render(over: Value, submission: &Submission) -> Result<Objects, RenderError> {
    render_with(&OperatorConfig::default(), over, submission)
}

fn render_with(
    operator: &OperatorConfig,
    over: Value,
    submission: &Submission,
) -> Result<Objects, RenderError> {
    let spec = manifest(over);
    let id = id();
    let config = deploy_config(operator, &id, &spec, None, 1)?;
    let hadoop_conf = None;
    render_cluster(&RenderInput { id: &id, spec: &spec, config: &config, submission, hadoop_conf })
}

fn render(over: Value) -> Objects {
    try_render(over, &submission()).unwrap()
}

pub(crate) fn pod_spec(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]
}

pub(crate) fn main_container(deployment: &Value) -> &Value {
    let containers = pod_spec(deployment)["containers"].as_array().unwrap();
    let main = containers.last().unwrap();
    assert_eq!(main["name"], "flink-main-container");
    main
}

/// Returns the lines of flink-conf.yaml whose key has this prefix.
fn configured(objects: &Objects, prefix: &str) -> String {
    let text = objects.config_maps[0]["data"]["flink-conf.yaml"].as_str().unwrap();
    text.lines()
        .filter(|line| line.starts_with(prefix))
        .map(|line| format!("{line}\n"))
        .collect::<Vec<_>>()
        .concat()
}

#[track_caller]
fn check(value: &Value, expected: Expect) {
    expected.assert_eq(&serde_json::to_string(value).unwrap());
}

const HA: [(&str, &str); 2] =
    [("high-availability.type", "kubernetes"), ("high-availability.storageDir", "s3://lake/ha/")];

fn with_ha(more: &[(&str, &str)]) -> Value {
    let entries = HA.iter().chain(more).map(|(key, value)| ((*key).to_owned(), json!(value)));
    json!({ "flinkConfiguration": entries.collect::<Map<_, _>>() })
}

#[test]
fn a_restore_path_wins_over_the_users_under_every_name() {
    let path = Some("s3://lake/savepoint-1".to_owned());
    let configuration = json!({"flinkConfiguration": {
        "execution.state-recovery.path": "s3://stale", "execution.savepoint.path": "s3://stale",
    }});
    let submission = Submission { savepoint_path: path, ..submission() };
    let objects = try_render(configuration.clone(), &submission).unwrap();
    assert_eq!(
        configured(&objects, "execution.sa"),
        "\
execution.savepoint.path: s3://lake/savepoint-1
"
    );
    // No restore point means none, whatever the configuration says.
    let objects = render(configuration);
    assert_eq!(configured(&objects, "execution.sa"), "");
}

#[test]
fn results_of_runs_stay_separate_where_there_is_high_availability() {
    let objects = render(with_ha(&[]));
    assert_eq!(
        configured(&objects, "job-result-store"),
        "job-result-store.delete-on-commit: false\n\
         job-result-store.storage-path: s3://lake/ha/job-result-store/orders/run-1\n"
    );
    assert_eq!(configured(&render(json!({})), "job-result-store"), "");
    let of_application = |version: &str| {
        let mut spec = with_ha(&[]);
        spec["flinkVersion"] = json!(version);
        render(spec).config_maps[0]["data"].to_string().contains("application-result-store")
    };
    assert!(of_application("v2_3") && !of_application("v2_2"));
}

#[test]
fn high_availability_replaces_the_internal_service() {
    let names = |objects: &Objects| -> Vec<String> {
        objects
            .services
            .iter()
            .map(|s| s["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let without = render(json!({}));
    assert_eq!(names(&without), ["orders", "orders-rest"]);
    assert_eq!(configured(&without, "jobmanager.rpc"), "jobmanager.rpc.address: orders.shop\n");
    let with = render(with_ha(&[]));
    assert_eq!(names(&with), ["orders-rest"]);
    assert_eq!(configured(&with, "jobmanager.rpc"), "");
    assert_eq!(
        configured(&with, "high-availability.j"),
        "high-availability.jobmanager.port: 6123\n"
    );
}

#[test]
fn operator_and_client_options_never_reach_flink() {
    let objects = render(json!({"flinkConfiguration": {
        "kubernetes.operator.periodic.savepoint.interval": "6h", "job.autoscaler.enabled": "true",
        "kubernetes.config.file": "/x", "rest.bind-address": "0.0.0.0", "taskmanager.host": "h",
        "kept": "yes",
    }}));
    for prefix in [
        "kubernetes.operator",
        "job.autoscaler",
        "kubernetes.config",
        "rest.bind",
        "taskmanager.host",
    ] {
        assert_eq!(configured(&objects, prefix), "", "{prefix}");
    }
    assert_eq!(configured(&objects, "kept"), "kept: yes\n");
}

#[test]
fn owners_are_filled_in_when_the_deployment_exists() {
    let objects = render(json!({"ingress": {"template": "x"}}));
    assert!(objects.config_maps[0]["metadata"].get("ownerReferences").is_none());
    let owner = |object: &Value| object["metadata"]["ownerReferences"][0].clone();
    let adopted = objects.clone().owned_by("d1");
    for object in adopted.config_maps.iter().chain(&adopted.services) {
        check(
            &owner(object),
            expect![[
                r#"{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"Deployment","name":"orders","uid":"d1"}"#
            ]],
        );
    }
    assert_eq!(adopted.deployment, objects.deployment);
    assert_eq!(owner(&adopted.deployment)["uid"], "u1");
    assert_eq!(owner(&adopted.deployment)["controller"], false);
    assert_eq!(owner(adopted.ingress.as_ref().unwrap())["controller"], true);
}

#[test]
fn unknown_fields_of_a_template_reach_the_pod() {
    let objects = render(json!({"podTemplate": {
        "apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"},
        "metadata": {"labels": {"app": "not-this", "team": "t"}, "unknownMeta": 1},
        "spec": {"unknownField": {"x": [1]}, "containers": [{"name": "side", "image": "s"}]},
    }}));
    let template = &objects.deployment["spec"]["template"];
    check(
        &json!(template.as_object().unwrap().keys().collect::<Vec<_>>()),
        expect![[r#"["metadata","spec"]"#]],
    );
    assert_eq!(template["metadata"]["unknownMeta"], 1);
    check(
        &template["metadata"]["labels"],
        expect![[
            r#"{"app":"orders","team":"t","component":"jobmanager","type":"flink-native-kubernetes"}"#
        ]],
    );
    check(&template["spec"]["unknownField"], expect![[r#"{"x":[1]}"#]]);
    assert_eq!(template["spec"]["containers"][0]["name"], "side");
    // The template of TaskManagers is unchanged.
    let text = objects.config_maps[1]["data"]["taskmanager-pod-template.yaml"].as_str().unwrap();
    assert!(text.contains("kind: Pod") && text.contains("unknownField"), "{text}");
    assert_eq!(
        configured(&objects, "kubernetes.pod-template"),
        "kubernetes.pod-template-file.taskmanager: /opt/flink/pod-template/taskmanager-pod-template.yaml\n"
    );
}

#[test]
fn configuration_wins_over_the_template_where_both_speak() {
    let objects = render(json!({
        "flinkConfiguration": {
            "containerized.master.env.A": "config", "kubernetes.jobmanager.node-selector": "disk:ssd",
            "kubernetes.jobmanager.tolerations": "key:k,operator:Exists,tolerationSeconds:60",
        },
        "podTemplate": {"spec": {
            "nodeSelector": {"disk": "hdd", "zone": "a"}, "tolerations": [{"key": "t"}],
            "hostNetwork": true, "dnsPolicy": "None", "restartPolicy": "Always",
            "containers": [{
                "name": "flink-main-container", "image": "template", "imagePullPolicy": "Never", "args": ["x"],
                "env": [{"name": "A", "value": "template"}, {"name": "B", "value": "b"}],
                "resources": {"requests": {"cpu": "7", "nvidia.com/gpu": "1"}},
            }],
        }},
    }));
    let spec = pod_spec(&objects.deployment);
    let main = main_container(&objects.deployment);
    assert_eq!((&main["image"], &main["imagePullPolicy"]), (&json!("flink:1.20"), &json!("Never")));
    check(&spec["nodeSelector"], expect![[r#"{"disk":"ssd","zone":"a"}"#]]);
    check(
        &spec["tolerations"],
        expect![[r#"[{"key":"t"},{"key":"k","operator":"Exists","tolerationSeconds":60}]"#]],
    );
    assert_eq!((&spec["hostNetwork"], &spec["dnsPolicy"]), (&json!(false), &json!("None")));
    check(
        &main["resources"],
        expect![[
            r#"{"requests":{"cpu":"0.5","nvidia.com/gpu":"1","memory":"1024Mi"},"limits":{"cpu":"0.5","memory":"1024Mi"}}"#
        ]],
    );
    check(
        &main["env"],
        expect![[
            r#"[{"name":"B","value":"b"},{"name":"A","value":"config"},{"name":"_POD_IP_ADDRESS","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}}]"#
        ]],
    );
    check(
        &main["args"],
        expect![[r#"["bash","-c","kubernetes-jobmanager.sh kubernetes-application "]"#]],
    );
}

#[test]
fn a_template_image_counts_when_none_is_configured() {
    let template =
        json!({"spec": {"containers": [{"name": "flink-main-container", "image": "t"}]}});
    let objects = render(json!({"image": null, "podTemplate": template}));
    assert_eq!(main_container(&objects.deployment)["image"], "t");
    let objects = render(json!({"image": null}));
    assert_eq!(main_container(&objects.deployment)["image"], "apache/flink:1.20-scala_2.12");
}

#[test]
fn a_probe_of_the_user_stays_and_the_default_can_be_switched_off() {
    let template = json!({"spec": {"containers": [{"name": "flink-main-container", "startupProbe": {"tcpSocket": {"port": 1}}}]}});
    let objects = render(json!({"podTemplate": template}));
    check(
        &main_container(&objects.deployment)["startupProbe"],
        expect![[r#"{"tcpSocket":{"port":1}}"#]],
    );
    let off = render(
        json!({"flinkConfiguration": {"kubernetes.operator.jm-deployment.startup.probe.enabled": "false"}}),
    );
    assert!(main_container(&off.deployment).get("startupProbe").is_none());
}

/// Renders with an operator that has read `/team.yaml`, which its configuration names.
fn render_with_file(key: &str, over: Value) -> Objects {
    let text = "kind: Pod\nmetadata: {labels: {team: a}}\nspec: {priorityClassName: low}\n";
    let entry = config::template_file::entry("/team.yaml");
    let operator = OperatorConfig::new([(key, "/team.yaml"), (&entry, text)].into_iter().collect());
    render_with(&operator, over, &submission()).unwrap()
}

#[test]
fn a_template_of_the_defaults_stands_where_the_spec_has_none() {
    let default = "kubernetes.pod-template-file.default";
    let objects = render_with_file(default, json!({}));
    let text = objects.config_maps[1]["data"]["taskmanager-pod-template.yaml"].as_str().unwrap();
    assert!(text.contains("priorityClassName: low"), "{text}");
    assert_eq!(
        configured(&objects, "kubernetes.pod-template"),
        "kubernetes.pod-template-file.taskmanager: /opt/flink/pod-template/taskmanager-pod-template.yaml\n"
    );
    assert_eq!(configured(&objects, "kubernetes.operator"), "");
    // With a startup probe JobManagers have a template of their own, as in Java.
    assert_eq!(pod_spec(&objects.deployment)["priorityClassName"], Value::Null);
    let no_probe = json!({"kubernetes.operator.jm-deployment.startup.probe.enabled": "false"});
    let objects = render_with_file(default, json!({"flinkConfiguration": no_probe}));
    assert_eq!(pod_spec(&objects.deployment)["priorityClassName"], "low");
    let standalone = render_with_file(default, json!({"mode": "standalone"}));
    let workers = standalone.task_managers.unwrap();
    assert_eq!(pod_spec(&workers)["priorityClassName"], "low");
    assert_eq!(workers["spec"]["template"]["metadata"]["labels"]["team"], "a");
}

#[test]
fn a_template_of_the_spec_wins_as_a_whole_over_that_of_the_defaults() {
    let own = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    let cases = [
        json!({"podTemplate": own}),
        json!({"taskManager": {"resource": {"memory": "2g"}, "podTemplate": own}}),
        json!({"taskManager": {"resource": {"memory": "2g", "ephemeralStorage": "1Gi"}}}),
    ];
    for case in cases {
        let objects = render_with_file("kubernetes.pod-template-file.taskmanager", case);
        let text = objects.config_maps[1]["data"]["taskmanager-pod-template.yaml"].as_str();
        assert!(!text.unwrap().contains("priorityClassName"), "{text:?}");
    }
}

#[test]
fn a_template_file_that_the_operator_has_not_read_is_refused_where_it_would_count() {
    let option = json!({
        "kubernetes.pod-template-file.taskmanager": "/mine.yaml",
        "kubernetes.operator.pod-template-file./mine.yaml": "spec: {}",
    });
    let error = try_render(json!({"flinkConfiguration": option}), &submission()).unwrap_err();
    expect![[
        r#"`kubernetes.pod-template-file.taskmanager` names `/mine.yaml`, and the operator has read no pod template there. It reads only files that its own configuration names, in its own pod: mount it there, or set `spec.podTemplate` instead"#
    ]]
    .assert_eq(&error.to_string());
    let with_own = json!({"flinkConfiguration": option, "podTemplate": {"spec": {}}});
    assert!(try_render(with_own, &submission()).is_ok());
    for (text, why) in [
        ("", "it is not a YAML object"),
        ("a: 1", "it has neither `metadata` nor `spec`"),
        ("spec: {containers: {}}", "invalid pod template: `spec.containers` must be a list"),
        ("spec: [", "line 1"),
    ] {
        let told = pod_template::read(text).unwrap_err();
        assert!(told.contains(why), "{text}: {told}");
    }
}

#[test]
fn other_resources_go_on_the_task_managers_template() {
    let objects = render(json!({"taskManager": {"resources": {
        "requests": {"memory": "2Gi", "cpu": 1, "ephemeral-storage": "1Gi"},
        "limits": {"memory": "4Gi", "nvidia.com/gpu": 1},
    }}}));
    let text = objects.config_maps[1]["data"]["taskmanager-pod-template.yaml"].as_str().unwrap();
    expect![[r#"
        spec:
          containers:
          - name: flink-main-container
            resources:
              requests:
                ephemeral-storage: 1Gi
              limits:
                nvidia.com/gpu: 1
    "#]]
    .assert_eq(text);
}

#[test]
fn limits_are_requests_times_their_factor() {
    let objects = render(json!({"flinkConfiguration": {
        "kubernetes.jobmanager.cpu.limit-factor": "1.5", "kubernetes.jobmanager.memory.limit-factor": "1.25",
    }}));
    check(
        &main_container(&objects.deployment)["resources"]["limits"],
        expect![[r#"{"cpu":"0.75","memory":"1280Mi"}"#]],
    );
    let below = json!({"flinkConfiguration": {"kubernetes.jobmanager.memory.limit-factor": "0.9"}});
    let error = try_render(below, &submission()).unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid value `0.9` of `kubernetes.jobmanager.memory.limit-factor`: expected a number of at least 1.0"
    );
}

#[test]
fn limits_stated_alongside_requests_come_out_as_stated() {
    for (cpu, cpu_limit, memory, memory_limit) in [
        ("100m", "0.3", "1000Mi", "1536Mi"),
        ("0.7", "2.1", "2048m", "4Gi"),
        ("1", "3", "1100Mi", "1101Mi"),
    ] {
        let objects = render(json!({"jobManager": {"resources": {
            "requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu_limit, "memory": memory_limit},
        }}}));
        let limits = &main_container(&objects.deployment)["resources"]["limits"];
        let cores = |text: &str| quantity::parse(text).map(|cores| format!("{cores:.6}"));
        assert_eq!(cores(limits["cpu"].as_str().unwrap()), cores(cpu_limit), "{cpu} {cpu_limit}");
        let mebibytes = StatedMemory::parse(memory_limit).unwrap().size().mebibytes();
        assert_eq!(limits["memory"], format!("{mebibytes}Mi"), "{memory} {memory_limit}");
    }
}

#[test]
fn the_host_network_has_no_ports_to_announce() {
    let objects = render(json!({"flinkConfiguration": {"kubernetes.hostnetwork.enabled": "true"}}));
    assert!(main_container(&objects.deployment).get("ports").is_none());
    assert_eq!(pod_spec(&objects.deployment)["dnsPolicy"], "ClusterFirstWithHostNet");
}

#[test]
fn ports_are_single_and_never_random() {
    let objects = render(json!({"flinkConfiguration": {
        "rest.port": "80", "rest.bind-port": "0", "blob.server.port": "0", "taskmanager.rpc.port": "7000",
        "kubernetes.rest-service.exposed.type": "Headless_ClusterIP",
    }}));
    check(
        &objects.services[1]["spec"],
        expect![[
            r#"{"clusterIP":"None","ports":[{"name":"rest","port":80,"targetPort":8081}],"selector":{"app":"orders","component":"jobmanager","type":"flink-native-kubernetes"},"type":"ClusterIP"}"#
        ]],
    );
    assert_eq!(configured(&objects, "blob"), "blob.server.port: 6124\n");
    assert_eq!(configured(&objects, "taskmanager.rpc"), "taskmanager.rpc.port: 7000\n");
    let range = json!({"flinkConfiguration": {"blob.server.port": "6124-6130"}});
    let error = try_render(range, &submission()).unwrap_err().to_string();
    assert_eq!(
        error,
        "invalid value `6124-6130` of `blob.server.port`: expected a single port number"
    );
}

#[test]
fn flink_2_reads_nested_yaml_with_arguments_as_a_list() {
    let objects = render(
        json!({"flinkVersion": "v2_0", "job": {"args": ["--w", "30;s", "", "it's", "# no comment", "a\nb"]}}),
    );
    let data = &objects.config_maps[0]["data"];
    let parsed: Value = serde_yaml::from_str(data["config.yaml"].as_str().unwrap()).unwrap();
    check(
        &parsed["$internal"]["application"]["program-args"],
        expect![[r##"["--w","30;s","","it's","# no comment","a\nb"]"##]],
    );
    assert_eq!(parsed["$internal"]["pipeline"]["job-id"], "5e9c1f0a3b7d4c2e8f6a90b1c2d3e4f5");
    assert!(data.get("flink-conf.yaml").is_none());
    let items = &pod_spec(&objects.deployment)["volumes"][1]["configMap"]["items"];
    check(
        items,
        expect![[
            r#"[{"key":"log4j-console.properties","path":"log4j-console.properties"},{"key":"config.yaml","path":"config.yaml"}]"#
        ]],
    );
    let conflict = json!({"flinkVersion": "v2_0", "flinkConfiguration": {"k": "1", "k.v": "2"}});
    let error = try_render(conflict, &submission()).unwrap_err().to_string();
    assert_eq!(
        error,
        "`k` and `k.v` cannot both be set: in config.yaml a key is a value or a group"
    );
}

#[test]
fn logging_files_of_the_user_stand_alone() {
    let objects = render(json!({"logConfiguration": {"logback-console.xml": "<c/>"}}));
    let data = objects.config_maps[0]["data"].as_object().unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["flink-conf.yaml", "logback-console.xml"]);
}

/// Flink's client reads it from the operator's configuration directory.
#[test]
fn the_log_configuration_of_all_jobs_gives_way_to_that_of_a_job() {
    let given = |spec: Value| {
        let objects = render(spec);
        let mut data = objects.config_maps[0]["data"].as_object().unwrap().clone();
        data.retain(|name, _| name.starts_with("log"));
        let text = objects.deployment.to_string();
        assert!(data.keys().all(|name| text.contains(&format!(r#"{{"key":"{name}","#))), "mounted");
        Value::Object(data)
    };
    let of_all = json!({"kubernetes.operator.log-configuration.log4j-console.properties": "a = b"});
    assert_eq!(
        given(json!({"flinkConfiguration": of_all})),
        json!({"log4j-console.properties": "a = b"})
    );
    let of_job = json!({"logback-console.xml": "<c/>"});
    assert_eq!(given(json!({"flinkConfiguration": of_all, "logConfiguration": of_job})), of_job);
    let blank = json!({"kubernetes.operator.log-configuration.logback-console.xml": " "});
    let default = json!({"log4j-console.properties": logging::DEFAULT_LOG4J});
    assert_eq!(given(json!({"flinkConfiguration": blank})), default);
}

#[test]
fn a_standalone_application_takes_its_job_from_the_command_line() {
    let submission = Submission { savepoint_path: Some("s3://sp".into()), ..submission() };
    let mut over = with_ha(&[("taskmanager.numberOfTaskSlots", "2")]);
    over["mode"] = json!("standalone");
    over["job"] = json!({"jarURI": "local:///opt/flink/usrlib/calc.jar", "entryClass": "shop.Calc", "args": ["--x", "1"], "allowNonRestoredState": true, "parallelism": 5});
    let objects = try_render(over, &submission).unwrap();
    check(
        &main_container(&objects.deployment)["args"],
        expect![[
            r#"["standalone-job","--job-classname","shop.Calc","--allowNonRestoredState","--fromSavepoint","s3://sp","-D","jobmanager.rpc.address=$(_POD_IP_ADDRESS)","--x","1"]"#
        ]],
    );
    let task_managers = objects.task_managers.as_ref().unwrap();
    assert_eq!(task_managers["spec"]["replicas"], 3);
    check(&main_container(task_managers)["args"], expect![[r#"["taskmanager"]"#]]);
    assert_eq!(
        configured(&objects, "pipeline.classpaths"),
        "pipeline.classpaths: file:///opt/flink/usrlib/calc.jar\n"
    );
    assert_eq!(objects.services.len(), 2);
}

#[test]
fn standalone_task_managers_get_a_core_per_slot_unless_configured() {
    let objects = render(
        json!({"mode": "standalone", "job": null, "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "3"}, "taskManager": {"resource": {"memory": "1g"}, "replicas": 2}}),
    );
    let task_managers = objects.task_managers.as_ref().unwrap();
    assert_eq!(task_managers["spec"]["replicas"], 2);
    check(
        &main_container(task_managers)["resources"]["requests"],
        expect![[r#"{"cpu":"3.0","memory":"1024Mi"}"#]],
    );
}

#[test]
fn user_libraries_are_not_hidden_by_an_empty_volume() {
    let mounts = |template: Value| {
        let objects = render(json!({"mode": "standalone", "podTemplate": template}));
        let mounts =
            main_container(&objects.deployment)["volumeMounts"].as_array().unwrap().clone();
        mounts
            .iter()
            .filter(|m| m["mountPath"].as_str().unwrap().starts_with("/opt/flink/usrlib"))
            .count()
    };
    assert_eq!(mounts(json!({})), 1);
    let own = json!({"spec": {"containers": [{"name": "flink-main-container", "volumeMounts": [{"name": "v", "mountPath": "/opt/flink/usrlib/x"}, {"name": "w", "mountPath": "/opt/flink/usrlib2"}]}]}});
    assert_eq!(mounts(own), 2);
}

#[test]
fn a_gateway_has_a_route_in_its_place() {
    let made = |template: &str, gateway: &str| {
        let ingress =
            json!({"template": template, "labels": {"l": "m"}, "annotations": {"a": "b"}});
        let options = json!({"kubernetes.operator.ingress.gateway": gateway});
        render(json!({"ingress": ingress, "flinkConfiguration": options})).ingress.unwrap()
    };
    let route = made("{{name}}.x", "infra/web:https");
    assert_eq!(route["kind"], "HTTPRoute");
    check(&route["metadata"]["labels"], expect![[r#"{"component":"ingress","l":"m"}"#]]);
    check(
        &route["spec"],
        expect![[
            r#"{"parentRefs":[{"name":"web","namespace":"infra","sectionName":"https"}],"rules":[{"backendRefs":[{"name":"orders-rest","port":8081}]}],"hostnames":["orders.x"]}"#
        ]],
    );
    let route = made("/{{namespace}}/{{name}}", "web");
    check(
        &route["spec"],
        expect![[
            r#"{"parentRefs":[{"name":"web"}],"rules":[{"backendRefs":[{"name":"orders-rest","port":8081}],"matches":[{"path":{"type":"PathPrefix","value":"/shop/orders"}}],"filters":[{"type":"URLRewrite","urlRewrite":{"path":{"type":"ReplacePrefixMatch","replacePrefixMatch":"/"}}}]}]}"#
        ]],
    );
}

#[test]
fn what_leads_to_a_colour_is_the_blue_green_deployments() {
    let resource = ObjectMeta {
        name: Some("orders".to_owned()),
        namespace: Some("shop".to_owned()),
        uid: Some("u".to_owned()),
        ..ObjectMeta::default()
    };
    let ingress = serde_json::from_value(json!({"template": "{{name}}.x"})).unwrap();
    let made = |options: &[(&str, &str)]| {
        let config: FlinkConfig =
            options.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        ingress::of_blue_green(&resource, &ingress, "orders-green", &config).unwrap()
    };
    let route = made(&[("kubernetes.operator.ingress.gateway", "web")]).unwrap();
    assert_eq!(
        (&route["kind"], &route["metadata"]["name"]),
        (&json!("HTTPRoute"), &json!("orders"))
    );
    assert_eq!(route["metadata"]["ownerReferences"][0]["kind"], "FlinkBlueGreenDeployment");
    check(
        &route["spec"],
        expect![[
            r#"{"parentRefs":[{"name":"web"}],"rules":[{"backendRefs":[{"name":"orders-green-rest","port":8081}]}],"hostnames":["orders.x"]}"#
        ]],
    );
    assert_eq!(made(&[]).unwrap()["kind"], "Ingress");
    assert_eq!(made(&[("kubernetes.operator.ingress.manage", "false")]), None);
}

#[test]
fn an_ingress_is_made_unless_they_are_not_managed() {
    let ingress = json!({"template": "{{name}}.x/p", "className": "nginx", "labels": {"component": "mine", "l": "m"}, "tls": [{"hosts": ["h"], "secretName": "s"}]});
    let objects = render(json!({"ingress": ingress}));
    let made = objects.ingress.unwrap();
    check(&made["metadata"]["labels"], expect![[r#"{"component":"ingress","l":"m"}"#]]);
    check(
        &made["spec"],
        expect![[
            r#"{"ingressClassName":"nginx","rules":[{"host":"orders.x","http":{"paths":[{"backend":{"service":{"name":"orders-rest","port":{"number":8081}}},"path":"/p","pathType":"ImplementationSpecific"}]}}],"tls":[{"hosts":["h"],"secretName":"s"}]}"#
        ]],
    );
    let off = json!({"ingress": ingress, "flinkConfiguration": {"kubernetes.operator.ingress.manage": "false"}});
    assert!(render(off).ingress.is_none());
}

#[test]
fn secrets_and_hadoop_are_mounted() {
    let objects = render(json!({"flinkConfiguration": {
        "kubernetes.secrets": "creds:/mnt/creds", "kubernetes.hadoop.conf.config-map.name": "hadoop",
        "kubernetes.env.secretKeyRef": "env:AK,secret:s3,key:ak;env:SK,secret:s3,key:sk", "kubernetes.flink.log.dir": "/logs",
    }}));
    let main = main_container(&objects.deployment);
    let names: Vec<_> =
        main["env"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["_POD_IP_ADDRESS", "FLINK_LOG_DIR", "AK", "SK", "HADOOP_CONF_DIR"]);
    let paths: Vec<_> = main["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["mountPath"].as_str().unwrap())
        .collect();
    assert_eq!(
        paths,
        ["/opt/flink/artifacts", "/mnt/creds", "/opt/hadoop/conf", "/opt/flink/conf"]
    );
    let incomplete =
        json!({"flinkConfiguration": {"kubernetes.env.secretKeyRef": "env:AK,secret:s3"}});
    assert!(
        try_render(incomplete, &submission())
            .unwrap_err()
            .to_string()
            .contains("kubernetes.env.secretKeyRef")
    );
}

#[test]
fn a_template_of_the_wrong_shape_is_refused_with_its_path() {
    let error = |template: Value| {
        try_render(json!({"podTemplate": template}), &submission()).unwrap_err().to_string()
    };
    assert_eq!(
        error(json!({"spec": {"containers": {}}})),
        "invalid pod template: `spec.containers` must be a list"
    );
    assert_eq!(error(json!({"spec": []})), "invalid pod template: `spec` must be an object");
    assert_eq!(
        error(json!({"metadata": {"labels": "x"}})),
        "invalid pod template: `metadata.labels` must be an object"
    );
}

#[test]
fn a_session_cluster_has_no_job() {
    let objects = render(json!({"job": null}));
    assert_eq!(configured(&objects, "$internal"), "$internal.flink.version: v1_20\n");
    assert_eq!(configured(&objects, "execution"), "execution.target: kubernetes-session\n");
    check(
        &main_container(&objects.deployment)["args"],
        expect![[r#"["bash","-c","kubernetes-jobmanager.sh kubernetes-session "]"#]],
    );
}

#[test]
fn lists_and_maps_of_the_operators_file_are_read_by_every_version_of_flink() {
    let file = "classloader.parent-first-patterns.additional:\n- org.example.\n- org.other.\n\
                env.java.opts.all: \"[no-list]\"\n\
                metrics.scope.patterns: [\"a;b\", \"c,d\"]\n\
                kubernetes:\n  jobmanager.labels: {team: shop, tier: gold}\n  \
                taskmanager.tolerations:\n  - {key: spot, operator: Exists}\n  - {key: gpu}\n";
    let operator = OperatorConfig::new(config::file::parse_config_yaml(file).unwrap());
    let rendered = |version: &str| {
        let (spec, id) = (manifest(json!({ "flinkVersion": version })), id());
        let config = deploy_config(&operator, &id, &spec, None, 1).unwrap();
        let (submission, hadoop_conf) = (&submission(), None);
        let input = RenderInput { id: &id, spec: &spec, config: &config, submission, hadoop_conf };
        render_cluster(&input).unwrap()
    };
    let old = rendered("v1_20");
    let prefixes =
        ["classl", "env.java.o", "kubernetes.jobmanager.l", "kubernetes.taskmanager.t", "metr"];
    expect![[r#"
        classloader.parent-first-patterns.additional: org.example.;org.other.
        env.java.opts.all: [no-list]
        kubernetes.jobmanager.labels.team: shop
        kubernetes.jobmanager.labels.tier: gold
        kubernetes.taskmanager.tolerations: key:spot,operator:Exists;key:gpu
        metrics.scope.patterns: 'a;b';c,d
    "#]]
    .assert_eq(&prefixes.map(|prefix| configured(&old, prefix)).concat());
    let new = rendered("v2_0");
    let text = new.config_maps[0]["data"]["config.yaml"].as_str().unwrap();
    let tree: Value = serde_yaml::from_str(text).unwrap();
    // Flink 2 splits text that is not a YAML list like Flink 1 does.
    check(
        &tree["classloader"]["parent-first-patterns"]["additional"],
        expect![[r#""org.example.;org.other.""#]],
    );
    check(&tree["metrics"]["scope"]["patterns"], expect![[r#""'a;b';c,d""#]]);
    check(
        &tree["kubernetes"]["jobmanager"]["labels"],
        expect![[r#"{"team":"shop","tier":"gold"}"#]],
    );
    for objects in [&old, &new] {
        let labels = &objects.deployment["spec"]["template"]["metadata"]["labels"];
        assert_eq!((&labels["team"], &labels["tier"]), (&json!("shop"), &json!("gold")));
    }
}
