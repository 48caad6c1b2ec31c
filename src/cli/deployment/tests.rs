use serde_json::json;

use super::*;

#[test]
fn error_is_one_line_with_its_causes() {
    let with = |error: &str| Deployment(json!({"status": {"error": error}})).error();
    assert_eq!(with("Job Not Found").unwrap(), "Job Not Found");
    assert_eq!(with(""), None);
    let document = json!({
        "type": "org.apache.flink.Foo", "message": "Deployment failed",
        "throwableList": [{"type": "a.B", "message": "image `x` cannot be pulled"}, {"type": "java.lang.IllegalStateException"}],
    });
    assert_eq!(
        with(&document.to_string()).unwrap(),
        "Deployment failed: image `x` cannot be pulled: IllegalStateException"
    );
}

#[test]
fn generation_counts_as_taken_up_once_observed() {
    let with = |observed| {
        Deployment(
            json!({"metadata": {"generation": 3}, "status": {"observedGeneration": observed}}),
        )
    };
    assert!(with(json!(3)).is_taken_up());
    assert!(!with(json!(2)).is_taken_up());
    assert!(!with(Value::Null).is_taken_up());
}

#[test]
fn savepoint_directory_is_found_in_any_shape() {
    let with = |configuration| {
        Deployment(json!({"spec": {"flinkConfiguration": configuration}})).savepoint_directory()
    };
    assert_eq!(with(json!({"state.savepoints.dir": "s3://b"})).as_deref(), Some("s3://b"));
    assert_eq!(
        with(json!({"execution": {"checkpointing": {"savepoint-dir": "s3://c"}}})).as_deref(),
        Some("s3://c")
    );
    assert_eq!(with(Value::Null), None);
}

#[test]
fn both_forms_of_the_reconciled_spec_are_read() {
    let with = |text: &str| {
        Deployment(json!({"status": {"reconciliationStatus": {"lastReconciledSpec": text}}}))
            .last_reconciled_spec()
    };
    assert_eq!(
        with(r#"{"spec":{"image":"a"},"resource_metadata":{}}"#),
        Some(json!({"image": "a"}))
    );
    assert_eq!(with(r#"{"image":"a"}"#), Some(json!({"image": "a"})));
    assert_eq!(with("{broken"), None);
}

#[test]
fn a_session_job_is_no_session_cluster() {
    let job = Deployment(json!({
        "kind": "FlinkSessionJob",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {"deploymentName": "cluster"},
    }));
    assert!(!job.is_session());
    assert_eq!(job.session_cluster().as_deref(), Some("cluster"));
    assert_eq!(job.shown_name(), "sessionjob/orders");
    assert_eq!(job.id().kind, "FlinkSessionJob");
    let cluster = Deployment(json!({"kind": "FlinkDeployment", "spec": {"deploymentName": "x"}}));
    assert!(cluster.is_session());
    assert_eq!(cluster.session_cluster(), None);
}

#[test]
fn a_session_job_is_in_the_cluster_that_it_was_deployed_to_whatever_its_spec_names() {
    let last = r#"{"spec":{"deploymentName":"cluster","job":{}},"resource_metadata":{}}"#;
    let job = Deployment(json!({
        "kind": "FlinkSessionJob",
        "spec": {"deploymentName": "another"},
        "status": {"reconciliationStatus": {"lastReconciledSpec": last}},
    }));
    assert_eq!(job.session_cluster().as_deref(), Some("cluster"));
}
