//! `autoscaler backtest` and `simulate`, against a JobManager in memory; see also
//! `tests/cli/autoscaler.trycmd`.

use autoscaler::record;
use serde_json::{Value, json};

use super::commands::run;
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::{FakeFlink, Job};

const JOB: &str = "0123456789abcdef0123456789abcdef";
const SOURCE: &str = "cbc357ccb763df2852fee8c4fc7d55f2";
const WINDOW: &str = "90bea66de1c231edf33913ecd54406c1";

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.insert(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "cars", "namespace": "default"},
        "spec": {
            "flinkVersion": "v1_20",
            "flinkConfiguration": {
                "job.autoscaler.metrics.window": "5 min",
                "s3.secret-key": "hunter2",
                "taskmanager.memory.process.size": "2 gb",
            },
            "taskManager": {"resource": {"cpu": 0.5}},
            "job": {"state": "running"},
        },
        "status": {"jobStatus": {"state": "RUNNING", "jobId": JOB}},
    }));
    cluster
}

async fn flink() -> FakeFlink {
    let flink = FakeFlink::start().await;
    let named = |metrics: &[(&str, f64)]| {
        metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    flink.with("default/cars", |cluster| {
        let mut job = Job::running(JOB, 1_750_000_000_000);
        let source = named(&[
            ("busyTimeMsPerSecond", 850.0),
            ("backPressuredTimeMsPerSecond", 100.0),
            ("Source__Car_data.numRecordsInPerSecond", 500.0),
            ("Source__Car_data.numRecordsIn", 30_000.0),
            ("Source__Car_data.pendingRecords", 2000.0),
        ]);
        job.metrics.insert(SOURCE.into(), source);
        let window = named(&[("busyTimeMsPerSecond", 300.0), ("numRecordsInPerSecond", 490.0)]);
        job.metrics.insert(WINDOW.into(), window);
        cluster.jobs.insert(JOB.to_owned(), job);
        cluster.process_metrics = named(&[
            ("Status.JVM.Memory.Heap.Max", 1000.0),
            ("Status.JVM.Memory.Heap.Used", 400.0),
            ("Status.Flink.Memory.Managed.Used", 30.0),
            ("Status.JVM.Memory.Metaspace.Used", 20.0),
        ]);
    });
    flink
}

#[tokio::test]
async fn a_job_is_recorded_and_replayed() {
    let (cluster, flink) = (cluster(), flink().await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cars.jsonl");
    let shown = file.display();
    let line = format!("autoscaler backtest --record {shown} --for 1s --interval 1s cars");
    let ran = run(&cluster, Some(flink.address().to_owned()), &line).await.succeeded();
    assert!(ran.output.contains("done: 1 measurements"), "{}", ran.output);
    assert_eq!(cluster.writes(), []);

    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let record = record::read(&text).unwrap();
    assert_eq!(record.header.options["job.autoscaler.metrics.window"], "5 min");
    assert_eq!(record.header.task_manager_cpu, Some(0.5));
    assert_eq!(record.header.task_manager_memory_bytes, Some(2 << 30));
    let measured = record.entries[0].measured.as_ref().unwrap();
    assert_eq!(measured.reading.vertices[&SOURCE.into()].busy.unwrap().max, Some(850.0));

    // What is there is not written over.
    let again = run(&cluster, Some(flink.address().to_owned()), &line).await;
    let (_, causes) = again.failure.unwrap();
    assert!(causes[0].contains("while creating"), "{causes:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);

    let ran = run(&cluster, None, &format!("autoscaler backtest {shown} -o json")).await;
    let told: Value = serde_json::from_str(&ran.succeeded().output).unwrap();
    assert_eq!(told["job"], "cars");
    assert_eq!(told["outcomes"], json!({"too few samples": 1}));
    assert_eq!(told["moments"][0]["lag"], 2000.0);
}

#[tokio::test]
async fn a_job_that_cannot_be_measured_leaves_its_reason() {
    let (cluster, flink) = (cluster(), flink().await);
    flink.with("default/cars", |cluster| {
        cluster.jobs.get_mut(JOB).unwrap().state = "RESTARTING".into();
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cars.jsonl");
    let shown = file.display();
    let line = format!("autoscaler backtest --record {shown} --for 1s --interval 1s cars");
    let ran = run(&cluster, Some(flink.address().to_owned()), &line).await;
    let (_, causes) = ran.failure.unwrap();
    assert!(causes[0].contains("could not be measured"), "{causes:?}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("not running"));
    let ran = run(&cluster, None, &format!("autoscaler backtest {shown}")).await;
    let (_, causes) = ran.failure.unwrap();
    assert!(causes[0].contains("no measurement of a running job"), "{causes:?}");
}

#[tokio::test]
async fn a_chart_is_written_for_people_and_browsers() {
    let folder = tempfile::tempdir().unwrap();
    let (svg, record) = (folder.path().join("a.svg"), folder.path().join("a.jsonl"));
    let line = format!(
        "autoscaler simulate -f tests/cli/autoscaler.in/job.yaml --svg {} --record {}",
        svg.display(),
        record.display()
    );
    let ran = run(&FakeCluster::new(), None, &line).await.succeeded();
    assert!(ran.output.contains("parallelism, all vertices"), "{}", ran.output);
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.matches("<polyline").count() >= 5, "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    assert!(record::read(&std::fs::read_to_string(record).unwrap()).is_ok());
}
