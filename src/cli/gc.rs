//! `gc`: shows and removes what former clusters and jobs left behind.

mod storage;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use kube::Client;
use serde_json::json;

use self::storage::Seen;
use super::args::{Global, ObjectFormat, Output, duration};
use super::failure::Failure;
use super::operator_config;
use super::printer::Printer;
use super::table;
use clients::cluster::leftovers;
use clients::cluster::read::Scope;
use clients::cluster::users::{Users, users};
use config::OperatorConfig;
use state::garbage::storage::{self as decide, View};
use state::garbage::{Finding, Rules, garbage};

/// Remove what former clusters and jobs left behind, and nothing that is still named anywhere
#[derive(Args)]
#[command(after_help = "\
Looks at Flink's ConfigMaps, ZooKeeper nodes and files in the places that clusters are configured with. Never removes
anything of a running cluster, or anything that a status, spec, stored revision, snapshot, HA metadata or the metadata
of a remaining checkpoint refers to. State, and references to it, are only shown unless --include-state is given. Files
and nodes that another Kubernetes cluster may have created are only shown unless --sole-user-of names their place.

Examples:
  # Show what could be removed, in all namespaces
  kubectl flink gc -A --dry-run

  # Remove what was last written more than a month ago
  kubectl flink gc --older-than 720h --yes

  # Also unreferenced savepoints and checkpoints, in a place nobody else uses
  kubectl flink gc -A --include-state --sole-user-of s3://lake/flink")]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
pub struct GcArgs {
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Keep what was written more recently than this
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "168h")]
    older_than: Duration,
    /// Also remove unreferenced state, and what may be the only reference to state
    #[arg(long)]
    include_state: bool,
    /// Place that no other Kubernetes cluster uses; may be repeated
    #[arg(long, value_name = "URI", value_parser = place)]
    sole_user_of: Vec<String>,
    /// Only ConfigMaps
    #[arg(long)]
    skip_storage: bool,
    /// The operator's configuration, which may say where state is: a file, or a directory with
    /// flink-conf.yaml or config.yaml
    #[arg(long, value_name = "FILE")]
    operator_config: Option<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

fn place(text: &str) -> Result<String, String> {
    if decide::is_place(text) {
        return Ok(text.to_owned());
    }
    Err("expected a place such as s3://bucket/folder".to_owned())
}

/// Files and ZooKeeper nodes: what was found, and which of it is garbage.
struct Storages {
    seen: Seen,
    rules: decide::Rules,
    /// `None` for all namespaces.
    namespace: Option<String>,
    findings: Vec<decide::Finding>,
}

/// Shows what was found, asks, and removes it.
pub async fn run(args: GcArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let connection = global.connect().await?;
    let client = &connection.client;
    let scope = connection.scope(args.all_namespaces);
    let inventory = leftovers::inventory(client, scope).await?;
    let now = Timestamp::now();
    let rules = Rules { now, age_min: args.older_than, includes_state: args.include_state };
    let findings = garbage(&inventory, &rules);
    let storages = inspect(&args, client, scope, now, printer).await?;
    show(&findings, storages.as_ref(), args.output, now, printer)?;
    let maps: Vec<&Finding> = findings.iter().filter(|finding| finding.is_removable).collect();
    let count = maps.len() + storages.iter().flat_map(Storages::removable).count();
    if args.dry_run || count == 0 {
        return Ok(());
    }
    if !args.yes {
        agree(format!("Remove {count} of these?"), "removed", printer)?;
    }
    let mut removed = 0_usize;
    for finding in &maps {
        removed += usize::from(leftovers::remove(client, finding).await?);
    }
    if let Some(storages) = &storages {
        removed += storages.remove(client, printer).await?;
    }
    printer.note(format_args!("{removed} of {count} removed"));
    Ok(())
}

/// Searches files and ZooKeeper nodes; returns `None` if they are skipped or cannot be evaluated.
async fn inspect(
    args: &GcArgs,
    client: &Client,
    scope: Scope<'_>,
    now: Timestamp,
    printer: &Printer,
) -> anyhow::Result<Option<Storages>> {
    if args.skip_storage {
        return Ok(None);
    }
    let operator = match &args.operator_config {
        Some(path) => operator_config::load(Some(path), printer)?,
        None => OperatorConfig::default(),
    };
    let Some(known) = read_users(client, printer).await else { return Ok(None) };
    let progress = printer.terminals().error.then(|| printer.progress());
    let seen = storage::inspect(&known, &operator, |place| {
        if let Some(progress) = &progress {
            progress.set(format_args!("searching {place}"));
        }
    })
    .await;
    drop(progress);
    // Read again after the search, to see what has been referenced in the meantime.
    let Some(known) = read_users(client, printer).await else { return Ok(None) };
    let rules = decide::Rules {
        now,
        age_min: args.older_than,
        includes_state: args.include_state,
        sole_user_of: args.sole_user_of.clone(),
    };
    let namespace = match scope {
        Scope::Namespace(namespace) => Some(namespace.to_owned()),
        Scope::AllNamespaces => None,
    };
    let mut storages = Storages { seen, rules, namespace, findings: Vec::new() };
    storages.findings = storages.judge(&known);
    Ok(Some(storages))
}

/// Reads the references of all namespaces; `None` if that fails, because without them no file can be called garbage.
async fn read_users(client: &Client, printer: &Printer) -> Option<Users> {
    match users(client).await {
        Ok(users) => Some(users),
        Err(error) => {
            printer.warning(format_args!(
                "files and ZooKeeper nodes are left alone, because not all namespaces could be read: {error}"
            ));
            None
        }
    }
}

impl Storages {
    fn judge(&self, known: &Users) -> Vec<decide::Finding> {
        let mut findings = decide::garbage(&self.seen.places, &known.references, &self.rules);
        findings.retain(|finding| self.is_in_scope(finding));
        findings
    }

    /// Returns true if a cluster of the namespace uses the place.
    fn is_in_scope(&self, finding: &decide::Finding) -> bool {
        let Some(namespace) = &self.namespace else { return true };
        self.seen.places.iter().any(|place| {
            let is_it = place.kind == finding.kind && place.uri == finding.place;
            is_it && place.users.iter().any(|user| user.namespace == *namespace)
        })
    }

    fn removable(&self) -> impl Iterator<Item = &decide::Finding> {
        self.findings.iter().filter(|finding| finding.is_removable())
    }

    /// Removes what is still garbage: something may have been referenced in the meantime.
    async fn remove(&self, client: &Client, printer: &Printer) -> anyhow::Result<usize> {
        let Some(known) = read_users(client, printer).await else { return Ok(0) };
        let now = self.judge(&known);
        let mut removed = 0;
        for finding in self.removable() {
            let is_still = now.iter().any(|other| other == finding);
            if is_still && self.seen.remove(finding).await? {
                removed += 1;
            } else {
                printer.note(format_args!("`{}` has changed and is kept", finding.path));
            }
        }
        Ok(removed)
    }

    /// Returns the places that could not be searched, and why.
    fn unseen(&self) -> impl Iterator<Item = (&str, &str)> {
        self.seen.places.iter().filter_map(|place| match &place.view {
            View::Hidden(why) | View::Failed(why) => Some((place.uri.as_str(), why.as_str())),
            View::Complete(_) => None,
        })
    }
}

fn show(
    findings: &[Finding],
    storages: Option<&Storages>,
    Output { output }: Output<ObjectFormat>,
    now: Timestamp,
    printer: &Printer,
) -> anyhow::Result<()> {
    let stored: &[decide::Finding] =
        storages.map(|storages| &*storages.findings).unwrap_or_default();
    let unseen = storages.into_iter().flat_map(Storages::unseen);
    match output {
        Some(ObjectFormat::Value(format)) => {
            let unseen = unseen.map(|(place, why)| json!({"place": place, "why": why}));
            let shown = json!({
                "findings": findings,
                "storage": storages.map(|_| json!({
                    "findings": stored,
                    "notLookedInto": unseen.collect::<Vec<_>>(),
                })),
            });
            printer.value(&shown, format)?;
        }
        Some(ObjectFormat::Name) => {
            for finding in findings {
                printer.line(format_args!("configmap/{}", finding.name))?;
            }
            for finding in stored {
                printer.line(&finding.path)?;
            }
        }
        None | Some(ObjectFormat::Wide) => {
            for (place, why) in unseen {
                printer.note(format_args!("`{place}` was not searched: {why}"));
            }
            if findings.is_empty() && stored.is_empty() {
                printer.note("no leftovers found");
            }
            if !findings.is_empty() {
                printer.line(table_of(findings, now))?;
            }
            if !stored.is_empty() {
                printer.line(table_of_stored(stored, now))?;
            }
        }
    }
    Ok(())
}

fn table_of_stored(findings: &[decide::Finding], now: Timestamp) -> String {
    let row = |finding: &decide::Finding| {
        let (action, why) = match &finding.kept_because {
            None => ("remove", finding.why.clone()),
            Some(kept_because) => ("keep", format!("{}; {kept_because}", finding.why)),
        };
        vec![
            finding.path.clone(),
            finding.kind.into_str().to_owned(),
            table::bytes(i64::try_from(finding.size_bytes).unwrap_or(i64::MAX)),
            table::age(now.duration_since(finding.changed).as_secs()),
            action.to_owned(),
            why,
        ]
    };
    let headers = ["PATH", "WHAT", "SIZE", "AGE", "ACTION", "WHY"];
    table::render(&headers, findings.iter().map(row).collect())
}

fn table_of(findings: &[Finding], now: Timestamp) -> String {
    let row = |finding: &Finding| {
        let action = if finding.is_removable { "remove" } else { "keep" };
        vec![
            finding.namespace.clone(),
            finding.name.clone(),
            finding.kind.into_str().to_owned(),
            table::age(now.duration_since(finding.changed).as_secs()),
            action.to_owned(),
            finding.why.clone(),
        ]
    };
    let headers = ["NAMESPACE", "CONFIGMAP", "WHAT", "AGE", "ACTION", "WHY"];
    table::render(&headers, findings.iter().map(row).collect())
}

/// Asks before something is irrevocably `done`. Without a terminal, `--yes` is required.
pub(super) fn agree(question: String, done: &str, printer: &Printer) -> anyhow::Result<()> {
    if !printer.terminals().input {
        let message = format!("nothing was {done}: use --yes or --dry-run");
        return Err(Failure::usage(message).into());
    }
    if !printer.confirm(question)? {
        return Err(Failure::new(format!("nothing was {done}")).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use state::garbage::Kind;

    #[test]
    fn the_table_says_what_happens_to_each() {
        let finding = |name: &str, is_removable, why: &str| Finding {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: String::new(),
            version: String::new(),
            kind: Kind::HaMetadata,
            cluster: "orders".to_owned(),
            changed: "2026-01-01T00:00:00Z".parse().unwrap(),
            is_removable,
            why: why.to_owned(),
        };
        let findings = [
            finding("orders-cluster-config-map", true, "cluster `orders` no longer exists"),
            finding("orders-1-config-map", false, "it names checkpoints"),
        ];
        let now = "2026-01-11T00:00:00Z".parse().unwrap();
        expect![[r#"
            NAMESPACE   CONFIGMAP                   WHAT         AGE   ACTION   WHY
            shop        orders-cluster-config-map   HaMetadata   10d   remove   cluster `orders` no longer exists
            shop        orders-1-config-map         HaMetadata   10d   keep     it names checkpoints"#]]
        .assert_eq(&table_of(&findings, now));
    }
}
