//! Replays the decisions for a recording, with its own options or with others.
//!
//! Each measurement goes through the same cycle as that of a running job, at its own time. The recorded job does not
//! follow the new decisions: it continues as it was recorded.

use jiff::tz::TimeZone;

use config::FlinkConfig;

use super::cost::Pods;
use super::cycle::Facts;
use super::plugin::rules::Rules;
use super::plugin::{Asking, Job};
use super::record::Record;
use super::settings::Settings;
use super::trace::{Trace, Tracer};

/// Replays a recording with these options.
pub fn replay(record: &Record, settings: &Settings, config: &FlinkConfig, rules: &Rules) -> Trace {
    let mut tracer = Tracer::new(rules);
    let job = Job { name: record.header.job_name.clone(), ..Job::default() };
    for entry in &record.entries {
        match &entry.measured {
            Err(why) => tracer.skip(entry.at, why),
            Ok(measurement) => {
                let _decided = tracer.step(&Facts {
                    now: entry.at,
                    zone: &TimeZone::UTC,
                    settings,
                    config,
                    topology: &measurement.topology,
                    running_since: measurement.running_since,
                    reading: &measurement.reading,
                    task_manager: record.header.task_manager(),
                    pods: Pods::of(config, record.header.is_session_job),
                    capacity: None,
                    asking: Asking { job: Some(&job), answers: None },
                });
            }
        }
    }
    tracer.finish()
}

#[cfg(test)]
mod tests;
