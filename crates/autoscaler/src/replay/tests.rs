use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::cycle::Outcome;
use crate::record::{Entry, Header};
use crate::settings::tests::settings;
use crate::simulation::model::Model;
use crate::simulation::simulate;

const MODEL: &str = "
rate:
- {at: 0 s, records: 900}
- {at: 20 min, records: 900}
- {at: 21 min, records: 2700}
duration: 1 h
vertices:
- {name: source, recordsPerSubtask: 1500}
- {name: sink, recordsPerSubtask: 1000, inputs: [{from: source, ship: HASH}]}
";

/// An hour of a job that nothing scales.
fn record() -> Record {
    let settings = settings(&[("scaling.enabled", "false")]);
    let model = Model::read(MODEL).unwrap();
    let start = Timestamp::from_second(1_767_225_600).unwrap();
    let simulated =
        simulate(&model, &settings, &FlinkConfig::new(), start, &Rules::default()).unwrap();
    let header = Header::new("orders", "aa", start, &FlinkConfig::new());
    Record { header, entries: simulated.entries, is_cut: false }
}

const QUICK: &[(&str, &str)] = &[("metrics.window", "5 min"), ("stabilization.interval", "1 min")];

#[test]
fn a_job_that_was_never_scaled_would_have_been() {
    let record = record();
    let trace = replay(&record, &settings(QUICK), &FlinkConfig::new(), &Rules::default());
    assert_eq!(trace.moments.len(), record.entries.len());
    assert!(trace.changes.is_empty(), "the job of the record does not follow");
    let first = &trace.decisions[0];
    assert_eq!(first.outcome, Outcome::Scaled);
    let minute = Duration::try_from(first.at.duration_since(trace.moments[0].at)).unwrap();
    assert!((Duration::from_mins(21)..Duration::from_mins(27)).contains(&minute), "{minute:?}");
    assert!(first.changes.values().all(|decision| decision.new > decision.current));
    let last = trace.moments.last().unwrap();
    assert!(last.lag.unwrap() > 0.0 && last.decided[&"sink".into()] >= 3);
    assert!(last.coming_in.unwrap() > 2690.0 && last.processed.unwrap() < 1001.0);
}

#[test]
fn other_options_decide_otherwise() {
    let record = record();
    let of = |options: &[(&str, &str)]| {
        let settings = settings(&[QUICK, options].concat());
        replay(&record, &settings, &FlinkConfig::new(), &Rules::default())
    };
    let max = of(&[("vertex.max-parallelism", "2")]);
    assert!(max.decisions.iter().flat_map(|one| one.changes.values()).all(|of| of.new <= 2));
    assert_eq!(of(&[("vertex.exclude.ids", "source;sink")]).decisions, []);
    let off = of(&[("scaling.enabled", "false")]);
    assert!(off.moments.iter().all(|moment| moment.decided.is_empty()));
    assert!(off.decisions.len() < off.moments.len() / 2, "what is the same is told once");
    assert!(off.decisions.iter().all(|one| matches!(one.outcome, Outcome::Disabled(_))));
}

#[test]
fn a_replay_is_the_same_each_time() {
    let record = record();
    let once = replay(&record, &settings(QUICK), &FlinkConfig::new(), &Rules::default());
    let text = crate::record::entry_line(&record.entries[5]);
    assert!(text.contains("\"runningSince\""));
    assert_eq!(once, replay(&record, &settings(QUICK), &FlinkConfig::new(), &Rules::default()));
}

#[test]
fn a_gap_in_the_record_is_a_moment_without_a_decision() {
    let mut record = record();
    let at = record.entries[40].at;
    record.entries[40] = Entry { at, measured: Err("job `aa` does not run".to_owned()) };
    let trace = replay(&record, &settings(QUICK), &FlinkConfig::new(), &Rules::default());
    let moment = &trace.moments[40];
    assert_eq!(moment.outcome, Err("job `aa` does not run".to_owned()));
    assert_eq!(moment.lag, None);
}
