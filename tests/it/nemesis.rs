//! The nemesis: jobs on real Flink while specs change and everything around them fails, and at the end every record is
//! accounted for.
//!
//! `tests/cluster.sh nemesis` runs it for `KUBECTL_FLINK_NEMESIS_MINUTES`. [`plan`] says what happens when, from
//! `KUBECTL_FLINK_NEMESIS_SEED`; [`faults`] and [`edits`] carry it out; [`statuses`] and [`checkpoints`] look at what
//! comes of it, and [`check`] and [`output`] judge that. See `docs/nemesis.md`.

mod answers;
mod check;
mod checkpoints;
mod colours;
mod edits;
mod faults;
mod history;
mod logs;
mod operators;
mod output;
mod plan;
mod report;
mod stage;
mod statuses;
mod store;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::{Value, json};

use check::is_carried_out;
use checkpoints::Checkpoints;
use colours::Colours;
use history::History;
use plan::{Event, Target, plan};
use report::Outcome;
use stage::Stage;
use statuses::Statuses;

const MINUTES: u64 = 10;
/// Time for everything to come to rest once nothing fails any more.
const SETTLED_WITHIN: Duration = Duration::from_mins(15);
const POLL_EVERY: Duration = Duration::from_secs(1);

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[test]
#[ignore = "needs a sandbox with real Flink, and minutes"]
fn every_record_is_accounted_for_whatever_happens() {
    let minutes = number("KUBECTL_FLINK_NEMESIS_MINUTES").unwrap_or(MINUTES);
    let any = || jiff::Timestamp::now().as_second().unsigned_abs();
    let seed = number("KUBECTL_FLINK_NEMESIS_SEED").unwrap_or_else(any);
    println!(
        "KUBECTL_FLINK_NEMESIS_SEED={seed} KUBECTL_FLINK_NEMESIS_MINUTES={minutes} tests/cluster.sh nemesis"
    );
    let history = History::begin(folder(seed));
    println!("-- history: {}", history.folder().display());
    let events = plan(seed, minutes * 60);
    let stage = Stage::set(history);
    let (colours, is_over) = (Colours::default(), AtomicBool::new(false));
    let (statuses, checkpoints, unsettled) = thread::scope(|scope| {
        let statuses = scope.spawn(|| Statuses::new(&stage).watch(&stage, &colours, &is_over));
        let checkpoints = scope.spawn(|| Checkpoints::default().watch(&stage, &colours, &is_over));
        scope.spawn(|| logs::keep(&stage, &is_over));
        let unsettled = catch_unwind(AssertUnwindSafe(|| strike_and_settle(&stage, &events)));
        is_over.store(true, Ordering::Relaxed);
        let unsettled = unsettled.unwrap_or_else(|panic| resume_unwind(panic));
        (statuses.join().unwrap(), checkpoints.join().unwrap(), unsettled)
    });
    let outcome = Outcome {
        seed,
        minutes,
        events: &events,
        statuses: &statuses,
        checkpoints: &checkpoints,
        colours: &colours,
        unsettled: &unsettled,
    };
    let (report, broken) = outcome.report(&stage);
    println!("{report}");
    stage.history.note("broken", "", json!(broken));
    let folder = stage.history.folder();
    fs::write(folder.join("report.md"), &report).unwrap();
    assert!(broken.is_empty(), "{}: {broken:#?}", folder.display());
}

/// Returns the folder for the history of this seed.
fn folder(seed: u64) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned();
    let all = env::var_os("KUBECTL_FLINK_NEMESIS_FOLDER").map(PathBuf::from);
    all.unwrap_or_else(|| target.join("nemesis")).join(seed.to_string())
}

/// Starts the jobs, carries out the plan, and ends the jobs. Returns what did not come to rest.
fn strike_and_settle(stage: &Stage, events: &[Event]) -> Vec<String> {
    let mut unsettled = until_settled(stage, "started");
    if unsettled.is_empty() {
        strike(stage, events);
        edits::mend(stage);
        unsettled = until_settled(stage, "settled");
        unsettled.extend(end_jobs(stage));
    }
    unsettled
}

/// Carries out each event at its time.
fn strike(stage: &Stage, events: &[Event]) {
    let begun = Instant::now();
    thread::scope(|scope| {
        for event in events {
            answers::give(stage);
            thread::sleep(event.at.saturating_sub(begun.elapsed()));
            scope.spawn(|| faults::run(stage, event));
        }
    });
    stage.history.emit("healed", "", Value::Null);
}

/// Waits until every spec is carried out, and returns what is not.
fn until_settled(stage: &Stage, what: &str) -> Vec<String> {
    let start = Instant::now();
    loop {
        answers::give(stage);
        let left = left(stage, |resource| !is_carried_out(resource));
        if left.is_empty() {
            stage.history.emit(what, "", json!(start.elapsed().as_secs()));
            return left;
        }
        if start.elapsed() >= SETTLED_WITHIN {
            stage.history.emit("unsettled", "", json!(left));
            return left.into_iter().map(|it| format!("not {what}: {it}")).collect();
        }
        thread::sleep(POLL_EVERY);
    }
}

/// Returns the targets with this property, or the error of who cannot be asked.
fn left(stage: &Stage, is_left: impl Fn(&Value) -> bool) -> Vec<String> {
    let of = |target: Target| match stage.list(target.kind()) {
        Ok(all) => {
            let is_it = |it: &&Value| it["metadata"]["name"] == target.name();
            all.iter()
                .find(is_it)
                .filter(|it| is_left(it))
                .map(|it| format!("{}: {}", target.name(), it["status"]))
        }
        Err(error) => Some(format!("{}: {error}", target.name())),
    };
    Target::ALL.into_iter().filter_map(of).collect()
}

/// Deletes the jobs after a savepoint, and then the session cluster. Returns what is not gone.
fn end_jobs(stage: &Stage) -> Vec<String> {
    for name in ["native", "standalone", "sessionjob/session", "bluegreen/colours", "lab"] {
        let output = stage.cluster.try_flink(&["delete", name, "--yes", "--timeout", "10m"]);
        let said = crate::e2e::cluster::said(&output);
        stage.history.emit("deleted", name, json!(said));
    }
    let start = Instant::now();
    loop {
        let left = left(stage, |_| true);
        if left.is_empty() || start.elapsed() >= SETTLED_WITHIN {
            return left.into_iter().map(|it| format!("not gone: {it}")).collect();
        }
        thread::sleep(POLL_EVERY);
    }
}
