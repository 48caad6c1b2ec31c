//! Measurements of a job over time, as a file that can be replayed: one JSON object per line.
//!
//! The first line describes the recording; each further line is a measurement, or the reason why there is none. A file
//! of a newer version is rejected, because its fields may have another meaning. An incomplete last line is left out and
//! reported.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use config::memory::MemorySize;
use config::{FlinkConfig, secret};

use super::quota::TaskManager;
use super::sample::Reading;
use super::topology::{Topology, Vertex, VertexId};

/// The name of the format, in the first line.
pub const FORMAT: &str = "kubectl-flink autoscaler record";
/// Raised if an older reader would misunderstand the file.
pub const VERSION: u32 = 1;
/// Maximum length of a line in bytes; a measurement of a thousand vertices takes a quarter of it.
pub const LINE_BYTES_MAX: usize = 4 << 20;
/// Maximum size of a file in bytes.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// Maximum number of measurements in a file: more than a week with one every ten seconds.
pub const ENTRIES_MAX: usize = 100_000;

/// Prefixes of the options that decisions depend on; no others are recorded.
const OPTIONS: [&str; 11] = [
    "job.autoscaler.",
    "kubernetes.operator.job.autoscaler.",
    "taskmanager.memory.",
    "taskmanager.network.memory.",
    "taskmanager.numberOfTaskSlots",
    "jobmanager.scheduler",
    // Options that the requests of pods depend on.
    "jobmanager.memory.",
    "kubernetes.jobmanager.cpu",
    "kubernetes.jobmanager.replicas",
    "kubernetes.taskmanager.cpu",
    "kubernetes.taskmanager.memory.limit-factor",
];

/// The first line of a recording, which describes the job.
#[skip_serializing_none]
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    pub format: String,
    pub version: u32,
    pub job_name: String,
    pub job_id: String,
    pub recorded_at: Timestamp,
    /// The job's options, as far as decisions depend on them.
    pub options: BTreeMap<String, String>,
    /// Whether its JobManager also serves other jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_session_job: bool,
    pub task_manager_cpu: Option<f64>,
    pub task_manager_memory_bytes: Option<u64>,
    /// The names of the vertices, for people.
    pub vertex_names: BTreeMap<VertexId, String>,
}

impl Header {
    pub fn new(job_name: &str, job_id: &str, now: Timestamp, config: &FlinkConfig) -> Self {
        let is_wanted = |key: &str| OPTIONS.iter().any(|prefix| key.starts_with(prefix));
        let options = config
            .iter()
            .filter(|(key, value)| is_wanted(key) && secret::shown(key, value) == *value)
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            job_name: job_name.to_owned(),
            job_id: job_id.to_owned(),
            recorded_at: now,
            options,
            is_session_job: false,
            task_manager_cpu: None,
            task_manager_memory_bytes: None,
            vertex_names: BTreeMap::new(),
        }
    }

    pub fn config(&self) -> FlinkConfig {
        self.options.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    pub fn task_manager(&self) -> TaskManager {
        TaskManager {
            cpu: self.task_manager_cpu,
            memory: self.task_manager_memory_bytes.map(MemorySize),
        }
    }
}

/// The measurement of a job at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub running_since: Timestamp,
    pub topology: Topology,
    pub reading: Reading,
}

/// One moment: a measurement, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub at: Timestamp,
    pub measured: Result<Measurement, String>,
}

/// The contents of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub header: Header,
    pub entries: Vec<Entry>,
    /// Whether the last line was incomplete and is left out.
    pub is_cut: bool,
}

/// Why a file cannot be replayed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unreadable {
    #[error("it is not a record of measurements: {0}")]
    NoRecord(String),
    #[error("it has version {0} of the format, and this program supports {VERSION} and older ones")]
    Newer(u32),
    #[error("line {line}: {problem}")]
    Line { line: usize, problem: String },
    #[error("it has more than {ENTRIES_MAX} measurements")]
    TooMany,
    #[error("it has no measurement of a running job")]
    Empty,
}

#[derive(Deserialize)]
struct Version {
    format: String,
    version: u32,
}

#[skip_serializing_none]
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EntryText {
    at: Timestamp,
    measured: Option<MeasuredText>,
    unmeasured: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MeasuredText {
    running_since: Timestamp,
    vertices: BTreeMap<VertexId, Vertex>,
    reading: Reading,
}

/// Returns the first line of a file, without its line ending.
pub fn header_line(header: &Header) -> String {
    text(header)
}

/// Returns a further line of a file, without its line ending.
pub fn entry_line(entry: &Entry) -> String {
    let Entry { at, measured } = entry;
    text(&match measured {
        Ok(Measurement { running_since, topology, reading }) => EntryText {
            at: *at,
            measured: Some(MeasuredText {
                running_since: *running_since,
                vertices: topology.vertices().clone(),
                reading: reading.clone(),
            }),
            unmeasured: None,
        },
        Err(why) => EntryText { at: *at, measured: None, unmeasured: Some(why.clone()) },
    })
}

/// Serialization cannot fail: keys are texts, and all numbers can be represented.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Parses a whole file.
///
/// # Errors
/// If the file was not written by [`header_line`] and [`entry_line`]; names the invalid line.
pub fn read(file: &str) -> Result<Record, Unreadable> {
    let mut lines = file.lines().enumerate();
    let Some((_, first)) = lines.next() else {
        return Err(Unreadable::NoRecord("the file is empty".to_owned()));
    };
    let header = header(first)?;
    let is_whole = file.ends_with('\n');
    let last = file.lines().count();
    let mut record = Record { header, entries: Vec::new(), is_cut: false };
    for (index, line) in lines {
        let number = index + 1;
        if line.trim().is_empty() {
            continue;
        }
        if record.entries.len() >= ENTRIES_MAX {
            return Err(Unreadable::TooMany);
        }
        match entry(line) {
            Ok(entry) => record.entries.push(entry),
            Err(_) if number == last && !is_whole => record.is_cut = true,
            Err(problem) => return Err(Unreadable::Line { line: number, problem }),
        }
    }
    if record.entries.iter().all(|entry| entry.measured.is_err()) {
        return Err(Unreadable::Empty);
    }
    Ok(record)
}

fn header(line: &str) -> Result<Header, Unreadable> {
    let Version { format, version } = json(line).map_err(Unreadable::NoRecord)?;
    if format != FORMAT {
        return Err(Unreadable::NoRecord(format!("its format is `{format}`")));
    }
    if version > VERSION {
        return Err(Unreadable::Newer(version));
    }
    json(line).map_err(|problem| Unreadable::Line { line: 1, problem })
}

fn entry(line: &str) -> Result<Entry, String> {
    let EntryText { at, measured, unmeasured } = json(line)?;
    let measured = match (measured, unmeasured) {
        (Some(MeasuredText { running_since, vertices, reading }), None) => {
            let topology = Topology::new(vertices).map_err(|unusable| unusable.to_string())?;
            Ok(Measurement { running_since, topology, reading })
        }
        (None, Some(why)) => Err(why),
        (None, None) | (Some(_), Some(_)) => {
            return Err("expected either `measured` or `unmeasured`".to_owned());
        }
    };
    Ok(Entry { at, measured })
}

fn json<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(format!("it is longer than {LINE_BYTES_MAX} bytes"));
    }
    serde_json::from_str(line).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
