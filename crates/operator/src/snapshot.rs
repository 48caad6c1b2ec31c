//! The controller of `FlinkStateSnapshot`: one pass over one snapshot.

pub(super) mod index;
mod newest;
pub(super) mod of_job;
mod references;
pub(super) mod steps;
mod target;

use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use self::target::Found;
use super::act;
use super::context::{Context, Progress};
use super::kind::{Cache, Guarded, Operated, Sight};
use super::observe::show;
use super::pass::{Again, Error};
use super::resource::Act;
use super::validator::{self, Judging, Kind};
use api::STATE_SNAPSHOT_FINALIZER;
use api::state_snapshot::{FlinkStateSnapshot, StateSnapshotStatus};
use api::status::CheckpointType;
use clients::cluster;
use clients::cluster::apply::{self, ObjectId, Writer};
use clients::flink::checkpoints::{CheckpointKind, CheckpointStatus};
use clients::flink::savepoints::{DisposalStatus, SavepointRequest, SavepointStatus};
use clients::flink::{self, Client, new_trigger_id};
use config::options;
use lifecycle::audit;
use lifecycle::error_document::form::Form;
use lifecycle::event::Component;
use lifecycle::snapshot::request::{Request, Wanted};
use lifecycle::snapshot::step::Step;
use lifecycle::snapshot::world::{Facts, Question, World};
use lifecycle::snapshot::{self, Plan, decide};
use lifecycle::verdict::Verdict;
use lifecycle::world::Fact;
use lifecycle::world::Trigger;

/// Maximum number of questions: a decision asks for each fact at most once, and there are this many.
const QUESTIONS_MAX: usize = 5;

/// A JobManager serves statistics that are up to 3 s old: one that does not know a checkpoint yet is asked again after
/// this time.
const STATISTICS_AGE: std::time::Duration = std::time::Duration::from_millis(3500);

impl Operated for FlinkStateSnapshot {
    const FINALIZER: Option<&'static str> = Some(STATE_SNAPSHOT_FINALIZER);
    const FAILURE: (&'static str, Component) = ("SnapshotError", Component::Snapshot);
    const KIND: metrics::Kind = metrics::Kind::FlinkStateSnapshot;

    fn facts(&self, status: &StateSnapshotStatus) -> metrics::Facts {
        metrics::Facts::of_snapshot(&self.spec, status)
    }

    fn audit(_previous: &StateSnapshotStatus, current: &StateSnapshotStatus) -> Option<String> {
        Some(audit::of_snapshot(current))
    }

    fn cache(context: &Context) -> &Cache<Self> {
        &context.snapshots
    }

    fn seen(resource: &Guarded<Self>, sight: Sight, context: &Context) {
        if let Ok(resource) = &resource.0 {
            context.snapshots_by_job.note(resource, sight);
        }
    }

    async fn pass(resource: Self, context: &Context) -> Result<Again, Error> {
        let mut act = Act::new(context, resource);
        let resource = act.resource.clone();
        let (world, found, plan) = plan(&resource, context).await?;
        report(&resource, &plan, context);
        context.note_lateness(&act.uid, plan.waits);
        let mut end = plan;
        for step in std::mem::take(&mut end.steps) {
            let is_last = matches!(step, Step::RemoveFinalizer);
            if let Err(failure) = act.step(step, found.as_ref()).await {
                end = match failure {
                    Failure::Pass(error) => return Err(Error::Act(error)),
                    Failure::Refused(message) => snapshot::refused(&world, &act.stored, &message),
                    Failure::NotDisposed(message) => snapshot::not_disposed(&world, &message),
                };
                report(&resource, &end, context);
                break;
            }
            if is_last {
                context.snapshots.forget(&act.uid);
                return Ok(None);
            }
        }
        for step in std::mem::take(&mut end.steps) {
            act.write(step).await.map_err(Error::Act)?;
        }
        act.end_with(*end.status, false, None).await.map_err(Error::Act)?;
        Ok(end.look_again)
    }
}

/// Decides, and answers the decision's questions on the way.
pub(super) async fn plan<'r>(
    resource: &'r FlinkStateSnapshot,
    context: &Context,
) -> Result<(World<'r>, Option<Found>, Plan), Error> {
    let operator = context.operator();
    let config = operator.defaults(&resource.namespace().unwrap_or_default(), None);
    let mut world = World {
        now: Timestamp::now(),
        resource,
        interval: config
            .get(&options::RECONCILE_INTERVAL)
            .unwrap_or(std::time::Duration::from_mins(1)),
        form: Form::of(&operator.base),
        trigger_id: new_trigger_id(),
        validators: context
            .validators
            .known(Kind::FlinkStateSnapshot, resource.metadata.uid.as_deref().unwrap_or_default()),
        facts: Facts::default(),
    };
    let mut found = None;
    for _ in 0..=QUESTIONS_MAX {
        let question = match decide(&world) {
            Ok(plan) => return Ok((world, found, plan)),
            Err(question) => question,
        };
        match question {
            Question::Target => {
                let (fact, job) =
                    target::find(resource, &operator, context).await.map_err(Error::Observe)?;
                world.facts.target = fact;
                found = job;
            }
            Question::Trigger => world.facts.trigger = trigger(resource, found.as_ref()).await,
            Question::Verdict => {
                world.facts.verdict = Fact::Known(verdict(&world, context).await);
            }
            Question::NewestState => {
                world.facts.newest_state = newest::state(resource, found.as_ref()).await;
            }
            Question::References => {
                world.facts.references = references::of_snapshot(resource, context).await;
            }
        }
    }
    Err(Error::Undecided)
}

async fn verdict(world: &World<'_>, context: &Context) -> Verdict {
    let metadata = &world.resource.metadata;
    let judging = Judging {
        namespace: metadata.namespace.as_deref().unwrap_or("default"),
        name: world.name(),
        uid: metadata.uid.as_deref().unwrap_or_default(),
        version: world.version(),
        subject: validator::Subject::of_snapshot(world.resource),
    };
    context.validators.ask(judging).await
}

/// Returns the state of the triggered snapshot.
async fn trigger(resource: &FlinkStateSnapshot, found: Option<&Found>) -> Fact<Trigger> {
    let Some(Found { client, job_id: Some(job_id), .. }) = found else {
        return Fact::Unknown("the status of its job names no job id".to_owned());
    };
    let trigger_id =
        resource.status.as_ref().and_then(|status| status.trigger_id.as_deref()).unwrap_or("");
    let answer = if resource.spec.savepoint.is_some() {
        savepoint(client, job_id, trigger_id).await
    } else {
        checkpoint(client, job_id, trigger_id).await
    };
    match answer {
        Ok(trigger) => Fact::Known(trigger),
        Err(error) => Fact::Unknown(show(&error)),
    }
}

/// Returns the state of a savepoint.
pub(super) async fn savepoint(
    client: &Client,
    job_id: &str,
    trigger: &str,
) -> Result<Trigger, flink::Error> {
    Ok(match client.savepoint_status(job_id, trigger).await? {
        SavepointStatus::InProgress => Trigger::Pending,
        SavepointStatus::Completed { location }
        | SavepointStatus::CompletedButStopFailed { location, .. } => {
            Trigger::Completed { path: Some(location), checkpoint: None }
        }
        SavepointStatus::Failed(cause) => Trigger::Failed { message: cause.chain().join(" -> ") },
        SavepointStatus::TriggerLost => Trigger::NotFound,
    })
}

/// Returns the state of a triggered checkpoint.
pub(super) async fn checkpoint(
    client: &Client,
    job_id: &str,
    trigger: &str,
) -> Result<Trigger, flink::Error> {
    let checkpoint_id = match client.checkpoint_status(job_id, trigger).await? {
        CheckpointStatus::InProgress => return Ok(Trigger::Pending),
        CheckpointStatus::Completed { checkpoint_id } => checkpoint_id,
        CheckpointStatus::Failed(cause) => {
            return Ok(Trigger::Failed { message: cause.chain().join(" -> ") });
        }
        CheckpointStatus::TriggerLost => return Ok(Trigger::NotFound),
    };
    let mut details = client.checkpoint(job_id, checkpoint_id).await?;
    if details.as_ref().is_none_or(|details| details.external_path.is_none()) {
        tokio::time::sleep(STATISTICS_AGE).await;
        details = client.checkpoint(job_id, checkpoint_id).await?;
    }
    let path = details.and_then(|details| details.external_path);
    Ok(Trigger::Completed { path, checkpoint: u64::try_from(checkpoint_id).ok() })
}

/// Why a plan did not continue as it was.
enum Failure {
    /// The pass is retried.
    Pass(act::Error),
    /// Flink rejected the request for the snapshot.
    Refused(String),
    /// The savepoint may still exist.
    NotDisposed(String),
}

impl Act<'_, FlinkStateSnapshot> {
    async fn step(&mut self, step: Step, found: Option<&Found>) -> Result<(), Failure> {
        match step {
            Step::Trigger(request) => self.trigger(request, found).await,
            Step::Dispose { path } => {
                let result = match found {
                    Some(Found { client, .. }) => dispose(client, &path).await,
                    None => Err("its job was not found".to_owned()),
                };
                result.map_err(|why| {
                    let message = format!("savepoint `{path}` could not be disposed of: {why}");
                    Failure::NotDisposed(message)
                })
            }
            other => self.write(other).await.map_err(Failure::Pass),
        }
    }

    /// Takes the steps that only write to the resource.
    async fn write(&mut self, step: Step) -> Result<(), act::Error> {
        match step {
            Step::Mark { adds_finalizer, labels } => self.mark(adds_finalizer, &labels).await,
            Step::WriteStatus(status) => self.write_status(&status).await,
            Step::Event(event) => self.record_event(event).await,
            Step::RemoveFinalizer => self.change_finalizers(false).await,
            // Plans after a failure have none.
            Step::Trigger(_) | Step::Dispose { .. } => Ok(()),
        }
    }

    async fn mark(
        &mut self,
        adds_finalizer: bool,
        labels: &[(&'static str, Option<String>)],
    ) -> Result<(), act::Error> {
        let mut metadata = Map::new();
        metadata
            .insert("resourceVersion".to_owned(), json!(self.resource.metadata.resource_version));
        let mut finalizers = self.resource.finalizers().to_vec();
        if adds_finalizer {
            finalizers.push(STATE_SNAPSHOT_FINALIZER.to_owned());
            metadata.insert("finalizers".to_owned(), json!(finalizers));
        }
        if !labels.is_empty() {
            let labels: Map<String, Value> =
                labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
            metadata.insert("labels".to_owned(), Value::Object(labels));
        }
        let id = ObjectId::of::<FlinkStateSnapshot>(&self.namespace(), &self.resource.name_any());
        let patch = json!({ "metadata": metadata });
        let client = &self.context.client;
        self.resource.metadata = match apply::amend(client, &id, &patch, Writer::OPERATOR).await {
            Ok(stored) => stored,
            // It was deleted meanwhile.
            Err(cluster::Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.remember();
        Ok(())
    }

    async fn trigger(&mut self, request: Request, found: Option<&Found>) -> Result<(), Failure> {
        let Some(Found { client, .. }) = found else { return Ok(()) };
        match ask(client, request).await {
            Ok(_) => Ok(()),
            Err(error @ flink::Error::Refused { .. }) if !error.is_transient() => {
                Err(Failure::Refused(show(&error)))
            }
            // Polling the trigger shows whether the request arrived.
            Err(error) => {
                tracing::debug!(error = show(&error), "the trigger may have been received");
                Ok(())
            }
        }
    }
}

/// Requests a snapshot from Flink; returns the trigger's id.
pub(super) async fn ask(client: &Client, request: Request) -> Result<String, flink::Error> {
    let Request { job_id, trigger_id, what } = request;
    match what {
        Wanted::Savepoint { directory, format } => {
            let target_directory = Some(directory);
            let request = SavepointRequest { target_directory, format, trigger_id };
            client.trigger_savepoint(&job_id, &request).await
        }
        Wanted::Checkpoint(kind) => {
            let kind = match kind {
                CheckpointType::Full => CheckpointKind::Full,
                CheckpointType::Incremental => CheckpointKind::Incremental,
                CheckpointType::Unknown => CheckpointKind::Configured,
            };
            client.trigger_checkpoint(&job_id, kind, &trigger_id).await
        }
    }
}

/// Deletes the savepoint and waits until Flink confirms it; otherwise returns why not.
pub(super) async fn dispose(client: &Client, path: &str) -> Result<(), String> {
    let client = client.clone().without_retries();
    let trigger = client.dispose_savepoint(path).await.map_err(|error| show(&error))?;
    match client.await_disposal(&trigger).await.map_err(|error| show(&error))? {
        DisposalStatus::Completed => Ok(()),
        // An earlier attempt arrived, but its answer was lost.
        DisposalStatus::Failed(cause) if cause.is_savepoint_missing() => Ok(()),
        DisposalStatus::Failed(cause) => Err(cause.chain().join(" -> ")),
        DisposalStatus::InProgress => Err("Flink is still working on it".to_owned()),
        DisposalStatus::TriggerLost => Err("the JobManager was restarted".to_owned()),
    }
}

/// Logs one line for each decision that does something or changes the status.
fn report(resource: &FlinkStateSnapshot, plan: &Plan, context: &Context) {
    let steps: Vec<&'static str> = plan.steps.iter().map(step_name).collect();
    let state = plan.status.state.into_str();
    let before = resource.status.clone().unwrap_or_default();
    if steps.is_empty() && *plan.status == before {
        tracing::debug!(state, because = plan.because, "nothing to do");
    } else {
        tracing::info!(state, because = plan.because, steps = steps.join(" "), "decided");
    }
    let is_over = plan.status.state.is_final();
    context.emit(Progress {
        kind: "FlinkStateSnapshot",
        namespace: resource.namespace().unwrap_or_default(),
        name: resource.name_any(),
        state: Some(state),
        is_gone: is_over || plan.steps.contains(&Step::RemoveFinalizer),
        because: plan.because.clone(),
    });
}

pub(super) fn step_name(step: &Step) -> &'static str {
    match step {
        Step::Mark { .. } => "mark",
        Step::WriteStatus(_) => "write-status",
        Step::Event(_) => "event",
        Step::Trigger(_) => "trigger",
        Step::Dispose { .. } => "dispose",
        Step::RemoveFinalizer => "remove-finalizer",
    }
}
