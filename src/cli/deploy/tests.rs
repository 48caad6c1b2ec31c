use std::io::Write;

use clap::Parser;
use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
    #[arg(short, long)]
    filename: Option<String>,
}

fn flags(line: &str) -> Flags {
    Line::try_parse_from(std::iter::once("deploy").chain(line.split_whitespace())).unwrap().flags
}

#[test]
fn flags_make_a_whole_manifest() {
    let flags = flags(
        "wordcount --image flink:1.20-java17 --jar local:///a.jar --args --in --args x --config taskmanager.numberOfTaskSlots=2",
    );
    expect![[r#"
        apiVersion: flink.apache.org/v1beta1
        kind: FlinkDeployment
        metadata:
          name: wordcount
          namespace: team
        spec:
          image: flink:1.20-java17
          flinkVersion: v1_20
          serviceAccount: flink
          flinkConfiguration:
            taskmanager.numberOfTaskSlots: "2"
          jobManager:
            resources:
              requests:
                memory: 1600Mi
          taskManager:
            resources:
              requests:
                memory: 1728Mi
          job:
            jarURI: local:///a.jar
            args:
            - --in
            - x
            parallelism: 1
            upgradeMode: stateless
    "#]]
    .assert_eq(&serde_yaml::to_string(&flags.manifest("team").unwrap()).unwrap());
}

#[test]
fn flags_change_only_what_they_say() {
    assert_eq!(
        flags("wordcount --image flink:1.20 --parallelism 4").patch(),
        json!({"spec": {"image": "flink:1.20", "job": {"parallelism": 4}}})
    );
}

#[test]
fn what_a_new_deployment_lacks_is_a_usage_error() {
    let problem = |line| flags(line).manifest("team").unwrap_err().to_string();
    assert_eq!(
        problem("x --jar local:///a.jar"),
        "`x` does not exist yet, and a new deployment needs --image"
    );
    assert!(problem("x --image flink:1.20").contains("needs --jar"));
    assert!(problem("x --image mine:7 --jar local:///a.jar").contains("--flink-version"));
}

#[test]
fn version_is_guessed_from_flink_images_only() {
    let guessed = |image| flags::version_of_image(image).map(|it| it.into_str());
    assert_eq!(guessed("flink:1.20"), Some("v1_20"));
    assert_eq!(guessed("registry:5000/library/flink:2.0.1-scala_2.12"), Some("v2_0"));
    assert_eq!(guessed("my-job:1.20"), None);
    assert_eq!(guessed("flink:latest"), None);
}

#[test]
fn merge_is_that_of_the_api_server() {
    let mut target =
        json!({"spec": {"image": "a", "job": {"parallelism": 1, "args": ["x"]}, "ingress": {}}});
    merge(
        &mut target,
        &json!({"spec": {"job": {"args": ["y"]}, "ingress": null, "new": {"a": 1}}}),
    );
    assert_eq!(
        target,
        json!({"spec": {"image": "a", "job": {"parallelism": 1, "args": ["y"]}, "new": {"a": 1}}})
    );
}

#[track_caller]
fn check_file(text: &str, namespace: Option<&str>, expected: Expect) {
    let mut file = tempfile::Builder::new().prefix("job").suffix(".yaml").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let global = Global { namespace: namespace.map(str::to_owned), ..Global::default() };
    let result = manifests(file.path(), &global);
    let shown = match result {
        Ok(manifests) => format!("{} manifests", manifests.len()),
        Err(error) => error.to_string().replace(&file.path().display().to_string(), "job.yaml"),
    };
    expected.assert_eq(&shown);
}

#[test]
fn only_what_runs_jobs_is_deployed() {
    const ONE: &str = "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata: {name: x, namespace: a}\nspec: {flinkVersion: v1_20}\n";
    check_file(ONE, None, expect!["1 manifests"]);
    check_file(&format!("{ONE}---\n---\n{ONE}"), Some("a"), expect!["2 manifests"]);
    check_file(
        ONE,
        Some("b"),
        expect!["the namespace of `x`, `a`, does not match --namespace `b`"],
    );
    let session_job = ONE
        .replace("FlinkDeployment", "FlinkSessionJob")
        .replace("flinkVersion: v1_20", "deploymentName: cluster");
    check_file(&format!("{ONE}---\n{session_job}"), None, expect!["2 manifests"]);
    let snapshot = ONE
        .replace("FlinkDeployment", "FlinkStateSnapshot")
        .replace("flinkVersion: v1_20", "jobReference: {kind: FlinkDeployment, name: x}");
    check_file(
        &snapshot,
        None,
        expect![
            "job.yaml:1: cannot deploy a FlinkStateSnapshot, only a FlinkDeployment, FlinkSessionJob or FlinkBlueGreenDeployment"
        ],
    );
    let canary = ONE.replace("namespace: a", "labels: {flink.apache.org/canary: 'true'}");
    check_file(
        &canary,
        None,
        expect![
            "job.yaml:1: cannot deploy a canary, only a FlinkDeployment, FlinkSessionJob or FlinkBlueGreenDeployment"
        ],
    );
    check_file(
        "# nothing\n",
        None,
        expect![
            "`job.yaml` contains no FlinkDeployment, FlinkSessionJob or FlinkBlueGreenDeployment"
        ],
    );
}

#[test]
fn faults_of_a_manifest_are_reported_with_their_lines() {
    check_file(
        "a: [",
        None,
        expect![[r#"
        `job.yaml` cannot be used:
          job.yaml:1:4: is not valid YAML: unclosed bracket '['"#]],
    );
    check_file(
        "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata: {name: x}\nspec:\n  flinkVersion: v9_9\n  job:\n    paralellism: 2\n    parallelism: two\n",
        None,
        expect![[r#"
            `job.yaml` cannot be used:
              job.yaml:5:17: spec.flinkVersion: unknown value `v9_9`; did you mean `v1_19`? allowed: `v1_13`, `v1_14`, `v1_15`, `v1_16`, `v1_17`, `v1_18`, `v1_19`, `v1_20`, `v2_0`, `v2_1`, `v2_2`, `v2_3`, `v2_4`
              job.yaml:7:5: spec.job.paralellism: unknown field; did you mean `parallelism`? allowed here: `allowNonRestoredState`, `args`, `autoscalerResetNonce`, `checkpointTriggerNonce`, `entryClass`, `initialSavepointPath`, `jarURI`, `parallelism`, `savepointRedeployNonce`, `savepointTriggerNonce`, `state`, `upgradeMode`
              job.yaml:8:18: spec.job.parallelism: expected a whole number, found the text `two`"#]],
    );
}

#[test]
fn all_violations_are_reported_at_once() {
    let violation = |path: &str, message: &str| Violation {
        path: path.to_owned(),
        message: message.to_owned(),
    };
    let violations = [
        ("job.yaml:3:1".to_owned(), violation("spec.image", "is missing")),
        ("job.yaml:9:5".to_owned(), violation("spec.job.parallelism", "must be positive")),
    ];
    expect![[r#"
        nothing was deployed or changed:
          job.yaml:3:1: spec.image: is missing
          job.yaml:9:5: spec.job.parallelism: must be positive"#]]
    .assert_eq(&refusal("nothing was deployed or changed", &violations).to_string());
}
