//! Commands that change a spec: what they write, and what they ask first.

use axum::http::Method;
use kubectl_flink::cli::failure::Kind;
use serde_json::{Value, json};

use super::commands::{JOB_ID, Ran, add_revision, cluster, flink, run, stored, wordcount};
use crate::support::fake_cluster::{FakeCluster, Fault};

/// Returns the bodies of all writes, without the resource version that guards them.
fn patches(cluster: &FakeCluster) -> Vec<Value> {
    let body = |mut body: Value| {
        let metadata = body.as_object_mut().and_then(|body| body.remove("metadata"));
        assert!(metadata.is_some_and(|it| it["resourceVersion"].is_string()), "it is not guarded");
        body
    };
    cluster.writes().into_iter().map(|write| body(write.body)).collect()
}

fn stateless() -> FakeCluster {
    let cluster = cluster();
    let mut stateless = wordcount();
    stateless["spec"]["job"]["upgradeMode"] = json!("stateless");
    cluster.insert(stateless);
    cluster
}

async fn done(cluster: &FakeCluster, line: &str) -> Ran {
    run(cluster, None, line).await.succeeded()
}

/// Returns a session cluster of Flink 1.20.
fn session() -> Value {
    let mut session = wordcount();
    session["metadata"]["name"] = json!("session");
    session["spec"].as_object_mut().unwrap().remove("job");
    session["status"]["jobStatus"] = json!({});
    session
}

#[tokio::test]
async fn a_jar_that_the_operator_can_fetch_becomes_a_session_job() {
    let cluster = cluster();
    cluster.insert(session());
    let line = "run https://repo.example.com/My_Clicks-1.jar --on session --parallelism 3 -- --topic clicks";
    run(&cluster, None, &line.replace(" -- ", " --dry-run=client -- ")).await.succeeded();
    assert_eq!(cluster.writes(), []);
    let ran = run(&cluster, None, line).await.succeeded();
    assert_eq!(ran.output, "flinksessionjob.flink.apache.org/my-clicks-1 created\n");
    let stored =
        || cluster.object("flinksessionjobs", "default", "my-clicks-1").unwrap()["spec"].clone();
    assert_eq!(stored()["deploymentName"], "session");
    assert_eq!(stored()["job"]["args"], json!(["--topic", "clicks"]));
    let next = "run https://repo.example.com/clicks-2.jar --on session --name my-clicks-1";
    run(&cluster, None, next).await.succeeded();
    assert_eq!(stored()["job"]["jarURI"], "https://repo.example.com/clicks-2.jar");
    assert_eq!(stored()["job"]["parallelism"], 3, "what is not given stays");
    let ran = run(&cluster, None, "run https://x/a.jar --on wordcount").await;
    ran.failed(Kind::Failed, "`wordcount` is not a session cluster");
}

#[tokio::test]
async fn a_jar_of_this_machine_is_handed_to_flink_where_that_is_said() {
    let cluster = cluster();
    cluster.insert(session());
    let flink = crate::support::fake_flink::FakeFlink::start().await;
    flink.with("default/session", |_| {});
    let address = flink.address().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let jar = folder.path().join("try.jar");
    std::fs::write(&jar, "PK and so on").unwrap();
    let line = format!("run {} --on session", jar.display());
    let ran = run(&cluster, Some(address.clone()), &line).await;
    ran.failed(Kind::Usage, "is a local file, which the operator cannot fetch");
    let ran = run(&cluster, Some(address), &format!("{line} --direct")).await.succeeded();
    assert!(ran.error.contains("this job has no FlinkSessionJob"), "{}", ran.error);
    let job_id = ran.output.trim();
    assert_eq!(job_id.len(), 32);
    flink.with("default/session", |cluster| assert!(cluster.jobs.contains_key(job_id)));
    assert_eq!(cluster.writes(), []);
    std::fs::write(&jar, "no archive").unwrap();
    run(&cluster, None, &format!("{line} --direct")).await.failed(Kind::Failed, "is not a jar");
}

#[tokio::test]
async fn restart_writes_a_new_nonce_each_time() {
    let cluster = cluster();
    let ran = done(&cluster, "restart wordcount").await;
    assert_eq!(ran.output, "flinkdeployment.flink.apache.org/wordcount restarted\n");
    done(&cluster, "restart wordcount").await;
    let nonce = |number| json!({"spec": {"restartNonce": number}});
    assert_eq!(patches(&cluster), [nonce(1), nonce(2)]);
}

#[tokio::test]
async fn a_suspended_job_is_not_restarted() {
    let cluster = cluster();
    done(&cluster, "suspend wordcount").await;
    cluster.forget_requests();
    run(&cluster, None, "restart wordcount").await.failed(Kind::Failed, "`wordcount` is suspended");
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn state_is_lost_only_when_somebody_agrees() {
    for line in [
        "suspend wordcount",
        "restart wordcount",
        "set image wordcount x:2",
        "scale wordcount --parallelism 3",
    ] {
        let cluster = stateless();
        let ran = run(&cluster, None, line).await;
        ran.failed(
            Kind::Failed,
            "nothing was changed: spec.job.upgradeMode of `wordcount` is stateless",
        );
        assert_eq!(cluster.writes(), [], "{line}");
        done(&cluster, &format!("{line} --lose-state")).await;
        assert_eq!(cluster.writes().len(), 1, "{line}");
    }
}

#[tokio::test]
async fn dry_runs_show_the_patch_and_change_nothing() {
    for line in [
        "restart wordcount",
        "scale wordcount --parallelism 3",
        "set config wordcount a.b=c",
        "set args wordcount -- --rate 5",
        "restore wordcount --from s3://b/sp --unverified",
        "rollback wordcount --to-revision 1",
        "deploy wordcount --parallelism 3",
    ] {
        let cluster = cluster();
        add_revision(&cluster, 1, "flink:1.19");
        let before = stored(&cluster);
        let (command, rest) = line.split_once(" -- ").unwrap_or((line, ""));
        let rest = if rest.is_empty() { String::new() } else { format!(" -- {rest}") };
        let ran = done(&cluster, &format!("{command} --dry-run=client{rest}")).await;
        assert!(
            ran.error.contains("kubectl patch flinkdeployment wordcount -n default"),
            "{}",
            ran.error
        );
        assert_eq!(cluster.writes(), [], "{line}");
        done(&cluster, &format!("{command} --dry-run=server{rest}")).await;
        assert!(cluster.writes()[0].uri.contains("dryRun=All"), "{line}");
        assert_eq!(stored(&cluster), before, "{line}");
    }
}

#[tokio::test]
async fn dry_runs_show_what_would_be_applied_and_staged() {
    let cluster = cluster();
    cluster.insert(session());
    let folder = tempfile::tempdir().unwrap();
    let jar = folder.path().join("clicks.jar");
    std::fs::write(&jar, "PK and so on").unwrap();
    let jar = jar.display();
    let config = folder.path().join("config.yaml");
    let allowed = "kubernetes.operator.user.artifacts.allowed-schemes: https;s3\n";
    std::fs::write(&config, allowed).unwrap();
    let config = format!("--operator-config {}", config.display());
    let line = format!("run {jar} --on session --stage s3://lake/jars/ --dry-run=client {config}");
    let ran = done(&cluster, &line).await;
    let staged = "s3://lake/jars/clicks-2d4d6397ba09.jar";
    let note = format!("`{jar}`, of 12 bytes, would be uploaded to `{staged}`");
    assert!(ran.error.contains(&note), "{}", ran.error);
    let apply = "| kubectl apply --server-side --field-manager kubectl-flink -f -";
    let (_, shown) = ran.error.split_once("equivalent: printf %s '").unwrap();
    let (object, rest) = shown.split_once("' ").unwrap();
    assert_eq!(rest.trim_end(), apply);
    let object: Value = serde_json::from_str(object).unwrap();
    assert_eq!(object["spec"]["job"]["jarURI"], staged);
    let manifest = folder.path().join("job.yaml");
    std::fs::write(&manifest, serde_yaml::to_string(&object).unwrap()).unwrap();
    let deploy = format!("deploy -f {} {config} --dry-run", manifest.display());
    let ran = done(&cluster, &format!("{deploy}=server")).await;
    let file = format!("{} -f {}\n", apply.strip_suffix(" -f -").unwrap(), manifest.display());
    assert!(ran.error.ends_with(file.trim_start_matches("| ")), "{}", ran.error);
    let ran = done(&cluster, &format!("{deploy}=client --force-conflicts")).await;
    assert!(ran.error.contains("--force-conflicts -f "), "{}", ran.error);
    // Without a namespace in the manifest, kubectl needs the flag.
    let mut bare = object;
    bare["metadata"] = json!({"name": "clicks"});
    std::fs::write(&manifest, serde_yaml::to_string(&bare).unwrap()).unwrap();
    let ran = done(&cluster, &format!("{deploy}=client")).await;
    assert!(ran.error.contains("kubectl-flink -n default -f "), "{}", ran.error);
    let ran = done(&cluster, "init --dry-run=client").await;
    let forced = "kubectl apply --server-side --field-manager kubectl-flink --force-conflicts -f -";
    let of_definitions = format!("equivalent: kubectl flink crds | {forced}");
    assert!(ran.error.contains(&of_definitions), "{}", ran.error);
    assert_eq!(ran.error.matches(forced).count(), 4, "and the objects of the namespace");
    let is_dry = |uri: &str| uri.contains("dryRun=All");
    assert!(cluster.writes().iter().all(|it| is_dry(&it.uri)), "{:?}", cluster.writes());
}

#[tokio::test]
async fn what_is_so_already_is_not_written() {
    let cluster = cluster();
    let ran = done(&cluster, "scale wordcount --parallelism 2").await;
    assert_eq!(ran.output, "flinkdeployment.flink.apache.org/wordcount unchanged\n");
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn a_change_in_between_is_a_conflict() {
    let cluster = cluster();
    cluster.fail(Method::PATCH, "flinkdeployments/wordcount", Fault::Status(409), 1);
    let ran = run(&cluster, None, "set image wordcount x:2").await;
    ran.failed(Kind::Failed, "changed in the meantime");
    assert_eq!(stored(&cluster)["spec"]["image"], "flink:1.20");
}

#[tokio::test]
async fn a_spec_that_cannot_work_is_not_sent() {
    let cluster = cluster();
    let ran = run(&cluster, None, "set config wordcount state.savepoints.dir-").await;
    ran.failed(Kind::Failed, "`wordcount` was not changed:");
    let ran = run(&cluster, None, "set config wordcount rest.port-").await;
    ran.failed(Kind::Failed, "`wordcount` does not set `rest.port`");
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn options_and_arguments_are_set() {
    let cluster = cluster();
    done(&cluster, "set config wordcount taskmanager.numberOfTaskSlots=4").await;
    done(&cluster, "set args wordcount -- --topic orders").await;
    done(&cluster, "set args wordcount").await;
    let spec = |spec: Value| json!({"spec": spec});
    assert_eq!(
        patches(&cluster),
        [
            spec(json!({"flinkConfiguration": {"taskmanager.numberOfTaskSlots": "4"}})),
            spec(json!({"job": {"args": ["--topic", "orders"]}})),
            spec(json!({"job": {"args": null}})),
        ]
    );
}

#[tokio::test]
async fn a_vertex_is_found_before_it_is_scaled() {
    let cluster = cluster();
    let (flink, address) = flink().await;
    drop(flink);
    // The JobManager does not answer: an id is used as it is, a name cannot be resolved.
    let id = "bc764cd8ddf7a0cff126f51c16239658";
    let line = format!("scale wordcount --vertex {id}=3");
    let ran = run(&cluster, Some(address.clone()), &line).await.succeeded();
    assert!(ran.error.contains("could not check the vertices of `wordcount`"), "{}", ran.error);
    let configuration = &stored(&cluster)["spec"]["flinkConfiguration"];
    assert_eq!(configuration["pipeline.jobvertex-parallelism-overrides"], format!("{id}:3"));
    let ran = run(&cluster, Some(address), "scale wordcount --vertex Source=3").await;
    ran.failed(Kind::Failed, "`Source` is not a vertex id");
}

#[tokio::test]
async fn an_unknown_vertex_is_refused() {
    let cluster = cluster();
    let (_flink, address) = flink().await;
    let line = "scale wordcount --vertex bc764cd8ddf7a0cff126f51c16239658=3";
    run(&cluster, Some(address), line).await.failed(Kind::Failed, "`wordcount` has no vertex");
    assert_eq!(cluster.writes(), []);
}

fn restored_to(path: &str, nonce: i64) -> Value {
    json!({"spec": {"job": {"initialSavepointPath": path, "savepointRedeployNonce": nonce}}})
}

#[tokio::test]
async fn newer_state_is_left_behind_only_when_somebody_agrees() {
    let cluster = cluster();
    let line = "restore wordcount --from s3://b/sp --unverified";
    let ran = run(&cluster, None, line).await;
    ran.failed(Kind::Failed, "leaves all newer state behind");
    assert_eq!(cluster.writes(), []);
    let ran = done(&cluster, &format!("{line} --leave-newer-state")).await;
    assert_eq!(ran.output, "flinkdeployment.flink.apache.org/wordcount restored\n");
    assert_eq!(patches(&cluster), [restored_to("s3://b/sp", 1)]);
}

#[tokio::test]
async fn a_path_that_cannot_be_seen_is_taken_only_when_somebody_agrees() {
    let cluster = cluster();
    let line = "restore wordcount --from file:///flink/sp --leave-newer-state";
    let ran = run(&cluster, None, line).await;
    ran.failed(
        Kind::Failed,
        "could not check from here whether there is a savepoint at `file:///flink/sp`",
    );
    assert_eq!(cluster.writes(), []);
    done(&cluster, &format!("{line} --unverified")).await;
    assert_eq!(patches(&cluster), [restored_to("file:///flink/sp", 1)]);
}

#[tokio::test]
async fn a_checkpoint_of_the_running_job_is_refused_whatever_flags_say() {
    let cluster = cluster();
    let line = format!(
        "restore wordcount --from s3://b/checkpoints/{JOB_ID}/chk-7 --unverified --leave-newer-state"
    );
    run(&cluster, None, &line).await.failed(Kind::Failed, "is a checkpoint of the running job");
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn a_revision_leads_to_the_state_that_it_left() {
    let cluster = cluster();
    add_revision(&cluster, 1, "flink:1.19");
    let flags = "--unverified --leave-newer-state";
    done(&cluster, &format!("restore wordcount --from 1 {flags}")).await;
    assert_eq!(patches(&cluster), [restored_to("s3://b/sp", 1)]);
    let ran = run(&cluster, None, &format!("restore wordcount --from 9 {flags}")).await;
    ran.failed(Kind::Failed, "`wordcount` has no revision 9");
}

#[tokio::test]
async fn a_snapshot_of_another_job_is_taken_only_when_somebody_agrees() {
    let cluster = cluster();
    cluster.insert(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
        "metadata": {"name": "other-1", "namespace": "default"},
        "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "other"}, "savepoint": {}},
        "status": {"state": "COMPLETED", "path": "s3://b/other"}}));
    let line = "restore wordcount --from other-1 --unverified --leave-newer-state";
    let ran = run(&cluster, None, line).await;
    ran.failed(Kind::Failed, "FlinkStateSnapshot `other-1` belongs to `other`, not to `wordcount`");
    assert_eq!(cluster.writes(), []);
    done(&cluster, &format!("{line} --of-another-job")).await;
    assert_eq!(patches(&cluster), [restored_to("s3://b/other", 1)]);
    let ran = run(&cluster, None, "restore wordcount --from absent").await;
    ran.failed(Kind::Failed, "no FlinkStateSnapshot `absent` in namespace `default`");
}
