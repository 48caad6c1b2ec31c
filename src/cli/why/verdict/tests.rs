//! Each cause with facts as clusters provide them: pod statuses of the kubelet, messages of the API server and stack
//! traces of Flink.

use expect_test::expect;
use serde_json::json;

use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

/// A running job.
fn facts() -> Facts {
    let resource = Deployment(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"serviceAccount": "flink", "job": {"state": "running", "upgradeMode": "savepoint"}},
        "status": {
            "observedGeneration": 1, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY",
            "jobStatus": {"state": "RUNNING", "jobId": "j"},
            "reconciliationStatus": {"reconciliationTimestamp": 1_767_225_600_000_i64},
        },
    }));
    Facts {
        now: NOW.parse().unwrap(),
        resource,
        parent: None,
        cluster: None,
        is_cluster_unread: false,
        pods: vec![],
        events: vec![],
        logs: vec![],
        rest: Rest::Answers,
        exceptions: vec![],
        failure: None,
        checkpoints: None,
        operator: operators::State::Alive,
    }
}

/// A running colour of a blue/green deployment whose progress condition is this.
fn switching(status: &str, reason: &str, message: &str) -> Facts {
    let parent = Deployment(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
        "metadata": {"name": "orders", "namespace": "shop", "generation": 2},
        "status": {"blueGreenState": "ACTIVE_BLUE", "conditions": [
            {"type": "Serving", "status": "True", "observedGeneration": 2},
            {"type": "Progressing", "status": status, "reason": reason, "message": message}]},
    }));
    Facts { parent: Some(parent), ..facts() }
}

#[test]
fn what_a_blue_green_deployment_gave_up_is_its_cause() {
    let verdict = verdict(&switching(
        "False",
        "Aborted",
        "the transition to `orders-green` was aborted: its job failed",
    ));
    assert_eq!(verdict.cause, Cause::SwitchGivenUp);
    assert_eq!(verdict.next, "kubectl flink promote bluegreen/orders --retry");
    assert!(verdict.evidence.contains("its job failed"), "{}", verdict.evidence);
    let refused =
        super::verdict(&switching("False", "ValidationError", "spec.template.spec: must be set"));
    assert_eq!(refused.cause, Cause::InvalidSpec);
}

#[test]
fn a_switch_that_is_under_way_has_the_cause_of_the_colour_that_starts() {
    let mut facts = switching("True", "Proving", "`orders-green` must stay ready");
    assert_eq!(verdict(&facts).cause, Cause::Starting);
    facts.resource.0["status"]["jobStatus"]["state"] = json!("FAILED");
    facts.failure = Some("java.lang.OutOfMemoryError: Java heap space".to_owned());
    assert_eq!(verdict(&facts).cause, Cause::OutOfHeap);
}

fn failing() -> Facts {
    let mut facts = facts();
    facts.resource.0["status"]["jobStatus"]["state"] = json!("FAILED");
    facts
}

/// A deployment whose status contains `error`.
fn with_error(error: &str) -> Facts {
    let mut facts = facts();
    facts.resource.0["status"]["error"] =
        json!(json!({"type": "x.Y", "message": error}).to_string());
    facts
}

fn pod(role: &str, status: Value) -> Pod {
    let name = if role == "jobmanager" { "orders-7d9f-x2x" } else { "orders-taskmanager-1-1" };
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "orders", "component": role}},
        "status": status,
    }))
    .unwrap()
}

fn with_container(role: &str, container: Value) -> Facts {
    let mut all = json!({"name": "flink-main-container", "image": "flink:1", "imageID": "", "ready": false, "restartCount": 3});
    all.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    let mut facts = facts();
    facts.pods = vec![pod(role, json!({"phase": "Pending", "containerStatuses": [all]}))];
    facts
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}})
}

fn crashing() -> Value {
    json!({
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:59:30Z"}},
    })
}

/// A JobManager that keeps crashing, with this log.
fn with_log(text: &str) -> Facts {
    let mut facts = with_container("jobmanager", crashing());
    facts.logs = vec![LastWords {
        pod: "orders-7d9f-x2x".to_owned(),
        container: "flink-main-container".to_owned(),
        text: text.to_owned(),
    }];
    facts
}

fn with_exception(trace: &str) -> Facts {
    let mut facts = facts();
    facts.resource.0["status"]["jobStatus"]["state"] = json!("RESTARTING");
    facts.exceptions = vec![JobException {
        stacktrace: trace.to_owned(),
        timestamp: Some(1_767_229_190_000),
        ..JobException::default()
    }];
    facts
}

fn with_event(reason: &str, message: &str) -> Facts {
    let mut facts = facts();
    facts.resource.0["status"]["jobManagerDeploymentStatus"] = json!("DEPLOYING");
    facts.events = vec![serde_json::from_value(json!({
        "metadata": {"creationTimestamp": "2026-01-01T00:59:00Z"},
        "involvedObject": {"kind": "ReplicaSet", "name": "orders-7d9f"},
        "type": "Warning", "reason": reason, "message": message, "lastTimestamp": "2026-01-01T00:59:00Z",
    }))
    .unwrap()];
    facts
}

#[track_caller]
fn check(facts: &Facts, cause: Cause) {
    let verdict = verdict(facts);
    assert_eq!(verdict.cause, cause, "{verdict:#?}");
    for text in [&verdict.what, &verdict.evidence, &verdict.remedy, &verdict.next] {
        assert!(!text.contains(['{', '}']), "{text}");
    }
}

#[test]
fn what_is_well_is_left_alone() {
    check(&facts(), Cause::Healthy);
}

#[test]
fn an_image_that_cannot_be_pulled() {
    for (reason, message) in [
        (
            "ErrImagePull",
            "failed to pull and unpack image \"docker.io/library/flink:9\": failed to resolve reference \"docker.io/library/flink:9\": docker.io/library/flink:9: not found",
        ),
        (
            "ImagePullBackOff",
            "Back-off pulling image \"registry.example/orders:2\": ErrImagePull: pull access denied, repository does not exist or may require authorization",
        ),
        (
            "InvalidImageName",
            "Failed to apply default image tag \"Flink:1\": couldn't parse image name \"Flink:1\": invalid reference format: repository name must be lowercase",
        ),
        (
            "ErrImageNeverPull",
            "Container image \"orders:2\" is not present with pull policy of Never",
        ),
    ] {
        check(&with_container("jobmanager", waiting(reason, message)), Cause::ImagePull);
    }
}

#[test]
fn a_verdict_is_three_sentences_and_a_command() {
    let facts = with_container("jobmanager", waiting("ErrImagePull", "flink:9: not found"));
    expect![[r#"
        The image of `orders` cannot be pulled.
        Evidence (pod `orders-7d9f-x2x`): flink:9: not found.
        Correct spec.image, or name a pull secret in the pod template.
        kubectl describe pod -n shop orders-7d9f-x2x"#]]
    .assert_eq(&{
        let Verdict { cause: _, what, evidence, remedy, next } = verdict(&facts);
        [what, evidence, remedy, next].join("\n")
    });
}

#[test]
fn a_container_that_lacks_a_secret() {
    let message = "secret \"s3-credentials\" not found";
    check(
        &with_container("jobmanager", waiting("CreateContainerConfigError", message)),
        Cause::ContainerConfig,
    );
}

#[test]
fn a_crash_loop_is_explained_by_its_log() {
    let facts = with_log(
        "2026-01-01 00:59:29,101 ERROR org.apache.flink.runtime.entrypoint.ClusterEntrypoint [] - Could not start cluster entrypoint KubernetesApplicationClusterEntrypoint.\n\
         org.apache.flink.runtime.entrypoint.ClusterEntrypointException: Failed to initialize the cluster entrypoint KubernetesApplicationClusterEntrypoint.\n\
         \tat org.apache.flink.runtime.entrypoint.ClusterEntrypoint.startCluster(ClusterEntrypoint.java:255)\n\
         Caused by: java.net.BindException: Could not start actor system on any port in port range 6123\n",
    );
    check(&facts, Cause::CrashLoop);
    assert!(verdict(&facts).evidence.contains("Could not start actor system on any port"));
    check(&with_container("jobmanager", crashing()), Cause::CrashLoop);
}

#[test]
fn memory_that_is_used_up() {
    let killed = json!({
        "state": {"running": {"startedAt": "2026-01-01T00:59:40Z"}}, "ready": true,
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:59:30Z"}},
    });
    let facts = with_container("taskmanager", killed);
    check(&facts, Cause::OutOfContainerMemory);
    assert!(verdict(&facts).next.contains("taskManager.resources"), "{}", verdict(&facts).next);
    check(
        &with_exception(
            "java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)",
        ),
        Cause::OutOfHeap,
    );
    check(
        &with_exception(
            "java.lang.OutOfMemoryError: Metaspace. The metaspace out-of-memory error has occurred. This can mean two things: either the job requires a larger size of JVM metaspace to load classes or there is a class loading leak.",
        ),
        Cause::OutOfMetaspace,
    );
    check(
        &with_log(
            "Exception in thread \"main\" java.lang.OutOfMemoryError: Direct buffer memory. The direct out-of-memory error has occurred.",
        ),
        Cause::OutOfDirectMemory,
    );
}

#[test]
fn a_kill_long_ago_explains_nothing_now() {
    let killed = json!({
        "state": {"running": {"startedAt": "2026-01-01T00:10:00Z"}}, "ready": true,
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:09:00Z"}},
    });
    check(&with_container("taskmanager", killed), Cause::Healthy);
}

#[test]
fn a_pod_that_no_node_has_room_for() {
    let mut facts = facts();
    facts.pods = vec![pod(
        "taskmanager",
        json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient memory. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.",
        }]}),
    )];
    check(&facts, Cause::Unschedulable);
}

/// A TaskManager with two claims, which the scheduler places nowhere.
fn not_placed(message: &str) -> Facts {
    let mut facts = facts();
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
    let mut pod = pod("taskmanager", json!({"phase": "Pending", "conditions": [condition]}));
    let spec = json!({"containers": [], "volumes": [
        {"name": "state", "persistentVolumeClaim": {"claimName": "orders-state"}},
        {"name": "scratch", "ephemeral": {}}, {"name": "tmp", "emptyDir": {}},
    ]});
    pod.spec = serde_json::from_value(spec).unwrap();
    facts.pods = vec![pod];
    facts
}

#[test]
fn a_claim_that_does_not_exist_is_no_lack_of_room() {
    let preemption =
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    let missing = not_placed(&format!(
        "0/1 nodes are available: persistentvolumeclaim \"orders-data\" not found. {preemption}"
    ));
    check(&missing, Cause::VolumeClaimMissing);
    let told = verdict(&missing);
    assert!(told.what.contains("`orders-data`, which does not exist"), "{told:#?}");
    assert!(told.remedy.contains("Create the claim"), "{told:#?}");

    let unbound = not_placed(&format!(
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. {preemption}"
    ));
    check(&unbound, Cause::VolumeClaimUnbound);
    let next = "kubectl describe persistentvolumeclaim -n shop orders-state orders-taskmanager-1-1-scratch";
    assert_eq!(verdict(&unbound).next, next);
    let lost = not_placed(
        "0/1 nodes are available: persistentvolumeclaim \"orders-state\" bound to non-existent persistentvolume \"pv-1\".",
    );
    check(&lost, Cause::VolumeClaimUnbound);
}

#[test]
fn pods_that_are_not_created() {
    for (message, cause) in [
        (
            "Error creating: pods \"orders-7d9f-\" is forbidden: error looking up service account shop/flink: serviceaccount \"flink\" not found",
            Cause::ServiceAccountMissing,
        ),
        (
            "Error creating: admission webhook \"validate.kyverno.svc-fail\" denied the request: resource Pod/shop/orders was blocked due to the following policies require-labels",
            Cause::WebhookRefusal,
        ),
        (
            "Error creating: Internal error occurred: failed calling webhook \"pods.example.com\": failed to call webhook: Post \"https://hook.policy.svc:443/\": no endpoints available",
            Cause::WebhookRefusal,
        ),
        (
            "Error creating: pods \"orders-7d9f-abc\" is forbidden: exceeded quota: team, requested: limits.memory=2Gi, used: limits.memory=7Gi, limited: limits.memory=8Gi",
            Cause::QuotaExceeded,
        ),
        (
            "Error creating: pods \"orders-7d9f-abc\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
            Cause::PodSecurity,
        ),
        (
            "Error creating: pods \"orders-7d9f-abc\" is forbidden: User \"system:serviceaccount:kube-system:replicaset-controller\" cannot create resource",
            Cause::Forbidden,
        ),
    ] {
        check(&with_event("FailedCreate", message), cause);
    }
}

/// The pauses between the retries of a controller grow to a quarter of an hour.
#[test]
fn a_refusal_counts_until_the_controller_has_tried_again() {
    let refused = |seconds: i64| {
        let message = "Error creating: pods \"orders-7d9f-abc\" is forbidden: exceeded quota: team";
        let mut facts = with_event("FailedCreate", message);
        let since = facts.now - jiff::SignedDuration::from_secs(seconds);
        facts.events[0].last_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since));
        verdict(&facts).cause
    };
    assert_eq!(refused(1_000), Cause::QuotaExceeded);
    assert_ne!(refused(3_000), Cause::QuotaExceeded);
}

#[test]
fn a_service_account_without_rights() {
    let facts = with_log(
        "io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: GET at: https://10.96.0.1:443/api/v1/namespaces/shop/configmaps/orders-cluster-config-map. Message: configmaps \"orders-cluster-config-map\" is forbidden: User \"system:serviceaccount:shop:flink\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"shop\".",
    );
    check(&facts, Cause::Forbidden);
    assert_eq!(verdict(&facts).next, "kubectl flink init -n shop --service-account flink");
}

#[test]
fn jars_and_classes_that_are_not_there() {
    for (log, cause) in [
        (
            "Caused by: java.io.IOException: JAR file does not exist '/opt/flink/usrlib/job.jar'",
            Cause::JarUnusable,
        ),
        (
            "org.apache.flink.client.program.ProgramInvocationException: Neither a 'Main-Class', nor a 'program-class' entry was found in the jar file.",
            Cause::JarUnusable,
        ),
        (
            "org.apache.flink.client.program.ProgramInvocationException: The program's entry point class 'com.shop.Orders' was not found in the jar file.\nCaused by: java.lang.ClassNotFoundException: com.shop.Orders",
            Cause::JarUnusable,
        ),
        (
            "java.lang.NoClassDefFoundError: org/apache/flink/connector/kafka/source/KafkaSource\nCaused by: java.lang.ClassNotFoundException: org.apache.flink.connector.kafka.source.KafkaSource",
            Cause::ClassNotFound,
        ),
        (
            "Caused by: org.apache.flink.core.fs.UnsupportedFileSystemSchemeException: Could not find a file system implementation for scheme 's3'. The scheme is directly supported by Flink through the following plugin(s): flink-s3-fs-hadoop, flink-s3-fs-presto.",
            Cause::FileSystemMissing,
        ),
    ] {
        check(&with_log(log), cause);
    }
}

#[test]
fn state_that_the_job_cannot_take_over() {
    for trace in [
        "java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint s3://b/sp/savepoint-1. Cannot map checkpoint/savepoint state for operator 20ba6b65f97481d5570070de90e4e791 to the new program, because the operator is not available in the new program. If you want to allow to skip this, you can set the --allowNonRestoredState option on the CLI.",
        "java.lang.Exception: Exception while creating StreamOperatorStateContext.\nCaused by: org.apache.flink.util.StateMigrationException: For heap backends, the new state serializer must not be incompatible with the old state serializer",
        "Caused by: java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint s3://b/sp. Max parallelism mismatch between checkpoint/savepoint state and new program.",
    ] {
        check(&with_exception(trace), Cause::SavepointIncompatible);
    }
    check(
        &with_log(
            "Caused by: java.io.FileNotFoundException: Cannot find meta data file '_metadata' in directory 's3://b/sp/savepoint-1'. Please try to load the checkpoint/savepoint directly from the metadata file instead of the directory.",
        ),
        Cause::SavepointMissing,
    );
}

#[test]
fn a_job_without_slots() {
    check(
        &with_exception(
            "org.apache.flink.runtime.JobException: Recovery is suppressed by NoRestartBackoffTimeStrategy\nCaused by: org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: Could not acquire the minimum required resources.",
        ),
        Cause::NoSlots,
    );
}

#[test]
fn checkpoints_that_fail() {
    let mut facts = facts();
    let statistics = |completed: Value| {
        let body = json!({"counts": {"completed": 3, "failed": 2}, "latest": {"completed": completed,
            "failed": {"id": 5, "status": "FAILED", "failure_message": "Checkpoint expired before completing."}}});
        Checkpoints::Statistics(Box::new(serde_json::from_value(body).unwrap()))
    };
    facts.checkpoints = Some(statistics(json!({"id": 4, "status": "COMPLETED"})));
    check(&facts, Cause::CheckpointsFailing);
    facts.checkpoints = Some(statistics(json!({"id": 6, "status": "COMPLETED"})));
    check(&facts, Cause::Healthy);
    check(
        &with_exception(
            "org.apache.flink.util.FlinkRuntimeException: Exceeded checkpoint tolerable failure threshold. The latest checkpoint failed due to Checkpoint expired before completing.",
        ),
        Cause::CheckpointsFailing,
    );
}

#[test]
fn a_lost_task_manager() {
    check(
        &with_exception(
            "java.util.concurrent.TimeoutException: The heartbeat of TaskManager with id orders-taskmanager-1-1 timed out.",
        ),
        Cause::TaskManagerLost,
    );
}

#[test]
fn a_job_that_fails_by_itself_is_explained_by_its_innermost_cause() {
    let mut facts = failing();
    facts.failure = Some(
        "org.apache.flink.runtime.JobException: Recovery is suppressed by NoRestartBackoffTimeStrategy\n\tat x\nCaused by: java.lang.ArithmeticException: / by zero\n\tat com.shop.Orders.map(Orders.java:7)".to_owned(),
    );
    check(&facts, Cause::JobFailed);
    assert!(verdict(&facts).evidence.ends_with("java.lang.ArithmeticException: / by zero."));
    check(&failing(), Cause::JobFailed);
}

#[test]
fn an_old_exception_explains_nothing_of_a_job_that_runs() {
    let mut facts = with_exception("java.lang.OutOfMemoryError: Java heap space");
    facts.resource.0["status"]["jobStatus"]["state"] = json!("RUNNING");
    facts.exceptions[0].timestamp = Some(1_767_225_600_000);
    check(&facts, Cause::Healthy);
}

#[test]
fn a_silent_jobmanager() {
    let mut facts = facts();
    facts.rest =
        Rest::Silent("JobManager at `http://orders-rest.shop:8081` did not answer".to_owned());
    check(&facts, Cause::RestUnreachable);
    // A job that was just deployed may still start.
    facts.resource.0["status"]["reconciliationStatus"]["reconciliationTimestamp"] =
        json!(1_767_229_150_000_i64);
    check(&facts, Cause::Healthy);
}

/// Without its Service nobody reaches the JobManager.
#[test]
fn an_object_that_a_failing_webhook_keeps_out() {
    let mut facts = with_error(
        "the change waits: could not determine whether the API server accepts the objects of the new cluster: Service `orders-rest`: the API server answered 500: Internal error occurred: failed calling webhook \"broken.example.com\": failed to call webhook",
    );
    facts.rest = Rest::Silent("services \"orders-rest\" not found".to_owned());
    check(&facts, Cause::WebhookRefusal);
    assert!(verdict(&facts).evidence.contains("webhook \"broken.example.com\""));
}

#[test]
fn state_that_nothing_leads_to() {
    check(
        &with_error(
            "JobManager deployment is missing and HA metadata is not available to make stateful upgrades. It is possible that the job has finished or terminally failed, or the configmaps have been deleted. Manual restore required.",
        ),
        Cause::HaMetadataMissing,
    );
    check(
        &with_error(
            "Job is in terminal state but last checkpoint is unknown, possibly due to an unrecoverable restore error. Manual restore required.",
        ),
        Cause::RestoreRefused,
    );
    let mut lost = with_error("Job Not Found");
    lost.resource.0["status"]["jobStatus"]["upgradeSavepointPath"] = json!("s3://b/chk-7");
    check(&lost, Cause::RestoreRefused);
    let evidence = verdict(&lost).evidence;
    assert!(evidence.contains("the newest state that is known is `s3://b/chk-7`"), "{evidence}");
}

#[test]
fn somebody_suspended_it() {
    let mut facts = facts();
    facts.resource.0["spec"]["job"]["state"] = json!("suspended");
    facts.resource.0["status"]["jobStatus"]["state"] = json!("FINISHED");
    facts.resource.0["metadata"]["managedFields"] = json!([
        {"manager": "kubectl-client-side-apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:job": {"f:parallelism": {}}}}},
        {"manager": "kubectl-flink", "time": "2026-01-01T00:50:00Z", "fieldsV1": {"f:spec": {"f:job": {"f:state": {}}}}},
    ]);
    check(&facts, Cause::Suspended);
    assert!(
        verdict(&facts)
            .evidence
            .contains("`kubectl-flink` set spec.job.state to suspended at 2026-01-01T00:50:00Z")
    );
}

#[test]
fn nobody_operates_it() {
    let mut facts = facts();
    facts.resource.0["metadata"]["generation"] = json!(2);
    facts.operator =
        operators::State::Gone("Deployment `ops/operator` has 0 of 1 pods ready".to_owned());
    check(&facts, Cause::OperatorNotRunning);
    let by = |manager: &str| json!([{"manager": manager, "time": "2026-01-01T00:59:30Z"}]);
    facts.resource.0["metadata"]["managedFields"] = by(OPERATOR_MANAGER);
    check(&facts, Cause::OperatorNotRunning);
    // The edit is new, although the resource is not.
    facts.resource.0["metadata"]["managedFields"] = by("kubectl");
    check(&facts, Cause::Starting);
    facts.resource.0["metadata"]["managedFields"] = json!([]);
    facts.operator = operators::State::Alive;
    check(&facts, Cause::Starting);
    facts.operator = operators::State::Unknown("forbidden".to_owned());
    facts.resource.0["status"] = json!({});
    check(&facts, Cause::OperatorNotRunning);
}

#[test]
fn a_spec_that_is_refused() {
    let mut facts = facts();
    let error = json!({"type": "x", "message": "spec.job.parallelism: is `0`: it must be 1 or more",
        "additionalMetadata": {"reason": "ValidationError"}});
    facts.resource.0["status"]["error"] = json!(error.to_string());
    check(&facts, Cause::InvalidSpec);
}

#[test]
fn a_spec_that_was_tried_and_would_not_start() {
    let mut facts = facts();
    let message = "the new spec would not start, and nothing is stopped for it: pod `orders-preflight-jobmanager`: \
                   Error: [flink-main-container] the jar /opt/a.jar is not there. What runs goes on as it is";
    let error = json!({"type": "x", "message": message,
        "additionalMetadata": {"reason": "PreflightFailed"}});
    facts.resource.0["status"]["error"] = json!(error.to_string());
    check(&facts, Cause::PreflightFailed);
    assert!(verdict(&facts).next.ends_with("app.kubernetes.io/instance=orders"));
}

#[test]
fn a_change_that_waits_for_others() {
    let mut facts = facts();
    facts.resource.0["status"]["conditions"] = json!([{"type": "UpgradeAdmitted",
        "status": "False", "reason": "WaitsForTurn", "message": "the change waits for its turn"}]);
    check(&facts, Cause::UpgradeWaits);

    let mut facts = switching("True", "WaitsForTurn", "the change waits for its turn");
    let waits = json!({"type": "UpgradeAdmitted", "status": "False", "reason": "WaitsForTurn",
        "message": "the change waits for its turn"});
    let parent = &mut facts.parent.as_mut().unwrap().0;
    parent["status"]["conditions"].as_array_mut().unwrap().push(waits);
    check(&facts, Cause::UpgradeWaits);
}

/// Its status has no conditions.
#[test]
fn a_session_job_whose_change_waits_for_others() {
    let mut facts = with_event("WaitsForTurn", "the change waits for its turn");
    facts.is_cluster_unread = true;
    let object = &mut facts.resource.0;
    object["kind"] = json!("FlinkSessionJob");
    object["status"]["jobManagerDeploymentStatus"] = json!("READY");
    object["metadata"]["generation"] = json!(2);
    object["status"]["observedGeneration"] = json!(1);
    check(&facts, Cause::UpgradeWaits);
    facts.resource.0["status"]["observedGeneration"] = json!(2);
    check(&facts, Cause::Healthy);
    let paused = json!({"type": "x", "message": "the change waits",
        "additionalMetadata": {"reason": "UpgradesPaused"}});
    facts.resource.0["status"]["error"] = json!(paused.to_string());
    check(&facts, Cause::UpgradeWaits);
}

#[test]
fn a_session_job_without_its_cluster() {
    let mut facts = facts();
    facts.resource.0["kind"] = json!("FlinkSessionJob");
    facts.resource.0["spec"]["deploymentName"] = json!("session");
    check(&facts, Cause::SessionClusterMissing);
    facts.is_cluster_unread = true;
    check(&facts, Cause::Healthy);
    facts.is_cluster_unread = false;
    let mut cluster = facts.resource.clone();
    cluster.0 = json!({"kind": "FlinkDeployment", "metadata": {"name": "session", "namespace": "shop"},
        "spec": {}, "status": {"jobManagerDeploymentStatus": "ERROR"}});
    facts.cluster = Some(cluster);
    check(&facts, Cause::SessionClusterNotReady);
    assert_eq!(verdict(&facts).next, "kubectl flink why session");
}

#[test]
fn secrets_are_not_quoted() {
    let facts = with_log("Caused by: java.io.IOException: s3.secret-key=hunter2 is not valid");
    assert!(!verdict(&facts).evidence.contains("hunter2"));
}

#[test]
fn what_is_being_deleted_and_what_starts() {
    let mut facts = facts();
    facts.resource.0["status"]["lifecycleState"] = json!("UPGRADING");
    check(&facts, Cause::Starting);
    facts.resource.0["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:59:00Z");
    check(&facts, Cause::Deleting);
    check(&with_error("something that nobody knows"), Cause::OperatorReports);
}

#[test]
fn a_log_that_was_not_read_is_not_empty() {
    let evidence = |facts: &Facts| verdict(facts).evidence;
    let unread = with_container("jobmanager", crashing());
    check(&unread, Cause::CrashLoop);
    assert!(evidence(&unread).contains("its log could not be read"), "{}", evidence(&unread));
    assert!(evidence(&with_log("")).contains("nothing in the log"));
}

#[test]
fn what_a_job_that_ended_well_got_over_is_no_cause() {
    let mut facts = with_exception("java.lang.OutOfMemoryError: Java heap space");
    check(&facts, Cause::OutOfHeap);
    facts.resource.0["status"]["jobStatus"]["state"] = json!("FINISHED");
    check(&facts, Cause::Healthy);
}
