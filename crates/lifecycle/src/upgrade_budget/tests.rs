use super::*;
use crate::conditions::ReportedWait;
use crate::job;
use crate::notes::AWAITS_JOBS;
use crate::problem::SAVEPOINT_OVERDUE;
use Progress::{Failed, Idle, Stable, UnderWay};
use api::session_job::SessionJobStatus;
use api::status::{
    DeploymentStatus, JobManagerDeploymentStatus, LifecycleState, SavepointFormatType,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use testing::choices::{Choices, seeds};

const LIMITS: Limits = Limits {
    at_once: Some(2),
    at_once_in_a_namespace: None,
    failures: Some(3),
    patience: SignedDuration::from_mins(5),
};

/// A budget on virtual time.
struct Fleet {
    budget: UpgradeBudget,
    limits: Limits,
    now: Timestamp,
}

fn of(name: &str) -> Of {
    let (namespace, _) = name.split_once('/').unwrap_or(("shop", name));
    let (uid, namespace, name) = (name.to_owned(), namespace.to_owned(), name.to_owned());
    Of { kind: ResourceKind::FlinkDeployment, uid, namespace, name, parent: None }
}

fn named(woken: Vec<Of>) -> Vec<String> {
    woken.into_iter().map(|of| of.name).collect()
}

impl Fleet {
    fn new(limits: Limits) -> Self {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { budget: UpgradeBudget::default(), limits, now }
    }

    fn ask_for(&mut self, name: &str, generation: i64) -> Turn {
        self.budget.ask(&of(name), generation, &self.limits, self.now)
    }

    fn ask(&mut self, name: &str) -> Turn {
        self.ask_for(name, 2)
    }

    fn see(&mut self, name: &str, standing: Progress) -> Vec<String> {
        named(self.budget.seen(&of(name), 2, standing, &self.limits, self.now))
    }

    /// Runs an upgrade from its turn to its end.
    fn upgrade(&mut self, name: &str, generation: i64, end: Progress) {
        assert_eq!(self.ask_for(name, generation), Turn::Taken, "{name}");
        self.see(name, UnderWay);
        self.see(name, end);
    }

    fn fail_three(&mut self) {
        for name in ["x", "y", "z"] {
            self.upgrade(name, 2, Failed);
        }
    }
}

#[test]
fn no_more_are_under_way_than_are_allowed_and_the_next_one_is_woken() {
    let mut fleet = Fleet::new(LIMITS);
    let answers = ["a", "b", "c", "d"].map(|name| fleet.ask(name));
    assert_eq!(answers, [Turn::Taken, Turn::Taken, Turn::Waits, Turn::Waits]);
    assert_eq!(fleet.ask("a"), Turn::Taken, "it keeps its turn");
    fleet.see("a", UnderWay);
    assert_eq!(fleet.see("a", Stable), ["c"]);
    assert_eq!((fleet.ask("d"), fleet.ask("c")), (Turn::Waits, Turn::Taken));
}

#[test]
fn without_a_limit_nobody_waits() {
    let mut fleet = Fleet::new(Limits::default());
    assert!((0..100).all(|number| fleet.ask(&number.to_string()) == Turn::Taken));
    let mut fleet = Fleet::new(Limits { at_once: Some(0), ..LIMITS });
    assert_eq!(fleet.ask("a"), Turn::Waits, "none is a limit, too");
}

#[test]
fn a_limit_that_is_set_later_counts_what_is_under_way() {
    let mut fleet = Fleet::new(Limits::default());
    fleet.see("a", UnderWay);
    assert_eq!(fleet.ask("b"), Turn::Taken);
    fleet.limits = Limits { at_once: Some(1), ..LIMITS };
    assert_eq!(fleet.ask("c"), Turn::Waits);
}

#[test]
fn a_status_from_before_its_turn_does_not_end_it() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), ..LIMITS });
    assert_eq!(fleet.ask("a"), Turn::Taken);
    for before in [Stable, Failed, Idle] {
        assert!(fleet.see("a", before).is_empty());
        assert_eq!(fleet.ask("b"), Turn::Waits);
    }
}

#[test]
fn who_has_no_use_for_its_turn_gives_it_back() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), ..LIMITS });
    assert_eq!(
        (fleet.ask("a"), fleet.ask("b"), fleet.ask("c")),
        (Turn::Taken, Turn::Waits, Turn::Waits)
    );
    let record = Record::of(&DeploymentStatus::default());
    let (limits, now) = (fleet.limits, fleet.now);
    let mut decided =
        |name: &str| named(fleet.budget.decided(&of(name), record, None, &limits, now));
    assert_eq!(decided("b"), [""; 0], "nobody waits for one whose spec was changed back");
    assert_eq!(decided("a"), ["c"]);
    assert_eq!(fleet.ask("c"), Turn::Taken);
}

#[test]
fn what_goes_down_by_itself_counts_and_never_asks() {
    let mut fleet = Fleet::new(LIMITS);
    for name in ["lost", "suspended", "rolled-back"] {
        fleet.see(name, UnderWay);
    }
    assert_eq!(fleet.ask("a"), Turn::Waits);
    assert_eq!(fleet.ask("lost"), Turn::Taken, "an edit of what is down anyway");
    fleet.see("suspended", Idle);
    assert_eq!(fleet.see("rolled-back", Failed), ["a"]);
    let since = fleet.now;
    assert!(fleet.see("new", Progress::Deployed { since, is_first: true }).is_empty());
    assert_eq!(fleet.ask("a"), Turn::Taken, "a first start is none");
    let mut fleet = Fleet::new(Limits { at_once: Some(1), ..LIMITS });
    fleet.see("new", Progress::Starting);
    assert_eq!(fleet.ask("a"), Turn::Taken, "nor is it while it starts");
}

#[test]
fn one_that_does_not_become_stable_in_time_is_waited_for_no_longer() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), failures: Some(1), ..LIMITS });
    assert_eq!(fleet.ask("a"), Turn::Taken);
    fleet.see("a", UnderWay);
    fleet.see("a", Progress::Deployed { since: fleet.now, is_first: false });
    fleet.now += SignedDuration::from_mins(4);
    assert!(matches!(fleet.ask("b"), Turn::WaitsFor { .. }));
    fleet.now += SignedDuration::from_mins(1);
    assert_eq!(fleet.ask("b"), Turn::Paused, "it has failed");
}

/// Nobody may ever mend a job that cannot start.
#[test]
fn one_that_does_not_start_in_time_is_waited_for_no_longer() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), failures: Some(2), ..LIMITS });
    assert_eq!(fleet.ask("a"), Turn::Taken);
    fleet.see("a", UnderWay);
    let began = fleet.now;
    assert_eq!(fleet.ask("b"), Turn::Waits);
    fleet.now += SignedDuration::from_mins(4);
    fleet.see("a", UnderWay);
    let waits = Turn::WaitsFor { name: "shop/a".to_owned(), since: began };
    assert_eq!(fleet.ask("b"), waits, "who holds up the others is named");
    fleet.now += SignedDuration::from_mins(1);
    assert_eq!(fleet.ask("b"), Turn::Taken);
    assert_eq!(fleet.ask("c"), Turn::Waits, "only one has its turn");
    // Whatever is written into its status does not make it another upgrade.
    fleet.see("a", UnderWay);
    fleet.see("b", UnderWay);
    assert_eq!(fleet.see("b", Stable), ["c"]);
    assert_eq!(fleet.ask("c"), Turn::Taken);
    fleet.see("c", UnderWay);
    fleet.see("c", Failed);
    // A success lies between the two failures.
    assert_eq!(fleet.ask("d"), Turn::Taken);
    // It starts after all, and takes part again.
    let since = fleet.now;
    fleet.see("a", Progress::Deployed { since, is_first: false });
    fleet.see("d", UnderWay);
    fleet.see("d", Stable);
    assert!(matches!(fleet.ask("e"), Turn::WaitsFor { .. }));
    fleet.see("a", Stable);
    assert_eq!(fleet.ask("e"), Turn::Taken);
}

#[test]
fn one_that_does_not_start_in_time_has_failed() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), failures: Some(1), ..LIMITS });
    assert_eq!(fleet.ask("a"), Turn::Taken);
    fleet.see("a", UnderWay);
    fleet.now += LIMITS.patience;
    assert_eq!(fleet.ask("b"), Turn::Paused);
    let (limits, now) = (fleet.limits, fleet.now);
    let _woken = fleet.budget.resume(&limits, now);
    fleet.see("a", Failed);
    assert_eq!(fleet.ask("b"), Turn::Taken, "it has failed once");
}

/// The job still runs, and a large savepoint takes its time. Flink ends it, or the status says that it does not.
#[test]
fn one_that_saves_its_state_keeps_its_turn() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), failures: Some(1), ..LIMITS });
    assert_eq!(fleet.ask("a"), Turn::Taken);
    fleet.see("a", Progress::Preparing);
    fleet.now += SignedDuration::from_hours(1);
    assert!(matches!(fleet.ask("b"), Turn::WaitsFor { .. }));
    fleet.see("a", UnderWay);
    fleet.now += SignedDuration::from_mins(4);
    assert!(matches!(fleet.ask("b"), Turn::WaitsFor { .. }), "its stop and start have their own");
    fleet.see("a", Stable);
    assert_eq!(fleet.ask("b"), Turn::Taken);
}

#[test]
fn what_a_status_stands_for() {
    let of = |state: LifecycleState| DeploymentStatus {
        lifecycle_state: Some(state),
        ..DeploymentStatus::default()
    };
    let mut status = of(LifecycleState::Upgrading);
    assert_eq!(Progress::of(&status), Progress::Starting, "it was never stable");
    status.reconciliation_status.last_stable_spec = Some("{}".to_owned());
    assert_eq!(Progress::of(&status), UnderWay);
    status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
    status.error = Some("Manual restore required.".to_owned());
    assert_eq!(Progress::of(&status), Failed, "nothing happens before a person decides");

    let mut saving = of(LifecycleState::Stable);
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    job::note_stop(&mut saving.job_status, "a", SavepointFormatType::Canonical, now);
    assert_eq!(Progress::of(&saving), Progress::Preparing);
    let error = |reason: &str| Some(json!({"additionalMetadata": {"reason": reason}}).to_string());
    saving.error = error("Other");
    assert_eq!(Progress::of(&saving), Progress::Preparing);
    saving.error = error(SAVEPOINT_OVERDUE);
    assert_eq!(Progress::of(&saving), UnderWay, "Flink should have ended it");
}

/// A turn does not outlast passes that end before they begin.
#[test]
fn one_that_cannot_begin_loses_its_turn_and_has_not_failed() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), failures: Some(1), ..LIMITS });
    assert_eq!((fleet.ask("a"), fleet.ask("b")), (Turn::Taken, Turn::Waits));
    fleet.now += LIMITS.patience;
    assert_eq!((fleet.ask("b"), fleet.ask("a")), (Turn::Taken, Turn::Waits));
}

#[test]
fn one_that_does_not_ask_when_it_is_its_turn_holds_up_nobody() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), ..LIMITS });
    assert_eq!(
        (fleet.ask("a"), fleet.ask("b"), fleet.ask("c")),
        (Turn::Taken, Turn::Waits, Turn::Waits)
    );
    fleet.see("a", UnderWay);
    assert_eq!(fleet.see("a", Stable), ["b"]);
    assert_eq!(fleet.ask("c"), Turn::Waits);
    fleet.now += ANSWER_TIMEOUT;
    assert_eq!((fleet.ask("c"), fleet.ask("b")), (Turn::Taken, Turn::Waits));
}

#[test]
fn after_failures_in_a_row_the_rest_waits_until_a_spec_is_changed_and_proves_good() {
    let mut fleet = Fleet::new(LIMITS);
    fleet.upgrade("w", 2, Failed);
    fleet.upgrade("v", 2, Stable);
    fleet.fail_three();
    let answers = ["a", "b"].map(|name| fleet.ask(name));
    assert_eq!(answers, [Turn::Paused, Turn::Paused], "also those that come later");
    assert_eq!(fleet.ask("x"), Turn::Paused, "the same spec again");

    assert_eq!(fleet.ask_for("a", 3), Turn::Taken, "one that waited, and was changed");
    assert_eq!(fleet.ask("b"), Turn::Paused);
    fleet.see("a", UnderWay);
    assert_eq!(fleet.see("a", Stable), ["b", "x"]);
    assert_eq!((fleet.ask("x"), fleet.ask("b")), (Turn::Taken, Turn::Taken));
}

#[test]
fn all_that_wait_hear_that_they_are_held_back() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), failures: Some(1), ..LIMITS });
    assert_eq!(fleet.ask("a"), Turn::Taken);
    assert_eq!((fleet.ask("b"), fleet.ask("c")), (Turn::Waits, Turn::Waits));
    fleet.see("a", UnderWay);
    assert_eq!(fleet.see("a", Failed), ["b", "c"]);
    assert_eq!((fleet.ask("b"), fleet.ask("c")), (Turn::Paused, Turn::Paused));
}

#[test]
fn changes_that_prove_no_better_are_held_back_anew() {
    let mut fleet = Fleet::new(LIMITS);
    fleet.fail_three();
    let all = ["a", "b", "c"];
    assert!(all.map(|name| fleet.ask(name)).iter().all(|turn| *turn == Turn::Paused));
    for name in ["x", "a", "b"] {
        fleet.upgrade(name, 3, Failed);
    }
    assert_eq!(fleet.ask_for("c", 2), Turn::Paused);
    assert_eq!(fleet.ask_for("c", 3), Turn::Taken, "it waited with the old spec");
    assert_eq!(fleet.ask_for("x", 3), Turn::Paused, "it failed with this one");
}

#[test]
fn a_generation_that_fails_again_is_one_failure() {
    let mut fleet = Fleet::new(Limits { failures: Some(2), ..LIMITS });
    for _ in 0..3 {
        fleet.upgrade("a", 2, Failed);
    }
    assert_eq!(fleet.ask("b"), Turn::Taken);
    fleet.upgrade("a", 3, Failed);
    assert_eq!(fleet.ask("c"), Turn::Paused);
}

/// Its parent would wait for it until the end of the transition, and it for the end of its parent's turn.
#[test]
fn a_child_shares_the_turn_of_its_transition() {
    let limits = Limits { at_once: Some(1), ..LIMITS };
    let mut fleet = Fleet::new(limits);
    let child = Of { parent: Some("parent".to_owned()), ..of("child") };
    assert_eq!(fleet.ask("parent"), Turn::Taken);
    fleet.see("parent", Progress::Preparing);
    assert_eq!(fleet.budget.ask(&child, 2, &limits, fleet.now), Turn::Taken);
    let _woken = fleet.budget.seen(&child, 2, UnderWay, &limits, fleet.now);
    assert_eq!(fleet.ask("other"), Turn::Waits);
    let _woken = fleet.budget.seen(&child, 2, Stable, &limits, fleet.now);
    assert_eq!(fleet.ask("other"), Turn::Waits, "the transition is not over");
    assert_eq!(fleet.see("parent", Stable), ["other"]);
    assert_eq!(fleet.ask("other"), Turn::Taken);
    assert_eq!(fleet.budget.ask(&child, 3, &limits, fleet.now), Turn::Waits, "it is on its own");
}

#[test]
fn two_children_of_a_transition_are_one_upgrade() {
    let mut fleet = Fleet::new(LIMITS);
    fleet.see("parent", Progress::Preparing);
    for colour in ["blue", "green"] {
        let child = Of { parent: Some("parent".to_owned()), ..of(colour) };
        let _woken = fleet.budget.seen(&child, 2, UnderWay, &LIMITS, fleet.now);
    }
    assert_eq!((fleet.ask("a"), fleet.ask("b")), (Turn::Taken, Turn::Waits));
}

/// Nothing in its status says so.
#[test]
fn a_session_job_whose_plan_waits_for_its_turn_keeps_its_place() {
    let mut fleet = Fleet::new(Limits { at_once: Some(1), ..LIMITS });
    assert_eq!((fleet.ask("a"), fleet.ask("b")), (Turn::Taken, Turn::Waits));
    let record = Record::of_session_job(2, &SessionJobStatus::default());
    let (limits, now) = (fleet.limits, fleet.now);
    let waits = Some(Awaited::Turn);
    assert!(fleet.budget.decided(&of("b"), record, waits, &limits, now).is_empty());
    fleet.see("a", UnderWay);
    assert_eq!(fleet.see("a", Stable), ["b"]);
}

#[test]
fn session_jobs_that_go_down_with_their_cluster_are_one_upgrade_and_their_edits_wait() {
    let limits = Limits { at_once: Some(2), ..LIMITS };
    let mut fleet = Fleet::new(limits);
    let cluster = DeploymentStatus {
        lifecycle_state: Some(LifecycleState::Stable),
        observed_generation: Some(1),
        cluster_info: [(AWAITS_JOBS.key.to_owned(), "2".to_owned())].into(),
        ..DeploymentStatus::default()
    };
    // It has stopped nothing itself yet.
    fleet.see("cluster", Progress::of(&cluster));
    let job = |name: &str| {
        let (kind, parent) = (ResourceKind::FlinkSessionJob, Some("cluster".to_owned()));
        Of { kind, parent, ..of(name) }
    };
    for name in ["one", "two", "three"] {
        let _woken = fleet.budget.seen(&job(name), 1, UnderWay, &limits, fleet.now);
    }
    assert_eq!(fleet.ask("a"), Turn::Taken);
    assert_eq!(fleet.budget.ask(&job("edited"), 2, &limits, fleet.now), Turn::Waits);
    let _woken = fleet.budget.seen(&of("cluster"), 2, Stable, &limits, fleet.now);
    assert_eq!(fleet.ask("b"), Turn::Waits, "its jobs are not up again");
    let replaced = DeploymentStatus { observed_generation: Some(2), ..cluster };
    assert_eq!(Progress::of(&replaced), Stable, "the note is left behind");
}

#[test]
fn the_status_of_a_session_job_says_how_far_its_upgrade_is() {
    let record = |status: Value| {
        let status = serde_json::from_value(status).unwrap();
        Record::of_session_job(2, &status)
    };
    let standing = |status: Value| record(status).standing;
    let stop = json!({"triggerId": "t", "triggerType": "UPGRADE"});
    assert_eq!(
        standing(json!({"lifecycleState": "STABLE", "jobStatus": {"savepointInfo": stop}})),
        Progress::Preparing
    );
    let proven = json!({"lastStableSpec": "{}"});
    let upgrading = json!({"lifecycleState": "UPGRADING", "reconciliationStatus": proven});
    assert_eq!(standing(upgrading.clone()), UnderWay);
    let lost = json!({"error": "Job Not Found", "lifecycleState": "UPGRADING", "reconciliationStatus": proven});
    assert_eq!(standing(lost), Failed, "nothing moves until a person acts");
    assert_eq!(standing(json!({"lifecycleState": "UPGRADING"})), Progress::Starting);
    assert_eq!(standing(json!({"lifecycleState": "FAILED"})), Failed);
    let error =
        json!({"type": "x", "additionalMetadata": {"reason": "UpgradesPaused"}}).to_string();
    let paused = record(json!({"lifecycleState": "STABLE", "error": error}));
    assert_eq!(paused.told, Some(ReportedWait { generation: 2, is_paused: true }));
    assert_eq!(record(upgrading).told, None);
}

/// A status of a blue/green deployment in this state.
fn blue_green(state: &str, rest: Value) -> Progress {
    let mut status = json!({"blueGreenState": state, "jobStatus": {"state": "RECONCILING"}});
    for (field, value) in rest.as_object().unwrap() {
        status[field] = value.clone();
    }
    let status = serde_json::from_value(status).unwrap();
    Record::of_blue_green(&ObjectMeta::default(), &status).standing
}

#[test]
fn a_transition_is_in_progress_until_it_is_settled_or_given_up() {
    let condition = |type_: &str, status: &str, reason: &str| json!([{"type": type_, "status": status, "reason": reason}]);
    let serves = || condition("Serving", "True", "Blue");
    let (running, failing) = (json!({"state": "RUNNING"}), json!({"state": "FAILING"}));
    let aborts = json!({"conditions": serves(), "abortTimestamp": "2026-01-01T00:10:00Z"});
    for state in ["SAVEPOINTING_BLUE", "TRANSITIONING_TO_GREEN"] {
        assert_eq!(blue_green(state, aborts.clone()), Progress::Preparing);
        assert_eq!(blue_green(state, json!({})), Progress::Preparing, "as Java writes it");
        let rest = json!({"conditions": serves(), "error": "the last step was not carried out"});
        assert_eq!(blue_green(state, rest), UnderWay, "nothing else ends it");
        let paused = condition("Paused", "True", "Paused");
        assert_eq!(blue_green(state, json!({"conditions": paused})), UnderWay);
    }
    let decided =
        json!({"conditions": serves(), "deploymentReadyTimestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(blue_green("TRANSITIONING_TO_GREEN", decided), UnderWay);
    let first = json!({"conditions": condition("Serving", "False", "None")});
    assert_eq!(blue_green("TRANSITIONING_TO_BLUE", first), Progress::Starting);
    assert_eq!(blue_green("ACTIVE_GREEN", json!({"jobStatus": running})), Stable);
    assert_eq!(blue_green("ACTIVE_GREEN", json!({})), Idle, "its child is changed in place");
    let mut waits = condition("UpgradeAdmitted", "False", "WaitsForTurn");
    waits[0]["observedGeneration"] = json!(2);
    assert_eq!(blue_green("ACTIVE_BLUE", json!({"jobStatus": running, "conditions": waits})), Idle);
    for reason in ["Aborted", "RolledBack", "SavepointFailed", "ValidationError"] {
        let described =
            json!({"jobStatus": failing, "conditions": condition("Progressing", "False", reason)});
        let expected = if reason == "ValidationError" { Idle } else { Failed };
        assert_eq!(blue_green("ACTIVE_BLUE", described), expected, "{reason}");
    }
}

#[test]
fn a_success_of_before_does_not_let_the_rest_go_on() {
    let mut fleet = Fleet::new(Limits { at_once: Some(5), ..LIMITS });
    assert_eq!(fleet.ask("good"), Turn::Taken);
    fleet.see("good", UnderWay);
    fleet.fail_three();
    fleet.see("good", Stable);
    assert_eq!(fleet.ask("a"), Turn::Paused);
    let (limits, now) = (fleet.limits, fleet.now);
    assert_eq!(named(fleet.budget.resume(&limits, now)), ["a"]);
    assert_eq!(fleet.ask("a"), Turn::Taken, "a person does");
}

#[test]
fn another_process_takes_up_what_was_reported() {
    let described = |turn: Turn| {
        let waits = turn.wait().unwrap().condition(&[], 2, Timestamp::UNIX_EPOCH);
        Record::of(&DeploymentStatus { conditions: vec![waits], ..DeploymentStatus::default() })
    };
    let mut upgrading = DeploymentStatus {
        lifecycle_state: Some(LifecycleState::Upgrading),
        ..DeploymentStatus::default()
    };
    upgrading.reconciliation_status.last_stable_spec = Some("{}".to_owned());
    let mut fleet = Fleet::new(LIMITS);
    fleet.budget.restore(&of("a"), 2, described(Turn::Waits), fleet.now);
    fleet.budget.restore(&of("b"), 3, described(Turn::Paused), fleet.now);
    fleet.budget.restore(&of("c"), 2, Record::of(&upgrading), fleet.now);
    assert_eq!((fleet.ask_for("b", 2), fleet.ask("new")), (Turn::Paused, Turn::Paused));
    assert_eq!(fleet.ask_for("b", 3), Turn::Taken, "its spec was changed meanwhile");
    assert_eq!(fleet.ask("d"), Turn::Paused);
    let mut fleet = Fleet::new(Limits { failures: Some(1), ..LIMITS });
    fleet.budget.restore(&of("a"), 2, described(Turn::Waits), fleet.now);
    fleet.budget.restore(&of("c"), 2, Record::of(&upgrading), fleet.now);
    assert_eq!((fleet.ask("new"), fleet.ask("a")), (Turn::Waits, Turn::Taken), "in this order");
    fleet.see("c", Failed);
    assert_eq!(fleet.ask("new"), Turn::Paused);
}

#[test]
fn a_namespace_with_thousands_does_not_keep_others_waiting() {
    let limits = Limits { at_once: Some(4), at_once_in_a_namespace: Some(3), ..LIMITS };
    let mut fleet = Fleet::new(limits);
    let many: Vec<String> = (0..1000).map(|number| format!("many/{number}")).collect();
    let taken = many.iter().filter(|name| fleet.ask(name) == Turn::Taken).count();
    assert_eq!(taken, 3);
    assert_eq!(fleet.ask("few/0"), Turn::Taken);
    assert_eq!(fleet.ask("few/1"), Turn::Waits);
    fleet.see("many/0", UnderWay);
    // Of the two namespaces, this one has fewer under way, although it asked last.
    fleet.see("few/0", UnderWay);
    assert_eq!(fleet.see("few/0", Stable), ["few/1"]);
}

/// The law: in any order of asking and ending, no more than the maximum are under way, and all get their turn.
#[test]
fn everybody_has_a_turn_in_any_order() {
    for seed in seeds(64) {
        let mut choices = Choices::new(seed);
        let small = |choices: &mut Choices| u32::try_from(1 + choices.below(4)).unwrap();
        let limits = Limits {
            at_once: (seed % 3 > 0).then(|| small(&mut choices)),
            at_once_in_a_namespace: (seed % 3 != 1).then(|| small(&mut choices)),
            failures: None,
            ..LIMITS
        };
        let mut fleet = Fleet::new(limits);
        let names: Vec<String> = (0..60).map(|n| format!("ns-{}/{n}", n * n % 7)).collect();
        let mut waiting: Vec<&String> = names.iter().collect();
        let mut under_way: Vec<&String> = Vec::new();
        for step in 0.. {
            assert!(step < 20_000, "seed {seed}: {} wait", waiting.len());
            fleet.now += SignedDuration::from_secs(1);
            let end = !under_way.is_empty() && (waiting.is_empty() || choices.below(3) == 0);
            let index = |choices: &mut Choices, len: usize| {
                usize::try_from(choices.below(u64::try_from(len).unwrap())).unwrap()
            };
            if end {
                let name = under_way.swap_remove(index(&mut choices, under_way.len()));
                fleet.see(name, UnderWay);
                fleet.see(name, [Stable, Failed, Idle][index(&mut choices, 3)]);
            } else if waiting.is_empty() {
                break;
            } else {
                let at = index(&mut choices, waiting.len());
                if fleet.ask(waiting[at]) == Turn::Taken {
                    under_way.push(waiting.swap_remove(at));
                }
            }
            assert!(limits.at_once.is_none_or(|most| under_way.len() <= most as usize));
            let in_namespace = |ns: &str| under_way.iter().filter(|it| it.starts_with(ns)).count();
            let most = (0..7).map(|ns| in_namespace(&format!("ns-{ns}/"))).max().unwrap();
            assert!(limits.at_once_in_a_namespace.is_none_or(|allowed| most <= allowed as usize));
        }
    }
}
