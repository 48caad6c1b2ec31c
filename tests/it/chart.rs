//! The Helm chart against `operator install`: the same values must yield the same objects.

use std::process::Output;

use operator::install::merge::{Scalars, defaults, merge, set, typed};
use operator::install::objects::Release;
use operator::install::without_effect::without_effect;
use serde_json::{Map, Value};

use crate::support::program::other;

const NAMESPACE: &str = "flink-operator";
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/helm/kubectl-flink-operator");

/// Sets of values that together reach every branch of a template.
const CASES: &[&[&str]] = &[
    &[],
    &["watchNamespaces={shop,fraud},replicas=2,strategy.type=RollingUpdate"],
    &["rbac.create=false,operatorServiceAccount.create=false,defaultConfiguration.create=false"],
    &[
        "rbac.operatorRole.create=false,rbac.jobRoleBinding.create=false,jobServiceAccount.create=false",
    ],
    &[
        "watchNamespaces={shop},rbac.operatorRoleBinding.create=false,rbac.jobRole.create=false",
        "rbac.operatorRole.name=other,rbac.jobRole.name=jobs,operatorServiceAccount.name=somebody",
    ],
    &[
        "nameOverride=mine,image.repository=registry.example/flink,image.tag=v7,image.pullPolicy=Always",
        r"operatorPod.labels.team=data,operatorPod.annotations.example\.org/on=yes",
    ],
    &["sharding.shards=8,replicas=3"],
    &["sharding.shards=8,watchNamespaces={shop}"],
    &["logging.levels=debug,defaultConfiguration.create=false"],
    &[r"logging.levels=debug,defaultConfiguration.flink-conf\.yaml=a: b"],
    &["image.digest=sha256:12,logging.format=text,logging.levels=debug,metrics.port=9249"],
    &[
        r"operatorPod.nodeSelector.kubernetes\.io/os=linux,operatorPod.priorityClassName=high",
        "operatorPod.dnsPolicy=Default,operatorPod.resources.limits.memory=64Mi",
        "operatorServiceAccount.annotations.role=reader",
    ],
    &["defaultConfiguration.flink-conf\\.yaml=taskmanager.numberOfTaskSlots: 2"],
    &["defaultConfiguration.config\\.yaml=taskmanager.numberOfTaskSlots: 2"],
    &["defaultConfiguration.config\\.yaml=kubernetes.operator.watched.namespaces: shop"],
    &["defaultConfiguration.config\\.yaml=# kubernetes.operator.watched.namespaces: shop"],
    &[
        "defaultConfiguration.flink-conf\\.yaml=kubernetes.operator.watched.namespaces: shop",
        "defaultConfiguration.create=false",
    ],
    &["flinkRest.tlsSecret=flink-rest-tls"],
    &["flinkRest.tlsSecret=flink-rest-tls,flinkRest.checkHostName=false"],
    &["rbac.nodesRule.create=true"],
    &["rbac.nodesRule.create=true,watchNamespaces={shop},nameOverride=mine"],
    &["rbac.nodesRule.create=true,rbac.operatorRole.create=false"],
    &["rbac.nodesRule.create=true,rbac.operatorRoleBinding.create=false"],
    &["rbac.resourceViewRule.create=true"],
    &["rbac.resourceViewRule.create=true,rbac.nodesRule.create=true,watchNamespaces={shop}"],
    &["rbac.resourceViewRule.create=true,rbac.operatorRole.create=false,nameOverride=mine"],
    &["rbac.resourceViewRule.create=true,rbac.operatorRoleBinding.create=false"],
    &["rbac.keytabsRule.create=true"],
    &["rbac.keytabsRule.create=true,watchNamespaces={shop,fraud}"],
    &["webhook.create=true"],
    &[
        "webhook.create=true,webhook.failurePolicy=Fail,webhook.port=8443,watchNamespaces={shop,fraud}",
        "nameOverride=mine,rbac.operatorRole.name=other,rbac.operatorRoleBinding.create=false",
    ],
    &[
        "webhook.create=true,webhook.certificateSecret=served,webhook.caBundle=Q0E=",
        r"webhook.annotations.cert-manager\.io/inject-ca-from=flink-operator/served",
    ],
    &["webhook.create=true,rbac.create=false,webhook.caBundle=Q0E="],
    &["webhook.create=true,webhook.validator.create=false,webhook.serviceLabels.team=data"],
    &["webhook.create=true,webhook.mutator.create=false"],
    &["dashboard.enabled=true"],
    &["networkPolicy.create=true"],
    &["networkPolicy.create=true,metrics.port=9249,webhook.create=true,dashboard.enabled=true"],
    &["jobNamespaces={shop}"],
    &["jobNamespaces={shop,risk},watchNamespaces={shop},jobServiceAccount.create=false"],
    &[
        "dashboard.enabled=true,dashboard.port=8080,dashboard.clusterName=lab,dashboard.serviceLabels.team=data",
        "watchNamespaces={shop},nameOverride=mine,webhook.create=true,rbac.operatorRole.create=false",
    ],
    &[
        "dashboard.enabled=true,rbac.operatorRoleBinding.create=false,operatorServiceAccount.name=somebody",
    ],
    &["dashboard.enabled=true,rbac.create=false"],
    &["fullnameOverride=mine,rbac.operatorRole.name=,operatorServiceAccount.name="],
    &["jobServiceAccount.create=false,jobServiceAccount.name=,fullnameOverride=mine"],
    &[
        "watchNamespaces={shop},rbac.jobRole.name=,rbac.jobRoleBinding.name=,jobServiceAccount.name=",
        "nameOverride=mine,webhook.create=true",
    ],
    &["defaultConfiguration.log4j-console\\.properties=rootLogger.level = DEBUG"],
    &["defaultConfiguration.log4j-console\\.properties=#,logging.framework=log4j2"],
    &[
        "defaultConfiguration.log4j-console\\.properties=rootLogger.level = DEBUG",
        "defaultConfiguration.append=false",
    ],
    &[
        "defaultConfiguration.config\\.yaml=kubernetes.operator.watched.namespaces: shop",
        "defaultConfiguration.flink-conf\\.yaml=a: b",
    ],
    &[
        "defaultConfiguration.config\\.yaml=#",
        "defaultConfiguration.flink-conf\\.yaml=kubernetes.operator.watched.namespaces: shop",
    ],
    &["global.team=data,enabled=true"],
    &["operatorHealth.port=9085,logging.levels=debug"],
    &[
        "watchNamespaces={shop,fraud},operatorHealth.port=9085",
        "defaultConfiguration.config\\.yaml=kubernetes.operator.dynamic.namespaces.enabled: true",
    ],
    &["logging.framework=logback"],
    &["logging.framework=logback,defaultConfiguration.logback-console\\.xml=<configuration />"],
    &["image.repository=registry.example/flink-kubernetes-operator,image.tag=1.14.0"],
    &[
        "defaultConfiguration.flink-conf\\.yaml=kubernetes.operator.leader-election.lease-name: mine",
    ],
];

/// Folder of values for the Java operator's chart: its own, and some published ones.
const OF_JAVA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/helm");

/// The oldest Kubernetes that the chart accepts; `Chart.yaml` says the same.
const OLDEST: &str = "1.25.0";

/// Folder of the examples' values.
const OF_EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/helm");

/// Values as a file, for what `--set` cannot express.
const FILE: &str = "
imagePullSecrets: [{name: registry}]
operatorPod:
  env: [{name: A, value: b}]
  envFrom: [{secretRef: {name: more}}]
  tolerations: [{operator: Exists}]
  affinity: {nodeAffinity: {}}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  dnsConfig: {nameservers: [10.0.0.1]}
  initContainers: [{name: first, image: registry.example/fetch}]
  sidecarContainers: [{name: beside, image: registry.example/ship}]
defaultConfiguration:
  config.yaml: |
    kubernetes.operator.leader-election.lease-name: mine
    kubernetes.operator.leader-election.enabled: true
operatorVolumeMounts:
  create: true
  data: [{name: more, mountPath: /more}, {name: more, mountPath: /opt/flink/artifacts}]
operatorVolumes: {create: true, data: [{name: more, emptyDir: {}}]}
podSecurityContext: null
operatorSecurityContext: null
networkPolicy:
  create: true
  metricsFrom: [{namespaceSelector: {matchLabels: {team: monitoring}}}]
metrics: {port: 9249}
";

fn of_program(given: Map<String, Value>) -> Vec<Value> {
    let mut all = defaults();
    merge(&mut all, given);
    let values = typed(all).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    Release { namespace: NAMESPACE, version, managed_by: "Helm", values: &values }.objects()
}

fn of_chart(arguments: &[&str]) -> Vec<Value> {
    of_chart_in(CHART, arguments)
}

fn of_chart_in(chart: &str, arguments: &[&str]) -> Vec<Value> {
    let output = templated(chart, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let documents: Vec<Value> = serde_yaml::from_multiple(&text).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

fn templated(chart: &str, arguments: &[&str]) -> Output {
    let helm = std::env::var("HELM").expect("HELM names the program: run tests/helm.sh");
    let mut command = other(helm);
    command.args(["template", "release", chart, "--namespace", NAMESPACE]);
    // A Helm built without its release's flags takes itself to be of Kubernetes 1.20.
    command.args(["--kube-version", OLDEST]).args(arguments);
    command.output().unwrap()
}

/// Sorts the objects; the order within an object is significant.
fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|object| {
        let text = |path| object.pointer(path).map_or_else(String::new, ToString::to_string);
        (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
    });
    objects
}

#[track_caller]
fn assert_same(chart: Vec<Value>, program: Vec<Value>, of: &str) {
    let text = |objects: Vec<Value>| serde_json::to_string_pretty(&sorted(objects)).unwrap();
    // Maps are unordered.
    let ordered = |text: String| {
        let value: Value = serde_json::from_str(&text).unwrap();
        serde_json::to_string_pretty(&in_order(value)).unwrap()
    };
    let (chart, program) = (ordered(text(chart)), ordered(text(program)));
    let diff = similar::TextDiff::from_lines(&program, &chart);
    assert!(chart == program, "{of}\n{}", diff.unified_diff().header("program", "chart"));
}

fn in_order(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().collect();
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            entries.into_iter().map(|(name, value)| (name, in_order(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(in_order).collect(),
        other => other,
    }
}

#[test]
#[ignore = "needs Helm: tests/helm.sh"]
fn the_chart_makes_what_the_program_makes() {
    for case in CASES {
        let mut given = Map::new();
        for text in *case {
            set(&mut given, text, Scalars::Typed).unwrap();
        }
        let arguments: Vec<&str> = case.iter().flat_map(|text| ["--set", text]).collect();
        assert_same(of_chart(&arguments), of_program(given), &format!("{case:?}"));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), FILE).unwrap();
    let path = file.path().to_str().unwrap();
    let given = serde_yaml::from_str(FILE).unwrap();
    assert_same(of_chart(&["--values", path]), of_program(given), FILE);
}

/// Values without effect are reported in the same words.
#[test]
#[ignore = "needs Helm: tests/helm.sh"]
fn values_for_the_java_operators_chart_are_taken() {
    // Helm shows notes only on installation.
    let notes = tempfile::tempdir().unwrap();
    let copied = other("cp")
        .arg("-R")
        .args([&format!("{CHART}/."), notes.path().to_str().unwrap()])
        .status();
    assert!(copied.unwrap().success());
    let template = "told: {{ include \"operator.withoutEffect\" . | toJson }}\n";
    std::fs::write(notes.path().join("templates/told.yaml"), template).unwrap();
    let chart = notes.path().to_str().unwrap();
    let files = std::fs::read_dir(OF_JAVA).unwrap().map(|entry| entry.unwrap().path());
    let mut told = Vec::new();
    for file in files {
        let path = file.to_str().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let given: Map<String, Value> = serde_yaml::from_str(&text).unwrap();
        assert_same(of_chart(&["--values", path]), of_program(given.clone()), path);
        let of_chart =
            of_chart_in(chart, &["--values", path, "--show-only", "templates/told.yaml"]);
        let of_program: Vec<String> =
            without_effect(&given).iter().map(ToString::to_string).collect();
        assert_eq!(of_chart[0]["told"].as_str().unwrap().trim(), of_program.join("\n"), "{path}");
        told.extend(of_program);
    }
    assert!(!told.is_empty());
}

/// Returns path and values of each example.
fn examples() -> Vec<(String, Map<String, Value>)> {
    let files = std::fs::read_dir(OF_EXAMPLES).unwrap().map(|entry| entry.unwrap().path());
    let read = |file: std::path::PathBuf| {
        let values = serde_yaml::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        (file.to_str().unwrap().to_owned(), values)
    };
    files.map(read).collect()
}

#[test]
fn values_of_the_examples_reach_the_operators_pod() {
    for (path, given) in examples() {
        assert!(without_effect(&given).is_empty(), "{path}");
        let objects = of_program(given.clone());
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let given = Value::Object(given);
        for (made, wanted) in [
            (&container["env"], "/operatorPod/env"),
            (&pod["containers"], "/operatorPod/sidecarContainers"),
            (&container["volumeMounts"], "/operatorVolumeMounts/data"),
            (&pod["volumes"], "/operatorVolumes/data"),
        ] {
            let made = made.as_array().unwrap();
            let wanted = given.pointer(wanted).and_then(Value::as_array).into_iter().flatten();
            let missing: Vec<_> = wanted.filter(|one| !made.contains(one)).collect();
            assert!(missing.is_empty(), "{path}: {missing:#?}");
        }
    }
}

#[test]
#[ignore = "needs Helm: tests/helm.sh"]
fn the_chart_takes_the_values_of_the_examples() {
    for (path, given) in examples() {
        assert_same(of_chart(&["--values", &path]), of_program(given), &path);
    }
}

#[test]
#[ignore = "needs Helm: tests/helm.sh"]
fn the_chart_refuses_what_the_program_refuses() {
    for (bad, named) in [
        ("replicas=many", "replicas"),
        ("rbac.operatorRol.name=x", "operatorRol"),
        ("imagePullSecret={}", "imagePullSecret"),
        ("webhook.port=0", "port"),
    ] {
        let output = templated(CHART, &["--set", bad]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(named), "{bad}: {said}");
    }
}
