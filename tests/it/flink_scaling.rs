//! What the autoscaler reads about a job, from a JobManager that answers like Flink.

use autoscaler::names::{Figure, Missing};
use autoscaler::topology::{ShipStrategy, VertexId};
use clients::flink::Client;
use clients::flink::scaling::{Names, Unmeasured};

use crate::support::fake_flink::{FakeFlink, Fault};

const JOB: &str = "aaaa0000000000000000000000000001";
const SOURCE: &str = "cbc357ccb763df2852fee8c4fc7d55f2";
const WINDOW: &str = "90bea66de1c231edf33913ecd54406c1";
const KAFKA: &str = "Source__Car_data.KafkaSourceReader.topic.cars.partition";

/// Returns a job whose source reads three partitions.
async fn job() -> (FakeFlink, Client) {
    let fake = FakeFlink::start().await;
    fake.run_job(JOB);
    fake.with_job(JOB, |job| {
        let source = [
            ("busyTimeMsPerSecond", 850.0),
            ("backPressuredTimeMsPerSecond", 100.0),
            ("idleTimeMsPerSecond", 50.0),
            ("Source__Car_data.numRecordsInPerSecond", 500.0),
            ("Source__Car_data.numRecordsIn", 30_000.0),
            ("Source__Car_data.numRecordsOut", 30_001.0),
            ("Source__Car_data.pendingRecords", 2000.0),
        ];
        let partitions = (0..3).map(|number| (format!("{KAFKA}.{number}.currentOffset"), 7.0));
        let source = source.map(|(name, value)| (name.to_owned(), value));
        job.metrics.insert(SOURCE.into(), source.into_iter().chain(partitions).collect());
        let window = [("busyTimeMsPerSecond", 300.0), ("numRecordsInPerSecond", 490.0)];
        let window = window.map(|(name, value)| (name.to_owned(), value));
        job.metrics.insert(WINDOW.into(), window.into());
    });
    fake.with("", |cluster| {
        let metrics = [
            ("Status.JVM.Memory.Heap.Max", 1000.0),
            ("Status.JVM.Memory.Heap.Used", 400.0),
            ("Status.Flink.Memory.Managed.Used", 30.0),
            ("Status.JVM.Memory.Metaspace.Used", 20.0),
            ("Status.JVM.GarbageCollector.All.TimeMsPerSecond", 15.0),
        ];
        cluster.process_metrics = metrics.map(|(name, value)| (name.to_owned(), value)).into();
    });
    let client = fake.client();
    (fake, client)
}

#[tokio::test]
async fn section_3_1_a_job_is_measured() {
    let (fake, client) = job().await;
    let measured = client.measure(JOB, &mut Names::default()).await.unwrap();
    let started = fake.with_job(JOB, |job| job.start);
    assert_eq!(measured.running_since.as_millisecond(), started);
    let order: Vec<_> = measured.topology.in_order().map(|(id, _)| id.as_str()).collect();
    assert_eq!(order, [SOURCE, WINDOW]);
    let source = measured.topology.get(&SOURCE.into()).unwrap();
    assert_eq!((source.parallelism, source.max_parallelism), (1, 128));
    assert_eq!((source.partitions, source.is_finished), (Some(3), false));
    assert!(source.counters.busy.is_nan());
    let window = measured.topology.get(&WINDOW.into()).unwrap();
    assert_eq!(window.inputs, [(VertexId::from(SOURCE), ShipStrategy::Hash)].into());
    assert_eq!(window.counters.records_out.to_bits(), 7.0_f64.to_bits());

    let of_source = measured.reading.vertices[&SOURCE.into()];
    assert_eq!(of_source.busy.unwrap().max, Some(850.0));
    assert_eq!(of_source.backpressure.unwrap().average, Some(100.0));
    assert_eq!(of_source.pending.unwrap().sum, Some(2000.0));
    assert_eq!(of_source.source_in.unwrap().sum, Some(30_000.0));
    assert_eq!(of_source.in_per_second, None);
    let of_window = measured.reading.vertices[&WINDOW.into()];
    assert_eq!(of_window.in_per_second.unwrap().sum, Some(490.0));
    let processes = measured.reading.processes;
    assert_eq!((processes.slots_total, processes.slots_available), (Some(4.0), Some(2.0)));
    assert_eq!(processes.gc.unwrap().max, Some(15.0));
    assert_eq!(processes.heap_used.unwrap().max, Some(400.0));
}

#[tokio::test]
async fn names_are_listed_again_for_sources_alone() {
    let (fake, client) = job().await;
    let mut names = Names::default();
    let first = client.measure(JOB, &mut names).await.unwrap();
    let second = client.measure(JOB, &mut names).await.unwrap();
    assert_eq!(first.reading, second.reading);
    let partitions = second.topology.get(&SOURCE.into()).unwrap().partitions;
    assert_eq!(partitions, Some(3));
    // One list and two readings of the window, and both of the source each time.
    assert_eq!(fake.requests(&format!("{WINDOW}/subtasks/metrics")).len(), 3);
    assert_eq!(fake.requests(&format!("{SOURCE}/subtasks/metrics")).len(), 4);
}

#[tokio::test]
async fn garbage_collection_is_asked_for_once_where_it_is_not_known() {
    let (fake, client) = job().await;
    fake.with("", |cluster| {
        cluster.process_metrics.retain(|name, _| !name.contains("GarbageCollector"));
    });
    let mut names = Names::default();
    for calls in [2, 3] {
        let measured = client.measure(JOB, &mut names).await.unwrap();
        assert_eq!(measured.reading.processes.gc, None);
        assert_eq!(measured.reading.processes.heap_max.unwrap().max, Some(1000.0));
        assert_eq!(fake.requests("/taskmanagers/metrics").len(), calls);
    }
}

#[tokio::test]
async fn without_figures_of_the_processes_there_is_no_measurement() {
    let (fake, client) = job().await;
    let metrics = fake.with("", |cluster| std::mem::take(&mut cluster.process_metrics));
    let mut names = Names::default();
    let error = client.measure(JOB, &mut names).await.unwrap_err();
    assert!(matches!(error, Unmeasured::NoProcessMetrics), "{error}");
    // The garbage collection metric arrives with the others.
    fake.with("", |cluster| cluster.process_metrics = metrics);
    let measured = client.measure(JOB, &mut names).await.unwrap();
    assert!(measured.reading.processes.gc.is_some());
}

#[tokio::test]
async fn a_metric_that_is_not_there_yet_is_named() {
    let (fake, client) = job().await;
    fake.with_job(JOB, |job| job.metrics.get_mut(WINDOW).unwrap().remove("busyTimeMsPerSecond"));
    let error = client.measure(JOB, &mut Names::default()).await.unwrap_err();
    assert!(error.is_of_a_start());
    let Unmeasured::Missing { vertex, missing } = error else { panic!("{error}") };
    assert_eq!((vertex.as_str(), missing), (WINDOW, Missing(Figure::Busy)));
}

#[tokio::test]
async fn figures_that_are_not_complete_are_no_measurement() {
    let (fake, client) = job().await;
    for count in ["read-records", "write-records"] {
        for vertex in [SOURCE, WINDOW] {
            fake.with_job(JOB, |job| job.incomplete = vec![(vertex, count)]);
            let error = client.measure(JOB, &mut Names::default()).await.unwrap_err();
            assert!(error.is_of_a_start() && error.to_string().contains(vertex), "{error}");
            assert!(matches!(error, Unmeasured::Incomplete { .. }), "{error}");
            fake.with_job(JOB, |job| job.finished = vec![vertex.into()]);
            client.measure(JOB, &mut Names::default()).await.unwrap();
            fake.with_job(JOB, |job| job.finished.clear());
        }
    }
    fake.with_job(JOB, |job| job.incomplete.clear());
    client.measure(JOB, &mut Names::default()).await.unwrap();
}

#[tokio::test]
async fn what_has_finished_is_not_read() {
    let (fake, client) = job().await;
    fake.with_job(JOB, |job| {
        job.finished.push(SOURCE.into());
        job.metrics.remove(SOURCE);
    });
    let mut names = Names::default();
    for _ in 0..2 {
        let measured = client.measure(JOB, &mut names).await.unwrap();
        assert!(measured.topology.get(&SOURCE.into()).unwrap().is_finished);
        assert_eq!(measured.reading.vertices.keys().collect::<Vec<_>>(), [&WINDOW.into()]);
    }
    assert_eq!(fake.requests(&format!("{SOURCE}/subtasks")).len(), 0);
}

#[tokio::test]
async fn a_job_that_does_not_run_is_not_measured() {
    let (fake, client) = job().await;
    fake.with_job(JOB, |job| job.state = "RESTARTING".into());
    let error = client.measure(JOB, &mut Names::default()).await.unwrap_err();
    assert!(matches!(error, Unmeasured::NotRunning(_)), "{error}");
    assert_eq!(fake.requests("metrics").len(), 0);
}

#[tokio::test]
async fn half_a_measurement_is_none() {
    let (fake, client) = job().await;
    fake.inject(&format!("{WINDOW}/subtasks/metrics"), Fault::BadGateway, 1);
    let once = client.without_retries();
    let error = once.measure(JOB, &mut Names::default()).await.unwrap_err();
    assert!(matches!(error, Unmeasured::Flink(_)), "{error}");
}
