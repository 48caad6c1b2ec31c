//! When the newest checkpoint of each running job was taken, for `list -o wide`.
//!
//! That is not in the status: writing it there would be a write for each checkpoint of each job.

use futures::{StreamExt, stream};
use jiff::Timestamp;

use super::rows::Row;
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::job_manager;
use crate::cli::lookup;
use clients::flink::access::{Access, Connector};

/// Number of jobs that are asked about concurrently.
const AT_ONCE: usize = 16;
/// Maximum number of running jobs that are asked about.
const ASKED_MAX: usize = 500;

/// Sets the time of the newest checkpoint in the row of each running job. Returns what a person should know about those
/// that are missing.
pub(super) async fn ask(connection: &Connection, access: Access, rows: &mut [Row]) -> Vec<String> {
    let runs = |of: &Deployment| {
        of.job_state() == Some("RUNNING") && of.job_id().is_some() && !of.is_blue_green()
    };
    let running = || rows.iter().enumerate().filter(|(_, row)| runs(&row.0));
    let left = running().count().saturating_sub(ASKED_MAX);
    let asked: Vec<(usize, Deployment)> =
        running().take(ASKED_MAX).map(|(index, row)| (index, row.0.clone())).collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let connector = match job_manager::connector(connection, access) {
        Ok(connector) => connector,
        Err(error) => return vec![format!("SAVED is not known: {error:#}")],
    };
    let answers: Vec<_> = stream::iter(asked)
        .map(|(index, job)| {
            let connector = &connector;
            async move { (index, saved_at(connection, connector, &job).await) }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let (mut failed, mut reason) = (0, None);
    for (index, answer) in answers {
        match (answer, rows.get_mut(index)) {
            (Ok(Some(at)), Some(row)) => row.0.set_saved_at(at),
            (Err(error), Some(row)) => {
                failed += 1;
                reason.get_or_insert_with(|| format!("{}: {error:#}", row.0.shown_name()));
            }
            (_, _) => {}
        }
    }
    let unreached = reason.map(|reason| {
        format!("SAVED of {failed} running jobs is not known, as their JobManagers did not say: {reason}")
    });
    let unasked = (left > 0).then(|| {
        format!(
            "SAVED is read of {ASKED_MAX} running jobs, and {left} are left out: select fewer \
             with -n or -l, or see the metric Checkpoint.AgeSeconds"
        )
    });
    unreached.into_iter().chain(unasked).collect()
}

async fn saved_at(
    connection: &Connection,
    connector: &Connector,
    job: &Deployment,
) -> anyhow::Result<Option<Timestamp>> {
    let cluster = lookup::cluster_of_row(connection, job).await?;
    let client = job_manager::client_of(connector, &cluster, job_manager::soon())?;
    let client = client.without_retries();
    let latest = client.latest_checkpoints(job.job_id().unwrap_or_default()).await?;
    let at = latest.and_then(|latest| latest.saved_at());
    Ok(at.and_then(|at| Timestamp::from_millisecond(at).ok()))
}
