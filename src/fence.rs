//! Whether this process may still write: open while it leads, closed for good once it may not.
//!
//! Two processes that operate the same resources would undo each other's upgrades. So each write,
//! to the API server, Flink or ZooKeeper, is [guarded](Fence::guard) where it leaves the process:
//! whatever a pass is at, a deposed leader writes nothing.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Counts the time in which the machine sleeps too: others count it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
/// Elsewhere this one does not stop.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Until when writes are allowed, for a process that needs no leave.
const ALWAYS: u64 = u64::MAX;
/// Closed for good.
const NEVER: u64 = 0;
/// Not opened yet: earlier than any time that the clock shows.
const NOT_YET: u64 = 1;

/// Time since the machine was started, sleep included. It never jumps, whoever sets the clock.
pub fn now() -> Duration {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// This process does not lead, or no longer: another one may.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("this operator does not lead any more: another one may, so it writes nothing")]
pub struct Closed;

/// Shared by everything in the process that writes.
#[derive(Clone, Debug)]
pub struct Fence {
    /// Milliseconds of [`now`], or one of the constants.
    until: Arc<AtomicU64>,
}

impl Default for Fence {
    /// Open for ever, for a process that is alone.
    fn default() -> Self {
        Self { until: Arc::new(AtomicU64::new(ALWAYS)) }
    }
}

impl Fence {
    /// Closed until it is opened.
    pub fn shut() -> Self {
        Self { until: Arc::new(AtomicU64::new(NOT_YET)) }
    }

    /// Open until this time of [`now`], unless it was closed.
    pub fn open_until(&self, time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap_or(ALWAYS).max(NOT_YET);
        let _closed = self.until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |before| {
            (before != NEVER).then_some(time)
        });
    }

    /// Closed for good.
    pub fn close(&self) {
        self.until.store(NEVER, Ordering::SeqCst);
    }

    pub fn is_open(&self) -> bool {
        let until = self.until.load(Ordering::SeqCst);
        until == ALWAYS || now().as_millis() < u128::from(until)
    }

    /// Does `work` while this is open: it is not begun, and not gone on with, afterwards.
    pub async fn guard<W: Future>(&self, work: W) -> Result<W::Output, Closed> {
        let mut work = pin!(work);
        std::future::poll_fn(|context| {
            if self.is_open() {
                work.as_mut().poll(context).map(Ok)
            } else {
                Poll::Ready(Err(Closed))
            }
        })
        .await
    }
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
}
