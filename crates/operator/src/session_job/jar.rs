//! The jar of a session job: fetched, uploaded, run and deleted.

use bytes::Bytes;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::observe::show;
use api::deployment::FlinkDeployment;
use api::reconciled::running_spec;
use api::session_job::FlinkSessionJob;
use clients::artifact::{self, Jars, Request};
use clients::flink::jars::{RunAnswer, RunRequest};
use clients::flink::{self, Client, Effect, KnownFile, patience};
use config::cluster::ResourceId;
use config::session_job::{JobSpecs, job_config};
use config::{FlinkConfig, OperatorConfig};
use lifecycle::session_job::plan::Submission;
use lifecycle::session_job::world::Arrival;

/// A zip archive without entries: the jar of a job whose class is in the cluster's class path.
const EMPTY_JAR: [u8; 22] =
    [0x50, 0x4b, 0x05, 0x06, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Its name in the cluster, and that of a jar whose own name is not usable.
const DEFAULT_NAME: &str = "job.jar";
/// Maximum length of a jar's name in the cluster, in characters.
const NAME_LENGTH_MAX: usize = 100;

/// The resource, the cluster that it runs in, and the operator's configuration.
pub(super) type Job<'a> = (&'a FlinkSessionJob, Option<&'a FlinkDeployment>, &'a OperatorConfig);

/// Checks that the jar of the desired spec can be fetched.
pub(super) async fn inspect(job: Job<'_>, jars: &Jars) -> Result<(), String> {
    let (resource, _, _) = job;
    let uri = resource.spec.job.as_ref().and_then(|job| job.jar_uri.as_deref());
    match uri {
        Some(uri) => fetch(uri, job, jars).await.map(drop),
        None => Ok(()),
    }
}

async fn fetch(
    uri: &str,
    (resource, cluster, operator): Job<'_>,
    jars: &Jars,
) -> Result<artifact::Fetched, String> {
    let namespace = resource.namespace().unwrap_or_default();
    let cluster = cluster.ok_or("the session cluster does not exist")?;
    let job = config(resource, cluster, operator)?;
    let operator = operator.defaults(&namespace, cluster.spec.flink_version);
    let request =
        Request::from_config(&namespace, uri, &operator, &job).map_err(|error| show(&error))?;
    patience::wait(Box::pin(jars.fetch(&request))).await.map_err(|error| show(&error))
}

/// Returns the effective configuration of the desired spec.
fn config(
    resource: &FlinkSessionJob,
    cluster: &FlinkDeployment,
    operator: &OperatorConfig,
) -> Result<FlinkConfig, String> {
    let id = ResourceId {
        namespace: resource.namespace().unwrap_or_default(),
        name: cluster.name_any(),
        uid: cluster.uid().unwrap_or_default(),
    };
    job_config(&JobSpecs {
        operator,
        cluster: &id,
        deployed_cluster: &running_spec(cluster).map_err(|error| error.to_string())?,
        current_cluster: &cluster.spec,
        name: &resource.name_any(),
        deployed: &resource.spec,
        current: &resource.spec,
    })
    .map_err(|error| error.to_string())
}

/// A submission that did not succeed.
pub(crate) struct NotSubmitted {
    pub(crate) job_id: String,
    /// Describes the error.
    pub(crate) message: String,
    /// The status with which Flink answered, if it did.
    pub(crate) http_response_code: Option<u16>,
    /// Set if a job may still come of this attempt, or of an earlier one.
    pub(crate) may_arrive: Option<Arrival>,
}

/// A failed attempt, which Flink may carry out all the same.
struct Failure {
    message: String,
    http_response_code: Option<u16>,
    may_arrive: bool,
}

impl Failure {
    /// Returns the failure of an attempt that had no effect.
    fn refused(message: String) -> Self {
        Self { message, http_response_code: None, may_arrive: false }
    }

    /// Adds the status with which Flink answered.
    fn answered(self, error: &flink::Error) -> Self {
        Self { http_response_code: error.http_response_code(), ..self }
    }
}

/// Runs the job under its id. The uploaded jar is deleted in any case; the job has its own copy.
///
/// # Errors
/// Describes the error. The job's id shows whether it runs all the same.
pub(super) async fn submit(
    submission: Submission,
    flink: &Client,
    job: Job<'_>,
    jars: &Jars,
) -> Result<(), NotSubmitted> {
    let (job_id, before) = (submission.job_id.clone(), submission.may_arrive);
    let began = Timestamp::now();
    let ended = upload_and_run(submission, flink, job, jars).await;
    ended.map_err(|Failure { message, http_response_code, may_arrive }| NotSubmitted {
        job_id,
        message,
        http_response_code,
        // An earlier attempt may still arrive, even if a later one is rejected.
        may_arrive: if may_arrive {
            Some(Arrival::again(before, began, Timestamp::now()))
        } else {
            before
        },
    })
}

async fn upload_and_run(
    submission: Submission,
    flink: &Client,
    job: Job<'_>,
    jars: &Jars,
) -> Result<(), Failure> {
    let jar_id = upload(&submission, flink, job, jars).await?;
    let answer = run(submission, flink, &jar_id).await;
    if let Err(error) = flink.delete_jar(&jar_id).await {
        tracing::warn!(jar_id, error = show(&error), "uploaded jar not deleted");
    }
    answer
}

async fn upload(
    submission: &Submission,
    flink: &Client,
    job: Job<'_>,
    jars: &Jars,
) -> Result<String, Failure> {
    let jar_id = match &submission.jar_uri {
        Some(uri) => {
            let fetched = fetch(uri, job, jars)
                .await
                .map_err(|error| Failure::refused(format!("the jar cannot be fetched: {error}")))?;
            let (path, size_bytes) = (fetched.path().to_owned(), fetched.size_bytes);
            let sha256 = fetched.sha256.clone();
            let file = KnownFile { path, size_bytes, sha256 };
            flink.upload_jar_file(&plain_name(&fetched.file_name), file).await
        }
        None => flink.upload_jar(DEFAULT_NAME, Bytes::from_static(&EMPTY_JAR)).await,
    };
    jar_id.map_err(|error| {
        let message = format!("the jar cannot be uploaded: {}", show(&error));
        Failure::refused(message).answered(&error)
    })
}

async fn run(submission: Submission, flink: &Client, jar_id: &str) -> Result<(), Failure> {
    let request = RunRequest {
        job_id: submission.job_id,
        entry_class: submission.entry_class,
        args: submission.args,
        parallelism: submission.parallelism,
        allow_non_restored_state: submission.allow_non_restored_state,
        savepoint_path: submission.savepoint_path,
        configuration: submission.configuration,
    };
    match flink.run_jar(jar_id, submission.flink_version, &request).await {
        // An id is used for one submission only, so this one is what runs.
        Ok(RunAnswer::Submitted { .. } | RunAnswer::AlreadySubmitted) => Ok(()),
        Ok(RunAnswer::JarMissing) => Err(Failure::refused(
            "the cluster lost the uploaded jar before it was run: it is uploaded again".to_owned(),
        )),
        Err(error) => Err(failure(&error)),
    }
}

const NOT_KNOWN: &str = "could not determine whether the job was submitted";

fn failure(error: &flink::Error) -> Failure {
    let failure = match error {
        // Without the request, which names another jar each time, so that the same rejection reads the same. If the
        // dispatcher did not answer `main()` in time, that is not a rejection.
        flink::Error::Refused { errors, .. } if !errors.is_empty() => {
            let lines = errors.iter().filter_map(|error| error.lines().next());
            let lines = lines.collect::<Vec<_>>().join(" -> ");
            let may_arrive = error.says(|line| line.contains("TimeoutException"));
            let what = if may_arrive { NOT_KNOWN } else { "the cluster refused the job" };
            Failure { may_arrive, ..Failure::refused(format!("{what}: {lines}")) }
        }
        _ if error.effect() == Effect::Unknown => {
            let message = format!("{NOT_KNOWN}: {}", show(error));
            Failure { may_arrive: true, ..Failure::refused(message) }
        }
        _ => Failure::refused(format!("the cluster refused the job: {}", show(error))),
    };
    failure.answered(error)
}

/// Turns the name of a jar into one that Flink accepts.
fn plain_name(name: &str) -> String {
    let stem = name.strip_suffix(".jar").unwrap_or(name);
    let plain: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .take(NAME_LENGTH_MAX)
        .collect();
    if plain.is_empty() { DEFAULT_NAME.to_owned() } else { format!("{plain}.jar") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, error: &str) -> flink::Error {
        let request = "POST /jars/1/run".to_owned();
        flink::Error::Refused { request, status, errors: vec![error.to_owned()] }
    }

    #[test]
    fn a_refusal_shows_that_nothing_comes_of_a_submission_and_silence_does_not() {
        let request = || "POST /jars/1/run".to_owned();
        let after = std::time::Duration::from_secs(1);
        let timeout = |sent_maybe| flink::Error::Timeout { request: request(), after, sent_maybe };
        let dispatcher = "java.util.concurrent.TimeoutException: Invocation of submitJob timed out";
        let gateway = |body| flink::Error::NotFlink { request: request(), status: 504, body };
        for (error, may_arrive) in [
            (refused(400, "org.example.NoSuchClass"), false),
            (refused(500, "org.example.NoSuchClass"), false),
            (refused(400, dispatcher), true),
            (timeout(false), false),
            (timeout(true), true),
            (gateway(String::new()), true),
        ] {
            let failure = failure(&error);
            assert_eq!(failure.may_arrive, may_arrive, "{error}");
            let is_of_flink = matches!(error, flink::Error::Refused { .. });
            assert_eq!(failure.http_response_code.is_some(), is_of_flink, "{error}");
            assert_eq!(failure.message.starts_with(NOT_KNOWN), may_arrive, "{}", failure.message);
        }
    }

    #[test]
    fn a_jar_gets_a_name_that_flink_takes() {
        assert_eq!(plain_name("orders-1.2.jar"), "orders-1.2.jar");
        assert_eq!(plain_name("mein job?.jar"), "mein_job_.jar");
        assert_eq!(plain_name("download"), "download.jar");
        assert_eq!(plain_name(".jar"), "job.jar");
    }
}
