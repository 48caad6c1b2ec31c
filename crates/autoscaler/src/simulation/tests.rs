use std::time::Duration;

use super::*;
use crate::cycle::Outcome;
use crate::settings::tests::settings;
use crate::trace::reversals;
use model::Unfit;

fn start() -> Timestamp {
    Timestamp::from_second(1_767_225_600).unwrap()
}

const PATIENT: &[(&str, &str)] = &[
    ("metrics.window", "5 min"),
    ("stabilization.interval", "1 min"),
    ("scale-down.interval", "10 min"),
    ("restart.time", "30 s"),
];

fn run(yaml: &str, options: &[(&str, &str)]) -> Simulated {
    let model = Model::read(yaml).unwrap();
    let settings = settings(&[PATIENT, options].concat());
    simulate(&model, &settings, &FlinkConfig::new(), start(), &Rules::default()).unwrap()
}

fn last(simulated: &Simulated) -> &BTreeMap<VertexId, u32> {
    &simulated.trace.moments.last().unwrap().parallelism
}

const PIPELINE: &str = "
rate: [{at: 0 s, records: 4000}]
duration: 3 h
vertices:
- {name: source, recordsPerSubtask: 2000, partitions: 12}
- {name: window, recordsPerSubtask: 500, inputs: [{from: source, ship: HASH}]}
- {name: sink, recordsPerSubtask: 1000, inputs: [{from: window, ratio: 0.5}]}
";

#[test]
fn a_steady_load_comes_to_rest() {
    let simulated = run(PIPELINE, &[]);
    let decisions = &simulated.trace.decisions;
    assert!((1..=3).contains(&decisions.len()), "{decisions:#?}");
    let parallelism = last(&simulated);
    // 4000 a second at 70 percent, and room for catching up at first.
    assert!((3..=4).contains(&parallelism[&"source".into()]), "{parallelism:?}");
    assert!((12..=16).contains(&parallelism[&"window".into()]), "{parallelism:?}");
    assert!((3..=4).contains(&parallelism[&"sink".into()]), "{parallelism:?}");
    assert_eq!(simulated.trace.moments.last().unwrap().lag, Some(0.0));
    assert!(reversals(&simulated.trace) <= 3);
}

#[test]
fn load_that_comes_and_goes_is_followed_both_ways() {
    let yaml = "
rate:
- {at: 0 s, records: 1000}
- {at: 1 h, records: 1000}
- {at: 70 min, records: 6000}
- {at: 3 h, records: 6000}
- {at: 190 min, records: 1000}
duration: 6 h
vertices:
- {name: source, recordsPerSubtask: 1000, parallelism: 2}
- {name: sink, recordsPerSubtask: 1000, parallelism: 2, inputs: [{from: source}]}
";
    let simulated = run(yaml, &[]);
    let most = simulated.trace.moments.iter().map(|moment| moment.parallelism[&"sink".into()]);
    assert!(most.max().unwrap() >= 8, "{:?}", simulated.trace.changes);
    assert!(last(&simulated)[&"sink".into()] <= 3, "{:?}", simulated.trace.changes);
    assert!(simulated.trace.decisions.iter().all(|one| one.outcome == Outcome::Scaled));
}

#[test]
fn two_sources_share_the_load() {
    let yaml = "
rate: [{at: 0 s, records: 3000}]
vertices:
- {name: a, recordsPerSubtask: 1000, share: 0.75}
- {name: b, recordsPerSubtask: 1000, share: 0.25}
- {name: join, recordsPerSubtask: 1000, inputs: [{from: a, ship: HASH}, {from: b, ship: HASH}]}
";
    let simulated = run(yaml, &[]);
    let parallelism = last(&simulated);
    assert!(parallelism[&"a".into()] >= 3 && parallelism[&"b".into()] <= 2, "{parallelism:?}");
    assert!(parallelism[&"join".into()] >= 4, "{parallelism:?}");
}

#[test]
fn limits_hold_and_a_lag_that_stays_is_seen() {
    let simulated = run(PIPELINE, &[("vertex.max-parallelism", "2")]);
    assert!(last(&simulated).values().all(|parallelism| *parallelism <= 2));
    assert!(simulated.trace.moments.last().unwrap().lag.unwrap() > 1e6);
}

#[test]
fn the_job_stands_still_while_it_is_scaled() {
    let simulated = run(&PIPELINE.replace("duration: 3 h", "restart: 3 min\nduration: 1 h"), &[]);
    let gaps = simulated.trace.moments.iter().filter(|moment| moment.outcome.is_err()).count();
    assert!(gaps >= 2, "{gaps}");
    assert_eq!(gaps, simulated.entries.iter().filter(|entry| entry.measured.is_err()).count());
}

#[test]
fn the_same_model_gives_the_same_trace() {
    assert_eq!(run(PIPELINE, &[]), run(PIPELINE, &[]));
}

#[test]
fn a_file_that_is_no_job_is_refused_with_the_field() {
    let problem = |yaml: &str| Model::read(yaml).unwrap_err().to_string();
    assert!(matches!(Model::read("rate: 7"), Err(Unfit::Syntax(_))));
    for (from, to, field) in [
        ("recordsPerSubtask: 2000", "recordsPerSubtask: 0", "`vertices[0].recordsPerSubtask`"),
        ("recordsPerSubtask: 2000", "recordsPerSubtask: .nan", "`vertices[0].recordsPerSubtask`"),
        ("records: 4000", "records: -1", "`rate[0].records`"),
        ("at: 0 s", "at: soon", "`rate[0].at`"),
        ("duration: 3 h", "duration: 30 d", "`duration`"),
        ("duration: 3 h", "interval: 1 s\nduration: 7 d", "`interval`"),
        ("name: sink", "name: window", "`vertices[2].name`"),
        ("partitions: 12", "share: 0.5", "`vertices`"),
        ("ratio: 0.5", "ratio: -2", "`vertices[2].inputs[0].ratio`"),
        ("ship: HASH", "ship: POST", "cannot be read"),
        ("partitions: 12", "partition: 12", "cannot be read"),
    ] {
        let yaml = PIPELINE.replacen(from, to, 1);
        assert_ne!(yaml, PIPELINE, "{from}");
        assert!(problem(&yaml).contains(field), "{to}: {}", problem(&yaml));
    }
    let circle = PIPELINE.replace("from: source", "from: sink");
    let model = Model::read(&circle).unwrap();
    let result = simulate(&model, &settings(&[]), &FlinkConfig::new(), start(), &Rules::default());
    assert!(matches!(result, Err(Unusable::Circular(_))), "{result:?}");
}

#[test]
fn rates_change_evenly_between_two_points() {
    let yaml = PIPELINE.replace(
        "[{at: 0 s, records: 4000}]",
        "[{at: 10 s, records: 100}, {at: 20 s, records: 200}]",
    );
    let model = Model::read(&yaml).unwrap();
    let rates = [0, 10, 15, 20, 500].map(|second| model.rate_at(second));
    assert_eq!(rates.map(f64::to_bits), [100.0, 100.0, 150.0, 200.0, 200.0].map(f64::to_bits));
    assert_eq!(model.interval, Duration::from_mins(1));
}
