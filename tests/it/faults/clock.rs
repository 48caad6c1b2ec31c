//! A clock of its own for an operator's process: a library of `clock.c` is loaded into it, and reads a file.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::support::program::other;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/faults/clock.c");
/// Names the file to the library.
pub(super) const VARIABLE: &str = "KUBECTL_FLINK_TEST_CLOCK";

/// Writes the file: the clock is this many seconds before or after the true time.
pub(super) fn set(file: &Path, seconds: i64) {
    std::fs::write(file, seconds.to_ne_bytes()).unwrap();
}

/// Returns the library, which is compiled once for each folder.
pub(super) fn library(beside: &Path) -> PathBuf {
    static COMPILING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = COMPILING.lock().unwrap();
    let library = beside.with_file_name("clock.so");
    if !library.exists() {
        let mut compiler = other("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(SOURCE);
        let output = compiler.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    library
}
