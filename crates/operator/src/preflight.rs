//! The pods that try a changed spec: created, checked and removed.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{
    ConfigMap, ContainerState, ContainerStateTerminated, ContainerStatus, Pod,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource, ResourceExt};
use serde_json::Value;
use tokio::time::sleep;

use super::act::Error;
use super::context::Context;
use super::objects::{NO_DRY_RUN, QUOTA, TRIED};
use super::observe::{self, Subject, show};
use super::pods::{self, MAIN_CONTAINER, OOM_KILLED};
use super::resource::Act;
use super::standby::{self, HASH_LABEL};
use api::deployment::FlinkDeployment;
use api::{PREFLIGHT_ANNOTATION, STANDBY_ANNOTATION, TEMPLATE_HASH_ANNOTATION};
use clients::cluster;
use clients::cluster::apply::{self, Deletion, ObjectId, Propagation, Writer};
use clients::cluster::pods::is_ready;
use clients::cluster::read::{self, Scope};
use config::quantity;
use lifecycle::crash;
use lifecycle::world::{PodProblem, PreflightPod, PreflightPods, PreflightState, UNTRIABLE};
use render::preflight::{Preflight, ROLE_LABEL};

/// Number of attempts to find the ReplicaSet of a Deployment, and the pause between two.
const HASH_TRIES: usize = 100;
const HASH_PAUSE: Duration = Duration::from_millis(50);
/// Waiting reasons of a container that is starting.
const ON_ITS_WAY: [&str; 2] = ["PodInitializing", "ContainerCreating"];
/// Waiting reasons of a container beside Flink of which only the image matters: what it runs is not in every image.
const OF_IMAGE: [&str; 5] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
];

/// Returns the state of the pods, and whether those that are missing can be created.
pub(super) async fn known(
    wanted: &Preflight,
    subject: &Subject<'_>,
    context: &Context,
) -> Result<PreflightPods, cluster::Error> {
    let uid = subject.resource.metadata.uid.as_deref().unwrap_or_default();
    let mut known = PreflightPods::default();
    for pod in &of_cluster::<Pod>(subject.namespace(), subject.name(), uid, context).await? {
        let mut seen = seen(pod);
        if seen.state == PreflightState::Pending && pods::waits_for_volumes(pod) {
            let problem = observe::failed_mount(subject.namespace(), &seen.name, context).await?;
            seen.state = problem.map_or(PreflightState::Pending, PreflightState::Troubled);
        }
        known.pods.push(seen);
    }
    let is_missing =
        |pod: &&Value| !known.pods.iter().any(|seen| pod["metadata"]["name"] == *seen.name);
    let missing: Vec<&Value> = wanted.pods.iter().filter(is_missing).collect();
    if missing.is_empty() && !wanted.pods.is_empty() {
        return Ok(known);
    }
    for pod in &wanted.as_deployed {
        let Some(refusal) = refused(pod, context).await? else { continue };
        let is_over = match refusal {
            // The controllers of Kubernetes create it, under another name.
            Refused::NotAllowed(_) | Refused::Name(_) => continue,
            Refused::Quota(ref message) => {
                let old = observe::pods_of(subject.namespace(), subject.name(), context).await?;
                is_over_without(message, &old, &wanted.as_deployed)
            }
            Refused::Pod(_) => true,
        };
        if is_over {
            let reason = "FailedCreate".to_owned();
            known.refusal = Some(PodProblem { reason, message: refusal.into_text() });
            return Ok(known);
        }
    }
    for pod in missing {
        if let Some(refusal) = refused(pod, context).await? {
            let reason = UNTRIABLE.to_owned();
            known.refusal = Some(PodProblem { reason, message: refusal.into_text() });
            break;
        }
    }
    Ok(known)
}

/// Why the API server would reject a pod.
#[derive(Debug, Eq, PartialEq)]
enum Refused {
    /// The operator may not create pods.
    NotAllowed(String),
    /// A pod of this name exists.
    Name(String),
    Quota(String),
    Pod(String),
}

impl Refused {
    /// Returns `None` if the reason is not known.
    fn of(error: &cluster::Error) -> Option<Self> {
        let text = show(error);
        match error {
            _ if text.contains(NO_DRY_RUN) => None,
            cluster::Error::Forbidden { .. } => Some(Self::NotAllowed(text)),
            cluster::Error::AlreadyExists { .. } => Some(Self::Name(text)),
            _ if text.contains(QUOTA) => Some(Self::Quota(text)),
            _ => Some(Self::Pod(text)),
        }
    }

    fn into_text(self) -> String {
        match self {
            Self::NotAllowed(text) | Self::Name(text) | Self::Quota(text) | Self::Pod(text) => text,
        }
    }
}

/// Returns why the API server would reject the pod, by a dry run.
async fn refused(pod: &Value, context: &Context) -> Result<Option<Refused>, cluster::Error> {
    match apply::create(&context.client, pod, TRIED).await {
        Ok(_) => Ok(None),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok(Refused::of(&error)),
    }
}

impl Act<'_, FlinkDeployment> {
    pub(super) async fn make_preflight(&self, preflight: Preflight) -> Result<(), Error> {
        let mut objects = preflight.config_maps;
        for object in &preflight.files {
            objects.push(self.context.files.fill(object).await?);
        }
        for object in &objects {
            match apply::create(&self.context.client, object, Writer::OPERATOR).await {
                // It was created for another spec, before a crash.
                Err(cluster::Error::AlreadyExists { .. }) => self.replace(object).await?,
                other => drop(other?),
            }
        }
        let mut pods = preflight.pods;
        for deployment in &preflight.deployments {
            let role = &deployment["spec"]["template"]["metadata"]["labels"]["component"];
            let hash = self.template_hash(deployment).await?;
            for pod in pods.iter_mut().filter(|pod| pod["metadata"]["labels"][ROLE_LABEL] == *role)
            {
                pod["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION] = hash.clone().into();
            }
        }
        for pod in &pods {
            match apply::create(&self.context.client, pod, Writer::OPERATOR).await {
                // The next pass sees whether it is another one.
                Ok(_) | Err(cluster::Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub(super) async fn remove_preflight(&self) -> Result<(), Error> {
        let (namespace, name) = (self.namespace(), self.resource.name_any());
        let pods: Vec<Pod> = of_cluster(&namespace, &name, &self.uid, self.context).await?;
        for pod in standby::job_managers_first(&pods) {
            self.remove_object(pod).await?;
        }
        for map in of_cluster::<ConfigMap>(&namespace, &name, &self.uid, self.context).await? {
            self.remove_object(&map).await?;
        }
        Ok(())
    }

    /// Returns the label with which the ReplicaSet of such a Deployment will identify its pods. A Deployment without
    /// replicas reveals it, and is removed before there are pods that it could take for its own.
    async fn template_hash(&self, deployment: &Value) -> Result<Option<String>, Error> {
        let (client, namespace) = (&self.context.client, self.namespace());
        match apply::create(client, deployment, Writer::OPERATOR).await {
            Ok(_) | Err(cluster::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let labels = deployment["spec"]["template"]["metadata"]["labels"].as_object();
        let selector: Vec<String> = labels
            .into_iter()
            .flatten()
            .filter_map(|(label, value)| Some(format!("{label}={}", value.as_str()?)))
            .collect();
        let (selector, name) = (selector.join(","), deployment["metadata"]["name"].as_str());
        let is_its = |set: &&ReplicaSet| {
            set.owner_references().iter().any(|owner| Some(owner.name.as_str()) == name)
        };
        let mut hash = None;
        for _ in 0..HASH_TRIES {
            let sets: Vec<ReplicaSet> =
                read::list(client, Scope::Namespace(&namespace), Some(&selector)).await?;
            hash = sets.iter().find(is_its).and_then(|set| set.labels().get(HASH_LABEL)).cloned();
            if hash.is_some() {
                break;
            }
            sleep(HASH_PAUSE).await;
        }
        let id = ObjectId::in_manifest(deployment)?;
        apply::delete(client, &id, Deletion::with(Propagation::Background)).await?;
        Ok(hash)
    }
}

/// Lists what was created for the resource with this uid.
pub(super) async fn of_cluster<K>(
    namespace: &str,
    name: &str,
    uid: &str,
    context: &Context,
) -> Result<Vec<K>, cluster::Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let selector = Preflight::selector(name);
    let mut found: Vec<K> =
        read::list(&context.client, Scope::Namespace(namespace), Some(&selector)).await?;
    found.retain(|object| object.owner_references().iter().any(|owner| owner.uid == uid));
    Ok(found)
}

fn seen(pod: &Pod) -> PreflightPod {
    PreflightPod {
        name: pod.name_any(),
        digest: pod.annotations().get(PREFLIGHT_ANNOTATION).cloned().unwrap_or_default(),
        created: pod.creation_timestamp().map(|Time(at)| at),
        state: state(pod),
    }
}

fn state(pod: &Pod) -> PreflightState {
    let status = pod.status.clone().unwrap_or_default();
    let is_standby = pod.annotations().contains_key(STANDBY_ANNOTATION);
    if is_standby && is_ready(pod) {
        return PreflightState::Passed;
    }
    let is_over = status.phase.as_deref() == Some("Failed");
    if is_over || pod.metadata.deletion_timestamp.is_some() {
        return PreflightState::Over;
    }
    let of_init = status.init_container_statuses.unwrap_or_default();
    let of_pod = status.container_statuses.unwrap_or_default();
    let (main, beside): (Vec<_>, Vec<_>) =
        of_pod.iter().partition(|container| container.name == MAIN_CONTAINER);
    let trouble = of_init.iter().chain(main.iter().copied()).find_map(problem);
    let trouble = trouble.or_else(|| beside.iter().find_map(|container| image_problem(container)));
    let conditions = status.conditions.as_deref().unwrap_or_default();
    if let Some(problem) = trouble.or_else(|| pods::unschedulable(conditions)) {
        return PreflightState::Troubled(problem);
    }
    let has_passed = !is_standby
        && main.iter().any(|main| {
            let ended = main.state.as_ref().and_then(|state| state.terminated.as_ref());
            ended.is_some_and(|ended| ended.exit_code == 0)
        });
    if has_passed && beside.iter().all(|container| has_image(container)) {
        PreflightState::Passed
    } else {
        PreflightState::Pending
    }
}

/// Returns `true` if the image of the container is there, whatever becomes of what it runs.
fn has_image(container: &ContainerStatus) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
    !container.image_id.is_empty() || reason.is_some_and(|reason| !ON_ITS_WAY.contains(&reason))
}

/// Returns what keeps a container from running, or made it fail.
fn problem(container: &ContainerStatus) -> Option<PodProblem> {
    let state = container.state.as_ref()?;
    let last = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let failed = |ended: &&ContainerStateTerminated| ended.exit_code != 0;
    if let Some(ended) = state.terminated.as_ref().or(last).filter(failed) {
        let words = ended.message.as_deref().and_then(crash::cause_of_exit);
        let reason = match ended.reason.as_deref() {
            // The check has less memory than Flink, and options that every JVM reads are for Flink's.
            Some(OOM_KILLED) if container.name == MAIN_CONTAINER => UNTRIABLE,
            Some(reason) => reason,
            None => "Error",
        };
        let reason = reason.to_owned();
        let words = words.unwrap_or_else(|| format!("exit code {}", ended.exit_code));
        return Some(PodProblem { reason, message: format!("[{}] {words}", container.name) });
    }
    let waiting = state.waiting.as_ref()?;
    let reason = waiting.reason.clone().filter(|it| !ON_ITS_WAY.contains(&it.as_str()))?;
    Some(problem_of(container, reason, state))
}

/// Like [`problem`], for a container that runs beside Flink.
fn image_problem(container: &ContainerStatus) -> Option<PodProblem> {
    let state = container.state.as_ref()?;
    let reason = state.waiting.as_ref()?.reason.clone()?;
    OF_IMAGE.contains(&reason.as_str()).then(|| problem_of(container, reason, state))
}

fn problem_of(container: &ContainerStatus, reason: String, state: &ContainerState) -> PodProblem {
    pods::container_problem(container).unwrap_or_else(|| {
        let message = state.waiting.as_ref().and_then(|waiting| waiting.message.clone());
        let message = message.unwrap_or_else(|| reason.clone());
        PodProblem { reason, message: format!("[{}] {message}", container.name) }
    })
}

/// Returns `true` if a quota would be exceeded even after the running pods have made room for the new ones, according
/// to the API server's message: `exceeded quota: NAME, requested: R=1, used: R=2, limited: R=2`.
fn is_over_without(message: &str, old: &[Pod], new: &[Value]) -> bool {
    let amounts = |part: &str| -> BTreeMap<String, f64> {
        let rest = message.split_once(&format!("{part}: ")).map_or("", |(_, rest)| rest);
        let list = rest.split(", ").next().unwrap_or_default().trim_end_matches('"');
        let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
        pairs.filter_map(|(name, text)| Some((name.to_owned(), quantity::parse(text)?))).collect()
    };
    let (used, limited) = (amounts("used"), amounts("limited"));
    let new: Vec<Pod> =
        new.iter().filter_map(|pod| serde_json::from_value(pod.clone()).ok()).collect();
    let sum = |pods: &[Pod], name: &str| pods.iter().map(|pod| amount(pod, name)).sum::<f64>();
    limited.iter().any(|(name, limit)| {
        let used = used.get(name).copied().unwrap_or_default();
        used - sum(old, name) + sum(&new, name) > *limit
    })
}

/// Returns how much of a quota's resource a pod takes.
fn amount(pod: &Pod, name: &str) -> f64 {
    if ["pods", "count/pods"].contains(&name) {
        return 1.0;
    }
    let (is_limit, name) = match name.split_once('.') {
        Some(("limits", name)) => (true, name),
        Some(("requests", name)) => (false, name),
        Some(_) | None => (false, name),
    };
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let amounts = containers.filter_map(|container| {
        let resources = container.resources.as_ref()?;
        let of = if is_limit { &resources.limits } else { &resources.requests };
        let Quantity(text) = of.as_ref()?.get(name)?;
        quantity::parse(text)
    });
    amounts.sum()
}

#[cfg(test)]
mod tests;
