//! Commands run in a container, over a websocket of the API server.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Client;
use kube::api::{Api, AttachParams, AttachedProcess};

use super::Result;

/// Buffer of each stream in bytes; a slow reader slows the command down.
const STREAM_BYTES: usize = 32 * 1024;

/// The command to run, and where.
#[derive(Clone, Debug)]
pub struct Request {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Whether the command gets an input.
    pub has_input: bool,
    /// Whether it gets a terminal, which has no stderr of its own.
    pub has_terminal: bool,
}

/// How a command ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ending {
    /// With this exit code.
    Exited(u8),
    /// It was not run, or something in between failed; contains the API server's message.
    Failed(String),
    /// The connection ended without a result.
    Lost,
}

/// Starts the command.
pub async fn start(client: &Client, request: &Request) -> Result<AttachedProcess> {
    let Request { namespace, pod, container, command, has_input, has_terminal } = request;
    let params = AttachParams {
        container: Some(container.clone()),
        stdin: *has_input,
        stdout: true,
        stderr: !has_terminal,
        tty: *has_terminal,
        max_stdin_buf_size: Some(STREAM_BYTES),
        max_stdout_buf_size: Some(STREAM_BYTES),
        max_stderr_buf_size: Some(STREAM_BYTES),
    };
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    Ok(pods.exec(pod, command.clone(), &params).await?)
}

/// Parses the last message. The exit code is text in a cause of its own.
pub fn ending(status: Option<Status>) -> Ending {
    let Some(status) = status else { return Ending::Lost };
    if status.status.as_deref() == Some("Success") {
        return Ending::Exited(0);
    }
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    let code = causes.iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    match code.and_then(|cause| cause.message.as_deref()?.trim().parse().ok()) {
        // A command that failed cannot have exit code 0, whatever the message says.
        Some(code) if code != 0 => Ending::Exited(code),
        Some(_) | None => {
            let message = status.message.filter(|message| !message.trim().is_empty());
            Ending::Failed(message.unwrap_or_else(|| "the API server gives no reason".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ended(status: Value) -> Ending {
        ending(Some(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn the_exit_code_is_the_commands() {
        assert_eq!(ended(json!({"status": "Success"})), Ending::Exited(0));
        let with = |code: &str| {
            ended(json!({"status": "Failure", "reason": "NonZeroExitCode",
                "message": "command terminated with non-zero exit code",
                "details": {"causes": [{"reason": "ExitCode", "message": code}]}}))
        };
        assert_eq!(with("3"), Ending::Exited(3));
        assert_eq!(with("255"), Ending::Exited(255));
        for wrong in ["0", "256", "-1", "", "three"] {
            assert!(matches!(with(wrong), Ending::Failed(_)), "{wrong}");
        }
    }

    #[test]
    fn what_could_not_be_run_says_why() {
        let told = ended(json!({"status": "Failure", "reason": "InternalError",
            "message": "exec: \"vim\": executable file not found in $PATH"}));
        assert_eq!(
            told,
            Ending::Failed("exec: \"vim\": executable file not found in $PATH".to_owned())
        );
        assert!(matches!(ended(json!({"status": "Failure", "message": " "})), Ending::Failed(_)));
        assert_eq!(ending(None), Ending::Lost);
    }
}
