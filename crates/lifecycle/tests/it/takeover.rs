//! Takes over a fleet from the Java operator: its records are understood, and nothing is restarted.

use api::deployment::FlinkDeployment;
use api::job::JobState;
use api::status::JobStatusState;
use api::version::FlinkVersion;
use config::OperatorConfig;
use lifecycle::plan::{ClusterStep, Plan, Step};
use lifecycle::reconcile::decide;
use lifecycle::verdict::{Validators, Verdict};
use lifecycle::world::{
    Cluster, Fact, Facts, HaMetadata, Job, JobManager, OperatorFile, PreflightPod, PreflightPods,
    PreflightState, Question, TaskManagers, Turn, World,
};
use serde_json::Value;
use testing::scene::phases_of;
use testing::sources::path;

fn left_by_java(case: &str) -> FlinkDeployment {
    let path = path(&format!("tests/golden/takeover/{case}.yaml"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut resource = text
        .split("\n---\n")
        .filter_map(|document| serde_yaml::from_str::<Value>(document).ok())
        .find(|value| value["kind"] == "FlinkDeployment")
        .unwrap();
    resource["metadata"]["uid"] = "u1".into();
    serde_json::from_value(resource).unwrap()
}

/// Makes a pass in a world where the JobManager runs and lists the job in `state`.
fn pass(resource: &FlinkDeployment, state: JobStatusState) -> Plan {
    pass_by(&OperatorConfig::default(), resource, state)
}

/// As [`pass`], by an operator with these defaults.
fn pass_by(operator: &OperatorConfig, resource: &FlinkDeployment, state: JobStatusState) -> Plan {
    let status = resource.status.clone().unwrap();
    let mut facts = Facts::default();
    for _ in 0..15 {
        let world = World {
            // It must not affect what runs.
            validators: Validators { has_any: true, remembered: None },
            facts: facts.clone(),
            ..World::new(
                "2026-12-01T00:00:00Z".parse().unwrap(),
                (resource, &status),
                None,
                operator,
            )
        };
        match decide(&world) {
            Ok(plan) => {
                phases_of(&status, &plan);
                return plan;
            }
            Err(Question::JobManager) => {
                facts.job_manager = Fact::Known(Some(JobManager {
                    uid: "d1".to_owned(),
                    owner_uid: Some("u1".to_owned()),
                    generation: resource.metadata.generation,
                    replicas: 1,
                    available_replicas: 1,
                    ..JobManager::default()
                }));
            }
            Err(Question::Jobs) => {
                facts.jobs = Fact::Known(vec![Job {
                    id: status.job_status.job_id.clone().unwrap_or_default(),
                    name: status.job_status.job_name.clone().unwrap_or_default(),
                    state,
                    start_time: status
                        .job_status
                        .start_time
                        .as_deref()
                        .and_then(|text| text.parse().ok())
                        .unwrap_or_default(),
                    modified: None,
                }]);
            }
            Err(Question::TaskManagers) => {
                facts.task_managers = Fact::Known(Some(TaskManagers {
                    uid: "d2".to_owned(),
                    owner_uid: Some("u1".to_owned()),
                    is_deleting: false,
                    deleting_since: None,
                }));
            }
            Err(Question::Refusal(_)) => facts.refusal = Fact::Known(None),
            Err(Question::Turn) => facts.turn = Fact::Known(Turn::Taken),
            Err(Question::Preflight(wanted)) => {
                let passed = |_: &Value| PreflightPod {
                    digest: wanted.digest.clone(),
                    state: PreflightState::Passed,
                    ..PreflightPod::default()
                };
                let pods = wanted.pods.iter().map(passed).collect();
                facts.preflight = Fact::Known(PreflightPods { pods, refusal: None });
            }
            Err(Question::Files(paths)) => facts.files.extend(paths.into_iter().map(|path| {
                let file = match path.rsplit('/').next() {
                    Some("lost.keytab") => OperatorFile::Unusable("no such file".to_owned()),
                    Some("of-the-operator.keytab") => OperatorFile::Elsewhere,
                    _ => OperatorFile::Readable,
                };
                (path, file)
            })),
            Err(Question::SessionJobs) => facts.session_jobs = Fact::Known(vec![]),
            Err(Question::Exceptions) => facts.exceptions = Fact::Known(vec![]),
            Err(Question::Snapshots) => facts.snapshots = Fact::Known(vec![]),
            Err(Question::Cluster) => facts.cluster = Fact::Known(Cluster::default()),
            Err(Question::HaMetadata) => {
                facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
            }
            // An unchanged job does not need this read.
            Err(Question::DeployedConfig)
                if resource.metadata.generation != status.observed_generation
                    || resource.metadata.deletion_timestamp.is_some() =>
            {
                let options = [("high-availability.type", "kubernetes")];
                facts.deployed_config = Fact::Known(options.into_iter().collect());
            }
            // Before a stop, the newest checkpoint is noted.
            Err(Question::Checkpoints)
                if resource.metadata.generation != status.observed_generation =>
            {
                facts.checkpoints = Fact::Unknown("no answer".to_owned());
            }
            Err(Question::Verdict)
                if resource.metadata.generation != status.observed_generation =>
            {
                facts.verdict = Fact::Known(Verdict::Given(vec![]));
            }
            Err(other) => panic!("{other:?} has nothing to do with a running job"),
        }
    }
    panic!("no decision");
}

fn steps(plan: &Plan) -> Vec<&'static str> {
    let is_reported =
        |step: &&Step| !matches!(step, Step::Event(_) | Step::Own(ClusterStep::RemovePreflight));
    plan.steps.iter().filter(is_reported).map(Step::name).collect()
}

/// Returns the pass over a running job that its user has edited.
fn after_edit(resource: &FlinkDeployment, edit: fn(&mut FlinkDeployment)) -> Plan {
    let mut resource = resource.clone();
    edit(&mut resource);
    *resource.metadata.generation.as_mut().unwrap() += 1;
    pass(&resource, JobStatusState::Running)
}

#[test]
fn a_stable_job_is_left_as_it_is() {
    for case in
        ["native-app-basic", "native-ha-last-state", "native-session", "standalone-ha-replicas"]
    {
        let resource = left_by_java(case);
        let plan = pass(&resource, JobStatusState::Running);
        assert!(steps(&plan).is_empty(), "{case}: {}: {:?}", plan.because, steps(&plan));
        let before = resource.status.clone().unwrap();
        let after = &plan.status;
        assert_eq!(before.lifecycle_state, after.lifecycle_state, "{case}");
        assert_eq!(before.reconciliation_status, after.reconciliation_status, "{case}");
        assert_eq!(before.job_status, after.job_status, "{case}");
        assert_eq!(before.error, after.error, "{case}");
    }
}

#[test]
fn an_upgrade_goes_on_from_what_java_recorded() {
    let mut resource = left_by_java("native-ha-last-state");
    resource.spec.job.as_mut().unwrap().parallelism = Some(7);
    *resource.metadata.generation.as_mut().unwrap() += 1;
    let plan = pass(&resource, JobStatusState::Running);
    assert_eq!(steps(&plan), ["record-revision", "write-status", "stop-job-manager"]);
    let before = resource.status.unwrap().job_status.job_id;
    assert_eq!(before, plan.status.job_status.job_id, "HA metadata is found by the job id");
}

#[test]
fn a_version_that_is_too_old_is_maintained_and_not_started() {
    let mut resource = left_by_java("native-ha-last-state");
    resource.spec.flink_version = Some(FlinkVersion::V1_14);
    let reconciliation = &mut resource.status.as_mut().unwrap().reconciliation_status;
    for text in [&mut reconciliation.last_reconciled_spec, &mut reconciliation.last_stable_spec] {
        *text = text.take().map(|text| text.replace("v1_20", "v1_14"));
    }
    let plan = pass(&resource, JobStatusState::Running);
    assert!(steps(&plan).is_empty(), "observed: {}", plan.because);
    assert_eq!(plan.status.error, None);

    let changed = |edit| after_edit(&resource, edit);
    let refused = changed(|resource| resource.spec.image = Some("flink:another".to_owned()));
    assert!(steps(&refused).is_empty(), "the job is left alone: {:?}", steps(&refused));
    let said = refused.steps.iter().any(
        |step| matches!(step, Step::Event(event) if event.reason == "UnsupportedFlinkVersion"),
    );
    assert!(said && refused.because.contains("Flink version v1_14"), "{}", refused.because);

    let suspended = changed(|resource| {
        resource.spec.job.as_mut().unwrap().state = JobState::Suspended;
    });
    assert_eq!(steps(&suspended), ["record-revision", "write-status", "stop-job-manager"]);

    let upgraded = changed(|resource| resource.spec.flink_version = Some(FlinkVersion::V1_20));
    assert!(steps(&upgraded).contains(&"stop-with-savepoint"), "{:?}", steps(&upgraded));
}

const KEYTAB: &str = "security.kerberos.login.keytab";
const PRINCIPAL: &str = "security.kerberos.login.principal";
const DIRECTORIES: &str = "kubernetes.operator.kerberos.directories";

/// Returns a job with a keytab that the Java operator started.
fn with_keytab(path: &str) -> FlinkDeployment {
    let mut resource = left_by_java("native-ha-last-state");
    let status = resource.status.as_mut().unwrap();
    let text = status.reconciliation_status.last_reconciled_spec.as_mut().unwrap();
    let mut stored: Value = serde_json::from_str(text).unwrap();
    for (key, value) in [(KEYTAB, path), (PRINCIPAL, "it@EXAMPLE")] {
        resource.spec.flink_configuration.0.insert(key.to_owned(), value.into());
        stored["spec"]["flinkConfiguration"][key] = value.into();
    }
    *text = stored.to_string();
    resource
}

#[test]
fn a_job_with_a_keytab_is_maintained_and_not_stopped_without_it() {
    let operator =
        |options: &[(&str, &str)]| OperatorConfig::new(options.iter().copied().collect());
    let allowing = operator(&[(DIRECTORIES, "/opt/keytabs;/mnt")]);
    let after = |operator: &OperatorConfig, path, edit: fn(&mut FlinkDeployment)| {
        let resource = with_keytab(path);
        let plan = pass_by(operator, &resource, JobStatusState::Running);
        assert_eq!((steps(&plan).len(), plan.status.error.as_deref()), (0, None), "left alone");
        let mut resource = resource;
        edit(&mut resource);
        *resource.metadata.generation.as_mut().unwrap() += 1;
        pass_by(operator, &resource, JobStatusState::Running)
    };
    let image: fn(&mut FlinkDeployment) = |it| it.spec.image = Some("flink:another".to_owned());
    let upgrade = ["record-revision", "write-status", "stop-job-manager"];
    let refused = |operator: &OperatorConfig, path, why: &str| {
        let plan = after(operator, path, image);
        let error = plan.status.error.clone().unwrap();
        assert!(error.contains(path) && error.contains(why), "{error}");
        assert!(!steps(&plan).contains(&"stop-job-manager"), "{:?}", steps(&plan));
    };
    assert_eq!(steps(&after(&allowing, "/opt/keytabs/it.keytab", image)), upgrade);
    refused(&allowing, "/opt/keytabs/lost.keytab", "no such file");
    // A user who edits a resource cannot make the operator read its other files.
    let token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    refused(&allowing, token, DIRECTORIES);
    refused(&allowing, "/opt/keytabs/../passwd", DIRECTORIES);
    refused(&allowing, "/opt/keytabs-of-others/it.keytab", DIRECTORIES);
    refused(&OperatorConfig::default(), "/opt/keytabs/it.keytab", "(none)");
    // It may read what the operator's own configuration names.
    let naming = operator(&[(KEYTAB, "/etc/it.keytab"), (PRINCIPAL, "it@EXAMPLE")]);
    assert_eq!(steps(&after(&naming, "/etc/it.keytab", image)), upgrade);
    // A command such as `plan` has none of the operator's files.
    let elsewhere = after(&OperatorConfig::default(), "/opt/of-the-operator.keytab", image);
    assert_eq!(steps(&elsewhere), upgrade);
    let suspended = after(&OperatorConfig::default(), "/opt/lost.keytab", |resource| {
        resource.spec.job.as_mut().unwrap().state = JobState::Suspended;
    });
    assert_eq!(steps(&suspended), upgrade, "a job can be saved whatever is missing");
}

#[test]
fn every_kind_of_cluster_is_replaced_from_what_java_recorded() {
    let replaced = |case, state| {
        let mut resource = left_by_java(case);
        resource.spec.image = Some("flink:another".to_owned());
        *resource.metadata.generation.as_mut().unwrap() += 1;
        let plan = pass(&resource, state);
        steps(&plan).join(" ")
    };
    assert_eq!(
        replaced("native-session", JobStatusState::Finished),
        "record-revision write-status stop-job-manager"
    );
    assert_eq!(replaced("native-session", JobStatusState::Running), "", "of no FlinkSessionJob");
    assert_eq!(
        replaced("standalone-ha-replicas", JobStatusState::Running),
        "record-revision write-status cancel-job delete-job-manager delete-task-managers",
        "a stateless job"
    );
}

#[test]
fn every_kind_of_cluster_is_deleted() {
    for (case, expected) in [
        ("native-session", "write-status delete-job-manager"),
        (
            "standalone-ha-replicas",
            "write-status cancel-job delete-job-manager delete-task-managers",
        ),
        ("standalone-app", "write-status delete-job-manager delete-task-managers"),
    ] {
        let mut resource = left_by_java(case);
        let now = "2026-12-01T00:00:00Z".parse().unwrap();
        resource.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        let plan = pass(&resource, JobStatusState::Finished);
        assert_eq!(steps(&plan).join(" "), expected, "{case}");
    }
}
