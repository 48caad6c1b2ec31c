//! Changing a running job's parallelism (1.18 and newer, adaptive scheduler).

use std::collections::BTreeMap;

use http::Method;
use serde::{Deserialize, Serialize};

use super::{
    client::{Call, Client, path},
    error::Error,
};

/// By vertex id; a change has to name all of the job's vertices.
pub type ResourceRequirements = BTreeMap<String, VertexRequirements>;

/// The requirements of one vertex.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct VertexRequirements {
    pub parallelism: ParallelismBounds,
}

/// The job runs as soon as every vertex has its lower bound, with as much as there is up to the
/// upper one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParallelismBounds {
    /// Zero where it was never set; write at least one.
    pub lower_bound: u32,
    pub upper_bound: u32,
}

impl Client {
    /// `GET /jobs/:jobid/resource-requirements`.
    pub async fn resource_requirements(&self, job_id: &str) -> Result<ResourceRequirements, Error> {
        self.get(path(&["jobs", job_id, "resource-requirements"])?).await
    }

    /// `PUT /jobs/:jobid/resource-requirements`; the job follows some time later.
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
