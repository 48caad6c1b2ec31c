//! Nodes that are about to go, watched from when the first job asks.
//!
//! Only the signs of that are kept of a node. If nodes may not be read, each job that asks gets a report once, and
//! nothing else changes. A node with a new sign wakes the jobs whose pods are on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use kube::runtime::watcher::{self, Event};
use tokio::sync::Notify;

use super::context::{Context, lock};
use super::controller::api;
use super::kind::Operated;
use super::observe::show;
use super::pod_watch::cluster_of;
use super::resource::Act;
use super::session_job::wake_jobs_of;
use super::watching;
use ::api::deployment::FlinkDeployment;
use ::api::session_job::FlinkSessionJob;
use ::api::state_snapshot::JobKind;
use config::options::node_notice::SNAPSHOT;
use lifecycle::event::{self, Component};
use lifecycle::node_notice::{self, Taint};

/// Number of pods in one request, and maximum number of requests for the pods of one cluster.
const PAGE: u32 = 500;
const PAGES_MAX: usize = 20;
/// Maximum time to find the pods of a node; the jobs look by themselves within a minute.
const WAKING_MAX: Duration = Duration::from_secs(10);
/// Selects Flink's pods; those that have ended are on no node any more.
const COMPONENTS: &str = "component in (jobmanager,taskmanager)";
const ALIVE: &str = "status.phase!=Failed,status.phase!=Succeeded";

/// Kind, namespace and name of a job resource.
type Asker = (JobKind, String, String);

/// The cluster's nodes, as far as they are about to go.
#[derive(Default)]
pub(super) struct Nodes {
    state: Mutex<State>,
    /// Notified by jobs that ask.
    asked: Notify,
}

#[derive(Default)]
struct State {
    seen: Seen,
    /// The nodes in a list that is not complete yet.
    listed: BTreeMap<String, node_notice::Node>,
    /// The jobs that ask, and whether they got a report that nodes may not be read.
    askers: HashMap<Asker, bool>,
}

#[derive(Default)]
enum Seen {
    #[default]
    NotYet,
    /// They may not be read, for this reason.
    Refused(String),
    /// The nodes with a sign, by name.
    Known(BTreeMap<String, node_notice::Node>),
}

/// The jobs that an event of the watch concerns.
#[derive(Debug, PartialEq)]
enum News {
    Nobody,
    /// Those with pods on this node.
    Of(String),
    Everybody,
}

impl Nodes {
    /// Returns the known nodes to a job that asks. From then on they are watched.
    pub(super) fn known(
        &self,
        (kind, namespace, name): (JobKind, &str, &str),
    ) -> Result<Vec<node_notice::Node>, String> {
        let mut state = lock(&self.state);
        state.askers.entry((kind, namespace.to_owned(), name.to_owned())).or_default();
        let known = match &state.seen {
            Seen::NotYet => Err("the nodes have not been listed yet".to_owned()),
            Seen::Refused(reason) => Err(reason.clone()),
            Seen::Known(nodes) => Ok(nodes.values().cloned().collect()),
        };
        drop(state);
        self.asked.notify_one();
        known
    }

    fn note(&self, event: Event<Node>) -> News {
        let mut state = lock(&self.state);
        match event {
            Event::Init => state.listed.clear(),
            Event::InitApply(node) => {
                state.listed.extend(signs(&node).map(|signs| (signs.name.clone(), signs)));
            }
            Event::InitDone => {
                state.seen = Seen::Known(std::mem::take(&mut state.listed));
                return News::Everybody;
            }
            Event::Apply(node) => {
                let Seen::Known(nodes) = &mut state.seen else { return News::Nobody };
                let Some(signs) = signs(&node) else {
                    nodes.remove(&node.name_any());
                    return News::Nobody;
                };
                let name = signs.name.clone();
                let before = nodes.insert(name.clone(), signs.clone());
                if before.is_none_or(|before| has_more(&before, &signs)) {
                    return News::Of(name);
                }
            }
            Event::Delete(node) => {
                if let Seen::Known(nodes) = &mut state.seen {
                    nodes.remove(&node.name_any());
                }
            }
        }
        News::Nobody
    }

    /// Notes that nodes may not be read. Returns whether that is new, and the jobs that have no report about it yet.
    fn refuse(&self, reason: &str) -> (bool, Vec<Asker>) {
        let mut state = lock(&self.state);
        let is_new = !matches!(state.seen, Seen::Refused(_));
        state.seen = Seen::Refused(reason.to_owned());
        let uninformed = state.askers.iter_mut().filter(|(_, is_informed)| !**is_informed);
        let uninformed = uninformed.map(|(asker, is_informed)| {
            *is_informed = true;
            asker.clone()
        });
        (is_new, uninformed.collect())
    }

    fn askers(&self) -> Vec<Asker> {
        lock(&self.state).askers.keys().cloned().collect()
    }

    /// Forgets a job that is gone.
    pub(super) fn forget(&self, asker: &Asker) {
        lock(&self.state).askers.remove(asker);
    }
}

/// Returns the signs of a node; `None` if it has none.
fn signs(node: &Node) -> Option<node_notice::Node> {
    let spec = node.spec.as_ref()?;
    let taint = |taint: &k8s_openapi::api::core::v1::Taint| Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        added: taint.time_added.as_ref().map(|Time(at)| *at),
    };
    let taints: Vec<Taint> = spec.taints.iter().flatten().map(taint).collect();
    let is_unschedulable = spec.unschedulable == Some(true);
    (is_unschedulable || !taints.is_empty()).then(|| node_notice::Node {
        name: node.name_any(),
        uid: node.uid().unwrap_or_default(),
        is_unschedulable,
        taints,
    })
}

/// Returns `true` if a node has a sign that it did not have before.
fn has_more(before: &node_notice::Node, now: &node_notice::Node) -> bool {
    let is_new = |taint: &Taint| before.taints.iter().all(|other| other.key != taint.key);
    before.uid != now.uid
        || (now.is_unschedulable && !before.is_unschedulable)
        || now.taints.iter().any(is_new)
}

/// Follows the nodes once a job asks; never ends.
pub(super) async fn follow(context: Arc<Context>) {
    context.nodes.asked.notified().await;
    let nodes: Api<Node> = Api::all(context.client.clone());
    let mut events =
        watching::watch(nodes, watching::config(), context.etcd_restores.follow()).boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => match context.nodes.note(event) {
                News::Nobody => {}
                News::Of(node) => {
                    if tokio::time::timeout(WAKING_MAX, wake_on(&node, &context)).await.is_err() {
                        tracing::debug!(node, "its pods were not listed in time");
                    }
                }
                News::Everybody => wake_askers(&context),
            },
            // The nodes stay as last seen. The watch restarts by itself.
            Err(error) if watching::is_refused(&error) => report_refusal(&error, &context).await,
            Err(_) => {}
        }
    }
}

fn wake_askers(context: &Context) {
    for asker in context.nodes.askers() {
        let (kind, namespace, name) = &asker;
        let is_there = match kind {
            JobKind::FlinkDeployment => {
                context.deployments.wake(namespace, name);
                context.deployments.cached(namespace, name).is_some()
            }
            JobKind::FlinkSessionJob => {
                context.session_jobs.wake(namespace, name);
                context.session_jobs.cached(namespace, name).is_some()
            }
        };
        if !is_there {
            context.nodes.forget(&asker);
        }
    }
}

/// Wakes the jobs that have pods on a node.
async fn wake_on(node: &str, context: &Context) {
    let on_node = format!("spec.nodeName={node},{ALIVE}");
    let params = ListParams::default().labels(COMPONENTS).fields(&on_node).limit(PAGE);
    for scope in context.deployments.namespaces() {
        let pods: Api<Pod> = api(context, scope.as_deref());
        let found = match pods.list_metadata(&params).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(node, error = show(&error), "its pods cannot be listed");
                continue;
            }
        };
        let clusters: BTreeSet<(&str, &str)> = found.items.iter().filter_map(cluster_of).collect();
        for (namespace, name) in clusters {
            context.deployments.wake(namespace, name);
            if let Some(cluster) = context.deployments.cached(namespace, name) {
                wake_jobs_of(&cluster, context);
            }
        }
    }
}

/// Returns the names of the nodes that the pods of a Flink cluster are on.
pub(super) async fn of_pods(
    namespace: &str,
    cluster: &str,
    context: &Context,
) -> Result<BTreeSet<String>, String> {
    let pods: Api<Pod> = api(context, Some(namespace));
    let labels = format!("app={cluster},{COMPONENTS}");
    let mut params = ListParams::default().labels(&labels).fields(ALIVE).limit(PAGE);
    let mut nodes = BTreeSet::new();
    for _ in 0..PAGES_MAX {
        let page = pods.list(&params).await.map_err(|error| show(&error))?;
        nodes.extend(page.items.into_iter().filter_map(|pod| pod.spec?.node_name));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    Ok(nodes)
}

/// Reports to each job that asks, once, that nodes are not watched.
async fn report_refusal(error: &watcher::Error, context: &Context) {
    let reason = show(error);
    let (is_new, uninformed) = context.nodes.refuse(&reason);
    if is_new {
        tracing::warn!(
            error = reason,
            "nodes cannot be read: no job gets a notice before one goes away"
        );
    }
    for (kind, namespace, name) in uninformed {
        match kind {
            JobKind::FlinkDeployment => {
                report_unreadable_nodes::<FlinkDeployment>(&namespace, &name, &reason, context)
                    .await;
            }
            JobKind::FlinkSessionJob => {
                report_unreadable_nodes::<FlinkSessionJob>(&namespace, &name, &reason, context)
                    .await;
            }
        }
    }
}

async fn report_unreadable_nodes<K: Operated>(
    namespace: &str,
    name: &str,
    reason: &str,
    context: &Context,
) {
    let Some(cached) = K::cache(context).cached(namespace, name) else { return };
    let Ok(resource) = &cached.0 else { return };
    let message = format!(
        "`{}` has no effect, because the operator cannot read nodes: allow its service account to \
         get, list and watch nodes, as `rbac.nodesRule.create: true` of the installation does. \
         {reason}",
        SNAPSHOT.key()
    );
    let event = event::Event {
        key: Some("nodes".to_owned()),
        ..event::Event::warning("NodesUnreadable", Component::Operator, message)
    };
    // If recording the event fails, `record_event` logs it.
    let _recorded = Act::new(context, resource.clone()).record_event(event).await;
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(spec: Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n1", "uid": "u"}, "spec": spec}))
            .unwrap()
    }

    fn cordoned() -> Node {
        node(json!({"unschedulable": true}))
    }

    const ASKER: (JobKind, &str, &str) = (JobKind::FlinkDeployment, "shop", "orders");

    #[test]
    fn a_node_with_a_new_sign_is_news_for_those_on_it() {
        let nodes = Nodes::default();
        assert!(nodes.known(ASKER).is_err(), "not listed yet");
        for event in [Event::Init, Event::InitApply(node(json!({})))] {
            assert_eq!(nodes.note(event), News::Nobody);
        }
        assert_eq!(nodes.note(Event::InitDone), News::Everybody);
        assert_eq!(nodes.known(ASKER), Ok(vec![]), "it bears nothing");
        assert_eq!(nodes.note(Event::Apply(cordoned())), News::Of("n1".to_owned()));
        assert_eq!(nodes.note(Event::Apply(cordoned())), News::Nobody, "as it was");
        let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
        let more = node(json!({"unschedulable": true, "taints": [taint]}));
        assert_eq!(nodes.note(Event::Apply(more)), News::Of("n1".to_owned()));
        assert_eq!(nodes.known(ASKER).unwrap()[0].taints.len(), 1);
        assert_eq!(nodes.note(Event::Apply(node(json!({})))), News::Nobody);
        assert_eq!(nodes.known(ASKER), Ok(vec![]), "uncordoned");
        nodes.note(Event::Apply(cordoned()));
        nodes.note(Event::Delete(cordoned()));
        assert_eq!(nodes.known(ASKER), Ok(vec![]), "gone");
    }

    #[test]
    fn each_that_asks_hears_once_that_nodes_may_not_be_read() {
        let nodes = Nodes::default();
        let _asked = nodes.known(ASKER);
        let (is_new, uninformed) = nodes.refuse("forbidden");
        assert_eq!((is_new, uninformed.len()), (true, 1));
        assert_eq!(nodes.known(ASKER), Err("forbidden".to_owned()));
        assert_eq!(nodes.refuse("forbidden"), (false, vec![]));
        let _asked = nodes.known((JobKind::FlinkSessionJob, "shop", "orders"));
        let (is_new, uninformed) = nodes.refuse("forbidden");
        assert_eq!((is_new, uninformed.len()), (false, 1), "one that came later");
    }
}
