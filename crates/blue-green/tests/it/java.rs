//! The Java operator takes over for a while.
//!
//! This is a small model of what it does with the same status: it observes only readiness, creates or overwrites
//! children without checking what exists, deletes the previous child before the web UI leads to the next, keeps an
//! unused trigger, records the spec that it gave up, suspends a target that is late even if nothing else serves, and
//! ignores an edit while the job is down. It may die before its status is stored. No law applies to its writes, but to
//! what this operator does with them.
//!
//! Situations that nothing could mend afterwards are left out. If the Java operator gave up a lone green, the next edit
//! starts an empty blue beside it. It takes a recorded spec for the running one: it completes a transition whose target
//! this operator died before changing, or that it carried out itself and died before storing.

use std::collections::BTreeMap;
use std::time::Duration;

use api::PAUSED_ANNOTATION;
use api::blue_green::{BlueGreenState, BlueGreenStatus, Colour};
use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::job::JobState;
use api::status::{JobStatusState, LifecycleState};
use blue_green::change::{is_stateless, is_suspended};
use blue_green::child::{Child, template_of};
use blue_green::world::Savepoint;
use jiff::SignedDuration;
use lifecycle::diff::{ChangeClass, diff};
use serde_json::json;
use testing::choices::{Choices, seeds};

use crate::simulation::{mode, show_on_failure};
use crate::world::{BROKEN_IMAGE, RESOURCE_UID, Sim};

/// The Java operator's form of an unset time.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Java's classes of changes; the first that applies is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Change {
    Suspend,
    Resume,
    Redeploy,
    Ignore,
    Patch,
    Transition,
}

fn change(last: &FlinkDeploymentSpec, wanted: &FlinkDeploymentSpec) -> Change {
    let class = diff(last, wanted).class();
    match (is_suspended(last), is_suspended(wanted)) {
        (false, true) => Change::Suspend,
        (true, false) => Change::Resume,
        _ if class == ChangeClass::SavepointRedeploy => Change::Redeploy,
        _ if last == wanted => Change::Ignore,
        _ if class == ChangeClass::Ignore => Change::Patch,
        _ => Change::Transition,
    }
}

impl Sim {
    pub(crate) fn java_pass(&mut self) {
        use BlueGreenState as State;
        match self.status.blue_green_state {
            None => self.status.blue_green_state = Some(State::InitializingBlue),
            Some(State::InitializingBlue) => self.java_initialize(),
            // It looks for its children and fails if there are none.
            Some(_) if self.children.is_empty() => {}
            Some(State::ActiveBlue) => self.java_active(Colour::Blue),
            Some(State::ActiveGreen) => self.java_active(Colour::Green),
            Some(State::SavepointingBlue) => self.java_await_savepoint(Colour::Blue),
            Some(State::SavepointingGreen) => self.java_await_savepoint(Colour::Green),
            Some(State::TransitioningToBlue) => self.java_move_to(Colour::Blue),
            Some(State::TransitioningToGreen) => self.java_move_to(Colour::Green),
        }
    }

    fn java_does(&mut self, what: &str) {
        let line = format!("Java: {:?} {what}", self.status.blue_green_state);
        if self.log.last().is_none_or(|last| !last.ends_with(&line)) {
            self.log.push(format!("{} {line}", self.now));
        }
    }

    fn java_recorded(&self) -> Option<FlinkDeploymentSpec> {
        let text = self.status.last_reconciled_spec.as_deref()?;
        let stored: serde_json::Value = serde_json::from_str(text).unwrap();
        Some(serde_json::from_value(stored["spec"]["template"]["spec"].clone()).unwrap())
    }

    fn java_record(&mut self) {
        self.status.last_reconciled_spec = Some(json!({ "spec": self.resource.spec }).to_string());
    }

    fn java_fails(&mut self, message: &str) {
        self.java_does(message);
        self.status.job_status.state = Some(JobStatusState::Failing);
        self.status.error = Some(message.to_owned());
    }

    /// Readiness as Java sees it, for whichever spec the status is about.
    fn java_is_ready(&self, colour: Colour) -> bool {
        let status = self.children.get(&colour).and_then(|child| child.object.status.as_ref());
        status.is_some_and(|status| {
            status.lifecycle_state == Some(LifecycleState::Stable)
                && status.job_status.state == Some(JobStatusState::Running)
        })
    }

    fn java_initialize(&mut self) {
        let wanted = self.template().clone();
        if is_suspended(&wanted) {
            self.status.job_status.state = Some(JobStatusState::Suspended);
            return;
        }
        let is_failing = self.status.job_status.state == Some(JobStatusState::Failing);
        let last = self.java_recorded();
        let is_due = last.is_none_or(|last| is_failing && change(&last, &wanted) != Change::Ignore);
        if is_due && !self.children.contains_key(&Colour::Green) {
            self.java_record();
            self.java_initiate(Colour::Blue, None);
        }
    }

    fn java_active(&mut self, colour: Colour) {
        let Some(child) = self.children.get(&colour) else { return };
        let is_to_stop = Child(&child.object).is_to_stop();
        self.ingress = Some(colour);
        let wanted = self.template().clone();
        let last = self.java_recorded().unwrap();
        let wish = change(&last, &wanted);
        if wish == Change::Ignore {
            return;
        }
        if matches!(wish, Change::Suspend | Change::Resume) || is_to_stop {
            self.java_record();
            return self.java_patch(colour, true);
        }
        if !self.java_is_ready(colour) {
            if self.status.job_status.state != Some(JobStatusState::Failing) {
                self.java_record();
                self.java_fails("the transition is not possible, current not READY");
            }
            return;
        }
        match wish {
            Change::Transition => self.java_transition(colour, is_stateless(&wanted)),
            Change::Redeploy => {
                self.java_record();
                self.java_initiate(colour.other(), None);
            }
            _ => {
                self.java_record();
                self.java_patch(colour, true);
            }
        }
    }

    fn java_transition(&mut self, colour: Colour, is_stateless: bool) {
        let trigger = self.status.savepoint_trigger_id.clone();
        let path = match trigger {
            _ if is_stateless => None,
            None => {
                let id = self.id();
                self.trigger(colour, &id);
                self.floor = self.children[&colour].records;
                self.status.savepoint_trigger_id = Some(id);
                self.status.blue_green_state = Some(colour.savepointing());
                return self.java_does("takes a savepoint");
            }
            Some(id) => {
                self.java_record();
                let Savepoint::Completed { path } = self.savepoint(colour, &id) else {
                    self.status.savepoint_trigger_id = None;
                    return self.java_fails("Could not start Transition");
                };
                Some(path)
            }
        };
        self.java_record();
        self.java_initiate(colour.other(), path);
    }

    fn java_await_savepoint(&mut self, colour: Colour) {
        let Some(id) = self.status.savepoint_trigger_id.clone() else { return };
        let is_over = matches!(
            self.savepoint(colour, &id),
            Savepoint::Completed { .. } | Savepoint::Failed { .. } | Savepoint::NotFound
        );
        if is_over {
            self.status.blue_green_state = Some(colour.active());
        }
    }

    fn java_move_to(&mut self, to: Colour) {
        let Some(target) = self.children.get(&to) else { return };
        let target = Child(&target.object);
        let (is_to_stop, is_stopped) = (target.is_to_stop(), target.is_stopped());
        let wanted = self.template().clone();
        let last = self.java_recorded().unwrap();
        let wish = change(&last, &wanted);
        if !matches!(wish, Change::Suspend | Change::Ignore) {
            self.java_record();
            return self.java_patch(to, wish != Change::Redeploy);
        }
        let may_finish = if is_to_stop { is_stopped } else { self.java_is_ready(to) };
        if !may_finish {
            return self.java_check_abort(to);
        }
        if is_to_stop {
            return self.java_finish(to, JobStatusState::Suspended);
        }
        let from = to.other();
        if self.children.contains_key(&from) {
            let Some(since) = self.status.ready_since() else {
                self.status.deployment_ready_timestamp = Some(self.now.to_string());
                return;
            };
            let delay = SignedDuration::try_from(self.settings.deletion_delay).unwrap();
            if since + delay >= self.now {
                return;
            }
            // It does not wait until the child is gone.
            self.lose_child(from);
        }
        self.ingress = Some(to);
        self.java_finish(to, JobStatusState::Running);
    }

    fn java_reset(&mut self) {
        self.status.deployment_ready_timestamp = Some(EPOCH.to_owned());
        self.status.abort_timestamp = Some(EPOCH.to_owned());
        self.status.savepoint_trigger_id = None;
    }

    fn java_finish(&mut self, colour: Colour, job: JobStatusState) {
        self.java_does(&format!("serves {job:?}"));
        self.java_reset();
        self.status.blue_green_state = Some(colour.active());
        self.status.job_status.state = Some(job);
        if job == JobStatusState::Running {
            self.status.error = None;
        }
    }

    /// Suspends the target, even if it is the only serving one.
    fn java_check_abort(&mut self, to: Colour) {
        let Some(at) = self.status.aborts_at() else { return };
        if self.now <= at {
            return;
        }
        let child = self.children.get_mut(&to).unwrap();
        child.object.spec.job.as_mut().unwrap().state = JobState::Suspended;
        *child.object.metadata.generation.as_mut().unwrap() += 1;
        let is_alone = self.children.len() == 1;
        self.java_reset();
        self.status.blue_green_state =
            Some(if is_alone { BlueGreenState::InitializingBlue } else { to.other().active() });
        self.java_fails(if is_alone { "Aborting the only child" } else { "Aborting the target" });
    }

    /// Changes the child in place; it only keeps its previous state beside another child.
    fn java_patch(&mut self, colour: Colour, carries_over: bool) {
        let job = self.children[&colour].object.spec.job.clone().unwrap();
        let has_other = self.children.len() == 2;
        let path = job.initial_savepoint_path.filter(|_| has_other && carries_over);
        self.java_does("patches");
        self.java_initiate(colour, path);
    }

    /// Creates the child; an existing one keeps its status and continues from its own state.
    fn java_initiate(&mut self, colour: Colour, path: Option<String>) {
        let mut spec = self.template().clone();
        // This operator may start it again from the same state.
        let records = path.as_ref().map(|path| self.states[path]);
        self.floor = self.floor.min(records.unwrap_or(self.floor));
        let job = spec.job.as_mut().unwrap();
        job.initial_savepoint_path = path.or(job.initial_savepoint_path.take());
        let grace = SignedDuration::try_from(self.settings.grace).unwrap();
        self.status.blue_green_state = Some(colour.transitioning_to());
        self.status.abort_timestamp = Some((self.now + grace).to_string());
        self.status.job_status.state = Some(JobStatusState::Reconciling);
        self.status.error = None;
        self.java_does("initiates");
        if let Some(child) = self.children.get_mut(&colour) {
            if child.object.spec != spec {
                child.object.spec = spec;
                *child.object.metadata.generation.as_mut().unwrap() += 1;
            }
            return;
        }
        let mut object = FlinkDeployment::new("", spec);
        object.metadata = serde_json::from_value(json!({
            "name": colour.child_of("orders"), "namespace": "shop",
            "labels": {"flink/blue-green-deployment-type": colour.label()},
            "ownerReferences": [{"apiVersion": "flink.apache.org/v1beta1",
                "kind": "FlinkBlueGreenDeployment", "name": "orders", "uid": RESOURCE_UID}],
        }))
        .unwrap();
        self.insert(colour, object);
        self.floor = self.floor.min(self.children[&colour].records);
    }

    /// Makes the change of a target that this operator recorded before it died.
    pub(crate) fn make_recorded_change(&mut self) {
        let colour = match self.status.blue_green_state {
            Some(BlueGreenState::TransitioningToBlue) => Colour::Blue,
            Some(BlueGreenState::TransitioningToGreen) => Colour::Green,
            _ => return,
        };
        let (Some(child), Some(last)) = (self.children.get(&colour), self.java_recorded()) else {
            return;
        };
        let runs = template_of(&child.object, colour, &last);
        if change(&runs, &last) != Change::Ignore {
            self.pass(None);
        }
    }

    fn specs(&self) -> BTreeMap<Colour, FlinkDeploymentSpec> {
        self.children.iter().map(|(colour, it)| (*colour, it.object.spec.clone())).collect()
    }

    /// The Java operator makes some passes, and then this one continues from what is there.
    fn leave_to_java(&mut self, choices: &mut Choices) {
        self.make_recorded_change();
        self.log.push(format!("{} the Java operator", self.now));
        for _ in 0..=choices.below(30) {
            self.tick();
            if choices.below(8) == 0 {
                self.misfortune(choices);
            }
            let before: BlueGreenStatus = self.status.clone();
            let specs = self.specs();
            self.java_pass();
            let has_patched = specs.iter().any(|(colour, spec)| self.specs()[colour] != *spec);
            if choices.below(12) == 0 && !has_patched {
                self.log.push("  Java dies before its status is stored".to_owned());
                self.status = before;
            }
        }
        self.take_over(choices.below(2) == 0);
    }

    /// This operator continues from what is there. Which unknown fields the Java operator drops depends on how it
    /// writes a status.
    pub(crate) fn take_over(&mut self, keeps_conditions: bool) {
        if !keeps_conditions {
            self.status.conditions.clear();
        }
        let serving = self.serving().map(|colour| self.children[&colour].records);
        self.floor = self.floor.min(serving.unwrap_or_default());
        self.log.push(format!("{} this operator", self.now));
    }

    /// From now on nothing breaks and no one edits.
    fn leave_alone(&mut self) {
        (self.savepoint_fails, self.savepoint_takes) = (false, 2);
        self.annotate(PAUSED_ANNOTATION, "false".to_owned());
        for _ in 0..150 {
            self.tick();
            self.pass(None);
        }
    }

    /// The Java operator took a deleted target for a ready one and deleted the previous child for it, or suspended a
    /// target after the previous child was gone. This operator refuses to start an empty one until its user names a
    /// state.
    fn name_lost_state(&mut self) -> bool {
        for _ in 0..10 {
            self.tick();
            self.pass(None);
        }
        let error = self.status.error.as_deref().unwrap_or_default();
        if !error.contains("savepointRedeployNonce") {
            return false;
        }
        assert!(!is_stateless(self.template()), "there is no state to name");
        self.redeploy();
        true
    }

    /// The law: the Java operator does nothing to what this operator left settled.
    fn assert_java_rests(&mut self) {
        let (status, specs) = (self.status.clone(), self.specs());
        for _ in 0..5 {
            self.java_pass();
        }
        assert_eq!(self.status, status);
        assert_eq!(self.specs(), specs);
    }
}

/// Actions that must occur in some run.
const DEEDS: [&str; 8] = [
    "takes a savepoint",
    "initiates",
    "patches",
    "serves Running",
    "serves Suspended",
    "not READY",
    "Aborting the target",
    "Aborting the only child",
];

#[test]
fn spells_of_the_java_operator_leave_nothing_that_cannot_be_gone_on_from() {
    let (mut done, mut lost) = ([0; DEEDS.len()], 0);
    for seed in seeds(64) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new(mode(seed));
        sim.settings.deletion_delay = Duration::from_secs(seed % 4 * 3);
        show_on_failure(seed, &mut sim, |sim| {
            let mut was_lost = false;
            match seed % 4 {
                0 | 2 => sim.settle(),
                // The first child does not start.
                1 => sim.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned())),
                _ => {}
            }
            for _ in 0..120 {
                sim.tick();
                if choices.below(10) == 0 {
                    sim.misfortune(&mut choices);
                }
                if choices.below(15) == 0 {
                    sim.leave_to_java(&mut choices);
                    let serving = sim.serving().and_then(|colour| sim.children.get(&colour));
                    was_lost |= serving.is_none_or(|child| Child(&child.object).is_deleting());
                }
                let crash_at = choices.crash(6, 5);
                sim.pass(crash_at);
            }
            sim.leave_alone();
            sim.assert_reported();
            sim.heal();
            let is_lost = sim.name_lost_state();
            assert!(!is_lost || was_lost, "nobody serves, and it was not the Java operator");
            lost += usize::from(is_lost);
            sim.settle();
            sim.assert_rests();
            sim.assert_java_rests();
        });
        for (count, deed) in done.iter_mut().zip(DEEDS) {
            let is_it = |line: &&String| line.contains("Java: ") && line.contains(deed);
            *count += sim.log.iter().filter(is_it).count();
        }
    }
    assert!(done.iter().all(|count| *count > 0), "{DEEDS:?} {done:?}");
    println!("the Java operator lost {lost} jobs");
}
