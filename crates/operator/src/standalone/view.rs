//! The view of clusters and jobs: their last seen state, kept apart from what decides.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_with::skip_serializing_none;
use tokio::time::Instant;

use autoscaler::metric::{Figures, REPORTED};
use autoscaler::topology::VertexId;

/// Maximum number of vertices of a job that are shown.
const VERTICES_MAX: usize = 200;

/// All clusters, by URL.
pub struct View {
    clusters: Mutex<BTreeMap<String, ClusterView>>,
    /// A loop that was not seen for this long hangs.
    silence_max: Duration,
}

/// A cluster as last seen.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterView {
    pub(super) url: String,
    pub(super) is_reachable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) jobs: BTreeMap<String, JobView>,
    #[serde(skip)]
    seen: Instant,
}

/// A job as last seen.
#[skip_serializing_none]
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobView {
    pub(super) name: String,
    pub(super) state: String,
    /// `in place`, `off`, or `advice` and why.
    pub(super) effect: String,
    pub(super) outcome: Option<String>,
    pub(super) error: Option<String>,
    pub(super) measured_at: Option<Timestamp>,
    pub(super) scalings: u64,
    pub(super) balanced: u64,
    pub(super) errors: u64,
    pub(super) vertices: BTreeMap<VertexId, VertexView>,
}

/// A vertex as last measured.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VertexView {
    pub(super) parallelism: u32,
    /// `None` if nothing was decided yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) decided: Option<u32>,
    pub(super) metrics: BTreeMap<&'static str, FigureView>,
}

/// A figure; its values are `None` if they are unknown or infinite.
#[skip_serializing_none]
#[derive(Clone, Copy, Serialize)]
pub(super) struct FigureView {
    pub(super) current: Option<f64>,
    pub(super) average: Option<f64>,
}

impl VertexView {
    pub(super) fn new(parallelism: u32, decided: Option<u32>, figures: Option<&Figures>) -> Self {
        let known = |number: f64| Some(number).filter(|number| number.is_finite());
        let metrics = REPORTED.iter().filter_map(|(metric, has_average)| {
            let figures = figures?;
            let current = known(figures.current(*metric));
            let average = if *has_average { known(figures.average(*metric)) } else { None };
            let is_known = current.is_some() || average.is_some();
            is_known.then(|| (metric.into_str(), FigureView { current, average }))
        });
        Self { parallelism, decided, metrics: metrics.collect() }
    }
}

impl View {
    /// Creates the view of loops that take a turn within this time.
    pub fn new(silence_max: Duration) -> Self {
        Self { clusters: Mutex::default(), silence_max }
    }

    fn clusters(&self) -> MutexGuard<'_, BTreeMap<String, ClusterView>> {
        // The data is only shown, so a poisoned lock does no harm.
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a cluster that will be followed.
    pub(super) fn expect(&self, url: &str) {
        let cluster = ClusterView {
            url: url.to_owned(),
            is_reachable: false,
            error: None,
            jobs: BTreeMap::new(),
            seen: Instant::now(),
        };
        self.clusters().insert(url.to_owned(), cluster);
    }

    /// Notes that the cluster did not answer; its jobs are shown as last seen.
    pub(super) fn unreachable(&self, url: &str, error: String) {
        if let Some(cluster) = self.clusters().get_mut(url) {
            (cluster.is_reachable, cluster.error) = (false, Some(error));
            cluster.seen = Instant::now();
        }
    }

    /// Notes that a turn has ended.
    pub(super) fn inspected(&self, url: &str, mut jobs: BTreeMap<String, JobView>) {
        for job in jobs.values_mut() {
            while job.vertices.len() > VERTICES_MAX {
                job.vertices.pop_last();
            }
        }
        if let Some(cluster) = self.clusters().get_mut(url) {
            (cluster.is_reachable, cluster.error) = (true, None);
            (cluster.jobs, cluster.seen) = (jobs, Instant::now());
        }
    }

    /// Returns all clusters, in the order of their URLs.
    pub(super) fn all(&self) -> Vec<ClusterView> {
        self.clusters().values().cloned().collect()
    }

    /// Returns the clusters whose loop hangs.
    pub(super) fn silent(&self) -> Vec<String> {
        let clusters = self.clusters();
        let silent = clusters.values().filter(|of| of.seen.elapsed() > self.silence_max);
        silent.map(|of| of.url.clone()).collect()
    }
}
