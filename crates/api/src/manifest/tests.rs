use expect_test::{Expect, expect};

use super::*;

const BASIC: &str = "\
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata:
  name: basic
spec:
  image: flink:1.20
  flinkVersion: v1_20
  serviceAccount: flink
  flinkConfiguration:
    taskmanager.numberOfTaskSlots: 2
    state: {checkpoints.dir: s3://c}
  job:
    jarURI: local:///opt/flink/job.jar
    parallelism: 2
";

#[track_caller]
fn problems(text: &str, expected: Expect) {
    let problems = parse("job.yaml", text).expect_err("the manifest is wrong");
    expected
        .assert_eq(&problems.iter().map(|problem| problem.to_string() + "\n").collect::<String>());
}

/// Returns `BASIC` with additional lines below `spec`.
fn with_spec(lines: &str) -> String {
    format!("{BASIC}{lines}")
}

#[test]
fn resources_are_typed_and_stored_as_written() {
    let documents = parse("job.yaml", BASIC).unwrap();
    let [document] = &documents[..] else { panic!("one document, not {}", documents.len()) };
    assert_eq!(
        (document.resource.kind(), document.resource.name()),
        ("FlinkDeployment", "basic".to_owned())
    );
    let Resource::Deployment(deployment) = &document.resource else { panic!("not a deployment") };
    assert_eq!(deployment.spec.job.as_ref().unwrap().parallelism, Some(2));
    assert_eq!(document.value["spec"]["flinkConfiguration"]["state"]["checkpoints.dir"], "s3://c");
}

#[test]
fn fields_are_located() {
    let document = &parse("job.yaml", BASIC).unwrap()[0];
    assert_eq!(document.locate("spec.job.parallelism"), (14, 18));
    assert_eq!(document.locate("spec.job.state"), (13, 5));
    assert_eq!(document.locate("spec.flinkConfiguration.taskmanager.numberOfTaskSlots"), (10, 36));
    assert_eq!(document.locate("spec.serviceAccount.x"), (8, 19));
    assert_eq!(document.locate("status"), (1, 1));
}

#[test]
fn documents_json_and_lists() {
    let two = format!("{BASIC}---\n# nothing\n---\n{BASIC}");
    assert_eq!(parse("f", &two).unwrap().len(), 2);
    let json = serde_json::to_string_pretty(&parse("f", BASIC).unwrap()[0].value).unwrap();
    assert_eq!(parse("f", &json).unwrap()[0].value, parse("f", BASIC).unwrap()[0].value);
    let list = format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{json}]}}"#);
    assert_eq!(parse("f", &list).unwrap().len(), 1);
    assert_eq!(parse("f", "").unwrap().len(), 0);
}

#[test]
fn unknown_fields() {
    problems(
        &with_spec("    paralelism: 3\n    stat: x\n  imagePolicy: x\n"),
        expect![[r#"
        job.yaml:15:5: spec.job.paralelism: unknown field; did you mean `parallelism`? allowed here: `allowNonRestoredState`, `args`, `autoscalerResetNonce`, `checkpointTriggerNonce`, `entryClass`, `initialSavepointPath`, `jarURI`, `parallelism`, `savepointRedeployNonce`, `savepointTriggerNonce`, `state`, `upgradeMode`
        job.yaml:16:5: spec.job.stat: unknown field; did you mean `state`? allowed here: `allowNonRestoredState`, `args`, `autoscalerResetNonce`, `checkpointTriggerNonce`, `entryClass`, `initialSavepointPath`, `jarURI`, `parallelism`, `savepointRedeployNonce`, `savepointTriggerNonce`, `state`, `upgradeMode`
        job.yaml:17:3: spec.imagePolicy: unknown field; did you mean `imagePullPolicy`? allowed here: `flinkConfiguration`, `flinkVersion`, `image`, `imagePullPolicy`, `ingress`, `job`, `jobManager`, `logConfiguration`, `mode`, `podTemplate`, `restartNonce`, `serviceAccount`, `taskManager`
    "#]],
    );
    problems(
        &BASIC.replace("spec:", "specs:"),
        expect![[r#"
        job.yaml:5:1: specs: unknown field; did you mean `spec`? allowed here: `apiVersion`, `kind`, `metadata`, `spec`, `status`
    "#]],
    );
    problems(
        &BASIC.replace("  name: basic", "  name: basic\n  label: {}"),
        expect![[r#"
        job.yaml:5:3: metadata.label: unknown field; did you mean `labels`? allowed here: `annotations`, `creationTimestamp`, `deletionGracePeriodSeconds`, `deletionTimestamp`, `finalizers`, `generateName`, `generation`, `labels`, `managedFields`, `name`, `namespace`, `ownerReferences`, `resourceVersion`, `selfLink`, `uid`
    "#]],
    );
}

#[test]
fn wrong_types() {
    problems(
        &with_spec(
            "    args: [1, text, null]\n    state: 3\n    allowNonRestoredState: \"no\"\n    entryClass: {}\n  ingress: []\n  restartNonce: 1.5\n",
        ),
        expect![[r#"
            job.yaml:15:12: spec.job.args[0]: expected text, found `1`: put it in quotes
            job.yaml:15:21: spec.job.args[2]: expected text, found nothing
            job.yaml:16:12: spec.job.state: expected text, found `3`: put it in quotes
            job.yaml:17:28: spec.job.allowNonRestoredState: expected `true` or `false`, found the text `no`
            job.yaml:18:17: spec.job.entryClass: expected text, found a map
            job.yaml:19:12: spec.ingress: expected a map, found a list
            job.yaml:20:17: spec.restartNonce: expected a whole number, found `1.5`
        "#]],
    );
    problems(
        &with_spec(
            "  jobManager:\n    resource: {cpu: lots, memory: 2048}\n    resources: {limits: {cpu: 0.5}}\n",
        ),
        expect![[r#"
            job.yaml:16:21: spec.jobManager.resource.cpu: expected a number, found the text `lots`
            job.yaml:16:35: spec.jobManager.resource.memory: expected text, found `2048`: put it in quotes
            job.yaml:17:31: spec.jobManager.resources.limits.cpu: expected text or a whole number, found `0.5`: put it in quotes
        "#]],
    );
    problems(
        &with_spec("  restartNonce: 10000000000000000000\n")
            .replace("parallelism: 2", "parallelism: 3000000000"),
        expect![[r#"
            job.yaml:14:18: spec.job.parallelism: `3000000000` is out of range: the largest number here is 2147483647
            job.yaml:15:17: spec.restartNonce: `10000000000000000000` is out of range: the largest number here is 9223372036854775807
        "#]],
    );
}

#[test]
fn unknown_values() {
    problems(
        &with_spec("    upgradeMode: laststate\n    state: stopped\n").replace("v1_20", "v1.20"),
        expect![[r#"
            job.yaml:7:17: spec.flinkVersion: unknown value `v1.20`; did you mean `v1_20`? allowed: `v1_13`, `v1_14`, `v1_15`, `v1_16`, `v1_17`, `v1_18`, `v1_19`, `v1_20`, `v2_0`, `v2_1`, `v2_2`, `v2_3`, `v2_4`
            job.yaml:15:18: spec.job.upgradeMode: unknown value `laststate`; did you mean `last-state`? allowed: `last-state`, `savepoint`, `stateless`
            job.yaml:16:12: spec.job.state: unknown value `stopped`; allowed: `running`, `suspended`
        "#]],
    );
}

/// Canaries are written like this.
#[test]
fn resources_without_a_spec() {
    for kind in ["FlinkDeployment", "FlinkSessionJob"] {
        let text =
            format!("apiVersion: flink.apache.org/v1beta1\nkind: {kind}\nmetadata: {{name: a}}\n");
        assert_eq!(parse("f", &text).unwrap()[0].resource.name(), "a");
    }
}

#[test]
fn duplicate_keys() {
    problems(
        &with_spec("    parallelism: 3\n"),
        expect![[r#"
        job.yaml:15:5: spec.job.parallelism: is set twice, first in line 14
    "#]],
    );
    problems(
        &with_spec("  image: other\n"),
        expect![[r#"
        job.yaml:15:3: spec.image: is set twice, first in line 6
    "#]],
    );
}

#[test]
fn pod_templates_are_open_and_typed() {
    let template = "  podTemplate:\n    spec:\n      aNewField: {x: 1}\n      containers:\n      - name: flink-main-container\n        image: flink\n        anotherNewField: 1\n";
    let documents = parse("f", &with_spec(template)).unwrap();
    assert_eq!(documents[0].value["spec"]["podTemplate"]["spec"]["aNewField"]["x"], 1);
    problems(
        &with_spec(
            &template
                .replace("image: flink", "image: [flink]")
                .replace("- name: flink-main-container", "- name: 1"),
        ),
        expect![[r#"
            job.yaml:19:15: spec.podTemplate.spec.containers[0].name: expected text, found `1`: put it in quotes
            job.yaml:20:16: spec.podTemplate.spec.containers[0].image: expected text, found a list
        "#]],
    );
}

#[test]
fn what_is_no_flink_resource() {
    problems(
        &BASIC.replace("v1beta1", "v1"),
        expect![[r#"
        job.yaml:1:1: there is no `FlinkDeployment` in `flink.apache.org/v1`: expected `FlinkDeployment`, `FlinkSessionJob`, `FlinkStateSnapshot`, `FlinkBlueGreenDeployment` of `flink.apache.org/v1beta1`
    "#]],
    );
    problems(
        &BASIC.replace("kind: FlinkDeployment", "kind: FlinkDeploymnet"),
        expect![[r#"
        job.yaml:1:1: there is no `FlinkDeploymnet` in `flink.apache.org/v1beta1`: expected `FlinkDeployment`, `FlinkSessionJob`, `FlinkStateSnapshot`, `FlinkBlueGreenDeployment` of `flink.apache.org/v1beta1`
    "#]],
    );
    problems(
        "just text",
        expect![[r#"
        job.yaml:1:1: has no `apiVersion`: expected `FlinkDeployment`, `FlinkSessionJob`, `FlinkStateSnapshot`, `FlinkBlueGreenDeployment` of `flink.apache.org/v1beta1`
    "#]],
    );
    problems(
        "apiVersion: v1\nmetadata: {}\n",
        expect![[r#"
        job.yaml:1:1: has no `kind`: expected `FlinkDeployment`, `FlinkSessionJob`, `FlinkStateSnapshot`, `FlinkBlueGreenDeployment` of `flink.apache.org/v1beta1`
    "#]],
    );
    problems(
        "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\n",
        expect![[r#"
        job.yaml:1:1: metadata.name: must be set
    "#]],
    );
}

#[test]
fn foreign_resources_are_passed_on() {
    let text = format!("{BASIC}---\napiVersion: v1\nkind: Service\nmetadata: {{name: s}}\n");
    let documents = parse("f", &text).unwrap();
    assert_eq!(documents[1].resource.kind(), "Service");
    assert_eq!(documents[1].resource.name(), "s");
    assert_eq!(documents[1].locate(""), (16, 1));
}

#[test]
fn what_is_no_yaml() {
    problems(
        "a: [1, 2\nb: 3\n",
        expect![[r#"
        job.yaml:2:2: is not valid YAML: illegal placement of ':' indicator
    "#]],
    );
    problems(
        "a: b: c\n",
        expect![[r#"
        job.yaml:1:5: is not valid YAML: mapping values are not allowed in this context
    "#]],
    );
    problems(
        "a: .nan\n",
        expect![[r#"
        job.yaml:1:4: is not valid YAML: non-finite float `.nan` rejected by the configured policy
    "#]],
    );
}

#[test]
fn scalars_are_read_as_kubectl_reads_them() {
    let text = with_spec(
        "    allowNonRestoredState: yes\n  podTemplate: {spec: {volumes: [{configMap: {defaultMode: 0644}}]}}\n",
    );
    let value = &parse("f", &text).unwrap()[0].value["spec"];
    assert_eq!(value["job"]["allowNonRestoredState"], true);
    assert_eq!(value["podTemplate"]["spec"]["volumes"][0]["configMap"]["defaultMode"], 420);
}

#[test]
fn all_kinds() {
    for kind in
        ["FlinkDeployment", "FlinkSessionJob", "FlinkStateSnapshot", "FlinkBlueGreenDeployment"]
    {
        let text = format!(
            "apiVersion: flink.apache.org/v1beta1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{}}\n"
        );
        assert_eq!(parse("f", &text).unwrap()[0].resource.kind(), kind);
    }
}

#[test]
fn what_would_take_too_much_to_read_is_refused() {
    let nested = format!("{BASIC}x: {}{}\n", "[".repeat(60), "]".repeat(60));
    let problem = parse("job.yaml", &nested).unwrap_err().remove(0);
    assert!(problem.message.contains("depth"), "{problem}");
    let aliases: String = ('b'..='i')
        .map(|to| {
            format!("{to}: &{to} [*a, *a, *a, *a, *a]\n")
                .replace("*a", &format!("*{}", char::from(to as u8 - 1)))
        })
        .collect();
    let problem =
        parse("job.yaml", &format!("{BASIC}a: &a [1, 1]\n{aliases}")).unwrap_err().remove(0);
    assert!(problem.message.contains("alias"), "{problem}");
}

#[test]
fn a_time_that_is_none_is_reported_by_its_field() {
    problems(
        &BASIC.replace("metadata:\n", "metadata:\n  creationTimestamp: today\n"),
        expect![[r#"
            job.yaml:4:22: metadata.creationTimestamp: `today` is not a time: expected one such as `2026-01-01T00:00:00Z`
        "#]],
    );
}

#[test]
fn what_is_alongside_an_unknown_field_is_read_all_the_same() {
    let text = BASIC.replace("  image:", "  imagee: x\n  image:");
    let (documents, problems) = read("basic.yaml", &text);
    assert_eq!(documents.iter().map(|it| it.resource.name()).collect::<Vec<_>>(), ["basic"]);
    assert_eq!(problems.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["spec.imagee"]);
    // The value of a wrong type cannot be read; it is reported once.
    let (documents, problems) =
        read("basic.yaml", &BASIC.replace("parallelism: 2", "parallelism: two"));
    assert_eq!((documents.len(), problems.len()), (0, 1));
}
