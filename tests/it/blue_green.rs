//! A `FlinkBlueGreenDeployment` on the fake cluster. Its whole lifecycle is covered by the scenarios of `faults`.

use std::collections::BTreeMap;

use api::blue_green::FlinkBlueGreenDeployment;
use autoscaler::state::{self, Stored};
use autoscaler::topology::VertexId;
use axum::http::Method;
use kube::Api;
use kube::api::{Patch, PatchParams};
use operator::run::Watch;
use serde_json::{Value, json};
use testing::scene::{JOB_ID, Scene};

use crate::disposal::going;
use crate::support::fake_cluster::{FakeCluster, Recorded};
use crate::support::fake_flink::{FakeFlink, Job};
use crate::support::operating::{Operating, insert_job_manager_of, with_status};

const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";
const VERTEX: &str = "0a448493b4782967b150582570326227";

pub(crate) fn blue_green(namespace: &str, name: &str) -> Value {
    let template = serde_json::to_value(Scene::new("savepoint").resource.spec).unwrap();
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
        "spec": {"template": {"spec": template}},
    })
}

fn stored(cluster: &FakeCluster, name: &str) -> Option<Value> {
    cluster.object("flinkbluegreendeployments", "shop", name)
}

/// Returns its status once it has an error.
fn failed(cluster: &FakeCluster, name: &str) -> Option<Value> {
    let status = stored(cluster, name)?["status"].clone();
    status["error"].is_string().then_some(status)
}

fn writes_about(cluster: &FakeCluster, name: &str) -> Vec<Recorded> {
    let is_about =
        |write: &Recorded| write.uri.contains(name) || write.body.to_string().contains(name);
    cluster.writes().into_iter().filter(is_about).collect()
}

#[tokio::test]
async fn the_first_child_is_made_and_reconciled() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.cluster.insert(blue_green("shop", "trial"));
    let child = |cluster: &FakeCluster| cluster.object("flinkdeployments", "shop", "trial-blue");
    let made = operating.until("the child is made", child).await;
    assert_eq!(made["metadata"]["labels"]["flink/blue-green-deployment-type"], "BLUE");
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&json!("trial"), &json!(false)));
    let job_manager = |cluster: &FakeCluster| cluster.object("deployments", "shop", "trial-blue");
    operating.until("its controller makes its JobManager", job_manager).await;
    let described = |cluster: &FakeCluster| {
        let status = stored(cluster, "trial")?["status"].clone();
        (status["blueGreenState"] == "TRANSITIONING_TO_BLUE").then_some(status)
    };
    let status = operating.until("it is on record", described).await;
    assert_eq!(status["jobStatus"]["state"], "RECONCILING");
    assert!(status["lastReconciledSpec"].as_str().unwrap().contains("template"));
    operating.stop().await;
}

/// The objects of `trial`, whose blue child runs and serves.
struct Served {
    resource: Value,
    scaling: Value,
    job: Job,
}

impl Served {
    fn edit(&mut self) {
        self.resource["spec"]["template"]["spec"]["job"]["parallelism"] = json!(7);
    }
}

fn serve(operating: &Operating, change: impl FnOnce(&mut Served)) {
    let scene = Scene::running("savepoint")
        .option("job.autoscaler.enabled", "true")
        .option("kubernetes.operator.reconcile.interval", "100 ms");
    let mut blue = with_status(&scene.resource, &scene.status);
    let mut resource = blue_green("shop", "trial");
    resource["spec"]["template"]["spec"] = blue["spec"].clone();
    let recorded = json!({"spec": resource["spec"]}).to_string();
    resource["status"] = json!({"blueGreenState": "ACTIVE_BLUE", "jobStatus": {"state": "RUNNING"},
        "lastReconciledSpec": recorded});
    // It runs with the autoscaler's decision.
    for recorded in ["lastReconciledSpec", "lastStableSpec"] {
        let text = &mut blue["status"]["reconciliationStatus"][recorded];
        let mut spec: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        spec["spec"]["flinkConfiguration"][OVERRIDES] = json!(format!("{VERTEX}:5"));
        *text = json!(spec.to_string());
    }
    let metadata = &mut blue["metadata"];
    metadata["name"] = json!("trial-blue");
    metadata["labels"] = json!({"flink/blue-green-deployment-type": "BLUE"});
    metadata["ownerReferences"] = json!([{"apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkBlueGreenDeployment", "name": "trial", "uid": "trial"}]);
    let job = Job::running(JOB_ID, 1_750_000_000_000);
    let mut served = Served { resource, scaling: scaling_of(&blue, 5), job };
    change(&mut served);
    let Served { resource, scaling, job } = served;
    operating.flink.with("shop/trial-blue", |flink| flink.jobs.insert(JOB_ID.to_owned(), job));
    insert_job_manager_of(&operating.cluster, &serde_json::from_value(blue.clone()).unwrap());
    for object in [resource, scaling, blue] {
        operating.cluster.insert(object);
    }
}

/// Returns the autoscaler's stored state of a child, with this parallelism for one vertex.
fn scaling_of(child: &Value, parallelism: u32) -> Value {
    let mut stored = Stored::default();
    stored.state.overrides = BTreeMap::from([(VertexId::from(VERTEX), parallelism)]);
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": state::write(&stored).unwrap().data,
        "metadata": {"name": "autoscaler-trial-blue", "namespace": "shop",
            "labels": {"component": "autoscaler", "app": "trial-blue"},
            "ownerReferences": [{"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "name": "trial-blue", "uid": child["metadata"]["uid"]}]}})
}

#[tokio::test]
async fn the_other_colour_goes_on_with_what_the_one_that_serves_has() {
    let operating = Operating::start(FakeFlink::start().await);
    serve(&operating, Served::edit);
    let child = |cluster: &FakeCluster| cluster.object("flinkdeployments", "shop", "trial-green");
    let green = operating.until("the other colour is made", child).await;
    let path = green["spec"]["job"]["initialSavepointPath"].as_str().unwrap();

    let snapshots = operating.cluster.objects("flinkstatesnapshots");
    let [snapshot] = snapshots.as_slice() else { panic!("{snapshots:?}") };
    assert_eq!(snapshot["spec"]["savepoint"]["path"], path);
    assert_eq!(snapshot["spec"]["jobReference"]["name"], "trial-blue");
    let name = snapshot["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("trial-blue-savepoint-upgrade-"), "{name}");

    let revision = operating.cluster.object("controllerrevisions", "shop", "bluegreen.trial-1");
    let revision = revision.unwrap();
    assert_eq!(revision["data"]["restorePoint"]["path"], path);
    assert_eq!(revision["metadata"]["ownerReferences"][0]["uid"], "trial");

    let overrides = json!(format!("{VERTEX}:5"));
    let deployed = |cluster: &FakeCluster| {
        let status = child(cluster)?["status"].clone();
        let text = status["reconciliationStatus"]["lastReconciledSpec"].as_str()?.to_owned();
        let last: Value = serde_json::from_str(&text).unwrap();
        let found = &last["spec"]["flinkConfiguration"][OVERRIDES];
        Some(*found == overrides)
    };
    assert!(operating.until("it is deployed", deployed).await, "with what was decided");
    let scaling = operating.cluster.object("configmaps", "shop", "autoscaler-trial-green").unwrap();
    let kind = &scaling["metadata"]["ownerReferences"][0]["kind"];
    assert_eq!(kind, "FlinkBlueGreenDeployment", "until the child stores it");
    operating.stop().await;
}

/// Exposes the web UI of the parent at this host.
fn expose(served: &mut Served) {
    served.resource["spec"]["ingress"] = json!({"template": "{{name}}.example.com"});
    let recorded = json!({"spec": served.resource["spec"]}).to_string();
    served.resource["status"]["lastReconciledSpec"] = json!(recorded);
}

const GATEWAY: &str = "kubernetes.operator.ingress.gateway: infra/web\n";

fn route(cluster: &FakeCluster) -> Option<Value> {
    cluster.object("httproutes", "shop", "trial")
}

#[tokio::test]
async fn a_route_of_the_parent_leads_to_the_colour_that_serves() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.configure(GATEWAY);
    serve(&operating, expose);
    let made = operating.until("a route is made", route).await;
    assert_eq!(made["spec"]["hostnames"], json!(["trial.example.com"]));
    assert_eq!(made["spec"]["parentRefs"], json!([{"name": "web", "namespace": "infra"}]));
    assert_eq!(made["spec"]["rules"][0]["backendRefs"][0]["name"], "trial-blue-rest");
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "FlinkBlueGreenDeployment");
    let ingress = |cluster: &FakeCluster| cluster.object("ingresses", "shop", "trial");
    assert_eq!(ingress(&operating.cluster), None);

    // Without the Gateway an Ingress takes its place.
    operating.configure("");
    let parents: Api<FlinkBlueGreenDeployment> =
        Api::namespaced(operating.cluster.client(), "shop");
    let edit = json!({"spec": {"ingress": {"template": "other.example.com"}}});
    parents.patch("trial", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    let made = operating.until("an Ingress is made", ingress).await;
    assert_eq!(made["spec"]["rules"][0]["host"], "other.example.com");
    let is_gone = |cluster: &FakeCluster| route(cluster).is_none().then_some(());
    operating.until("the route goes", is_gone).await;
    operating.stop().await;
}

#[tokio::test]
async fn a_route_of_somebody_else_is_left_as_it_is() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.configure(GATEWAY);
    let theirs = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "trial", "namespace": "shop"}, "spec": {"hostnames": ["theirs"]}});
    operating.cluster.insert(theirs);
    serve(&operating, expose);
    let described = |cluster: &FakeCluster| {
        let status = stored(cluster, "trial")?["status"].clone();
        let conditions = status["conditions"].as_array()?.clone();
        let refused = conditions.into_iter().find(|it| it["reason"] == "IngressRefused")?;
        Some(refused["message"].as_str()?.to_owned())
    };
    let message = operating.until("it is told", described).await;
    assert!(message.contains("HTTPRoute `trial` is somebody else's"), "{message}");
    assert_eq!(route(&operating.cluster).unwrap()["spec"]["hostnames"], json!(["theirs"]));
    operating.stop().await;
}

/// Starts a savepoint that takes long to complete.
fn save(served: &mut Served) {
    served.edit();
    let status = &mut served.resource["status"];
    status["blueGreenState"] = json!("SAVEPOINTING_BLUE");
    status["savepointTriggerId"] = json!("0123456789abcdef0123456789abcdef");
    served.job.savepoint_steps = usize::MAX;
}

/// Waits until the controller of the blue child has checked this many more times.
async fn inspect(operating: &Operating, times: usize) {
    let inspected = || operating.flink.requests("jobs/overview").len();
    let until = inspected() + times;
    operating.until("its controller looks", |_| (inspected() >= until).then_some(())).await;
}

#[tokio::test]
async fn neither_colour_is_measured_while_they_switch() {
    for is_switching in [false, true] {
        let operating = Operating::start(FakeFlink::start().await);
        serve(&operating, |served| {
            if is_switching {
                save(served);
            }
        });
        inspect(&operating, 10).await;
        let is_measured = !operating.flink.requests("metrics").is_empty();
        assert_eq!(is_measured, !is_switching);
        operating.stop().await;
    }
}

#[tokio::test]
async fn a_decision_of_the_autoscaler_waits_until_a_switch_is_over() {
    for is_switching in [false, true] {
        let operating = Operating::start(FakeFlink::start().await);
        serve(&operating, |served| {
            served.scaling = scaling_of(&json!({"metadata": {"uid": "u1"}}), 6);
            if is_switching {
                save(served);
            }
        });
        let is_stopped = || !operating.flink.requests("/stop").is_empty();
        if is_switching {
            inspect(&operating, 10).await;
            assert!(!is_stopped());
        } else {
            operating.until("it is scaled", |_| is_stopped().then_some(())).await;
        }
        operating.stop().await;
    }
}

#[tokio::test]
async fn a_savepoint_of_a_colour_that_is_gone_is_disposed_of_by_the_other_one() {
    const PATH: &str = "s3://lake/sp/savepoint-old";
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let operating = Operating::start(flink);
    serve(&operating, |_| ());
    operating.flink.with("shop/trial-blue", |flink| flink.stored.insert(PATH.to_owned(), 1));
    let mut snapshot = going();
    snapshot["spec"]["jobReference"]["name"] = json!("trial-green");
    snapshot["status"]["path"] = json!(PATH);
    operating.cluster.insert(snapshot);
    let is_gone =
        |cluster: &FakeCluster| cluster.objects("flinkstatesnapshots").is_empty().then_some(());
    operating.until("the snapshot is gone", is_gone).await;
    assert!(operating.flink.with("shop/trial-blue", |flink| flink.is_disposed(PATH)));
    operating.stop().await;
}

/// It is a savepoint of a deleted job, not of the job that has taken over.
#[tokio::test]
async fn a_snapshot_that_a_colour_did_not_complete_is_not_asked_of_the_other_one() {
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let operating = Operating::start(flink);
    serve(&operating, |_| ());
    let mut snapshot = going();
    snapshot["spec"]["jobReference"]["name"] = json!("trial-green");
    snapshot["status"] = json!({"state": "IN_PROGRESS", "triggerId": "0123456789abcdef0123456789abcdef",
        "triggerTimestamp": jiff::Timestamp::now().to_string()});
    operating.cluster.insert(snapshot);
    let is_gone =
        |cluster: &FakeCluster| cluster.objects("flinkstatesnapshots").is_empty().then_some(());
    operating.until("the snapshot is gone", is_gone).await;
    assert_eq!(operating.flink.requests("/savepoints"), [""; 0]);
    operating.stop().await;
}

/// A session job has a ConfigMap of the same form.
#[tokio::test]
async fn what_the_autoscaler_knows_of_another_resource_is_left_alone() {
    let operating = Operating::start(FakeFlink::start().await);
    let mut foreign = scaling_of(&json!({"metadata": {"uid": "s"}}), 5);
    foreign["metadata"]["name"] = json!("autoscaler-trial-green");
    foreign["metadata"]["ownerReferences"][0]["kind"] = json!("FlinkSessionJob");
    operating.cluster.insert(foreign);
    let stored =
        |cluster: &FakeCluster| cluster.object("configmaps", "shop", "autoscaler-trial-green");
    let before = stored(&operating.cluster);
    serve(&operating, Served::edit);
    let child = |cluster: &FakeCluster| cluster.object("flinkdeployments", "shop", "trial-green");
    operating.until("the other colour is made", child).await;
    assert_eq!(stored(&operating.cluster), before);
    operating.stop().await;
}

#[tokio::test]
async fn conditions_that_a_crd_drops_are_written_once() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.cluster.drop_conditions("flinkbluegreendeployments");
    serve(&operating, |_| {});
    let count = |cluster: &FakeCluster, path: &str, method: Method| {
        let requests = cluster.requests().into_iter();
        requests.filter(|it| it.method == method && it.uri.contains(path)).count()
    };
    let written = |cluster: &FakeCluster| count(cluster, "/trial/status", Method::PUT);
    operating.until("it is written", |cluster| (written(cluster) > 0).then_some(())).await;
    for times in 0..3 {
        // Only its own controller reads the colour that does not exist.
        let looks = |cluster: &FakeCluster| count(cluster, "/trial-green", Method::GET);
        let before = looks(&operating.cluster);
        let mut edited = stored(&operating.cluster, "trial").unwrap();
        edited["metadata"]["labels"] = json!({"times": times.to_string()});
        operating.cluster.insert(edited);
        let inspected = |cluster: &FakeCluster| (looks(cluster) > before).then_some(());
        operating.until("its controller looks", inspected).await;
    }
    assert_eq!(written(&operating.cluster), 1);
    operating.stop().await;
}

#[tokio::test]
async fn a_child_of_somebody_else_is_left_alone() {
    let operating = Operating::start(FakeFlink::start().await);
    let mut foreign = serde_json::to_value(Scene::new("savepoint").resource).unwrap();
    foreign["metadata"]["name"] = json!("trial-green");
    operating.cluster.insert(foreign);
    operating.cluster.insert(blue_green("shop", "trial"));
    let status = operating.until("it is told", |cluster| failed(cluster, "trial")).await;
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("`trial-green` has the name of a child of this resource"), "{error}");
    assert!(operating.cluster.object("flinkdeployments", "shop", "trial-blue").is_none());
    operating.stop().await;
}

#[tokio::test]
async fn what_cannot_run_is_reported_by_its_field() {
    let operating = Operating::start(FakeFlink::start().await);
    let mut wrong = blue_green("shop", "trial");
    wrong["spec"]["configuration"] =
        json!({"kubernetes.operator.bluegreen.abort.grace-period": "soon"});
    wrong["spec"]["template"]["spec"]["job"]["parallelism"] = json!(-1);
    operating.cluster.insert(wrong);
    let status = operating.until("it is told", |cluster| failed(cluster, "trial")).await;
    let error = status["error"].as_str().unwrap();
    for field in
        ["spec.template.spec.job.parallelism", "spec.configuration.kubernetes.operator.bluegreen"]
    {
        assert!(error.contains(field), "{error}");
    }
    assert!(operating.cluster.object("flinkdeployments", "shop", "trial-blue").is_none());
    operating.stop().await;
}

#[tokio::test]
async fn one_outside_of_the_watched_namespaces_is_left_alone() {
    let cluster = FakeCluster::new();
    cluster.insert(blue_green("elsewhere", "trial"));
    cluster.insert(blue_green("shop", "zz"));
    let watch = Watch::Namespaces(vec!["shop".to_owned()]);
    let operating = Operating::start_in(&watch, cluster, FakeFlink::start().await);
    let child = |cluster: &FakeCluster| cluster.object("flinkdeployments", "shop", "zz-blue");
    operating.until("the one here is operated", child).await;
    assert_eq!(writes_about(&operating.cluster, "trial"), []);
    operating.stop().await;
}
