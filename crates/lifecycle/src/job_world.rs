//! What decisions about any resource with a job may look at.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::error_document::WentBack;
use super::kind::Kind;
use super::memo::Stored;
use super::node_notice::Node;
use super::trigger::known::KnownSnapshot;
use super::trigger::memory::Memory;
use super::world::{
    Answer, Bounds, Checkpoints, Fresh, JobException, JobMetrics, Stop, ToldExceptions, Trigger,
};
use config::OperatorConfig;

macro_rules! job_facts {
    ($($name:ident: $type:ty;)*) => {
        /// What decisions about any resource with a job may look at.
        pub(super) trait JobWorld {
            type Kind: Kind;

            fn now(&self) -> Timestamp;
            fn metadata(&self) -> &ObjectMeta;
            fn spec(&self) -> &<Self::Kind as Kind>::Spec;
            fn status(&self) -> &<Self::Kind as Kind>::Status;
            fn operator(&self) -> &OperatorConfig;
            fn has_snapshot_resources(&self) -> bool;
            fn fresh(&self) -> &Fresh;
            fn told_exceptions(&self) -> Option<&ToldExceptions>;
            fn periodic(&self) -> &Memory;
            fn zone(&self) -> &TimeZone;
            fn went_back(&self) -> Option<&WentBack>;

            /// What the last plan stopped at, and nobody has mended since.
            fn stopped_at(&self) -> Option<&str>;

            /// The stored spec of this text.
            fn parse(&self, text: &str) -> Stored<<Self::Kind as Kind>::Spec>;

            /// Whether two stored texts mean the same spec.
            fn is_same(&self, one: &str, other: &str) -> bool;

            $(
                /// The fact, or the question to answer first.
                fn $name(&self) -> Result<Answer<'_, $type>, <Self::Kind as Kind>::Question>;
            )*

            fn name(&self) -> &str {
                self.metadata().name.as_deref().unwrap_or_default()
            }

            fn namespace(&self) -> &str {
                self.metadata().namespace.as_deref().unwrap_or("default")
            }

            fn generation(&self) -> i64 {
                self.metadata().generation.unwrap_or_default()
            }
        }
    };
}

job_facts! {
    checkpoints: Checkpoints;
    retention: bool;
    stop: Stop;
    exceptions: Vec<JobException>;
    job_metrics: JobMetrics;
    resource_requirements: BTreeMap<String, Bounds>;
    snapshots: Vec<KnownSnapshot>;
    savepoint: Trigger;
    checkpoint: Trigger;
    revisions: Vec<String>;
    references: BTreeMap<String, Vec<String>>;
    nodes: Vec<Node>;
    pod_nodes: BTreeSet<String>;
}

/// Implements [`JobWorld`] for a world whose facts and questions have the usual names.
macro_rules! job_world {
    ($kind:ty; $($name:ident: $type:ty => $question:ident;)*) => {
        impl AnyQuestion for Question {}

        impl JobWorld for World<'_> {
            type Kind = $kind;

            fn now(&self) -> Timestamp {
                self.now
            }

            fn metadata(&self) -> &ObjectMeta {
                &self.resource.metadata
            }

            fn spec(&self) -> &<$kind as Kind>::Spec {
                &self.resource.spec
            }

            fn status(&self) -> &<$kind as Kind>::Status {
                self.status
            }

            fn operator(&self) -> &OperatorConfig {
                self.operator
            }

            fn has_snapshot_resources(&self) -> bool {
                self.has_snapshot_resources
            }

            fn fresh(&self) -> &Fresh {
                &self.fresh
            }

            fn told_exceptions(&self) -> Option<&ToldExceptions> {
                self.told_exceptions.as_ref()
            }

            fn periodic(&self) -> &Memory {
                &self.periodic
            }

            fn zone(&self) -> &TimeZone {
                &self.zone
            }

            fn went_back(&self) -> Option<&WentBack> {
                self.went_back.as_ref()
            }

            fn stopped_at(&self) -> Option<&str> {
                self.facts.stopped_at.as_deref()
            }

            fn parse(&self, text: &str) -> Stored<<$kind as Kind>::Spec> {
                self.memo.parse(text)
            }

            fn is_same(&self, one: &str, other: &str) -> bool {
                self.memo.is_same(one, other)
            }

            $(
                fn $name(&self) -> Result<Answer<'_, $type>, Question> {
                    self.facts.$name.read(Question::$question)
                }
            )*
        }
    };
}
pub(super) use job_world;
