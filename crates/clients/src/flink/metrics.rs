//! Metrics of jobs, of a vertex's subtasks, and of the processes.
//!
//! Flink collects them every 10 seconds: just after a start, lists are empty. A missing metric is left out, which means
//! that it was not measured, not that it is zero.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    client::{Client, encode, path},
    error::Error,
    wire::number,
};

/// One metric of several subtasks or TaskManagers; `None` if Flink has no number.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct AggregatedMetric {
    pub id: String,
    #[serde(default, deserialize_with = "number")]
    pub min: Option<f64>,
    #[serde(default, deserialize_with = "number")]
    pub max: Option<f64>,
    #[serde(default, deserialize_with = "number")]
    pub avg: Option<f64>,
    #[serde(default, deserialize_with = "number")]
    pub sum: Option<f64>,
}

#[derive(Deserialize)]
struct Metric {
    id: String,
    #[serde(default)]
    value: Option<String>,
}

/// Returns `get=a,b`, encoded.
fn names_query(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| encode(name)).collect();
    format!("get={}", names.join(","))
}

impl Client {
    /// `GET /jobs/:jobid/metrics?get=…`: existing metrics, as text.
    pub async fn job_metrics(
        &self,
        job_id: &str,
        names: &[&str],
    ) -> Result<BTreeMap<String, String>, Error> {
        self.values(&path(&["jobs", job_id, "metrics"])?, names).await
    }

    /// `GET /jobmanager/metrics?get=…`: existing metrics, as text.
    pub async fn job_manager_metrics(
        &self,
        names: &[&str],
    ) -> Result<BTreeMap<String, String>, Error> {
        self.values("/jobmanager/metrics", names).await
    }

    /// Returns the names of the metrics that a vertex's subtasks have.
    pub async fn subtask_metric_names(
        &self,
        job_id: &str,
        vertex_id: &str,
    ) -> Result<Vec<String>, Error> {
        let path = path(&["jobs", job_id, "vertices", vertex_id, "subtasks", "metrics"])?;
        let metrics: Vec<Metric> = self.get(path).await?;
        Ok(metrics.into_iter().map(|metric| metric.id).collect())
    }

    /// Returns metrics over a vertex's subtasks.
    ///
    /// Request only [names that exist](Self::subtask_metric_names): if one has no value in any subtask, Flink returns
    /// nothing at all.
    pub async fn subtask_metrics(
        &self,
        job_id: &str,
        vertex_id: &str,
        names: &[&str],
    ) -> Result<Vec<AggregatedMetric>, Error> {
        let path = path(&["jobs", job_id, "vertices", vertex_id, "subtasks", "metrics"])?;
        self.get(format!("{path}?{}&agg=min,max,avg,sum", names_query(names))).await
    }

    /// Returns metrics over all TaskManagers.
    pub async fn task_manager_metrics(
        &self,
        names: &[&str],
    ) -> Result<Vec<AggregatedMetric>, Error> {
        self.get(format!("/taskmanagers/metrics?{}&agg=min,max,avg,sum", names_query(names))).await
    }

    async fn values(&self, path: &str, names: &[&str]) -> Result<BTreeMap<String, String>, Error> {
        let metrics: Vec<Metric> = self.get(format!("{path}?{}", names_query(names))).await?;
        Ok(metrics.into_iter().filter_map(|metric| Some((metric.id, metric.value?))).collect())
    }
}
