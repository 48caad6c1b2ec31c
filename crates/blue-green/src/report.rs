//! Events, errors and conditions of a pass, and the end of its plan: at rest, after a step, or with a wait, as in
//! [`lifecycle::wait`].

use std::time::Duration;

use api::blue_green::{BlueGreenState, Colour, PROGRESSING, SERVING};
use api::is_paused;
use api::status::{Condition, JobStatusState};
use config::options;
use config::secret::hide_in_document;
use jiff::{SignedDuration, Timestamp};
use lifecycle::conditions::{UPGRADE_ADMITTED, of_type};
use lifecycle::event::{Component, Event};
use lifecycle::paused::{self, PAUSED};
use lifecycle::readiness::{ERROR, READY, RECONCILING, Readiness, STALLED};
use lifecycle::status_texts::StatusTexts;
use lifecycle::wait::{Awaited, STILL_WAITING, Waiting};

use crate::child::Child;
use crate::decide::Pass;
use crate::plan::{Plan, Step};

/// The condition [`PROGRESSING`] as a pass leaves it.
pub(crate) struct Progress {
    is_going: bool,
    reason: &'static str,
    message: String,
}

impl Pass<'_> {
    pub(crate) fn emit(&mut self, reason: &'static str, message: String) {
        self.steps.push(Step::Event(Event::normal(reason, Component::Operator, message)));
    }

    pub(crate) fn warn(&mut self, reason: &'static str, message: String) {
        self.steps.push(Step::Event(Event::warning(reason, Component::Operator, message)));
    }

    /// Returns whether the stored status has this error.
    fn is_stored(&self, message: &str) -> bool {
        self.world.status.error.as_deref() == Some(hide_in_document(message).as_str())
    }

    /// Sets the condition [`PROGRESSING`] to what is in progress, unless the pass has already set it.
    pub(crate) fn report(&mut self, reason: &'static str, message: String) {
        self.progress.get_or_insert(Progress { is_going: true, reason, message });
    }

    /// Reports a problem that stays until someone resolves it, or until a retry.
    pub(crate) fn fail(&mut self, reason: &'static str, message: String) {
        self.set_job(JobStatusState::Failing);
        self.status.error = Some(message.clone());
        self.progress = Some(Progress { is_going: false, reason, message });
    }

    /// Reports what keeps the resource from its spec, for as long as it does.
    pub(crate) fn complain(&mut self, reason: &'static str, message: String) {
        if !self.is_stored(&message) {
            self.warn(reason, message.clone());
        }
        self.report(reason, message.clone());
        self.status.error = Some(message);
        self.has_complained = true;
    }

    pub(crate) fn refuse(&mut self, reason: &'static str, message: String) -> Plan {
        self.complain(reason, message.clone());
        self.fail(reason, message.clone());
        self.rest(message, Some(self.world.settings.interval))
    }

    pub(crate) fn set_job(&mut self, state: JobStatusState) {
        self.status.job_status.state = Some(state);
    }

    /// Sets the status of the only child's job, which runs or is stopped as its spec requests.
    pub(crate) fn set_as_wanted(&mut self, child: Child<'_>) {
        let is_stopped = child.is_to_stop();
        self.set_job(if is_stopped { JobStatusState::Suspended } else { JobStatusState::Running });
        self.status.error = None;
    }

    pub(crate) fn deadline(&self) -> String {
        self.world.now.saturating_add(self.grace()).unwrap_or(Timestamp::MAX).to_string()
    }

    fn grace(&self) -> SignedDuration {
        SignedDuration::try_from(self.world.settings.grace).unwrap_or(SignedDuration::MAX)
    }

    /// Adds a step that stores the current status before the steps that follow.
    pub(crate) fn write(&mut self) {
        self.settle();
        self.steps.push(Step::WriteStatus(Box::new(self.status.clone())));
    }

    /// Ends the plan with nothing to wait for: the next pass only checks.
    pub(crate) fn rest(
        &mut self,
        because: impl Into<String>,
        look_again: Option<Duration>,
    ) -> Plan {
        self.finish(because.into(), look_again, None)
    }

    /// Ends the plan after a step, or a decision on record, whose outcome the next pass finds.
    pub(crate) fn go_on(&mut self, because: impl Into<String>, look_again: Duration) -> Plan {
        self.finish(because.into(), Some(look_again), None)
    }

    /// Ends the plan with a wait since this time, which is reported once it is longer than normal, unless the pass has
    /// said more.
    pub(crate) fn wait_for(
        &mut self,
        on: Awaited,
        since: Timestamp,
        because: impl Into<String>,
        look_again: Duration,
    ) -> Plan {
        let because = because.into();
        let (waits, limit) = self.waiting(on, since);
        if let Some(limit) = limit
            && !self.has_complained
            && waits.is_late(self.world.now)
        {
            self.complain(STILL_WAITING, on.overdue(&because, limit));
        }
        self.finish(because, Some(look_again), Some(waits))
    }

    /// Ends the plan with the wait for a child that is ready, or says what has kept it from that for too long.
    pub(crate) fn await_ready(&mut self, child: Child<'_>) -> Plan {
        self.report_unready(child);
        let because = format!("waiting until `{}` is ready", child.name());
        let since = self.reconciled_since();
        self.wait_for(Awaited::ChildReady, since, because, self.world.settings.interval)
    }

    /// Ends the plan with the wait for a child that is being deleted.
    pub(crate) fn await_gone(&mut self, child: Child<'_>, because: String) -> Plan {
        let since = child.deleting_since().unwrap_or(self.world.now);
        self.wait_for(Awaited::ChildGone, since, because, self.world.settings.interval)
    }

    /// Returns a wait since this time, and how long it is normal; `None` if it is reported from the beginning.
    fn waiting(&self, on: Awaited, since: Timestamp) -> (Waiting, Option<Duration>) {
        let limit = on.limit().time(|_| Some(self.world.settings.grace));
        (Waiting::new(on, since, limit), limit)
    }

    /// Reports what a child waits for at its deletion: this resource owns its spec, which is where the remedy belongs.
    pub(crate) fn report_deletion(&mut self, child: Child<'_>) {
        let since = child.deleting_since().unwrap_or(self.world.now);
        if !self.waiting(Awaited::ChildGone, since).0.is_late(self.world.now) {
            return;
        }
        let name = child.name();
        let error = child.error().or_else(|| {
            let finalizers = child.0.metadata.finalizers.as_deref().unwrap_or_default();
            (!finalizers.is_empty())
                .then(|| format!("its finalizers are [{}]", finalizers.join(", ")))
        });
        let Some(error) = error else { return };
        let is_about_savepoint = error.contains(options::JOB_SAVEPOINT_ON_DELETION.key());
        let remedy = if is_about_savepoint {
            format!(
                ". Set it in `spec.template.spec.flinkConfiguration` of this resource, and the \
                 operator passes it on to `{name}`"
            )
        } else {
            String::new()
        };
        let message = format!("`{name}` is being deleted and waits: {error}{remedy}");
        self.report("Deleting", message.clone());
        self.complain("DeletionWaits", message);
    }

    /// Reports that the only running child is awaited, or what has kept it from its spec for too long.
    fn report_unready(&mut self, child: Child<'_>) {
        let name = child.name();
        if self.status.aborts_at().is_none() {
            self.status.abort_timestamp = Some(self.deadline());
        }
        if !self.is_late() {
            return self.report("Changing", format!("`{name}` starts"));
        }
        let message = format!(
            "`{name}` is not ready {:?} after it was changed: {}. The operator keeps waiting. \
             Change the spec to one that works",
            self.world.settings.grace,
            child.error().unwrap_or_else(|| "see its status".to_owned())
        );
        self.complain("NotReady", message);
    }

    /// Returns since when the stored condition [`PROGRESSING`] has this reason, or whichever it has; now if it is not
    /// there.
    pub(crate) fn reported_since(&self, reason: Option<&str>) -> Timestamp {
        let condition = self.condition(PROGRESSING);
        let condition = condition.filter(|it| reason.is_none() || it.reason.as_deref() == reason);
        let since = condition.and_then(|it| it.last_transition_time.as_deref()?.parse().ok());
        since.unwrap_or(self.world.now)
    }

    /// Returns when the savepoint, the target or the change began that is given up, or reported, after the grace
    /// period.
    pub(crate) fn reconciled_since(&self) -> Timestamp {
        let until = self.status.aborts_at();
        let since = until.and_then(|until| until.checked_sub(self.grace()).ok());
        since.unwrap_or(self.world.now)
    }

    fn finish(
        &mut self,
        because: String,
        look_again: Option<Duration>,
        waits: Option<Waiting>,
    ) -> Plan {
        self.settle();
        Plan {
            because,
            steps: std::mem::take(&mut self.steps),
            status: Box::new(self.status.clone()),
            look_again,
            waits,
        }
    }

    /// Updates the derived fields.
    fn settle(&mut self) {
        if self.world.resource.metadata.deletion_timestamp.is_some() {
            return;
        }
        let is_own = |it: &Condition| {
            let own = [SERVING, PROGRESSING, UPGRADE_ADMITTED, PAUSED, READY, RECONCILING, STALLED];
            it.type_.as_deref().is_some_and(|type_| own.contains(&type_))
        };
        let is_paused = is_paused(&self.world.resource.metadata);
        let mut conditions = self.world.status.conditions.clone();
        conditions.retain(|it| !is_own(it));
        let generation = self.world.generation();
        conditions.push(self.serving(generation));
        if let Some(Progress { is_going, reason, message }) = &self.progress {
            conditions.push(self.derived(PROGRESSING, *is_going, reason, message, generation));
        } else if self.has_given_up() || is_paused {
            conditions.extend(self.condition(PROGRESSING).cloned());
        }
        conditions.extend(self.admission.clone());
        if is_paused {
            conditions.push(self.derived(PAUSED, true, PAUSED, &paused::message(), generation));
        }
        let standing = self.readiness(&conditions, is_paused);
        let before = &self.world.status.conditions;
        conditions.extend(standing.conditions(generation, before, self.world.now));
        self.status.conditions = conditions;
        self.status.hide_secrets();
        let timestamp = self.world.status.last_reconciled_timestamp.clone();
        self.status.last_reconciled_timestamp = timestamp;
        if self.status != *self.world.status {
            self.status.last_reconciled_timestamp = Some(self.world.now.to_string());
        }
    }

    /// Returns how far the resource is, from its error and its other conditions.
    fn readiness(&self, conditions: &[Condition], is_paused: bool) -> Readiness {
        let words = |type_: &str| {
            let condition = of_type(conditions, type_)?;
            let is_true = condition.status.as_deref() == Some("True");
            Some((is_true, condition.reason.clone()?, condition.message.clone()?))
        };
        let progress = words(PROGRESSING);
        if let Some(error) = &self.status.error {
            let reason = progress.map_or_else(|| ERROR.to_owned(), |(_, reason, _)| reason);
            return Readiness::Stalled(reason, error.clone());
        }
        if let Some(standing) = Readiness::of_wait(conditions) {
            return standing;
        }
        let standing = match (progress, self.status.job_status.state, words(SERVING)) {
            (Some((false, reason, message)), _, _) => Readiness::Stalled(reason, message),
            (Some((true, reason, message)), _, _) => Readiness::Reconciling(reason, message),
            (None, Some(JobStatusState::Suspended), _) => {
                Readiness::Ready("Suspended".to_owned(), "the job is suspended".to_owned())
            }
            (None, Some(JobStatusState::Running), Some((true, _, message))) => {
                Readiness::Ready("Running".to_owned(), message)
            }
            (None, _, serving) => {
                let message = serving.map(|(_, _, message)| message).unwrap_or_default();
                Readiness::Reconciling("NotRunning".to_owned(), message)
            }
        };
        let is_done = matches!(standing, Readiness::Ready(..)) && !self.is_edited();
        let is_held = is_paused && !is_done && !matches!(standing, Readiness::Stalled(..));
        if is_held { Readiness::Stalled(PAUSED.to_owned(), paused::message()) } else { standing }
    }

    fn serving(&self, generation: i64) -> Condition {
        let child = |colour| self.world.child(colour).filter(|child| child.runs());
        let first = self.status.blue_green_state.map_or(Colour::Blue, BlueGreenState::serving);
        let found =
            [first, first.other()].into_iter().find_map(|colour| Some((colour, child(colour)?)));
        match found {
            Some((Colour::Blue, child)) => {
                let message = format!("`{}` runs", child.name());
                self.derived(SERVING, true, "Blue", &message, generation)
            }
            Some((Colour::Green, child)) => {
                let message = format!("`{}` runs", child.name());
                self.derived(SERVING, true, "Green", &message, generation)
            }
            None => self.derived(SERVING, false, "None", "no job runs", generation),
        }
    }

    fn derived(
        &self,
        kind: &str,
        is_true: bool,
        reason: &str,
        message: &str,
        generation: i64,
    ) -> Condition {
        let status = if is_true { "True" } else { "False" };
        let before = self.condition(kind).filter(|it| it.status.as_deref() == Some(status));
        let is_same = before.is_some_and(|it| it.reason.as_deref() == Some(reason));
        let since = before.filter(|_| is_same).and_then(|it| it.last_transition_time.clone());
        Condition {
            type_: Some(kind.to_owned()),
            status: Some(status.to_owned()),
            observed_generation: Some(generation),
            last_transition_time: Some(since.unwrap_or_else(|| self.world.now.to_string())),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
        }
    }
}
