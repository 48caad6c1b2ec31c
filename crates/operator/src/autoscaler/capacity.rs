//! The free room on the cluster's nodes, read once per interval and never written: what the nodes can take, what the
//! pods on them request, and what a cluster autoscaler may add.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Container, Node, Pod as ClusterPod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;

use autoscaler::capacity::{self, Capacity};
use autoscaler::cost::Pod;
use config::memory::MemorySize;
use config::quantity;

use crate::watching::is_refusal;

/// Number of objects in one request, and maximum number of requests for one kind.
const PAGE: u32 = 500;
const PAGES_MAX: usize = 400;
/// Maximum time to read everything.
const READING_MAX: Duration = Duration::from_secs(30);
/// Time until the next attempt after a failed read.
const RETRY_AFTER: Duration = Duration::from_mins(1);
/// Minimum interval between lists of nodes, whatever is configured.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The status of the Kubernetes cluster autoscaler, and the label of the groups that it scales.
const STATUS_NAMESPACE: &str = "kube-system";
const STATUS_NAME: &str = "cluster-autoscaler-status";
const GROUP_LABEL: &str = "eks.amazonaws.com/nodegroup";
/// Prefix of the taints of nodes that are not ready, or short of something.
const UNFIT_PREFIX: &str = "node.kubernetes.io/";
/// Selects the pods that take room on a node.
const ON_NODES: &str = "spec.nodeName!=,status.phase!=Failed,status.phase!=Succeeded";

/// The nodes as they were last read.
#[derive(Default)]
pub(super) struct View {
    /// When they were last read, or could not be.
    at: Option<Instant>,
    /// `None` if no job needs it, or if it may not be read.
    pub(super) known: Option<Arc<Result<Capacity, String>>>,
    is_refusal_told: bool,
}

/// Why the nodes are not known.
enum Unread {
    /// They may not be read.
    Refused(String),
    Failed(String),
}

impl View {
    /// Reads the nodes if that is due. Returns why they may not be read, the first time.
    pub(super) async fn refresh(
        &mut self,
        interval: Option<Duration>,
        client: &Client,
    ) -> Option<String> {
        let Some(interval) = interval.map(|interval| interval.max(INTERVAL_MIN)) else {
            (self.at, self.known) = (None, None);
            return None;
        };
        let is_unread = self.known.as_deref().is_some_and(Result::is_err);
        let pause = if is_unread { interval.min(RETRY_AFTER) } else { interval };
        if self.at.is_some_and(|at| at.elapsed() < pause) {
            return None;
        }
        let read = tokio::time::timeout(READING_MAX, read(client)).await;
        self.at = Some(Instant::now());
        match read {
            Ok(Ok(capacity)) => self.known = Some(Arc::new(Ok(capacity))),
            Ok(Err(Unread::Failed(reason))) => self.known = Some(Arc::new(Err(reason))),
            Err(_) => {
                self.known = Some(Arc::new(Err(format!("no answer within {READING_MAX:?}"))));
            }
            Ok(Err(Unread::Refused(reason))) => {
                self.known = None;
                let is_reported = std::mem::replace(&mut self.is_refusal_told, true);
                return (!is_reported).then_some(reason);
            }
        }
        None
    }

    /// Notes the room that a decision leaves, if what it was based on is still true.
    pub(super) fn take(
        &mut self,
        seen: Option<&Arc<Result<Capacity, String>>>,
        left: &Capacity,
    ) -> bool {
        let is_same =
            self.known.as_ref().zip(seen).is_some_and(|(known, seen)| Arc::ptr_eq(known, seen));
        if is_same {
            self.known = Some(Arc::new(Ok(left.clone())));
        }
        is_same
    }
}

async fn read(client: &Client) -> Result<Capacity, Unread> {
    let mut nodes = HashMap::new();
    let mut order = Vec::new();
    each(Api::<Node>::all(client.clone()), ListParams::default(), |node| {
        if let Some(fit) = fit(&node) {
            order.push(node.name_any());
            nodes.insert(node.name_any(), fit);
        }
    })
    .await?;
    let on_nodes = ListParams::default().fields(ON_NODES);
    each(Api::<ClusterPod>::all(client.clone()), on_nodes, |pod| {
        let name = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        if let Some(node) = name.and_then(|name| nodes.get_mut(name)) {
            node.used = sum(node.used, requests(&pod));
        }
    })
    .await?;
    let status: Api<ConfigMap> = Api::namespaced(client.clone(), STATUS_NAMESPACE);
    let status = status.get_opt(STATUS_NAME).await.map_err(unread)?;
    let status = status.and_then(|status| status.data?.remove("status")).unwrap_or_default();
    let nodes = order.iter().filter_map(|name| nodes.remove(name)).collect();
    Ok(Capacity(nodes).with_future_nodes(&capacity::group_sizes(&status)))
}

/// Passes all objects of a kind to `inspect`, a page at a time.
async fn each<K>(api: Api<K>, params: ListParams, mut inspect: impl FnMut(K)) -> Result<(), Unread>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut params = params.limit(PAGE);
    for _ in 0..PAGES_MAX {
        let page = api.list(&params).await.map_err(unread)?;
        page.items.into_iter().for_each(&mut inspect);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
    Err(Unread::Failed(format!("there are more than {PAGES_MAX} pages of {PAGE} objects")))
}

#[allow(clippy::needless_pass_by_value, reason = "an error is handed over")]
fn unread(error: kube::Error) -> Unread {
    let reason = crate::observe::show(&error);
    if is_refusal(&error) { Unread::Refused(reason) } else { Unread::Failed(reason) }
}

/// Returns a node that accepts pods; `None` if it is cordoned or not healthy. Other taints may be tolerated.
fn fit(node: &Node) -> Option<capacity::Node> {
    let spec = node.spec.as_ref();
    let is_cordoned = spec.and_then(|spec| spec.unschedulable) == Some(true);
    let mut taints = spec.into_iter().flat_map(|spec| spec.taints.iter().flatten());
    let is_unfit = taints
        .any(|taint| taint.key.starts_with(UNFIT_PREFIX) && taint.effect != "PreferNoSchedule");
    if is_cordoned || is_unfit {
        return None;
    }
    let allocatable = node.status.as_ref()?.allocatable.as_ref()?;
    let amount = |name: &str| allocatable.get(name);
    Some(capacity::Node {
        group: node.labels().get(GROUP_LABEL).cloned(),
        allocatable: Pod {
            cpu_millis: scaled(amount("cpu")?, 1000.0, f64::floor),
            memory: MemorySize(scaled(amount("memory")?, 1.0, f64::floor)),
        },
        used: Pod::default(),
    })
}

/// Returns the requests that the scheduler counts: containers and sidecars together, or the peak of the init
/// containers, and the overhead.
fn requests(pod: &ClusterPod) -> Pod {
    let Some(spec) = &pod.spec else { return Pod::default() };
    let mut sidecars = Pod::default();
    let mut starting = Pod::default();
    for container in spec.init_containers.iter().flatten() {
        let request = request(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sum(sidecars, request);
            starting = larger(starting, sidecars);
        } else {
            starting = larger(starting, sum(sidecars, request));
        }
    }
    let running = spec.containers.iter().map(request).fold(sidecars, sum);
    let all = larger(running, starting);
    spec.overhead.as_ref().map_or(all, |overhead| sum(all, amounts(|name| overhead.get(name))))
}

fn request(container: &Container) -> Pod {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    amounts(|name| requests?.get(name))
}

fn amounts<'a>(of: impl Fn(&str) -> Option<&'a Quantity>) -> Pod {
    let amount = |name: &str, scale| of(name).map_or(0, |of| scaled(of, scale, f64::ceil));
    Pod { cpu_millis: amount("cpu", 1000.0), memory: MemorySize(amount("memory", 1.0)) }
}

/// Anything that is not a number counts as 0; a cast from float saturates.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn scaled(quantity: &Quantity, scale: f64, round: fn(f64) -> f64) -> u64 {
    round(quantity::parse(&quantity.0).unwrap_or_default() * scale) as u64
}

fn sum(one: Pod, other: Pod) -> Pod {
    Pod {
        cpu_millis: one.cpu_millis.saturating_add(other.cpu_millis),
        memory: MemorySize(one.memory.bytes().saturating_add(other.memory.bytes())),
    }
}

fn larger(one: Pod, other: Pod) -> Pod {
    Pod { cpu_millis: one.cpu_millis.max(other.cpu_millis), memory: one.memory.max(other.memory) }
}

#[cfg(test)]
mod tests;
