use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::files::{FileObject, HadoopConf};
use crate::tests::{id, main_container, manifest, pod_spec, submission};
use crate::{Objects, RenderInput, render_cluster};
use config::OperatorConfig;
use config::cluster::deploy_config;

const KEYTAB: &str = "security.kerberos.login.keytab";
const KRB5: &str = "security.kerberos.krb5-conf.path";
const SECRET: &str = "kubernetes.operator.kerberos.keytab.secret.name";
const KEY: &str = "kubernetes.operator.kerberos.keytab.secret.key";
const CONFIG_MAP: &str = "kubernetes.operator.kerberos.krb5-conf.config-map.name";

/// Renders a cluster with these Flink options and fields of the spec; the operator may have Hadoop's configuration.
fn render(options: &[(&str, &str)], mut over: Value, hadoop_conf: Option<&HadoopConf>) -> Objects {
    for (key, value) in options {
        over["flinkConfiguration"][*key] = (*value).into();
    }
    over["flinkConfiguration"]["security.kerberos.login.principal"] = "it@EXAMPLE".into();
    let (spec, id, submission) = (manifest(over), id(), submission());
    let config = deploy_config(&OperatorConfig::default(), &id, &spec, None, 1).unwrap();
    let submission = &submission;
    let input = RenderInput { id: &id, spec: &spec, config: &config, submission, hadoop_conf };
    render_cluster(&input).unwrap()
}

/// Returns a pod's mounts for Kerberos and Hadoop, one per line.
fn mounts(deployment: &Value) -> String {
    of_pod(pod_spec(deployment), main_container(deployment))
}

fn of_pod(spec: &Value, main: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_meant =
        |it: &Value| it.to_string().contains("kerberos-") || it.to_string().contains("adoop");
    let all = [list(&spec["volumes"]), list(&main["volumeMounts"]), list(&main["env"])].concat();
    all.iter().filter(|it| is_meant(it)).fold(String::new(), |text, it| format!("{text}{it}\n"))
}

/// Returns the template that a native JobManager creates TaskManagers from.
fn task_manager_template(objects: &Objects) -> String {
    let Some(map) = objects.config_maps.get(1) else { return String::new() };
    let text = map["data"]["taskmanager-pod-template.yaml"].as_str().unwrap();
    let template: Value = serde_yaml::from_str(text).unwrap();
    assert_eq!((&template["apiVersion"], &template["kind"]), (&json!("v1"), &json!("Pod")));
    let containers = template["spec"]["containers"].as_array().unwrap();
    let main = containers.iter().find(|it| it["name"] == "flink-main-container").unwrap();
    of_pod(&template["spec"], main)
}

/// Returns the Kerberos options in the configuration of the pods.
fn options(objects: &Objects) -> String {
    let text = objects.config_maps[0]["data"]["flink-conf.yaml"].as_str().unwrap();
    let is_meant = |line: &&str| line.contains("kerberos");
    text.lines().filter(is_meant).fold(String::new(), |text, line| format!("{text}{line}\n"))
}

fn of_files(objects: &Objects) -> String {
    let line = |FileObject { manifest, files }: &FileObject| {
        let (kind, metadata) = (&manifest["kind"], &manifest["metadata"]);
        assert_eq!(manifest.get("data"), None, "the content is not read here");
        format!("{kind} {} {} {files:?}\n", metadata["name"], metadata["labels"])
    };
    objects.file_objects.iter().map(line).collect()
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    expected.assert_eq(text);
}

#[test]
fn files_of_the_operator_are_mounted_as_flinks_client_does_it() {
    let files = [(KEYTAB, "/k/it.keytab"), (KRB5, "/k/my-krb5.conf")];
    let native = render(&files, json!({}), None);
    check(
        &of_files(&native),
        expect![[r#"
        "Secret" "kerberos-keytab-orders" {"app":"orders","type":"flink-native-kubernetes"} {"it.keytab": "/k/it.keytab"}
        "ConfigMap" "kerberos-krb5conf-orders" {"app":"orders","type":"flink-native-kubernetes"} {"krb5.conf": "/k/my-krb5.conf"}
    "#]],
    );
    check(
        &mounts(&native.deployment),
        expect![[r#"
        {"name":"kerberos-keytab-volume","secret":{"secretName":"kerberos-keytab-orders"}}
        {"configMap":{"items":[{"key":"krb5.conf","path":"krb5.conf"}],"name":"kerberos-krb5conf-orders"},"name":"kerberos-krb5conf-volume"}
        {"mountPath":"/opt/kerberos/kerberos-keytab","name":"kerberos-keytab-volume"}
        {"mountPath":"/etc/krb5.conf","name":"kerberos-krb5conf-volume","subPath":"krb5.conf"}
    "#]],
    );
    check(
        &options(&native),
        expect![[r#"
        security.kerberos.krb5-conf.path: /etc/krb5.conf
        security.kerberos.login.keytab: /opt/kerberos/kerberos-keytab/it.keytab
        security.kerberos.login.principal: it@EXAMPLE
    "#]],
    );
    // Its JobManager mounts the same in TaskManagers, by these options.
    assert_eq!(task_manager_template(&native), "");
    let standalone = render(&files, json!({"mode": "standalone"}), None);
    assert_eq!(of_files(&standalone).replace("standalone", "native"), of_files(&native));
    assert_eq!(options(&standalone), options(&native));
    for pods in [&standalone.deployment, standalone.task_managers.as_ref().unwrap()] {
        assert_eq!(mounts(pods), mounts(&native.deployment));
    }
    // They are owned by the JobManager, and created before it.
    let owned = native.owned_by("d1");
    let kinds: Vec<_> = owned.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[..4], ["ConfigMap", "Secret", "ConfigMap", "Deployment"]);
    for object in &owned.file_objects {
        assert_eq!(object.manifest["metadata"]["ownerReferences"][0]["uid"], "d1");
    }
}

#[test]
fn objects_of_the_user_are_mounted_by_the_template_of_native_task_managers() {
    let both = [(SECRET, "orders"), (KEY, "it.keytab"), (CONFIG_MAP, "realm")];
    let native = render(&both, json!({}), None);
    assert_eq!(of_files(&native), "", "nothing is read, and nothing made");
    check(
        &mounts(&native.deployment),
        expect![[r#"
        {"name":"kerberos-keytab-volume","secret":{"items":[{"key":"it.keytab","path":"it.keytab"}],"secretName":"orders"}}
        {"configMap":{"items":[{"key":"krb5.conf","path":"krb5.conf"}],"name":"realm"},"name":"kerberos-krb5conf-volume"}
        {"mountPath":"/opt/kerberos/kerberos-keytab","name":"kerberos-keytab-volume"}
        {"mountPath":"/etc/krb5.conf","name":"kerberos-krb5conf-volume","subPath":"krb5.conf"}
    "#]],
    );
    assert_eq!(task_manager_template(&native), mounts(&native.deployment));
    check(
        &options(&native),
        expect![[r#"
        kubernetes.decorator.kerberos-mount.enabled: false
        security.kerberos.login.keytab: /opt/kerberos/kerberos-keytab/it.keytab
        security.kerberos.login.principal: it@EXAMPLE
    "#]],
    );
    // Whatever Flink would find in a file that the operator's defaults name.
    let over_defaults = [&both[..], &[(KEYTAB, "/k/it.keytab"), (KRB5, "/k/krb5.conf")]].concat();
    let native = render(&over_defaults, json!({}), None);
    assert_eq!((of_files(&native), options(&native).contains("/k/")), (String::new(), false));
    let standalone = render(&both, json!({"mode": "standalone"}), None);
    for pods in [&standalone.deployment, standalone.task_managers.as_ref().unwrap()] {
        assert_eq!(mounts(pods), mounts(&native.deployment));
    }
    check(
        &options(&standalone),
        expect![[r#"
        security.kerberos.login.keytab: /opt/kerberos/kerberos-keytab/it.keytab
        security.kerberos.login.principal: it@EXAMPLE
    "#]],
    );
}

#[test]
fn one_of_the_user_goes_with_one_of_the_operator() {
    let template = json!({"podTemplate": {"spec": {"containers": [{"name": "sidecar"}]}}});
    // Flink's own mount of the keytab is switched off, and with it that of the krb5.conf.
    let secret = render(&[(SECRET, "orders"), (KRB5, "/k/krb5.conf")], template, None);
    assert_eq!(task_manager_template(&secret), mounts(&secret.deployment));
    check(
        &of_files(&secret),
        expect![[r#"
        "ConfigMap" "kerberos-krb5conf-orders" {"app":"orders","type":"flink-native-kubernetes"} {"krb5.conf": "/k/krb5.conf"}
    "#]],
    );
    // The path of the krb5.conf would make Flink mount another ConfigMap.
    let config_map = render(&[(KEYTAB, "/k/it.keytab"), (CONFIG_MAP, "realm")], json!({}), None);
    check(
        &task_manager_template(&config_map),
        expect![[r#"
        {"configMap":{"items":[{"key":"krb5.conf","path":"krb5.conf"}],"name":"realm"},"name":"kerberos-krb5conf-volume"}
        {"mountPath":"/etc/krb5.conf","name":"kerberos-krb5conf-volume","subPath":"krb5.conf"}
    "#]],
    );
    check(
        &options(&config_map),
        expect![[r#"
        security.kerberos.login.keytab: /opt/kerberos/kerberos-keytab/it.keytab
        security.kerberos.login.principal: it@EXAMPLE
    "#]],
    );
}

#[test]
fn what_the_user_mounts_is_left_to_the_user() {
    let files = [(KEYTAB, "/kerberos/it.keytab"), (KRB5, "/k/krb5.conf")];
    let off = [&files[..], &[("kubernetes.decorator.kerberos-mount.enabled", "false")]].concat();
    let native = render(&off, json!({}), None);
    assert_eq!((of_files(&native), mounts(&native.deployment)), Default::default());
    check(
        &options(&native),
        expect![[r#"
        kubernetes.decorator.kerberos-mount.enabled: false
        security.kerberos.krb5-conf.path: /k/krb5.conf
        security.kerberos.login.keytab: /kerberos/it.keytab
        security.kerberos.login.principal: it@EXAMPLE
    "#]],
    );
    let template = json!({"spec": {"containers": [{
        "name": "flink-main-container",
        "volumeMounts": [{"name": "own", "mountPath": "/kerberos"}],
    }]}});
    let standalone = |template: Value| {
        let mut spec = template;
        spec["mode"] = "standalone".into();
        options(&render(&files[..1], spec, None)).contains("/kerberos/it.keytab")
    };
    assert!(standalone(json!({"podTemplate": template})));
    let role = json!({"resource": {"memory": "2g", "cpu": 1}, "podTemplate": template});
    assert!(!standalone(json!({"taskManager": role})), "JobManagers need it too");
    assert!(standalone(json!({"taskManager": role, "jobManager": role})));
    assert!(!standalone(json!({})));
}

#[test]
fn hadoops_configuration_of_the_operator_is_mounted_where_the_cluster_names_none() {
    let files = ["core-site.xml", "hdfs-site.xml"].map(str::to_owned).into();
    let conf = HadoopConf { directory: "/etc/hadoop/".to_owned(), files };
    let native = render(&[], json!({}), Some(&conf));
    check(
        &of_files(&native),
        expect![[r#"
        "ConfigMap" "hadoop-config-orders" {"app":"orders","type":"flink-native-kubernetes"} {"core-site.xml": "/etc/hadoop/core-site.xml", "hdfs-site.xml": "/etc/hadoop/hdfs-site.xml"}
    "#]],
    );
    check(
        &mounts(&native.deployment),
        expect![[r#"
        {"configMap":{"items":[{"key":"core-site.xml","path":"core-site.xml"},{"key":"hdfs-site.xml","path":"hdfs-site.xml"}],"name":"hadoop-config-orders"},"name":"hadoop-config-volume"}
        {"mountPath":"/opt/hadoop/conf","name":"hadoop-config-volume"}
        {"name":"HADOOP_CONF_DIR","value":"/opt/hadoop/conf"}
    "#]],
    );
    let standalone = render(&[], json!({"mode": "standalone"}), Some(&conf));
    for pods in [&standalone.deployment, standalone.task_managers.as_ref().unwrap()] {
        assert_eq!(mounts(pods), mounts(&native.deployment));
    }
    let named =
        render(&[("kubernetes.hadoop.conf.config-map.name", "mine")], json!({}), Some(&conf));
    assert_eq!(of_files(&named), "");
    assert!(mounts(&named.deployment).contains(r#""name":"mine""#));
    let off = [("kubernetes.decorator.hadoop-conf-mount.enabled", "false")];
    let off = render(&off, json!({}), Some(&conf));
    assert_eq!((of_files(&off), mounts(&off.deployment)), Default::default());
}
