//! Status of an instance and its parts.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as KubernetesNode;
use kube::Api;
use kube::api::ListParams;
use serde::Serialize;
use tokio::time::timeout;

use super::control_plane::Setup;
use super::error::Error;
use super::image;
use super::node::HOLDER;
use super::programs::Programs;
use super::state::{Folder, Instance, Kind};
use super::up::is_ready;

/// Timeout of a request to the API server.
const ANSWER: Duration = Duration::from_secs(5);

/// An instance, as `kubectl flink sandbox status -o json` prints it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub name: String,
    pub state: State,
    /// Whether it has a node, rather than only a control plane.
    pub has_node: bool,
    /// Address of the API server.
    pub server: String,
    pub kubeconfig: PathBuf,
    pub context: String,
    /// Folder with all its files.
    pub folder: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Addresses>,
    pub parts: Vec<Part>,
    /// Empty if the API server does not respond.
    pub nodes: Vec<Node>,
    pub images: Vec<String>,
}

/// State of an instance as a whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// All parts are running, and the node, if there is one, is ready.
    Running,
    /// Some are running; `up` starts the others.
    Degraded,
    /// None is running, or the first is not, without which the others are lost; `up` starts over.
    Stopped,
}

/// Addresses of an instance with a node, all reachable from the host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Addresses {
    pub pods: String,
    pub services: String,
    pub node: String,
    pub name_server: String,
}

/// One process of an instance.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub name: String,
    pub running: bool,
    pub pid: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    pub log: PathBuf,
}

/// A Kubernetes node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub name: String,
    pub ready: bool,
    pub version: String,
}

/// Returns the status of the instance `name`; `None` if it does not exist.
pub async fn status(name: &str) -> Result<Option<Status>, Error> {
    let folder = Folder::of(name)?;
    let Some(instance) = folder.read()? else { return Ok(None) };
    let parts: Vec<Part> = folder
        .parts(Some(&instance))
        .into_iter()
        .map(|(name, process, running)| Part {
            log: folder.log(&name),
            resident_bytes: running.then(|| process.resident_bytes()).flatten(),
            pid: process.pid,
            name,
            running,
        })
        .collect();
    let runs = |part: &str| parts.iter().any(|found| found.name == part && found.running);
    let nodes = if runs("kube-apiserver") {
        nodes(&folder, &instance).await.unwrap_or_default()
    } else {
        Vec::new()
    };
    let images = match image::running_node(&folder) {
        Ok((_, holder)) => image::list(holder).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let has_node = matches!(instance.kind, Kind::Full { .. });
    Ok(Some(Status {
        state: state(&parts, &nodes, has_node),
        has_node,
        server: instance.kind.server(),
        context: instance.name.clone(),
        name: instance.name,
        kubeconfig: instance.kubeconfig,
        folder: folder.path(),
        network: match instance.kind {
            Kind::Full { network } => Some(Addresses {
                pods: network.pods(),
                services: network.services(),
                node: network.node(),
                name_server: network.bridge(),
            }),
            Kind::ControlPlane { .. } => None,
        },
        parts,
        nodes,
        images,
    }))
}

fn state(parts: &[Part], nodes: &[Node], has_node: bool) -> State {
    // The number of parts, which are recorded as they start: an instance that stopped half-way lacks the last ones.
    let expected = if has_node { 9 } else { 3 };
    let running = parts.iter().filter(|part| part.running).count();
    let is_node_ready = !has_node || nodes.iter().any(|node| node.ready);
    let first = if has_node { HOLDER } else { "etcd" };
    let runs_first = parts.iter().any(|part| part.running && part.name == first);
    match running {
        _ if !runs_first => State::Stopped,
        all if all == expected && is_node_ready => State::Running,
        _ => State::Degraded,
    }
}

async fn nodes(folder: &Folder, instance: &Instance) -> Result<Vec<Node>, Error> {
    let programs = Programs::of_build(instance.build.clone())?;
    let setup = Setup { folder, instance, programs: &programs };
    let nodes: Api<KubernetesNode> = Api::all(setup.client().await?);
    let listed = timeout(ANSWER, nodes.list(&ListParams::default())).await;
    let Ok(listed) = listed else { return Ok(Vec::new()) };
    Ok(listed?
        .items
        .iter()
        .map(|node| Node {
            name: node.metadata.name.clone().unwrap_or_default(),
            ready: is_ready(node),
            version: node
                .status
                .as_ref()
                .and_then(|status| status.node_info.as_ref())
                .map(|info| info.kubelet_version.clone())
                .unwrap_or_default(),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, running: bool) -> Part {
        Part { name: name.into(), running, pid: 1, resident_bytes: None, log: "/log".into() }
    }

    #[test]
    fn instance_runs_only_when_all_of_it_does() {
        let mut all: Vec<_> = (1..9).map(|number| part(&number.to_string(), true)).collect();
        all.insert(0, part(HOLDER, true));
        let ready = [Node { name: "n".into(), ready: true, version: "v1".into() }];
        let not_ready = [Node { ready: false, ..ready[0].clone() }];
        assert_eq!(state(&all, &ready, true), State::Running);
        assert_eq!(state(&all, &not_ready, true), State::Degraded);
        assert_eq!(state(&all[..8], &ready, true), State::Degraded);
        let mut one_died = all.clone();
        one_died[3].running = false;
        assert_eq!(state(&one_died, &ready, true), State::Degraded);
        assert_eq!(state(&all[1..], &ready, true), State::Stopped, "the namespaces are lost");
        assert_eq!(state(&[part("etcd", false)], &[], false), State::Stopped);
        let control_plane = ["etcd", "api", "controllers"].map(|name| part(name, true));
        assert_eq!(state(&control_plane, &[], false), State::Running);
        assert_eq!(state(&control_plane[..2], &[], false), State::Degraded);
    }
}
