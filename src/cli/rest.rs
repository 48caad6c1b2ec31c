//! `rest`: sends one request to a JobManager's REST API, connected like other commands.

use clap::Args;
use http::Method;
use serde_json::Value;

use super::args::{FlinkAccess, Global, Output};
use super::failure::Failure;
use super::printer::{Printer, ValueFormat};
use super::{complete, edit, job_manager, lookup};
use clients::flink::Deadlines;

/// Arguments of `rest`.
#[derive(Args)]
#[command(after_help = "\
In PATH, {job} stands for the job's id. Prints Flink's answer, with JSON formatted.

Examples:
  kubectl flink rest orders GET /jobs/overview
  kubectl flink rest orders GET /jobs/{job}/checkpoints | jq .counts
  kubectl flink rest sessionjob/clicks GET '/jobs/{job}/metrics?get=numRestarts'")]
pub struct RestArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// HTTP method; all but GET make changes behind the operator's back
    #[arg(value_parser = method)]
    method: Method,
    /// Path with query, starting with a slash
    path: String,
    /// Body, as JSON
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    /// Make changes without asking
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

fn method(text: &str) -> Result<Method, String> {
    let method = text.to_ascii_uppercase();
    match method.as_str() {
        "GET" | "POST" | "PUT" | "PATCH" | "DELETE" => {
            method.parse().map_err(|_| "expected an HTTP method".to_owned())
        }
        _ => Err("expected GET, POST, PUT, PATCH or DELETE".to_owned()),
    }
}

/// Sends the request and prints the answer.
pub async fn run(args: RestArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let RestArgs { name, method, path, data, yes, access, output: Output { output } } = args;
    let data = data.map(|text| body(&text)).transpose()?;
    let connection = global.connect().await?;
    let present = lookup::fetch(&connection, &name).await?;
    let path = resolved(&path, present.job_id(), &present.shown_name())?;
    if changes(&method, &path) && !yes {
        let doubt = format!(
            "{method} {path} changes `{}` behind the operator's back, and may stop a job without its \
             state",
            present.shown_name()
        );
        edit::agree(&doubt, "--yes", printer)?;
    }
    let cluster = lookup::cluster_of(&connection, &present).await?;
    let deadlines = Deadlines::default();
    let client = job_manager::client(&connection, &cluster, access.flink_access, deadlines)?;
    let answer = client.without_retries().raw(method, path, data.as_ref()).await?;
    match (serde_json::from_slice::<Value>(&answer), output) {
        (Ok(value), Some(ValueFormat::Yaml)) => printer.value(&value, ValueFormat::Yaml),
        (Ok(value), _) => printer.value(&value, ValueFormat::Json),
        (Err(_), Some(_)) => {
            Err(Failure::new("Flink's response is not JSON; leave out -o to print it unchanged")
                .into())
        }
        (Err(_), _) if answer.is_empty() => Ok(()),
        (Err(_), _) => Ok(printer.line(String::from_utf8_lossy(&answer).trim_end())?),
    }
}

/// Returns true if the request may change something. Flink stops jobs on GET requests below `yarn-cancel` and
/// `yarn-stop`.
pub(super) fn changes(method: &Method, path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    method != Method::GET || path.contains('%') || path.split('/').any(|it| it.starts_with("yarn-"))
}

fn body(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::usage(format!("--data is not JSON: {error}"))
            .hint(r#"such as: --data '{"cancel-job": false}'"#)
    })
}

/// Returns true for a path, optionally with a query, that cannot lead outside Flink's API.
pub(super) fn is_path(path: &str) -> bool {
    path.starts_with('/')
        // URL parsers treat `\\` as a slash.
        && path.chars().all(|c| c.is_ascii_graphic() && c != '\\')
        && !path.split(['/', '?']).any(|part| part == "..")
}

/// Returns the path with the job's id substituted.
fn resolved(path: &str, job_id: Option<&str>, name: &str) -> Result<String, Failure> {
    if !is_path(path) {
        return Err(Failure::usage(format!("`{path}` is not a path of Flink's REST API"))
            .hint("a path starts with a slash, such as /jobs/overview; encode spaces as %20"));
    }
    if !path.contains("{job}") {
        return Ok(path.to_owned());
    }
    match job_id {
        Some(job_id) => Ok(path.replace("{job}", job_id)),
        None => Err(Failure::new(format!("`{name}` has no job to substitute for {{job}}"))
            .hint(format!("list its jobs: kubectl flink rest {name} GET /jobs/overview"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_stands_in_the_path() {
        let of = |path: &str, id| resolved(path, id, "x").map_err(|error| error.to_string());
        assert_eq!(of("/jobs/{job}/plan", Some("abc")).unwrap(), "/jobs/abc/plan");
        assert_eq!(of("/overview?a=b", None).unwrap(), "/overview?a=b");
        assert!(of("/jobs/{job}", None).unwrap_err().contains("has no job"));
        for wrong in ["jobs", "", "/a b", "/../x", "http://x/y", "/jobs/x\\yarn-cancel"] {
            assert!(of(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn methods_are_those_of_flink() {
        assert_eq!(method("get"), Ok(Method::GET));
        assert!(method("TRACE").is_err());
    }
}
