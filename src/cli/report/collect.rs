//! Parts of a report, collected one after the other: objects, events, logs, and answers of Flink.

use std::fmt::Write as _;
use std::time::Duration;

use http::Method;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment as Workload};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Service};
use kube::Resource;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::archive::Archive;
use super::redact;
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::job_manager;
use crate::cli::lookup;
use api::state_snapshot::FlinkStateSnapshot;
use clients::cluster::read::{self, Scope};
use clients::cluster::{events, logs, pods};
use clients::flink::Deadlines;
use clients::flink::access::Access;
use state::revision;

/// Maximum number of pods whose logs are read.
const PODS_MAX: usize = 50;
/// Maximum size of one log, in bytes.
const LOG_BYTES_MAX: u32 = 4 << 20;
/// Deadline of one request to Flink.
const PATIENCE: Duration = Duration::from_secs(10);
/// Paths to request from a JobManager about the cluster.
const OF_CLUSTER: [&str; 6] = [
    "config",
    "overview",
    "jobmanager/config",
    "jobmanager/environment",
    "jobs/overview",
    "taskmanagers",
];
/// Paths to request about the job.
const OF_JOB: [&str; 6] =
    ["", "config", "exceptions?maxExceptions=50", "checkpoints", "checkpoints/config", "plan"];

/// Subject and limits of a report.
pub(super) struct Collecting<'a> {
    pub(super) connection: &'a Connection,
    pub(super) present: &'a Deployment,
    pub(super) access: Access,
    pub(super) log_lines: i64,
    pub(super) until: Instant,
}

impl Collecting<'_> {
    /// Writes everything into the archive. Fails only if a write fails.
    pub(super) async fn into_archive(
        self,
        archive: &mut Archive,
        emit: impl Fn(&'static str),
    ) -> anyhow::Result<()> {
        let present = self.present;
        emit("reading objects");
        let kind = present.id().kind.to_lowercase();
        add_object(archive, &format!("objects/{kind}-{}.yaml", present.name()), &present.0)?;
        if let Some(parent) = present.blue_green_parent() {
            let parent = lookup::fetch_blue_green(self.connection, parent);
            match self.timely(parent).await {
                Ok(parent) => {
                    let name = format!("objects/flinkbluegreendeployment-{}.yaml", parent.name());
                    add_object(archive, &name, &parent.0)?;
                }
                Err(error) => archive.leave_out(format!("the blue/green deployment: {error}")),
            }
        }
        let cluster = self.timely(lookup::cluster_of(self.connection, present)).await;
        let cluster = match cluster {
            Ok(cluster) => cluster,
            Err(error) => {
                archive.leave_out(format!("the session cluster: {error}"));
                return Ok(());
            }
        };
        if present.is_session_job() {
            let name = format!("objects/flinkdeployment-{}.yaml", cluster.name());
            add_object(archive, &name, &cluster.0)?;
        }
        let of_cluster = format!("app={}", cluster.name());
        let history = revision::label_selector(&present.history_name());
        self.objects::<Workload>(archive, "deployments", Some(&of_cluster)).await?;
        self.objects::<Pod>(archive, "pods", Some(&of_cluster)).await?;
        self.objects::<Service>(archive, "services", Some(&of_cluster)).await?;
        self.objects::<ConfigMap>(archive, "configmaps", Some(&of_cluster)).await?;
        self.objects::<ControllerRevision>(archive, "controllerrevisions", Some(&history)).await?;
        self.objects::<FlinkStateSnapshot>(archive, "flinkstatesnapshots", None).await?;
        emit("reading events");
        self.events(archive, &cluster).await?;
        emit("reading logs");
        self.logs(archive, &cluster).await?;
        emit("asking the JobManager");
        self.flink(archive, &cluster).await
    }

    /// Returns the answer, or why there is none within the time limit.
    async fn timely<T, E: std::fmt::Display>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, String> {
        match tokio::time::timeout_at(self.until, work).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(format!("{error:#}")),
            Err(_) => Err("--timeout expired".to_owned()),
        }
    }

    async fn objects<K>(
        &self,
        archive: &mut Archive,
        name: &str,
        selector: Option<&str>,
    ) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let scope = Scope::Namespace(self.present.namespace());
        let client = &self.connection.client;
        match self.timely(read::list_values::<K>(client, scope, selector)).await {
            Ok(all) => {
                let items: Vec<Value> = all.into_iter().map(redact::object).collect();
                let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
                archive.add(&format!("objects/{name}.yaml"), &serde_yaml::to_string(&list)?)
            }
            Err(error) => {
                archive.leave_out(format!("{name}: {error}"));
                Ok(())
            }
        }
    }

    async fn events(&self, archive: &mut Archive, cluster: &Deployment) -> anyhow::Result<()> {
        let names = [self.present.name(), cluster.name()].into_iter();
        let names: Vec<&str> = names.chain(self.present.blue_green_parent()).collect();
        let namespace = self.present.namespace();
        let around = events::around(&self.connection.client, namespace, &names);
        match self.timely(around).await {
            Ok(events) => archive.add("events.txt", &events.iter().map(line).collect::<String>()),
            Err(error) => {
                archive.leave_out(format!("events: {error}"));
                Ok(())
            }
        }
    }

    async fn logs(&self, archive: &mut Archive, cluster: &Deployment) -> anyhow::Result<()> {
        let (client, namespace) = (&self.connection.client, cluster.namespace());
        // A failure to list pods has already been reported with the objects.
        let listed = self.timely(pods::list(client, namespace, cluster.name(), None)).await;
        let Ok(pods) = listed else { return Ok(()) };
        if pods.len() > PODS_MAX {
            archive.leave_out(format!("logs of {} pods", pods.len() - PODS_MAX));
        }
        for pod in pods.iter().take(PODS_MAX) {
            let name = pod.metadata.name.clone().unwrap_or_default();
            let status = pod.status.as_ref();
            let containers = status.and_then(|status| status.container_statuses.as_deref());
            for container in containers.unwrap_or_default() {
                let has_former = container.restart_count > 0;
                for is_previous in [false, true].into_iter().filter(|it| !it || has_former) {
                    let request = logs::LogRequest {
                        namespace: namespace.to_owned(),
                        pod: name.clone(),
                        container: Some(container.name.clone()),
                        is_previous,
                        tail_lines: Some(self.log_lines),
                        ..logs::LogRequest::default()
                    };
                    let suffix = if is_previous { "-previous" } else { "" };
                    let file = format!("logs/{name}-{}{suffix}.log", container.name);
                    match self.timely(logs::text(client, &request, LOG_BYTES_MAX)).await {
                        Ok(text) => archive.add(&file, &text)?,
                        Err(error) => archive.leave_out(format!("{file}: {error}")),
                    }
                }
            }
        }
        Ok(())
    }

    async fn flink(&self, archive: &mut Archive, cluster: &Deployment) -> anyhow::Result<()> {
        let deadlines = Deadlines { request: PATIENCE, ..Deadlines::default() };
        let client = job_manager::client(self.connection, cluster, self.access, deadlines);
        let client = match client {
            Ok(client) => client.without_retries(),
            Err(error) => {
                archive.leave_out(format!("the JobManager: {error:#}"));
                return Ok(());
            }
        };
        let of_job = self.present.job_id().into_iter().flat_map(|id| {
            OF_JOB.map(|path| match path {
                "" => format!("jobs/{id}"),
                path => format!("jobs/{id}/{path}"),
            })
        });
        for path in OF_CLUSTER.map(str::to_owned).into_iter().chain(of_job) {
            let plain = path.split('?').next().unwrap_or_default().replace('/', "-");
            let asked = client.raw(Method::GET, format!("/{path}"), None);
            let answer = self.timely(asked).await.and_then(|answer| {
                serde_json::from_slice(&answer).map_err(|error| format!("it is not JSON: {error}"))
            });
            match answer {
                Ok(answer) => {
                    let text = serde_json::to_string_pretty(&redact::object(answer))?;
                    archive.add(&format!("flink/{plain}.json"), &text)?;
                }
                Err(error) => {
                    archive.leave_out(format!("Flink's /{path}: {error}"));
                    if path == "config" {
                        // If this request is not answered, the others will not be either.
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Formats an event as one line, like `kubectl get events`.
fn line(event: &Event) -> String {
    let about = &event.involved_object;
    let mut line = String::new();
    let _infallible = writeln!(
        line,
        "{} {} {} {}/{} ({}x): {}",
        events::last_seen(event).map_or("-".to_owned(), |at| at.to_string()),
        event.type_.as_deref().unwrap_or_default(),
        event.reason.as_deref().unwrap_or_default(),
        about.kind.as_deref().unwrap_or_default(),
        about.name.as_deref().unwrap_or_default(),
        event.count.unwrap_or(1),
        event.message.as_deref().unwrap_or_default().replace('\n', " ")
    );
    line
}

/// Adds one object, without secrets.
fn add_object(archive: &mut Archive, name: &str, object: &Value) -> anyhow::Result<()> {
    let text = serde_yaml::to_string(&redact::object(object.clone()))?;
    archive.add(name, &text)
}
