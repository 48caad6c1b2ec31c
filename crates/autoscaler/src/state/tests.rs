use jiff::SignedDuration;

use super::*;
use crate::cycle::ConfigChanges;
use crate::metric::{Evaluated, Figures, Metric, Values};
use crate::sample::Sample;
use crate::scaling_history::{Reason, Scaling};

const A: &str = "20ba6b65f97481d5570070de90e4e791";
/// Only digits, which an id may be.
const B: &str = "12345678901234567890123456789012";

/// As the Java operator writes them, before compression.
const HISTORY_TEXT: &str = "---
12345678901234567890123456789012:
  2023-11-14T22:14:20Z:
    currentParallelism: 1
    newParallelism: 4
    metrics:
      LOAD:
        current: NaN
        average: 0.85
      TRUE_PROCESSING_RATE:
        current: NaN
        average: Infinity
      CATCH_UP_DATA_RATE:
        current: 1.25E7
        average: NaN
  2023-11-14T22:14:20.123456Z:
    currentParallelism: 4
    newParallelism: 2
    metrics: {}
";
const TRACKING_TEXT: &str = "---
scalingRecords:
  2023-11-14T22:14:20Z:
    restartDuration: 65.250000000
  2023-11-14T22:14:20.123456Z: {}
";
const SAMPLES_TEXT: &str = "---
2023-11-14T22:13:20Z:
  vertexMetrics:
    12345678901234567890123456789012:
      LOAD: 0.5
    20ba6b65f97481d5570070de90e4e791:
      LOAD: 0.85
      OBSERVED_TPR: Infinity
      LAG: 2000.0
      NUM_RECORDS_IN: 1.2345678E8
  globalMetrics:
    HEAP_MAX_USAGE_RATIO: 0.25
2023-11-14T22:14:20Z:
  vertexMetrics: {}
  globalMetrics: {}
";
const DELAYED_TEXT: &str = "---
delayedVertices:
  20ba6b65f97481d5570070de90e4e791:
    firstTriggerTime: 1700000000.123456789
    recommendedParallelisms:
    - triggerTime: 1700000060.000000000
      parallelism: 7
      outsideUtilizationBound: true
    - triggerTime: 1700000120.500000000
      parallelism: 3
      outsideUtilizationBound: false
";
const CONFIG_TEXT: &str = "---
overrides:
  \"taskmanager.memory.jvm-overhead.fraction\": \"0.054\"
  \"taskmanager.memory.process.size\": \"20108162027 bytes\"
removals:
- \"taskmanager.memory.flink.size\"
- \"taskmanager.memory.size\"
";

fn stored() -> Data {
    [
        (HISTORY, text::compress(HISTORY_TEXT)),
        (TRACKING, text::compress(TRACKING_TEXT)),
        (SAMPLES, text::compress(SAMPLES_TEXT)),
        (PARALLELISM, format!("{B}:4,{A}:2")),
        (CONFIG, CONFIG_TEXT.to_owned()),
        (DELAYED, DELAYED_TEXT.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn section_10_what_the_java_operator_stored_is_read() {
    let Stored { state, set_aside, kept } = read(&stored()).unwrap();
    assert_eq!((set_aside.len(), kept.len()), (0, 0));
    let history = &state.scaling_history[&B.into()];
    let first = &history[&time("2023-11-14T22:14:20Z")];
    assert_eq!((first.current, first.new), (1, 4));
    assert!(first.figures.average(Metric::TrueProcessingRate).is_infinite());
    assert_eq!(first.figures.0[&Metric::Load], Evaluated::average(0.85));
    assert_eq!(first.figures.current(Metric::CatchUpDataRate).to_bits(), 1.25e7_f64.to_bits());
    assert_eq!(
        state.restarts.values().copied().collect::<Vec<_>>(),
        [Some(SignedDuration::from_millis(65_250)), None]
    );
    let sample = &state.samples[&time("2023-11-14T22:13:20Z")];
    assert_eq!(sample.vertices[&A.into()].get(Metric::NumRecordsIn), Some(123_456_780.0));
    assert_eq!(sample.job.get(Metric::HeapMaxUsageRatio), Some(0.25));
    assert_eq!(state.overrides, [(B.into(), 4), (A.into(), 2)].into());
    let waiting = &state.delayed.0[&A.into()];
    assert_eq!(waiting.since, time("2023-11-14T22:13:20.123456789Z"));
    assert_eq!(waiting.recommended[1].parallelism, 3);
    assert_eq!(state.config.overrides.len() + state.config.removals.len(), 4);
}

#[test]
fn section_10_what_is_written_is_what_the_java_operator_writes() {
    let data = write(&read(&stored()).unwrap()).unwrap().data;
    let plain = |key: &str| text::decompress(&data[key]).unwrap();
    assert_eq!(plain(HISTORY), HISTORY_TEXT);
    assert_eq!(plain(TRACKING), TRACKING_TEXT);
    assert_eq!(plain(SAMPLES), SAMPLES_TEXT);
    assert_eq!(plain(DELAYED), DELAYED_TEXT);
    assert_eq!(plain(CONFIG), CONFIG_TEXT);
    assert_eq!(data[PARALLELISM], format!("{B}:4,{A}:2"));
    assert_eq!(data, stored(), "and the same each time");
}

#[test]
fn nothing_is_stored_of_nothing() {
    assert_eq!(read(&Data::new()), Ok(Stored::default()));
    let written = write(&Stored::default()).unwrap();
    assert_eq!(written, Written { data: Data::new(), dropped_samples: 0 });
}

#[test]
fn values_of_older_operators_are_not_compressed() {
    let mut data = stored();
    data.insert(HISTORY.to_owned(), HISTORY_TEXT.to_owned());
    assert_eq!(read(&data).unwrap().state, read(&stored()).unwrap().state);
}

#[test]
fn overrides_in_the_newer_form_are_read() {
    let data = Data::from([(PARALLELISM.to_owned(), format!("{{{A}: '2', {B}: '3'}}"))]);
    assert_eq!(read(&data).unwrap().state.overrides, [(A.into(), 2), (B.into(), 3)].into());
}

/// Checks that this value is set aside with this reason, and that the rest stays as it is.
#[track_caller]
fn sets_aside(key: &str, value: &str, reason: &str) {
    let mut data = stored();
    data.insert(key.to_owned(), value.to_owned());
    let read_back = read(&data).unwrap();
    let [aside] = &read_back.set_aside[..] else { panic!("{:?}", read_back.set_aside) };
    assert!(aside.reason.contains(reason), "{}", aside.reason);
    let written = write(&read_back).unwrap().data;
    assert_eq!(written[&aside.kept_as], value);
    assert_eq!(written.get(key), None);
    // The rest is unchanged, and stays so.
    let rest = |data: &Data| -> Data {
        data.clone().into_iter().filter(|(of, _)| !of.starts_with(key)).collect()
    };
    assert_eq!(rest(&written), rest(&stored()));
    let again = read(&written).unwrap();
    assert_eq!((again.set_aside.len(), &again.state), (0, &read_back.state));
    assert_eq!(write(&again).unwrap().data, written);
}

#[test]
fn what_cannot_be_understood_is_set_aside() {
    sets_aside(HISTORY, "not: [yaml", "");
    let newer = SAMPLES_TEXT.replace("LAG", "LAG_OF_TOMORROW");
    sets_aside(SAMPLES, &text::compress(&newer), "LAG_OF_TOMORROW");
    let newer = TRACKING_TEXT.replace("{}", "{rescued: true}");
    sets_aside(TRACKING, &text::compress(&newer), "rescued");
    sets_aside(DELAYED, &DELAYED_TEXT.replace("parallelism: 7", "parallelism: seven"), "");
    let same = HISTORY_TEXT.replace("newParallelism: 4", "newParallelism: 1");
    sets_aside(HISTORY, &text::compress(&same), "not a scaling");
    sets_aside(DELAYED, &DELAYED_TEXT.replace("parallelism: 3", "parallelism: 8"), "order");
    let whole = text::compress(SAMPLES_TEXT);
    sets_aside(SAMPLES, &whole[..whole.len() / 8 * 4], "decompress");
}

#[test]
fn what_is_set_aside_is_not_overwritten() {
    let mut data = stored();
    data.insert(HISTORY.to_owned(), "broken".to_owned());
    let mut data = write(&read(&data).unwrap()).unwrap().data;
    data.insert(HISTORY.to_owned(), "broken again".to_owned());
    let error = read(&data).unwrap_err();
    assert!(matches!(error, Unreadable::AgainSetAside { key: HISTORY, .. }), "{error}");
    assert!(error.to_string().contains("`scalingHistory.unreadable` already holds an earlier one"));
}

#[test]
fn what_is_in_force_is_not_guessed() {
    for (key, value) in [
        (PARALLELISM, "a:many"),
        (PARALLELISM, "a:0"),
        (PARALLELISM, "nonsense"),
        (CONFIG, "overrides: 5"),
        (CONFIG, "overrides: {\"env.java.opts.all\": \"-Dx\"}\nremovals: []\n"),
        (CONFIG, "overrides: {}\nremovals: [high-availability.storageDir]\n"),
        (CONFIG, "overrides: {}\nremovals: [taskmanager.memory.process.size]\n"),
        (CONFIG, "overrides: {\"taskmanager.memory.size\": \"1 gb\"}\nremovals: []\n"),
        (CONFIG, "overrides: {\"taskmanager.memory.process.size\": many}\nremovals: []\n"),
        (CONFIG, "overrides: {\"taskmanager.memory.managed.fraction\": NaN}\nremovals: []\n"),
        (
            CONFIG,
            "overrides: {\"taskmanager.memory.managed.fraction\": \"0.1\\n\"}\nremovals: []\n",
        ),
    ] {
        let mut data = stored();
        data.insert(key.to_owned(), value.to_owned());
        let error = read(&data).unwrap_err();
        assert!(matches!(error, Unreadable::InForce { .. }), "{value}: {error}");
        assert!(error.to_string().ends_with("or reset the autoscaler"), "{error}");
    }
}

#[test]
fn an_option_that_is_not_tuned_is_reported_by_its_key_alone() {
    let error = |config: &str| read::config(config).unwrap_err();
    assert_eq!(
        error("overrides: {s3.secret-key: hush}\nremovals: []\n"),
        "`s3.secret-key` is not tuned"
    );
    let key = "taskmanager.memory.process.size";
    let told = error(&format!("overrides: {{{key}: hush}}\nremovals: []\n"));
    assert!(told.contains(key) && !told.contains("hush"), "{told}");
    let told = error(&format!("overrides: {{}}\nremovals: [\"\\n{}\"]\n", "x".repeat(10_000)));
    assert!(told.starts_with("`\\nxxx") && told.len() < 300, "{told}");
}

#[test]
fn what_others_store_alongside_is_retained() {
    let mut data = stored();
    data.insert("ofTomorrow".to_owned(), "?".to_owned());
    assert_eq!(write(&read(&data).unwrap()).unwrap().data, data);
}

/// A sample whose figures do not repeat.
fn sample(seed: u64) -> Sample {
    let mut sample = Sample::default();
    for vertex in 0..50_u64 {
        let mut values = Values::default();
        for (number, metric) in (1..).zip([Metric::Lag, Metric::NumRecordsIn, Metric::Load]) {
            let mixed = (seed * 50 + vertex + number * 7919).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            #[allow(clippy::cast_precision_loss, reason = "any number will do")]
            values.set(metric, mixed as f64 / 1000.0);
        }
        sample.vertices.insert(format!("{vertex:032x}").as_str().into(), values);
    }
    sample
}

#[test]
fn section_10_the_oldest_samples_go_where_there_is_no_room() {
    let mut stored = read(&stored()).unwrap();
    let at = |minute| time("2024-01-01T00:00:00Z") + SignedDuration::from_mins(minute);
    stored.state.samples = (0..600).map(|n: i64| (at(n), sample(n.unsigned_abs()))).collect();
    let written = write(&stored).unwrap();
    let length: usize = written.data.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!((LENGTH_MAX / 2..=LENGTH_MAX).contains(&length), "{length}");
    assert!(written.dropped_samples > 0);
    let again = read(&written.data).unwrap().state;
    assert_eq!(again.samples.len(), 600 - written.dropped_samples);
    assert_eq!(again.samples.last_key_value(), stored.state.samples.last_key_value());
    assert_eq!(again.scaling_history, stored.state.scaling_history);
}

#[test]
fn a_state_that_does_not_fit_is_not_written() {
    let mut stored = read(&stored()).unwrap();
    stored.kept.insert("other".to_owned(), "x".repeat(LENGTH_MAX));
    let error = write(&stored).unwrap_err();
    assert!(error.length > LENGTH_MAX);
}

#[test]
fn a_vertex_without_entries_comes_back() {
    let mut stored = Stored::default();
    stored.state.scaling_history.insert(A.into(), [].into());
    let removals = ["taskmanager.memory.task.heap.size".to_owned()].into();
    stored.state.config = ConfigChanges { removals, ..Default::default() };
    let scaling = Scaling { current: 2, new: 1, figures: Figures::default() };
    stored.state.scaling_history.insert(B.into(), [(Timestamp::UNIX_EPOCH, scaling)].into());
    assert_eq!(read(&write(&stored).unwrap().data), Ok(stored));
}

#[test]
fn the_reason_of_a_scaling_is_stored_alongside_what_the_java_operator_knows() {
    let mut given = read(&stored()).unwrap();
    let at = time("2023-11-14T22:14:20Z");
    let reason = |rule: &str, number| Reason { rule: rule.to_owned(), number };
    let rule = "decided by executor `a: \"b\"`";
    given.state.reasons = [
        (A.into(), [(at, reason("computed parallelism", 4.0))].into()),
        (B.into(), [(at, reason(rule, f64::INFINITY))].into()),
    ]
    .into();
    let mut data = write(&given).unwrap().data;
    assert_eq!(read(&data), Ok(given));
    let reasons = data.remove(REASONS).unwrap();
    assert_eq!(data, stored());
    // Without it, the operator only knows less about the past.
    data.insert(REASONS.to_owned(), "{".to_owned());
    let read = read(&data).unwrap();
    assert_eq!((read.set_aside[0].key, read.state.reasons.len()), (REASONS, 0));
    assert_eq!(read.state.overrides.len(), 2);
    assert!(!reasons.is_empty());
}

#[test]
fn of_what_is_damaged_history_is_set_aside_and_all_else_decides_nothing() {
    let data = stored();
    let damaged = |key: &str| Data::from([(key.to_owned(), "it is cut short".to_owned())]);
    let whole = read(&data).unwrap();
    for key in [HISTORY, TRACKING, SAMPLES, DELAYED] {
        let read = read_damaged(&data, &damaged(key)).unwrap();
        let kept_as = format!("{key}.unreadable");
        assert_eq!(read.kept[&kept_as], data[key]);
        let aside = SetAside { key, kept_as, reason: "it is cut short".to_owned() };
        assert_eq!(read.set_aside, [aside]);
        let State { samples, scaling_history, restarts, overrides, config, delayed, .. } =
            &read.state;
        assert_eq!((overrides, config), (&whole.state.overrides, &whole.state.config));
        let lengths = [samples.len(), scaling_history.len(), restarts.len(), delayed.0.len()];
        assert_eq!(lengths.iter().filter(|length| **length == 0).count(), 1, "{key}: {lengths:?}");
    }
    for key in [PARALLELISM, CONFIG, "adviceUntil"] {
        let error = read_damaged(&data, &damaged(key)).unwrap_err().to_string();
        assert!(error.contains(key) && error.ends_with("it is cut short"), "{error}");
    }
    assert_eq!(read_damaged(&data, &damaged("scalingHistory.unreadable")), Ok(whole));
}

#[test]
fn samples_alone_are_stored_now_and_then_and_decisions_at_once() {
    let settings = crate::settings::tests::settings(&[("metrics.window", "10 min")]);
    let before = read(&stored()).unwrap().state;
    let now = time("2024-01-01T00:10:00Z");
    let is_due = |after: &State, stored_at| is_due(&before, after, stored_at, &settings, now);
    let mut sampled = before.clone();
    sampled.samples.insert(now, Sample::default());
    assert!(!is_due(&sampled, Some(time("2024-01-01T00:08:01Z"))));
    assert!(is_due(&sampled, Some(time("2024-01-01T00:08:00Z"))));
    assert!(is_due(&sampled, Some(time("2024-01-01T00:11:00Z"))), "the clock went back");
    assert!(is_due(&sampled, None), "never yet");
    let mut decided = before.clone();
    decided.overrides.insert(A.into(), 9);
    assert!(is_due(&decided, Some(now)));
}

/// As the Java program writes them into a database: JSON, with NaN and infinity in quotes.
#[test]
fn what_the_java_program_keeps_in_a_database_is_taken_over() {
    let history = format!(
        r#"{{"{B}":{{"2023-11-14T22:14:20Z":{{"currentParallelism":1,"newParallelism":4,"metrics":{{
        "LOAD":{{"current":"NaN","average":0.85}},
        "TRUE_PROCESSING_RATE":{{"current":"NaN","average":"Infinity"}},
        "CATCH_UP_DATA_RATE":{{"current":1.25E7,"average":"NaN"}}}}}},
        "2023-11-14T22:14:20.123456Z":{{"currentParallelism":4,"newParallelism":2,"metrics":{{}}}}}}}}"#
    );
    let tracking = r#"{"scalingRecords":{"2023-11-14T22:14:20Z":{"restartDuration":65.250000000},
        "2023-11-14T22:14:20.123456Z":{"restartDuration":null}}}"#;
    let samples = format!(
        r#"{{"2023-11-14T22:13:20Z":{{"vertexMetrics":{{"{B}":{{"LOAD":0.5}},
        "{A}":{{"LOAD":0.85,"OBSERVED_TPR":"Infinity","LAG":2000.0,"NUM_RECORDS_IN":1.2345678E8}}}},
        "globalMetrics":{{"HEAP_MAX_USAGE_RATIO":0.25}}}},
        "2023-11-14T22:14:20Z":{{"vertexMetrics":{{}},"globalMetrics":{{}}}}}}"#
    );
    let delayed = format!(
        r#"{{"delayedVertices":{{"{A}":{{"firstTriggerTime":1700000000.123456789,
        "recommendedParallelisms":[
        {{"triggerTime":1700000060.000000000,"parallelism":7,"outsideUtilizationBound":true}},
        {{"triggerTime":1700000120.500000000,"parallelism":3,"outsideUtilizationBound":false}}]}}}}}}"#
    );
    let overrides = format!("{B}:4,{A}:2");
    let values = [
        (HISTORY, history.as_str()),
        (TRACKING, tracking),
        (SAMPLES, samples.as_str()),
        (DELAYED, delayed.as_str()),
        (PARALLELISM, overrides.as_str()),
        (CONFIG, r#"{"overrides":{"taskmanager.memory.process.size":"1 gb"},"removals":[]}"#),
        ("newerThanThis", "x"),
    ];
    let data: Data = values.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let taken = take_over(&data).unwrap();
    let yaml = [
        (HISTORY, HISTORY_TEXT),
        (TRACKING, TRACKING_TEXT),
        (SAMPLES, SAMPLES_TEXT),
        (DELAYED, DELAYED_TEXT),
        (PARALLELISM, overrides.as_str()),
    ];
    let yaml: Data = yaml.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    // Compares what would be written, because NaN is not equal to itself.
    let (json, yaml) = (write(&taken).unwrap(), write(&read(&yaml).unwrap()).unwrap());
    assert_eq!(json.data, yaml.data, "as of a ConfigMap, and nothing else");
    assert_eq!((taken.set_aside, taken.kept.len()), (vec![], 0));
    assert_eq!(taken.state.overrides, [(B.into(), 4), (A.into(), 2)].into());
}

#[test]
fn of_what_is_taken_over_nothing_is_guessed_and_nothing_set_aside() {
    let data = |key: &str, value: &str| Data::from([(key.to_owned(), value.to_owned())]);
    assert!(take_over(&data(PARALLELISM, "20ba:many")).is_err());
    let taken = take_over(&data(HISTORY, "{")).unwrap();
    assert_eq!((taken.set_aside.len(), taken.kept.len()), (1, 0), "the table has it still");
    assert_eq!(taken.state, State::default());
}
