//! Decisions in single situations. The first ones are open bugs of the Java operator, named by their number there or by
//! what they do.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use api::PAUSED_ANNOTATION;
use api::blue_green::{ABORT_ANNOTATION, BlueGreenState, Colour, RETRY_ANNOTATION};
use api::job::{JobState, UpgradeMode};
use api::status::{JobStatusState, LifecycleState};
use blue_green::child::Child;
use blue_green::plan::Step;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lifecycle::conditions::{ReportedWait, UPGRADES_PAUSED, WAITS_FOR_TURN};
use lifecycle::wait::Awaited;
use lifecycle::world::{Fact, Turn};
use serde_json::json;
use state::revision::RestoreKind;
use testing::operated::Operated;
use testing::sources::path;
use testing::tools;

use crate::world::{
    BROKEN_IMAGE, DELETION_WAITS, FAILING_PARALLELISM, NAMED_STATE, SAVEPOINT_ON_DELETION, Sim,
};

fn serving(mode: UpgradeMode) -> Sim {
    let mut sim = Sim::new(mode);
    sim.settle();
    sim
}

impl Sim {
    /// Runs passes, a second apart, until the condition holds.
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..200 {
            if is_so(self) {
                return;
            }
            self.tick();
            self.pass(None);
        }
        panic!("never {what}: {:?} {:?}", self.status, self.log);
    }

    fn until_it_runs(&mut self) {
        while !self.runs(Colour::Blue) {
            self.tick();
        }
    }

    fn is_in(&self, state: BlueGreenState) -> bool {
        self.status.blue_green_state == Some(state)
    }

    fn has_reason(&self, reason: &str) -> bool {
        self.status.conditions.iter().any(|it| it.reason.as_deref() == Some(reason))
    }

    fn is_given_up(&self) -> bool {
        self.has_reason("Aborted") && self.is_in(BlueGreenState::ActiveBlue)
    }

    fn until_reported(&mut self, beginning: &str) {
        self.until("told", |sim| {
            sim.status.error.as_ref().is_some_and(|error| error.starts_with(beginning))
        });
    }

    fn uid(&self, colour: Colour) -> Option<String> {
        self.children.get(&colour).map(|child| Child(&child.object).uid().to_owned())
    }
}

#[test]
fn the_spec_that_served_is_stored_with_the_savepoint_that_it_left() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("started", |sim| sim.children.len() == 2);
    let [revision] = sim.revisions.as_slice() else { panic!("{:?}", sim.revisions) };
    assert_eq!(revision.content.spec["job"]["parallelism"], 2);
    let path = revision.content.restore_point.path.clone().unwrap();
    let target = &sim.children[&Colour::Green].object;
    assert_eq!(target.spec.job.as_ref().unwrap().initial_savepoint_path, Some(path.clone()));
    assert_eq!(sim.kept, BTreeSet::from([path]), "it is a FlinkStateSnapshot, too");
}

/// A host that happens to begin like those of the children belongs to the template itself.
#[test]
fn the_spec_that_served_is_stored_as_the_template_has_it() {
    const HOST: &str = "blue-{{name}}.example.com";
    let mut sim = Sim::new(UpgradeMode::Savepoint);
    sim.edit(|spec| spec.ingress = serde_json::from_value(json!({"template": HOST})).unwrap());
    sim.settle();
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("started", |sim| sim.children.len() == 2);
    assert_eq!(sim.revisions[0].content.spec["ingress"]["template"], HOST);
}

#[test]
fn children_have_the_labels_of_the_template_and_those_that_the_operator_selects_by() {
    for (inherits, team) in [(false, None), (true, Some("orders"))] {
        let mut sim = Sim::new(UpgradeMode::Savepoint);
        sim.inherits_labels = inherits;
        let labels = |key: &str, value: &str| {
            let labels = [(key.to_owned(), value.to_owned())];
            ObjectMeta { labels: Some(labels.into()), ..ObjectMeta::default() }
        };
        sim.resource.metadata.labels = labels("team", "orders").labels;
        sim.resource.spec.template.as_mut().unwrap().metadata = Some(labels("tier", "gold"));
        sim.settle();
        let of_child = sim.children[&Colour::Blue].object.metadata.labels.clone().unwrap();
        assert_eq!(of_child.get("team").map(String::as_str), team);
        assert_eq!(of_child["tier"], "gold");
        assert_eq!(of_child["flink/blue-green-deployment-type"], "BLUE");
    }
}

#[test]
fn what_the_autoscaler_knows_goes_along_unless_it_is_to_begin_anew() {
    for nonce in [None, Some(1)] {
        let mut sim = serving(UpgradeMode::Savepoint);
        sim.edit_job(|job| {
            job.parallelism = Some(3);
            job.autoscaler_reset_nonce = nonce;
        });
        sim.until("started", |sim| sim.children.len() == 2);
        assert_eq!(sim.is_reset, Some(nonce.is_some()));
        // A target that is created again gets what the first one got.
        sim.is_reset = None;
        sim.lose_child(Colour::Green);
        sim.until("made again", |sim| sim.is_reset.is_some());
        assert_eq!(sim.is_reset, Some(nonce.is_some()));
    }
}

/// A new nonce without a path would discard the existing state.
#[test]
fn a_new_nonce_without_a_state_is_refused() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.savepoint_redeploy_nonce = Some(1));
    sim.until("refused", |sim| sim.status.error.is_some());
    let error = sim.status.error.clone().unwrap();
    assert!(error.contains("initialSavepointPath: must be set"), "{error}");
    assert_eq!((sim.children.len(), sim.serving()), (1, Some(Colour::Blue)));
}

#[test]
fn a_spec_that_serves_through_many_attempts_is_one_revision() {
    let mut sim = serving(UpgradeMode::Savepoint);
    for parallelism in 3..6 {
        sim.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned()));
        sim.edit_job(|job| job.parallelism = Some(parallelism));
        sim.until("tried", |sim| sim.is_in(BlueGreenState::TransitioningToGreen));
        sim.until("given up", Sim::is_given_up);
    }
    let [revision] = sim.revisions.as_slice() else { panic!("{:?}", sim.revisions) };
    assert_eq!(revision.number, 3, "a number names one revision for ever");
}

/// It starts from its last checkpoint, not from the older state that its user once chose.
#[test]
fn a_redeploy_does_not_say_that_what_it_starts_from_was_left() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.redeploy();
    sim.until("started", |sim| sim.children.len() == 2);
    let [revision] = sim.revisions.as_slice() else { panic!("{:?}", sim.revisions) };
    assert_eq!((&sim.kept, &revision.content.restore_point.path), (&BTreeSet::new(), &None));
    assert_eq!(revision.content.restore_point.kind, RestoreKind::LastState);
}

#[test]
fn a_job_that_serves_and_fails_is_reported_until_it_runs_again() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.children.get_mut(&Colour::Blue).unwrap().fail();
    sim.until("told", |sim| sim.status.job_status.state == Some(JobStatusState::Failing));
    let error = sim.status.error.clone().unwrap();
    assert!(error.starts_with("the job of `orders-blue` is not running"), "{error}");
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.settle();
    assert_eq!(
        (sim.status.job_status.state, &sim.status.error),
        (Some(JobStatusState::Running), &None)
    );
}

/// #1161: the old child is gone but this is not recorded yet, and the target is briefly not ready after the grace
/// period.
#[test]
fn upstream_1161_what_alone_is_left_is_never_given_up() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("cut over", |sim| {
        sim.is_in(BlueGreenState::TransitioningToGreen) && sim.children.len() == 2
    });
    sim.until("deleted", |sim| !sim.children.contains_key(&Colour::Blue));
    // As the Java operator leaves it: with an abort time.
    sim.status.abort_timestamp = Some(sim.now.to_string());
    sim.children.get_mut(&Colour::Green).unwrap().unready = 20;
    for _ in 0..15 {
        sim.tick();
        sim.pass(None);
        let green = &sim.children[&Colour::Green].object;
        assert!(!Child(green).is_to_stop() && !Child(green).is_deleting());
    }
    sim.settle();
    assert_eq!(sim.serving(), Some(Colour::Green));
}

/// Once the former deployment is deleted, the transition is over: no setback of the new one leads back.
#[test]
fn flink_40092_a_target_that_is_alone_serves() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("made", |sim| sim.children.len() == 2);
    sim.until("deleted", |sim| !sim.children.contains_key(&Colour::Blue));
    sim.children.get_mut(&Colour::Green).unwrap().unready = 1000;
    for _ in 0..60 {
        sim.tick();
        sim.pass(None);
        assert!(!Child(&sim.children[&Colour::Green].object).is_to_stop());
    }
    assert_eq!((sim.serving(), sim.aborts), (Some(Colour::Green), 0));
}

/// What was measured of a target that was given up says nothing about the next one.
#[test]
fn flink_40119_each_target_is_ready_for_the_delay_before_the_former_one_goes() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.settings.deletion_delay = std::time::Duration::from_secs(20);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("ready", |sim| sim.status.deployment_ready_timestamp.is_some());
    let target = sim.uid(Colour::Green).unwrap();
    sim.annotate(ABORT_ANNOTATION, target);
    sim.until("given up", Sim::is_given_up);
    for _ in 0..60 {
        sim.tick();
        sim.pass(None);
    }
    sim.edit_job(|job| job.parallelism = Some(4));
    sim.until("ready", |sim| sim.status.deployment_ready_timestamp.is_some());
    let ready = sim.now;
    sim.until("to be deleted", |sim| {
        sim.children.get(&Colour::Blue).is_none_or(|blue| Child(&blue.object).is_deleting())
    });
    assert!(sim.now.duration_since(ready).as_secs() >= 20, "{:?}", sim.log);
}

/// #1072: the recorded spec is that of the serving child, even if another one was given up.
#[test]
fn upstream_1072_going_back_to_the_old_text_switches_nothing() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned()));
    sim.until("given up", Sim::is_given_up);
    let error = sim.status.error.clone().unwrap();
    assert!(
        error.contains("the transition to `orders-green` was aborted")
            && error.contains("no such image"),
        "{error}"
    );
    assert!(!sim.status.last_reconciled_spec.as_ref().unwrap().contains(BROKEN_IMAGE));
    // The same spec is not retried automatically.
    for _ in 0..60 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_given_up() && sim.uid(Colour::Green).is_none());
    let blue = sim.uid(Colour::Blue);
    sim.edit(|spec| spec.image = Some("flink:1.20".to_owned()));
    sim.settle();
    assert_eq!((sim.uid(Colour::Blue), sim.status.error.clone()), (blue, None));
    assert_eq!(sim.switches, 1, "the first deployment");
}

#[test]
fn a_spec_that_was_given_up_is_tried_again_once_when_that_is_asked_for() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned()));
    for aborts in 1..=2 {
        sim.until("given up", |sim| sim.aborts == aborts && sim.is_given_up());
        let condition =
            sim.status.conditions.iter().find(|it| it.reason.as_deref() == Some("Aborted"));
        let since = condition.unwrap().last_transition_time.clone().unwrap();
        for _ in 0..10 {
            sim.tick();
            sim.pass(None);
        }
        assert_eq!(sim.aborts, aborts);
        sim.annotate(RETRY_ANNOTATION, since);
        sim.until("tried again", |sim| sim.is_in(BlueGreenState::TransitioningToGreen));
    }
}

/// Java suspends the serving child if an in-place change of it does not become ready.
#[test]
fn a_change_in_place_that_does_not_become_ready_stops_nothing() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.state = JobState::Suspended);
    sim.settle();
    sim.edit(|spec| {
        spec.image = Some(BROKEN_IMAGE.to_owned());
        spec.job.as_mut().unwrap().state = JobState::Running;
    });
    for _ in 0..60 {
        sim.tick();
        sim.pass(None);
    }
    assert!(!Child(&sim.children[&Colour::Blue].object).is_to_stop());
    let error = sim.status.error.clone().unwrap();
    assert!(
        error.contains("`orders-blue` is not ready") && error.contains("no such image"),
        "{error}"
    );
    sim.edit(|spec| spec.image = Some("flink:1.20".to_owned()));
    sim.settle();
    sim.assert_rests();
}

/// Java: after a failed first deployment neither a suspension nor an edit helps.
#[test]
fn a_first_deployment_that_failed_is_mended_by_an_edit() {
    for is_suspended_between in [false, true] {
        let mut sim = Sim::new(UpgradeMode::Savepoint);
        sim.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned()));
        for _ in 0..60 {
            sim.tick();
            sim.pass(None);
        }
        assert!(sim.status.error.as_ref().unwrap().contains("no such image"));
        if is_suspended_between {
            sim.edit_job(|job| job.state = JobState::Suspended);
            for _ in 0..20 {
                sim.tick();
                sim.pass(None);
            }
            sim.edit_job(|job| job.state = JobState::Running);
        }
        sim.edit(|spec| spec.image = Some("flink:1.20".to_owned()));
        sim.settle();
        sim.assert_rests();
    }
}

/// The operator died after starting it, before recording that.
#[test]
fn a_first_child_that_runs_unrecorded_is_not_taken_down_for_an_edit() {
    let mut sim = Sim::new(UpgradeMode::Savepoint);
    sim.pass(Some(1));
    sim.until_it_runs();
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.settle();
    assert_eq!((sim.serving(), sim.switches), (Some(Colour::Green), 1));
}

/// As the Java operator leaves a first deployment that it gave up: the child is suspended.
#[test]
fn a_first_deployment_that_the_java_operator_gave_up_waits_for_another_spec() {
    for job in [JobStatusState::Failing, JobStatusState::Suspended] {
        let mut sim = serving(UpgradeMode::Savepoint);
        sim.children.get_mut(&Colour::Blue).unwrap().object.spec.job.as_mut().unwrap().state =
            JobState::Suspended;
        *sim.children
            .get_mut(&Colour::Blue)
            .unwrap()
            .object
            .metadata
            .generation
            .as_mut()
            .unwrap() += 1;
        sim.status.blue_green_state = Some(BlueGreenState::InitializingBlue);
        sim.status.job_status.state = Some(job);
        sim.status.conditions.clear();
        for _ in 0..5 {
            sim.tick();
            sim.pass(None);
        }
        let is_left_alone = Child(&sim.children[&Colour::Blue].object).is_to_stop();
        assert_eq!(is_left_alone, job == JobStatusState::Failing);
        sim.edit_job(|job| job.parallelism = Some(4));
        sim.settle();
        sim.assert_rests();
    }
}

/// Java: an edit that is reverted while the savepoint is taken leaves its trigger to be used by the next edit, minutes
/// later.
#[test]
fn a_savepoint_that_was_not_used_is_not_used_later() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("saved", |sim| sim.is_in(BlueGreenState::SavepointingBlue));
    let former = sim.status.savepoint_trigger_id.clone().unwrap();
    sim.edit_job(|job| job.parallelism = Some(2));
    sim.until("left", |sim| sim.is_in(BlueGreenState::ActiveBlue));
    assert_eq!(sim.status.savepoint_trigger_id, None);
    // As the Java operator leaves it.
    sim.status.savepoint_trigger_id = Some(former.clone());
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
    sim.edit_job(|job| job.parallelism = Some(5));
    sim.until("started", |sim| sim.children.contains_key(&Colour::Green));
    let green = &sim.children[&Colour::Green].object;
    let path = green.spec.job.as_ref().unwrap().initial_savepoint_path.clone().unwrap();
    assert!(!path.contains(&former), "{path}");
    sim.settle();
}

/// No child was changed for it, but one that fails meanwhile must be reported.
#[test]
fn a_job_that_fails_alongside_a_savepoint_that_is_not_wanted_any_more_is_reported() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("saved", |sim| sim.is_in(BlueGreenState::SavepointingBlue));
    sim.edit_job(|job| job.parallelism = Some(2));
    sim.children.get_mut(&Colour::Blue).unwrap().fail();
    sim.until("told", |sim| {
        sim.status.error.as_ref().is_some_and(|error| error.contains("the sink is gone"))
    });
}

/// Java rejects every edit while the serving job is not ready.
#[test]
fn a_job_that_is_down_is_repaired_by_an_edit() {
    let mut sim = serving(UpgradeMode::Savepoint);
    let blue = sim.uid(Colour::Blue);
    sim.children.get_mut(&Colour::Blue).unwrap().fail();
    for _ in 0..5 {
        sim.tick();
        sim.pass(None);
    }
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.settle();
    assert_eq!(sim.uid(Colour::Blue), blue, "its own state is what it goes on from");
}

/// Java overwrites it.
#[test]
fn somebody_elses_deployment_of_that_name_is_left_alone() {
    let mut sim = serving(UpgradeMode::Savepoint);
    let mut foreign = sim.children[&Colour::Blue].clone();
    foreign.object.metadata.owner_references = None;
    foreign.object.metadata.name = Some("orders-green".to_owned());
    sim.children.insert(Colour::Green, foreign);
    sim.edit_job(|job| job.parallelism = Some(3));
    for _ in 0..20 {
        sim.tick();
        let plan = sim.pass(None);
        assert!(plan.steps.iter().all(|step| matches!(step, Step::Event(_))), "{:?}", plan.steps);
    }
    assert!(sim.status.error.as_ref().unwrap().contains("does not belong to it"));
    sim.children.remove(&Colour::Green);
    sim.settle();
}

#[test]
fn a_child_that_served_and_is_gone_is_not_replaced_by_an_empty_one() {
    let mut sim = serving(UpgradeMode::LastState);
    sim.lose_child(Colour::Blue);
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.children.is_empty());
    assert!(sim.status.error.as_ref().unwrap().contains("savepointRedeployNonce"));
    sim.redeploy();
    sim.settle();
    sim.assert_rests();
}

#[test]
fn a_child_that_was_replaced_unrecorded_gets_the_spec_that_is_wanted_by_then() {
    for crash_at in 0..5 {
        let mut sim = serving(UpgradeMode::Stateless);
        sim.lose_child(Colour::Blue);
        while !sim.children.is_empty() {
            sim.tick();
        }
        sim.edit_job(|job| job.parallelism = Some(3));
        sim.pass(Some(crash_at));
        sim.edit_job(|job| job.parallelism = Some(2));
        sim.settle();
        sim.assert_rests();
    }
}

/// The operator died before the rest of the change was stored.
#[test]
fn a_child_that_was_replaced_unrecorded_and_fails_is_reported() {
    let mut sim = serving(UpgradeMode::Stateless);
    sim.lose_child(Colour::Blue);
    while !sim.children.is_empty() {
        sim.tick();
    }
    sim.pass(Some(2));
    sim.tick();
    sim.children.get_mut(&Colour::Blue).unwrap().fail();
    sim.until("told", |sim| {
        sim.status.error.as_ref().is_some_and(|error| error.contains("the sink is gone"))
    });
}

/// A stop with a savepoint leaves a `FINISHED` job, and so does a job that ran to its end.
#[test]
fn a_job_is_stopped_or_runs_when_its_child_says_so() {
    let mut sim = serving(UpgradeMode::Savepoint);
    for (wanted, told, lifecycle) in [
        (JobState::Suspended, JobStatusState::Suspended, LifecycleState::Suspended),
        (JobState::Running, JobStatusState::Running, LifecycleState::Stable),
    ] {
        sim.edit_job(|job| job.state = wanted);
        sim.pass(None);
        sim.until("told", |sim| sim.status.job_status.state == Some(told));
        let child = Child(&sim.children[&Colour::Blue].object);
        assert_eq!(child.lifecycle(), Some(lifecycle), "{told:?} is told");
    }
}

/// The nonce says that a state is named, even if the same edit resumes the job.
#[test]
fn a_job_that_is_resumed_with_a_named_state_starts_from_that() {
    let resume_from_a_name = |sim: &mut Sim| {
        sim.edit_job(|job| job.state = JobState::Running);
        sim.redeploy();
        sim.settle();
        let colour = sim.serving().unwrap();
        let job = sim.children[&colour].object.spec.job.clone().unwrap();
        assert_eq!(job.initial_savepoint_path.as_deref(), Some(NAMED_STATE));
        sim.assert_rests();
    };
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.state = JobState::Suspended);
    sim.settle();
    resume_from_a_name(&mut sim.clone());
    // The same applies if the child is gone meanwhile.
    sim.lose_child(Colour::Blue);
    resume_from_a_name(&mut sim);
}

#[test]
fn a_target_that_fails_is_given_up_at_once() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.settings.deletion_delay = std::time::Duration::from_secs(20);
    sim.edit_job(|job| job.parallelism = Some(FAILING_PARALLELISM));
    let begun = sim.now;
    sim.until("given up", Sim::is_given_up);
    assert!(sim.now.duration_since(begun).as_secs() < 20, "{:?}", sim.log);
    assert_eq!(sim.serving(), Some(Colour::Blue));
}

/// A target that becomes unready restarts its deletion delay once it is ready again.
/// A suspend waits for the target of a transition. If the target is given up, the child that keeps serving is suspended.
#[test]
fn a_suspend_during_a_transition_outlives_its_abort() {
    for by_a_user in [false, true] {
        let mut sim = serving(UpgradeMode::Savepoint);
        sim.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned()));
        sim.until("started", |sim| sim.is_in(BlueGreenState::TransitioningToGreen));
        sim.until("made", |sim| sim.children.len() == 2);
        sim.edit_job(|job| job.state = JobState::Suspended);
        if by_a_user {
            let target = sim.uid(Colour::Green).unwrap();
            sim.annotate(ABORT_ANNOTATION, target);
        }
        sim.until("aborted", |sim| sim.aborts == 1);
        sim.until("suspended", |sim| {
            let blue = &sim.children[&Colour::Blue].object;
            Child(blue).is_to_stop() && Child(blue).is_stopped()
        });
        sim.settle();
        sim.assert_rests();
        assert_eq!(sim.status.error, None);
        assert_eq!(sim.status.job_status.state, Some(JobStatusState::Suspended));
    }
}

/// A target that never served has the state of what serves, and nobody needs a savepoint of it.
#[test]
fn an_aborted_target_is_deleted_without_a_savepoint() {
    for crashes_at in [None, Some("write-status"), Some("change-child"), Some("delete-child")] {
        let mut sim = Sim::new(UpgradeMode::Savepoint);
        sim.save_on_deletion(true);
        sim.settle();
        sim.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned()));
        let steps = loop {
            sim.tick();
            let steps = sim.clone().plan().steps;
            if steps.iter().any(|it| it.name() == "delete-child") {
                break steps;
            }
            sim.pass(None);
        };
        let crash = crashes_at.map(|name| steps.iter().position(|it| it.name() == name).unwrap());
        sim.pass(crash);
        sim.until("gone", |sim| sim.children.len() == 1);
        sim.until("idle", |sim| sim.clone().plan().steps.is_empty());
        assert!(sim.is_given_up(), "{crashes_at:?}: {:?}", sim.status);
        let own = &sim.children[&Colour::Blue].object.spec.flink_configuration.0;
        assert_eq!(own[SAVEPOINT_ON_DELETION], "true", "what serves is still saved");
        sim.edit(|spec| spec.image = Some("flink:1.20.1".to_owned()));
        sim.settle();
        let own = &sim.children[&Colour::Green].object.spec.flink_configuration.0;
        assert_eq!(own[SAVEPOINT_ON_DELETION], "true");
    }
}

/// If nothing else runs, the target may be all that went on.
#[test]
fn a_target_alongside_a_job_that_is_down_is_not_deleted_without_its_savepoint() {
    let mut sim = Sim::new(UpgradeMode::Savepoint);
    sim.save_on_deletion(true);
    sim.settle();
    sim.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned()));
    sim.until("started", |sim| sim.children.len() == 2);
    sim.children.get_mut(&Colour::Blue).unwrap().unready = 10_000;
    sim.until("given up", Sim::is_given_up);
    let own = &sim.children[&Colour::Green].object.spec.flink_configuration.0;
    assert_eq!(own[SAVEPOINT_ON_DELETION], "true");
}

/// The child's own status is not where its user looks, and its spec belongs to this resource.
#[test]
fn what_a_child_waits_for_at_its_deletion_is_reported_and_can_be_ended_here() {
    let mut sim = Sim::new(UpgradeMode::Savepoint);
    sim.save_on_deletion(true);
    sim.settle();
    sim.edit(|spec| spec.image = Some("flink:1.20.1".to_owned()));
    sim.until("started", |sim| sim.children.len() == 2);
    sim.children.get_mut(&Colour::Blue).unwrap().unready = 10_000;
    sim.until("told", |sim| {
        sim.status.error.as_ref().is_some_and(|error| error.contains(DELETION_WAITS))
    });
    let error = sim.status.error.clone().unwrap();
    assert!(error.starts_with("`orders-blue` is being deleted and waits: "), "{error}");
    assert!(error.contains("`spec.template.spec.flinkConfiguration` of this resource"), "{error}");
    assert_eq!(sim.children.len(), 2);
    sim.save_on_deletion(false);
    sim.until("gone", |sim| !sim.children.contains_key(&Colour::Blue));
    sim.settle();
    assert_eq!(sim.status.error, None);
}

/// Its own lifecycle may be done with it.
#[test]
fn finalizers_that_hold_a_child_are_named() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("ending", |sim| sim.children[&Colour::Blue].gone_in.is_some());
    let blue = sim.children.get_mut(&Colour::Blue).unwrap();
    blue.gone_in = Some(90);
    blue.object.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    sim.until_reported(
        "`orders-blue` is being deleted and waits: its finalizers are [example.com/hold]",
    );
    sim.until("gone", |sim| !sim.children.contains_key(&Colour::Blue));
    sim.settle();
    assert_eq!(sim.status.error, None);
}

#[test]
fn a_change_that_waits_for_a_job_that_does_not_run_is_reported() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.settings.grace = std::time::Duration::from_mins(1);
    sim.children.get_mut(&Colour::Blue).unwrap().unready = 100;
    sim.tick();
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("waiting", |sim| sim.has_reason("WaitingForJob"));
    assert_eq!(sim.status.error, None);
    let since = sim.now;
    sim.until_reported(
        "the change waits for the job of `orders-blue`, which is starting or recovering. ",
    );
    assert!(sim.now.duration_since(since).as_secs() >= 60, "{since} {}", sim.now);
    sim.until("taking it", |sim| sim.is_in(BlueGreenState::SavepointingBlue));
    assert_eq!(sim.status.error, None);
    sim.settle();
}

#[test]
fn a_web_ui_that_holds_up_the_end_of_a_transition_is_reported() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.ingress_refused = true;
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("refused", |sim| sim.has_reason("IngressRefused"));
    sim.until_reported("`orders-blue` stays while the web UI points to it. ");
    assert_eq!(sim.children.len(), 2);
    sim.ingress_refused = false;
    sim.until("pointed to", |sim| sim.ingress == Some(Colour::Green));
    assert_eq!(sim.status.error, None);
    sim.settle();
}

#[test]
fn a_target_has_to_be_ready_without_a_break() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.settings.deletion_delay = std::time::Duration::from_secs(15);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("ready", |sim| sim.status.deployment_ready_timestamp.is_some());
    let first = sim.status.deployment_ready_timestamp.clone();
    sim.children.get_mut(&Colour::Green).unwrap().unready = 3;
    sim.until("unready", |sim| sim.status.deployment_ready_timestamp.is_none());
    sim.until("ready again", |sim| sim.status.deployment_ready_timestamp.is_some());
    assert_ne!(sim.status.deployment_ready_timestamp, first);
    sim.settle();
}

/// The Java operator keeps a path it does not know in the status across its own transitions.
#[test]
fn a_target_that_is_made_again_starts_from_the_state_of_its_own_transition() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("saved", |sim| sim.is_in(BlueGreenState::SavepointingBlue));
    let trigger = sim.status.savepoint_trigger_id.clone();
    sim.until("started", |sim| sim.is_in(BlueGreenState::TransitioningToGreen));
    let path = sim.status.job_status.upgrade_savepoint_path.clone();
    let of_green = |sim: &Sim| {
        let job = sim.children[&Colour::Green].object.spec.job.clone().unwrap();
        job.initial_savepoint_path
    };
    let again = |sim: &mut Sim| {
        sim.lose_child(Colour::Green);
        let former = sim.uid(Colour::Green);
        sim.until("made again", |sim| {
            sim.children.contains_key(&Colour::Green) && sim.uid(Colour::Green) != former
        });
        of_green(sim)
    };
    let mut java = sim.clone();
    java.status.savepoint_trigger_id = trigger;
    java.status.job_status.upgrade_savepoint_path = Some("s3://sp/earlier".to_owned());
    assert_eq!(again(&mut java), path);
    // An edit that names a state takes precedence.
    sim.redeploy();
    sim.until("changed", |sim| of_green(sim).as_deref() == Some(NAMED_STATE));
    assert_eq!(again(&mut sim).as_deref(), Some(NAMED_STATE));
}

/// Scripts wait for the state and then read the Ingress.
#[test]
fn the_web_ui_leads_to_a_first_deployment_once_its_state_says_that_it_serves() {
    let mut sim = Sim::new(UpgradeMode::Stateless);
    sim.until("active", |sim| sim.is_in(BlueGreenState::ActiveBlue));
    assert_eq!(sim.ingress, Some(Colour::Blue));
}

/// The operator died in between: the web UI already led to the target, and the previous child was not deleted.
#[test]
fn the_web_ui_leads_back_from_a_target_that_has_to_prove_itself_again() {
    for is_lost in [false, true] {
        let mut sim = serving(UpgradeMode::Savepoint);
        sim.edit_job(|job| job.parallelism = Some(3));
        sim.until("decided", |sim| sim.status.is_decided());
        sim.pass(Some(1));
        assert_eq!((sim.ingress, sim.children.len()), (Some(Colour::Green), 2));
        if is_lost {
            sim.lose_child(Colour::Green);
        } else {
            sim.children.get_mut(&Colour::Green).unwrap().unready = 5;
        }
        sim.until("proving", |sim| !sim.status.is_decided());
        assert_eq!(sim.ingress, Some(Colour::Blue));
        sim.settle();
        assert_eq!(sim.serving(), Some(Colour::Green));
    }
}

/// What the Java operator stores in each state: unset times are the epoch, and there are no conditions.
#[test]
fn a_resource_is_taken_over_from_the_java_operator_in_each_state() {
    const EPOCH: &str = "1970-01-01T00:00:00Z";
    let mut sim = serving(UpgradeMode::Savepoint);
    let forget = |sim: &mut Sim| {
        sim.status.conditions.clear();
        sim.status.job_status.upgrade_savepoint_path = None;
        for time in [&mut sim.status.abort_timestamp, &mut sim.status.deployment_ready_timestamp] {
            time.get_or_insert(EPOCH.to_owned());
        }
    };
    forget(&mut sim);
    let uid = sim.uid(Colour::Blue);
    sim.settle();
    assert_eq!((sim.uid(Colour::Blue), sim.children.len()), (uid, 1), "nothing is redeployed");
    // It waits for a savepoint forever.
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.until("saved", |sim| sim.is_in(BlueGreenState::SavepointingBlue));
    sim.status.abort_timestamp = None;
    forget(&mut sim);
    sim.until("started", |sim| sim.is_in(BlueGreenState::TransitioningToGreen));
    // The path is only known from the trigger.
    let green = sim.uid(Colour::Green);
    forget(&mut sim);
    sim.settle();
    assert_eq!(sim.uid(Colour::Green), green);
    sim.assert_rests();
}

/// After giving up a spec the Java operator has it recorded, and nothing says that it does not run.
#[test]
fn what_the_java_operator_gave_up_is_reported_and_not_tried_again_by_itself() {
    let mut sim = serving(UpgradeMode::Savepoint);
    let blue = sim.uid(Colour::Blue);
    sim.edit_job(|job| job.parallelism = Some(3));
    let refused = serde_json::json!({ "spec": sim.resource.spec });
    sim.status.last_reconciled_spec = Some(refused.to_string());
    sim.status.job_status.state = Some(JobStatusState::Failing);
    sim.status.error = Some("Aborting deployment 'orders-green'".to_owned());
    sim.status.conditions.clear();
    for _ in 0..100 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_given_up() && sim.uid(Colour::Green).is_none());
    assert_eq!(sim.status.error.as_deref(), Some("Aborting deployment 'orders-green'"));
    sim.edit_job(|job| job.parallelism = Some(2));
    sim.settle();
    assert_eq!((sim.uid(Colour::Blue), sim.status.error.clone()), (blue, None));
}

/// The Java operator keeps this operator's conditions, which describe what was in progress then.
#[test]
fn what_the_java_operator_gave_up_is_reported_alongside_a_condition_of_something_else() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.state = JobState::Suspended);
    sim.until("changed", |sim| sim.status.abort_timestamp.is_some());
    sim.edit_job(|job| job.state = JobState::Running);
    sim.until("changed back", |sim| !Child(&sim.children[&Colour::Blue].object).is_to_stop());
    // The second time with the same message.
    for parallelism in [3, 4] {
        sim.edit_job(|job| job.parallelism = Some(parallelism));
        let refused = serde_json::json!({ "spec": sim.resource.spec });
        sim.status.last_reconciled_spec = Some(refused.to_string());
        sim.status.job_status.state = Some(JobStatusState::Failing);
        sim.status.error = Some("Could not start Transition".to_owned());
        for _ in 0..20 {
            sim.tick();
            sim.pass(None);
        }
        assert!(sim.is_given_up());
        assert_eq!(sim.status.error.as_deref(), Some("Could not start Transition"));
    }
}

/// Another edit of something else does not apply it to the running job.
#[test]
fn what_the_java_operator_gave_up_does_not_come_with_a_change_in_place() {
    let mut sim = serving(UpgradeMode::Savepoint);
    let blue = sim.uid(Colour::Blue);
    sim.edit_job(|job| job.parallelism = Some(3));
    let refused = serde_json::json!({ "spec": sim.resource.spec });
    sim.status.last_reconciled_spec = Some(refused.to_string());
    sim.status.job_status.state = Some(JobStatusState::Failing);
    sim.status.error = Some("Could not start Transition".to_owned());
    sim.edit(|spec| {
        let interval = "kubernetes.operator.reconcile.interval".to_owned();
        spec.flink_configuration.0.insert(interval, "1 min".into());
    });
    sim.settle();
    assert_eq!(sim.serving(), Some(Colour::Green));
    assert_ne!(sim.uid(Colour::Green), blue);
}

/// No other event wakes the operator then.
#[test]
fn a_savepoint_that_failed_is_taken_again_after_a_while() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.savepoint_fails = true;
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.settle();
    assert_eq!(sim.serving(), Some(Colour::Green));
}

// --- turns ---

fn waiting(turn: Turn) -> Sim {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.turn = Fact::Known(turn);
    sim.edit_job(|job| job.parallelism = Some(3));
    sim
}

#[test]
fn a_transition_that_waits_for_its_turn_begins_nothing_and_says_so_once() {
    for (turn, reason) in [(Turn::Waits, WAITS_FOR_TURN), (Turn::Paused, UPGRADES_PAUSED)] {
        let mut sim = waiting(turn);
        let plan = sim.pass(None);
        assert!(
            matches!(&plan.steps[..], [Step::Event(event)] if event.reason == reason),
            "{plan:?}"
        );
        assert_eq!(plan.waits.map(|waits| waits.on), Some(Awaited::Turn));
        let told = ReportedWait::of(&sim.status.conditions).unwrap();
        assert_eq!((told.generation, told.is_paused), (2, reason == UPGRADES_PAUSED));
        sim.assert_rests();
        // A new process does not know yet, and does not say anything else meanwhile.
        sim.turn = Fact::Unknown("the list is not complete".to_owned());
        sim.assert_rests();
        assert_eq!(ReportedWait::of(&sim.status.conditions), Some(told));
        sim.turn = Fact::Known(Turn::Taken);
        sim.settle();
        assert_eq!(ReportedWait::of(&sim.status.conditions), None);
        assert_eq!(sim.serving(), Some(Colour::Green));
    }
}

#[test]
fn a_transition_whose_turn_cannot_be_known_says_so_in_time() {
    let mut sim = waiting(Turn::Waits);
    sim.turn = Fact::Unknown("the option is not a number".to_owned());
    sim.until_reported("whether the transition may begin is not known: the option is not a number");
    sim.turn = Fact::Known(Turn::Waits);
    sim.pass(None);
    assert_eq!(sim.status.error, None);
}

/// It is over when a person says so, and the job of a redeploy may be in trouble.
#[test]
fn who_reverts_suspends_or_redeploys_waits_for_nobody() {
    let mut sim = waiting(Turn::Paused);
    sim.pass(None);
    sim.edit_job(|job| job.parallelism = Some(2));
    sim.pass(None);
    assert_eq!(ReportedWait::of(&sim.status.conditions), None);
    sim.edit_job(|job| job.state = JobState::Suspended);
    sim.settle();
    sim.edit_job(|job| job.state = JobState::Running);
    sim.settle();
    sim.redeploy();
    sim.settle();
    assert_eq!(sim.switches, 2, "the first start, and the redeploy");
}

// --- tools ---

/// `docs/gitops.md` has the table.
#[test]
fn tools_say_of_a_blue_green_deployment_what_its_status_says() {
    let starting = |mut sim: Sim| {
        sim.tick();
        sim.pass(None);
        sim
    };
    let edited = |edit: fn(&mut Sim)| {
        let mut sim = serving(UpgradeMode::Savepoint);
        edit(&mut sim);
        sim
    };
    let rows = [
        ("a first deployment starts", starting(Sim::new(UpgradeMode::Savepoint))),
        ("the job runs", serving(UpgradeMode::Savepoint)),
        ("the savepoint of a transition is taken", {
            starting(edited(|sim| sim.edit_job(|job| job.parallelism = Some(3))))
        }),
        ("an edit waits for its turn", starting(waiting(Turn::Waits))),
        ("upgrades are paused", starting(waiting(Turn::Paused))),
        ("both colours run", {
            let mut sim = edited(|sim| sim.edit_job(|job| job.parallelism = Some(3)));
            sim.until("started", |sim| sim.children.len() == 2);
            sim
        }),
        ("a transition was aborted", {
            let mut sim = edited(|sim| sim.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned())));
            sim.until("aborted", Sim::is_given_up);
            sim
        }),
        ("the job is suspended", {
            let mut sim = edited(|sim| sim.edit_job(|job| job.state = JobState::Suspended));
            sim.settle();
            sim
        }),
        ("an edit of a paused resource", {
            let mut sim = edited(|sim| sim.edit_job(|job| job.parallelism = Some(3)));
            sim.annotate(PAUSED_ANNOTATION, "true".to_owned());
            starting(sim)
        }),
    ];
    let mut table = "| | `blueGreenState` | `Ready` | kstatus | `kubectl wait --for=condition=Ready` | `…=Stalled` | Flux, as in `flux.yaml` | Argo CD, with our script |\n|---|---|---|---|---|---|---|---|\n".to_owned();
    for (what, sim) in rows {
        let metadata = json!(sim.resource.metadata);
        let object =
            json!({"kind": "FlinkBlueGreenDeployment", "metadata": metadata, "status": sim.status});
        let state: &str = sim.status.blue_green_state.unwrap().into();
        writeln!(
            table,
            "| {what} | {state} | {} | {} |",
            tools::cells(&object),
            tools::argo_cd_with_our_script(&object).0,
        )
        .unwrap();
    }
    let page = std::fs::read_to_string(path("docs/gitops.md")).unwrap();
    assert!(page.contains(&table), "docs/gitops.md says otherwise than:\n{table}");
}
