//! Information about the cluster as a whole.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    client::{Client, path},
    error::Error,
    wire::null_as_default,
};

/// `GET /config`. Flink serves it very early; a response does not mean that a job exists.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterConfig {
    /// Such as `1.20.1`.
    pub flink_version: String,
    /// Such as `0980485 @ 2026-01-01T00:00:00+00:00`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub flink_revision: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub features: Features,
}

/// The actions that the web server allows.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub struct Features {
    #[serde(default, deserialize_with = "null_as_default")]
    pub web_submit: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    pub web_cancel: bool,
    /// 1.18 and newer.
    #[serde(default, deserialize_with = "null_as_default")]
    pub web_rescale: bool,
}

/// `GET /overview`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterOverview {
    pub taskmanagers: u32,
    pub slots_total: u32,
    pub slots_available: u32,
    pub jobs_running: u32,
    pub jobs_finished: u32,
    pub jobs_cancelled: u32,
    pub jobs_failed: u32,
    #[serde(default, deserialize_with = "null_as_default")]
    pub flink_version: String,
}

/// `GET /taskmanagers`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct TaskManagers {
    pub taskmanagers: Vec<TaskManager>,
}

/// One registered TaskManager; each field's name says the unit of its memory.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TaskManager {
    pub id: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub path: String,
    /// Milliseconds since the epoch.
    #[serde(default, rename = "timeSinceLastHeartbeat")]
    pub last_heartbeat: Option<i64>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub slots_number: u32,
    #[serde(default, deserialize_with = "null_as_default")]
    pub free_slots: u32,
    #[serde(default)]
    pub hardware: Option<Hardware>,
    #[serde(default)]
    pub memory_configuration: Option<MemoryConfiguration>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub blocked: bool,
}

/// The machine or container as a TaskManager sees it; sizes in bytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Hardware {
    pub cpu_cores: f64,
    pub physical_memory: u64,
    pub free_memory: u64,
    pub managed_memory: u64,
}

/// How a TaskManager's memory is divided; sizes in bytes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryConfiguration {
    pub framework_heap: Option<u64>,
    pub task_heap: Option<u64>,
    pub framework_off_heap: Option<u64>,
    pub task_off_heap: Option<u64>,
    pub network_memory: Option<u64>,
    pub managed_memory: Option<u64>,
    pub jvm_metaspace: Option<u64>,
    pub jvm_overhead: Option<u64>,
    pub total_flink_memory: Option<u64>,
    pub total_process_memory: Option<u64>,
}

#[derive(Deserialize)]
struct Entry {
    key: String,
    #[serde(default, deserialize_with = "null_as_default")]
    value: String,
}

impl Client {
    /// `GET /config`.
    pub async fn config(&self) -> Result<ClusterConfig, Error> {
        self.get("/config".into()).await
    }

    /// `GET /overview`.
    pub async fn overview(&self) -> Result<ClusterOverview, Error> {
        self.get("/overview".into()).await
    }

    /// `GET /taskmanagers`.
    pub async fn taskmanagers(&self) -> Result<TaskManagers, Error> {
        self.get("/taskmanagers".into()).await
    }

    /// `GET /jobmanager/config`: the JobManager's effective configuration, with secrets masked.
    pub async fn job_manager_config(&self) -> Result<BTreeMap<String, String>, Error> {
        let entries: Vec<Entry> = self.get("/jobmanager/config".into()).await?;
        Ok(entries.into_iter().map(|entry| (entry.key, entry.value)).collect())
    }

    /// `GET /jobs/:jobid/jobmanager/config`: the same for one job. If Flink has no such endpoint, that of the
    /// JobManager.
    pub async fn job_config(&self, job_id: &str) -> Result<BTreeMap<String, String>, Error> {
        let of_job = self.get(path(&["jobs", job_id, "jobmanager", "config"])?).await;
        let entries: Vec<Entry> = match of_job {
            Err(error) if error.is_no_endpoint() => return self.job_manager_config().await,
            other => other?,
        };
        Ok(entries.into_iter().map(|entry| (entry.key, entry.value)).collect())
    }
}
