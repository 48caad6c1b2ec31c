//! Changing a running job's parallelism (1.18 and newer, adaptive scheduler).

use std::collections::BTreeMap;

use http::Method;
use serde::{Deserialize, Serialize};

use super::{
    client::{Call, Client, path},
    error::Error,
};

/// By vertex id; a change must name all of the job's vertices.
pub type ResourceRequirements = BTreeMap<String, VertexRequirements>;

/// The requirements of one vertex.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct VertexRequirements {
    pub parallelism: ParallelismBounds,
}

/// The job runs as soon as every vertex has its lower bound, with as much as is available up to the upper one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParallelismBounds {
    /// One if it was never set, in Flink 1.20 and 2.3; write at least one.
    pub lower_bound: u32,
    pub upper_bound: u32,
}

/// A rescale of a job as Flink reports it: automatic, as TaskManagers come and go, or requested.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Rescale {
    pub rescale_uuid: String,
    #[serde(rename = "startTimestampInMillis")]
    pub started: Option<i64>,
    #[serde(rename = "endTimestampInMillis")]
    pub ended: Option<i64>,
    /// Such as `UPDATE_REQUIREMENT`.
    pub trigger_cause: Option<String>,
    /// `COMPLETED`, `FAILED` or `IGNORED`; `None` while it is in progress.
    pub terminal_state: Option<String>,
    /// Such as `NO_RESOURCES_OR_PARALLELISMS_CHANGE`.
    pub terminated_reason: Option<String>,
}

/// Option for the number of rescales that a JobManager remembers of a job; none by default.
pub const RESCALE_HISTORY_SIZE: &str = "web.adaptive-scheduler.rescale-history.size";

impl Client {
    /// `GET /jobs/:jobid/rescales/history` (2.3 and newer, adaptive scheduler): newest first. `None` if the JobManager
    /// remembers none of this job: the first start of a job is a rescale, too, so that a list is never empty.
    pub async fn rescales(&self, job_id: &str) -> Result<Option<Vec<Rescale>>, Error> {
        match self.get(path(&["jobs", job_id, "rescales", "history"])?).await {
            Ok(rescales) => Ok(Some(rescales).filter(|rescales: &Vec<_>| !rescales.is_empty())),
            Err(error) if error.says(|line| line.contains(RESCALE_HISTORY_SIZE)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `GET /jobs/:jobid/resource-requirements`.
    pub async fn resource_requirements(&self, job_id: &str) -> Result<ResourceRequirements, Error> {
        self.get(path(&["jobs", job_id, "resource-requirements"])?).await
    }

    /// `PUT /jobs/:jobid/resource-requirements`; takes effect some time later.
    ///
    /// After an error whose [`Error::effect`] is unknown, read them and compare.
    pub async fn set_resource_requirements(
        &self,
        job_id: &str,
        requirements: &ResourceRequirements,
    ) -> Result<(), Error> {
        let path = path(&["jobs", job_id, "resource-requirements"])?;
        let call = Call::json(Method::PUT, path, requirements)?;
        self.send(call, self.deadlines().request).await.map(drop)
    }
}
