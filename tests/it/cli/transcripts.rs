//! Runs the transcripts in `tests/cli`, which show each command line with its whole output.
//!
//! `TRYCMD=overwrite cargo test transcripts` rewrites them. Those in `tests/cli/cluster` have a cluster in memory, one
//! for each file, and their commands build on one another.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use clap::{CommandFactory, Parser};
use kubectl_flink::cli::args::Cli;
use serde_json::{Value, json};

use super::commands::{add_revision, cluster, flink, wordcount};
use super::plan::reconciled;
use super::sql::Kubelet;
use super::{autoscaler, sql};
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_cluster::http::Behind;
use crate::support::fake_flink::FakeFlink;
use crate::support::fake_sql_gateway::FakeSqlGateway;
use crate::support::program::{PROGRAM, other, program};

/// Returns transcripts whose program has a clean environment with its own home and sandboxes.
fn cases(home: &Path, kubeconfig: &Path) -> trycmd::TestCases {
    let cases = trycmd::TestCases::new();
    cases
        .default_bin_name("kubectl-flink")
        // The runner adds variables to those of this process, and removes none.
        .register_bin("kubectl-flink", Path::new(WITHOUT_MORE))
        .env("PROGRAM", PROGRAM)
        .env("VARIABLES", variables(home, kubeconfig))
        .insert_var("[HOME]", home.display().to_string())
        .unwrap();
    cases
}

/// A script that runs `$PROGRAM` with only the variables in `$VARIABLES`.
const WITHOUT_MORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/program.sh");

/// Returns the environment of a transcript's program, one variable per line.
fn variables(home: &Path, kubeconfig: &Path) -> String {
    let mut command = program();
    command.env("HOME", home).env("KUBECONFIG", kubeconfig);
    command.env("KUBECTL_FLINK_SANDBOX_STATE", home.join("sandboxes"));
    let set =
        command.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
    set.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n")
}

#[test]
fn transcripts_are_current() {
    let home = tempfile::tempdir().unwrap();
    cases(home.path(), Path::new("/nonexistent/kubeconfig")).case("tests/cli/*.trycmd");
}

/// The user's sandbox has the default name, like those of the transcripts, one of which takes it down.
#[test]
fn a_transcript_sees_no_sandbox_of_the_users() {
    let (home, users) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = users.path().join("flink-sandbox");
    let kubeconfig = users.path().join("kubeconfig");
    std::fs::create_dir(&folder).unwrap();
    let instance = json!({"format": 1, "name": "flink-sandbox", "boot": "", "build": "", "kubeconfig": kubeconfig,
        "kind": {"type": "control-plane", "ports": {"api": 1, "etcd": 1, "etcd_peer": 1}}});
    std::fs::write(folder.join("instance.json"), instance.to_string()).unwrap();

    let users = |mut command: Command, word: &str| {
        command.env("KUBECTL_FLINK_SANDBOX_STATE", users.path()).env("KUBECONFIG", &kubeconfig);
        let output = command.args(["sandbox", word]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let transcript = || {
        let mut command = other(WITHOUT_MORE);
        let variables = variables(home.path(), Path::new("/nonexistent/kubeconfig"));
        command.env("PROGRAM", PROGRAM).env("VARIABLES", variables);
        command
    };
    assert_eq!(users(program(), "status"), (Some(0), String::new()), "the user has it");
    let there_is_none = "there is no sandbox `flink-sandbox`\n";
    let (code, told) = users(transcript(), "status");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.starts_with(&format!("error: {there_is_none}")), "{told}");
    assert_eq!(users(transcript(), "down"), (Some(0), there_is_none.to_owned()));
    assert!(folder.join("instance.json").is_file());
    let (code, told) = users(program(), "down");
    assert!(told.ends_with("removed sandbox `flink-sandbox`\n"), "{code:?} {told}");
    assert!(!folder.exists());
}

#[test]
fn transcripts_with_a_cluster_are_current() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let files = std::fs::read_dir("tests/cli/cluster").unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    for transcript in files.filter(|path| path.extension().is_some_and(|it| it == "trycmd")) {
        let name = transcript.file_stem().unwrap().to_string_lossy().into_owned();
        let set = runtime.block_on(Set::of(&name));
        let home = tempfile::tempdir().unwrap();
        cases(home.path(), set.kubeconfig.path()).case(transcript).run();
    }
}

/// What a transcript runs against, for as long as it lives.
struct Set {
    _flink: FakeFlink,
    _kubelet: Kubelet,
    kubeconfig: tempfile::NamedTempFile,
}

impl Set {
    /// Returns the set for the transcript with this name.
    async fn of(name: &str) -> Self {
        let (flink, cluster) = match name {
            "autoscaler" => {
                let (flink, cluster) = autoscaler::measured().await;
                cluster.insert(autoscaler::remembered());
                (flink, cluster)
            }
            "operate" => (flink().await.0, suspended()),
            "operator" => (flink().await.0, with_paused_upgrade()),
            "pods" => (flink().await.0, with_pods()),
            "sql" => (flink().await.0, sql::stage()),
            _ => (flink().await.0, stage()),
        };
        let gateway = FakeSqlGateway::start().await;
        let kubelet = Kubelet::start(&cluster, sql::READY);
        let behind = Behind {
            flink: flink.address().to_owned(),
            sql_gateway: gateway.address(),
            ..Behind::default()
        };
        let kubeconfig = kubeconfig(cluster.listen(behind).await);
        Self { _flink: flink, _kubelet: kubelet, kubeconfig }
    }
}

/// Returns a cluster whose `wordcount` is suspended, so that an operator has nothing to do.
fn suspended() -> FakeCluster {
    let cluster = cluster();
    let mut job = wordcount();
    job["metadata"]["finalizers"] = json!(["flinkdeployments.flink.apache.org/finalizer"]);
    job["spec"]["job"]["state"] = json!("suspended");
    let last = json!({"spec": job["spec"], "resource_metadata": {"apiVersion": "flink.apache.org/v1beta1"}});
    let status = &mut job["status"];
    status["reconciliationStatus"]["lastReconciledSpec"] = json!(last.to_string());
    status["lifecycleState"] = json!("SUSPENDED");
    status["jobManagerDeploymentStatus"] = json!("MISSING");
    status["jobStatus"]["state"] = json!("FINISHED");
    status["jobStatus"]["upgradeSavepointPath"] = json!("s3://b/savepoints/sp-1");
    cluster.insert(job);
    cluster
}

/// Returns a resource that is not operated, and one whose upgrade waits.
fn with_paused_upgrade() -> FakeCluster {
    let cluster = FakeCluster::new();
    let created = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 10);
    let mut orders = wordcount();
    orders["metadata"] = json!({"name": "orders", "namespace": "fraud", "generation": 2, "creationTimestamp": created});
    orders["status"]["conditions"] = json!([{"type": "UpgradeAdmitted", "status": "False",
        "reason": "UpgradesPaused", "message": "the change waits", "observedGeneration": 2}]);
    cluster.insert(orders);
    cluster.insert(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
        "metadata": {"name": "trial", "namespace": "shop", "generation": 1},
        "spec": {"template": {"spec": {"flinkVersion": "v1_20"}}},
    }));
    cluster
}

/// Returns the stage with the pods of `wordcount` and their logs.
pub(super) fn with_pods() -> FakeCluster {
    let cluster = stage();
    let pod = |name: &str, component: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name,
                "labels": {"app": "wordcount", "component": component}},
            "spec": {"containers": [{"name": "flink-main-container", "image": "flink:1.20"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "flink-main-container", "image": "flink:1.20", "imageID": "",
                    "ready": true, "restartCount": 0}]}})
    };
    let log = |lines: &[(&str, &str)]| {
        let line = |(level, text): &(&str, &str)| {
            format!("2026-01-01 00:00:00,000 {level:<5} org.apache.flink.runtime.{text}\n")
        };
        lines.iter().map(line).collect::<String>()
    };
    let (job_manager, task_manager) = ("wordcount-6d4c7b9f8-k2p4q", "wordcount-taskmanager-1-1");
    cluster.insert(pod(job_manager, "jobmanager"));
    cluster.insert(pod(task_manager, "taskmanager"));
    let running =
        "executiongraph.ExecutionGraph [] - Job wordcount switched from state CREATED to RUNNING.";
    let refused = "taskmanager.Task [] - Source: orders (1/2)#0 switched from RUNNING to FAILED with failure cause:\n\
         java.net.ConnectException: Connection refused\n\tat java.base/sun.nio.ch.Net.connect(Net.java:1)";
    cluster.set_log(job_manager, &log(&[("INFO", running)]));
    let started = "taskexecutor.TaskExecutor [] - Registered at the ResourceManager.";
    cluster.set_log(
        task_manager,
        &log(&[("INFO", started), ("WARN", refused), ("INFO", "x.Y [] - z")]),
    );
    cluster
}

/// Returns a kubeconfig for the API server at this address.
pub(super) fn kubeconfig(server: SocketAddr) -> tempfile::NamedTempFile {
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "production",
        "clusters": [{"name": "production", "cluster": {"server": format!("http://{server}")}}],
        "contexts": [{"name": "production", "context": {"cluster": "production", "user": "production"}}],
        "users": [{"name": "production", "user": {}}]});
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
    file
}

/// Returns one resource of each kind, old enough that ages are the same every day.
pub(super) fn stage() -> FakeCluster {
    let cluster = reconciled();
    let created = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 10);
    let flink = "flink.apache.org/v1beta1";
    let metadata = |name: &str| json!({"name": name, "namespace": "default", "generation": 1, "creationTimestamp": created});
    let mut wordcount = cluster.object("flinkdeployments", "default", "wordcount").unwrap();
    wordcount["metadata"]["creationTimestamp"] = json!(created);
    cluster.insert(wordcount);
    add_revision(&cluster, 1, "flink:1.19");
    let status = |job: &str, lifecycle: &str, manager: &str| {
        json!({"observedGeneration": 1, "lifecycleState": lifecycle, "jobManagerDeploymentStatus": manager,
            "jobStatus": {"state": job}})
    };
    let spec = json!({"image": "flink:9", "flinkVersion": "v1_20", "serviceAccount": "flink"});
    let mut of_job = spec.clone();
    of_job["job"] =
        json!({"jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": "last-state"});
    let template = json!({"spec": of_job});
    let objects: [Value; 7] = [
        json!({"apiVersion": flink, "kind": "FlinkDeployment", "metadata": metadata("session"), "spec": spec,
            "status": {"observedGeneration": 1, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY"}}),
        json!({"apiVersion": flink, "kind": "FlinkDeployment", "metadata": metadata("bills"), "spec": of_job,
            "status": status("RECONCILING", "DEPLOYED", "DEPLOYING")}),
        json!({"apiVersion": flink, "kind": "FlinkSessionJob", "metadata": metadata("clicks"),
            "spec": {"deploymentName": "session", "job": {"jarURI": "https://x/a.jar", "upgradeMode": "stateless"}},
            "status": {"observedGeneration": 1, "lifecycleState": "STABLE", "jobStatus": {"state": "FINISHED"}}}),
        json!({"apiVersion": flink, "kind": "FlinkStateSnapshot", "metadata": metadata("sp-1"),
            "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "wordcount"}, "savepoint": {}},
            "status": {"state": "COMPLETED", "path": "s3://b/savepoints/sp-1"}}),
        json!({"apiVersion": flink, "kind": "FlinkBlueGreenDeployment", "metadata": metadata("shop"),
            "spec": {"template": template},
            "status": {"blueGreenState": "SAVEPOINTING_BLUE", "savepointTriggerId": "23e3b0cd4d3b44e2a6a6d4a3d5a8f0d1",
                "jobStatus": {"state": "RECONCILING"}, "conditions": [{"type": "Progressing", "status": "True",
                "reason": "Savepointing", "message": "taking a savepoint of `shop-blue`"}]}}),
        json!({"apiVersion": flink, "kind": "FlinkBlueGreenDeployment", "metadata": metadata("mail"),
            "spec": {"template": template},
            "status": {"blueGreenState": "ACTIVE_BLUE", "jobStatus": {"state": "FAILING"}, "conditions": [{
                "type": "Progressing", "status": "False", "reason": "Aborted", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "the transition to `mail-green` was aborted"}]}}),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "bills-6d4c7b9f8-x2x7k", "namespace": "default", "creationTimestamp": created,
                "labels": {"app": "bills", "component": "jobmanager"}},
            "spec": {"containers": []},
            "status": {"phase": "Pending", "containerStatuses": [{"name": "flink-main-container", "image": "flink:9",
                "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ImagePullBackOff", "message": "flink:9: not found"}}}]}}),
    ];
    for object in objects {
        cluster.insert(object);
    }
    cluster.insert(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "FlinkDeployment", "name": "wordcount"}, "type": "Normal", "reason": "Submit",
        "message": "Starting deployment", "lastTimestamp": created, "count": 1}));
    cluster
}

/// Every command has a transcript of its output; `-h` alone is not enough, unless it only has subcommands.
#[test]
fn every_command_has_a_transcript() {
    let mut text = String::new();
    for folder in ["tests/cli", "tests/cli/cluster"] {
        for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "trycmd") {
                text += &std::fs::read_to_string(file).unwrap();
            }
        }
    }
    let lines: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("$ kubectl-flink ")).collect();
    let mut without = Vec::new();
    for command in commands() {
        let is_of = |line: &&&str| {
            let rest = line.strip_prefix(command.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let mut own = lines.iter().filter(is_of);
        if own.all(|line| line.ends_with(" -h") || line.ends_with(" --help")) {
            without.push(command);
        }
    }
    assert!(without.is_empty(), "no transcript in tests/cli shows {without:?}");
    assert!(lines.len() > 50, "{} command lines were found", lines.len());
}

/// Returns the words of every command that `--help` shows and that does something.
pub(super) fn commands() -> Vec<String> {
    fn add(words: &str, command: &clap::Command, found: &mut Vec<String>) {
        for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            let words = format!("{words} {}", below.get_name());
            if !below.is_subcommand_required_set() {
                found.push(words.trim().to_owned());
            }
            add(&words, below, found);
        }
    }
    let mut found = Vec::new();
    add("", &Cli::command(), &mut found);
    found
}

/// The README's command lines are not run, because they need a real cluster, but they must parse.
#[test]
fn command_lines_of_the_readme_are_understood() {
    let readme = include_str!("../../../README.md");
    let lines = readme.lines().filter_map(|line| line.strip_prefix("$ kubectl flink "));
    // The shell handles what follows.
    let lines = lines.map(|line| line.split(" # ").next().unwrap_or(line));
    let lines = lines.map(|line| line.split(" > ").next().unwrap_or(line).trim());
    let mut count = 0;
    for line in lines {
        let words = std::iter::once("kubectl-flink").chain(line.split_whitespace());
        let parsed = Cli::try_parse_from(words);
        assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
        count += 1;
    }
    assert!(count > 5, "the README shows {count} command lines");
}
