//! `savepoint inspect`: what the metadata of a savepoint or checkpoint contains, read without Flink.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::cli::args::{DetailFormat, Global, Output};
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use crate::cli::lookup;
use crate::cli::printer::Printer;
use crate::cli::table::{self, NONE};
use crate::cli::{complete, operator_config};
use api::state_snapshot::FlinkStateSnapshot;
use clients::artifact::storage::{self, Storage};
use clients::cluster::read;
use config::{FlinkConfig, OperatorConfig};
use state::garbage::snapshots::job_of;
use state::metadata::{self, Metadata, Operator, ParseError};

/// Name of the metadata file of a savepoint or checkpoint.
const METADATA: &str = "_metadata";
/// Maximum number of folders shown; `-o json` shows all.
const FOLDERS_SHOWN: usize = 10;

/// Arguments of `savepoint inspect`.
#[derive(Args)]
#[command(after_help = "\
An argument with a slash or a colon is a path in S3, GCS, Azure or HDFS, or a local one. It is read with the credentials
of --job, of the operator's configuration, or of this machine: the file _metadata, up to 64 MiB of it. OPERATOR is the
hash of the operator's uid, by which Flink finds its state. With another uid, or a parallelism above MAX, the state is
not restored.

Examples:
  kubectl flink savepoint inspect orders-savepoint-manual-1767225600000
  kubectl flink savepoint inspect s3://lake/savepoints/savepoint-012345-6789ab --job orders
  kubectl flink savepoint inspect ./savepoint-012345-6789ab/_metadata -o json | jq '.operators[].uid'")]
pub(super) struct InspectArgs {
    /// Folder or metadata file of the savepoint or checkpoint, or a FlinkStateSnapshot
    #[arg(add = complete::snapshots(), value_name = "PATH|SNAPSHOT")]
    source: String,
    /// Access storage with the options of this FlinkDeployment, or sessionjob/NAME
    #[arg(long, value_name = "NAME", add = complete::deployments())]
    job: Option<String>,
    /// The operator's configuration, for access to storage: a file, or a directory with
    /// flink-conf.yaml or config.yaml
    #[arg(long, value_name = "FILE")]
    operator_config: Option<PathBuf>,
    #[command(flatten)]
    output: Output<DetailFormat>,
}

/// Location of the metadata.
enum Place {
    /// A file on this machine, which requires no cluster.
    Here(PathBuf),
    /// A folder in a store.
    Stored(String),
}

/// Reads the metadata and prints it.
pub(super) async fn run(
    args: InspectArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let InspectArgs { source, job, operator_config: file, output: Output { output } } = args;
    let is_path = source.contains(['/', ':']);
    let (path, of) = if is_path {
        let of = match &job {
            Some(name) => {
                let connection = global.connect().await?;
                Some(lookup::fetch(&connection, name).await?)
            }
            None => None,
        };
        (source, of)
    } else {
        let connection = global.connect().await?;
        let (path, taken_of) = of_snapshot(&connection, &source).await?;
        let of = match job.or(taken_of) {
            // Snapshots remain after their job is deleted; then only the credentials of this machine are available.
            Some(name) => lookup::fetch(&connection, &name).await.ok(),
            None => None,
        };
        if is_local(&path) {
            return Err(only_in_pods(&path, of.as_ref()).into());
        }
        (path, of)
    };
    let shown = storage::shown(&path);
    let (folder, bytes) = match place(&path) {
        Place::Here(file) => {
            let folder = file.parent().unwrap_or(Path::new("/")).display().to_string();
            (folder, storage::read_local(&file).await)
        }
        Place::Stored(folder) => {
            let operator = match &file {
                Some(path) => operator_config::load(Some(path), printer)?,
                None => OperatorConfig::default(),
            };
            let bytes = fetch(&folder, &operator, of.as_ref()).await;
            (folder, bytes)
        }
    };
    let bytes = bytes.map_err(|error| {
        Failure::new(format!("the metadata of `{shown}` cannot be read"))
            .caused_by(error)
            .hint("name the folder that contains _metadata, or that file")
            .hint("if access needs other options or credentials: --job NAME, or --operator-config FILE")
    })?;
    let told = metadata::parse(&bytes).map_err(|error| not_understood(&shown, error))?;
    if let Some(DetailFormat::Value(format)) = output {
        let mut value = serde_json::to_value(&told)?;
        value["path"] = json!(shown);
        value["outside"] = json!(told.files.outside(&folder));
        value["totalBytes"] = json!(total(&told));
        return printer.value(&value, format);
    }
    let is_wide = output == Some(DetailFormat::Wide);
    Ok(printer.line(render(&told, &shown, &folder, is_wide))?)
}

/// Returns the path of a snapshot and the job it belongs to.
async fn of_snapshot(
    connection: &Connection,
    name: &str,
) -> anyhow::Result<(String, Option<String>)> {
    let namespace = &connection.namespace;
    let found = read::get::<FlinkStateSnapshot>(&connection.client, namespace, name).await?;
    let Some(found) = found else {
        return Err(Failure::new(format!(
            "no FlinkStateSnapshot `{name}` in namespace `{namespace}`"
        ))
        .hint("list them: kubectl flink snapshots")
        .hint(format!("a path contains a slash or a colon, such as ./{name}"))
        .into());
    };
    let status = found.status.clone().unwrap_or_default();
    let Some(path) = status.path.filter(|path| !path.is_empty()) else {
        return Err(Failure::new(format!(
            "FlinkStateSnapshot `{name}` is {} and has no path",
            status.state.into_str()
        ))
        .into());
    };
    let of = job_of(&found);
    Ok((path, of))
}

fn is_local(path: &str) -> bool {
    path.starts_with("file:") || !path.contains(':')
}

/// Returns the failure for a file in the file system of a pod, which cannot be read from here.
fn only_in_pods(path: &str, of: Option<&Deployment>) -> Failure {
    let shown = storage::shown(path);
    let file = format!("{}/{METADATA}", local(path).display());
    let name = of.map_or_else(|| "NAME".to_owned(), Deployment::shown_name);
    Failure::new(format!("`{shown}` is in a file system that only pods can access"))
        .hint(format!("fetch it first: kubectl flink exec {name} -- cat {file} > ./{METADATA}"))
        .hint(format!("and then: kubectl flink savepoint inspect ./{METADATA}"))
}

/// Returns the path of a `file:` URI, or the given path.
fn local(path: &str) -> PathBuf {
    match path.strip_prefix("file:") {
        Some(rest) => PathBuf::from(format!("/{}", rest.trim_start_matches('/'))),
        None => PathBuf::from(path),
    }
}

fn place(path: &str) -> Place {
    let trimmed = path.trim_end_matches('/');
    if is_local(path) {
        let path = local(trimmed);
        let is_file = path.is_file() || path.ends_with(METADATA);
        return Place::Here(if is_file { path } else { path.join(METADATA) });
    }
    let folder = trimmed.strip_suffix(METADATA).unwrap_or(trimmed);
    Place::Stored(folder.trim_end_matches('/').to_owned())
}

async fn fetch(
    folder: &str,
    operator: &OperatorConfig,
    of: Option<&Deployment>,
) -> Result<bytes::Bytes, storage::Error> {
    let namespace = of.map(Deployment::namespace).unwrap_or_default();
    let defaults = operator.defaults(namespace, None);
    let mut all: FlinkConfig = defaults.clone();
    if let Some(of) = of {
        all.overlay(&of.flink_config());
    }
    let storage = Storage::open(folder, &defaults, &all)?;
    storage.read_at(METADATA).await
}

fn not_understood(shown: &str, error: ParseError) -> Failure {
    let hint = match &error {
        ParseError::Foreign => "name the folder that contains _metadata, or that file",
        ParseError::Version { .. } | ParseError::Proposed(_) => {
            "a newer kubectl-flink may support it; the Flink that wrote it can restore it anyway"
        }
        ParseError::Truncated { .. } | ParseError::Broken { .. } => {
            "Flink could not restore it either; list others: kubectl flink snapshots"
        }
    };
    Failure::new(format!("`{shown}` cannot be parsed")).caused_by(error).hint(hint)
}

fn total(told: &Metadata) -> u64 {
    told.operators.iter().map(|it| it.bytes.total()).fold(0, u64::saturating_add)
}

fn bytes(count: u64) -> String {
    table::bytes(i64::try_from(count).unwrap_or(i64::MAX))
}

fn shown_use(its: metadata::Use) -> String {
    let noun = if its.references == 1 { "reference" } else { "references" };
    format!("{}, {} {noun}", bytes(its.bytes), its.references)
}

/// Formats the snapshot, its files and its operators for people.
fn render(told: &Metadata, shown: &str, folder: &str, is_wide: bool) -> String {
    let kind = told.kind.map_or("savepoint or checkpoint", metadata::Kind::as_str);
    let mut lines = vec![
        shown.to_owned(),
        format!(
            "  {kind} {}, format version {}, {} of state in {} operators",
            told.checkpoint_id,
            told.format_version,
            bytes(total(told)),
            told.operators.len()
        ),
    ];
    if !told.master_states.is_empty() {
        let names = told.master_states.join(", ");
        lines.push(format!("  state of hooks in the JobManager: {names}"));
    }
    if !told.earlier_checkpoints.is_empty() {
        let ids: Vec<String> = told.earlier_checkpoints.iter().map(u64::to_string).collect();
        lines.push(format!(
            "  some subtasks have the state of an earlier checkpoint, because they did not complete this one: {}",
            ids.join(", ")
        ));
    }
    let outside = told.files.outside(folder);
    if outside.references == 0 {
        lines.push(
            "  refers to no files outside its folder, so it can be moved as a whole".to_owned(),
        );
    } else {
        lines.push(format!(
            "  needs files outside its folder, which must stay in place: {}",
            shown_use(outside)
        ));
        let folders: Vec<_> = told.files.folders_outside(folder).collect();
        lines.extend(
            folders.iter().take(FOLDERS_SHOWN).map(|(folder, its)| {
                format!("    {}  {}", storage::shown(folder), shown_use(*its))
            }),
        );
        if folders.len() > FOLDERS_SHOWN {
            lines.push("    and more folders: -o json".to_owned());
        }
    }
    if told.operators.is_empty() {
        return lines.join("\n");
    }
    let or_none = |text: Option<&String>| text.cloned().unwrap_or_else(|| NONE.to_owned());
    let row = |it: &Operator| {
        let mut cells = vec![
            it.id.clone(),
            or_none(it.name.as_ref()),
            or_none(it.uid.as_ref()),
            it.parallelism.to_string(),
            it.max_parallelism.to_string(),
            if it.is_finished { "finished".to_owned() } else { bytes(it.bytes.total()) },
        ];
        if is_wide {
            let of = [it.bytes.keyed, it.bytes.operator, it.bytes.channels, it.bytes.coordinator];
            cells.extend(of.map(bytes));
            cells.push(it.operator_states.join(","));
        }
        cells
    };
    let mut headers = vec!["OPERATOR", "NAME", "UID", "PARALLELISM", "MAX", "STATE"];
    if is_wide {
        headers.extend(["KEYED", "OPERATOR STATE", "CHANNELS", "COORDINATOR", "NAMES"]);
    }
    lines.push(String::new());
    lines.push(table::render(&headers, told.operators.iter().map(row).collect()));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_place_is_here_or_in_a_store() {
        let of = |path: &str| match place(path) {
            Place::Here(file) => format!("here {}", file.display()),
            Place::Stored(folder) => format!("stored {folder}"),
        };
        assert_eq!(of("s3://b/savepoint-1/"), "stored s3://b/savepoint-1");
        assert_eq!(of("s3://b/savepoint-1/_metadata"), "stored s3://b/savepoint-1");
        assert_eq!(of("./savepoint-1"), "here ./savepoint-1/_metadata");
        assert_eq!(of("file:///data/savepoint-1/_metadata"), "here /data/savepoint-1/_metadata");
        assert_eq!(of("file:/data/savepoint-1"), "here /data/savepoint-1/_metadata");
    }

    #[test]
    fn operators_are_a_table() {
        let file = include_bytes!("../../../tests/corpus/metadata/v5--flink-2.1-native");
        let told = metadata::parse(file).unwrap();
        let folder = "s3://lake/checkpoints/0123456789abcdef0123456789abcdef/chk-7";
        expect![[r#"
            s3://lake/checkpoints/0123456789abcdef0123456789abcdef/chk-7
              native savepoint 7, format version 5, 1.0 MiB of state in 4 operators
              state of hooks in the JobManager: hook
              needs files outside its folder, which must stay in place: 1.0 MiB, 2 references
                s3://lake/changelog  900 B, 1 reference
                s3://lake/checkpoints/0123456789abcdef0123456789abcdef/shared  1.0 MiB, 1 reference

            OPERATOR                           NAME             UID             PARALLELISM   MAX   STATE
            1111111111111111cafe000000000001   Source: orders   orders-source   2             128   1.0 KiB
            2222222222222222cafe000000000002   Count            <none>          2             256   1.0 MiB
            3333333333333333cafe000000000003   Sink             sink            2             128   350 B
            4444444444444444cafe000000000004   done             done-uid        3             128   finished"#]].assert_eq(&render(&told, folder, folder, false));
        let wide = render(&told, folder, folder, true);
        assert!(wide.contains("source-offsets") && wide.contains("COORDINATOR"), "{wide}");
    }
}
