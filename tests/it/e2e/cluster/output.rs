//! The job's output, and whether each record is in it once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use super::{Cluster, POLL_EVERY, project, said};
use crate::support::patience::PATIENCE;
use crate::support::program::other;

/// Folder of the job's output, below the test's data.
const OUTPUT: &str = "output";

/// Returns the committed files in the folder of an output.
pub(crate) fn committed(output: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let buckets = fs::read_dir(output).into_iter().flatten().flatten();
    let files = buckets.flat_map(|bucket| fs::read_dir(bucket.path()).into_iter().flatten());
    let is_committed = |file: &PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("part-"))
    };
    files.map(|file| file.unwrap().path()).filter(is_committed)
}

impl Cluster {
    /// Returns the number of committed records; the job may be running.
    pub(in crate::e2e) fn records(&self) -> usize {
        self.records_in(OUTPUT)
    }

    /// As [`Self::records`], for a job that writes to the folder `output`.
    pub(in crate::e2e) fn records_in(&self, output: &str) -> usize {
        self.files_in(output).map(|text| text.lines().count()).sum()
    }

    /// Returns the content of each committed file.
    fn files_in(&self, output: &str) -> impl Iterator<Item = String> {
        let files = committed(&self.data.join(output));
        files.map(|file| fs::read_to_string(file).unwrap_or_default())
    }

    /// Counts each sequence of each key.
    pub(in crate::e2e) fn sequences(&self) -> BTreeMap<(u64, u64), usize> {
        let mut sequences: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for text in self.files_in(OUTPUT) {
            for line in text.lines() {
                let mut numbers = line.split(',').map(|number| number.parse().unwrap());
                let key = numbers.next().unwrap();
                *sequences.entry((key, numbers.next().unwrap())).or_default() += 1;
            }
        }
        sequences
    }

    /// Returns the highest sequence of each key.
    pub(in crate::e2e) fn marks(&self) -> BTreeMap<u64, u64> {
        // They are ordered, and the last one of a key is kept.
        self.sequences().into_keys().collect()
    }

    /// Waits until the job has committed new records since this was called.
    #[track_caller]
    pub(in crate::e2e) fn wait_until_writing(&self) {
        self.wait_until_writing_to(OUTPUT);
    }

    #[track_caller]
    pub(in crate::e2e) fn wait_until_writing_to(&self, output: &str) {
        let before = self.records_in(output);
        let start = Instant::now();
        while self.records_in(output) <= before {
            assert!(start.elapsed() < PATIENCE, "no new record in {PATIENCE:?} behind {before}");
            thread::sleep(POLL_EVERY);
        }
    }

    /// Asserts that every record exists once, with the right state. The job must not run.
    #[track_caller]
    pub(in crate::e2e) fn assert_nothing_lost_or_doubled(&self) {
        self.assert_nothing_lost_or_doubled_in(OUTPUT);
    }

    #[track_caller]
    pub(in crate::e2e) fn assert_nothing_lost_or_doubled_in(&self, output: &str) {
        let check = project().join("examples/jobs/check");
        let output = other(check).arg(self.data.join(output)).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        println!("-- {}: {}", self.namespace, said(&output));
    }

    pub(in crate::e2e) fn savepoint_exists(&self, path: &str) -> bool {
        let below = path.trim_start_matches("file://").trim_start_matches("file:");
        let below = Path::new(below).strip_prefix("/flink-data").unwrap();
        self.data.join(below).join("_metadata").is_file()
    }
}
