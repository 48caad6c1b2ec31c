//! The facts of a `FlinkDeployment` that every resource with a job has.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    Answer, AnyQuestion, Bounds, Checkpoints, Fresh, JobException, JobMetrics, Question, Stop,
    ToldExceptions, Trigger, World,
};
use crate::error_document::WentBack;
use crate::job_world::{JobWorld, job_world};
use crate::kind::Kind;
use crate::memo::Stored;
use crate::node_notice::Node;
use crate::trigger::known::KnownSnapshot;
use crate::trigger::memory::Memory;
use api::deployment::FlinkDeployment;
use config::OperatorConfig;

job_world! {
    FlinkDeployment;
    checkpoints: Checkpoints => Checkpoints;
    retention: bool => Retention;
    stop: Stop => Stop;
    exceptions: Vec<JobException> => Exceptions;
    job_metrics: JobMetrics => JobMetrics;
    resource_requirements: BTreeMap<String, Bounds> => ResourceRequirements;
    snapshots: Vec<KnownSnapshot> => Snapshots;
    savepoint: Trigger => Savepoint;
    checkpoint: Trigger => Checkpoint;
    revisions: Vec<String> => Revisions;
    references: BTreeMap<String, Vec<String>> => References;
    nodes: Vec<Node> => Nodes;
    pod_nodes: BTreeSet<String> => PodNodes;
}
