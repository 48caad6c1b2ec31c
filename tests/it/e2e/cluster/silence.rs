//! Measures for how long a job writes nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Cluster;

/// Interval for checking for new records; the job writes twenty per second.
const SILENCE_STEP: Duration = Duration::from_millis(50);

/// Watches what a job writes, committed or not.
pub(in crate::e2e) struct Silence {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Duration>,
}

impl Silence {
    pub(in crate::e2e) fn watch(cluster: &Cluster) -> Self {
        Self::watch_folder(cluster, "output")
    }

    pub(in crate::e2e) fn watch_folder(cluster: &Cluster, output: &str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (output, end) = (cluster.data().join(output), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let (mut longest, mut before) = (Duration::ZERO, 0);
            let mut grew = Instant::now();
            while !end.load(Ordering::Relaxed) {
                let size = size_of(&output);
                // It shrinks when a restored job drops uncommitted records.
                if size > before {
                    longest = longest.max(grew.elapsed());
                    grew = Instant::now();
                }
                before = size;
                thread::sleep(SILENCE_STEP);
            }
            longest
        });
        Self { is_over, thread }
    }

    /// Returns the longest time without a new record.
    pub(in crate::e2e) fn longest(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        // A file that was deleted meanwhile has no size.
        found => found.map_or(0, |metadata| metadata.len()),
    };
    entries.map(size).sum()
}
