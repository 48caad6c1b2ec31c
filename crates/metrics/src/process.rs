//! Figures of the process, under the names that Prometheus clients in all languages use.
//!
//! The Java operator has those of its JVM instead, which do not exist here.

use super::family::{Family, Of, Point, Scope, Value};
use super::number;

/// The kernel's readings of the process. Those that it does not give are empty or `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading<'r> {
    /// `/proc/self/stat`
    pub stat: &'r str,
    /// Number of entries in `/proc/self/fd`.
    pub open_files: Option<u64>,
    pub open_files_max: Option<u64>,
    pub page_bytes: u64,
    pub ticks_per_second: u64,
    /// When the machine was started, in seconds since the epoch.
    pub booted: Option<f64>,
}

/// The fields of `stat` after the program's name, by their number in proc(5).
const USER_TIME: usize = 14;
const SYSTEM_TIME: usize = 15;
const THREADS: usize = 20;
const START_TIME: usize = 22;
const VIRTUAL_BYTES: usize = 23;
const RESIDENT_PAGES: usize = 24;
/// Number of the first field after the name.
const FIRST: usize = 3;

/// Descriptions as Prometheus clients have them: `PushGateway` has the same ones for itself, and complains about
/// others.
pub(super) const HELP: [(&str, &str); 7] = [
    ("process_cpu_seconds", "Total user and system CPU time spent in seconds."),
    ("process_resident_memory_bytes", "Resident memory size in bytes."),
    ("process_virtual_memory_bytes", "Virtual memory size in bytes."),
    ("process_threads", "Number of OS threads in the process."),
    ("process_open_fds", "Number of open file descriptors."),
    ("process_max_fds", "Maximum number of open file descriptors."),
    ("process_start_time_seconds", "Start time of the process since unix epoch in seconds."),
];

/// Returns the metrics of the process.
pub fn families(reading: &Reading<'_>) -> Vec<Family> {
    let Reading { stat, open_files, open_files_max, page_bytes, ticks_per_second, booted } =
        reading;
    // The name may hold anything, parentheses too.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let field = |place: usize| -> Option<f64> {
        fields.get(place.checked_sub(FIRST)?)?.parse::<u64>().ok().map(number)
    };
    let ticks = number((*ticks_per_second).max(1));
    let cpu =
        field(USER_TIME).zip(field(SYSTEM_TIME)).map(|(user, system)| (user + system) / ticks);
    let started = field(START_TIME).zip(*booted).map(|(after, booted)| booted + after / ticks);
    let resident = field(RESIDENT_PAGES).map(|pages| pages * number(*page_bytes));
    [
        ("process_cpu_seconds", cpu.map(Value::Count)),
        ("process_resident_memory_bytes", resident.map(Value::Gauge)),
        ("process_virtual_memory_bytes", field(VIRTUAL_BYTES).map(Value::Gauge)),
        ("process_threads", field(THREADS).map(Value::Gauge)),
        ("process_open_fds", open_files.map(|files| Value::Gauge(number(files)))),
        ("process_max_fds", open_files_max.map(|files| Value::Gauge(number(files)))),
        ("process_start_time_seconds", started.map(Value::Gauge)),
    ]
    .into_iter()
    .filter_map(|(name, value)| {
        let points = vec![Point { of: Of::Operator, label: None, value: value? }];
        Some(Family::new(Scope::Process, name, points))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(reading: &Reading<'_>) -> Vec<String> {
        let value = |family: &Family| match &family.points[0].value {
            Value::Gauge(number) | Value::Count(number) => number.to_string(),
            Value::Summary(_) => String::new(),
        };
        families(reading)
            .iter()
            .map(|family| format!("{} {}", family.name, value(family)))
            .collect()
    }

    #[test]
    fn the_kernels_line_is_read() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 7 0 1000 1048576 300 \
                    18446744073709551615 1 1 0";
        let reading = Reading {
            stat,
            open_files: Some(12),
            open_files_max: Some(1024),
            page_bytes: 4096,
            ticks_per_second: 100,
            booted: Some(1e9),
        };
        assert_eq!(
            described(&reading),
            [
                "process_cpu_seconds 3",
                "process_resident_memory_bytes 1228800",
                "process_virtual_memory_bytes 1048576",
                "process_threads 7",
                "process_open_fds 12",
                "process_max_fds 1024",
                "process_start_time_seconds 1000000010",
            ]
        );
    }

    #[test]
    fn what_is_not_known_is_not_shown() {
        assert_eq!(described(&Reading::default()), [""; 0]);
    }
}
