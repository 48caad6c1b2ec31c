//! Jars: upload, run, delete. Session jobs are submitted with them.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{
    body::{KnownFile, Part},
    client::{Call, Client, Payload, new_trigger_id, path},
    error::Error,
};
use api::version::FlinkVersion;

/// The slowest supported upload: its deadline grows by a second for each of these.
const UPLOAD_BYTES_PER_SECOND: u64 = 1024 * 1024;
/// Maximum of the rest of its deadline, which users set.
const UPLOAD_REQUEST_MAX: Duration = Duration::from_mins(10);

/// How to run an uploaded jar.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRequest {
    /// Chosen in advance, so that the job can be looked up if the response is lost: 32 hex digits.
    pub job_id: String,
    pub entry_class: Option<String>,
    pub args: Vec<String>,
    pub parallelism: Option<u32>,
    pub allow_non_restored_state: bool,
    pub savepoint_path: Option<String>,
    /// The job's configuration; only 1.17 and newer accept it.
    pub configuration: BTreeMap<String, String>,
}

/// The result of running a jar.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RunAnswer {
    Submitted {
        job_id: String,
    },
    /// Flink has (or had) a job with this id: check whether it is listed.
    AlreadySubmitted,
    /// The JobManager that responded does not have the jar: upload it again.
    JarMissing,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunBody<'a> {
    job_id: &'a str,
    entry_class: Option<&'a str>,
    program_args_list: Option<&'a [String]>,
    parallelism: Option<u32>,
    allow_non_restored_state: bool,
    savepoint_path: Option<&'a str>,
    restore_mode: Option<&'a str>,
    claim_mode: Option<&'a str>,
    flink_configuration: Option<&'a BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Uploaded {
    filename: String,
}

#[derive(Deserialize)]
struct Started {
    jobid: String,
}

impl RunRequest {
    /// Returns the body for this version: older ones reject fields that were added later.
    fn body(&self, version: FlinkVersion) -> RunBody<'_> {
        let (restore_mode, claim_mode) = match &self.savepoint_path {
            None => (None, None),
            Some(_) if version >= FlinkVersion::V1_20 => (None, Some("NO_CLAIM")),
            Some(_) => (Some("NO_CLAIM"), None),
        };
        RunBody {
            job_id: &self.job_id,
            entry_class: self.entry_class.as_deref(),
            program_args_list: (!self.args.is_empty()).then_some(self.args.as_slice()),
            parallelism: self.parallelism.filter(|parallelism| *parallelism > 0),
            allow_non_restored_state: self.allow_non_restored_state,
            savepoint_path: self.savepoint_path.as_deref(),
            restore_mode,
            claim_mode,
            flink_configuration: (version >= FlinkVersion::V1_17 && !self.configuration.is_empty())
                .then_some(&self.configuration),
        }
    }
}

impl Client {
    /// `POST /jars/upload`; returns the jar's id. `file_name` ends with `.jar`.
    pub async fn upload_jar(&self, file_name: &str, jar: Bytes) -> Result<String, Error> {
        let size_bytes = jar.len() as u64;
        self.upload(file_name, Part::Bytes(jar), size_bytes).await
    }

    /// As [`Self::upload_jar`], with a file that is read while it is sent. If it has changed since it was checked, the
    /// upload breaks off, and the cluster has no jar.
    pub async fn upload_jar_file(&self, file_name: &str, jar: KnownFile) -> Result<String, Error> {
        let size_bytes = jar.size_bytes;
        self.upload(file_name, Part::File(jar), size_bytes).await
    }

    async fn upload(&self, file_name: &str, jar: Part, size_bytes: u64) -> Result<String, Error> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if file_name.strip_suffix(".jar").is_none_or(str::is_empty)
            || !file_name.bytes().all(is_plain)
        {
            return Err(Error::Invalid {
                problem: format!(
                    "invalid jar name `{file_name}`: expected letters, digits, `.`, `_` and `-`, \
                     and `.jar` at the end"
                ),
            });
        }
        // Others wait for the turn of this upload.
        let within = self.deadlines().request.min(UPLOAD_REQUEST_MAX)
            + Duration::from_secs(size_bytes / UPLOAD_BYTES_PER_SECOND);
        let boundary = new_trigger_id();
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"jarfile\"; \
             filename=\"{file_name}\"\r\nContent-Type: application/java-archive\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        let parts = vec![Part::Bytes(head.into()), jar, Part::Bytes(tail.into())];
        let call = Call {
            method: Method::POST,
            path: "/jars/upload".into(),
            payload: Payload::Multipart {
                content_type: format!("multipart/form-data; boundary={boundary}"),
                parts,
            },
        };
        let uploaded: Uploaded = self.call(call, within).await?;
        Ok(uploaded.filename.rsplit('/').next().unwrap_or_default().to_owned())
    }

    /// `POST /jars/:jarid/run`: returns only after `main()` has run in the JobManager.
    ///
    /// After an error whose [`Error::effect`] is unknown, `/jobs/overview` shows whether the job was submitted.
    pub async fn run_jar(
        &self,
        jar_id: &str,
        version: FlinkVersion,
        request: &RunRequest,
    ) -> Result<RunAnswer, Error> {
        let path = path(&["jars", jar_id, "run"])?;
        let call = Call::json(Method::POST, path, &request.body(version))?;
        match self.call::<Started>(call, self.deadlines().submission).await {
            Ok(started) => Ok(RunAnswer::Submitted { job_id: started.jobid }),
            Err(error) if error.says(is_duplicate) => Ok(RunAnswer::AlreadySubmitted),
            // 400 in some versions, 500 in others.
            Err(error) if error.says(is_missing_jar) => Ok(RunAnswer::JarMissing),
            Err(error) => Err(error),
        }
    }

    /// `DELETE /jars/:jarid`; returns whether it existed.
    pub async fn delete_jar(&self, jar_id: &str) -> Result<bool, Error> {
        let call = Call::new(Method::DELETE, path(&["jars", jar_id])?);
        match self.send(call, self.deadlines().request).await {
            Ok(_) => Ok(true),
            Err(error)
                if matches!(error, Error::Refused { status: 400 | 404, .. })
                    && error.says(|line| line.contains("does not exist in")) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

fn is_duplicate(line: &str) -> bool {
    // Since Flink 2.3 each run of a jar is an application with the id of its job.
    ["DuplicateJobSubmissionException", "DuplicateApplicationSubmissionException"]
        .iter()
        .any(|exception| line.contains(exception))
        || line.contains("Job has already been submitted")
}

fn is_missing_jar(line: &str) -> bool {
    line.contains("Jar file ") && line.contains(" does not exist")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_submission_is_known_by_every_version_of_flink() {
        let caused = "Caused by: org.apache.flink.runtime.client.";
        for told in [
            "DuplicateJobSubmissionException: Job has already been submitted.",
            "DuplicateApplicationSubmissionException: Application has already been submitted.",
        ] {
            assert!(is_duplicate(&format!("{caused}{told}")), "{told}");
        }
        assert!(!is_duplicate(&format!("{caused}JobExecutionException: Job execution failed.")));
    }
}
