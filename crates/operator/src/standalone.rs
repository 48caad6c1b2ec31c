//! The autoscaler as a program of its own, for Flink clusters anywhere: no Kubernetes, no resources.
//!
//! Each cluster has a loop that lists the jobs. Each running job is measured, evaluated by the same rules as in the
//! operator, and scaled in place. A decision is stored before it is carried out, and the stored decision is requested
//! again in every turn, so that a process may end at any time. A cluster that does not answer holds up no other one.

mod cluster;
mod job;
mod page;
mod view;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::scaling_rules::ScalingRules;
use autoscaler::window::earlier;
use clients::flink::Client;
use clients::store::Store;
use config::FlinkConfig;

pub use page::routes;
pub use view::View;

/// Maximum length of a cluster's URL, in bytes: with the id of a job it is a key of the store.
pub const URL_BYTES_MAX: usize = 150;
/// The stored data of a job is removed if it was not written for this long.
const RETENTION: Duration = Duration::from_hours(30 * 24);
/// Time between two checks for such jobs.
const TRIM_INTERVAL: Duration = Duration::from_hours(1);

/// A Flink cluster whose jobs are scaled.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Without a trailing `/`, and without secrets.
    pub url: String,
    pub client: Client,
}

/// How jobs are maintained.
#[derive(Clone)]
pub struct Settings {
    /// Options that apply unless a job's own configuration sets them.
    pub base: FlinkConfig,
    /// Options that apply whatever a job's own configuration sets.
    pub set: FlinkConfig,
    /// Pause between two turns of a cluster.
    pub interval: Duration,
    /// Maximum number of jobs that are measured at the same time, of all clusters.
    pub parallelism: usize,
    /// Rules that jobs may name.
    pub rules: ScalingRules,
}

/// The state that all loops share.
struct Shared {
    settings: Settings,
    store: Arc<dyn Store>,
    view: Arc<View>,
    room: Semaphore,
    zone: TimeZone,
    /// Stops new measurements from beginning; what was decided is still stored and carried out.
    stop: CancellationToken,
}

/// Runs until `stop` is cancelled and everything that was begun has ended, each within its deadline.
pub async fn run(
    clusters: Vec<Cluster>,
    settings: Settings,
    store: Arc<dyn Store>,
    view: Arc<View>,
    stop: CancellationToken,
) {
    let room = Semaphore::new(settings.parallelism.max(1));
    let shared = Arc::new(Shared { settings, store, view, room, zone: TimeZone::system(), stop });
    let tasks = TaskTracker::new();
    for cluster in clusters {
        shared.view.expect(&cluster.url);
        tasks.spawn(cluster::follow(cluster, Arc::clone(&shared)));
    }
    tasks.spawn(trim(Arc::clone(&shared)));
    tasks.close();
    tasks.wait().await;
}

/// Removes the data of jobs that have not been seen for long.
async fn trim(shared: Arc<Shared>) {
    loop {
        match shared.store.trim(earlier(Timestamp::now(), RETENTION)).await {
            Ok(removed) => {
                for job in removed {
                    tracing::info!(job, "not seen for 30 days: its stored data was removed");
                }
            }
            Err(error) => tracing::warn!(%error, "the data of old jobs was not removed"),
        }
        let pause = tokio::time::sleep(TRIM_INTERVAL);
        if shared.stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}
