//! Everything in progress: a savepoint, another colour, a change in place, and the cut-over.

use api::blue_green::{
    ABORT_ANNOTATION, ABORTED, Colour, FlinkBlueGreenDeploymentSpec, PROMOTE_ANNOTATION,
    SAVEPOINT_FAILED,
};
use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::status::JobStatusState;
use jiff::SignedDuration;
use lifecycle::wait::Awaited;

use crate::change::{Change, change, is_stateless, is_suspended, named_state};
use crate::child::{self, Child};
use crate::decide::{End, INGRESS_REFUSED, Pass, SOON};
use crate::plan::{Plan, Step};
use crate::world::Savepoint;
use state::restore_point::RestorePoint;
use state::revision::{self, Content};

/// State from which the job of the other colour starts.
pub(crate) enum Start {
    /// The savepoint of this transition.
    Savepoint(String),
    /// The state that the spec names.
    Named(String),
    /// Nothing, or the `initialSavepointPath` of a stateless job.
    Stateless,
}

impl Pass<'_> {
    pub(crate) fn is_late(&self) -> bool {
        self.status.aborts_at().is_some_and(|at| at <= self.world.now)
    }

    /// Returns true if someone requested to give up what has this id.
    fn is_to_abort(&self, id: &str) -> bool {
        self.world.annotation(ABORT_ANNOTATION) == Some(id)
    }

    // --- the savepoint ---

    pub(crate) fn take_savepoint(&mut self, colour: Colour, child: Child<'_>) -> Plan {
        let (name, trigger_id) = (child.name(), self.world.trigger_id.clone());
        self.status.blue_green_state = Some(colour.savepointing());
        self.status.savepoint_trigger_id = Some(trigger_id.clone());
        self.status.abort_timestamp = Some(self.deadline());
        self.set_job(JobStatusState::Reconciling);
        self.status.error = None;
        self.report("Savepointing", format!("taking a savepoint of `{name}`"));
        self.write();
        self.steps.push(Step::TriggerSavepoint { colour, trigger_id });
        self.emit(
            "SavepointTriggered",
            format!("taking a savepoint of `{name}` for the other colour"),
        );
        self.go_on(format!("taking a savepoint of `{name}`"), self.world.settings.interval)
    }

    pub(crate) fn savepointing(&mut self, colour: Colour) -> End {
        let child = self.world.child(colour).filter(|child| !child.is_deleting());
        let wanted = self.wanted().ok();
        let last = self.recorded();
        let is_wanted = wanted.is_some_and(|wanted| {
            last.is_none_or(|last| change(&last, wanted) == Change::Transition)
                && !is_stateless(wanted)
        });
        let id = self.status.savepoint_trigger_id.clone();
        let (Some(child), Some(wanted), Some(id), true) = (child, wanted, id, is_wanted) else {
            return Ok(self.leave_savepoint(colour, "the savepoint is no longer needed"));
        };
        if self.is_to_abort(&id) {
            return Ok(self.give_up_savepoint(colour, ABORTED, "a user requested the abort"));
        }
        if self.status.aborts_at().is_none() {
            // The Java operator waits for it without a limit.
            self.status.abort_timestamp = Some(self.deadline());
        }
        let name = child.name();
        let why = match self.world.savepoint(colour, &id)?.clone() {
            Savepoint::Completed { path } => {
                return Ok(self.begin_when_free(colour.other(), wanted, path));
            }
            Savepoint::Failed { message } => {
                return Ok(self.give_up_savepoint(colour, SAVEPOINT_FAILED, &message));
            }
            Savepoint::NotFound if !self.is_late() => {
                self.steps.push(Step::TriggerSavepoint { colour, trigger_id: id });
                "triggered again".to_owned()
            }
            Savepoint::NotFound => "the JobManager does not know it".to_owned(),
            Savepoint::Pending => "in progress".to_owned(),
            Savepoint::Unknown { reason } => reason,
        };
        if self.is_late() {
            let grace = self.world.settings.grace;
            let why = format!("it did not complete within {grace:?} ({why})");
            return Ok(self.give_up_savepoint(colour, SAVEPOINT_FAILED, &why));
        }
        self.report("Savepointing", format!("taking a savepoint of `{name}`"));
        let because = format!("the savepoint of `{name}`: {why}");
        let since = self.reconciled_since();
        let pause = self.world.settings.interval;
        Ok(self.wait_for(Awaited::TransitionSavepoint, since, because, pause))
    }

    /// Gives up the transition before anything of the other colour was created.
    fn leave_savepoint(&mut self, colour: Colour, because: &str) -> Plan {
        self.status.blue_green_state = Some(colour.active());
        self.forget_transition();
        self.go_on(because, SOON)
    }

    fn give_up_savepoint(&mut self, colour: Colour, reason: &'static str, why: &str) -> Plan {
        let name =
            colour.child_of(self.world.resource.metadata.name.as_deref().unwrap_or_default());
        let message = format!(
            "the savepoint of `{name}` for the other colour failed: {why}. `{name}` keeps serving"
        );
        self.warn(reason, message.clone());
        self.fail(reason, message);
        self.leave_savepoint(colour, "the savepoint failed")
    }

    // --- the other colour ---

    /// Starts the other colour once its name is free.
    fn begin_when_free(
        &mut self,
        target: Colour,
        wanted: &FlinkDeploymentSpec,
        path: String,
    ) -> Plan {
        if let Some(left_over) = self.world.child(target) {
            self.delete(left_over, "another one takes its place");
            return self.await_deletion(left_over);
        }
        self.begin(target, wanted, Start::Savepoint(path))
    }

    /// Starts the other colour.
    pub(crate) fn begin(
        &mut self,
        target: Colour,
        wanted: &FlinkDeploymentSpec,
        start: Start,
    ) -> Plan {
        self.record_superseded(target.other(), &start);
        let path = match start {
            Start::Savepoint(path) | Start::Named(path) => Some(path),
            Start::Stateless => None,
        };
        let child = child::child(self.world, target, wanted, path.as_deref());
        let name = child.metadata.name.clone().unwrap_or_default();
        self.head_for(target, path.clone());
        self.report("Deploying", format!("`{name}` is starting and takes over when it is ready"));
        self.write();
        self.steps.extend(self.autoscaler_state(target, wanted));
        self.steps.push(Step::CreateChild(Box::new(child)));
        let from = path.map_or_else(String::new, |path| format!(" from {path}"));
        self.emit("Submit", format!("`{name}` is started{from}"));
        self.go_on(format!("starting `{name}`{from}"), self.world.settings.interval)
    }

    /// Returns the step that gives the target the autoscaler state of the serving job, unless the autoscaler should
    /// start over.
    fn autoscaler_state(&self, to: Colour, wanted: &FlinkDeploymentSpec) -> Option<Step> {
        let serving = self.world.child(to.other())?;
        let nonce = |spec: &FlinkDeploymentSpec| spec.job.as_ref()?.autoscaler_reset_nonce;
        let is_reset = nonce(wanted).is_some() && nonce(&serving.0.spec) != nonce(wanted);
        Some(Step::CopyAutoscalerState { to, is_reset })
    }

    /// Adds the serving spec to the history with the state that it leaves; its savepoint becomes a snapshot, too.
    fn record_superseded(&mut self, serving: Colour, start: &Start) {
        let (Some(child), Some(mut spec)) = (self.world.child(serving), self.recorded()) else {
            return;
        };
        if let Some(job) = &mut spec.job {
            job.initial_savepoint_path = None;
        }
        let Ok(spec) = serde_json::to_value(spec) else { return };
        let left = match start {
            Start::Savepoint(path) => RestorePoint::Path(path.clone()),
            // Only its job knows where its last checkpoint is.
            Start::Named(_) => RestorePoint::HaMetadata,
            Start::Stateless => RestorePoint::Empty,
        };
        let restore_point = revision::RestorePoint::of(&left, child.job_id());
        let content = Content { spec, restore_point, reconciled_at: child.reconciled_at() };
        self.steps.push(Step::RecordRevision(Box::new(content)));
        if let Start::Savepoint(path) = start {
            // A stored time, so that the savepoint has one record, also if the operator dies and records it again.
            let since = self.reported_since(None);
            self.steps.push(Step::KeepSavepoint { colour: serving, path: path.clone(), since });
        }
    }

    pub(crate) fn transitioning(&mut self, to: Colour) -> End {
        // A child that should be stopped was given up earlier, and one that someone else deleted does not serve.
        let is_decided = self.status.is_decided();
        let serving = self.world.child(to.other());
        let serving = serving.filter(|it| !it.is_to_stop() && (is_decided || !it.is_deleting()));
        let Some(target) = self.world.child(to) else {
            return match serving {
                Some(serving) if !serving.is_deleting() => self.start_target_again(to, serving),
                Some(going) => Ok(self.await_deletion(going)),
                None => {
                    let wanted = self.wanted()?;
                    self.replace_lost(to, wanted)
                }
            };
        };
        if target.is_deleting() {
            if !is_decided && serving.is_some_and(Child::runs) {
                self.discard_state(target);
            }
            return Ok(self.await_deletion(target));
        }
        let missing = self.missing_change(to, target);
        let is_alone = serving.is_none_or(|serving| !serving.runs());
        if is_alone && target.is_done() {
            // Nothing else runs: a change is applied to it, instead of removing it.
            if missing.is_some() {
                self.record_spec_of(to, target);
            }
            match serving {
                None => return self.settle_in_place(to, target),
                Some(serving) if !self.status.is_decided() => {
                    return Ok(self.decide(target, serving));
                }
                Some(_) => {}
            }
        }
        if let (Some(serving), Some(why)) = (serving, self.unchanged(target, missing.is_some())) {
            return Ok(self.abort(to, target, serving, &why));
        }
        if let Some(plan) = self.follow_edit(to, target, serving.is_some(), missing) {
            return Ok(plan);
        }
        match serving {
            Some(serving) if self.status.is_decided() => self.cut_over(to, target, serving),
            Some(serving) => Ok(self.prove(to, target, serving)),
            None => self.settle_in_place(to, target),
        }
    }

    /// Starts the target again, which was not created, or was deleted by someone, while the other one serves.
    fn start_target_again(&mut self, to: Colour, serving: Child<'_>) -> End {
        let path = self.status.job_status.upgrade_savepoint_path.clone();
        let from = to.other();
        let Some(recorded) = self.recorded() else {
            return Ok(self.leave_transition(from, serving, "its spec cannot be read"));
        };
        if self.is_edited() {
            return Ok(self.leave_transition(from, serving, "there is another spec to start"));
        }
        if let Some(why) = self.world.facts.stopped_at.clone().filter(|_| self.is_late()) {
            return Ok(self.give_up_unmade(to, serving, &why));
        }
        let named = named_state(&serving.0.spec, &recorded);
        let path = match (path, self.status.savepoint_trigger_id.clone()) {
            _ if named.is_some() => named,
            _ if is_stateless(&recorded) => None,
            // Left by the Java operator: only the JobManager knows the savepoint, and a path is that of an earlier one.
            (_, Some(id)) => match self.world.savepoint(from, &id)? {
                Savepoint::Completed { path } => Some(path.clone()),
                Savepoint::Pending
                | Savepoint::Failed { .. }
                | Savepoint::NotFound
                | Savepoint::Unknown { .. } => {
                    return Ok(self.leave_transition(
                        from,
                        serving,
                        "its savepoint is no longer known",
                    ));
                }
            },
            (Some(path), None) => Some(path),
            (None, None) => {
                return Ok(self.leave_transition(
                    from,
                    serving,
                    "the state to start it from is not on record",
                ));
            }
        };
        self.status.error = None;
        if self.world.facts.stopped_at.is_none() || self.status.aborts_at().is_none() {
            self.status.abort_timestamp = Some(self.deadline());
        }
        self.status.deployment_ready_timestamp = None;
        self.status.job_status.upgrade_savepoint_path.clone_from(&path);
        // It may lead to the target that was lost.
        self.put_ingress_in_place(from)?;
        let child = child::child(self.world, to, &recorded, path.as_deref());
        let name = child.metadata.name.clone().unwrap_or_default();
        self.report("Deploying", format!("`{name}` is starting and takes over when it is ready"));
        self.write();
        self.steps.extend(self.autoscaler_state(to, &recorded));
        self.steps.push(Step::CreateChild(Box::new(child)));
        Ok(self.go_on(format!("starting `{name}`"), self.world.settings.interval))
    }

    /// Starts over from what serves.
    fn leave_transition(&mut self, from: Colour, serving: Child<'_>, because: &str) -> Plan {
        self.status.blue_green_state = Some(from.active());
        self.record_spec_of(from, serving);
        self.forget_transition();
        self.go_on(because, SOON)
    }

    /// Records the spec that this child runs.
    pub(crate) fn record_spec_of(&mut self, colour: Colour, child: Child<'_>) {
        let mut spec: FlinkBlueGreenDeploymentSpec = self.world.resource.spec.clone();
        if let Some(template) = &mut spec.template {
            let wanted = template.spec.take().unwrap_or_default();
            template.spec = Some(child::template_of(child.0, colour, &wanted));
        }
        self.record(spec);
    }

    /// Returns the target with the spec on record if it has another one, because the operator died before it changed
    /// the child.
    fn missing_change(&self, to: Colour, target: Child<'_>) -> Option<FlinkDeployment> {
        let recorded = self.recorded()?;
        let changed = child::changed(target.0, self.world, to, &recorded);
        (changed.spec != target.0.spec).then_some(changed)
    }

    /// Returns why a target is given up that does not have the spec on record.
    fn unchanged(&self, target: Child<'_>, is_missing: bool) -> Option<String> {
        if !is_missing || self.status.is_decided() || self.is_edited() {
            return None;
        }
        if self.is_to_abort(target.uid()) {
            return Some("a user requested the abort".to_owned());
        }
        self.is_late().then(|| self.not_converted())
    }

    /// Says what keeps a child from a change that was made again and again.
    pub(crate) fn complain_of_change(&mut self, child: Child<'_>) {
        let message = format!("`{}` is not changed: {}", child.name(), self.not_converted());
        self.complain("NotReady", message);
    }

    /// Returns whether there is another spec than the one on record, which may not be carried out yet.
    pub(crate) fn is_edited(&self) -> bool {
        let stored = self.world.status.recorded().template;
        let is_other = |wanted| stored.is_none_or(|it| change(&it, wanted) != Change::None);
        self.wanted().is_ok_and(is_other)
    }

    /// Says what keeps a child from the spec on record.
    fn not_converted(&self) -> String {
        let grace = self.world.settings.grace;
        let why = self.world.facts.stopped_at.as_deref();
        let why = why.unwrap_or("it is given the spec and does not keep it, as with admission");
        format!("it did not get the spec within {grace:?}: {why}")
    }

    /// Applies an edit during the transition to the target.
    fn follow_edit(
        &mut self,
        to: Colour,
        target: Child<'_>,
        has_serving: bool,
        missing: Option<FlinkDeployment>,
    ) -> Option<Plan> {
        if self.status.is_decided() {
            return None;
        }
        if let (Ok(wanted), Some(recorded)) = (self.wanted(), self.recorded()) {
            let wish = change(&recorded, wanted);
            // Both would stop: the target takes over first.
            let waits = has_serving && is_suspended(wanted);
            if wish != Change::None && !waits {
                self.give_spec(to, target, wanted);
                let because = format!("changing `{}`", target.name());
                return Some(self.go_on(because, self.world.settings.interval));
            }
        }
        self.steps.push(Step::ChangeChild(Box::new(missing?)));
        if self.is_late() {
            self.complain_of_change(target);
        }
        self.report("Changing", format!("`{}` is changed", target.name()));
        let because = format!("changing `{}`", target.name());
        Some(self.go_on(because, self.world.settings.interval))
    }

    /// Waits until the target has been ready without interruption for a while.
    fn prove(&mut self, to: Colour, target: Child<'_>, serving: Child<'_>) -> Plan {
        let (name, interval) = (target.name(), self.world.settings.interval);
        if self.is_to_abort(target.uid()) {
            return self.abort(to, target, serving, "a user requested the abort");
        }
        if target.has_failed() {
            let why = target.error().unwrap_or_else(|| "its job is FAILED".to_owned());
            return self.abort(to, target, serving, &format!("its job failed: {why}"));
        }
        if !target.is_ready() {
            self.status.deployment_ready_timestamp = None;
            if self.is_late() {
                let why = target.error().map_or_else(String::new, |error| format!(": {error}"));
                let why = format!("it was not ready within {:?}{why}", self.world.settings.grace);
                return self.abort(to, target, serving, &why);
            }
            self.report(
                "Deploying",
                format!("`{name}` is starting and takes over when it is ready"),
            );
            let because = format!("waiting until `{name}` is ready");
            let since = self.reconciled_since();
            return self.wait_for(Awaited::ChildReady, since, because, interval);
        }
        let now = self.world.now;
        let since = self.status.ready_since().unwrap_or(now);
        self.status.deployment_ready_timestamp = Some(since.to_string());
        let delay = SignedDuration::try_from(self.world.settings.deletion_delay);
        let left = delay.unwrap_or(SignedDuration::MAX).saturating_sub(now.duration_since(since));
        let is_promoted = self.world.annotation(PROMOTE_ANNOTATION) == Some(target.uid());
        if left.is_positive() && !is_promoted {
            self.report(
                "Proving",
                format!(
                    "`{name}` is ready, and takes over at {:.0}",
                    now.saturating_add(left).unwrap_or(now)
                ),
            );
            let pause = std::time::Duration::try_from(left).unwrap_or(interval);
            let because = format!("`{name}` must stay ready");
            return self.wait_for(Awaited::ChildProof, since, because, pause);
        }
        self.decide(target, serving)
    }

    /// Decides the transition, which only goes forward from here.
    fn decide(&mut self, target: Child<'_>, serving: Child<'_>) -> Plan {
        let (name, former) = (target.name(), serving.name());
        self.status.deployment_ready_timestamp.get_or_insert(self.world.now.to_string());
        self.status.abort_timestamp = None;
        self.report("CuttingOver", format!("`{name}` takes over from `{former}`"));
        self.emit("CutOver", format!("`{name}` takes over from `{former}`"));
        self.go_on(format!("`{name}` takes over"), SOON)
    }

    /// Points the web UI to the target, and deletes the old child. Before that deletion, a target that is no longer
    /// ready has to prove itself again, and may be given up.
    fn cut_over(&mut self, to: Colour, target: Child<'_>, serving: Child<'_>) -> End {
        let (name, former) = (target.name(), serving.name());
        if !target.is_ready() && serving.runs() {
            self.status.abort_timestamp = Some(self.deadline());
            self.status.deployment_ready_timestamp = None;
            self.put_ingress_in_place(to.other())?;
            self.report("Deploying", format!("`{name}` must become ready again"));
            return Ok(self.go_on(format!("`{name}` is no longer ready"), SOON));
        }
        let is_led = self.put_ingress_in_place(to)?;
        self.status.error = None;
        self.pass_on_deletion(serving);
        self.report_deletion(serving);
        self.report("CuttingOver", format!("`{name}` takes over from `{former}`"));
        if !is_led {
            let because = format!("`{former}` stays while the web UI points to it");
            let since = self.reported_since(Some(INGRESS_REFUSED));
            let pause = self.world.settings.interval;
            return Ok(self.wait_for(Awaited::WebUi, since, because, pause));
        }
        self.delete(serving, &format!("`{name}` has taken over"));
        Ok(self.await_gone(serving, format!("waiting until `{former}` is gone")))
    }

    /// Settles the only running child, which is never given up, or reports what keeps it from its spec. The web UI
    /// leads to it before the state says that it serves.
    fn settle_in_place(&mut self, colour: Colour, child: Child<'_>) -> End {
        let name = child.name();
        if self.status.is_decided() || child.is_done() {
            self.put_ingress_in_place(colour)?;
            self.status.blue_green_state = Some(colour.active());
            self.forget_transition();
            self.set_as_wanted(child);
            self.emit("Deployed", format!("`{name}` matches the spec"));
            return Ok(self.go_on(format!("`{name}` serves"), SOON));
        }
        Ok(self.await_ready(child))
    }

    /// Deletes the target, and keeps what serves.
    fn abort(&mut self, to: Colour, target: Child<'_>, serving: Child<'_>, why: &str) -> Plan {
        let name = target.name();
        self.give_up(to, name, serving, why);
        self.write();
        if serving.runs() {
            self.discard_state(target);
        }
        self.delete(target, "the transition to it was aborted");
        self.go_on(format!("aborting the transition to `{name}`"), self.world.settings.interval)
    }

    /// Gives up a target that could not be created in time.
    fn give_up_unmade(&mut self, to: Colour, serving: Child<'_>, why: &str) -> Plan {
        let name = to.child_of(self.world.resource.metadata.name.as_deref().unwrap_or_default());
        let why = format!("it could not be created within {:?}: {why}", self.world.settings.grace);
        self.give_up(to, &name, serving, &why);
        self.go_on(format!("aborting the transition to `{name}`"), SOON)
    }

    fn give_up(&mut self, to: Colour, name: &str, serving: Child<'_>, why: &str) {
        let message = format!(
            "the transition to `{name}` was aborted: {why}. `{}` keeps serving. Change \
             spec.template, or try the same one again with `kubectl flink promote {} --retry`",
            serving.name(),
            self.world.resource.metadata.name.as_deref().unwrap_or_default()
        );
        self.status.blue_green_state = Some(to.other().active());
        self.record_spec_of(to.other(), serving);
        self.forget_transition();
        self.warn(ABORTED, message.clone());
        self.fail(ABORTED, message);
    }
}
