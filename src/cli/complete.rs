//! Live names for completion: asked of the cluster with a short deadline, silent when that fails.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;

use super::args::Global;
use crate::api::deployment::FlinkDeployment;
use crate::api::session_job::FlinkSessionJob;
use crate::cluster::read::Scope;

/// A person waits for the key press: what takes longer is no help.
const DEADLINE: Duration = Duration::from_millis(1500);
/// Names offered at most.
const LIMIT: u32 = 200;

/// Completes names of deployments and session jobs in the namespace that the command line names.
pub fn deployments() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        candidates(async |global: Global| {
            let connection = global.connect().await?;
            let api =
                Scope::Namespace(&connection.namespace).api::<FlinkDeployment>(&connection.client);
            let limit = ListParams::default().limit(LIMIT);
            let jobs =
                Scope::Namespace(&connection.namespace).api::<FlinkSessionJob>(&connection.client);
            let (list, jobs) = tokio::join!(api.list_metadata(&limit), jobs.list_metadata(&limit));
            let names = list?.items.into_iter().filter_map(|item| item.metadata.name);
            // The kind need not be installed.
            let jobs = jobs.map(|jobs| jobs.items).unwrap_or_default();
            let jobs = jobs.into_iter().filter_map(|item| item.metadata.name);
            Ok(names.chain(jobs.map(|name| format!("sessionjob/{name}"))).collect())
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

/// Runs one question to its answer or to the deadline; no answer completes nothing.
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

/// The connection flags among the words, whatever else stands there.
fn global_of(words: impl IntoIterator<Item = OsString>) -> Global {
    // Each flag with its value is tried alone, because unknown words would stop the parser.
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

/// Connection flags with a value.
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
    fn connection_flags_are_found_among_unfinished_words() {
        let line = "kubectl-flink __complete -nteam status --context lab -o --as=jane --server http://127.0.0.1:1 wor";
        let global = global_of(line.split(' ').map(OsString::from));
        assert_eq!(global.namespace.as_deref(), Some("team"));
        assert_eq!(global.context.as_deref(), Some("lab"));
        assert_eq!(global.impersonate.as_deref(), Some("jane"));
        assert_eq!(global.server.as_deref(), Some("http://127.0.0.1:1"));
    }
}
