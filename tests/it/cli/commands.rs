use api::deployment::FlinkDeployment;
use axum::http::Method;
use clap::Parser;
use expect_test::expect;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kubectl_flink::cli;
use kubectl_flink::cli::args::{Cli, Command, Global};
use kubectl_flink::cli::connection::Connection;
use kubectl_flink::cli::failure::{Failure, Kind, kind_of};
use kubectl_flink::cli::printer::Printer;
use serde_json::{Value, json};

use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::fake_flink::{FakeFlink, Job};
use crate::support::patience::BEYOND_PATIENCE;

/// The output of a command, and how it ended.
pub(crate) struct Ran {
    pub(crate) output: String,
    pub(crate) error: String,
    /// The chain of causes, outermost first.
    pub(crate) failure: Option<(Kind, Vec<String>)>,
    pub(crate) hints: Vec<String>,
}

impl Ran {
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.failure, None, "{}", self.error);
        self
    }

    #[track_caller]
    pub(crate) fn failed(&self, kind: Kind, message: &str) {
        let (actual, causes) = self.failure.as_ref().expect("it fails");
        assert_eq!(*actual, kind, "{causes:?}");
        assert!(
            causes.iter().any(|cause| cause.contains(message)),
            "{causes:?} has no `{message}`"
        );
    }
}

/// Runs a command line in this process, against the fakes.
pub(crate) async fn run(cluster: &FakeCluster, rest_address: Option<String>, line: &str) -> Ran {
    run_words(cluster, rest_address, line.split_whitespace().map(str::to_owned)).await
}

/// As [`run`], with words that may contain spaces.
pub(crate) async fn run_words(
    cluster: &FakeCluster,
    rest_address: Option<String>,
    words: impl Iterator<Item = String>,
) -> Ran {
    let words = std::iter::once("kubectl-flink".to_owned()).chain(words);
    let Cli { command, global } = Cli::try_parse_from(words).unwrap();
    let connection = Connection {
        client: cluster.client(),
        namespace: "default".to_owned(),
        config: None,
        rest_address,
        is_lent: false,
    };
    let global = Global { connection: Some(connection), ..global };
    let (printer, transcript) = Printer::in_memory();
    let result = Box::pin(cli::run_command(command, &global, &printer)).await;
    let error = result.err();
    let failure = |error: &anyhow::Error| Some(error.downcast_ref::<Failure>()?.hints().to_vec());
    let hints = error.as_ref().and_then(failure).unwrap_or_default();
    let failure =
        error.map(|error| (kind_of(&error), error.chain().map(ToString::to_string).collect()));
    Ran { output: transcript.output(), error: transcript.error(), failure, hints }
}

/// Returns a cluster with the job `wordcount`, RUNNING and STABLE as generation 1.
pub(crate) fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster
        .insert(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
    cluster.insert(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "flink", "namespace": "default"}}));
    cluster.insert(wordcount());
    cluster
}

pub(crate) fn wordcount() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "wordcount", "namespace": "default", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "image": "flink:1.20", "flinkVersion": "v1_20", "serviceAccount": "flink",
            "flinkConfiguration": {"state.savepoints.dir": "s3://b/savepoints", "state.checkpoints.dir": "s3://b/checkpoints"},
            "jobManager": {"resources": {"requests": {"memory": "2Gi"}}},
            "taskManager": {"resources": {"requests": {"memory": "2Gi"}}},
            "job": {"jarURI": "local:///job.jar", "parallelism": 2, "state": "running", "upgradeMode": "savepoint"},
        },
        "status": {
            "observedGeneration": 1, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY",
            "jobStatus": {"state": "RUNNING", "jobId": JOB_ID},
            "reconciliationStatus": {"state": "DEPLOYED", "reconciliationTimestamp": 1_767_225_600_000_i64,
                "lastReconciledSpec": json!({"spec": {"image": "flink:1.20", "job": {"state": "running", "parallelism": 2}}}).to_string()},
        },
    })
}

pub(crate) const JOB_ID: &str = "0123456789abcdef0123456789abcdef";

pub(crate) fn stored(cluster: &FakeCluster) -> Value {
    cluster.object("flinkdeployments", "default", "wordcount").expect("it is there")
}

#[tokio::test]
async fn suspend_writes_one_field_and_resume_takes_it_back() {
    let cluster = cluster();
    let ran = run(&cluster, None, "suspend wordcount").await.succeeded();
    assert_eq!(ran.output, "flinkdeployment.flink.apache.org/wordcount suspended\n");
    assert_eq!(stored(&cluster)["spec"]["job"]["state"], "suspended");
    let writes = cluster.writes();
    assert_eq!(writes.len(), 1);
    assert_eq!(writes[0].body["spec"], json!({"job": {"state": "suspended"}}));
    assert!(writes[0].body["metadata"]["resourceVersion"].is_string(), "what was looked at");
    run(&cluster, None, "resume wordcount -o name").await.succeeded();
    assert_eq!(stored(&cluster)["spec"], wordcount()["spec"]);
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let cluster = cluster();
    for line in [
        "suspend wordcount",
        "rollback wordcount --to-revision 1",
        "delete wordcount",
        "deploy wordcount --parallelism 3",
    ] {
        add_revision(&cluster, 1, "flink:1.19");
        let before = cluster.objects("flinkdeployments");
        let client = run(&cluster, None, &format!("{line} --dry-run=client")).await.succeeded();
        assert!(format!("{}{}", client.output, client.error).contains("(dry run)"), "{line}");
        assert_eq!(cluster.writes(), [], "{line}");
        let server = run(&cluster, None, &format!("{line} --dry-run=server")).await.succeeded();
        assert!(
            format!("{}{}", server.output, server.error).contains("(server dry run)"),
            "{line}"
        );
        assert_eq!(cluster.objects("flinkdeployments"), before, "{line}");
        let cluster_was_asked = cluster.writes().iter().any(|write| {
            write.uri.contains("dryRun=All") || write.body["dryRun"] == json!(["All"])
        });
        assert!(cluster_was_asked, "{line}: {:?}", cluster.writes());
        cluster.forget_requests();
    }
}

pub(crate) fn add_revision(cluster: &FakeCluster, number: i64, image: &str) {
    let mut spec = wordcount()["spec"].clone();
    spec["image"] = json!(image);
    spec["job"]["upgradeMode"] = json!("stateless");
    cluster.insert(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "metadata": {"name": format!("wordcount-{number}"), "namespace": "default",
            "labels": {"app": "wordcount", "component": "flink-revision"}},
        "data": {"spec": spec, "reconciledAt": "2026-01-01T00:00:00Z",
            "restorePoint": {"kind": "savepoint", "path": "s3://b/sp", "upgradeMode": "savepoint"}},
    }));
}

/// Drops the command once it has sent its write, which gets no answer.
async fn abandon(cluster: &FakeCluster, line: &str) {
    cluster.forget_requests();
    let is_sent = async {
        while !cluster.requests().iter().any(|it| it.method == Method::PATCH) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        // The fake handles a request as soon as it arrives, but does not answer.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    tokio::select! {
        _ = run(cluster, None, line) => panic!("it hangs"),
        () = is_sent => {}
    }
}

#[tokio::test]
async fn a_command_whose_answer_was_lost_may_be_repeated() {
    let cluster = cluster();
    cluster.fail(Method::PATCH, "flinkdeployments/wordcount", Fault::SilentBefore, 1);
    abandon(&cluster, "suspend wordcount").await;
    assert_eq!(stored(&cluster)["spec"]["job"]["state"], "running");
    cluster.fail(Method::PATCH, "flinkdeployments/wordcount", Fault::SilentAfter, 1);
    abandon(&cluster, "suspend wordcount").await;
    assert_eq!(stored(&cluster)["metadata"]["generation"], 2);
    run(&cluster, None, "suspend wordcount").await.succeeded();
    assert_eq!(stored(&cluster)["metadata"]["generation"], 2, "nothing changed the second time");
}

#[tokio::test]
async fn session_clusters_have_nothing_to_suspend() {
    let cluster = cluster();
    cluster.insert(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "session", "namespace": "default"}, "spec": {"flinkVersion": "v1_20"}}));
    let ran = run(&cluster, None, "suspend session").await;
    ran.failed(Kind::Failed, "`session` is a session cluster");
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn missing_deployment_is_named_with_those_that_are_there() {
    let ran = run(&cluster(), None, "status wordcoutn").await;
    ran.failed(Kind::Failed, "no FlinkDeployment `wordcoutn` in namespace `default`");
}

#[tokio::test]
async fn missing_kind_is_distinguished_from_an_empty_namespace() {
    let cluster = FakeCluster::new();
    let ran = run(&cluster, None, "status").await.succeeded();
    assert_eq!(
        (ran.output.as_str(), ran.error.as_str()),
        ("", "no FlinkDeployments found in namespace `default`\n")
    );
    cluster.remove_kind("flinkdeployments");
    run(&cluster, None, "status").await.failed(Kind::Failed, "does not know this kind of resource");
}

#[tokio::test]
async fn table_asks_one_question_for_each_kind() {
    let cluster = cluster();
    let ran = run(&cluster, None, "status -o name").await.succeeded();
    assert_eq!(ran.output, "flinkdeployment.flink.apache.org/wordcount\n");
    run(&cluster, None, "status -A").await.succeeded();
    assert_eq!(cluster.requests().len(), 6);
}

#[tokio::test]
async fn wait_ends_when_the_operator_is_done() {
    let cluster = cluster();
    let operator = cluster.clone();
    let acting = tokio::spawn(async move {
        while stored(&operator)["spec"]["job"]["state"] != "suspended" {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        operator.set_status(
            "flinkdeployments",
            "default",
            "wordcount",
            &json!({"observedGeneration": 2, "lifecycleState": "UPGRADING"}),
        );
        // Before, the command has not seen that it is taken up.
        while !operator.requests().iter().any(|it| it.uri.contains("watch=true")) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        operator.set_status(
            "flinkdeployments",
            "default",
            "wordcount",
            &json!({"lifecycleState": "SUSPENDED"}),
        );
    });
    let line = format!("suspend wordcount --wait --timeout {BEYOND_PATIENCE}");
    let ran = run(&cluster, None, &line).await.succeeded();
    acting.await.unwrap();
    assert!(
        ran.error.contains("wordcount: UPGRADING · JobManager READY · job RUNNING"),
        "{}",
        ran.error
    );
}

#[tokio::test]
async fn wait_fails_with_the_cause_the_operator_gives() {
    let cluster = cluster();
    let operator = cluster.clone();
    let acting = tokio::spawn(async move {
        while stored(&operator)["metadata"]["generation"] != 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        operator.set_status(
            "flinkdeployments",
            "default",
            "wordcount",
            &json!({"error": "{\"message\":\"savepoint failed\"}"}),
        );
    });
    let line = format!("suspend wordcount -w --timeout {BEYOND_PATIENCE}");
    let ran = run(&cluster, None, &line).await;
    acting.await.unwrap();
    ran.failed(Kind::Failed, "`wordcount` failed: savepoint failed");
}

#[tokio::test]
async fn a_wait_ends_at_its_timeout_and_says_where_things_are() {
    let ran = run(&cluster(), None, "suspend wordcount --wait --timeout 1s").await;
    ran.failed(
        Kind::TimedOut,
        "`wordcount` is not SUSPENDED after 1s: it is STABLE · JobManager READY · job RUNNING",
    );
}

#[tokio::test]
async fn deploy_refuses_with_all_violations_and_changes_nothing() {
    let cluster = cluster();
    let line = "deploy new --image flink:1.20 --jar local:///a.jar --upgrade-mode savepoint --service-account absent --task-manager-memory 10m";
    let ran = run(&cluster, None, line).await;
    ran.failed(Kind::Failed, "nothing was deployed or changed");
    for part in
        ["spec.serviceAccount: service account `absent` does not exist", "savepoint", "emory"]
    {
        ran.failed(Kind::Failed, part);
    }
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn deploy_creates_then_changes_only_what_flags_say() {
    let cluster = cluster();
    let line = "deploy new --image flink:1.20 --jar local:///a.jar";
    let ran = run(&cluster, None, line).await.succeeded();
    assert_eq!(ran.output, "flinkdeployment.flink.apache.org/new created\n");
    let ran = run(&cluster, None, "deploy new --parallelism 3").await.succeeded();
    assert_eq!(ran.output, "flinkdeployment.flink.apache.org/new configured\n");
    let new = cluster.object("flinkdeployments", "default", "new").unwrap();
    assert_eq!(new["spec"]["job"]["parallelism"], 3);
    assert_eq!(new["spec"]["image"], "flink:1.20");
    assert!(
        cluster.writes().iter().all(|write| write.uri.contains("fieldValidation=Strict")),
        "{:?}",
        cluster.writes()
    );
}

#[tokio::test]
async fn foreign_fields_are_taken_only_when_asked() {
    let cluster = cluster();
    let deployments: Api<FlinkDeployment> = Api::namespaced(cluster.client(), "default");
    let theirs = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "spec": {"image": "flink:1.20"}});
    let (helm, theirs) = (PatchParams::apply("helm"), Patch::Apply(theirs));
    deployments.patch("wordcount", &helm, &theirs).await.unwrap();
    let mut manifest = wordcount();
    manifest["spec"]["image"] = json!("flink:1.20-java17");
    manifest.as_object_mut().unwrap().remove("status");
    manifest["metadata"] = json!({"name": "wordcount"});
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), manifest.to_string()).unwrap();
    let line = format!("deploy -f {}", file.path().display());
    let ran = run(&cluster, None, &line).await;
    ran.failed(
        Kind::Failed,
        "`wordcount` was not deployed: other field managers own spec.image (`helm`)",
    );
    assert_eq!(stored(&cluster)["spec"]["image"], "flink:1.20");
    run(&cluster, None, &format!("{line} --force-conflicts")).await.succeeded();
    assert_eq!(stored(&cluster)["spec"]["image"], "flink:1.20-java17");
}

#[tokio::test]
async fn rollback_keeps_what_keeps_the_state() {
    let cluster = cluster();
    add_revision(&cluster, 1, "flink:1.19");
    add_revision(&cluster, 2, "flink:1.20");
    let history = run(&cluster, None, "history wordcount").await.succeeded();
    assert!(history.output.contains("savepoint s3://b/sp"), "{}", history.output);
    let ran = run(&cluster, None, "rollback wordcount").await.succeeded();
    assert_eq!(
        ran.output,
        "flinkdeployment.flink.apache.org/wordcount rolled back to revision 1\n"
    );
    expect![[r"
        - image: flink:1.20
        + image: flink:1.19"]]
    .assert_eq(
        &ran.error
            .lines()
            .filter(|line| line.starts_with(['-', '+']))
            .collect::<Vec<_>>()
            .join("\n"),
    );
    let spec = &stored(&cluster)["spec"];
    assert_eq!(
        (&spec["image"], &spec["job"]["upgradeMode"]),
        (&json!("flink:1.19"), &json!("savepoint"))
    );
}

#[tokio::test]
async fn rollback_loses_to_a_change_in_between() {
    let cluster = cluster();
    add_revision(&cluster, 1, "flink:1.19");
    cluster.fail(Method::PUT, "flinkdeployments/wordcount", Fault::Status(409), 1);
    let ran = run(&cluster, None, "rollback wordcount").await;
    ran.failed(Kind::Failed, "changed in the meantime");
    assert_eq!(stored(&cluster)["spec"]["image"], "flink:1.20");
}

/// Returns a JobManager with the job RUNNING.
pub(crate) async fn flink() -> (FakeFlink, String) {
    let flink = FakeFlink::start().await;
    flink.with("default/wordcount", |cluster| {
        cluster.jobs.insert(JOB_ID.to_owned(), Job::running(JOB_ID, 0));
        cluster.default_savepoint_directory = Some("s3://b/savepoints".to_owned());
    });
    let address = flink.address().to_owned();
    (flink, address)
}

#[tokio::test]
async fn savepoint_prints_its_path() {
    let cluster = cluster();
    let (_flink, address) = flink().await;
    let ran = run(&cluster, Some(address), "savepoint wordcount --direct").await.succeeded();
    assert!(ran.output.starts_with("s3://b/savepoints/savepoint-"), "{}", ran.output);
    assert_eq!(ran.output.lines().count(), 1);
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn only_a_running_job_takes_a_savepoint() {
    let cluster = cluster();
    cluster.set_status(
        "flinkdeployments",
        "default",
        "wordcount",
        &json!({"jobStatus": {"state": "RESTARTING"}}),
    );
    let ran = run(&cluster, None, "savepoint wordcount").await;
    ran.failed(
        Kind::Failed,
        "job of `wordcount` is RESTARTING: only a RUNNING job can take a savepoint",
    );
}

#[tokio::test]
async fn delete_saves_the_state_before_it_deletes() {
    let cluster = cluster();
    let (_flink, address) = flink().await;
    let ran = run(&cluster, Some(address), "delete wordcount").await.succeeded();
    let path = ran.output.trim().to_owned();
    assert!(path.starts_with("s3://b/savepoints/savepoint-"), "{path}");
    assert!(ran.error.contains(&format!("spec.job.initialSavepointPath: {path}")), "{}", ran.error);
    assert_eq!(cluster.object("flinkdeployments", "default", "wordcount"), None);
}

#[tokio::test]
async fn delete_stops_where_the_state_cannot_be_saved() {
    let cluster = cluster();
    let unreachable = Some("127.0.0.1:1".to_owned());
    let ran = run(&cluster, unreachable, "delete wordcount --timeout 2s").await;
    ran.failed(Kind::Failed, "`wordcount` was not deleted, because its state could not be saved");
    assert_eq!(cluster.writes(), []);
    cluster.set_status(
        "flinkdeployments",
        "default",
        "wordcount",
        &json!({"jobStatus": {"state": "RESTARTING"}}),
    );
    let ran = run(&cluster, None, "delete wordcount").await;
    ran.failed(Kind::Failed, "no savepoint can be taken, because its job is RESTARTING");
    assert_eq!(cluster.writes(), []);
    run(&cluster, None, "delete wordcount --no-savepoint").await.succeeded();
    assert_eq!(cluster.object("flinkdeployments", "default", "wordcount"), None);
}

#[tokio::test]
async fn delete_keeps_a_job_that_may_go_on_from_before_its_savepoint() {
    let cluster = cluster();
    let (flink, address) = flink().await;
    flink.with("default/wordcount", |cluster| {
        cluster.jobs.get_mut(JOB_ID).unwrap().fails_while_stopping = true;
    });
    let ran = run(&cluster, Some(address), "delete wordcount").await;
    ran.failed(Kind::Failed, "failed while stopping, and may continue from before its savepoint");
    assert_eq!(cluster.writes(), []);
}

fn suspended(cluster: &FakeCluster, mode: &str) {
    let last = json!({"spec": {"job": {"state": "suspended", "upgradeMode": mode}}}).to_string();
    let path = (mode == "savepoint").then_some("s3://b/savepoints/savepoint-7");
    let status = json!({"lifecycleState": "SUSPENDED",
        "jobStatus": {"state": "FINISHED", "upgradeSavepointPath": path},
        "reconciliationStatus": {"lastReconciledSpec": last}});
    cluster.set_status("flinkdeployments", "default", "wordcount", &status);
}

#[tokio::test]
async fn delete_says_where_the_state_of_a_suspended_job_stays() {
    let cluster = cluster();
    suspended(&cluster, "savepoint");
    let ran = run(&cluster, None, "delete wordcount").await.succeeded();
    let path = "spec.job.initialSavepointPath: s3://b/savepoints/savepoint-7";
    assert!(ran.error.contains(path), "{}", ran.error);
    assert_eq!(cluster.object("flinkdeployments", "default", "wordcount"), None);
}

#[tokio::test]
async fn delete_says_where_the_state_stays_before_it_deletes() {
    let cluster = cluster();
    suspended(&cluster, "savepoint");
    cluster.refuse(Method::DELETE, "flinkdeployments", 403, "not yours");
    let ran = run(&cluster, None, "delete wordcount").await;
    ran.failed(Kind::Failed, "not yours");
    assert_eq!(ran.output.trim(), "s3://b/savepoints/savepoint-7");
}

#[tokio::test]
async fn delete_keeps_a_session_job_whose_cluster_cannot_be_read() {
    let cluster = cluster();
    let last = json!({"spec": {"job": {"state": "running"}}}).to_string();
    cluster.insert(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkSessionJob",
        "metadata": {"name": "orders", "namespace": "default"},
        "spec": {"deploymentName": "lab", "job": {"jarURI": "https://jars/a.jar"}},
        "status": {"lifecycleState": "STABLE", "jobStatus": {"state": "RUNNING", "jobId": JOB_ID},
            "reconciliationStatus": {"lastReconciledSpec": last}}}));
    cluster.refuse(Method::GET, "flinkdeployments/lab", 403, "not yours");
    let ran = run(&cluster, None, "delete sessionjob/orders --yes").await;
    ran.failed(Kind::Failed, "its session cluster `lab` cannot be read");
    assert!(ran.hints.iter().any(|hint| hint.contains("--no-savepoint")), "{:?}", ran.hints);
    assert_eq!(cluster.writes(), []);
    run(&cluster, None, "delete sessionjob/orders --no-savepoint").await.succeeded();
    assert_eq!(cluster.object("flinksessionjobs", "default", "orders"), None);
}

#[tokio::test]
async fn delete_does_not_take_along_all_that_says_where_the_state_is() {
    let cluster = cluster();
    suspended(&cluster, "last-state");
    let ran = run(&cluster, None, "delete wordcount --yes").await;
    ran.failed(Kind::Failed, "only its HA metadata points to its newest state");
    assert_eq!(cluster.writes(), []);
    run(&cluster, None, "delete wordcount --no-savepoint").await.succeeded();
    assert_eq!(cluster.object("flinkdeployments", "default", "wordcount"), None);
}

#[tokio::test]
async fn delete_does_not_take_along_what_an_upgrade_or_a_rollback_is_to_start_from() {
    for (lifecycle, state, job) in
        [("UPGRADING", "UPGRADING", "suspended"), ("ROLLING_BACK", "ROLLING_BACK", "running")]
    {
        let cluster = cluster();
        let last = json!({"spec": {"job": {"state": job, "upgradeMode": "last-state"}}});
        let status = json!({"lifecycleState": lifecycle,
            "jobStatus": {"state": "FINISHED"},
            "reconciliationStatus": {"state": state, "lastReconciledSpec": last.to_string()}});
        cluster.set_status("flinkdeployments", "default", "wordcount", &status);
        let ran = run(&cluster, None, "delete wordcount --yes").await;
        ran.failed(Kind::Failed, "only its HA metadata points to its newest state");
        assert!(ran.hints[0].contains("kubectl flink why wordcount"), "{:?}", ran.hints);
        assert_eq!(cluster.writes(), []);
        run(&cluster, None, "delete wordcount --no-savepoint").await.succeeded();
        assert_eq!(cluster.object("flinkdeployments", "default", "wordcount"), None);
    }
}

#[tokio::test]
async fn init_is_idempotent_and_says_what_it_does() {
    let cluster = cluster();
    let ran = run(&cluster, None, "init --yes --skip-crds").await.succeeded();
    assert!(ran.error.contains("serviceaccount/flink exists, will be updated"), "{}", ran.error);
    assert!(ran.error.contains("role.rbac.authorization.k8s.io/flink is created"), "{}", ran.error);
    run(&cluster, None, "init --yes --skip-crds").await.succeeded();
    let role = cluster.object("roles", "default", "flink").unwrap();
    assert_eq!(role["rules"].as_array().unwrap().len(), 2);
    let missing = run(&cluster, None, "init --yes -n nowhere").await;
    missing.failed(Kind::Failed, "namespace `nowhere` does not exist");
}

#[tokio::test]
async fn forbidden_names_verb_and_resource() {
    let cluster = cluster();
    cluster.refuse(
        Method::PATCH,
        "flinkdeployments/wordcount",
        403,
        "flinkdeployments.flink.apache.org \"wordcount\" is forbidden: User \"jane\" cannot patch resource \"flinkdeployments\" in API group \"flink.apache.org\" in the namespace \"default\"",
    );
    let ran = run(&cluster, None, "suspend wordcount").await;
    ran.failed(
        Kind::Failed,
        "forbidden: `jane` cannot patch flinkdeployments.flink.apache.org in namespace `default`",
    );
    assert_eq!(ran.failure.unwrap().1.len(), 1, "one line");
}

/// The commands parsed here exist; this fails when one is renamed.
#[test]
fn commands_parse() {
    for line in ["status -w", "logs wordcount --role tm -f", "version --client"] {
        let words = std::iter::once("kubectl-flink").chain(line.split_whitespace());
        assert!(
            !matches!(Cli::try_parse_from(words).unwrap().command, Command::Complete(_)),
            "{line}"
        );
    }
}

#[tokio::test]
async fn explain_says_what_blocks_and_changes_nothing() {
    let cluster = cluster();
    let mut going = wordcount();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:00Z");
    going["metadata"]["finalizers"] =
        json!(["flinkdeployments.flink.apache.org/finalizer", "example.com/hold"]);
    cluster.insert(going);
    let ran = run(&cluster, None, "delete wordcount --explain").await.succeeded();
    for part in [
        "Step:       deleted",
        "Next:       delete-ha-metadata, remove-finalizer",
        "OperatorSilent: no operator has picked up the deletion",
        "ForeignFinalizer: finalizer `example.com/hold` of an unknown owner",
    ] {
        assert!(ran.output.contains(part), "{part}: {}", ran.output);
    }
    assert_eq!(cluster.writes(), []);
    let ran = run(&cluster, None, "delete wordcount --explain -o json").await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(told["blockers"][0]["reason"], "OperatorSilent");
    run(&cluster, None, "delete wordcount -o json").await.failed(Kind::Usage, "--explain");
    run(&cluster, None, "delete snapshot/none --explain")
        .await
        .failed(Kind::Failed, "no FlinkStateSnapshot `none` in namespace `default`");
}

#[tokio::test]
async fn explain_names_the_session_jobs_that_hold_their_cluster() {
    let cluster = cluster();
    let mut session = wordcount();
    session["metadata"]["name"] = json!("lab");
    session["metadata"]["uid"] = json!("u1");
    session["metadata"]["finalizers"] = json!(["flinkdeployments.flink.apache.org/finalizer"]);
    session["spec"].as_object_mut().unwrap().remove("job");
    let last = json!({"spec": session["spec"]});
    session["status"]["reconciliationStatus"]["lastReconciledSpec"] = json!(last.to_string());
    cluster.insert(session);
    cluster.insert(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkSessionJob",
        "metadata": {"name": "orders", "namespace": "default"},
        "spec": {"deploymentName": "lab", "job": {"jarURI": "https://jars/a.jar"}}}));
    let ran = run(&cluster, None, "delete lab --explain").await.succeeded();
    assert!(
        ran.output.contains("SessionJobs: The session jobs [orders] should be deleted first"),
        "{}",
        ran.output
    );
    let ran = run(&cluster, None, "delete sessionjob/orders --explain").await.succeeded();
    assert!(ran.output.contains("deleted: no job of it runs"), "{}", ran.output);
    assert_eq!(cluster.writes(), []);
}

fn made_snapshot(cluster: &FakeCluster) -> Option<Value> {
    cluster.objects("flinkstatesnapshots").into_iter().next()
}

/// Acts as an operator that completes the first snapshot it sees.
async fn operate_snapshots(cluster: FakeCluster, status: Value) {
    let name = loop {
        if let Some(snapshot) = made_snapshot(&cluster) {
            break snapshot["metadata"]["name"].as_str().unwrap().to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let set = |status: &Value| {
        cluster.set_status("flinkstatesnapshots", "default", &name, status);
    };
    set(&json!({"state": "IN_PROGRESS", "triggerId": "a"}));
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    set(&status);
}

#[tokio::test]
async fn a_savepoint_is_taken_by_the_operator_where_there_is_one() {
    let cluster = cluster();
    let status = json!({"state": "COMPLETED", "path": "s3://b/savepoints/1"});
    let acting = tokio::spawn(operate_snapshots(cluster.clone(), status));
    let ran = run(&cluster, None, "savepoint wordcount -o json").await.succeeded();
    acting.await.unwrap();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(told["path"], "s3://b/savepoints/1");
    let made = made_snapshot(&cluster).unwrap();
    assert_eq!(told["snapshot"], made["metadata"]["name"]);
    assert_eq!(
        made["spec"],
        json!({"jobReference": {"kind": "FlinkDeployment", "name": "wordcount"}, "backoffLimit": 0,
            "savepoint": {"formatType": "CANONICAL", "disposeOnDelete": false}})
    );
}

#[tokio::test]
async fn a_failed_snapshot_fails_the_command() {
    let cluster = cluster();
    let status = json!({"state": "FAILED", "error": "{\"message\":\"disk full\"}"});
    let acting = tokio::spawn(operate_snapshots(cluster.clone(), status));
    let ran = run(&cluster, None, "savepoint wordcount --checkpoint").await;
    acting.await.unwrap();
    ran.failed(Kind::Failed, "disk full");
    assert_eq!(made_snapshot(&cluster).unwrap()["spec"]["checkpoint"], json!({}));
}

#[tokio::test]
async fn a_snapshot_that_nobody_takes_up_is_taken_back() {
    let cluster = cluster();
    let (_flink, address) = flink().await;
    let ran = run(&cluster, Some(address), "savepoint wordcount").await.succeeded();
    assert!(ran.output.starts_with("s3://b/savepoints/savepoint-"), "{}", ran.output);
    assert!(ran.error.contains("no operator picked up the snapshot"), "{}", ran.error);
    assert_eq!(made_snapshot(&cluster), None);
    let ran = run(&cluster, None, "savepoint wordcount --checkpoint").await;
    ran.failed(Kind::Failed, "no snapshot of `wordcount` was taken");
    assert_eq!(made_snapshot(&cluster), None);
}

#[tokio::test]
async fn snapshots_are_listed_with_who_refers_to_them() {
    let cluster = cluster();
    add_revision(&cluster, 1, "flink:1.19");
    cluster.insert(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
        "metadata": {"name": "wordcount-1", "namespace": "default",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "wordcount"}, "savepoint": {}},
        "status": {"state": "COMPLETED", "path": "s3://b/sp"}}));
    let ran = run(&cluster, None, "snapshots -o json").await.succeeded();
    let told: Value = serde_json::from_str(&ran.output).unwrap();
    let one = &told["snapshots"][0];
    assert_eq!(one["name"], "wordcount-1");
    assert_eq!(one["isDisposedOnDelete"], true);
    assert_eq!(one["referredToBy"], json!(["revision 1 of `wordcount`"]));
    let list = run(&cluster, None, "snapshots list -o json").await.succeeded();
    assert_eq!(list.output, ran.output, "`list` is what is meant without it");
    let mut other = wordcount();
    other["metadata"]["name"] = json!("list");
    other["status"] = json!({});
    cluster.insert(other);
    let of_other = run(&cluster, None, "snapshots list list").await.succeeded();
    assert_eq!((of_other.output.as_str(), of_other.error.trim()), ("", "`list` has no snapshots"));
    let early = run(&cluster, None, "snapshots -A list").await;
    early.failed(Kind::Usage, "do not go in front of list");
    let ran = run(&cluster, None, "snapshots -o name").await.succeeded();
    assert_eq!(ran.output, "flinkstatesnapshot.flink.apache.org/wordcount-1\n");
    cluster.remove_kind("flinkstatesnapshots");
    let (_flink, address) = flink().await;
    let ran = run(&cluster, Some(address), "snapshots wordcount").await.succeeded();
    let lines: Vec<_> = ran.output.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.output);
    assert!(lines[1].contains("wordcount   CHECKPOINT   PERIODIC   COMPLETED"), "{}", lines[1]);
    assert_eq!(cluster.writes(), []);
}
