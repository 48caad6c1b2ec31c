//! The fence around writes: open while this process leads, and closed for good once it may not.
//!
//! Two processes that operate the same resources would undo each other's upgrades. So each write to the API server,
//! Flink or ZooKeeper is [guarded](Fence::guard) where it leaves the process: whatever a pass is doing, a deposed
//! leader writes nothing.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Includes the time the machine sleeps, as it does for other processes.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
/// On other systems, this clock does not stop.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Value of `until` for a process that needs no permission to write.
const ALWAYS: u64 = u64::MAX;
/// Value of `until` when closed for good.
const NEVER: u64 = 0;
/// Value of `until` before it is first opened: earlier than any time of the clock.
const NOT_YET: u64 = 1;
/// How often to check whether all started writes have ended.
const DRAIN_POLL: Duration = Duration::from_millis(10);

/// Returns the time since the machine was started, sleep included. It never jumps when the clock is set.
pub fn now() -> Duration {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// This process is not the leader, or no longer: another one may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("this operator is no longer the leader: another one may be, so it writes nothing")]
pub struct Closed;

/// Until when writes are allowed, and how many are running.
#[derive(Debug)]
struct Gate {
    /// Milliseconds of [`now`], or one of the constants.
    until: AtomicU64,
    /// Number of writes in progress.
    writing: AtomicUsize,
    /// No new writes may begin.
    is_draining: AtomicBool,
}

impl Gate {
    fn new(until: u64) -> Arc<Self> {
        let (writing, is_draining) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { until: AtomicU64::new(until), writing, is_draining })
    }

    fn is_open(&self) -> bool {
        let until = self.until.load(Ordering::SeqCst);
        until == ALWAYS || now().as_millis() < u128::from(until)
    }
}

/// The shards of the work, each with a gate that is replaced after it was closed for good.
#[derive(Debug)]
struct Parts {
    gates: Vec<Mutex<Arc<Gate>>>,
    /// Returns which of this many parts a namespace is in.
    part_of: fn(&str, u16) -> u16,
}

/// Permission to write, shared by everything in the process that writes.
#[derive(Clone, Debug)]
pub struct Fence {
    gate: Arc<Gate>,
    /// Must be open as well.
    outer: Option<Arc<Gate>>,
    parts: Option<Arc<Parts>>,
}

impl Default for Fence {
    /// Open forever, for a process that runs alone.
    fn default() -> Self {
        Self { gate: Gate::new(ALWAYS), outer: None, parts: None }
    }
}

impl Fence {
    /// Returns a fence that is closed until it is opened.
    pub fn shut() -> Self {
        Self { gate: Gate::new(NOT_YET), outer: None, parts: None }
    }

    /// Returns a fence that is closed until it is opened, for work in `count` parts. A write in a namespace also needs
    /// the gate of its part to be open. `part_of` returns numbers below `count`.
    pub fn shut_in_parts(count: u16, part_of: fn(&str, u16) -> u16) -> Self {
        let gates = (0..count).map(|_| Mutex::new(Gate::new(NOT_YET))).collect();
        Self { parts: Some(Arc::new(Parts { gates, part_of })), ..Self::shut() }
    }

    /// Returns the fence for writes in this namespace, valid while this process holds its part without interruption.
    #[must_use]
    pub fn of(&self, namespace: &str) -> Self {
        match &self.parts {
            None => self.clone(),
            Some(parts) => {
                let count = u16::try_from(parts.gates.len()).unwrap_or(u16::MAX);
                self.part((parts.part_of)(namespace, count))
            }
        }
    }

    /// Returns the fence for this part, valid while this process holds the part without interruption. The fence of a
    /// part that does not exist is closed for good.
    #[must_use]
    pub fn part(&self, number: u16) -> Self {
        let slot = self.parts.as_ref().and_then(|parts| parts.gates.get(usize::from(number)));
        let gate = slot.map_or_else(|| Gate::new(NEVER), |slot| Arc::clone(&lock(slot)));
        Self { gate, outer: Some(Arc::clone(&self.gate)), parts: None }
    }

    /// Closes the gate of a part for good and replaces it by one that is shut until it is opened, for when this process
    /// holds the part again. Writes that began earlier stay behind the former gate.
    pub fn renew_part(&self, number: u16) {
        let slot = self.parts.as_ref().and_then(|parts| parts.gates.get(usize::from(number)));
        if let Some(slot) = slot {
            let mut gate = lock(slot);
            gate.until.store(NEVER, Ordering::SeqCst);
            *gate = Gate::new(NOT_YET);
        }
    }

    /// Opens the fence until this time of [`now`], unless it was closed.
    pub fn open_until(&self, time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap_or(ALWAYS).max(NOT_YET);
        let until = &self.gate.until;
        let _closed = until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |before| {
            (before != NEVER).then_some(time)
        });
    }

    /// Closes the fence for good.
    pub fn close(&self) {
        self.gate.until.store(NEVER, Ordering::SeqCst);
    }

    pub fn is_open(&self) -> bool {
        self.gate.is_open() && self.outer.as_ref().is_none_or(|outer| outer.is_open())
    }

    /// Lets no new writes begin, waits up to `within` for those in progress, and closes for good. Returns whether all
    /// of them ended; otherwise a write may still be in progress.
    pub async fn drain(&self, within: Duration) -> bool {
        self.gate.is_draining.store(true, Ordering::SeqCst);
        let end = now() + within;
        while self.gate.writing.load(Ordering::SeqCst) > 0 && now() < end {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        self.close();
        self.gate.writing.load(Ordering::SeqCst) == 0
    }

    /// Begins a write, which lasts until the returned entry is dropped.
    pub fn enter(&self) -> Result<Entry, Closed> {
        // Count first: then either `drain` sees this write, or this write sees the drain.
        self.gate.writing.fetch_add(1, Ordering::SeqCst);
        let entry = Entry(self.clone());
        let is_draining = self.gate.is_draining.load(Ordering::SeqCst);
        if is_draining || !self.is_open() { Err(Closed) } else { Ok(entry) }
    }

    /// Runs `work` while the fence is open: it neither begins nor continues afterwards.
    pub async fn guard<W: Future>(&self, work: W) -> Result<W::Output, Closed> {
        self.enter()?.guard(work).await
    }
}

/// A write in progress.
#[derive(Debug)]
pub struct Entry(Fence);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.gate.writing.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Entry {
    /// Continues `work` while the fence is open.
    pub async fn guard<W: Future>(self, work: W) -> Result<W::Output, Closed> {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            if self.0.is_open() {
                work.as_mut().poll(context).map(Ok)
            } else {
                Poll::Ready(Err(Closed))
            }
        })
        .await
    }
}

fn lock(slot: &Mutex<Arc<Gate>>) -> std::sync::MutexGuard<'_, Arc<Gate>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn it_is_open_until_its_time_comes() {
        let fence = Fence::shut();
        assert!(!fence.is_open());
        fence.open_until(now() + HOUR);
        assert!(fence.is_open());
        fence.open_until(now());
        assert!(!fence.is_open());
    }

    #[test]
    fn once_closed_it_stays_so_for_all() {
        let fence = Fence::default();
        let other = fence.clone();
        fence.close();
        other.open_until(now() + HOUR);
        assert!(!fence.is_open() && !other.is_open());
    }

    #[tokio::test]
    async fn work_that_has_begun_is_not_gone_on_with() {
        let fence = Fence::default();
        let closing = fence.clone();
        let mut is_done = false;
        let work = async {
            closing.close();
            tokio::task::yield_now().await;
            is_done = true;
        };
        assert_eq!(fence.guard(work).await, Err(Closed));
        assert!(!is_done);
    }

    #[tokio::test]
    async fn what_is_done_while_it_is_open_is_answered() {
        assert_eq!(Fence::default().guard(async { 7 }).await, Ok(7));
    }

    /// Returns a fence of two parts: names that begin with `a`, and all others.
    fn in_two() -> Fence {
        Fence::shut_in_parts(2, |namespace, _| u16::from(!namespace.starts_with('a')))
    }

    #[test]
    fn a_namespace_needs_its_part_and_the_whole() {
        let fence = in_two();
        fence.part(0).open_until(now() + HOUR);
        assert!(!fence.of("ab").is_open(), "the whole is shut");
        fence.open_until(now() + HOUR);
        assert!(fence.of("ab").is_open() && !fence.of("ba").is_open());
        let before = fence.of("ab");
        fence.close();
        assert!(!before.is_open() && !fence.of("ab").is_open());
    }

    #[test]
    fn a_part_that_is_held_again_lets_nothing_through_that_began_before() {
        let fence = in_two();
        fence.open_until(now() + HOUR);
        fence.part(0).open_until(now() + HOUR);
        let before = fence.of("ab");
        fence.renew_part(0);
        assert!(!before.is_open() && !fence.of("ab").is_open());
        fence.part(0).open_until(now() + HOUR);
        assert!(fence.of("ab").is_open(), "it is held again");
        before.open_until(now() + HOUR);
        assert!(!before.is_open(), "closed for good");
        fence.part(7).open_until(now() + HOUR);
        assert!(!fence.part(7).is_open(), "there is no such part");
    }

    #[tokio::test]
    async fn who_drains_waits_for_what_has_begun_and_lets_nothing_begin() {
        let fence = in_two();
        fence.open_until(now() + HOUR);
        fence.part(0).open_until(now() + HOUR);
        let part = fence.part(0);
        let begun = fence.of("ab").enter().unwrap();
        let (drained, late) = tokio::join!(part.drain(HOUR), async {
            tokio::task::yield_now().await;
            let late = fence.of("ab").enter().is_err();
            drop(begun);
            late
        });
        assert!(drained && late);
        assert_eq!(fence.of("ab").guard(async {}).await, Err(Closed));
        let other = fence.part(1);
        other.open_until(now() + HOUR);
        let stuck = other.enter().unwrap();
        assert!(!other.drain(Duration::from_millis(30)).await, "it is still on its way");
        drop(stuck);
    }
}
