//! What JobManagers say about the jobs on a page of the fleet while the page is open: when the newest checkpoint was
//! taken, and if a person asks for them, live figures as `kubectl flink top` measures them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::answers::Console;
use super::resource::{PART_TIME_MAX, job_manager_of};
use crate::cli::top::vertices::Known;
use crate::cli::top::{self, milliseconds, part, short};
use console::query::Query;
use console::row::{Figures, Key};

/// Maximum number of jobs measured for one page; the others have no figures.
const MEASURED_MAX: usize = 60;
/// Maximum number of jobs measured at the same time, for all pages.
const AT_ONCE_MAX: usize = 4;
/// Age after which a figure is measured again.
const FRESH: Duration = Duration::from_secs(10);
/// Age after which a job is asked for its newest checkpoint again.
const FRESH_CHECKPOINT: Duration = Duration::from_mins(1);
/// Maximum number of jobs remembered. Those that are no longer shown make room.
const KNOWN_MAX: usize = 1_000;

/// When each job was last measured, and what is kept of it for the next time.
pub(super) struct Measured {
    jobs: Mutex<BTreeMap<Key, Last>>,
    turns: Semaphore,
}

struct Last {
    at: Instant,
    known: Option<Known>,
}

impl Default for Measured {
    fn default() -> Self {
        Self { jobs: Mutex::default(), turns: Semaphore::new(AT_ONCE_MAX) }
    }
}

impl Measured {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<Key, Last>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the last answer is older than `fresh`, and if so, marks the job as measured.
    fn begins(&self, key: &Key, fresh: Duration) -> bool {
        let mut jobs = self.jobs();
        if jobs.get(key).is_some_and(|last| last.at.elapsed() < fresh) {
            return false;
        }
        if jobs.len() >= KNOWN_MAX {
            jobs.retain(|_, last| last.at.elapsed() < fresh);
        }
        let known = jobs.remove(key).and_then(|last| last.known);
        jobs.insert(key.clone(), Last { at: Instant::now(), known });
        true
    }
}

/// Starts to ask for the jobs on a page that are due.
pub(super) fn refresh(console: &Arc<Console>, query: &Query) {
    let Some(measured) = console.measured.as_ref() else { return };
    let has_figures = query.figures;
    let fresh = if has_figures { FRESH } else { FRESH_CHECKPOINT };
    let running: Vec<Key> = {
        let fleet = console.fleet();
        let selection = fleet.whole().select(query);
        let runs =
            selection.rows.iter().filter(|(_, row)| row.job_state.as_deref() == Some("RUNNING"));
        runs.filter(|(_, row)| !row.is_session)
            .map(|(key, _)| (*key).clone())
            .take(MEASURED_MAX)
            .collect()
    };
    for key in running.into_iter().filter(|key| measured.begins(key, fresh)) {
        let console = Arc::clone(console);
        // The task ends with its figures or by its timeout.
        drop(tokio::spawn(async move {
            let Some(measured) = &console.measured else { return };
            let Ok(_turn) = measured.turns.acquire().await else { return };
            let asked = ask(&console, measured, &key, has_figures);
            let (figures, saved_at) =
                timeout(PART_TIME_MAX, asked).await.ok().flatten().unwrap_or_default();
            console.known.change(|fleet| {
                if has_figures {
                    fleet.measure(&key, figures);
                }
                if let Some(at) = saved_at {
                    fleet.save(&key, at / 1000);
                }
            });
        }));
    }
}

/// Returns `None` if the JobManager does not answer. The page of the job says why.
async fn ask(
    console: &Console,
    measured: &Measured,
    key: &Key,
    has_figures: bool,
) -> Option<(Option<Figures>, Option<i64>)> {
    let known = measured.jobs().get_mut(key).and_then(|last| last.known.take());
    let known = match known {
        Some(known) => known,
        None => meet(console, key).await?,
    };
    // If the JobManager is gone, the next measurement looks it up again.
    let (figures, saved_at, known) = if has_figures {
        let (figures, known) = top::ask(known).await.ok()?;
        (Some(shown(&figures)), figures.saved_at, known)
    } else {
        (None, known.saved_at().await.ok()?, known)
    };
    if let Some(last) = measured.jobs().get_mut(key) {
        last.known = Some(known);
    }
    Some((figures, saved_at))
}

fn shown(figures: &top::Figures) -> Figures {
    let number = |number: Option<f64>| number.map(short).unwrap_or_default().into();
    let share = |number: Option<f64>| number.map(|it| part(Some(it))).unwrap_or_default().into();
    Figures {
        records_in: number(figures.records_in_per_second),
        lag: number(figures.lag),
        busy: share(figures.busy),
        backpressure: share(figures.backpressure),
        checkpoint: figures
            .checkpoint_milliseconds
            .last()
            .map(|it| milliseconds(*it))
            .unwrap_or_default()
            .into(),
    }
}

/// Looks up the job and the JobManager that runs it.
async fn meet(console: &Console, key: &Key) -> Option<Known> {
    let reader = &console.reader;
    let object = reader.object(key).await.ok()??;
    let connection = reader.connection(&key.namespace);
    let (present, cluster) = job_manager_of(&connection, &object).await.ok()?;
    Known::new(&connection, &cluster, present.job_id()?, reader.access).ok()
}
