use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::Event;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

mod readme;

use super::facts::{Facts, FlinkFacts, JobFacts};
use super::*;
use clients::cluster;
use clients::flink::checkpoints::Checkpoints;

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A running, stable job.
fn deployment() -> Deployment {
    Deployment(json!({
        "metadata": {"name": "wordcount", "namespace": "team", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"flinkVersion": "v1_20", "image": "flink:1.20", "job": {"upgradeMode": "savepoint", "parallelism": 2}},
        "status": {
            "observedGeneration": 2, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY",
            "jobStatus": {"state": "RUNNING", "jobId": "5a3e"}, "taskManager": {"replicas": 1},
            "reconciliationStatus": {"lastReconciledSpec": "{}"},
        },
    }))
}

fn pod(name: &str, component: &str) -> Pod {
    from(json!({
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:30Z", "labels": {"app": "wordcount", "component": component}},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "flink-main-container", "ready": true, "restartCount": 0, "image": "", "imageID": ""}]},
    }))
}

fn flink() -> FlinkFacts {
    FlinkFacts {
        task_managers: Ok(from(
            json!({"taskmanagers": [{"id": "t", "path": "", "slotsNumber": 2, "freeSlots": 0}]}),
        )),
        job: Some(JobFacts {
            details: Ok(from(json!({
                "jid": "5a3e", "name": "WordCount", "state": "RUNNING", "start-time": 1_767_225_660_000_i64,
                "vertices": [{"id": "v", "name": "Source", "parallelism": 2, "status": "RUNNING", "tasks": {"RUNNING": 2},
                    "metrics": {"read-records": 0, "write-records": 70}}],
            }))),
            checkpoints: Ok(Checkpoints::Statistics(from(json!({
                "counts": {"restored": 1, "total": 4, "in_progress": 0, "completed": 3, "failed": 1},
                "latest": {
                    "completed": {"id": 4, "status": "COMPLETED", "is_savepoint": false, "latest_ack_timestamp": 1_767_226_190_000_i64,
                        "state_size": 2048, "end_to_end_duration": 15, "external_path": "s3://b/chk-4"},
                    "restored": {"id": 1, "restore_timestamp": 1, "is_savepoint": true, "external_path": "s3://b/savepoint-1"}},
            })))),
            exceptions: Ok(clients::flink::failures::JobExceptions {
                entries: Vec::new(),
                is_truncated: false,
            }),
        }),
        overview: None,
    }
}

fn event(event_type: &str, reason: &str, message: &str, seconds: i64) -> Event {
    let at = now() - jiff::SignedDuration::from_secs(seconds);
    from(
        json!({"metadata": {"name": "e"}, "involvedObject": {}, "type": event_type, "reason": reason,
        "message": message, "count": 3, "lastTimestamp": at}),
    )
}

fn facts() -> Facts {
    Facts {
        deployment: deployment(),
        pods: Ok(vec![
            pod("wordcount-6d", "jobmanager"),
            pod("wordcount-taskmanager-1-1", "taskmanager"),
        ]),
        snapshots: Ok(Vec::new()),
        session_cluster: None,
        session_jobs: Vec::new(),
        flink: Some(flink()),
        events: Ok(Vec::new()),
        advised_until: None,
    }
}

#[track_caller]
fn check(facts: &Facts, expected: Expect) {
    let text = tree::render(facts, false, None, now());
    expected.assert_eq(&anstream::adapter::strip_str(&text).to_string());
}

#[test]
fn running_job_is_shown_with_all_its_parts() {
    check(
        &facts(),
        expect![[r#"
        wordcount STABLE (namespace team, v1_20, upgrade mode savepoint, 10m old)
        ├─ JobManager READY
        │  └─ wordcount-6d Running 1/1 ready, 9m30s
        ├─ TaskManagers 1 registered, 0 of 2 slots free
        │  └─ wordcount-taskmanager-1-1 Running 1/1 ready, 9m30s
        ├─ Job RUNNING WordCount (5a3e, for 9m)
        │  └─ Source RUNNING 2/2 tasks, 0 in, 70 out
        └─ Last checkpoint #4, 10s ago, 2.0 KiB, 15 ms, s3://b/chk-4 (3 completed, 1 failed)
           └─ restored from savepoint s3://b/savepoint-1
    "#]],
    );
}

#[test]
fn suspended_job_says_where_it_goes_on() {
    let mut deployment = deployment();
    deployment.0["status"] = json!({"observedGeneration": 2, "lifecycleState": "SUSPENDED", "jobManagerDeploymentStatus": "MISSING",
        "jobStatus": {"state": "FINISHED", "jobId": "5a3e", "upgradeSavepointPath": "s3://b/savepoint-2"}});
    check(
        &Facts { deployment, pods: Ok(Vec::new()), flink: None, ..facts() },
        expect![[r#"
        wordcount SUSPENDED (namespace team, v1_20, upgrade mode savepoint, 10m old)
        ├─ JobManager MISSING
        └─ Job FINISHED
           └─ next start from s3://b/savepoint-2
    "#]],
    );
}

#[test]
fn broken_deployment_shows_pod_and_cause() {
    let mut deployment = deployment();
    deployment.0["status"] = json!({"observedGeneration": 1, "lifecycleState": "DEPLOYED", "jobManagerDeploymentStatus": "ERROR",
        "jobStatus": {"state": "RECONCILING"}, "error": "{\"message\":\"image cannot be pulled\"}"});
    let mut broken = pod("wordcount-6d", "jobmanager");
    broken.status.as_mut().unwrap().container_statuses = Some(vec![from(
        json!({"name": "flink-main-container", "ready": false,
        "restartCount": 3, "image": "", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff"}}}),
    )]);
    check(
        &Facts { deployment, pods: Ok(vec![broken]), flink: None, ..facts() },
        expect![[r#"
        wordcount DEPLOYED (namespace team, v1_20, upgrade mode savepoint, 10m old)
        ├─ the operator works on generation 1; the spec is at 2
        ├─ JobManager ERROR
        │  └─ wordcount-6d ImagePullBackOff 0/1 ready, 3 restarts, 9m30s
        ├─ Job RECONCILING
        └─ error: image cannot be pulled
    "#]],
    );
}

#[test]
fn a_spec_that_is_being_tried_is_reported() {
    let mut deployment = deployment();
    deployment.0["status"]["observedGeneration"] = json!(1);
    let line = |info: &str| {
        let mut deployment = Deployment(deployment.0.clone());
        deployment.0["status"]["clusterInfo"] = json!({"Preflight": info});
        let shown = tree::render(&Facts { deployment, ..facts() }, false, None, now());
        let shown = anstream::adapter::strip_str(&shown).to_string();
        shown.lines().find(|line| line.contains("generation")).unwrap().to_owned()
    };
    assert_eq!(
        line("under way"),
        "├─ the operator works on generation 1; the spec is at 2, and is being tried in its own pods"
    );
    assert_eq!(line("passed 12"), "├─ the operator works on generation 1; the spec is at 2");
}

fn session_cluster() -> Deployment {
    Deployment(json!({
        "kind": "FlinkDeployment",
        "metadata": {"name": "cluster", "namespace": "team", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"flinkVersion": "v1_20"},
        "status": {"observedGeneration": 1, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY"},
    }))
}

fn session_job(name: &str, status: Value) -> Deployment {
    Deployment(json!({
        "kind": "FlinkSessionJob",
        "metadata": {"name": name, "namespace": "team", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"deploymentName": "cluster", "job": {"upgradeMode": "last-state"}},
        "status": status,
    }))
}

#[test]
fn session_cluster_is_shown_with_its_jobs() {
    let running = json!({"observedGeneration": 1, "lifecycleState": "STABLE", "jobStatus": {"state": "RUNNING", "jobId": "5a3e"}});
    let lost = json!({"observedGeneration": 1, "lifecycleState": "FAILED", "jobStatus": {"state": "RECONCILING"}, "error": "Job Not Found"});
    check(
        &Facts {
            deployment: session_cluster(),
            flink: None,
            session_jobs: vec![session_job("orders", running), session_job("bills", lost)],
            ..facts()
        },
        expect![[r#"
            cluster STABLE (namespace team, v1_20, session cluster, 10m old)
            ├─ JobManager READY
            │  └─ wordcount-6d Running 1/1 ready, 9m30s
            ├─ TaskManagers
            │  └─ wordcount-taskmanager-1-1 Running 1/1 ready, 9m30s
            └─ Session jobs
               ├─ orders STABLE · job RUNNING (5a3e)
               └─ bills FAILED · job RECONCILING
                  └─ error: Job Not Found
        "#]],
    );
}

#[test]
fn session_job_names_its_cluster() {
    let status = json!({"observedGeneration": 1, "lifecycleState": "SUSPENDED",
        "jobStatus": {"state": "CANCELED", "upgradeSavepointPath": "s3://b/chk-7"}});
    let missing = Err("the session cluster `cluster` of `orders` does not exist".to_owned());
    for (cluster, expected) in [
        (
            Ok(session_cluster()),
            expect![[r#"
                orders SUSPENDED (namespace team, session job, upgrade mode last-state, 10m old)
                ├─ Session cluster cluster, JobManager READY
                └─ Job CANCELED
                   └─ next start from s3://b/chk-7
            "#]],
        ),
        (
            missing,
            expect![[r#"
                orders SUSPENDED (namespace team, session job, upgrade mode last-state, 10m old)
                ├─ the session cluster `cluster` of `orders` does not exist
                └─ Job CANCELED
                   └─ next start from s3://b/chk-7
            "#]],
        ),
    ] {
        let deployment = session_job("orders", status.clone());
        let (pods, session_cluster) = (Ok(Vec::new()), Some(cluster));
        check(&Facts { deployment, pods, flink: None, session_cluster, ..facts() }, expected);
    }
}

#[test]
fn standalone_session_cluster_is_shown_without_a_job() {
    let mut deployment = deployment();
    deployment.0["spec"] = json!({"flinkVersion": "v1_20", "mode": "standalone"});
    let flink = FlinkFacts { job: None, ..flink() };
    check(
        &Facts { deployment, flink: Some(flink), ..facts() },
        expect![[r#"
        wordcount STABLE (namespace team, v1_20, standalone, session cluster, 10m old)
        ├─ JobManager READY
        │  └─ wordcount-6d Running 1/1 ready, 9m30s
        └─ TaskManagers 1 registered, 0 of 2 slots free
           └─ wordcount-taskmanager-1-1 Running 1/1 ready, 9m30s
    "#]],
    );
}

#[test]
fn table_is_kubectls_with_more_columns() {
    let mut failed = deployment();
    failed.0["metadata"]["name"] = json!("broken");
    failed.0["status"] = json!({"lifecycleState": "FAILED", "error": "a very long reason that does not fit into the width that a column of the table has"});
    let new = Deployment(
        json!({"metadata": {"name": "cluster", "namespace": "team"}, "spec": {"flinkVersion": "v2_0"}}),
    );
    let all = [&deployment(), &failed, &new];
    let table = list_table(&all, Scope::AllNamespaces, Columns::default(), None, now());
    expect![[r#"
        NAMESPACE   NAME        JOB STATUS   LIFECYCLE STATE   VERSION   UPGRADE MODE   AGE   ERROR
        team        wordcount   RUNNING      STABLE            v1_20     savepoint      10m
        team        broken                   FAILED            v1_20     savepoint      10m   a very long reason that does not fit into the width that a …
        team        cluster                                    v2_0      session"#]].assert_eq(&table);
    let wide = list_table(
        &[&deployment()],
        Scope::Namespace("team"),
        Columns { is_wide: true, ..Columns::default() },
        None,
        now(),
    );
    expect![[r#"
        NAME        JOB STATUS   LIFECYCLE STATE   VERSION   UPGRADE MODE   AGE   JOBMANAGER   TASKMANAGERS   PARALLELISM   SAVED   JOB ID   IMAGE        ERROR
        wordcount   RUNNING      STABLE            v1_20     savepoint      10m   READY        1              2                     5a3e     flink:1.20"#]].assert_eq(&wide);
    expect![[r#"
        NAMESPACE   NAME        LIFECYCLE STATE
        team        wordcount   STABLE
        team        broken      FAILED
        team        cluster"#]]
    .assert_eq(&list_table(&all, Scope::AllNamespaces, Columns::default(), Some(40), now()));
}

#[test]
fn the_task_managers_of_a_job_that_ended_are_no_problem() {
    let mut facts = facts();
    facts.deployment.0["status"]["jobStatus"]["state"] = "FINISHED".into();
    if let Some(flink) = &mut facts.flink {
        flink.task_managers = Err(clients::flink::Error::Refused {
            request: "GET /taskmanagers".to_owned(),
            status: 404,
            errors: vec!["Cannot connect to ResourceManager right now.".to_owned()],
        });
    }
    let shown = |facts: &Facts| {
        anstream::adapter::strip_str(&tree::render(facts, false, None, now())).to_string()
    };
    assert!(shown(&facts).contains("TaskManagers released"), "{}", shown(&facts));
    facts.deployment.0["status"]["jobStatus"]["state"] = "RUNNING".into();
    assert!(shown(&facts).contains("with 404"), "{}", shown(&facts));
}

#[test]
fn last_events_are_listed_the_latest_first_and_without_secrets() {
    let events = vec![
        event("Normal", "Submit", "Starting deployment", 90),
        event("Warning", "Error", "cannot read: password=hunter2\nat org.apache.flink", 5),
    ];
    check(
        &Facts { events: Ok(events), pods: Ok(Vec::new()), flink: None, ..facts() },
        expect![[r#"
            wordcount STABLE (namespace team, v1_20, upgrade mode savepoint, 10m old)
            ├─ JobManager READY
            ├─ Job RUNNING
            └─ Events
               ├─ Warning Error cannot read: password=****** 5s ago, 3 times
               └─ Submit Starting deployment 90s ago, 3 times
        "#]],
    );
    let forbidden = cluster::Error::Forbidden {
        user: "u".to_owned(),
        verb: "list".to_owned(),
        resource: "events".to_owned(),
        namespace: Some("team".to_owned()),
    };
    let facts = Facts { events: Err(forbidden), ..facts() };
    let shown = tree::render(&facts, false, None, now());
    assert!(shown.contains("Events unavailable: "), "{shown}");
}

/// A job with an enabled autoscaler.
fn scaled(options: &[(&str, &str)]) -> Deployment {
    let mut deployment = deployment();
    let mut configuration = json!({"job.autoscaler.enabled": "true"});
    for (key, value) in options {
        configuration[*key] = json!(value);
    }
    deployment.0["spec"]["flinkConfiguration"] = configuration;
    deployment
}

/// An event as the operator writes it.
fn report() -> Event {
    let message = "Scaling execution disabled by config job.autoscaler.scaling.enabled:false, recommended parallelism change:\
        { Vertex ID v | Parallelism 2 -> 4 | Processing capacity 10.00 -> 20.00 | Target data rate 15.00}\
        { Vertex ID w | Parallelism 3 -> 1 | Processing capacity 9.00 -> 3.00 | Target data rate 1.00}";
    event("Normal", "ScalingReport", message, 30)
}

#[test]
fn advice_is_shown_where_the_autoscaler_is_not_let() {
    let advising = scaled(&[("job.autoscaler.scaling.enabled", "false")]);
    check(
        &Facts {
            deployment: advising.clone(),
            pods: Ok(Vec::new()),
            events: Ok(vec![report()]),
            ..facts()
        },
        expect![[r#"
            wordcount STABLE (namespace team, v1_20, upgrade mode savepoint, 10m old)
            ├─ JobManager READY
            ├─ TaskManagers 1 registered, 0 of 2 slots free
            ├─ Job RUNNING WordCount (5a3e, for 9m)
            │  └─ Source RUNNING 2/2 tasks, 0 in, 70 out
            ├─ Last checkpoint #4, 10s ago, 2.0 KiB, 15 ms, s3://b/chk-4 (3 completed, 1 failed)
            │  └─ restored from savepoint s3://b/savepoint-1
            └─ Autoscaler advised 30s ago (job.autoscaler.scaling.enabled is false)
               ├─ Source 2 -> 4
               └─ w 3 -> 1
        "#]],
    );
    let shown = |facts: &Facts| {
        anstream::adapter::strip_str(&tree::render(facts, false, None, now())).to_string()
    };
    let quiet = Facts { deployment: advising, ..facts() };
    assert!(
        shown(&quiet).contains("Autoscaler only advises, and has given no advice yet"),
        "{}",
        shown(&quiet)
    );
    let until = "2026-01-01T00:30:00Z".parse().unwrap();
    let new = Facts { deployment: scaled(&[]), advised_until: Some(until), ..facts() };
    assert!(shown(&new).contains("(the job is new to it for 20m more)"), "{}", shown(&new));
    let scaling = Facts { deployment: scaled(&[]), events: Ok(vec![report()]), ..facts() };
    assert!(!shown(&scaling).contains("Autoscaler"), "{}", shown(&scaling));
}

#[test]
fn jobs_of_a_session_cluster_are_listed_with_their_tasks_and_those_of_nobody_too() {
    let running = json!({"observedGeneration": 1, "lifecycleState": "STABLE", "jobStatus": {"state": "RUNNING", "jobId": "5a3e"}});
    let stopped = json!({"observedGeneration": 1, "lifecycleState": "SUSPENDED",
        "jobStatus": {"state": "FINISHED", "upgradeSavepointPath": "s3://b/sp-1"}});
    let job = |id: &str, name: &str, state: &str| {
        json!({"jid": id, "name": name, "state": state, "start-time": 1_767_225_660_000_i64,
            "tasks": {"total": 4, "running": 3, "finished": 1}})
    };
    let overview =
        from(json!({"jobs": [job("5a3e", "Orders", "RUNNING"), job("77", "adhoc", "RUNNING"),
        job("78", "old", "FINISHED")]}));
    let flink = FlinkFacts { job: None, overview: Some(overview), ..flink() };
    check(
        &Facts {
            deployment: session_cluster(),
            pods: Ok(Vec::new()),
            flink: Some(flink),
            session_jobs: vec![session_job("orders", running), session_job("bills", stopped)],
            ..facts()
        },
        expect![[r#"
            cluster STABLE (namespace team, v1_20, session cluster, 10m old)
            ├─ JobManager READY
            ├─ TaskManagers 1 registered, 0 of 2 slots free
            └─ Session jobs
               ├─ orders STABLE · job RUNNING (5a3e), 4/4 tasks, for 9m
               ├─ bills SUSPENDED · job FINISHED
               │  └─ next start from s3://b/sp-1
               └─ adhoc RUNNING (77, without a resource, 4/4 tasks, for 9m)
        "#]],
    );
}

#[test]
fn a_terminal_of_40_columns_shows_all_of_it() {
    let shown = tree::render(&facts(), false, Some(40), now());
    expect![[r#"
        wordcount STABLE (namespace team, v1_20,
        │  upgrade mode savepoint, 10m old)
        ├─ JobManager READY
        │  └─ wordcount-6d Running 1/1 ready,
        │     9m30s
        ├─ TaskManagers 1 registered, 0 of 2
        │  │  slots free
        │  └─ wordcount-taskmanager-1-1 Running
        │     1/1 ready, 9m30s
        ├─ Job RUNNING WordCount (5a3e, for 9m)
        │  └─ Source RUNNING 2/2 tasks, 0 in, 70
        │     out
        └─ Last checkpoint #4, 10s ago, 2.0 KiB,
           │  15 ms, s3://b/chk-4 (3 completed,
           │  1 failed)
           └─ restored from savepoint
              s3://b/savepoint-1
    "#]]
    .assert_eq(&anstream::adapter::strip_str(&shown).to_string());
}
