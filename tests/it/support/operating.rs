//! The operator itself, running against the fakes.

use std::sync::Arc;
use std::time::Duration;

use api::deployment::FlinkDeployment;
use clients::flink::access::{Connector, Options};
use config::OperatorConfig;
use kube::ResourceExt;
use lifecycle::error_document::message_of;
use metrics::Metrics;
use operator::context::Context;
use operator::files::Files;
use operator::preview::{self, Preview};
use operator::run::{Operator, Watch, start};
use operator::scaling_rules::ScalingRules;
use operator::scopes::Moved;
use operator::validator::Validator;
use serde::Serialize;
use serde_json::{Value, json};
use testing::scene::{JOB_ID, Scene};

use super::fake_cluster::FakeCluster;
use super::fake_flink::{FakeFlink, Job};
use super::patience::PATIENCE;

/// Polling interval.
const POLL: Duration = Duration::from_millis(10);

/// A running operator, with the API server and the Flink clusters that it sees.
pub(crate) struct Operating {
    pub(crate) cluster: FakeCluster,
    pub(crate) flink: FakeFlink,
    operator: Operator,
}

impl Operating {
    pub(crate) fn start(flink: FakeFlink) -> Self {
        Self::start_on(FakeCluster::new(), flink)
    }

    /// Starts on a cluster that already has objects.
    pub(crate) fn start_on(cluster: FakeCluster, flink: FakeFlink) -> Self {
        Self::start_counted(&Watch::AllNamespaces, cluster, flink, Metrics::default())
    }

    /// Starts for the namespaces of `watch`.
    pub(crate) fn start_in(watch: &Watch, cluster: FakeCluster, flink: FakeFlink) -> Self {
        Self::start_counted(watch, cluster, flink, Metrics::default())
    }

    /// Starts with metrics.
    pub(crate) fn start_counted(
        watch: &Watch,
        cluster: FakeCluster,
        flink: FakeFlink,
        metrics: Metrics,
    ) -> Self {
        Self::start_judged(watch, cluster, flink, metrics, vec![])
    }

    /// Starts with the autoscaler rules defined in this operator configuration.
    pub(crate) fn start_ruled(flink: FakeFlink, text: &str) -> Self {
        let config = config::file::parse_flink_conf(text);
        let rules = ScalingRules::configured(&config).unwrap();
        let (cluster, all) = (FakeCluster::new(), Watch::AllNamespaces);
        let with = |context: Context| context.with_scaling_rules(rules);
        Self::start_with(&all, cluster, flink, Metrics::default(), with)
    }

    /// Starts with this operator configuration.
    pub(crate) fn start_configured(flink: FakeFlink, text: &str) -> Self {
        let config = OperatorConfig::new(config::file::parse_flink_conf(text));
        let (cluster, all) = (FakeCluster::new(), Watch::AllNamespaces);
        let with = |context: Context| {
            context.live.replace(config);
            context
        };
        Self::start_with(&all, cluster, flink, Metrics::default(), with)
    }

    /// Starts with validators.
    pub(crate) fn start_judged(
        watch: &Watch,
        cluster: FakeCluster,
        flink: FakeFlink,
        metrics: Metrics,
        validators: Vec<Arc<dyn Validator>>,
    ) -> Self {
        let with = |context: Context| context.with_validators(validators);
        Self::start_with(watch, cluster, flink, metrics, with)
    }

    fn start_with(
        watch: &Watch,
        cluster: FakeCluster,
        flink: FakeFlink,
        metrics: Metrics,
        with: impl FnOnce(Context) -> Context,
    ) -> Self {
        let rest_address = Some(flink.address().to_owned());
        let options = Options { rest_address, ..Options::default() };
        let connector = Connector::new(&options, None).unwrap().counted(metrics.flink());
        let context = Context::new(cluster.client(), OperatorConfig::default(), connector, true)
            .with_metrics(metrics)
            .with_files(Files::here(|_| None));
        let operator = start(with(context), watch, None);
        Self { cluster, flink, operator }
    }

    /// Switches to the namespaces of `watch`.
    pub(crate) async fn watch(&self, watch: &Watch) -> Moved {
        self.operator.watch(watch).await
    }

    /// Replaces the configuration.
    pub(crate) fn configure(&self, text: &str) {
        let config = config::file::parse_flink_conf(text);
        self.operator.context.live.replace(OperatorConfig::new(config));
    }

    /// Waits until `inspect` returns something.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        inspect: impl Fn(&FakeCluster) -> Option<T>,
    ) -> T {
        let find = async {
            loop {
                match inspect(&self.cluster) {
                    Some(found) => return found,
                    None => tokio::time::sleep(POLL).await,
                }
            }
        };
        tokio::time::timeout(PATIENCE, find).await.unwrap_or_else(|_| {
            let resources = ["flinkdeployments", "flinksessionjobs"];
            let seen: Vec<Value> =
                resources.iter().flat_map(|plural| self.cluster.objects(plural)).collect();
            panic!("not in time: {what}\n{seen:#?}")
        })
    }

    /// Creates the scene's resource, with its JobManager and a running job.
    pub(crate) fn run(&self, scene: &Scene) {
        let job = Job::running(JOB_ID, 1_750_000_000_000);
        self.flink.with("shop/orders", |flink| flink.jobs.insert(JOB_ID.to_owned(), job));
        insert_job_manager_of(&self.cluster, &scene.resource);
        self.cluster.insert(with_status(&scene.resource, &scene.status));
    }

    /// Waits until the operator has observed the job that [`Self::run`] created.
    pub(crate) async fn until_seen_running(&self) {
        self.until("the job is looked at", |cluster| {
            let status = &cluster.object("flinkdeployments", "shop", "orders")?["status"];
            let name = status["jobStatus"]["jobName"].as_str()?;
            (name == "CarTopSpeedWindowingExample").then_some(())
        })
        .await;
    }

    /// Returns what the operator would do about the resource in this form, as a stale watch shows it.
    pub(crate) async fn would(&self, resource: FlinkDeployment) -> Preview {
        preview::of_deployment(resource, &self.operator.context).await.unwrap()
    }

    /// Waits until all existing objects are listed.
    pub(crate) async fn until_listed(&self) {
        self.operator.ready().await;
    }

    /// Stops this operator and starts another one on the same clusters.
    pub(crate) async fn restart(self) -> Self {
        self.restart_after(|_| {}).await
    }

    /// As [`Self::restart`], with `change` applied while no operator runs.
    pub(crate) async fn restart_after(self, change: impl FnOnce(&FakeCluster)) -> Self {
        let Self { cluster, flink, operator } = self;
        operator.stop().await;
        change(&cluster);
        Self::start_on(cluster, flink)
    }

    /// Stops the operator; returns whether nothing had to be aborted.
    pub(crate) async fn rest(mut self) -> bool {
        self.operator.rest().await
    }

    pub(crate) async fn stop(self) {
        self.operator.stop().await;
    }
}

/// Returns the Deployment of a running JobManager.
pub(crate) fn job_manager_of(resource: &FlinkDeployment) -> Value {
    let metadata = &resource.metadata;
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": metadata.name, "namespace": metadata.namespace, "uid": "d1", "generation": 1,
            "labels": {"app": metadata.name, "component": "jobmanager"},
            "annotations": {api::GENERATION_ANNOTATION: "1"},
            "ownerReferences": [{
                "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "name": metadata.name, "uid": metadata.uid,
            }],
        },
        "spec": {"selector": {}, "template": {}},
        "status": {"replicas": 1, "availableReplicas": 1},
    })
}

/// Inserts the JobManager of the resource, and the Service in front of it.
pub(crate) fn insert_job_manager_of(cluster: &FakeCluster, resource: &FlinkDeployment) {
    let job_manager = cluster.insert(job_manager_of(resource));
    let (name, metadata) = (resource.name_any(), &job_manager["metadata"]);
    cluster.insert(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": format!("{name}-rest"), "namespace": metadata["namespace"],
            "labels": {"app": name, "type": "flink-native-kubernetes"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": metadata["uid"],
            }],
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": "127.0.0.1",
            "selector": {"app": name, "component": "jobmanager", "type": "flink-native-kubernetes"},
            "ports": [{"name": "rest", "port": 8081, "targetPort": 8081}],
        },
    }));
}

/// Returns a resource as it is stored, with its status.
pub(crate) fn with_status(resource: &impl Serialize, status: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(resource).unwrap();
    value["status"] = serde_json::to_value(status).unwrap();
    value
}

/// Returns the message of the error in the status of a resource in `shop`.
pub(crate) fn error_of(cluster: &FakeCluster, plural: &str, name: &str) -> Option<String> {
    let resource = cluster.object(plural, "shop", name)?;
    resource["status"]["error"].as_str().map(message_of)
}
