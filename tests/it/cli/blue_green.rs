//! Commands on a blue/green deployment by name: those that read, and those that change its template.

use std::io::Write as _;

use expect_test::expect;
use kubectl_flink::cli::failure::Kind;
use serde_json::{Value, json};

use super::commands::{JOB_ID, cluster, run, wordcount};
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::{FakeFlink, Job};

const FLINK: &str = "flink.apache.org/v1beta1";

/// Returns a running child of `shop`.
fn colour(name: &str) -> Value {
    let mut object = wordcount();
    object["metadata"]["name"] = json!(format!("shop-{name}"));
    object["metadata"]["uid"] = json!(name);
    object["metadata"]["finalizers"] = json!(["flinkdeployments.flink.apache.org/finalizer"]);
    let last = json!({"spec": object["spec"]}).to_string();
    object["status"]["reconciliationStatus"]["lastReconciledSpec"] = json!(last);
    object["metadata"]["labels"] = json!({"flink/blue-green-deployment-type": name.to_uppercase()});
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": FLINK, "kind": "FlinkBlueGreenDeployment",
        "name": "shop", "uid": "u", "controller": true}]);
    object
}

fn resource(status: &Value) -> Value {
    json!({"apiVersion": FLINK, "kind": "FlinkBlueGreenDeployment",
        "metadata": {"name": "shop", "namespace": "default", "uid": "u", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"configuration": {"kubernetes.operator.bluegreen.abort.grace-period": "5 min"}, "template": {"spec": wordcount()["spec"]}},
        "status": status})
}

/// Adds a blue/green deployment whose blue colour starts while the green one serves.
fn shop(cluster: &FakeCluster) {
    let mut blue = colour("blue");
    blue["status"] = json!({"observedGeneration": 1, "lifecycleState": "DEPLOYED",
        "jobManagerDeploymentStatus": "MISSING", "jobStatus": {"state": "RECONCILING"}});
    cluster.insert(blue);
    cluster.insert(colour("green"));
    let status = json!({"blueGreenState": "TRANSITIONING_TO_BLUE", "jobStatus": {"state": "RECONCILING"}, "conditions": [
        {"type": "Serving", "status": "True", "reason": "Green", "message": "`shop-green` runs", "observedGeneration": 1},
        {"type": "Progressing", "status": "True", "reason": "Deploying", "message": "`shop-blue` starts"}]});
    cluster.insert(resource(&status));
}

/// Returns a settled one, whose green colour serves.
fn rested() -> FakeCluster {
    let cluster = cluster();
    cluster.insert(colour("green"));
    let last = json!({"spec": {"template": {"spec": wordcount()["spec"]}}}).to_string();
    cluster.insert(resource(&json!({"blueGreenState": "ACTIVE_GREEN", "jobStatus": {"state": "RUNNING"},
        "lastReconciledSpec": last, "conditions": [
        {"type": "Serving", "status": "True", "reason": "Green", "message": "`shop-green` runs", "observedGeneration": 1}]})));
    cluster
}

fn stored(cluster: &FakeCluster) -> Value {
    cluster.object("flinkbluegreendeployments", "default", "shop").unwrap()
}

/// Adds a revision with another image and a savepoint.
fn add_revision(cluster: &FakeCluster) {
    let mut spec = wordcount()["spec"].clone();
    spec["image"] = json!("flink:1.19");
    cluster.insert(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "bluegreen.shop-1", "namespace": "default",
            "labels": {"app": "bluegreen.shop", "component": "flink-revision"}},
        "data": {"spec": spec, "reconciledAt": "2026-01-01T00:00:00Z",
            "restorePoint": {"kind": "savepoint", "path": "s3://b/sp", "upgradeMode": "savepoint"}},
    }));
}

#[tokio::test]
async fn both_colours_are_shown_and_neither_is_changed_by_itself() {
    let cluster = cluster();
    shop(&cluster);
    let shown = run(&cluster, None, "status bluegreen/shop").await.succeeded();
    let expected = "bluegreen/shop · TRANSITIONING_TO_BLUE · job RECONCILING · `shop-blue` starts\n\
                    └─ `shop-green` runs\n\
                    shop-green STABLE";
    assert!(shown.output.starts_with(expected), "{}", shown.output);
    assert!(shown.output.contains("\nshop-blue DEPLOYED"), "{}", shown.output);
    let named = run(&cluster, None, "status bluegreen/shop -o name").await.succeeded();
    assert_eq!(named.output, "flinkbluegreendeployment.flink.apache.org/shop\n");
    let before = cluster.objects("flinkdeployments");
    for line in [
        "suspend shop-green",
        "scale shop-green --parallelism 4",
        "set image shop-green flink:1.20",
        "restart shop-green",
        "delete shop-green --yes",
        "rollback shop-green --yes",
        "restore shop-green --from s3://b/1",
        "plan shop-green --set image=flink:1.19",
        "deploy shop-green --image flink:1.20",
    ] {
        let ran = run(&cluster, None, line).await;
        ran.failed(Kind::Failed, "`shop-green` cannot be changed directly");
        assert!(ran.hints.iter().any(|hint| hint.contains("flinkbgdep shop ")), "{:?}", ran.hints);
    }
    assert_eq!(cluster.objects("flinkdeployments"), before);
}

#[tokio::test]
async fn a_list_has_the_kind_alongside_its_colours() {
    let cluster = rested();
    let names = run(&cluster, None, "list -o name").await.succeeded().output;
    assert!(names.contains("flinkbluegreendeployment.flink.apache.org/shop\n"), "{names}");
    let table = run(&cluster, None, "list").await.succeeded().output;
    let row = table.lines().find(|line| line.starts_with("bluegreen/shop ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..5], ["bluegreen/shop", "RUNNING", "ACTIVE_GREEN", "v1_20", "savepoint"]);
}

#[tokio::test]
async fn a_plan_is_reported_up_to_the_end_of_the_former_colour() {
    let cluster = rested();
    let ran = run(&cluster, None, "plan bluegreen/shop --set job.parallelism=8").await;
    assert_eq!(ran.failure.as_ref().map(|(kind, _)| *kind), Some(Kind::Differs), "{}", ran.error);
    expect![[r#"
        FlinkBlueGreenDeployment shop (namespace default) UPGRADE: the other colour starts, and takes over when it is ready

        Changes:
          upgrade  job.parallelism: 2 → 8

        The operator would:
          taking a savepoint of `shop-green`
            1. take a savepoint of the job of `shop-green`, which keeps running
          starting `shop-blue` from s3://b/savepoints/savepoint-…
            2. create FlinkDeployment `shop-blue`, which starts from s3://b/savepoints/savepoint-…
          waiting until `shop-green` is gone
            3. delete FlinkDeployment `shop-green`

        Restore point: savepoint s3://b/savepoints/savepoint-…, taken while the job keeps running
        Read again:    everything after the savepoint, until the old colour stops
        Downtime:      none
    "#]].assert_eq(&ran.output);
    let ran = run(&cluster, None, "plan bluegreen/shop").await.succeeded();
    expect![[r#"
        FlinkBlueGreenDeployment shop (namespace default) needs no changes
    "#]]
    .assert_eq(&ran.output);
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn a_change_in_place_is_planned_as_that_of_the_colour() {
    let cluster = rested();
    cluster.insert(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "shop-green", "namespace": "default", "uid": "d1",
            "annotations": {"flinkdeployment.flink.apache.org/generation": "1"},
            "ownerReferences": [{"apiVersion": FLINK, "kind": "FlinkDeployment", "name": "shop-green", "uid": "green"}]},
        "spec": {}, "status": {"replicas": 1, "availableReplicas": 1, "readyReplicas": 1},
    }));
    let flink = flink_of("shop-green").await;
    let line = "plan bluegreen/shop --set job.state=suspended";
    let ran = run(&cluster, Some(flink.address().to_owned()), line).await;
    assert_eq!(ran.failure.as_ref().map(|(kind, _)| *kind), Some(Kind::Differs), "{}", ran.error);
    expect![[r#"
        FlinkBlueGreenDeployment shop (namespace default) UPGRADE: the job is stopped

        Changes:
          upgrade  job.state: running → suspended

        The operator would:
          changing `shop-green` in place
            1. change FlinkDeployment `shop-green` in place
          stopping the job with a savepoint
            2. stop the job with a savepoint in s3://b/savepoints
          removing the JobManager, with the job's state on record
            3. create a FlinkStateSnapshot
            4. record the previous spec in the history, with s3://b/savepoints/savepoint-…
            5. delete the JobManager and the objects that it owns

        Downtime:      unknown, no earlier upgrade is on record
    "#]]
    .assert_eq(&ran.output);
}

#[tokio::test]
async fn a_rollback_brings_an_earlier_template_back() {
    let cluster = rested();
    add_revision(&cluster);
    for name in ["bluegreen/shop", "shop-green"] {
        let history = run(&cluster, None, &format!("history {name}")).await.succeeded();
        assert!(history.output.contains("savepoint s3://b/sp"), "{}", history.output);
    }
    let dry = run(&cluster, None, "rollback bluegreen/shop --dry-run=client").await.succeeded();
    let patch = r#"-p '{"spec":{"template":{"spec":{"image":"flink:1.19"}}}}'"#;
    assert!(dry.error.contains(patch), "{}", dry.error);
    let ran = run(&cluster, None, "rollback bluegreen/shop --yes").await.succeeded();
    let expected = "flinkbluegreendeployment.flink.apache.org/shop rolled back to revision 1\n";
    assert_eq!(ran.output, expected);
    assert_eq!(stored(&cluster)["spec"]["template"]["spec"]["image"], "flink:1.19");
}

#[tokio::test]
async fn a_restore_names_the_state_in_the_template() {
    let cluster = rested();
    let line = "restore bluegreen/shop --from s3://b/1 --unverified --leave-newer-state";
    run(&cluster, None, line).await.succeeded();
    let job = &stored(&cluster)["spec"]["template"]["spec"]["job"];
    assert_eq!(job["initialSavepointPath"], "s3://b/1");
    assert_eq!(job["savepointRedeployNonce"], 1);
    let cluster = self::cluster();
    shop(&cluster);
    let mut switching = stored(&cluster);
    switching["status"]["lastReconciledSpec"] = json!("{}");
    cluster.insert(switching);
    let ran = run(&cluster, None, line).await;
    ran.failed(Kind::Failed, "`bluegreen/shop` is being stopped or started");
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn a_snapshot_of_either_colour_is_one_of_the_job() {
    let cluster = rested();
    for name in ["blue", "green"] {
        cluster.insert(json!({"apiVersion": FLINK, "kind": "FlinkStateSnapshot",
            "metadata": {"name": format!("sp-{name}"), "namespace": "default"},
            "spec": {"jobReference": {"kind": "FlinkDeployment", "name": format!("shop-{name}")}, "savepoint": {}},
            "status": {"state": "COMPLETED", "path": format!("s3://b/{name}")}}));
        let line =
            format!("restore bluegreen/shop --from sp-{name} --unverified --leave-newer-state");
        run(&cluster, None, &line).await.succeeded();
        let job = &stored(&cluster)["spec"]["template"]["spec"]["job"];
        assert_eq!(job["initialSavepointPath"], format!("s3://b/{name}"));
    }
    let line = "snapshots restore sp-green --unverified --leave-newer-state --dry-run=client";
    let ran = run(&cluster, None, line).await.succeeded();
    assert!(ran.output.starts_with("flinkbluegreendeployment"), "{}", ran.output);
}

#[tokio::test]
async fn a_deletion_goes_to_the_resource() {
    let cluster = rested();
    let ran = run(&cluster, None, "delete bluegreen/shop --yes --no-savepoint").await.succeeded();
    assert!(
        ran.error.contains("flinkbluegreendeployment.flink.apache.org/shop deleted"),
        "{}",
        ran.error
    );
    let [write] = cluster.writes().try_into().unwrap();
    assert!(write.uri.contains("flinkbluegreendeployments/shop"), "{}", write.uri);
    assert_eq!(write.body["propagationPolicy"], "Background");
}

/// Runs a job under `default/NAME` in Flink.
async fn flink_of(name: &str) -> FakeFlink {
    let flink = FakeFlink::start().await;
    flink.with(&format!("default/{name}"), |cluster| {
        cluster.jobs.insert(JOB_ID.to_owned(), Job::running(JOB_ID, 0));
        cluster.default_savepoint_directory = Some("s3://b/savepoints".to_owned());
    });
    flink
}

#[tokio::test]
async fn a_deletion_saves_the_job_that_serves() {
    let cluster = rested();
    let flink = flink_of("shop-green").await;
    let address = Some(flink.address().to_owned());
    let ran = run(&cluster, address, "delete bluegreen/shop --yes").await.succeeded();
    assert!(ran.output.starts_with("s3://b/savepoints/"), "{}", ran.output);
    assert!(
        ran.error.contains("spec.template.spec.job.initialSavepointPath: s3://"),
        "{}",
        ran.error
    );
    assert!(cluster.object("flinkbluegreendeployments", "default", "shop").is_none());
}

/// Green has taken over, and blue is being deleted.
#[tokio::test]
async fn a_deletion_saves_the_colour_that_has_taken_over() {
    let cluster = rested();
    let mut blue = colour("blue");
    blue["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    blue["metadata"]["finalizers"] = json!(["x"]);
    blue["status"]["jobStatus"]["state"] = json!("CANCELED");
    cluster.insert(blue);
    let mut resource = stored(&cluster);
    resource["status"]["blueGreenState"] = json!("TRANSITIONING_TO_GREEN");
    resource["status"]["deploymentReadyTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.insert(resource);
    let flink = flink_of("shop-green").await;
    let address = Some(flink.address().to_owned());
    let ran = run(&cluster, address, "delete bluegreen/shop --yes").await.succeeded();
    assert!(ran.output.starts_with("s3://b/savepoints/"), "{}", ran.output);
}

#[tokio::test]
async fn a_deployment_that_only_has_the_name_of_a_colour_is_let_alone() {
    let cluster = rested();
    let mut foreign = colour("green");
    foreign["metadata"]["ownerReferences"] = Value::Null;
    cluster.insert(foreign);
    let before = cluster.objects("flinkdeployments");
    let flink = flink_of("shop-green").await;
    let address = Some(flink.address().to_owned());
    run(&cluster, address, "delete bluegreen/shop --yes").await.succeeded();
    assert_eq!(flink.requests("stop"), [""; 0]);
    assert_eq!(cluster.objects("flinkdeployments"), before);
    let ran = run(&cluster, None, "logs bluegreen/shop").await;
    ran.failed(Kind::Failed, "no FlinkBlueGreenDeployment `shop`");
}

#[tokio::test]
async fn the_cause_is_that_of_the_colour_that_is_waited_for() {
    let cluster = cluster();
    shop(&cluster);
    let ran = run(&cluster, None, "why bluegreen/shop").await.succeeded();
    assert!(ran.output.contains("A change of `bluegreen/shop` is in progress"), "{}", ran.output);
    assert!(ran.output.contains("`shop-blue` starts"), "{}", ran.output);
    let told = run(&cluster, None, "why bluegreen/shop -o json").await.succeeded();
    let told: Value = serde_json::from_str(&told.output).unwrap();
    assert_eq!(
        (&told["kind"], &told["name"]),
        (&json!("FlinkBlueGreenDeployment"), &json!("shop"))
    );
}

#[tokio::test]
async fn events_are_those_of_the_resource_and_of_both_colours() {
    let cluster = cluster();
    shop(&cluster);
    for (kind, name) in [
        ("FlinkBlueGreenDeployment", "shop"),
        ("FlinkDeployment", "shop-blue"),
        ("FlinkDeployment", "shop-green"),
        ("FlinkDeployment", "wordcount"),
        ("FlinkBlueGreenDeployment", "shop-green"),
    ] {
        cluster.insert(json!({"apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{kind}-{name}").to_lowercase(), "namespace": "default"},
            "involvedObject": {"kind": kind, "name": name, "namespace": "default"},
            "type": "Normal", "reason": "Test", "message": "m"}));
    }
    let told = run(&cluster, None, "events bluegreen/shop -o name").await.succeeded();
    expect![[r"
        FlinkBlueGreenDeployment/shop
        FlinkDeployment/shop-blue
        FlinkDeployment/shop-green
    "]]
    .assert_eq(&told.output);
}

#[tokio::test]
async fn flags_make_no_blue_green_deployment() {
    let ran = run(&rested(), None, "deploy bluegreen/shop --image flink:1.20").await;
    ran.failed(Kind::Usage, "flags can only deploy a FlinkDeployment");
    assert!(ran.hints[0].contains("set image bluegreen/shop"), "{:?}", ran.hints);
}

#[tokio::test]
async fn a_manifest_of_the_kind_is_checked_and_sent() {
    let cluster = cluster();
    let deploy = async |manifest: Value| {
        let mut file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        file.write_all(manifest.to_string().as_bytes()).unwrap();
        run(&cluster, None, &format!("deploy -f {}", file.path().display())).await
    };
    let mut manifest = resource(&Value::Null);
    manifest.as_object_mut().unwrap().remove("status");
    manifest["metadata"] = json!({"name": "shop"});
    let mut broken = manifest.clone();
    broken["spec"]["template"]["spec"]["job"]["parallelism"] = json!(0);
    broken["spec"]["template"]["spec"]["serviceAccount"] = json!("nobody");
    let ran = deploy(broken).await;
    ran.failed(Kind::Failed, "spec.template.spec.job.parallelism: is `0`");
    ran.failed(
        Kind::Failed,
        "spec.template.spec.serviceAccount: service account `nobody` does not exist",
    );
    assert_eq!(cluster.writes(), []);
    let ran = deploy(manifest).await.succeeded();
    assert_eq!(ran.output, "flinkbluegreendeployment.flink.apache.org/shop created\n");
}

#[tokio::test]
async fn the_template_of_a_blue_green_deployment_is_changed_as_a_deployment_is() {
    let cluster = cluster();
    shop(&cluster);
    let before = cluster.object("flinkdeployments", "default", "shop-green").unwrap();
    let spec = |path: &str| {
        let shop = cluster.object("flinkbluegreendeployments", "default", "shop").unwrap();
        shop.pointer(&format!("/spec/template/spec{path}")).cloned().unwrap_or_default()
    };
    for (line, path, expected) in [
        ("scale bluegreen/shop --parallelism 4", "/job/parallelism", json!(4)),
        ("set image bluegreen/shop flink:2.0", "/image", json!("flink:2.0")),
        (
            "set config bluegreen/shop a.password=secret",
            "/flinkConfiguration/a.password",
            json!("secret"),
        ),
        ("restart bluegreen/shop", "/restartNonce", json!(1)),
        ("suspend bluegreen/shop", "/job/state", json!("suspended")),
        ("resume bluegreen/shop", "/job/state", json!("running")),
    ] {
        let dry = run(&cluster, None, &format!("{line} --dry-run=client")).await.succeeded();
        assert!(
            dry.error.contains("kubectl patch flinkbluegreendeployment shop "),
            "{}",
            dry.error
        );
        assert!(!dry.error.contains(r#""secret""#), "{}", dry.error);
        assert_ne!(spec(path), expected, "{line}");
        let ran = run(&cluster, None, line).await.succeeded();
        assert!(ran.output.starts_with("flinkbluegreendeployment.flink.apache.org/shop "));
        assert_eq!(spec(path), expected, "{line}");
        let again = run(&cluster, None, &line.replace("restart", "resume")).await.succeeded();
        assert!(again.output.ends_with(" unchanged\n"), "{line}: {}", again.output);
    }
    assert_eq!(cluster.object("flinkdeployments", "default", "shop-green").unwrap(), before);
    let shop = cluster.object("flinkbluegreendeployments", "default", "shop").unwrap();
    let kept = json!({"kubernetes.operator.bluegreen.abort.grace-period": "5 min"});
    assert_eq!(shop["spec"]["configuration"], kept);
}

#[tokio::test]
async fn a_change_warns_if_a_quota_has_no_room_for_both_colours() {
    let cluster = rested();
    let change = "set image bluegreen/shop flink:2.0 --dry-run=server";
    let warned = |error: &str| error.contains("ResourceQuota `team` leaves 1 of pods");
    let ran = run(&cluster, None, change).await.succeeded();
    assert!(!warned(&ran.error), "{}", ran.error);
    cluster.insert(json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": "default"},
        "status": {"hard": {"pods": "3"}, "used": {"pods": "2"}}}));
    for name in ["shop-green-jm", "shop-green-tm"] {
        cluster.insert(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "shop-green", "component": "taskmanager"}},
            "spec": {"containers": []}}));
    }
    let ran = run(&cluster, None, change).await.succeeded();
    assert!(warned(&ran.error), "{}", ran.error);
    let ran = run(&cluster, None, "suspend bluegreen/shop --dry-run=server").await.succeeded();
    assert!(!warned(&ran.error), "nothing starts: {}", ran.error);
}
