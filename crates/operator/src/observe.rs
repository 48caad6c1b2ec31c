//! Answers the questions of a decision. Each answer is read when the question is asked and not before.
//!
//! If Flink does not answer a question, or the API server answers with an error, the fact is [`Fact::Unknown`], and
//! holds up only what depends on it. If the API server cannot be reached at all, the pass fails and is retried.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::api::{Api, ListParams};
use serde_json::Value;
use tokio::time::timeout;

use super::autoscaler::Cluster as SessionCluster;
use super::context::Context;
use super::high_availability::Place;
use super::job::Asked;
use super::nodes;
use super::objects;
use super::pods;
use super::preflight;
use super::reconcile::OperatedJob;
use super::snapshot::of_job;
use super::standby;
use super::validator::Judging;
use super::watch_freshness::Trust;
use api::ENDING_ANNOTATION;
use api::deployment::FlinkDeployment;
use api::reconciled::{deployed, session_cluster_in};
use api::session_job::FlinkSessionJob;
use api::state_snapshot::JobKind;
use api::status::{JobManagerDeploymentStatus, ReconciliationState};
use clients::cluster;
use clients::cluster::read::Scope;
use clients::cluster::workload::Workload;
use clients::flink::Client;
use config::cluster::{HIGH_AVAILABILITY, ResourceId, high_availability_of};
use config::file::{parse_config_yaml, parse_flink_conf};
use config::{FlinkConfig, OperatorConfig};
use lifecycle::application::kind::observed_config;
use lifecycle::application::started_with::on_record;
use lifecycle::crash;
use lifecycle::memo::Memo;
use lifecycle::resource::{JobResource, StatusOfJob as _};
use lifecycle::session_job::leaving;
use lifecycle::trigger::known::SnapshotKind;
use lifecycle::verdict::Version;
use lifecycle::world::{Cluster, Fact, Facts, HaMetadata, PodProblem, Question, SessionJob};
use render::names;

/// Maximum number of objects in one list; a JobManager has a handful of pods and ConfigMaps.
const LIST_MAX: u32 = 500;

/// How long the dry run of all objects may take together, so that a slow webhook does not hold up the rest of a pass.
/// One webhook may take 30 s.
const DRY_RUN_MAX: Duration = Duration::from_secs(35);

/// How much of a crashed container's log to read, to find out why it crashed.
const LAST_WORDS_LINES: i64 = 100;
const LAST_WORDS_BYTES: u32 = 128 * 1024;

/// One resource as this pass sees it.
pub(super) struct Subject<'a, K: JobResource = FlinkDeployment> {
    pub(super) resource: &'a K,
    pub(super) status: &'a K::Status,
    /// The cluster of a session job.
    pub(super) cluster: SessionCluster<'a>,
    /// The configuration that the pass began with.
    pub(super) operator: &'a OperatorConfig,
    /// The results that this pass already has.
    pub(super) memo: Option<&'a Memo<K::Source, K::Spec>>,
    client: OnceLock<Result<Client, String>>,
}

impl<'a, K: JobResource> Subject<'a, K> {
    pub(super) fn new(
        (resource, status): (&'a K, &'a K::Status),
        cluster: SessionCluster<'a>,
        operator: &'a OperatorConfig,
    ) -> Self {
        Self { resource, status, cluster, operator, memo: None, client: OnceLock::new() }
    }

    pub(super) fn namespace(&self) -> &'a str {
        self.resource.meta().namespace.as_deref().unwrap_or("default")
    }

    pub(super) fn name(&self) -> &'a str {
        self.resource.meta().name.as_deref().unwrap_or_default()
    }

    /// Returns the name of the cluster that the job runs in.
    fn cluster_name(&self) -> &'a str {
        match K::JOB {
            JobKind::FlinkDeployment => self.name(),
            JobKind::FlinkSessionJob => {
                self.cluster.and_then(|of| of.metadata.name.as_deref()).unwrap_or_default()
            }
        }
    }

    /// Returns the kind, namespace and name of the job resource.
    fn of(&self) -> (JobKind, &'a str, &'a str) {
        (K::JOB, self.namespace(), self.name())
    }
}

impl<K: OperatedJob> Subject<'_, K> {
    /// Returns the job for queries. Its JobManager is addressed once per pass.
    pub(super) fn job(&self, context: &Context) -> Asked<'_> {
        let flink = self.client.get_or_init(|| K::flink(self, context)).clone();
        Asked { status: self.status.job(), flink }
    }

    /// Gathers the facts for validators.
    pub(super) fn judging(&self) -> Judging<'_> {
        let metadata = self.resource.meta();
        let generation = metadata.generation.unwrap_or_default();
        let session = self.cluster.and_then(|cluster| cluster.metadata.generation);
        Judging {
            namespace: self.namespace(),
            name: self.name(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            version: Version { generation, session },
            subject: K::judged(self),
        }
    }
}

impl Subject<'_> {
    /// Returns the configuration that the running cluster was submitted with.
    pub(super) fn config(&self) -> Result<Arc<FlinkConfig>, String> {
        let id = ResourceId {
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
            uid: self.resource.metadata.uid.clone().unwrap_or_default(),
        };
        let none = Memo::default();
        let memo = self.memo.unwrap_or(&none);
        let reconciliation = &self.status.reconciliation_status;
        let last = reconciliation.last_reconciled_spec.as_deref();
        let last = last.map(|text| memo.parse(text)).transpose();
        let last = last.map_err(|error| error.to_string())?;
        let last = last.as_deref().map(|last| deployed(reconciliation, last));
        let wanted = &self.resource.spec;
        let deployed = last.as_ref().map_or(wanted, |last| &last.spec);
        observed_config(self.operator, &id, (deployed, wanted), memo)
            .map_err(|error| error.to_string())
    }

    /// Returns the configuration that locates HA metadata: that of the next start, or in a deletion that of the last
    /// run.
    pub(super) fn metadata_config(&self) -> Result<FlinkConfig, String> {
        let mut config = (*self.config()?).clone();
        let is_deleted = self.resource.metadata.deletion_timestamp.is_some();
        if is_deleted && let Some(started_with) = on_record(&self.status.cluster_info) {
            for option in HIGH_AVAILABILITY {
                config.unset(option);
            }
            config.overlay(&started_with);
        }
        Ok(config)
    }

    /// Returns where the HA metadata of the job is.
    pub(super) fn ha_place<'a>(&'a self, context: &'a Context) -> Place<'a> {
        let job_id = self.status.job_status.job_id.as_deref();
        Place {
            client: &context.client,
            namespace: self.namespace(),
            name: self.name(),
            job_id,
            is_session: job_id.is_none() && self.resource.spec.job.is_none(),
            operator: self.operator,
            fence: context.fence.of(self.namespace()),
        }
    }
}

/// Answers one question.
pub(super) async fn answer<K: OperatedJob>(
    question: Question,
    subject: &Subject<'_, K>,
    context: &Context,
    facts: &mut Facts,
) -> cluster::Result<()> {
    let job = || subject.job(context);
    let trigger = async |kind| fact(of_job::trigger(&job(), kind).await);
    let (namespace, cluster) = (subject.namespace(), subject.cluster_name());
    match question {
        Question::Jobs => facts.jobs = fact(job().jobs().await),
        Question::Checkpoints => facts.checkpoints = fact(job().checkpoints(&facts.jobs).await),
        Question::Retention => facts.retention = fact(job().retention().await),
        Question::Stop => facts.stop = fact(job().stop().await),
        Question::Failure => facts.failure = fact(job().failure().await),
        Question::Exceptions => facts.exceptions = fact(job().exceptions().await),
        Question::JobMetrics => facts.job_metrics = fact(job().metrics().await),
        Question::ResourceRequirements => {
            facts.resource_requirements = fact(job().resource_requirements().await);
        }
        Question::Snapshots => facts.snapshots = fact(of_job::snapshots(subject.resource, context)),
        Question::Savepoint => facts.savepoint = trigger(SnapshotKind::Savepoint).await,
        Question::Checkpoint => facts.checkpoint = trigger(SnapshotKind::Checkpoint).await,
        Question::Verdict => {
            facts.verdict = Fact::Known(context.validators.ask(subject.judging()).await);
        }
        Question::Revisions => {
            let paths = of_job::revisions(subject.resource, context).await;
            facts.revisions = of_kind::<K, _>(paths.map(Fact::Known))?;
        }
        Question::References => {
            let (metadata, status) = (subject.resource.meta(), subject.status.job());
            facts.references = fact(of_job::references(metadata, status, context).await);
        }
        Question::Nodes => facts.nodes = fact(context.nodes.known(subject.of())),
        Question::PodNodes => {
            facts.pod_nodes = fact(nodes::of_pods(namespace, cluster, context).await);
        }
        Question::JobManagerStart => {
            facts.job_manager_start = fact(job_manager_start(namespace, cluster, context).await);
        }
        Question::DeployedConfig => {
            let found = deployed_config(namespace, cluster, context).await;
            facts.deployed_config = of_kind::<K, _>(found)?;
        }
        Question::Files(paths) => {
            for path in paths {
                let file = context.files.inspect(&path).await;
                facts.files.insert(path, file);
            }
        }
        Question::Turn => {
            facts.turn = context.upgrades.turn(subject.resource, subject.operator, context);
        }
        Question::JobManager
        | Question::TaskManagers
        | Question::Pods
        | Question::HaMetadata
        | Question::Cluster
        | Question::TaskManagerPods
        | Question::Remains
        | Question::SessionJobs
        | Question::Refusal(_)
        | Question::Preflight(_)
        | Question::StandbyPods
        | Question::Leader
        | Question::Jar => K::answer(question, subject, context, facts).await?,
    }
    Ok(())
}

/// Turns an error into an unknown fact for a session job, which continues without it.
fn of_kind<K: JobResource, T>(answer: cluster::Result<Fact<T>>) -> cluster::Result<Fact<T>> {
    match answer {
        Err(error) if K::JOB == JobKind::FlinkSessionJob => Ok(Fact::Unknown(show(&error))),
        answer => answer,
    }
}

/// Answers a question that applies to deployments only.
pub(super) async fn of_cluster(
    question: Question,
    subject: &Subject<'_>,
    context: &Context,
    facts: &mut Facts,
) -> cluster::Result<()> {
    match question {
        Question::JobManager => {
            facts.job_manager = Fact::Known(job_manager(subject, context).await?);
        }
        Question::TaskManagers => {
            facts.task_managers = Fact::Known(task_managers(subject, context).await?);
        }
        Question::SessionJobs => facts.session_jobs = session_jobs(subject, context).await?,
        Question::Pods => facts.pods = Fact::Known(job_manager_pods(subject, context).await?),
        Question::HaMetadata => facts.ha_metadata = ha_metadata(subject, context).await?,
        Question::Cluster => facts.cluster = fact(cluster_info(subject, context).await),
        Question::Remains => {
            let pods = pods_of(subject.namespace(), subject.name(), context).await?;
            let old = pods.iter().filter(|pod| !standby::takes_over(pod, subject));
            facts.remains = Fact::Known(old.map(pods::of_any_phase).collect());
        }
        Question::TaskManagerPods => {
            facts.task_manager_pods = Fact::Known(task_manager_pods(subject, context).await?);
        }
        Question::Refusal(objects) => {
            let tried = timeout(DRY_RUN_MAX, objects::refusal(&objects, context)).await;
            facts.refusal = match tried {
                Ok(refusal) => fact(refusal.map(|it| it.map(|refusal| refusal.to_string()))),
                Err(_) => Fact::Unknown(unanswered()),
            };
        }
        Question::StandbyPods => {
            facts.standby_pods = Fact::Known(standby::known(subject, context).await?);
        }
        Question::Leader => facts.leader = Fact::Known(standby::leader(subject, context).await?),
        Question::Preflight(wanted) => {
            let known = timeout(DRY_RUN_MAX, preflight::known(&wanted, subject, context)).await;
            facts.preflight = match known {
                Ok(known) => Fact::Known(known?),
                Err(_) => Fact::Unknown(unanswered()),
            };
        }
        other => tracing::error!(question = ?other, "no answer to this for a deployment"),
    }
    Ok(())
}

/// Says that the API server did not finish a dry run.
fn unanswered() -> String {
    format!(
        "the API server did not answer the dry run within {DRY_RUN_MAX:?}: look for a slow admission webhook"
    )
}

pub(super) fn fact<T>(answer: Result<T, String>) -> Fact<T> {
    match answer {
        Ok(value) => Fact::Known(value),
        Err(reason) => Fact::Unknown(reason),
    }
}

/// Returns the JobManager's Deployment. The watch is used while nothing changes, while a Deployment that was just
/// created comes up, and while one that was just read is being deleted. Otherwise an absence must be a fact, so it is
/// read.
async fn job_manager(
    subject: &Subject<'_>,
    context: &Context,
) -> Result<Option<lifecycle::world::JobManager>, cluster::Error> {
    let found = deployment(subject, &names::job_manager(subject.name()), context).await?;
    Ok(found.as_deref().map(pods::job_manager))
}

/// Returns the TaskManagers of a standalone cluster, read under the same conditions as [`job_manager`].
async fn task_managers(
    subject: &Subject<'_>,
    context: &Context,
) -> Result<Option<lifecycle::world::TaskManagers>, cluster::Error> {
    let found = deployment(subject, &names::task_manager(subject.name()), context).await?;
    Ok(found.as_deref().map(pods::task_managers))
}

async fn deployment(
    subject: &Subject<'_>,
    name: &str,
    context: &Context,
) -> Result<Option<Arc<Workload>>, cluster::Error> {
    let FlinkDeployment { metadata, .. } = subject.resource;
    let is_deployed = subject.status.reconciliation_status.state == ReconciliationState::Deployed
        && metadata.deletion_timestamp.is_none();
    let is_ready =
        subject.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready;
    let uid = metadata.uid.as_deref().unwrap_or_default();
    let is_job_manager = name == names::job_manager(subject.name());
    if let Some(cached) = context.cached_deployment(subject.namespace(), name) {
        let trust = if is_job_manager { context.trust(uid, &cached) } else { Trust::Unknown };
        // A Deployment that is marked to end is read, because it may have replicas again.
        let annotations = cached.metadata.annotations.as_ref();
        let is_ending = annotations.is_some_and(|all| all.contains_key(ENDING_ANNOTATION));
        let is_believed = match trust {
            // A Deployment that is being deleted is awaited, whatever else it says.
            Trust::Recent if cached.metadata.deletion_timestamp.is_some() => true,
            Trust::Recent => is_deployed && !is_ending,
            Trust::Behind => false,
            // A JobManager that is ready is queried itself.
            Trust::Unknown | Trust::Old => is_deployed && is_ready,
        };
        if is_believed {
            return Ok(Some(cached));
        }
    }
    let found: Option<Workload> =
        cluster::read::get(&context.client, subject.namespace(), name).await?;
    if is_job_manager && let Some(found) = &found {
        context.note_sighting(uid, &found.metadata);
    }
    Ok(found.map(Arc::new))
}

/// Lists the session jobs when the session cluster is being deleted or replaced. They are read, because a job that is
/// missed would lose its cluster.
async fn session_jobs(
    subject: &Subject<'_>,
    context: &Context,
) -> Result<Fact<Vec<SessionJob>>, cluster::Error> {
    let scope = Scope::Namespace(subject.namespace());
    let listed = cluster::read::list_values::<FlinkSessionJob>(&context.client, scope, None).await;
    let all = match cluster::read::or_none::<FlinkSessionJob, _>(&context.client, listed).await {
        Ok(all) => all,
        Err(error @ cluster::Error::Forbidden { .. }) => return Ok(Fact::Unknown(show(&error))),
        Err(error) => return Err(error),
    };
    Ok(Fact::Known(jobs_in(subject.name(), &all)))
}

/// Returns the session jobs of the cluster.
fn jobs_in(cluster: &str, jobs: &[Value]) -> Vec<SessionJob> {
    let is_in = |job: &&Value| session_cluster_in(job).as_deref() == Some(cluster);
    jobs.iter().filter(is_in).filter_map(leaving::seen).collect()
}

/// Lists the pods of one component of a cluster, read so that an absence is a fact.
async fn list_pods(
    namespace: &str,
    cluster: &str,
    component: &str,
    context: &Context,
) -> Result<Vec<Pod>, cluster::Error> {
    let selector = format!("app={cluster},component={component}");
    labelled_pods(namespace, &selector, context).await
}

/// Lists the pods of a cluster, up to the limit of one list.
pub(super) async fn pods_of(
    namespace: &str,
    cluster: &str,
    context: &Context,
) -> Result<Vec<Pod>, cluster::Error> {
    labelled_pods(namespace, &format!("app={cluster}"), context).await
}

async fn labelled_pods(
    namespace: &str,
    selector: &str,
    context: &Context,
) -> Result<Vec<Pod>, cluster::Error> {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
    Ok(api.list(&ListParams::default().labels(selector).limit(LIST_MAX)).await?.items)
}

/// Returns when the newest of a cluster's JobManagers was started.
pub(super) async fn job_manager_start(
    namespace: &str,
    cluster: &str,
    context: &Context,
) -> Result<Timestamp, String> {
    let pods = list_pods(namespace, cluster, names::JOB_MANAGER, context).await;
    let pods = pods.map_err(|error| show(&error))?;
    let starts = pods.iter().filter_map(pods::running_since);
    starts.max().ok_or_else(|| format!("no JobManager pod of `{cluster}` is running"))
}

async fn job_manager_pods(
    subject: &Subject<'_>,
    context: &Context,
) -> Result<Vec<lifecycle::world::Pod>, cluster::Error> {
    let mut facts = Vec::new();
    for pod in &list_pods(subject.namespace(), subject.name(), names::JOB_MANAGER, context).await? {
        // One that takes over is not an old one, even if the operator crashed in between.
        if standby::takes_over(pod, subject) {
            continue;
        }
        let Some(mut fact) = pods::pod(pod) else { continue };
        if fact.problem.is_none() && !fact.has_started && pods::waits_for_volumes(pod) {
            fact.problem = failed_mount(subject.namespace(), &fact.name, context).await?;
        }
        if let (Some(problem), Some(crash)) = (&mut fact.problem, pods::unexplained_crash(pod))
            && let Some(cause) = last_words(subject.namespace(), &fact.name, &crash, context).await
        {
            problem.message = format!("[{}] CrashLoop - {cause}", crash.container);
        }
        facts.push(fact);
    }
    Ok(facts)
}

/// Returns the reason for its end from the log of a terminated container; `None` if the log cannot be read.
async fn last_words(
    namespace: &str,
    pod: &str,
    crash: &pods::UnexplainedCrash<'_>,
    context: &Context,
) -> Option<String> {
    let container = crash.container;
    let request = cluster::logs::LogRequest {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: Some(container.to_owned()),
        is_previous: crash.runs_again,
        tail_lines: Some(LAST_WORDS_LINES),
        ..cluster::logs::LogRequest::default()
    };
    let log = cluster::logs::text(&context.client, &request, LAST_WORDS_BYTES).await;
    let log = log.inspect_err(|error| {
        tracing::debug!(pod, container, error = show(error), "the log cannot be read");
    });
    crash::cause_of_exit(&log.ok()?)
}

async fn task_manager_pods(
    subject: &Subject<'_>,
    context: &Context,
) -> Result<Vec<lifecycle::world::Pod>, cluster::Error> {
    let list = list_pods(subject.namespace(), subject.name(), names::TASK_MANAGER, context).await?;
    let old = list.iter().filter(|pod| !standby::takes_over(pod, subject));
    Ok(old.filter_map(pods::pod).collect())
}

/// Returns why the volumes of a pod cannot be mounted.
pub(super) async fn failed_mount(
    namespace: &str,
    pod: &str,
    context: &Context,
) -> Result<Option<PodProblem>, cluster::Error> {
    let api: Api<Event> = Api::namespaced(context.client.clone(), namespace);
    let fields = format!("involvedObject.name={pod}");
    let events = api.list(&ListParams::default().fields(&fields).limit(LIST_MAX)).await?;
    let is_failure = |event: &&Event| {
        matches!(event.reason.as_deref(), Some("FailedMount" | "FailedAttachVolume"))
    };
    Ok(events.items.iter().rfind(is_failure).map(|event| PodProblem {
        reason: "FailedMount".to_owned(),
        message: event.message.clone().unwrap_or_default(),
    }))
}

async fn ha_metadata(
    subject: &Subject<'_>,
    context: &Context,
) -> Result<Fact<HaMetadata>, cluster::Error> {
    match subject.metadata_config() {
        Ok(config) => subject.ha_place(context).metadata(&config).await,
        Err(reason) => Ok(Fact::Unknown(reason)),
    }
}

/// Returns the high availability options in the ConfigMap that the pods of a cluster mount.
pub(super) async fn deployed_config(
    namespace: &str,
    cluster: &str,
    context: &Context,
) -> Result<Fact<FlinkConfig>, cluster::Error> {
    let name = names::config_map(cluster);
    let found = match cluster::read::get::<ConfigMap>(&context.client, namespace, &name).await {
        Ok(found) => found,
        Err(error @ cluster::Error::Forbidden { .. }) => return Ok(Fact::Unknown(show(&error))),
        Err(error) => return Err(error),
    };
    let Some(found) = found else {
        return Ok(Fact::Unknown(format!("there is no ConfigMap `{name}`")));
    };
    let text = |key: &str| found.data.as_ref().and_then(|data| data.get(key));
    let config = match (text("config.yaml"), text("flink-conf.yaml")) {
        (Some(yaml), _) => parse_config_yaml(yaml).map_err(|error| error.to_string()),
        (None, Some(lines)) => Ok(parse_flink_conf(lines)),
        (None, None) => Err("it contains no Flink configuration".to_owned()),
    };
    Ok(fact(
        config
            .map(|config| high_availability_of(&config))
            .map_err(|reason| format!("ConfigMap `{name}` cannot be read: {reason}")),
    ))
}

async fn cluster_info(subject: &Subject<'_>, context: &Context) -> Result<Cluster, String> {
    let client = subject.job(context).flink?.without_retries();
    let (config, task_managers) = tokio::join!(client.config(), client.taskmanagers());
    let config = config.map_err(|error| show(&error))?;
    let count = task_managers.map_err(|error| show(&error))?.taskmanagers.len();
    Ok(Cluster {
        flink_version: config.flink_version,
        flink_revision: config.flink_revision,
        task_managers: i64::try_from(count).unwrap_or(i64::MAX),
    })
}

/// Returns the error and its causes on one line.
pub(super) fn show(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
