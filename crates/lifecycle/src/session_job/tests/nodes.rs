//! Nodes that are about to go, and the session jobs on them.

use jiff::SignedDuration;

use super::*;
use crate::node_notice::Taint;
use crate::plan::{SnapshotStep, Step};
use crate::trigger::known::SnapshotKind;
use api::NODE_NOTICES_ANNOTATION;
use api::state_snapshot::{FlinkStateSnapshot, SnapshotState};
use api::status::SnapshotTriggerType;

const SNAPSHOT: &str = "kubernetes.operator.node-notice.snapshot";

fn created(plan: &Plan) -> Option<&FlinkStateSnapshot> {
    plan.steps.iter().find_map(|step| {
        let Step::Snapshot(SnapshotStep::Create(snapshot)) = step else { return None };
        Some(&**snapshot)
    })
}

fn going(name: &str) -> Node {
    let taint = Taint { key: "karpenter.sh/disrupted".to_owned(), ..Taint::default() };
    let uid = format!("uid-{name}");
    Node { name: name.to_owned(), uid, is_unschedulable: false, taints: vec![taint] }
}

/// A session job whose cluster is configured for these snapshots, and has its pods on `n1`.
fn case_with(snapshot: &str) -> Case {
    let mut case = Case::running("savepoint");
    case.set_in_cluster(SNAPSHOT, snapshot);
    let _settled = case.pass();
    case
}

#[test]
fn the_jobs_of_a_cluster_have_a_savepoint_each_when_its_node_goes() {
    let mut case = case_with("SAVEPOINT");
    assert!(created(&case.pass()).is_none());
    case.nodes = Fact::Known(vec![going("n2")]);
    assert!(created(&case.pass()).is_none(), "no pod of the cluster is there");
    case.nodes = Fact::Known(vec![going("n2"), going("n1")]);
    let plan = case.pass();
    let snapshot = created(&plan).unwrap();
    assert!(snapshot.spec.savepoint.is_some());
    let annotations = snapshot.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations[NODE_NOTICES_ANNOTATION], "uid-n1");
    assert_eq!(reasons(&plan), ["NodeNotice"]);
    assert_eq!(case.status.job_status.state, Some(JobStatusState::Running));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable));
    assert!(created(&case.pass()).is_none(), "once");
}

#[test]
fn a_snapshot_that_was_taken_for_a_node_puts_off_no_other() {
    let mut case = case_with("SAVEPOINT");
    case.set_in_cluster("kubernetes.operator.periodic.savepoint.interval", "10 min");
    case.resource.metadata.creation_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(case.now));
    case.nodes = Fact::Known(vec![going("n1")]);
    case.snapshots.push(KnownSnapshot {
        name: "for-n1".to_owned(),
        uid: String::new(),
        version: String::new(),
        kind: SnapshotKind::Savepoint,
        trigger_type: SnapshotTriggerType::Periodic,
        state: SnapshotState::Completed,
        created: case.now + SignedDuration::from_mins(9),
        path: None,
        nonce: None,
        asked_by: None,
        notices: vec!["uid-n1".to_owned()],
        is_disposed_of: false,
        is_deleting: false,
    });
    case.now += SignedDuration::from_mins(11);
    let plan = case.pass();
    let periodic = created(&plan).unwrap();
    assert_eq!(periodic.metadata.annotations, None, "by its schedule");
    assert_eq!(reasons(&plan), [""; 0], "the notice is answered already");
}

#[test]
fn nodes_are_asked_about_only_where_that_changes_anything() {
    let asks = |case: &mut Case| {
        case.asked.clear();
        let plan = case.pass();
        assert!(created(&plan).is_none());
        let is_asked = |question| case.asked.contains(&question);
        (is_asked(Question::Nodes), is_asked(Question::PodNodes))
    };
    assert_eq!(asks(&mut Case::running("savepoint")), (false, false), "off by default");
    assert_eq!(asks(&mut case_with("NONE")), (false, false));
    let mut case = case_with("SAVEPOINT");
    assert_eq!(asks(&mut case), (true, false), "no node goes");
    case.list(JobStatusState::Restarting);
    case.nodes = Fact::Known(vec![going("n1")]);
    assert_eq!(asks(&mut case), (false, false), "nothing can be taken");
    let mut case = case_with("SAVEPOINT");
    case.has_snapshot_resources = false;
    assert_eq!(asks(&mut case), (false, false), "nothing could bear the notice");
}

#[test]
fn what_cannot_be_read_of_nodes_changes_nothing() {
    let mut case = case_with("SAVEPOINT");
    let before = case.pass();
    case.nodes = Fact::Unknown("forbidden".to_owned());
    let plan = case.pass();
    assert_eq!((plan.steps.len(), &plan.status), (before.steps.len(), &before.status));
}

#[test]
fn a_checkpoint_is_taken_where_flink_can() {
    for (version, is_taken) in [(FlinkVersion::V1_16, false), (FlinkVersion::V1_20, true)] {
        let mut case = case_with("CHECKPOINT");
        case.cluster.as_mut().unwrap().spec.flink_version = Some(version);
        case.nodes = Fact::Known(vec![going("n1")]);
        let plan = case.pass();
        let snapshot = created(&plan);
        assert_eq!(snapshot.is_some_and(|it| it.spec.checkpoint.is_some()), is_taken);
        assert_eq!(reasons(&plan).len(), usize::from(is_taken), "{version:?}");
    }
}
