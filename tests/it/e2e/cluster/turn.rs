//! How many tests run at the same time: of those that the test runner starts, as many as the machine bears.

use std::cell::Cell;
use std::fs;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Number of tests that always run at the same time.
const ALWAYS: usize = 2;
/// A core with more runnable tasks than this is saturated.
const TASKS_OF_A_CORE: f64 = 9.0;
/// Time for a test to start its pods, before which the load says nothing about it.
const STARTING: Duration = Duration::from_secs(10);
/// A test that has waited this long starts anyway.
const WAIT_MAX: Duration = Duration::from_mins(10);
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Number of looks that an average is over: some seconds, so that it follows the load at once.
const POLLS: f64 = 30.0;

/// Average number of runnable tasks for each core. A thread keeps it up to date from the first use on; `None` if the
/// system does not tell.
static LOAD: LazyLock<Option<Arc<Mutex<f64>>>> = LazyLock::new(|| {
    let load = Arc::new(Mutex::new(tasks_of_a_core()?));
    let kept = Arc::clone(&load);
    drop(thread::spawn(move || {
        loop {
            thread::sleep(POLL_EVERY);
            let now = tasks_of_a_core().unwrap_or_default();
            let mut load = kept.lock().unwrap();
            *load += (now - *load) / POLLS;
        }
    }));
    Some(load)
});
static RUNNING: Mutex<usize> = Mutex::new(0);
/// When the last test started. Whoever is next holds it, so that tests start one at a time.
static NEXT: Mutex<Option<Instant>> = Mutex::new(None);

thread_local! {
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

/// The turn of a test, until this is dropped. A test that has one already needs no other.
pub(super) struct Turn {
    is_own: bool,
}

impl Turn {
    pub(super) fn wait() -> Self {
        let is_own = !HAS_TURN.replace(true);
        if is_own {
            let begun = Instant::now();
            let mut last = NEXT.lock().unwrap();
            let load = || LOAD.as_ref().map(|load| *load.lock().unwrap());
            let others = || *RUNNING.lock().unwrap();
            while !may_start(others(), last.map(|last| last.elapsed()), load(), begun.elapsed()) {
                thread::sleep(POLL_EVERY);
            }
            let (waited, others) = (begun.elapsed().as_secs(), others());
            if waited > 0 {
                let load = load().unwrap_or_default();
                println!(
                    "-- waited {waited} s: {others} others, {load:.1} runnable tasks per core"
                );
            }
            *RUNNING.lock().unwrap() += 1;
            *last = Some(Instant::now());
        }
        Self { is_own }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_own {
            HAS_TURN.set(false);
            *RUNNING.lock().unwrap() -= 1;
        }
    }
}

/// Whether a test that has waited this long may start beside so many others, the last of which started so long ago.
fn may_start(others: usize, last: Option<Duration>, load: Option<f64>, waited: Duration) -> bool {
    let Some(load) = load else { return true };
    let is_known = last.is_none_or(|last| last >= STARTING);
    others < ALWAYS || waited >= WAIT_MAX || is_known && load <= TASKS_OF_A_CORE
}

fn tasks_of_a_core() -> Option<f64> {
    let cores = u32::try_from(thread::available_parallelism().ok()?.get()).ok()?;
    Some(runnable(&fs::read_to_string("/proc/loadavg").ok()?)? / f64::from(cores))
}

/// Returns the number of runnable tasks, without the one that asks.
fn runnable(loadavg: &str) -> Option<f64> {
    let (runnable, _all) = loadavg.split_whitespace().nth(3)?.split_once('/')?;
    Some(f64::from(runnable.parse::<u32>().ok()?.saturating_sub(1)))
}

#[test]
fn a_third_test_waits_while_the_machine_is_saturated() {
    let long_ago = Some(STARTING);
    let just_now = Some(Duration::from_secs(1));
    let (idle, busy) = (Some(0.5), Some(TASKS_OF_A_CORE + 0.1));
    let a_while = Duration::from_mins(1);
    for (others, last, load, waited, may) in [
        (0, None, busy, Duration::ZERO, true),
        (1, just_now, busy, Duration::ZERO, true),
        (2, just_now, idle, a_while, false),
        (2, long_ago, idle, Duration::ZERO, true),
        (2, long_ago, busy, a_while, false),
        (4, long_ago, Some(TASKS_OF_A_CORE), a_while, true),
        (4, just_now, busy, WAIT_MAX, true),
        (4, just_now, None, Duration::ZERO, true),
    ] {
        let told = format!("{others} others, {last:?}, {load:?}, {waited:?}");
        assert_eq!(may_start(others, last, load, waited), may, "{told}");
    }
    assert_eq!(runnable("15.90 16.10 9.71 13/1127 20871\n"), Some(12.0));
    assert_eq!(runnable("0.00 0.00 0.00 0/80 7\n"), Some(0.0));
    assert_eq!(runnable("something else"), None);
}
