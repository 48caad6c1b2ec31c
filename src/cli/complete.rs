//! Live names for completion, read from the cluster with a short deadline. Errors are silent.

use std::ffi::OsString;
use std::fmt::Debug;
use std::time::Duration;

use clap::Parser;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::args::Global;
use super::connection::Connection;
use super::deployment::{Deployment, blue_green_name};
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::{FlinkStateSnapshot, JobKind};
use clients::cluster::read::{self, Scope};
use state::revision;

/// Name of the program as shells call it.
const PROGRAM: &str = "kubectl-flink";
/// Maximum time for a completion, because a person waits for the key press. A local API server answers in a tenth of
/// it; a remote one needs a few round trips for the connection alone.
const DEADLINE: Duration = Duration::from_millis(500);
/// Maximum number of names offered.
const LIMIT: u32 = 200;

/// Completes names of deployments, session jobs and blue/green deployments in the namespace that the command line names.
pub fn deployments() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |global: Global| {
            let connection = global.connect().await?;
            let (names, jobs, blue_greens) = tokio::join!(
                names_of::<FlinkDeployment>(&connection),
                names_of::<FlinkSessionJob>(&connection),
                names_of::<FlinkBlueGreenDeployment>(&connection),
            );
            // The kind may not be installed.
            let jobs = jobs.unwrap_or_default().into_iter();
            let blue_greens = blue_greens.unwrap_or_default().into_iter();
            let jobs = jobs.map(|name| format!("sessionjob/{name}"));
            let blue_greens = blue_greens.map(|name| blue_green_name(&name));
            Ok(names?.into_iter().chain(jobs).chain(blue_greens).collect())
        })
    })
}

/// Completes names of session clusters in the namespace that the command line names.
pub fn session_clusters() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |global: Global| {
            let Connection { client, namespace, .. } = global.connect().await?;
            let scope = Scope::Namespace(&namespace);
            let all = read::list_values::<FlinkDeployment>(&client, scope, None).await?;
            let sessions = all.into_iter().map(Deployment).filter(Deployment::is_session);
            let sessions = sessions.take(LIMIT as usize);
            Ok(sessions.map(|session| session.name().to_owned()).collect())
        })
    })
}

/// Completes what a job can be restored from: snapshots in the namespace, and revisions of the job on the command line.
pub fn restore_points() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |global: Global| {
            let connection = global.connect().await?;
            let (snapshots, revisions) = tokio::join!(
                names_of::<FlinkStateSnapshot>(&connection),
                numbers_of_revisions(&global)
            );
            Ok(snapshots?.into_iter().chain(revisions.unwrap_or_default()).collect())
        })
    })
}

/// Completes names of snapshots.
pub fn snapshots() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |global: Global| {
            names_of::<FlinkStateSnapshot>(&global.connect().await?).await
        })
    })
}

/// Completes revision numbers of the job on the command line.
pub fn revisions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |global: Global| numbers_of_revisions(&global).await)
    })
}

async fn names_of<K>(connection: &Connection) -> anyhow::Result<Vec<String>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned,
{
    let api = Scope::Namespace(&connection.namespace).api::<K>(&connection.client);
    let list = api.list_metadata(&ListParams::default().limit(LIMIT)).await?;
    Ok(list.items.into_iter().filter_map(|item| item.metadata.name).collect())
}

async fn numbers_of_revisions(global: &Global) -> anyhow::Result<Vec<String>> {
    let Some(name) = name_of(std::env::args_os()) else { return Ok(Vec::new()) };
    let history = match name.split_once('/') {
        Some(("sessionjob", name)) => revision::history_name(JobKind::FlinkSessionJob, name),
        Some(("bluegreen", name)) => revision::blue_green_history_name(name),
        Some(_) | None => revision::history_name(JobKind::FlinkDeployment, &name),
    };
    let connection = global.connect().await?;
    let scope = Scope::Namespace(&connection.namespace);
    let selector = revision::label_selector(&history);
    let params = ListParams::default().labels(&selector).limit(LIMIT);
    let list = scope.api::<ControllerRevision>(&connection.client).list_metadata(&params).await?;
    let number = |name: String| name.rsplit('-').next().map(str::to_owned);
    Ok(list.items.into_iter().filter_map(|item| item.metadata.name).filter_map(number).collect())
}

/// Returns the resource's name on the command line: the second word after the program that is neither a flag nor a
/// flag's value.
fn name_of(words: impl IntoIterator<Item = OsString>) -> Option<String> {
    let words = words.into_iter().skip(1).map(|word| word.to_string_lossy().into_owned());
    let mut found = Vec::new();
    let mut is_value = false;
    for word in words.skip_while(|word| matches!(word.as_str(), "__complete" | "--" | PROGRAM)) {
        if !is_value && !word.starts_with('-') {
            found.push(word.clone());
        }
        let takes_value = TAKES_VALUE.contains(&word.as_str());
        is_value = takes_value || ["--from", "--to-revision"].contains(&word.as_str());
    }
    found.into_iter().nth(1).filter(|name| !name.is_empty())
}

/// Completes names of blue/green deployments in the namespace that the command line names.
pub fn blue_green_deployments() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |global: Global| {
            names_of::<FlinkBlueGreenDeployment>(&global.connect().await?).await
        })
    })
}

/// Completes names of namespaces.
pub fn namespaces() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |global: Global| {
            let api: Api<Namespace> = Api::all(global.connect().await?.client);
            let list = api.list_metadata(&ListParams::default().limit(LIMIT)).await?;
            Ok(list.items.into_iter().filter_map(|item| item.metadata.name).collect())
        })
    })
}

/// Completes the contexts of the kubeconfig.
pub fn contexts() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(async |global: Global| global.context_names()))
}

/// Runs the query until the deadline. Without an answer there are no candidates.
fn candidates(
    question: impl AsyncFnOnce(Global) -> anyhow::Result<Vec<String>>,
) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let global = global_of(std::env::args_os());
    let answer = runtime.block_on(async { tokio::time::timeout(DEADLINE, question(global)).await });
    runtime.shutdown_background();
    match answer {
        Ok(Ok(names)) => names.into_iter().map(CompletionCandidate::new).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Only the connection flags of a command line that is still being typed.
#[derive(Parser)]
#[command(ignore_errors = true, disable_help_flag = true, disable_version_flag = true)]
struct Typed {
    #[command(flatten)]
    global: Global,
}

/// Parses the connection flags among the words and ignores everything else.
fn global_of(words: impl IntoIterator<Item = OsString>) -> Global {
    // Collect each flag with its value, because the parser would stop at unknown words.
    let words = words.into_iter().skip(1).collect::<Vec<_>>();
    let mut kept = vec![OsString::from("kubectl-flink")];
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let text = word.to_string_lossy();
        let takes_next = TAKES_VALUE.contains(&text.as_ref());
        let has_value = TAKES_VALUE.iter().any(|flag| {
            text.strip_prefix(flag)
                .is_some_and(|rest| rest.starts_with('=') || (flag.len() == 2 && !rest.is_empty()))
        });
        if has_value || text == "--insecure-skip-tls-verify" {
            kept.push(word.clone());
        } else if takes_next && let Some(value) = words.get(index + 1) {
            kept.extend([word.clone(), value.clone()]);
            index += 1;
        }
        index += 1;
    }
    Typed::try_parse_from(kept).map(|typed| typed.global).unwrap_or_default()
}

/// Connection flags that take a value.
const TAKES_VALUE: [&str; 13] = [
    "-n",
    "--namespace",
    "--context",
    "--kubeconfig",
    "--cluster",
    "--user",
    "-s",
    "--server",
    "--token",
    "--as",
    "--as-group",
    "--certificate-authority",
    "--request-timeout",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_among_flags() {
        let name = |line: &str| name_of(line.split(' ').map(OsString::from));
        assert_eq!(
            name("kubectl-flink __complete restore -n team orders --from ").as_deref(),
            Some("orders")
        );
        assert_eq!(
            name("kubectl-flink -- kubectl-flink restore --from 3 orders").as_deref(),
            Some("orders")
        );
        assert_eq!(name("kubectl-flink __complete rollback --to-revision 3"), None);
    }

    #[test]
    fn connection_flags_are_found_among_unfinished_words() {
        let line = "kubectl-flink __complete -nteam status --context lab -o --as=jane --server http://127.0.0.1:1 wor";
        let global = global_of(line.split(' ').map(OsString::from));
        assert_eq!(global.namespace.as_deref(), Some("team"));
        assert_eq!(global.context.as_deref(), Some("lab"));
        assert_eq!(global.impersonate.as_deref(), Some("jane"));
        assert_eq!(global.server.as_deref(), Some("http://127.0.0.1:1"));
    }
}
