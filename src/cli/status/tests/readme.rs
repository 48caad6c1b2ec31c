//! The picture in the README shows what the program prints.

use super::*;

/// A running job that was upgraded a minute and a half ago.
fn upgraded() -> Facts {
    const FOLDER: &str = "file:/flink-data";
    let id = "5ef807eb0a8d16d7bdc8289931e143d8";
    let savepoint = format!("{FOLDER}/savepoints/savepoint-6a2066-d2e0730e100a");
    let ago = |seconds| now() - jiff::SignedDuration::from_secs(seconds);
    let pod = |name: &str, component: &str, seconds| {
        let mut pod = pod(name, component);
        pod.metadata.creation_timestamp = from(json!(ago(seconds)));
        pod
    };
    let vertex = |name: &str, parallelism: u32, read: u32, written: u32| {
        json!({"id": name, "name": name, "parallelism": parallelism, "status": "RUNNING",
            "tasks": {"RUNNING": parallelism},
            "metrics": {"read-records": read, "write-records": written}})
    };
    let once = |reason: &str, message: &str, seconds| {
        let mut event = event("Normal", reason, message, seconds);
        event.count = Some(1);
        event
    };
    Facts {
        deployment: Deployment(json!({
            "metadata": {"name": "basic", "namespace": "default", "generation": 2, "creationTimestamp": ago(148)},
            "spec": {"flinkVersion": "v1_20", "job": {"upgradeMode": "savepoint", "parallelism": 2}},
            "status": {
                "observedGeneration": 2, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY",
                "jobStatus": {"state": "RUNNING", "jobId": id},
                "reconciliationStatus": {"lastReconciledSpec": "{}"},
            },
        })),
        pods: Ok(vec![
            pod("basic-547659d4dd-l9x5x", "jobmanager", 93),
            pod("basic-taskmanager-1-1", "taskmanager", 83),
            pod("basic-taskmanager-1-2", "taskmanager", 82),
        ]),
        snapshots: Ok(vec![json!({
            "metadata": {"name": "basic-savepoint-upgrade-1795255689351", "creationTimestamp": ago(95)},
            "status": {"state": "COMPLETED", "path": savepoint},
        })]),
        flink: Some(FlinkFacts {
            task_managers: Ok(from(json!({"taskmanagers": [
                {"id": "1", "path": "", "slotsNumber": 1, "freeSlots": 0},
                {"id": "2", "path": "", "slotsNumber": 1, "freeSlots": 0}]}))),
            job: Some(JobFacts {
                details: Ok(from(json!({
                    "jid": id, "name": "CarTopSpeedWindowingExample", "state": "RUNNING",
                    "start-time": ago(85).as_millisecond(),
                    "vertices": [
                        vertex("Source: Car data generator source -> Timestamps/Watermarks", 1, 0, 633),
                        vertex("GlobalWindows -> Sink: Print to Std. Out", 2, 633, 0)],
                }))),
                checkpoints: Ok(Checkpoints::Statistics(from(json!({
                    "counts": {"restored": 1, "total": 8, "in_progress": 0, "completed": 8, "failed": 0},
                    "latest": {
                        "completed": {"id": 10, "status": "COMPLETED", "is_savepoint": false,
                            "latest_ack_timestamp": ago(3).as_millisecond(), "state_size": 33_792,
                            "end_to_end_duration": 31, "external_path": format!("{FOLDER}/checkpoints/{id}/chk-10")},
                        "restored": {"id": 2, "restore_timestamp": 1, "is_savepoint": true, "external_path": savepoint}},
                })))),
                exceptions: Ok(clients::flink::failures::JobExceptions {
                    entries: Vec::new(),
                    is_truncated: false,
                }),
            }),
            overview: None,
        }),
        events: Ok(vec![
            once("Suspended", "Suspending existing deployment.", 97),
            once("Submit", "Starting deployment", 94),
            once("JobStatusChanged", "Job status changed from CREATED to RUNNING", 85),
        ]),
        ..facts()
    }
}

#[test]
fn the_readme_shows_what_is_printed() {
    let text = tree::render(&upgraded(), false, None, now());
    let printed = anstream::adapter::strip_str(&text).to_string();
    let readme = include_str!("../../../../README.md");
    assert!(readme.contains(&printed), "the README shows something else than:\n{printed}");
}
