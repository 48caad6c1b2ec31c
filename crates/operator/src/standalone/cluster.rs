//! The loop of one cluster: lists its jobs, and takes a turn of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;

use super::job::Book;
use super::view::JobView;
use super::{Cluster, Shared};
use api::status::JobStatusState;
use autoscaler::event_limiter::EventLimiter;
use clients::flink::jobs::{JobOverview, JobState};

/// Maximum number of jobs of a cluster that are maintained.
const JOBS_MAX: usize = 1000;
/// An error that stays the same is logged again after this time.
const REPEAT_INTERVAL: std::time::Duration = std::time::Duration::from_mins(30);

/// Maintains the jobs of a cluster until the process is stopped.
pub(super) async fn follow(cluster: Cluster, shared: Arc<Shared>) {
    let (mut books, mut event_limiter) = (BTreeMap::new(), EventLimiter::default());
    loop {
        turn(&cluster, &shared, &mut books, &mut event_limiter).await;
        let pause = tokio::time::sleep(shared.settings.interval);
        if shared.stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

async fn turn(
    cluster: &Cluster,
    shared: &Shared,
    books: &mut BTreeMap<String, Book>,
    event_limiter: &mut EventLimiter,
) {
    let listing = shared.stop.run_until_cancelled(cluster.client.jobs_overview());
    let listed = match listing.await {
        None => return,
        Some(Ok(listed)) => listed,
        Some(Err(error)) => {
            // Nothing is concluded about the jobs.
            let problem = error.to_string();
            let now = jiff::Timestamp::now();
            if !event_limiter.is_suppressed(&problem, Some(REPEAT_INTERVAL), None, now) {
                tracing::warn!(cluster = cluster.url, problem, "the jobs cannot be listed");
            }
            shared.view.unreachable(&cluster.url, problem);
            return;
        }
    };
    let mut jobs = listed.jobs;
    jobs.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    let of_interest =
        |job: &JobOverview| !job.state.is_globally_terminal() || books.contains_key(&job.id);
    jobs.retain(of_interest);
    let skipped = jobs.len().saturating_sub(JOBS_MAX);
    if skipped > 0
        && !event_limiter.is_suppressed("jobs", Some(REPEAT_INTERVAL), None, jiff::Timestamp::now())
    {
        let cluster = &cluster.url;
        tracing::warn!(cluster, skipped, "only {JOBS_MAX} jobs of a cluster are scaled");
    }
    jobs.truncate(JOBS_MAX);
    // A job that vanished was not seen to end, so its stored data stays for a while.
    books.retain(|id, _| jobs.binary_search_by(|job| job.id.cmp(id)).is_ok());
    let mut turns = Vec::new();
    for job in jobs {
        let book = books.remove(&job.id).unwrap_or_else(|| Book::new(&cluster.url, &job.id));
        turns.push(one(cluster, shared, job, book));
    }
    let most = shared.settings.parallelism.max(1);
    let ended: Vec<_> = futures::stream::iter(turns).buffer_unordered(most).collect().await;
    let mut views = BTreeMap::new();
    for (id, book, view) in ended {
        if let Some(book) = book {
            books.insert(id.clone(), book);
        }
        views.extend(view.map(|view| (id, view)));
    }
    shared.view.inspected(&cluster.url, views);
}

/// Takes a turn of one job. Returns no book if the job is gone for good.
async fn one(
    cluster: &Cluster,
    shared: &Shared,
    job: JobOverview,
    mut book: Book,
) -> (String, Option<Book>, Option<JobView>) {
    let state = job.effective_state();
    if state.is_globally_terminal() {
        let (cluster, job, state) = (&cluster.url, &job.id, state.to_string());
        match shared.store.remove(book.key()).await {
            Ok(()) => {
                tracing::info!(
                    cluster,
                    job,
                    state,
                    "the job has ended: its stored data was removed"
                );
            }
            Err(error) => tracing::warn!(%error, cluster, job, "stored data not removed"),
        }
        return (job.clone(), None, None);
    }
    if shared.stop.is_cancelled() {
        return (job.id, Some(book), None);
    }
    if matches!(state, JobState::Known(JobStatusState::Running)) {
        let Ok(_place) = shared.room.acquire().await else { return (job.id, Some(book), None) };
        book.turn(cluster, &job, shared).await;
    } else {
        book.rest();
    }
    let view = book.view(&job, &state);
    (job.id, Some(book), Some(view))
}
