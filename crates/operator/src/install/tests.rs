use expect_test::{expect, expect_file};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::merge::{self, Scalars, defaults, merge, set, typed};
use super::objects::Release;
use super::values::Values;
use super::without_effect::without_effect;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn values(sets: &[&str]) -> Result<Values, merge::Error> {
    let mut given = Map::new();
    for text in sets {
        set(&mut given, text, Scalars::Typed)?;
    }
    let mut all = defaults();
    merge(&mut all, given);
    typed(all)
}

fn objects(sets: &[&str]) -> Vec<Value> {
    let values = values(sets).unwrap();
    Release { namespace: "flink-operator", version: "1.2.3", managed_by: "test", values: &values }
        .objects()
}

fn names(objects: &[Value]) -> Vec<String> {
    let text = |object: &Value, path| {
        object.pointer(path).map_or("", |it| it.as_str().unwrap()).to_owned()
    };
    let name = |object: &Value| {
        let namespace = text(object, "/metadata/namespace");
        format!("{} {namespace}/{}", text(object, "/kind"), text(object, "/metadata/name"))
    };
    objects.iter().map(name).collect()
}

/// The chart's file documents what the program assumes.
#[test]
fn the_charts_values_are_the_defaults() {
    let text = include_str!("../../../../helm/kubectl-flink-operator/values.yaml");
    let chart: Value = serde_yaml::from_str(text).unwrap();
    assert_eq!(chart, Value::Object(defaults()));
}

#[test]
fn the_charts_schema_is_the_one_of_the_values() {
    let schema = schemars::schema_for!(Values);
    let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    expect_file!["../../../../helm/kubectl-flink-operator/values.schema.json"].assert_eq(&text);
}

#[test]
fn watched_namespaces_have_roles_of_their_own_and_the_lease_is_in_the_operators() {
    let names = names(&objects(&["watchNamespaces={shop,fraud}"]));
    expect![[r#"
        [
            "ServiceAccount flink-operator/flink-operator",
            "ServiceAccount shop/flink",
            "ServiceAccount fraud/flink",
            "Role shop/flink-operator",
            "RoleBinding shop/flink-operator-role-binding",
            "Role fraud/flink-operator",
            "RoleBinding fraud/flink-operator-role-binding",
            "Role flink-operator/flink-operator-leader",
            "RoleBinding flink-operator/flink-operator-role-binding-leader",
            "Role shop/flink",
            "RoleBinding shop/flink-role-binding",
            "Role fraud/flink",
            "RoleBinding fraud/flink-role-binding",
            "ConfigMap flink-operator/flink-operator-config",
            "Deployment flink-operator/kubectl-flink-operator",
        ]
    "#]]
    .assert_debug_eq(&names);
}

/// A job there could use the operator's account.
#[test]
fn jobs_have_no_account_in_the_operators_namespace() {
    let of_jobs = |sets: &[&str]| {
        let mut names = names(&objects(sets));
        names.retain(|name| name.contains("/flink") && !name.contains("/flink-operator"));
        names
    };
    assert_eq!(of_jobs(&[]), [""; 0]);
    let named = of_jobs(&["jobNamespaces={shop}"]);
    assert_eq!(
        named,
        ["ServiceAccount shop/flink", "Role shop/flink", "RoleBinding shop/flink-role-binding"]
    );
}

/// The Leases of others, such as kube-scheduler's, are none of its business.
#[test]
fn leases_are_those_of_its_own_namespace_and_names() {
    for sets in [&[][..], &["watchNamespaces={shop}"], &["sharding.shards=2"]] {
        let rules: Vec<(Value, Value)> = objects(sets)
            .iter()
            .flat_map(|object| {
                let rules = object["rules"].as_array().cloned().unwrap_or_default();
                rules.into_iter().map(|rule| (object["metadata"].clone(), rule))
            })
            .filter(|(_, rule)| rule["resources"] == json!(["leases"]))
            .collect();
        assert_eq!(rules.len(), 2, "{sets:?}");
        for (metadata, rule) in rules {
            assert_eq!(metadata["namespace"], "flink-operator", "{sets:?}");
            let names = rule["resourceNames"].as_array().map_or(0, Vec::len);
            let is_named =
                if sets.contains(&"sharding.shards=2") { names == 3 } else { names == 1 };
            assert!(is_named || rule["verbs"] == json!(["create"]), "{rule}");
        }
    }
}

#[test]
fn people_are_asked_about_only_where_they_see_the_console() {
    let of_console = |sets: &[&str]| {
        let all = objects(sets);
        names(
            &all.into_iter().filter(|it| it.to_string().contains("dashboard")).collect::<Vec<_>>(),
        )
    };
    assert_eq!(of_console(&[]), [""; 0]);
    let made = of_console(&["dashboard.enabled=true", "watchNamespaces={shop}"]);
    expect![[r#"
        [
            "ClusterRole /flink-operator-kubectl-flink-operator-dashboard",
            "ClusterRoleBinding /flink-operator-kubectl-flink-operator-dashboard",
            "Service flink-operator/kubectl-flink-operator-dashboard",
            "Deployment flink-operator/kubectl-flink-operator",
        ]
    "#]]
    .assert_debug_eq(&made);
    let without_rights = of_console(&["dashboard.enabled=true", "rbac.create=false"]);
    assert_eq!(without_rights, made[2..]);
}

#[test]
fn nodes_are_seen_only_where_that_is_asked_for() {
    let rights = |sets: &[&str]| {
        let all = objects(sets);
        let of_nodes = all.iter().filter(|it| {
            it.to_string().contains("[\"nodes\"]")
                || it["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-nodes"))
        });
        names(&of_nodes.cloned().collect::<Vec<_>>())
    };
    assert_eq!(rights(&[]), [""; 0]);
    assert_eq!(rights(&["watchNamespaces={shop}"]), [""; 0]);
    let both = ["ClusterRole", "ClusterRoleBinding"]
        .map(|kind| format!("{kind} /flink-operator-kubectl-flink-operator-nodes"));
    assert_eq!(rights(&["rbac.nodesRule.create=true"]), both);
    assert_eq!(rights(&["rbac.nodesRule.create=true", "watchNamespaces={shop}"]), both);
    assert_eq!(rights(&["rbac.nodesRule.create=true", "rbac.create=false"]), [""; 0]);
}

#[test]
fn the_room_on_nodes_is_seen_only_where_that_is_asked_for() {
    let rights = |sets: &[&str]| {
        let all = objects(sets);
        let of_view = all.iter().filter(|it| {
            it.to_string().contains("cluster-autoscaler-status")
                || it["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-view"))
        });
        of_view.cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(&rights(&["watchNamespaces={shop}"])), [""; 0]);
    let made = rights(&["rbac.resourceViewRule.create=true", "watchNamespaces={shop}"]);
    let both = ["ClusterRole", "ClusterRoleBinding"]
        .map(|kind| format!("{kind} /flink-operator-kubectl-flink-operator-resource-view"));
    assert_eq!(names(&made), both);
    let verbs: Vec<&Value> =
        made[0]["rules"].as_array().unwrap().iter().map(|rule| &rule["verbs"]).collect();
    assert_eq!(verbs, [&json!(["list"]), &json!(["get"])], "nothing is written by it");
    let bound = &made[1]["subjects"][0];
    assert_eq!(
        (&bound["name"], &bound["namespace"]),
        (&json!("flink-operator"), &json!("flink-operator"))
    );
}

#[test]
fn secrets_are_written_only_where_keytabs_are_asked_for() {
    let rights = |sets: &[&str]| {
        let all = objects(sets);
        let with = all.iter().filter(|it| it.to_string().contains("[\"secrets\"]"));
        names(&with.cloned().collect::<Vec<_>>())
    };
    assert_eq!(rights(&[]), [""; 0]);
    assert_eq!(rights(&["rbac.keytabsRule.create=true"]), ["ClusterRole /flink-operator"]);
    let named = rights(&["rbac.keytabsRule.create=true", "watchNamespaces={shop}"]);
    assert_eq!(named, ["Role shop/flink-operator"], "not beside the operator itself");
}

#[test]
fn namespaces_that_the_configuration_names_are_not_overruled() {
    let arguments = |set: &str| objects(&[set]).last().unwrap().to_string();
    assert!(arguments("replicas=1").contains("--all-namespaces"));
    let named = "kubernetes.operator.watched.namespaces: shop";
    let with = arguments(&format!("defaultConfiguration.config\\.yaml={named}"));
    assert!(!with.contains("--all-namespaces"), "{with}");
    let remark = arguments(&format!("defaultConfiguration.config\\.yaml=# {named}"));
    assert!(remark.contains("--all-namespaces"), "{remark}");
}

#[test]
fn shards_are_asked_for_with_the_right_to_see_which_namespaces_there_are() {
    let rights = |sets: &[&str]| {
        let all = objects(sets);
        let is_role = |it: &&Value| it["kind"].as_str().unwrap().ends_with("Role");
        all.iter().filter(is_role).map(ToString::to_string).collect::<String>()
    };
    let pod = |set: &str| objects(&[set]).last().unwrap().to_string();
    assert!(pod("sharding.shards=8").contains(r#""--shards","8""#));
    assert!(!pod("sharding.shards=0").contains("--shards"));
    assert!(rights(&["sharding.shards=8"]).contains(r#""resources":["namespaces"]"#));
    assert!(!rights(&["sharding.shards=0"]).contains("namespaces"));
    let named = rights(&["sharding.shards=8", "watchNamespaces={shop}"]);
    assert!(!named.contains(r#"["namespaces"]"#), "named ones need not be looked for");
}

#[test]
fn levels_of_the_log_are_an_option_that_may_change_without_a_restart() {
    let made = |sets: &[&str]| {
        let all = objects(sets);
        let map = all.iter().find(|object| object["kind"] == "ConfigMap");
        let data = map.map(|map| map["data"].clone()).unwrap_or_default();
        (data, all.last().unwrap().to_string().contains("KUBECTL_FLINK_LOG"))
    };
    let levels = "logging.levels=debug";
    let line = "kubernetes.operator.log.levels: debug\n";
    assert_eq!(made(&[levels]), (json!({"config.yaml": line}), false));
    let own = r"defaultConfiguration.flink-conf\.yaml=a: b";
    let both = format!("a: b\n{line}");
    assert_eq!(made(&[levels, own]), (json!({"flink-conf.yaml": both}), false));
    let described = r"defaultConfiguration.config\.yaml=kubernetes.operator.log.levels: warn";
    let (data, _) = made(&[levels, described]);
    assert_eq!(data["config.yaml"], "kubernetes.operator.log.levels: warn");
    assert_eq!(made(&[levels, "defaultConfiguration.create=false"]), (Value::Null, true));
}

#[test]
fn flink_39791_of_two_configurations_the_standard_one_counts() {
    let new = "defaultConfiguration.config\\.yaml=kubernetes.operator.watched.namespaces: shop";
    let old = r"defaultConfiguration.flink-conf\.yaml=a: b";
    let made = |sets: &[&str]| {
        let all = objects(sets);
        let map = all.iter().find(|object| object["kind"] == "ConfigMap").unwrap()["data"].clone();
        (map, all.last().unwrap().to_string().contains("--all-namespaces"))
    };
    let data = json!({"config.yaml": "kubernetes.operator.watched.namespaces: shop"});
    assert_eq!(made(&[new, old]), (data, false));
    let remark = r"defaultConfiguration.config\.yaml=# nothing";
    assert_eq!(made(&[remark, old]), (json!({"flink-conf.yaml": "a: b"}), true));
    let described = |sets: &[&str]| {
        let mut given = Map::new();
        for text in sets {
            set(&mut given, text, Scalars::Typed).unwrap();
        }
        without_effect(&given).iter().map(|it| it.path.join(".")).collect::<Vec<_>>()
    };
    assert_eq!(described(&[new, old]), ["defaultConfiguration.flink-conf.yaml"]);
    assert_eq!(described(&[remark, old]), [""; 0]);
    assert_eq!(described(&["tls.create=false,postStart={},jvmArgs.operator="]), [""; 0]);
    let java =
        "image.repository=x/flink-kubernetes-operator,tls.create=true,jvmArgs.operator=-Xmx1g";
    assert_eq!(described(&[java]), ["image", "jvmArgs.operator", "tls.create"]);
}

/// Scripts, monitors and kustomize patches for the Java operator continue to work with these names.
#[test]
fn an_installation_may_bear_the_names_of_the_java_operators() {
    let name = "flink-kubernetes-operator";
    let given: Map<String, Value> = serde_yaml::from_str(
        "nameOverride: flink-kubernetes-operator\n\
         defaultConfiguration:\n  config.yaml: |\n    \
         kubernetes.operator.leader-election.enabled: true\n    \
         kubernetes.operator.leader-election.lease-name: flink-operator-lease\n",
    )
    .unwrap();
    let mut all = defaults();
    merge(&mut all, given);
    let values = typed(all).unwrap();
    let release =
        Release { namespace: "default", version: "1.2.3", managed_by: "test", values: &values };
    let objects = release.objects();
    assert!(names(&objects).contains(&"ConfigMap default/flink-operator-config".to_owned()));
    let deployment = objects.last().unwrap();
    let pod = &deployment["spec"]["template"];
    assert_eq!(deployment["metadata"]["name"], name);
    assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/name"], name);
    assert_eq!(pod["spec"]["containers"][0]["name"], name);
    let arguments = pod["spec"]["containers"][0]["args"].to_string();
    assert!(!arguments.contains("--lease-name"), "the configuration names it: {arguments}");
}

#[test]
fn the_port_of_probes_and_namespaces_that_may_change_go_into_the_configuration() {
    let follow =
        "defaultConfiguration.config\\.yaml=kubernetes.operator.dynamic.namespaces.enabled: true";
    let all = objects(&["watchNamespaces={shop,fraud},operatorHealth.port=9085", follow]);
    let map = all.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    expect![[r#"
        kubernetes.operator.dynamic.namespaces.enabled: true
        kubernetes.operator.health.probe.port: 9085
        kubernetes.operator.watched.namespaces: shop,fraud
    "#]]
    .assert_eq(map["data"]["config.yaml"].as_str().unwrap());
    let pod = all.last().unwrap().to_string();
    assert!(!pod.contains("WATCH_NAMESPACES") && !pod.contains("--all-namespaces"), "{pod}");
}

#[test]
fn what_is_there_already_is_not_made() {
    let names = names(&objects(&[
        "rbac.create=false,operatorServiceAccount.create=false",
        "jobServiceAccount.create=false,defaultConfiguration.create=false",
    ]));
    assert_eq!(names, ["Deployment flink-operator/kubectl-flink-operator"]);
}

#[test]
fn a_webhook_has_rights_to_its_certificate_alone() {
    let before = objects(&[]);
    let after = objects(&["webhook.create=true"]);
    let added: Vec<&Value> = after.iter().filter(|object| !before.contains(object)).collect();
    let documents: Vec<String> =
        added.iter().map(|object| serde_yaml::to_string(object).unwrap()).collect();
    expect_file!["tests/webhook.yaml"].assert_eq(&documents.join("---\n"));
    let last = &names(&after)[after.len() - 2..];
    assert!(last.iter().all(|name| name.contains("WebhookConfiguration")), "these go first");
}

#[test]
fn a_webhook_with_somebody_elses_certificate_needs_no_rights() {
    let given = "webhook.create=true,webhook.certificateSecret=served,webhook.caBundle=Q0E=";
    let after = objects(&[given, "watchNamespaces={shop}"]);
    let before = objects(&["watchNamespaces={shop}"]);
    let added: Vec<String> =
        names(&after).into_iter().filter(|name| !names(&before).contains(name)).collect();
    expect![[r#"
        [
            "Service flink-operator/kubectl-flink-operator-webhook",
            "MutatingWebhookConfiguration /flink-operator-kubectl-flink-operator-webhook",
            "ValidatingWebhookConfiguration /flink-operator-kubectl-flink-operator-webhook",
        ]
    "#]]
    .assert_debug_eq(&added);
    let hook = &after.last().unwrap()["webhooks"][0];
    assert_eq!(hook["clientConfig"]["caBundle"], "Q0E=");
    assert_eq!(hook["namespaceSelector"]["matchExpressions"][0]["values"], json!(["shop"]));
    let deployment = after.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let volume = json!({"name": "webhook", "secret": {"secretName": "served"}});
    assert!(pod["volumes"].as_array().unwrap().contains(&volume));
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--webhook-certificate")));
}

#[test]
fn values_reach_the_pod() {
    let objects = objects(&[
        "image.repository=registry.example/flink,image.digest=sha256:12,operatorPod.priorityClassName=high",
        r"operatorPod.nodeSelector.kubernetes\.io/os=linux,operatorPod.resources.limits.memory=64Mi",
        "logging.levels=debug,operatorPod.labels.team=data,metrics.port=9249",
    ]);
    let deployment = objects.last().unwrap();
    let pod = deployment.pointer("/spec/template/spec").unwrap();
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "registry.example/flink@sha256:12");
    assert_eq!(pod["priorityClassName"], "high");
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    assert_eq!(container["resources"]["limits"], json!({"memory": "64Mi"}));
    assert_eq!(container["ports"][1], json!({"name": "metrics", "containerPort": 9249}));
    assert!(container["args"].to_string().contains(r#""--metrics-port","9249""#), "{container}");
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"]["team"], "data");
    assert_eq!(deployment["spec"]["selector"]["matchLabels"].as_object().unwrap().len(), 1);
}

#[test]
fn assignments_are_read_as_helm_reads_them() {
    let mut read = Map::new();
    for text in ["a.b=1,c=true,d=null,e=x=y", r"f={a,b,3},g={},h=a\,b", r"i.j\.k=007,l="] {
        set(&mut read, text, Scalars::Typed).unwrap();
    }
    let expected = json!({
        "a": {"b": 1}, "c": true, "d": null, "e": "x=y",
        "f": ["a", "b", 3], "g": [], "h": "a,b", "i": {"j.k": "007"}, "l": "",
    });
    assert_eq!(Value::Object(read), expected);
    let mut texts = Map::new();
    set(&mut texts, "tag=12,on={true,null}", Scalars::Text).unwrap();
    assert_eq!(Value::Object(texts), json!({"tag": "12", "on": ["true", "null"]}));
}

#[test]
fn bad_values_are_reported_by_path() {
    let described = |text| values(&[text]).unwrap_err().to_string();
    let described: Vec<String> = [
        "replicas=many",
        "rbac.operatorRol.name=x",
        "image.tag.major=1",
        "image",
        "=x",
        "a..b=1",
        "strategy=Recreate",
        "watchNamespaces=shop",
    ]
    .map(described)
    .into();
    expect![[r#"
        value `replicas`: invalid type: string "many", expected i32
        value `rbac.operatorRol`: unknown field `operatorRol`, expected one of `create`, `operatorRole`, `operatorRoleBinding`, `jobRole`, `jobRoleBinding`, `nodesRule`, `resourceViewRule`, `keytabsRule`
        value `image.tag`: invalid type: map, expected a string
        `image`: expected PATH=VALUE, such as image.tag=1.2 or watchNamespaces={a,b}
        `=x`: expected PATH=VALUE, such as image.tag=1.2 or watchNamespaces={a,b}
        `a..b=1`: expected PATH=VALUE, such as image.tag=1.2 or watchNamespaces={a,b}
        value `strategy`: invalid type: string "Recreate", expected a map
        value `watchNamespaces`: invalid type: string "shop", expected a sequence"#]].assert_eq(&described.join("\n"));
}

#[test]
fn a_null_empties_a_default() {
    let mut under = map(json!({"a": {"b": 1, "c": 2}, "d": [1], "f": {"g": 1}, "h": [1]}));
    merge(&mut under, map(json!({"a": {"b": null, "e": 3}, "d": [2, 3], "f": null, "h": null})));
    assert_eq!(Value::Object(under), json!({"a": {"c": 2, "e": 3}, "d": [2, 3], "f": {}, "h": []}));
}

proptest! {
    #[test]
    fn no_assignment_panics(text in "[a-c.=,{}\\\\0-9]{0,20}|\\PC{0,20}") {
        drop(set(&mut Map::new(), &text, Scalars::Typed));
    }

    #[test]
    fn any_text_can_be_set(value in "[a-z,\\\\={}.]{0,12}") {
        let escaped: String = value.chars().flat_map(|letter| ['\\', letter]).collect();
        let mut read = Map::new();
        set(&mut read, &format!("v={escaped}"), Scalars::Text).unwrap();
        prop_assert_eq!(&read["v"], &Value::String(value));
    }
}
