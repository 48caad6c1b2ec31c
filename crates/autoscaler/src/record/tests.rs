use super::*;
use crate::sample::{Aggregate, ProcessReading, VertexReading};
use crate::topology::{Counters, ShipStrategy};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn vertex(inputs: &[(&str, ShipStrategy)]) -> Vertex {
    Vertex {
        parallelism: 2,
        max_parallelism: 128,
        inputs: inputs.iter().map(|(id, ship)| ((*id).into(), *ship)).collect(),
        partitions: inputs.is_empty().then_some(12),
        slot_sharing_group: Some("default".to_owned()),
        is_finished: false,
        counters: Counters { records_in: 1.5, records_out: 2.0, busy: 3.0 },
    }
}

fn measurement() -> Measurement {
    let topology = [
        ("source".into(), vertex(&[])),
        ("sink".into(), vertex(&[("source", ShipStrategy::Hash)])),
    ];
    let busy = Aggregate { min: Some(0.1), max: Some(850.25), average: None, sum: Some(1e300) };
    let reading = VertexReading { busy: Some(busy), ..VertexReading::default() };
    let processes = ProcessReading { slots_total: Some(4.0), ..ProcessReading::default() };
    Measurement {
        running_since: at(-60),
        topology: Topology::new(topology.into()).unwrap(),
        reading: Reading { vertices: [("source".into(), reading)].into(), processes },
    }
}

fn header_of(options: &[(&str, &str)]) -> Header {
    let config: FlinkConfig = options.iter().copied().collect();
    let mut header = Header::new("orders", "aa", at(0), &config);
    header.vertex_names = [("source".into(), "Source: orders".to_owned())].into();
    header
}

fn file(entries: &[Entry]) -> String {
    let lines = std::iter::once(header_line(&header_of(&[]))).chain(entries.iter().map(entry_line));
    lines.map(|line| line + "\n").collect()
}

fn entries() -> Vec<Entry> {
    vec![
        Entry { at: at(0), measured: Ok(measurement()) },
        Entry { at: at(60), measured: Err("job `aa` does not run".to_owned()) },
        Entry { at: at(120), measured: Ok(measurement()) },
    ]
}

#[test]
fn what_is_written_reads_back() {
    let record = read(&file(&entries())).unwrap();
    assert_eq!(record, Record { header: header_of(&[]), entries: entries(), is_cut: false });
}

#[test]
fn what_is_no_number_stays_none() {
    let mut vertices = measurement().topology.vertices().clone();
    vertices.get_mut(&"sink".into()).unwrap().counters.busy = f64::NAN;
    let measurement = Measurement { topology: Topology::new(vertices).unwrap(), ..measurement() };
    let text = file(&[Entry { at: at(0), measured: Ok(measurement) }]);
    assert!(text.contains(r#""busy":null"#), "{text}");
    let record = read(&text).unwrap();
    let sink = record.entries[0].measured.as_ref().unwrap();
    assert!(sink.topology.get(&"sink".into()).unwrap().counters.busy.is_nan());
}

#[test]
fn only_options_of_decisions_are_recorded_and_no_secret() {
    let header = header_of(&[
        ("job.autoscaler.enabled", "true"),
        ("kubernetes.operator.job.autoscaler.metrics.window", "5 min"),
        ("job.autoscaler.metrics.custom-evaluator.mine.password", "hunter2"),
        ("s3.secret-key", "hunter2"),
        ("taskmanager.numberOfTaskSlots", "2"),
        ("env.java.opts", "-Dx=y"),
    ]);
    let keys: Vec<_> = header.options.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "job.autoscaler.enabled",
            "kubernetes.operator.job.autoscaler.metrics.window",
            "taskmanager.numberOfTaskSlots",
        ]
    );
    assert!(!header_line(&header).contains("hunter2"));
}

#[test]
fn a_last_line_that_is_cut_off_is_left_out() {
    let whole = file(&entries());
    let cut = &whole[..whole.len() - 20];
    let record = read(cut).unwrap();
    assert!(record.is_cut);
    assert_eq!(record.entries, entries()[..2]);
}

#[test]
fn a_bad_file_is_refused_with_the_line() {
    let problem = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(problem(""), "it is not a record of measurements: the file is empty");
    assert!(problem("rate: 3\n").starts_with("it is not a record of measurements: expected value"));
    assert!(problem("{\"format\": \"x\", \"version\": 1}\n").contains("its format is `x`"));
    let newer = file(&entries()).replace("\"version\":1", "\"version\":2");
    assert_eq!(
        problem(&newer),
        "it has version 2 of the format, and this program supports 1 and older ones"
    );
    let broken = file(&entries()).replace("\"unmeasured\"", "\"unmeasurable\"");
    assert!(problem(&broken).starts_with("line 3: unknown field `unmeasurable`"));
    let both = file(&entries()).replace(
        "{\"at\":\"2026-01-01T00:01:00Z\",",
        "{\"at\":\"2026-01-01T00:01:00Z\",\"measured\":null,",
    );
    assert!(read(&both).is_ok(), "null is nothing");
    let stopped = file(&entries()).replace("\"parallelism\":2", "\"parallelism\":0");
    assert!(problem(&stopped).starts_with("line 2: vertex"), "{}", problem(&stopped));
    let circle = file(&entries()).replace("\"inputs\":{\"source\"", "\"inputs\":{\"nobody\"");
    assert!(
        problem(&circle).contains("which is not in the plan")
            || problem(&circle).contains("not in the plan")
    );
    let unmeasured = [Entry { at: at(0), measured: Err("no".to_owned()) }];
    assert_eq!(problem(&file(&unmeasured)), "it has no measurement of a running job");
}

#[test]
fn a_line_that_is_too_long_is_not_read() {
    let text = file(&entries()) + &" ".repeat(10) + &"x".repeat(LINE_BYTES_MAX + 1) + "\n";
    assert!(read(&text).unwrap_err().to_string().contains("longer than"));
}
