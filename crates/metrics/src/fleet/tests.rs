use crate::family::{Family, Of, Value};
use api::blue_green::BlueGreenState;
use api::state_snapshot::SnapshotState;
use api::status::{JobManagerDeploymentStatus, JobStatusState, LifecycleState};
use config::FlinkConfig;

use super::*;

fn fleet() -> Fleet {
    Fleet::new(&Settings::of(&FlinkConfig::new()).unwrap())
}

fn at(second: u32) -> Now {
    let time = Timestamp::from_second(1_767_225_600 + i64::from(second)).unwrap();
    Now { clock: Duration::from_secs(second.into()), time }
}

fn deployment(lifecycle: LifecycleState) -> Facts {
    Facts::Deployment {
        lifecycle,
        job_manager: JobManagerDeploymentStatus::Ready,
        version: "1.20.1".into(),
        cpu: 1.5,
        memory: 2.0,
        state_size: 4.0,
    }
}

fn blue_green(state: BlueGreenState, job: JobStatusState) -> Facts {
    Facts::BlueGreen { state, job }
}

fn sighting(uid: &str, version: u64, facts: Facts) -> Sighting<'_> {
    let created = Some(at(0).time);
    Sighting { uid, namespace: "shop", name: uid, version, created, facts }
}

/// Returns everything that is published and begins with `prefix`, without zeros.
fn described(fleet: &Fleet, prefix: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for Family { name, points, .. } in fleet.families(at(200).time) {
        for point in points.iter().filter(|_| name.starts_with(prefix)) {
            let value = match &point.value {
                Value::Gauge(number) | Value::Count(number) if *number == 0.0 => continue,
                Value::Summary(summary) if summary.count == 0 => continue,
                Value::Gauge(number) | Value::Count(number) => number.to_string(),
                Value::Summary(summary) => format!("{}x{}", summary.count, summary.quantiles()[0]),
            };
            let of = match &point.of {
                Of::Operator => String::new(),
                Of::Namespace(_, namespace) => format!(" {namespace}"),
                Of::Resource(id) => format!(" {}/{}", id.namespace, id.name),
            };
            let label =
                point.label.as_ref().map(|(_, text)| format!(" {text}")).unwrap_or_default();
            lines.push(format!("{name}{of}{label} = {value}"));
        }
    }
    lines
}

#[test]
fn resources_are_counted_by_what_they_are() {
    let mut fleet = fleet();
    fleet.see(&sighting("a", 1, deployment(LifecycleState::Stable)), at(0));
    fleet.see(&sighting("b", 1, deployment(LifecycleState::Failed)), at(0));
    let job = Facts::SessionJob { lifecycle: LifecycleState::Stable };
    fleet.see(&sighting("c", 1, job), at(0));
    for (uid, is_savepoint, state) in [
        ("d", true, SnapshotState::Completed),
        ("e", true, SnapshotState::Failed),
        ("f", false, SnapshotState::Completed),
    ] {
        fleet.see(&sighting(uid, 1, Facts::Snapshot { is_savepoint, state }), at(0));
    }
    fleet.note_wait("a", Wait::Late);
    fleet.note_wait("c", Wait::Paused);
    fleet.note_wait("d", Wait::Late);
    let counts: Vec<String> =
        described(&fleet, "").into_iter().filter(|line| !line.starts_with("JOSDK")).collect();
    assert_eq!(
        counts,
        [
            "Count shop = 2",
            "Count shop = 1",
            "Waiting.Late.Count shop = 1",
            "Waiting.Late.Count shop = 1",
            "Paused.Count shop = 1",
            "Lifecycle.State.STABLE.Count shop = 1",
            "Lifecycle.State.STABLE.Count shop = 1",
            "Lifecycle.State.FAILED.Count shop = 1",
            "JmDeploymentStatus.READY.Count shop = 2",
            "FlinkVersion.Count shop 1.20.1 = 2",
            "FlinkMinorVersion.Count shop 1.20 = 2",
            "ResourceUsage.Cpu shop = 3",
            "ResourceUsage.Memory shop = 4",
            "ResourceUsage.StateSize shop = 8",
            "Savepoint.Count shop = 2",
            "Savepoint.State.COMPLETED.Count shop = 1",
            "Savepoint.State.FAILED.Count shop = 1",
            "Checkpoint.Count shop = 1",
            "Checkpoint.State.COMPLETED.Count shop = 1",
        ]
    );
}

#[test]
fn a_change_is_timed_once_whether_written_or_shown_first() {
    let mut fleet = fleet();
    fleet.see(&sighting("a", 1, deployment(LifecycleState::Created)), at(1));
    fleet.status_written("a", 2, deployment(LifecycleState::Upgrading), at(5));
    fleet.status_written("a", 3, deployment(LifecycleState::Deployed), at(8));
    // Earlier writes come back, late and in order.
    fleet.see(&sighting("a", 2, deployment(LifecycleState::Upgrading)), at(9));
    fleet.see(&sighting("a", 3, deployment(LifecycleState::Deployed)), at(9));
    fleet.see(&sighting("a", 4, deployment(LifecycleState::Stable)), at(20));
    let expected = [
        ("Lifecycle.State.UPGRADING.TimeSeconds", "1x0"),
        ("Lifecycle.State.DEPLOYED.TimeSeconds", "1x1"),
        ("Lifecycle.Transition.Stabilization.TimeSeconds", "1x12"),
        ("Lifecycle.Transition.Submission.TimeSeconds", "1x3"),
    ];
    for (name, value) in expected {
        assert_eq!(described(&fleet, name), [format!("{name} shop = {value}")]);
        let of_kind = format!("FlinkDeployment.{name}");
        assert_eq!(described(&fleet, &of_kind), [format!("{of_kind} = {value}")]);
    }
}

#[test]
fn the_first_state_counts_from_the_creation() {
    let mut fleet = fleet();
    fleet.see(&sighting("a", 1, deployment(LifecycleState::Created)), at(7));
    fleet.pass_begins("a", false, at(7));
    fleet.pass_ends("a", false, at(8));
    fleet.see(&sighting("a", 2, deployment(LifecycleState::Failed)), at(9));
    let name = "Lifecycle.State.CREATED.TimeSeconds";
    assert_eq!(described(&fleet, name), [format!("{name} shop = 1x8")]);
}

#[test]
fn a_blue_green_deployment_is_counted_and_timed() {
    use BlueGreenState::{ActiveBlue, InitializingBlue, TransitioningToBlue};
    use JobStatusState::{Reconciling, Running};
    let mut fleet = fleet();
    fleet.see(&sighting("a", 1, blue_green(InitializingBlue, Reconciling)), at(4));
    fleet.pass_begins("a", false, at(5));
    fleet.status_written("a", 2, blue_green(TransitioningToBlue, Reconciling), at(6));
    fleet.pass_ends("a", false, at(6));
    fleet.see(&sighting("a", 3, blue_green(ActiveBlue, Running)), at(20));
    assert_eq!(
        described(&fleet, ""),
        [
            "Count shop = 1",
            "BlueGreenState.ACTIVE_BLUE.Count shop = 1",
            "JobStatus.RUNNING.Count shop = 1",
            "FlinkBlueGreenDeployment.Lifecycle.State.INITIALIZING_BLUE.TimeSeconds = 1x6",
            "FlinkBlueGreenDeployment.Lifecycle.State.TRANSITIONING_TO_BLUE.TimeSeconds = 1x14",
            "FlinkBlueGreenDeployment.Lifecycle.Transition.InitialDeployment.TimeSeconds = 1x14",
            "Lifecycle.State.INITIALIZING_BLUE.TimeSeconds shop = 1x6",
            "Lifecycle.State.TRANSITIONING_TO_BLUE.TimeSeconds shop = 1x14",
            "Lifecycle.Transition.InitialDeployment.TimeSeconds shop = 1x14",
            "JOSDK.reconcile.status.TimeSeconds shop = 1x1",
            "JOSDK.Resource.Event.Count shop/a = 2",
            "JOSDK.Resource.Event.ADDED.Count shop/a = 1",
            "JOSDK.Resource.Event.UPDATED.Count shop/a = 1",
            "JOSDK.Reconciliation.Count shop/a = 1",
            "JOSDK.Reconciliation.finished.Count shop/a = 1",
        ]
    );
}

#[test]
fn each_change_to_failing_counts_as_a_failure() {
    use BlueGreenState::ActiveBlue;
    use JobStatusState::{Failing, Reconciling, Running};
    let mut fleet = fleet();
    let is_reported = |fleet: &Fleet| {
        fleet.families(at(200).time).iter().any(|it| it.name == "Failures" && !it.points.is_empty())
    };
    fleet.see(&sighting("job", 1, deployment(LifecycleState::Stable)), at(0));
    assert!(!is_reported(&fleet), "other kinds have no such count");
    // It failed before this process looked.
    fleet.see(&sighting("a", 1, blue_green(ActiveBlue, Failing)), at(0));
    assert!(is_reported(&fleet) && described(&fleet, "Failures").is_empty());
    for (version, job) in (2..).zip([Running, Failing, Failing, Reconciling, Failing]) {
        fleet.status_written("a", version, blue_green(ActiveBlue, job), at(7));
        // What was written comes back from the watch.
        fleet.see(&sighting("a", version, blue_green(ActiveBlue, job)), at(9));
    }
    assert_eq!(described(&fleet, "Failures"), ["Failures shop = 2"]);
    fleet.gone("a", at(10));
    assert_eq!(described(&fleet, "Failures"), ["Failures shop = 2"]);
}

#[test]
fn times_of_the_operator_are_reported_from_the_first_resource_of_the_kind_on() {
    let names = |facts: Facts| {
        let mut fleet = fleet();
        fleet.see(&sighting("a", 1, facts), at(0));
        let all = fleet.families(at(200).time).into_iter();
        all.map(|family| family.name).filter(|name| name.ends_with("TimeSeconds")).count()
    };
    assert_eq!(names(deployment(LifecycleState::Stable)), 10 + 6);
    assert_eq!(names(blue_green(BlueGreenState::ActiveBlue, JobStatusState::Running)), 7 + 3);
    let snapshot = Facts::Snapshot { is_savepoint: true, state: SnapshotState::Completed };
    assert_eq!(names(snapshot), 0);
}

#[test]
fn a_deleted_resource_leaves_its_end_alone_and_no_later_pass_brings_more_back() {
    let mut fleet = fleet();
    fleet.see(&sighting("a", 1, deployment(LifecycleState::Stable)), at(0));
    fleet.pass_begins("a", false, at(1));
    fleet.pass_ends("a", false, at(2));
    assert_eq!(described(&fleet, "JOSDK.Re").len(), 4);
    fleet.gone("a", at(3));
    fleet.pass_begins("a", true, at(4));
    fleet.status_written("a", 9, deployment(LifecycleState::Stable), at(4));
    fleet.metadata_written("a", true);
    fleet.pass_ends("a", true, at(5));
    assert_eq!(described(&fleet, "JOSDK.Re"), ["JOSDK.Resource.Event.DELETED.Count shop/a = 1"]);
    assert_eq!(described(&fleet, "Count"), [""; 0]);
    assert!(fleet.resources.is_empty());
    // The namespace stays, at zero.
    assert!(
        fleet
            .families(at(200).time)
            .iter()
            .any(|family| family.name == "Count" && family.points.len() == 1)
    );
}

#[test]
fn what_a_list_does_not_show_is_gone() {
    let mut fleet = fleet();
    let stable = || deployment(LifecycleState::Stable);
    fleet.list_begins(Kind::FlinkDeployment, None);
    fleet.see(&sighting("a", 1, stable()), at(0));
    fleet.see(&sighting("b", 1, stable()), at(0));
    fleet.list_ends(Kind::FlinkDeployment, None, at(0));
    let job = Facts::SessionJob { lifecycle: LifecycleState::Stable };
    fleet.see(&sighting("c", 1, job), at(0));
    // A list that breaks off, and one of another namespace, say nothing about it.
    fleet.list_begins(Kind::FlinkDeployment, None);
    fleet.list_begins(Kind::FlinkDeployment, Some("other"));
    fleet.list_ends(Kind::FlinkDeployment, Some("other"), at(1));
    assert_eq!(described(&fleet, "Count"), ["Count shop = 2", "Count shop = 1"]);
    fleet.list_begins(Kind::FlinkDeployment, None);
    fleet.see(&sighting("b", 1, stable()), at(1));
    fleet.list_ends(Kind::FlinkDeployment, None, at(1));
    assert_eq!(described(&fleet, "Count"), ["Count shop = 1", "Count shop = 1"]);
    assert_eq!(described(&fleet, "JOSDK.Resource.Event.Count").len(), 2);
}

#[test]
fn a_store_that_went_back_is_believed_again() {
    let mut fleet = fleet();
    fleet.see(&sighting("a", 9, deployment(LifecycleState::Stable)), at(0));
    fleet.see(&sighting("a", 5, deployment(LifecycleState::Suspended)), at(1));
    assert_eq!(described(&fleet, "Lifecycle.State.STABLE.Count").len(), 1);
    fleet.forget_versions();
    fleet.see(&sighting("a", 5, deployment(LifecycleState::Suspended)), at(2));
    assert_eq!(described(&fleet, "Lifecycle.State.SUSPENDED.Count").len(), 1);
}

#[test]
fn passes_are_counted_by_how_they_end() {
    let mut fleet = fleet();
    fleet.see(&sighting("a", 1, deployment(LifecycleState::Stable)), at(0));
    let pass = |fleet: &mut Fleet, is_cleanup: bool, has_failed: bool, work: fn(&mut Fleet)| {
        fleet.pass_begins("a", is_cleanup, at(10));
        work(fleet);
        fleet.pass_ends("a", has_failed, at(13));
    };
    let writes_status = |fleet: &mut Fleet| {
        fleet.status_written("a", 2, deployment(LifecycleState::Stable), at(11));
    };
    pass(&mut fleet, false, false, |_| {});
    pass(&mut fleet, false, true, |_| {});
    pass(&mut fleet, false, false, writes_status);
    pass(&mut fleet, false, false, |fleet| {
        fleet.metadata_written("a", false);
        fleet.status_written("a", 3, deployment(LifecycleState::Stable), at(11));
    });
    pass(&mut fleet, true, false, |_| {});
    pass(&mut fleet, true, false, |fleet| fleet.metadata_written("a", true));
    assert_eq!(
        described(&fleet, "JOSDK."),
        [
            "JOSDK.cleanup.delete.TimeSeconds shop = 1x3",
            "JOSDK.cleanup.finalizerNotRemoved.TimeSeconds shop = 1x3",
            "JOSDK.reconcile.both.TimeSeconds shop = 1x3",
            "JOSDK.reconcile.failed.TimeSeconds shop = 1x3",
            "JOSDK.reconcile.resource.TimeSeconds shop = 1x3",
            "JOSDK.reconcile.status.TimeSeconds shop = 1x3",
            "JOSDK.Resource.Event.Count shop/a = 1",
            "JOSDK.Resource.Event.ADDED.Count shop/a = 1",
            "JOSDK.Reconciliation.Count shop/a = 6",
            "JOSDK.Reconciliation.retries.Count shop/a = 1",
            "JOSDK.Reconciliation.finished.Count shop/a = 5",
            "JOSDK.Reconciliation.failed.Count shop/a = 1",
            "JOSDK.Reconciliation.cleanup.Count shop/a = 1",
        ]
    );
}

#[test]
fn a_deletion_counts_when_the_watch_shows_it_before_the_pass_ends() {
    let mut fleet = fleet();
    fleet.see(&sighting("a", 1, deployment(LifecycleState::Stable)), at(0));
    fleet.pass_begins("a", true, at(1));
    fleet.gone("a", at(3));
    fleet.pass_ends("a", false, at(4));
    assert_eq!(
        described(&fleet, "JOSDK."),
        [
            "JOSDK.cleanup.delete.TimeSeconds shop = 1x2",
            "JOSDK.Resource.Event.DELETED.Count shop/a = 1",
        ]
    );
}

#[test]
fn deletions_report_what_is_gone_and_go_on_with_its_name() {
    let mut fleet = fleet();
    let see = |fleet: &mut Fleet, uid: &str| {
        let facts = deployment(LifecycleState::Stable);
        fleet.see(&Sighting { name: "a", ..sighting(uid, 1, facts) }, at(0));
    };
    see(&mut fleet, "one");
    assert_eq!(described(&fleet, "JOSDK.Resource.Event.DELETED"), [""; 0]);
    fleet.gone("one", at(1));
    let deleted = "JOSDK.Resource.Event.DELETED.Count shop/a";
    assert_eq!(described(&fleet, "JOSDK.Resource"), [format!("{deleted} = 1")]);
    // Another resource of this name has another identity.
    see(&mut fleet, "two");
    assert_eq!(
        described(&fleet, "JOSDK.Resource"),
        [
            "JOSDK.Resource.Event.Count shop/a = 2",
            "JOSDK.Resource.Event.ADDED.Count shop/a = 1",
            "JOSDK.Resource.Event.DELETED.Count shop/a = 1",
        ]
    );
    // It was deleted while nothing watched.
    fleet.list_begins(Kind::FlinkDeployment, None);
    fleet.list_ends(Kind::FlinkDeployment, None, at(2));
    assert_eq!(described(&fleet, "JOSDK.Resource"), [format!("{deleted} = 2")]);
}

#[test]
fn what_is_no_longer_watched_was_not_deleted() {
    let mut fleet = fleet();
    for uid in ["a", "b"] {
        fleet.see(&sighting(uid, 1, deployment(LifecycleState::Stable)), at(0));
    }
    fleet.gone("a", at(1));
    fleet.scope_closes(Kind::FlinkDeployment, Some("other"), at(1));
    assert_eq!(described(&fleet, "JOSDK.Resource.Event.DELETED").len(), 1);
    fleet.scope_closes(Kind::FlinkDeployment, Some("shop"), at(2));
    assert_eq!(described(&fleet, ""), [""; 0]);
}

#[test]
fn deletions_of_the_last_ones_alone_are_reported() {
    let mut fleet = fleet();
    let uids: Vec<String> = (0..DELETED_MAX + 5).map(|number| format!("a{number}")).collect();
    for uid in &uids {
        fleet.see(&sighting(uid, 1, deployment(LifecycleState::Stable)), at(0));
        fleet.gone(uid, at(1));
    }
    let told = described(&fleet, "JOSDK.Resource.Event.DELETED");
    assert_eq!(told.len(), DELETED_MAX);
    assert_eq!(told[0], "JOSDK.Resource.Event.DELETED.Count shop/a5 = 1");
}

#[test]
fn what_is_off_is_not_shown() {
    let off = |key: &str| {
        let config: FlinkConfig =
            [(format!("kubernetes.operator.{key}"), "false")].into_iter().collect();
        let mut fleet = Fleet::new(&Settings::of(&config).unwrap());
        fleet.see(&sighting("a", 1, deployment(LifecycleState::Stable)), at(0));
        fleet.see(&sighting("a", 2, deployment(LifecycleState::Suspended)), at(1));
        fleet.pass_begins("a", false, at(1));
        fleet.pass_ends("a", false, at(2));
        ["Count", "JOSDK", "Lifecycle", "FlinkDeployment.Lifecycle"]
            .map(|prefix| !described(&fleet, prefix).is_empty())
    };
    assert_eq!(off("resource.metrics.enabled"), [false, true, false, false]);
    assert_eq!(off("resource.lifecycle.metrics.enabled"), [true, true, false, false]);
    assert_eq!(off("josdk.metrics.enabled"), [true, false, true, true]);
    assert_eq!(off("resource.lifecycle.namespace.histograms.enabled"), [true, true, true, true]);
}

#[test]
fn namespaces_that_come_and_go_take_no_more_and_more_room() {
    let mut fleet = fleet();
    for number in 0..EMPTY_GROUPS_MAX + 50 {
        let namespace = format!("test-{number}");
        let stable = deployment(LifecycleState::Stable);
        let sighting =
            |version, facts| Sighting { namespace: &namespace, ..sighting("a", version, facts) };
        fleet.see(&sighting(1, stable), at(0));
        fleet.see(&sighting(2, deployment(LifecycleState::Suspended)), at(1));
        fleet.gone("a", at(2));
    }
    assert_eq!(fleet.groups.len(), EMPTY_GROUPS_MAX);
    let has = |name: &str| fleet.groups.contains_key(&(Kind::FlinkDeployment, name.into()));
    assert!(!has("test-0") && has("test-1049"));
}

#[test]
fn a_running_job_shows_how_old_its_newest_checkpoint_is() {
    let mut fleet = fleet();
    fleet.see(&sighting("orders", 1, deployment(LifecycleState::Stable)), at(0));
    assert_eq!(described(&fleet, "Checkpoint."), [""; 0]);
    assert!(fleet.asks_when_saved("orders", at(100)));
    let saved = Saved { newest: None, started: at(50).time };
    fleet.saved("orders", Some(saved));
    assert_eq!(described(&fleet, "Checkpoint."), ["Checkpoint.AgeSeconds shop/orders = 150"]);
    fleet.saved("orders", Some(Saved { newest: Some(at(90).time), ..saved }));
    assert_eq!(described(&fleet, "Checkpoint."), ["Checkpoint.AgeSeconds shop/orders = 110"]);
    assert!(!fleet.asks_when_saved("orders", at(159)), "at most once a minute");
    assert!(fleet.asks_when_saved("orders", at(160)));
    fleet.saved("orders", None);
    assert_eq!(described(&fleet, "Checkpoint."), [""; 0]);
    assert!(!fleet.asks_when_saved("unknown", at(300)));
}
