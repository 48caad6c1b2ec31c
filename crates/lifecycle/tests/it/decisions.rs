//! The tables of the Java operator's behaviour, one test per row, against the whole decision.
//!
//! A test is named after its row: `t13` is transition T13, `q03` quirk Q3, `s12` a rule of the section on rollback. If
//! this operator deviates deliberately, the name or a comment says so. Rows of the upgrade table and of the spec diff
//! are beside their code, in `lifecycle::transitions::stop` and `lifecycle::diff`. Quirks Q4, Q5 and Q7 are about
//! session clusters and their jobs, Q9 and Q10 about snapshots and leftovers; they are tested with those.
//! `docs/decisions.md` lists all rows, and `table` checks that it matches the tests.

mod blank;
pub(super) mod care;
mod crashes;
mod deletion;
mod etcd_restore;
mod hot;
mod not_carried_out;
mod paused;
mod phases;
mod properties;
mod quirks;
mod readiness;
mod redeploy;
pub(super) mod reload;
mod rollback;
mod silence;
mod table;
mod taken_down;
mod takeover;
mod transitions;
mod turns;
mod unfinished;
mod unstarted;
mod validators;
mod waits;

use std::collections::BTreeMap;

use api::deployment::FlinkDeploymentSpec;
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use api::status::{
    DeploymentStatus, JobManagerDeploymentStatus, JobStatusState, ReconciliationState,
};
use config::OperatorConfig;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::error_document::WentBack;
use lifecycle::plan::{ClusterStep, Plan, Step};
use lifecycle::reconcile::decide;
use lifecycle::world::{
    Bounds, Checkpoints, CompletedState, DeploymentVersion, Fact, HaMetadata, Job, JobManager,
    JobMetrics, Pod, PodProblem, Stop, World,
};
use serde_json::json;
use state::restore_point::RestorePoint;
use testing::scene::{
    CHECKPOINT, HA, JOB_ID, NOW, SAVEPOINT, Scene, ago, by_default, check, created, described,
    described_step, error, given, job, job_manager, phases_of, pod, restored, started_without,
    step_names,
};
