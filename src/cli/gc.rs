//! `gc`: what former clusters and jobs left behind, shown and removed.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::args::{Global, Output, OutputFormat, duration};
use super::failure::Failure;
use super::printer::Printer;
use super::table;
use crate::cluster::leftovers;
use crate::cluster::read::Scope;
use crate::decide::garbage::{Finding, Rules, garbage};

/// Remove what former clusters and jobs left behind: ConfigMaps of Flink that nothing names any more
#[derive(Args)]
#[command(after_help = "\
What a status, spec, stored revision or snapshot names is never removed, nor anything of a cluster that runs.
ConfigMaps that name checkpoints or jobs may be all that leads to a job's state: they are only shown,
unless --include-state is given.

Examples:
  # Show what could go, in all namespaces
  kubectl flink gc -A --dry-run

  # Remove what was not written for a month
  kubectl flink gc --older-than 720h --yes")]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
pub struct GcArgs {
    /// Look into all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Leave alone what was written since
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "168h")]
    older_than: Duration,
    /// Also remove ConfigMaps that lead to state, which may be the only way to it
    #[arg(long)]
    include_state: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: Output,
}

/// Shows, asks and removes.
pub async fn run(args: GcArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let GcArgs { all_namespaces, dry_run, older_than, include_state, yes, output } = args;
    let connection = global.connect().await?;
    let scope =
        if all_namespaces { Scope::AllNamespaces } else { Scope::Namespace(&connection.namespace) };
    let inventory = leftovers::inventory(&connection.client, scope).await?;
    let now = Timestamp::now();
    let rules = Rules { now, age_min: older_than, includes_state: include_state };
    let findings = garbage(&inventory, &rules);
    let removable: Vec<&Finding> = findings.iter().filter(|finding| finding.is_removable).collect();
    show(&findings, output, now, printer)?;
    if dry_run || removable.is_empty() {
        return Ok(());
    }
    if !yes {
        if !printer.terminals().input {
            return Err(Failure::usage("nothing was removed: say --yes, or --dry-run").into());
        }
        let question = format!("Remove {} of these ConfigMaps?", removable.len());
        if !printer.confirm(question)? {
            return Err(Failure::new("nothing was removed").into());
        }
    }
    let mut removed = 0_usize;
    for finding in &removable {
        removed += usize::from(leftovers::remove(&connection.client, finding).await?);
    }
    printer.note(format_args!("{removed} of {} ConfigMaps removed", removable.len()));
    Ok(())
}

fn show(
    findings: &[Finding],
    Output { output }: Output,
    now: Timestamp,
    printer: &Printer,
) -> anyhow::Result<()> {
    match output {
        Some(OutputFormat::Json | OutputFormat::Yaml) => {
            if let Some(format) = output.and_then(OutputFormat::for_value) {
                printer.value(&json!({"findings": findings}), format)?;
            }
        }
        Some(OutputFormat::Name) => {
            for finding in findings {
                printer.line(format_args!("configmap/{}", finding.name))?;
            }
        }
        None | Some(OutputFormat::Wide) if findings.is_empty() => {
            printer.note("nothing was left behind");
        }
        None | Some(OutputFormat::Wide) => printer.line(table_of(findings, now))?,
    }
    Ok(())
}

fn table_of(findings: &[Finding], now: Timestamp) -> String {
    let row = |finding: &Finding| {
        let action = if finding.is_removable { "remove" } else { "keep" };
        vec![
            finding.namespace.clone(),
            finding.name.clone(),
            finding.kind.as_str().to_owned(),
            table::age(now.duration_since(finding.changed).as_secs()),
            action.to_owned(),
            finding.why.clone(),
        ]
    };
    let headers = ["NAMESPACE", "CONFIGMAP", "WHAT", "AGE", "ACTION", "WHY"];
    table::render(&headers, findings.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::decide::garbage::Kind;

    #[test]
    fn the_table_says_what_happens_to_each() {
        let finding = |name: &str, is_removable, why: &str| Finding {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: String::new(),
            kind: Kind::HaMetadata,
            cluster: "orders".to_owned(),
            changed: "2026-01-01T00:00:00Z".parse().unwrap(),
            is_removable,
            why: why.to_owned(),
        };
        let findings = [
            finding("orders-cluster-config-map", true, "there is no cluster `orders` any more"),
            finding("orders-1-config-map", false, "it names checkpoints"),
        ];
        let now = "2026-01-11T00:00:00Z".parse().unwrap();
        expect![[r#"
            NAMESPACE   CONFIGMAP                   WHAT         AGE   ACTION   WHY
            shop        orders-cluster-config-map   HaMetadata   10d   remove   there is no cluster `orders` any more
            shop        orders-1-config-map         HaMetadata   10d   keep     it names checkpoints"#]]
        .assert_eq(&table_of(&findings, now));
    }
}
