//! `list`: the deployments, session jobs and blue/green deployments of one or all namespaces.
//!
//! They are read page by page. For the table only the shown fields of each object are kept, and whole objects
//! (`-o json`, `-o yaml`) are printed as they arrive, so that thousands need little time and memory.

mod rows;
mod saved;

use std::io;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::{Client, Resource};
use serde_json::Value;

use super::args::{FlinkAccess, Global, Output, OutputFormat};
use super::change;
use super::connection::Connection;
use super::failure::Failure;
use super::printer::{Printer, ValueFormat, escaped};
use super::status::{self, Columns};
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use clients::cluster;
use clients::cluster::read::{self, Scope};
use lifecycle::conditions::UPGRADES_PAUSED;
use rows::Row;

/// Arguments of `list`.
#[derive(Args, Default)]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
#[command(after_help = "\
Examples:
  kubectl flink list -A --sort age
  kubectl flink list -l team=payments -o wide      # also when each running job was last saved
  kubectl flink list --watch

  # Upgrades after an image was changed everywhere: in progress, waiting or paused
  kubectl flink list -A --upgrading

  kubectl flink list -A -o json | jq -r '.items[] | select(.status.lifecycleState != \"STABLE\") | .metadata.name'")]
pub struct ListArgs {
    /// All namespaces
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
    /// Only those with these labels, such as `team=a,stage!=test`
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(super) selector: Option<String>,
    /// Order of the lines
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t)]
    pub(super) sort: Sort,
    /// Reverse the order
    #[arg(long)]
    pub(super) reverse: bool,
    /// Only those with an upgrade in progress, waiting or refused, with its progress
    #[arg(long, conflicts_with = "watch")]
    pub(super) upgrading: bool,
    /// Keep showing changes: redrawn on a terminal, otherwise one line per change
    #[arg(short, long, conflicts_with_all = ["sort", "reverse"])]
    pub(super) watch: bool,
    #[command(flatten)]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) access: FlinkAccess,
}

/// Columns that lines can be ordered by.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Sort {
    /// Namespace, then name
    #[default]
    Name,
    /// Newest first
    Age,
    /// State of the job
    Job,
    /// State of the resource, those that are not STABLE first
    Lifecycle,
    /// Version of Flink
    Version,
}

/// Prints the list once, or follows it.
pub async fn run(args: ListArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let ListArgs {
        all_namespaces,
        selector,
        sort,
        reverse,
        upgrading,
        watch,
        output: Output { output },
        access: FlinkAccess { flink_access },
    } = args;
    let connection = global.connect().await?;
    let scope = connection.scope(all_namespaces);
    let selector = selector.as_deref();
    if watch {
        return status::watch_many(&connection, scope, selector, output, printer).await;
    }
    match output {
        Some(OutputFormat::Value(format)) => {
            if sort != Sort::Name || reverse || upgrading {
                let message = "-o json and -o yaml print all objects, unsorted; leave out --sort and --upgrading";
                return Err(Failure::usage(message).into());
            }
            print_objects(&connection, scope, selector, format, printer).await
        }
        None | Some(OutputFormat::Wide | OutputFormat::Name) => {
            let mut rows = rows(&connection, scope, selector).await?;
            if upgrading {
                rows.retain(|row| row.0.upgrade().is_some());
            }
            order(&mut rows, sort, reverse);
            if output == Some(OutputFormat::Wide) {
                for note in saved::ask(&connection, flink_access, &mut rows).await {
                    printer.note(note);
                }
            }
            print_rows(&rows, (scope, upgrading), output, printer)
        }
    }
}

/// Returns one row per object.
pub(super) async fn rows(
    connection: &Connection,
    scope: Scope<'_>,
    selector: Option<&str>,
) -> anyhow::Result<Vec<Row>> {
    let (deployments, session_jobs, blue_greens) = tokio::join!(
        rows_of::<FlinkDeployment>(connection, scope, selector),
        rows_of::<FlinkSessionJob>(connection, scope, selector),
        rows_of::<FlinkBlueGreenDeployment>(connection, scope, selector),
    );
    let mut rows = deployments??;
    for others in [session_jobs, blue_greens] {
        rows.extend(where_there(others)?.transpose()?.into_iter().flatten());
    }
    Ok(rows)
}

async fn rows_of<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
    connection: &Connection,
    scope: Scope<'_>,
    selector: Option<&str>,
) -> cluster::Result<io::Result<Vec<Row>>> {
    let mut rows = Vec::new();
    let read = read::for_each_page::<K, _>(&connection.client, scope, selector, |page| {
        rows.extend(page.into_iter().map(Row::of::<K>));
        Ok(())
    });
    let written = read.await?;
    Ok(written.map(|()| rows))
}

/// Returns `None` if the kind is not installed or the user may not read it.
fn where_there<T>(read: cluster::Result<T>) -> cluster::Result<Option<T>> {
    match read {
        Err(cluster::Error::KindMissing { .. } | cluster::Error::Forbidden { .. }) => Ok(None),
        read => read.map(Some),
    }
}

fn order(rows: &mut [Row], sort: Sort, reverse: bool) {
    rows.sort_by_cached_key(|row| {
        let it = &row.0;
        let key = match sort {
            Sort::Name => String::new(),
            // The newest resource has the latest timestamp, so the key is inverted.
            Sort::Age => {
                let at = it.created_at().map_or(i64::MAX, Timestamp::as_second);
                format!("{:020}", i64::MAX - at)
            }
            Sort::Job => it.job_state().unwrap_or_default().to_owned(),
            Sort::Lifecycle => {
                let state = it.lifecycle().unwrap_or_default();
                let is_at_rest = matches!(state, "STABLE" | "ACTIVE_BLUE" | "ACTIVE_GREEN");
                format!("{}{state}", u8::from(is_at_rest))
            }
            Sort::Version => it.flink_version().unwrap_or_default().to_owned(),
        };
        (key, it.namespace().to_owned(), it.is_session_job(), it.name().to_owned())
    });
    if reverse {
        rows.reverse();
    }
}

fn print_rows(
    rows: &[Row],
    (scope, upgrading): (Scope<'_>, bool),
    output: Option<OutputFormat>,
    printer: &Printer,
) -> anyhow::Result<()> {
    if output == Some(OutputFormat::Name) {
        for row in rows {
            printer.line(change::qualified_name(&row.0.0))?;
        }
        return Ok(());
    }
    if rows.is_empty() {
        let none = if upgrading { "no upgrades" } else { "no FlinkDeployments" };
        match scope {
            Scope::AllNamespaces => printer.note(format_args!("{none} found")),
            Scope::Namespace(namespace) => {
                printer.note(format_args!("{none} found in namespace `{namespace}`"));
            }
        }
        return Ok(());
    }
    let is_wide = output == Some(OutputFormat::Wide);
    let all = rows.iter().map(|row| &row.0).collect::<Vec<_>>();
    let width = printer.width();
    let columns = Columns { is_wide, has_upgrades: upgrading };
    printer.line(status::list_table(&all, scope, columns, width, Timestamp::now()))?;
    if all.iter().any(|it| it.upgrade_waits().is_some_and(|(reason, _)| reason == UPGRADES_PAUSED))
    {
        printer.note("upgrades are paused because earlier ones failed: see their ERROR");
        printer.note("correct the spec, or run: kubectl flink operator continue");
    }
    Ok(())
}

/// Prints a `List` of whole objects, each as soon as its page has arrived.
async fn print_objects(
    connection: &Connection,
    scope: Scope<'_>,
    selector: Option<&str>,
    format: ValueFormat,
    printer: &Printer,
) -> anyhow::Result<()> {
    let client = &connection.client;
    let is_json = format == ValueFormat::Json;
    let mut is_begun = false;
    let mut print = |object: Value| -> io::Result<()> {
        let object = change::without_managed_fields(object);
        let begin = match (is_begun, is_json) {
            (false, true) => {
                "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": [\n"
            }
            (false, false) => "apiVersion: v1\nkind: List\nitems:\n",
            (true, true) => ",\n",
            (true, false) => "",
        };
        is_begun = true;
        let text = if is_json {
            indented(&escaped(&serde_json::to_string_pretty(&object)?), "    ", "    ")
        } else {
            let yaml = serde_yaml::to_string(&object).map_err(io::Error::other)?;
            indented(yaml.trim_end(), "- ", "  ") + "\n"
        };
        printer.raw(format_args!("{begin}{text}"))
    };
    print_kind::<FlinkDeployment>(client, scope, selector, &mut print).await??;
    let jobs = print_kind::<FlinkSessionJob>(client, scope, selector, &mut print).await;
    where_there(jobs)?.transpose()?;
    let blue_greens =
        print_kind::<FlinkBlueGreenDeployment>(client, scope, selector, &mut print).await;
    where_there(blue_greens)?.transpose()?;
    match (is_begun, is_json) {
        (true, true) => printer.raw("\n  ]\n}\n")?,
        (true, false) => {}
        (false, true) => {
            printer
                .raw("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": []\n}\n")?;
        }
        (false, false) => printer.raw("apiVersion: v1\nkind: List\nitems: []\n")?,
    }
    Ok(())
}

async fn print_kind<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(
    client: &Client,
    scope: Scope<'_>,
    selector: Option<&str>,
    print: &mut impl FnMut(Value) -> io::Result<()>,
) -> cluster::Result<io::Result<()>> {
    read::for_each_page::<K, Value>(client, scope, selector, |page| {
        page.into_iter().map(typed::<K>).try_for_each(&mut *print)
    })
    .await
}

/// Adds the type, which the items of a list lack. It comes first, as in any object.
fn typed<K: Resource<DynamicType = ()>>(object: Value) -> Value {
    let mut with_type = serde_json::Map::new();
    with_type.insert("apiVersion".to_owned(), K::api_version(&()).into());
    with_type.insert("kind".to_owned(), K::kind(&()).into());
    if let Value::Object(fields) = object {
        with_type.extend(fields);
    }
    with_type.into()
}

fn indented(text: &str, first: &str, rest: &str) -> String {
    let mut lines = text.lines();
    let mut indented = format!("{first}{}", lines.next().unwrap_or_default());
    for line in lines {
        indented.push('\n');
        indented.push_str(rest);
        indented.push_str(line);
    }
    indented
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(name: &str, created: &str, lifecycle: &str) -> Row {
        let object = json!({"metadata": {"name": name, "namespace": "n", "creationTimestamp": created},
            "status": {"lifecycleState": lifecycle}});
        Row::of::<FlinkDeployment>(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn lines_are_in_the_order_that_was_asked_for() {
        let names = |sort, reverse| {
            let mut rows = vec![
                row("b", "2026-01-02T00:00:00Z", "STABLE"),
                row("c", "2026-01-03T00:00:00Z", "FAILED"),
                row("a", "2026-01-01T00:00:00Z", "UPGRADING"),
            ];
            order(&mut rows, sort, reverse);
            rows.iter().map(|row| row.0.name().to_owned()).collect::<String>()
        };
        assert_eq!(names(Sort::Name, false), "abc");
        assert_eq!(names(Sort::Name, true), "cba");
        assert_eq!(names(Sort::Age, false), "cba");
        assert_eq!(names(Sort::Lifecycle, false), "cab");
    }

    #[test]
    fn text_is_indented_line_by_line() {
        assert_eq!(indented("a:\n  b: 1\nc: 2", "- ", "  "), "- a:\n    b: 1\n  c: 2");
    }
}
