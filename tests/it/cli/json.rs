//! `-o json` is a contract: for every command that has it, the fields and their types are recorded in
//! `tests/golden/json`, as the command prints them against a cluster in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::CommandFactory;
use expect_test::expect_file;
use kubectl_flink::cli::args::Cli;
use kubectl_flink::cli::failure::Kind;
use serde_json::{Value, json};

use super::commands::{flink, run};
use super::transcripts::{commands, stage};
use super::{autoscaler, commands as jobs};
use crate::support::fake_cluster::FakeCluster;

/// A command line for each; `FOLDER` is a temporary one with a savepoint.
const LINES: &[(&str, &str)] = &[
    ("abort", "abort shop"),
    ("autoscaler backtest", "autoscaler backtest tests/cli/autoscaler.in/short.jsonl"),
    ("autoscaler explain", "autoscaler explain orders"),
    ("autoscaler history", "autoscaler history orders"),
    ("autoscaler reset", "autoscaler reset orders --yes"),
    ("autoscaler simulate", "autoscaler simulate -f tests/cli/autoscaler.in/job.yaml"),
    ("autoscaler status", "autoscaler status orders"),
    ("check", "check"),
    ("checkpoints", "checkpoints wordcount"),
    ("config", "config wordcount --set-only"),
    ("crds", "crds"),
    ("delete", "delete wordcount --explain"),
    ("deploy", "deploy new --image flink:1.20 --jar local:///a.jar"),
    ("events", "events wordcount"),
    ("explain", "explain FK0011"),
    ("gc", "gc --dry-run --skip-storage"),
    ("history", "history wordcount"),
    ("lint", "lint -f tests/cli/lint.in/orders.yaml"),
    ("list", "list"),
    (
        "operator config",
        "operator config --operator-config tests/cli/operator-config.in/flink-conf.yaml --set-only",
    ),
    ("operator install", "operator install --dry-run=client"),
    ("operator upgrade", "operator upgrade --dry-run=client"),
    ("pause", "pause wordcount"),
    ("plan", "plan wordcount --set image=flink:1.20-java17"),
    ("promote", "promote mail --retry"),
    ("render", "render -f examples/basic.yaml"),
    ("report", "report wordcount --file FOLDER/report.zip --timeout 1h"),
    ("rest", "rest wordcount GET /overview"),
    ("restart", "restart wordcount"),
    ("restore", "restore wordcount --from sp-1 --unverified --leave-newer-state"),
    ("resume", "resume wordcount"),
    ("rollback", "rollback wordcount --yes"),
    ("run", "run https://repo.example.com/clicks-1.jar --on sessions"),
    ("savepoint", "savepoint wordcount --direct"),
    ("savepoint inspect", "savepoint inspect FOLDER/savepoint"),
    ("scale", "scale wordcount --parallelism 3"),
    ("set args", "set args wordcount -- --input s3://b/in"),
    ("set config", "set config wordcount taskmanager.numberOfTaskSlots=2"),
    ("set image", "set image wordcount flink:1.20-java17"),
    ("snapshots", "snapshots"),
    ("snapshots gc", "snapshots gc --dry-run --keep 0"),
    ("snapshots list", "snapshots list"),
    ("snapshots restore", "snapshots restore sp-1 --unverified --leave-newer-state"),
    ("snapshots trigger", "snapshots trigger wordcount --direct"),
    ("status", "status wordcount"),
    ("suspend", "suspend wordcount"),
    ("top", "top"),
    ("unpause", "unpause wordcount"),
    ("version", "version --check"),
    ("why", "why bills"),
];

/// They work on this machine, not on a cluster in memory.
const OF_A_MACHINE: [&str; 3] = ["sandbox up", "sandbox status", "sandbox flink-image"];
/// Rows have the columns of their query; what surrounds them is covered by `cli::sql`.
const OF_ROWS: [&str; 1] = ["sql"];

#[test]
fn every_command_with_json_is_on_record() {
    let has_json = |words: &String| forms(words).iter().any(|it| it == "json");
    let with_json: BTreeSet<String> = commands().into_iter().filter(has_json).collect();
    let known = LINES.iter().map(|(command, _)| *command).chain(OF_A_MACHINE).chain(OF_ROWS);
    let known: BTreeSet<String> = known.map(str::to_owned).collect();
    assert_eq!(with_json, known, "LINES has a command line for each command with -o json");
}

/// `UPDATE_EXPECT=1` rewrites them. A field that is removed or changes its type breaks a user's program.
#[tokio::test]
async fn fields_and_types_are_those_on_record() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("savepoint")).unwrap();
    let metadata = folder.path().join("savepoint/_metadata");
    std::fs::copy("tests/corpus/metadata/v6--flink-2.1-canonical", metadata).unwrap();
    for (command, line) in LINES {
        let line = line.replace("FOLDER", &folder.path().display().to_string());
        let line = with_form(&line, "json");
        let (_flink, address, cluster) = world(command).await;
        let ran = run(&cluster, Some(address), &line).await;
        let told: Value = serde_json::from_str(&ran.output).unwrap_or_else(|error| {
            panic!("`{line}`: {error}: {}{} {:?}", ran.output, ran.error, ran.failure)
        });
        let mut shape = BTreeMap::new();
        add("", &told, &mut shape);
        let types = |types: BTreeSet<&str>| types.into_iter().collect::<Vec<_>>().join(" or ");
        let lines = shape.into_iter().map(|(path, its)| format!("{path}: {}\n", types(its)));
        let text: String = lines.collect();
        let file = format!("tests/golden/json/{}.txt", command.replace(' ', "-"));
        expect_file![Path::new(env!("CARGO_MANIFEST_DIR")).join(file)].assert_eq(&text);
    }
}

/// The command prints every value that `--help` and the shell offer for `-o`.
#[tokio::test]
async fn every_form_that_is_offered_is_printed() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("savepoint")).unwrap();
    let metadata = folder.path().join("savepoint/_metadata");
    std::fs::copy("tests/corpus/metadata/v6--flink-2.1-canonical", metadata).unwrap();
    let mut count = 0;
    for (command, line) in LINES {
        let line = line.replace("FOLDER", &folder.path().display().to_string());
        let (_flink, address, cluster) = world(command).await;
        for form in forms(command).into_iter().filter(|it| it != "json") {
            let ran = run(&cluster, Some(address.clone()), &with_form(&line, &form)).await;
            let kind = ran.failure.as_ref().map(|(kind, _)| *kind);
            assert_ne!(kind, Some(Kind::Usage), "{command} -o {form}: {:?}", ran.failure);
            let is_reported = !ran.output.is_empty() || !ran.error.is_empty();
            assert!(is_reported || form == "name", "{command} -o {form} printed nothing");
            count += 1;
        }
    }
    assert!(count > LINES.len(), "{count} forms");
}

/// Returns the possible values of `-o`.
fn forms(words: &str) -> Vec<String> {
    let root = Cli::command();
    let found = words.split(' ').try_fold(&root, |it, word| it.find_subcommand(word)).unwrap();
    let output = found.get_arguments().find(|it| it.get_id() == "output");
    let forms = output.map(clap::Arg::get_possible_values).unwrap_or_default();
    forms.iter().map(|it| it.get_name().to_owned()).collect()
}

/// Adds `-o form`; everything after `--` belongs to the job.
fn with_form(line: &str, form: &str) -> String {
    match line.split_once(" -- ") {
        Some((front, rest)) => format!("{front} -o {form} -- {rest}"),
        None => format!("{line} -o {form}"),
    }
}

/// Returns a cluster in which the command finds something.
async fn world(command: &str) -> (crate::support::fake_flink::FakeFlink, String, FakeCluster) {
    if command.starts_with("autoscaler") {
        let (flink, cluster) = autoscaler::measured().await;
        cluster.insert(autoscaler::remembered());
        let address = flink.address().to_owned();
        return (flink, address, cluster);
    }
    let (flink, address) = flink().await;
    let cluster = stage();
    if command == "resume" {
        let mut suspended = jobs::stored(&cluster);
        suspended["spec"]["job"]["state"] = json!("suspended");
        cluster.insert(suspended);
    }
    if command == "operator upgrade" {
        cluster.insert(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "kubectl-flink-operator", "namespace": "flink-operator",
                "labels": {"app.kubernetes.io/managed-by": "kubectl-flink"},
                "annotations": {"kubectl-flink/values": "{}"}},
            "spec": {}}));
    }
    let mut sessions = jobs::wordcount();
    sessions["metadata"]["name"] = json!("sessions");
    sessions["spec"].as_object_mut().unwrap().remove("job");
    sessions["status"]["jobStatus"] = json!({});
    cluster.insert(sessions);
    (flink, address, cluster)
}

/// Collects the paths of all leaves, with `[]` for the elements of a list, and their types.
fn add(path: &str, value: &Value, shape: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    let mut leaf = |kind| {
        shape.entry(path.to_owned()).or_default().insert(kind);
    };
    match value {
        Value::Null => leaf("null"),
        Value::Bool(_) => leaf("boolean"),
        Value::Number(_) => leaf("number"),
        Value::String(_) => leaf("string"),
        Value::Array(all) if all.is_empty() => leaf("empty list"),
        Value::Object(all) if all.is_empty() => leaf("empty object"),
        // Its schema is long, and compared by `golden`.
        Value::Object(all) if all.get("kind") == Some(&json!("CustomResourceDefinition")) => {
            add(&format!("{path}.kind"), &all["kind"], shape);
            add(&format!("{path}.metadata.name"), &all["metadata"]["name"], shape);
        }
        Value::Array(all) => all.iter().for_each(|it| add(&format!("{path}[]"), it, shape)),
        Value::Object(all) => {
            let dot = if path.is_empty() { "" } else { "." };
            all.iter().for_each(|(key, it)| add(&format!("{path}{dot}{key}"), it, shape));
        }
    }
}
