//! What happened, one JSON object a line: the evidence of a failed run, and the source of its report.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) struct History {
    folder: PathBuf,
    file: Mutex<File>,
    begun: Instant,
}

impl History {
    /// Begins a history in a folder, which is emptied of an earlier one.
    pub(super) fn begin(folder: PathBuf) -> Self {
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).unwrap();
        let file = Mutex::new(File::create(folder.join("history.jsonl")).unwrap());
        Self { folder, file, begun: Instant::now() }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Adds a line. Each is written at once, so that a run that is killed leaves what it saw.
    pub(super) fn note(&self, what: &str, object: &str, details: impl Into<Value>) {
        let line = json!({
            "time": Timestamp::now().to_string(),
            "seconds": self.begun.elapsed().as_secs_f64(),
            "what": what,
            "object": object,
            "details": details.into(),
        });
        let mut file = self.file.lock().unwrap();
        writeln!(file, "{line}").unwrap();
    }

    /// Adds a line about what the nemesis does, and prints it.
    pub(super) fn emit(&self, what: &str, object: &str, details: impl Into<Value>) {
        let details = details.into();
        println!("-- {:7.1} s {what} {object} {details}", self.begun.elapsed().as_secs_f64());
        self.note(what, object, details);
    }
}
