//! What the job has written, and whether all of it is there once.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use super::{Cluster, LOOK_EVERY, PATIENCE, project, said};
use crate::support::program::other;

/// Folder of the job's output, below the data of the test.
const OUTPUT: &str = "output";

impl Cluster {
    /// Committed records, while the job may be running.
    pub(in crate::e2e) fn records(&self) -> usize {
        self.records_in(OUTPUT)
    }

    /// The same of a job that writes to the folder `output`.
    pub(in crate::e2e) fn records_in(&self, output: &str) -> usize {
        let mut records = 0;
        let buckets = fs::read_dir(self.data.join(output)).into_iter().flatten().flatten();
        for file in buckets.flat_map(|bucket| fs::read_dir(bucket.path()).into_iter().flatten()) {
            let file = file.unwrap();
            if file.file_name().to_string_lossy().starts_with("part-") {
                records += fs::read_to_string(file.path()).unwrap_or_default().lines().count();
            }
        }
        records
    }

    /// Waits until the job has committed records that it had not when this was called.
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
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Every record once, with the right state. The job does not run.
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
