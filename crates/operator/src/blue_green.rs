//! The controller of `FlinkBlueGreenDeployment`: one pass over one of them.
//!
//! Each pass reads the children fresh, because decisions about them follow from their state. Their own controller
//! reconciles them, and wakes this one.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource as _, ResourceExt};
use serde_json::Value;

use super::act;
use super::context::Context;
use super::kind::{Cache, Guarded, Operated, Sight};
use super::objects::{EXPOSED_BY, NO_DRY_RUN, TRIED, exposed, is_owned};
use super::observe::{Subject, show};
use super::pass::{Again, Error};
use super::reconcile::OperatedJob;
use super::resource::Act;
use api::blue_green::{
    BlueGreenState, BlueGreenStatus, Colour, FlinkBlueGreenDeployment, parent_of, uids_of,
};
use api::deployment::FlinkDeployment;
use api::is_paused;
use api::state_snapshot::JobKind;
use blue_green::decide;
use blue_green::not_carried_out;
use blue_green::plan::{Plan, Step};
use blue_green::rehearsal::Rehearsal;
use blue_green::settings::Settings;
use blue_green::world::{Facts, Ingress, Question, Savepoint, World};
use clients::cluster::apply::{self, Deletion, ObjectId, Propagation, Writer};
use clients::cluster::autoscaler;
use clients::cluster::revisions::History;
use clients::cluster::{self, read};
use clients::flink::new_trigger_id;
use clients::flink::savepoints::{SavepointRequest, SavepointStatus};
use config::cluster::savepoint_directory;
use config::{FlinkConfig, OperatorConfig, options};
use lifecycle::audit;
use lifecycle::conditions::of_type;
use lifecycle::event::Component;
use lifecycle::paused::{PAUSED, Parent};
use lifecycle::trigger::upgrade_resource;
use state::revision::blue_green_history_name;
use validation::blue_green::{BlueGreenInput, find};

/// Maximum number of questions: a decision asks for each fact at most once.
const QUESTIONS_MAX: usize = 3;

impl Operated for FlinkBlueGreenDeployment {
    const FINALIZER: Option<&'static str> = None;
    const FAILURE: (&'static str, Component) = ("BlueGreenException", Component::Operator);
    const KIND: metrics::Kind = metrics::Kind::FlinkBlueGreenDeployment;

    fn facts(&self, status: &BlueGreenStatus) -> metrics::Facts {
        metrics::Facts::of_blue_green(status)
    }

    fn audit(previous: &BlueGreenStatus, current: &BlueGreenStatus) -> Option<String> {
        audit::of_blue_green(previous, current)
    }

    fn cache(context: &Context) -> &Cache<Self> {
        &context.blue_greens
    }

    fn seen(resource: &Guarded<Self>, sight: Sight, context: &Context) {
        context.upgrades.seen(resource, sight, context);
    }

    async fn pass(resource: Self, context: &Context) -> Result<Again, Error> {
        let mut act = Act::new(context, resource);
        let children = match Children::read(&act.resource, context).await {
            Ok(children) => children,
            Err(error) => return Err(act.note_unread(error).await),
        };
        let operator = Arc::clone(&act.operator);
        let plan = plan(&act.resource, &children, &operator, context).await?;
        tracing::debug!(
            because = plan.because,
            steps = ?plan.steps.iter().map(Step::name).collect::<Vec<_>>(),
            "decided"
        );
        context.upgrades.decided(&act.resource, (&plan.status, plan.waits), context);
        let Plan { steps, status, because: _, look_again, waits } = plan;
        let is_held = |status: &BlueGreenStatus| of_type(&status.conditions, PAUSED).is_some();
        if is_held(&status) != is_held(&act.stored) {
            let (namespace, name) =
                (act.resource.namespace().unwrap_or_default(), act.resource.name_any());
            for colour in Colour::ALL {
                context.deployments.wake(&namespace, &colour.child_of(&name));
            }
        }
        context.note_lateness(&act.uid, waits);
        for step in steps {
            act.take_step(step, &children, &operator).await.map_err(Error::Act)?;
        }
        if context.has_written_conditions(&act.uid) && are_dropped(&status, &act.stored) {
            return Ok(look_again);
        }
        let has_conditions = !status.conditions.is_empty();
        act.end_with(*status, false, None).await.map_err(Error::Act)?;
        if has_conditions {
            context.note_written_conditions(&act.uid);
        }
        Ok(look_again)
    }
}

/// Returns `true` if only the conditions are missing in the stored status: the Java operator's CRD drops them, and they
/// would be written in each pass.
fn are_dropped(status: &BlueGreenStatus, stored: &BlueGreenStatus) -> bool {
    let last_reconciled_timestamp = stored.last_reconciled_timestamp.clone();
    let without =
        BlueGreenStatus { conditions: Vec::new(), last_reconciled_timestamp, ..status.clone() };
    without == *stored
}

/// Wakes the resource that this child belongs to.
pub(super) fn wake_owner_of(child: &Guarded<FlinkDeployment>, context: &Context) {
    let Ok(child) = &child.0 else { return };
    if let Some(owner) = parent_of(child.meta()) {
        context.blue_greens.wake(&child.namespace().unwrap_or_default(), &owner.name);
    }
}

/// Returns the colour of a child and the state of its parent, as the watch last saw that.
fn switch_of(child: &ObjectMeta, context: &Context) -> Option<(Colour, BlueGreenState)> {
    let (parent, colour) = (parent_of(child)?, Colour::of_label(child.labels.as_ref()?)?);
    let namespace = child.namespace.as_deref().unwrap_or_default();
    let parent = context.blue_greens.cached(namespace, &parent.name)?;
    Some((colour, parent.0.as_ref().ok()?.status.as_ref()?.blue_green_state?))
}

/// Returns the parent of a child if that is paused or gone. Its absence is read, so that it is a fact and not a late
/// watch.
pub(super) async fn parent(
    child: &ObjectMeta,
    context: &Context,
) -> cluster::Result<Option<Parent>> {
    let Some(owner) = parent_of(child) else { return Ok(None) };
    let namespace = child.namespace.as_deref().unwrap_or_default();
    let is_it = |found: &ObjectMeta| found.uid.as_deref() == Some(&*owner.uid);
    let paused = |found: &ObjectMeta| is_paused(found).then(|| Parent::Paused(owner.name.clone()));
    let cached = context.blue_greens.cached(namespace, &owner.name);
    if let Some(parent) = cached.filter(|parent| is_it(parent.meta())) {
        return Ok(paused(parent.meta()));
    }
    let read = read::get::<FlinkBlueGreenDeployment>(&context.client, namespace, &owner.name);
    match read.await {
        Ok(Some(parent)) if is_it(&parent.metadata) => Ok(paused(&parent.metadata)),
        // Without the kind or the right to read it, no parent is operated here.
        Ok(_) | Err(cluster::Error::Forbidden { .. } | cluster::Error::KindMissing { .. }) => {
            Ok(Some(Parent::Gone(owner.name.clone())))
        }
        Err(error) => Err(error),
    }
}

/// Returns `true` if a child is about to serve, but does not yet.
pub(super) fn is_target(child: &ObjectMeta, context: &Context) -> bool {
    switch_of(child, context).is_some_and(|(colour, state)| state == colour.transitioning_to())
}

/// Returns `true` if another colour is about to serve: neither is restarted meanwhile without need.
pub(super) fn is_switching(child: &ObjectMeta, context: &Context) -> bool {
    let is_at_rest =
        |state| matches!(state, BlueGreenState::ActiveBlue | BlueGreenState::ActiveGreen);
    switch_of(child, context).is_some_and(|(_, state)| !is_at_rest(state))
}

/// The objects that have the names of the children.
pub(super) struct Children {
    blue: Option<FlinkDeployment>,
    green: Option<FlinkDeployment>,
}

impl Children {
    async fn read(resource: &FlinkBlueGreenDeployment, context: &Context) -> cluster::Result<Self> {
        let (namespace, name) = (resource.namespace().unwrap_or_default(), resource.name_any());
        let read = async |colour: Colour| {
            read::get(&context.client, &namespace, &colour.child_of(&name)).await
        };
        Ok(Self { blue: read(Colour::Blue).await?, green: read(Colour::Green).await? })
    }

    fn of(&self, colour: Colour) -> Option<&FlinkDeployment> {
        match colour {
            Colour::Blue => self.blue.as_ref(),
            Colour::Green => self.green.as_ref(),
        }
    }
}

/// Decides, and answers the decision's questions on the way.
pub(super) async fn plan(
    resource: &FlinkBlueGreenDeployment,
    children: &Children,
    operator: &OperatorConfig,
    context: &Context,
) -> Result<Plan, Error> {
    let (namespace, name) = (resource.namespace().unwrap_or_default(), resource.name_any());
    let last = resource.status.as_ref().map(BlueGreenStatus::recorded).unwrap_or_default();
    let found = find(&BlueGreenInput {
        name: &name,
        namespace: &namespace,
        spec: &resource.spec,
        last: &last,
        operator,
    });
    let violations: Vec<String> = found.iter().map(ToString::to_string).collect();
    let defaults = operator.defaults(&namespace, None);
    // The rules report what cannot be read.
    let settings = Settings::of(&resource.spec, &defaults).unwrap_or_default();
    let none = BlueGreenStatus::default();
    let mut world = World {
        now: Timestamp::now(),
        resource,
        status: resource.status.as_ref().unwrap_or(&none),
        settings,
        inherits_labels: context.is_selective,
        violation: (!violations.is_empty()).then(|| violations.join("; ")),
        blue: children.of(Colour::Blue),
        green: children.of(Colour::Green),
        trigger_id: new_trigger_id(),
        facts: Facts { stopped_at: context.stopped_at(&resource.metadata), ..Facts::default() },
    };
    for _ in 0..=QUESTIONS_MAX {
        match decide(&world) {
            Ok(plan) => return Ok(plan),
            Err(Question::Savepoint(colour, id)) => {
                let answer = savepoint(children.of(colour), &id, operator, context).await;
                world.facts.savepoint = Some((id, answer));
            }
            Err(Question::Ingress(colour)) => {
                let answer = ingress(resource, children.of(colour), operator, context).await;
                world.facts.ingress = Some((colour, answer));
            }
            Err(Question::Turn) => {
                world.facts.turn = context.upgrades.turn(resource, operator, context);
            }
        }
    }
    Err(Error::Undecided)
}

/// Returns the state of the savepoint of a child with this trigger id.
async fn savepoint(
    child: Option<&FlinkDeployment>,
    id: &str,
    operator: &OperatorConfig,
    context: &Context,
) -> Savepoint {
    let Some(child) = child else {
        return Savepoint::Unknown { reason: "there is no child".to_owned() };
    };
    let status = child.status.clone().unwrap_or_default();
    let Some(job_id) = &status.job_status.job_id else {
        return Savepoint::Unknown { reason: "its status names no job".to_owned() };
    };
    let client =
        match FlinkDeployment::flink(&Subject::new((child, &status), None, operator), context) {
            Ok(client) => client,
            Err(reason) => return Savepoint::Unknown { reason },
        };
    match client.savepoint_status(job_id, id).await {
        Ok(SavepointStatus::InProgress) => Savepoint::Pending,
        Ok(
            SavepointStatus::Completed { location }
            | SavepointStatus::CompletedButStopFailed { location, .. },
        ) => Savepoint::Completed { path: location },
        Ok(SavepointStatus::Failed(cause)) => {
            Savepoint::Failed { message: cause.chain().join(" -> ") }
        }
        Ok(SavepointStatus::TriggerLost) => Savepoint::NotFound,
        Err(error) => Savepoint::Unknown { reason: show(&error) },
    }
}

/// Returns the configuration of a child, or why there is none.
fn config_of(
    child: &FlinkDeployment,
    operator: &OperatorConfig,
) -> Result<Arc<FlinkConfig>, String> {
    let status = child.status.clone().unwrap_or_default();
    Subject::new((child, &status), None, operator).config()
}

/// Returns the object that should lead to the web UI of this child; `None` if none should.
fn wanted_ingress(
    resource: &FlinkBlueGreenDeployment,
    child: &FlinkDeployment,
    operator: &OperatorConfig,
) -> Result<Option<Value>, String> {
    let Some(ingress) = &resource.spec.ingress else { return Ok(None) };
    let config = config_of(child, operator)?;
    render::ingress::of_blue_green(&resource.metadata, ingress, &child.name_any(), &config)
        .map_err(|error| error.to_string())
}

/// Returns whether the object that leads to the web UI leads to this child. What cannot be read is not replaced, and
/// says so.
async fn ingress(
    resource: &FlinkBlueGreenDeployment,
    child: Option<&FlinkDeployment>,
    operator: &OperatorConfig,
    context: &Context,
) -> Ingress {
    let Some(child) = child else { return Ingress::InPlace };
    let wanted = match wanted_ingress(resource, child, operator) {
        Ok(wanted) => wanted,
        Err(reason) => return Ingress::Refused { reason },
    };
    let found = match compare_ingress(resource, wanted.as_ref(), context).await {
        Ok(Ingress::Differs) => match &wanted {
            Some(wanted) => try_ingress(wanted, context).await,
            None => Ok(Ingress::Differs),
        },
        other => other,
    };
    found.unwrap_or_else(|error| Ingress::Refused { reason: show(&error) })
}

/// Returns whether the API server would take the object, by a dry run.
async fn try_ingress(wanted: &Value, context: &Context) -> cluster::Result<Ingress> {
    match apply::apply(&context.client, wanted, TRIED).await {
        Err(error) if error.to_string().contains(NO_DRY_RUN) => Ok(Ingress::Differs),
        other => other.map(|_| Ingress::Differs),
    }
}

async fn compare_ingress(
    resource: &FlinkBlueGreenDeployment,
    wanted: Option<&Value>,
    context: &Context,
) -> cluster::Result<Ingress> {
    let uid = resource.uid().unwrap_or_default();
    for exposed_by in EXPOSED_BY {
        let (_, kind) = exposed_by;
        let of_kind = wanted.filter(|wanted| wanted["kind"] == kind);
        let found = exposed(resource, exposed_by, &context.client).await?;
        match (found, of_kind) {
            (Some(found), Some(wanted)) if !is_owned(&found, &uid) => {
                let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
                let reason = format!("{kind} `{name}` is somebody else's");
                return Ok(Ingress::Refused { reason });
            }
            (Some(found), Some(wanted)) if !contains(&found, wanted) => {
                return Ok(Ingress::Differs);
            }
            (None, Some(_)) => return Ok(Ingress::Differs),
            (Some(found), None) if is_owned(&found, &uid) => return Ok(Ingress::Differs),
            (Some(_) | None, _) => {}
        }
    }
    Ok(Ingress::InPlace)
}

/// Returns `true` if everything in `wanted` is in the object, which may have more.
fn contains(object: &Value, wanted: &Value) -> bool {
    match (object, wanted) {
        (Value::Object(object), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| object.get(key).is_some_and(|object| contains(object, wanted))),
        (Value::Array(object), Value::Array(wanted)) => {
            object.len() == wanted.len()
                && object.iter().zip(wanted).all(|(object, wanted)| contains(object, wanted))
        }
        (object, wanted) => object == wanted,
    }
}

impl Act<'_, FlinkBlueGreenDeployment> {
    /// Notes that the children cannot be read, which the status shows once it has lasted.
    async fn note_unread(&mut self, error: cluster::Error) -> Error {
        if self.context.transient_failures.note(&self.uid, Instant::now()) {
            let why = format!("the children cannot be read: {}", show(&error));
            let status = not_carried_out::described(&self.stored, &why);
            if let Err(error) = self.end_with(status, false, None).await {
                tracing::warn!(error = show(&error), "status not written");
            }
        }
        Error::Observe(error)
    }

    async fn take_step(
        &mut self,
        step: Step,
        children: &Children,
        operator: &OperatorConfig,
    ) -> Result<(), act::Error> {
        let client = &self.context.client;
        match step {
            Step::WriteStatus(status) => self.write_status(&status).await,
            Step::Event(event) => self.record_event(event).await,
            Step::RecordRevision(content) => {
                let history = History {
                    namespace: self.namespace(),
                    name: blue_green_history_name(&self.resource.name_any()),
                    owner: self.resource.owner_ref(&()).unwrap_or_default(),
                    is_repeated: true,
                };
                self.put_into_history(&history, *content).await
            }
            Step::TriggerSavepoint { colour, trigger_id } => {
                self.trigger_savepoint(children.of(colour), trigger_id, operator).await
            }
            Step::KeepSavepoint { colour, path, since } => {
                self.keep_savepoint(children.of(colour), (&path, since), operator).await
            }
            Step::CopyAutoscalerState { to, is_reset } => {
                self.copy_autoscaler_state(to, is_reset, children).await
            }
            Step::CreateChild(child) => {
                match apply::create(client, &serde_json::to_value(&*child)?, Writer::OPERATOR).await
                {
                    // Created before a crash, or by someone else: the next pass handles it.
                    Ok(_) | Err(cluster::Error::AlreadyExists { .. }) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Step::ChangeChild(mut child) => {
                child.status = None;
                apply::replace(client, &serde_json::to_value(&*child)?, Writer::OPERATOR).await?;
                Ok(())
            }
            Step::DeleteChild { name, uid } => {
                let id = ObjectId::of::<FlinkDeployment>(&self.namespace(), &name);
                let deletion =
                    Deletion { uid: Some(&uid), ..Deletion::with(Propagation::Background) };
                apply::delete(client, &id, deletion).await?;
                Ok(())
            }
            Step::PointIngress(colour) => self.point_ingress(children.of(colour), operator).await,
        }
    }

    /// Triggers a savepoint. Polling the trigger shows the outcome: a request that did not arrive is repeated.
    async fn trigger_savepoint(
        &self,
        child: Option<&FlinkDeployment>,
        trigger_id: String,
        operator: &OperatorConfig,
    ) -> Result<(), act::Error> {
        let Some(child) = child else { return Ok(()) };
        let status = child.status.clone().unwrap_or_default();
        let Some(job_id) = &status.job_status.job_id else { return Ok(()) };
        let subject = Subject::new((child, &status), None, operator);
        let client = FlinkDeployment::flink(&subject, self.context).map_err(act::Error::Address)?;
        let config = subject.config().map_err(act::Error::Address)?;
        let request = SavepointRequest {
            target_directory: savepoint_directory(&config),
            format: config.get(&options::SAVEPOINT_FORMAT_TYPE).unwrap_or_default(),
            trigger_id,
        };
        if let Err(error) = client.trigger_savepoint(job_id, &request).await {
            tracing::warn!(error = show(&error), "the savepoint was not confirmed");
        }
        Ok(())
    }

    /// Represents a savepoint as a resource, if those of the child are resources.
    async fn keep_savepoint(
        &self,
        child: Option<&FlinkDeployment>,
        (path, since): (&str, Timestamp),
        operator: &OperatorConfig,
    ) -> Result<(), act::Error> {
        let Some(child) = child else { return Ok(()) };
        let config = config_of(child, operator).map_err(act::Error::Address)?;
        let is_enabled = config.get(&options::SNAPSHOT_RESOURCE_ENABLED).unwrap_or(true);
        if !is_enabled || !self.context.has_snapshot_resources() {
            return Ok(());
        }
        let (namespace, name) = (self.namespace(), child.name_any());
        let job = (JobKind::FlinkDeployment, namespace.as_str(), name.as_str());
        let format = config.get(&options::SAVEPOINT_FORMAT_TYPE).unwrap_or_default();
        self.create_snapshot(&upgrade_resource(job, path, format, &config, since)).await
    }

    /// Copies the stored autoscaler data of the other child, which this one takes over when it starts. Until then it
    /// belongs to their parent.
    async fn copy_autoscaler_state(
        &self,
        to: Colour,
        is_reset: bool,
        children: &Children,
    ) -> Result<(), act::Error> {
        let (client, namespace) = (&self.context.client, self.namespace());
        let parent = self.uid.as_str();
        let target = to.child_of(&self.resource.name_any());
        let present = autoscaler::find(client, &namespace, &target).await?;
        // A session job of that name has one as well.
        let is_ours = |kept: &autoscaler::JobMap| {
            kept.is_of(&[parent]) || kept.is_of_resource("FlinkDeployment", &target)
        };
        if present.as_ref().is_some_and(|kept| !is_ours(kept)) {
            return Ok(());
        }
        let serving = children.of(to.other()).filter(|_| !is_reset);
        let stored = match serving {
            Some(serving) => {
                let found = autoscaler::find(client, &namespace, &serving.name_any()).await?;
                found.filter(|kept| kept.is_of(&uids_of(serving.meta())))
            }
            None => None,
        };
        if present.is_none() && stored.is_none() {
            return Ok(());
        }
        let own = autoscaler::JobMap::owned_by(&self.resource, &target);
        let mut kept = present.unwrap_or_else(|| own.clone());
        kept.set_owner_of(&own);
        kept.data = stored.map(|stored| stored.data).unwrap_or_default();
        autoscaler::store(client, &mut kept).await?;
        Ok(())
    }

    async fn point_ingress(
        &self,
        child: Option<&FlinkDeployment>,
        operator: &OperatorConfig,
    ) -> Result<(), act::Error> {
        let Some(child) = child else { return Ok(()) };
        let wanted =
            wanted_ingress(&self.resource, child, operator).map_err(act::Error::Address)?;
        for exposed_by in EXPOSED_BY {
            match wanted.as_ref().filter(|wanted| wanted["kind"] == exposed_by.1) {
                Some(wanted) => {
                    apply::apply(&self.context.client, wanted, Writer::OPERATOR).await?;
                }
                None => self.delete_left_over(exposed_by).await?,
            }
        }
        Ok(())
    }
}

/// Returns what the next pass would do, for a preview.
pub async fn preview(
    resource: &FlinkBlueGreenDeployment,
    context: &Context,
) -> Result<Plan, Error> {
    let children = Children::read(resource, context).await.map_err(Error::Observe)?;
    plan(resource, &children, &context.operator(), context).await
}

/// Begins a rehearsal of what would be done about `wanted`, which has the stored status.
pub(super) async fn rehearsal(
    wanted: FlinkBlueGreenDeployment,
    context: &Context,
) -> Result<Rehearsal, Error> {
    let Children { blue, green } =
        Children::read(&wanted, context).await.map_err(Error::Observe)?;
    let defaults = context.operator().defaults(&wanted.namespace().unwrap_or_default(), None);
    let settings = Settings::of(&wanted.spec, &defaults).unwrap_or_default();
    Ok(Rehearsal::new(wanted, (blue, green), settings, Timestamp::now()))
}

/// Answers a question of a rehearsal.
pub(super) async fn answer(
    rehearsal: &mut Rehearsal,
    question: Question,
    context: &Context,
) -> Result<(), Error> {
    let operator = context.operator();
    match question {
        Question::Savepoint(colour, id) => {
            let answer = savepoint(rehearsal.child(colour), &id, &operator, context).await;
            rehearsal.facts.savepoint = Some((id, answer));
        }
        Question::Ingress(colour) => {
            let (resource, child) = (&rehearsal.resource, rehearsal.child(colour));
            let answer = ingress(resource, child, &operator, context).await;
            rehearsal.facts.ingress = Some((colour, answer));
        }
        Question::Turn => {
            let turn = context.upgrades.turn(&rehearsal.resource, &operator, context);
            rehearsal.facts.turn = turn;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
