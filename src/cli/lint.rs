//! `lint` and `explain`: find errors in manifests offline, each with a stable code.
//!
//! The rules are those of the operator's own validation, plus advice; see [`validation::rule`].

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{Global, Output};
use super::failure::Failure;
use super::printer::{BOLD, DIM, GREEN, Printer, RED, ValueFormat, YELLOW, styled};
use super::{manifest, operator_config};
use api::blue_green::Recorded;
use api::deployment::FlinkDeploymentSpec;
use api::manifest::{Document, Problem, Resource};
use config::OperatorConfig;
use validation::blue_green::BlueGreenInput;
use validation::lint;
use validation::rule::{Rule, Severity, Text};
use validation::session_job::{SessionCluster, SessionJobInput};
use validation::state_snapshot::StateSnapshotInput;
use validation::{Finding, ValidationInput};

/// Maximum number of files; more suggests a wrong directory.
const FILES_MAX: usize = 1000;

/// Examples shown below the flags.
const EXAMPLES: &str = "\
Exit codes:
  0  no finding reaches --failure-threshold
  1  some do
  2  invalid command line

Examples:
  kubectl flink lint -f orders.yaml
  kubectl flink lint -f manifests/ --failure-threshold warning
  kubectl kustomize overlays/prod | kubectl flink lint -f - -o json
  kubectl flink explain FK0011";

/// Arguments of `lint`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LintArgs {
    /// Manifests, or directories of .yaml, .yml and .json files; - reads stdin
    #[arg(short, long, value_name = "FILE", required = true, num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Fail for findings of at least this severity
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t)]
    failure_threshold: Threshold,
    /// The operator's configuration, for its defaults: a file, or a directory with flink-conf.yaml
    /// or config.yaml
    #[arg(long, value_name = "FILE")]
    operator_config: Option<PathBuf>,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

/// From which severity on findings are a failure.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum Threshold {
    /// What the operator would reject
    #[default]
    Error,
    /// Also what is likely to go wrong
    Warning,
    /// Anything at all
    Info,
}

impl Threshold {
    fn severity(self) -> Severity {
        match self {
            Self::Error => Severity::Error,
            Self::Warning => Severity::Warning,
            Self::Info => Severity::Info,
        }
    }
}

/// One finding, as `-o json` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    code: String,
    severity: Severity,
    file: String,
    /// Starts at 1; 0 for the whole text.
    line: u64,
    column: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    path: String,
    message: String,
}

/// Reads all files and prints the findings. Fails if one reaches the threshold.
pub fn run(args: LintArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let LintArgs { filename, failure_threshold, operator_config, output: Output { output } } = args;
    let operator = match operator_config {
        Some(path) => operator_config::load(Some(&path), printer)?,
        None => OperatorConfig::default(),
    };
    let mut found = Vec::new();
    let mut documents = Vec::new();
    let files = files(&filename)?;
    for file in &files {
        let (read, problems) = manifest::read_what_can_be(file)?;
        documents.extend(read.into_iter().map(|it| (manifest::shown(file), it)));
        found.extend(problems.into_iter().map(of_problem));
    }
    let namespace = global.namespace.as_deref().unwrap_or("default");
    for (file, document) in &documents {
        let findings = findings(document, &documents, namespace, &operator);
        found.extend(findings.into_iter().map(|finding| of_finding(finding, file, document)));
    }
    found.sort_by(|one, other| {
        (&one.file, one.line, one.column, &one.code).cmp(&(
            &other.file,
            other.line,
            other.column,
            &other.code,
        ))
    });
    match output {
        Some(format) => printer.value(&json!({ "findings": found }), format)?,
        None => print(&found, documents.len(), printer)?,
    }
    let severity = failure_threshold.severity();
    let failures = found.iter().filter(|found| found.severity >= severity).count();
    match failures {
        0 => Ok(()),
        1 => Err(Failure::new(format!("1 finding is {} or worse", severity.into_str())).into()),
        count => {
            Err(Failure::new(format!("{count} findings are {} or worse", severity.into_str()))
                .into())
        }
    }
}

/// Returns the files; those of a directory are sorted by name.
fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        let cannot = |error: std::io::Error| {
            Failure::new(format!("`{}` cannot be read: {error}", path.display()))
        };
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            let file = entry.map_err(cannot)?.path();
            let extension = file.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
            if file.is_file() && matches!(extension, "yaml" | "yml" | "json") {
                inside.push(file);
            }
        }
        inside.sort();
        files.extend(inside);
    }
    match files.len() {
        0 => {
            let paths: Vec<_> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
            let text = format!("there is no .yaml, .yml or .json file in {}", paths.join(", "));
            Err(Failure::usage(text).into())
        }
        count if count > FILES_MAX => {
            let text = format!(
                "{count} files are more than the limit of {FILES_MAX}: name fewer at a time"
            );
            Err(Failure::usage(text).into())
        }
        _ => Ok(files),
    }
}

/// Returns all findings about one resource, given all resources of the same run.
fn findings(
    document: &Document,
    all: &[(String, Document)],
    namespace: &str,
    operator: &OperatorConfig,
) -> Vec<Finding> {
    let stated = document.value.pointer("/metadata/namespace").and_then(Value::as_str);
    let namespace = stated.unwrap_or(namespace);
    if document.is_canary() {
        return Vec::new();
    }
    match &document.resource {
        Resource::Deployment(deployment) => {
            let name = document.resource.name();
            let mut found = validation::find(&ValidationInput {
                name: &name,
                namespace,
                spec: &deployment.spec,
                last_reconciled: None,
                operator,
            });
            found.extend(lint::deployment(namespace, &deployment.spec, operator));
            found
        }
        Resource::SessionJob(job) => {
            let name = job.spec.deployment_name.clone().unwrap_or_default();
            let cluster = cluster(&name, all);
            let mut found = validation::session_job::find(&SessionJobInput {
                namespace,
                spec: &job.spec,
                last_reconciled: None,
                cluster: cluster.as_ref().map(|spec| SessionCluster { name: &name, spec }),
                operator,
                host: None,
            });
            found.extend(lint::session_job(namespace, &job.spec, cluster.as_ref(), operator));
            found
        }
        Resource::StateSnapshot(snapshot) => {
            // Only the cluster knows whether the job exists.
            let input = StateSnapshotInput { spec: &snapshot.spec, state: None, has_target: true };
            validation::state_snapshot::find(&input)
        }
        Resource::BlueGreenDeployment(resource) => {
            let name = resource.metadata.name.as_deref().unwrap_or_default();
            let input = BlueGreenInput {
                name,
                namespace,
                spec: &resource.spec,
                last: &Recorded::default(),
                operator,
            };
            validation::blue_green::find(&input)
        }
        Resource::Foreign { .. } => Vec::new(),
    }
}

/// Returns the session cluster's spec if one of the files has it.
fn cluster(name: &str, all: &[(String, Document)]) -> Option<FlinkDeploymentSpec> {
    let is_it = |document: &&(String, Document)| {
        matches!(document.1.resource, Resource::Deployment(_)) && document.1.resource.name() == name
    };
    let (_, document) = all.iter().find(is_it)?;
    FlinkDeploymentSpec::deserialize(&document.value["spec"]).ok()
}

fn of_problem(problem: Problem) -> Found {
    let Problem { file, line, column, path, message } = problem;
    Found {
        code: Rule::Schema.code(),
        severity: Rule::Schema.text().severity,
        file,
        line,
        column,
        resource: None,
        path,
        message,
    }
}

fn of_finding(finding: Finding, file: &str, document: &Document) -> Found {
    let Finding { rule, violation } = finding;
    let (line, column) = document.locate(&violation.path);
    let resource = format!("{}/{}", document.resource.kind(), document.resource.name());
    Found {
        code: rule.code(),
        severity: rule.text().severity,
        file: file.to_owned(),
        line,
        column,
        resource: Some(resource),
        path: violation.path,
        message: violation.message,
    }
}

fn print(found: &[Found], resources: usize, printer: &Printer) -> anyhow::Result<()> {
    for Found { code, severity, file, line, column, resource: _, path, message } in found {
        let style = match severity {
            Severity::Error => RED,
            Severity::Warning => YELLOW,
            Severity::Info => DIM,
        };
        let place = if *line > 0 { format!("{file}:{line}:{column}") } else { file.clone() };
        let path = if path.is_empty() { String::new() } else { format!("{path}: ") };
        printer.line(format_args!(
            "{place}: {} {code} {path}{message}",
            styled(style, severity.into_str())
        ))?;
    }
    if found.is_empty() {
        printer.note(format_args!("{}: {resources} resources", styled(GREEN, "nothing found")));
    } else {
        printer.hint("explain a code: kubectl flink explain CODE");
    }
    Ok(())
}

/// Arguments of `explain`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink explain
  kubectl flink explain FK0011")]
pub struct ExplainArgs {
    /// Code of a rule, such as FK0011; default: list all
    code: Option<String>,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

/// One rule, as `-o json` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    code: String,
    severity: Severity,
    title: &'static str,
    why: &'static str,
    remedy: &'static str,
}

impl Explained {
    fn new(rule: Rule) -> Self {
        let Text { severity, title, why, remedy } = rule.text();
        Self { code: rule.code(), severity, title, why, remedy }
    }
}

/// Explains the rule with this code.
pub fn explain(args: ExplainArgs, printer: &Printer) -> anyhow::Result<()> {
    let ExplainArgs { code, output: Output { output: format } } = args;
    let Some(code) = code else {
        let all: Vec<Explained> = Rule::ALL.iter().copied().map(Explained::new).collect();
        if let Some(format) = format {
            return printer.value(&json!({ "rules": all }), format);
        }
        for Explained { code, severity, title, .. } in &all {
            printer.line(format_args!("{code}  {:<8} {title}", severity.into_str()))?;
        }
        return Ok(());
    };
    let Some(rule) = Rule::parse(&code) else {
        return Err(Failure::usage(format!("there is no rule `{code}`"))
            .hint("list them with: kubectl flink explain")
            .into());
    };
    let explained = Explained::new(rule);
    if let Some(format) = format {
        return printer.value(&explained, format);
    }
    let Explained { code, severity, title, why, remedy } = explained;
    printer.line(format_args!("{} {}: {title}", styled(BOLD, code), severity.into_str()))?;
    printer.line(format_args!("\nWhy:    {why}\nRemedy: {remedy}"))?;
    Ok(())
}

/// Returns the text of `docs/lint.md`.
pub fn reference() -> String {
    let mut text = "\
# Rules of `kubectl flink lint`

<!-- Made from crates/validation/src/rule.rs by a test; UPDATE_EXPECT=1 cargo test --lib lint -->

`kubectl flink lint -f FILE…` checks manifests without a cluster. The operator, its webhook and `deploy` reject what is an
*error* here, with the same message; the rest is advice. A code never changes its meaning.

| code | severity | what | why | remedy |
|---|---|---|---|---|
"
    .to_owned();
    for rule in Rule::ALL {
        let Text { severity, title, why, remedy } = rule.text();
        let severity = severity.into_str();
        text.extend([
            "| ",
            &rule.code(),
            " | ",
            severity,
            " | ",
            title,
            " | ",
            why,
            " | ",
            remedy,
            " |\n",
        ]);
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    #[test]
    fn the_reference_is_up_to_date() {
        expect_file!["../../docs/lint.md"].assert_eq(&reference());
    }

    #[test]
    fn files_of_a_directory_are_read_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.yml", "c.txt", "d.json"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let found = files(&[directory.path().to_owned()]).unwrap();
        let names: Vec<_> = found.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert_eq!(names, ["a.yml", "b.yaml", "d.json"]);
        let nothing = tempfile::tempdir().unwrap();
        assert!(files(&[nothing.path().to_owned()]).is_err());
    }
}
