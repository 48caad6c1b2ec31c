//! The decision: one `match` over the recorded state, and what all states share.

use std::time::Duration;

use api::blue_green::{
    ABORTED, BlueGreenState, BlueGreenStatus, Colour, GIVEN_UP, PROGRESSING, RETRY_ANNOTATION,
    ROLLED_BACK, SAVEPOINT_FAILED, SERVING,
};
use api::deployment::FlinkDeploymentSpec;
use api::is_paused;
use api::status::{Condition, JobStatusState};
use jiff::{SignedDuration, Timestamp};
use lifecycle::paused::{self, PAUSED};
use lifecycle::wait::Awaited;
use serde_json::json;

use crate::change::{Change, change, is_stateless, is_suspended, named_state};
use crate::child::{self, Child};
use crate::not_carried_out;
use crate::plan::{Plan, Step};
use crate::report::Progress;
use crate::transition::Start;
use crate::world::{Ingress, Question, World};

/// Reasons of the condition [`PROGRESSING`].
pub(crate) const INGRESS_REFUSED: &str = "IngressRefused";
const WAITING_FOR_JOB: &str = "WaitingForJob";
/// Pause between a failed savepoint and the next one.
const SAVEPOINT_AGAIN: SignedDuration = SignedDuration::from_mins(1);
/// A redeploy must not start empty.
const NO_STATE_NAMED: &str = "spec.template.spec.job.initialSavepointPath: must be set: `savepointRedeployNonce` starts the job from it";
/// How soon an idle resource, or a failed savepoint, is checked again.
const RESYNC: Duration = Duration::from_mins(1);
/// Pause until something that was just done shows its effect.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// Why a pass ends before its decision.
#[derive(Debug)]
pub(crate) enum Halt {
    Question(Question),
    Problem { reason: &'static str, message: String },
}

impl From<Question> for Halt {
    fn from(question: Question) -> Self {
        Self::Question(question)
    }
}

pub(crate) type End = Result<Plan, Halt>;

/// Decides on a plan from the facts.
///
/// # Errors
///
/// The next question, whose answer is missing from the facts.
pub fn decide(world: &World<'_>) -> Result<Plan, Question> {
    let mut pass = Pass::new(world);
    let mut plan = match pass.run() {
        Ok(plan) => plan,
        Err(Halt::Question(question)) => return Err(question),
        Err(Halt::Problem { reason, message }) => Pass::new(world).refuse(reason, message),
    };
    if let Some(why) = &world.facts.stopped_at {
        not_carried_out::report_before(&mut plan, world.status, why);
    }
    Ok(plan)
}

/// A decision in progress.
pub(crate) struct Pass<'a> {
    pub(crate) world: &'a World<'a>,
    /// The status at the end of the pass.
    pub(crate) status: BlueGreenStatus,
    pub(crate) steps: Vec<Step>,
    pub(crate) progress: Option<Progress>,
    /// The pass has said what keeps the resource from its spec.
    pub(crate) has_complained: bool,
    /// The condition of a transition that waits for its turn.
    pub(crate) admission: Option<Condition>,
}

impl<'a> Pass<'a> {
    fn new(world: &'a World<'a>) -> Self {
        Self {
            world,
            status: not_carried_out::forgotten(world.status),
            steps: vec![],
            progress: None,
            has_complained: false,
            admission: None,
        }
    }

    fn run(&mut self) -> End {
        if self.world.resource.metadata.deletion_timestamp.is_some() {
            return Ok(self.rest("it is being deleted, and its children with it", None));
        }
        if is_paused(&self.world.resource.metadata) {
            return Ok(self.hold());
        }
        self.refuse_foreign_children()?;
        match self.status.blue_green_state {
            None | Some(BlueGreenState::InitializingBlue) => self.initialize(),
            Some(BlueGreenState::ActiveBlue) => self.active(Colour::Blue),
            Some(BlueGreenState::ActiveGreen) => self.active(Colour::Green),
            Some(BlueGreenState::SavepointingBlue) => self.savepointing(Colour::Blue),
            Some(BlueGreenState::SavepointingGreen) => self.savepointing(Colour::Green),
            Some(BlueGreenState::TransitioningToBlue) => self.transitioning(Colour::Blue),
            Some(BlueGreenState::TransitioningToGreen) => self.transitioning(Colour::Green),
        }
    }

    /// Ends the pass over a paused resource: its children are not touched, and are paused with it.
    fn hold(&mut self) -> Plan {
        if self.condition(PAUSED).is_none() {
            self.emit(PAUSED, paused::message());
        }
        self.wait_for(Awaited::Unpaused, self.world.now, paused::message(), RESYNC)
    }

    fn refuse_foreign_children(&self) -> Result<(), Halt> {
        let uid = self.world.resource.metadata.uid.as_deref().unwrap_or_default();
        let mut children = Colour::ALL.into_iter().filter_map(|colour| self.world.child(colour));
        let Some(foreign) = children.find(|child| !child.is_of(uid)) else { return Ok(()) };
        let name = foreign.name();
        Err(Halt::Problem {
            reason: "ForeignObject",
            message: format!(
                "FlinkDeployment `{name}` has the name of a child of this resource but does not \
                 belong to it. Nothing is done. Rename or delete it; or, if it is the child of \
                 an earlier resource of this name, make this resource its owner (uid {uid})"
            ),
        })
    }

    // --- idle states ---

    /// Nothing was created yet, or the Java operator gave up the only child.
    fn initialize(&mut self) -> End {
        let existing = Colour::ALL.into_iter().find_map(|colour| {
            let child = self.world.child(colour)?;
            Some((colour, child))
        });
        let wanted = self.wanted()?;
        let Some((colour, child)) = existing else {
            if self.recorded().is_some() {
                return self.replace_lost(Colour::Blue, wanted);
            }
            if is_suspended(wanted) {
                self.status.blue_green_state = Some(BlueGreenState::InitializingBlue);
                self.set_job(JobStatusState::Suspended);
                let because = "it is suspended and was never started";
                return Ok(self.rest(because, Some(RESYNC)));
            }
            return Ok(self.start(Colour::Blue, wanted));
        };
        if child.is_deleting() {
            return Ok(self.await_deletion(child));
        }
        if child.runs() && !child.is_to_stop() {
            // The operator died before it recorded the start.
            self.status.blue_green_state = Some(colour.active());
            self.record_spec_of(colour, child);
            return Ok(self.go_on(format!("`{}` is the only child", child.name()), SOON));
        }
        // It never ran, or was stopped because it did not become ready: only another spec helps.
        let is_given_up = child.is_to_stop()
            && !is_suspended(wanted)
            && self.status.job_status.state == Some(JobStatusState::Failing)
            && self.recorded().is_some_and(|last| change(&last, wanted) == Change::None);
        if is_given_up {
            let because = "its only child was aborted, and the spec is the same";
            return Ok(self.rest(because, Some(RESYNC)));
        }
        Ok(self.change_in_place(colour, child, wanted))
    }

    /// No transition is in progress.
    fn active(&mut self, colour: Colour) -> End {
        let other = colour.other();
        let Some(child) = self.world.child(colour) else {
            return self.active_without_child(colour);
        };
        if child.is_deleting() {
            return Ok(self.await_deletion(child));
        }
        let is_changing = self.status.job_status.state == Some(JobStatusState::Reconciling);
        let aborts_at = self.status.abort_timestamp.take().filter(|_| is_changing);
        self.forget_transition();
        self.status.abort_timestamp = aborts_at;
        self.put_ingress_in_place(colour)?;
        let left_over = self.world.child(other);
        // While the serving child is down, another one that runs is better than none.
        let is_needed = |it: &Child<'_>| it.runs() && !child.runs() && !child.is_to_stop();
        if let Some(left_over) = left_over.filter(|it| !is_needed(it)) {
            self.discard_aborted(left_over, child);
            self.pass_on_deletion(left_over);
            self.delete(left_over, "it does not serve");
        }
        let wanted = match self.wanted() {
            Ok(wanted) => wanted,
            Err(Halt::Problem { reason, message }) => return Ok(self.refuse(reason, message)),
            Err(question @ Halt::Question(_)) => return Err(question),
        };
        // A recorded change may not have reached the child.
        let last = self.recorded().filter(|_| !is_changing);
        let last = last.unwrap_or_else(|| child::template_of(child.0, colour, wanted));
        let mut wish = change(&last, wanted);
        if let Some(given_up) = self.given_up_elsewhere(colour, child, wanted) {
            if wish == Change::None {
                let error = self.status.error.clone();
                let message = error.unwrap_or_else(|| "the transition was aborted".to_owned());
                self.record_spec_of(colour, child);
                self.fail(ABORTED, message);
                let because = "the transition was aborted by another operator";
                return Ok(self.rest(because, Some(RESYNC)));
            }
            wish = given_up;
        }
        // Only a transition is tried and given up. A suspend that waited for its target has not been tried yet.
        let may_be_given_up = matches!(wish, Change::Transition | Change::Redeploy);
        if wish == Change::None || may_be_given_up && self.is_given_up() {
            return Ok(self.maintain(child, left_over, is_changing));
        }
        if is_changing {
            self.record_spec_of(colour, child);
        }
        let is_stuck = left_over.is_some() && child.is_down();
        if wish == Change::InPlace || child.is_to_stop() || is_stuck {
            return Ok(self.change_in_place(colour, child, wanted));
        }
        if let Some(left_over) = left_over {
            return Ok(self.await_deletion(left_over));
        }
        if wish == Change::Redeploy {
            let Some(path) = named_state(&last, wanted) else {
                return Ok(self.refuse("ValidationError", NO_STATE_NAMED.to_owned()));
            };
            return Ok(self.begin(other, wanted, Start::Named(path)));
        }
        self.leave_for_other(colour, child, wanted)
    }

    /// The child of the active colour is gone.
    fn active_without_child(&mut self, colour: Colour) -> End {
        let other = colour.other();
        match self.world.child(other) {
            // The record of the cut-over was lost, or someone deleted the serving child.
            Some(rest) if rest.runs() => {
                self.status.blue_green_state = Some(other.transitioning_to());
                Ok(self.go_on(format!("`{}` is the only child", rest.name()), SOON))
            }
            Some(_) | None => {
                let wanted = self.wanted()?;
                self.replace_lost(colour, wanted)
            }
        }
    }

    /// Begins a transition from the state of the job that serves, once it is its turn.
    fn leave_for_other(
        &mut self,
        colour: Colour,
        child: Child<'_>,
        wanted: &FlinkDeploymentSpec,
    ) -> End {
        let may_begin = child.runs() || is_stateless(wanted);
        if may_begin
            && !child.is_down()
            && let Some(plan) = self.await_turn(child)?
        {
            return Ok(plan);
        }
        if is_stateless(wanted) {
            return Ok(self.begin(colour.other(), wanted, Start::Stateless));
        }
        if child.runs() {
            return Ok(self.take_savepoint(colour, child));
        }
        if child.is_down() {
            // Its own rules find its state, or say why they cannot.
            return Ok(self.change_in_place(colour, child, wanted));
        }
        let name = child.name();
        let message =
            format!("the change waits for the job of `{name}`, which is starting or recovering");
        self.report(WAITING_FOR_JOB, message.clone());
        let since = self.reported_since(Some(WAITING_FOR_JOB));
        Ok(self.wait_for(Awaited::ChildJob, since, message, self.world.settings.interval))
    }

    /// The desired spec runs, is being applied in place, was given up, or waits for its turn.
    pub(crate) fn maintain(
        &mut self,
        child: Child<'_>,
        left_over: Option<Child<'_>>,
        is_changing: bool,
    ) -> Plan {
        let (name, interval) = (child.name(), self.world.settings.interval);
        let look_again = left_over.map_or(RESYNC, |_| interval.min(RESYNC));
        if self.has_given_up() {
            let because = format!("`{name}` serves, and the transition to the spec was aborted");
            return self.rest(because, Some(look_again));
        }
        if is_changing && child.is_rolled_back() {
            let why = child.error().unwrap_or_else(|| "it did not become stable".to_owned());
            let message = format!("`{name}` was rolled back to its previous spec: {why}");
            self.warn(ROLLED_BACK, message.clone());
            self.fail(ROLLED_BACK, message.clone());
            self.status.abort_timestamp = None;
            return self.rest(message, Some(look_again));
        }
        if is_changing && !child.is_done() {
            return self.await_ready(child);
        }
        self.status.abort_timestamp = None;
        self.set_as_wanted(child);
        if child.is_down() && !child.is_done() {
            let why = child.error().unwrap_or_else(|| "its job has failed".to_owned());
            let message = format!("the job of `{name}` is not running: {why}");
            self.set_job(JobStatusState::Failing);
            self.complain("JobDown", message.clone());
            return self.rest(message, Some(look_again));
        }
        let Some(left_over) = left_over else {
            return self.rest(format!("`{name}` serves"), Some(look_again));
        };
        self.report_deletion(left_over);
        self.await_gone(
            left_over,
            format!("`{name}` serves, and `{}` is deleted", left_over.name()),
        )
    }

    // --- shared by several states ---

    /// Starts the first child, or one that replaces a child whose state is no longer needed.
    fn start(&mut self, colour: Colour, wanted: &FlinkDeploymentSpec) -> Plan {
        let child = child::child(self.world, colour, wanted, None);
        let name = child.metadata.name.clone().unwrap_or_default();
        // It is recognised by its name and its owner, even if the status is not written.
        self.steps.push(Step::CreateChild(Box::new(child)));
        self.emit("Submit", format!("`{name}` is started"));
        self.head_for(colour, None);
        self.report("Deploying", format!("`{name}` starts"));
        self.go_on(format!("starting `{name}`"), self.world.settings.interval)
    }

    /// Replaces a serving child that is gone, and with it everything that led to its job's state.
    pub(crate) fn replace_lost(&mut self, colour: Colour, wanted: &FlinkDeploymentSpec) -> End {
        let named = self.recorded().and_then(|last| named_state(&last, wanted));
        if named.is_some() || is_stateless(wanted) {
            // If the new child is not recorded, the spec on record is used for comparison: it still shows that a state
            // is named if the child was not created.
            self.status.blue_green_state = Some(colour.transitioning_to());
            self.forget_transition();
            self.write();
            return Ok(self.start(colour, wanted));
        }
        let name =
            colour.child_of(self.world.resource.metadata.name.as_deref().unwrap_or_default());
        Err(Halt::Problem {
            reason: "ServingChildGone",
            message: format!(
                "FlinkDeployment `{name}`, which was serving, is gone, and nothing on record \
                 leads to the state of its job. Find its newest checkpoint or savepoint, set \
                 `spec.template.spec.job.initialSavepointPath` to it and \
                 `spec.template.spec.job.savepointRedeployNonce` to a new number"
            ),
        })
    }

    /// Gives the serving child the spec. Its own lifecycle applies it, and it is never given up.
    fn change_in_place(
        &mut self,
        colour: Colour,
        child: Child<'_>,
        wanted: &FlinkDeploymentSpec,
    ) -> Plan {
        let name = child.name();
        self.status.blue_green_state = Some(colour.active());
        self.give_spec(colour, child, wanted);
        self.go_on(format!("changing `{name}` in place"), self.world.settings.interval)
    }

    /// Records the spec and gives it to the child.
    pub(crate) fn give_spec(
        &mut self,
        colour: Colour,
        child: Child<'_>,
        wanted: &FlinkDeploymentSpec,
    ) {
        let name = child.name();
        let is_changing = self.status.job_status.state == Some(JobStatusState::Reconciling);
        let is_again = is_changing && !self.is_edited();
        self.record(self.world.resource.spec.clone());
        self.set_job(JobStatusState::Reconciling);
        self.status.error = None;
        if !is_again || self.status.aborts_at().is_none() {
            self.status.abort_timestamp = Some(self.deadline());
        }
        self.status.deployment_ready_timestamp = None;
        if is_again && self.is_late() {
            self.complain_of_change(child);
        }
        self.report("Changing", format!("`{name}` is changed in place"));
        self.write();
        let changed = child::changed(child.0, self.world, colour, wanted);
        if changed != *child.0 {
            self.steps.push(Step::ChangeChild(Box::new(changed)));
        }
        if !is_again {
            self.emit("SpecChanged", format!("`{name}` is changed in place"));
        }
    }

    /// Records a transition to this colour, with the state that it starts from. That state replaces the trigger: next
    /// to a trigger, it would be one that the Java operator left from an earlier transition.
    pub(crate) fn head_for(&mut self, colour: Colour, path: Option<String>) {
        self.status.blue_green_state = Some(colour.transitioning_to());
        self.record(self.world.resource.spec.clone());
        self.set_job(JobStatusState::Reconciling);
        self.status.error = None;
        self.status.job_status.upgrade_savepoint_path = path;
        self.status.savepoint_trigger_id = None;
        self.status.abort_timestamp = Some(self.deadline());
        self.status.deployment_ready_timestamp = None;
    }

    pub(crate) fn forget_transition(&mut self) {
        self.status.savepoint_trigger_id = None;
        self.status.abort_timestamp = None;
        self.status.deployment_ready_timestamp = None;
        self.status.job_status.upgrade_savepoint_path = None;
    }

    pub(crate) fn delete(&mut self, child: Child<'_>, why: &str) {
        if child.is_deleting() {
            return;
        }
        let (name, uid) = (child.name().to_owned(), child.uid().to_owned());
        self.emit("Cleanup", format!("`{name}` is deleted: {why}"));
        self.steps.push(Step::DeleteChild { name, uid });
    }

    /// Lets a target go without a savepoint. It has not served: its state comes from what serves, and is discarded with
    /// it.
    pub(crate) fn discard_state(&mut self, target: Child<'_>) {
        let changed = child::without_savepoint(target.0);
        self.steps.extend(changed.map(|changed| Step::ChangeChild(Box::new(changed))));
    }

    /// Continues an abort that ended before its target was let go.
    fn discard_aborted(&mut self, left_over: Child<'_>, serving: Child<'_>) {
        let progress = self.condition(PROGRESSING).and_then(|it| it.reason.as_deref());
        if progress == Some(ABORTED) && serving.runs() {
            self.discard_state(left_over);
        }
    }

    /// Gives a child that waits at its deletion the option that ends the wait, if the template sets it. No other edit
    /// reaches a child that is being deleted.
    pub(crate) fn pass_on_deletion(&mut self, child: Child<'_>) {
        let is_set = self.wanted().is_ok_and(child::is_without_savepoint);
        let is_reported = self.steps.iter().any(|step| matches!(step, Step::ChangeChild(_)));
        if child.is_deleting() && is_set && !is_reported {
            self.discard_state(child);
        }
    }

    pub(crate) fn await_deletion(&mut self, child: Child<'_>) -> Plan {
        self.pass_on_deletion(child);
        self.report_deletion(child);
        let message = format!("waiting until `{}` is gone", child.name());
        self.report("Deleting", message.clone());
        self.await_gone(child, message)
    }

    /// Points the Ingress, or the route, to this child; returns false while that is refused.
    pub(crate) fn put_ingress_in_place(&mut self, colour: Colour) -> Result<bool, Halt> {
        let serving = self.condition(SERVING);
        let was_looked_at =
            serving.is_some_and(|it| it.observed_generation == Some(self.world.generation()));
        if self.world.resource.spec.ingress.is_none() && was_looked_at {
            return Ok(true);
        }
        match self.world.ingress(colour)? {
            Ingress::InPlace => Ok(true),
            Ingress::Differs => {
                self.steps.push(Step::PointIngress(colour));
                Ok(true)
            }
            Ingress::Refused { reason } => {
                let message = format!("the web UI of the job cannot be exposed: {reason}");
                self.report(INGRESS_REFUSED, message);
                Ok(false)
            }
        }
    }

    // --- specs ---

    /// Returns the desired spec of the children, or why there is none.
    pub(crate) fn wanted(&self) -> Result<&'a FlinkDeploymentSpec, Halt> {
        let problem = |message: String| Halt::Problem { reason: "ValidationError", message };
        if let Some(violation) = &self.world.violation {
            return Err(problem(violation.clone()));
        }
        let template = self.world.resource.spec.template.as_ref();
        let spec = template.and_then(|template| template.spec.as_ref());
        spec.ok_or_else(|| problem("spec.template.spec: must be set".to_owned()))
    }

    /// Returns the recorded spec of the children.
    pub(crate) fn recorded(&self) -> Option<FlinkDeploymentSpec> {
        self.status.recorded().template
    }

    pub(crate) fn record(&mut self, spec: api::blue_green::FlinkBlueGreenDeploymentSpec) {
        self.status.last_reconciled_spec = Some(json!({ "spec": spec }).to_string());
    }

    // --- specs that were given up ---

    pub(crate) fn condition(&self, kind: &str) -> Option<&'a Condition> {
        self.world.status.conditions.iter().find(|it| it.type_.as_deref() == Some(kind))
    }

    /// Returns true if the current spec was given up, and no retry was requested.
    fn is_given_up(&self) -> bool {
        let Some(condition) = self.condition(PROGRESSING) else { return false };
        let is_of_spec = condition.observed_generation == Some(self.world.generation());
        let reason = condition.reason.as_deref().unwrap_or_default();
        if reason == SAVEPOINT_FAILED && is_of_spec {
            let since = self.status.last_reconciled_timestamp.as_deref();
            let since: Option<Timestamp> = since.and_then(|text| text.parse().ok());
            return since
                .is_some_and(|since| self.world.now.duration_since(since) < SAVEPOINT_AGAIN);
        }
        let is_retried = condition.last_transition_time.as_deref();
        let is_retried =
            is_retried.is_some() && is_retried == self.world.annotation(RETRY_ANNOTATION);
        GIVEN_UP.contains(&reason) && is_of_spec && !is_retried
    }

    /// Returns the change from what runs, if the Java operator recorded the spec that it gave up, and nothing else
    /// shows that it does not run. If this operator gave it up, the condition has the same message.
    fn given_up_elsewhere(
        &self,
        colour: Colour,
        child: Child<'_>,
        wanted: &FlinkDeploymentSpec,
    ) -> Option<Change> {
        let is_failing = self.status.job_status.state == Some(JobStatusState::Failing);
        let runs = child::template_of(child.0, colour, wanted);
        let wish = change(&runs, wanted);
        let is_reported = self.condition(PROGRESSING).is_some_and(|it| {
            it.message == self.world.status.error
                && it.observed_generation == Some(self.world.generation())
        });
        (is_failing && !is_reported && matches!(wish, Change::Transition | Change::Redeploy))
            .then_some(wish)
    }

    /// Returns true if the current spec was given up, and that is still reported.
    pub(crate) fn has_given_up(&self) -> bool {
        self.status.job_status.state == Some(JobStatusState::Failing) && self.is_given_up()
    }
}
