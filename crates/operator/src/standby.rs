//! The pods of a hot upgrade that stand by to take over a cluster: looked up, handed over, removed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::act::Error;
use super::context::Context;
use super::observe::{self, Subject};
use super::preflight::of_cluster;
use super::resource::Act;
use api::deployment::FlinkDeployment;
use api::job::JobState;
use api::status::ReconciliationState;
use api::{PREFLIGHT_ANNOTATION, STANDBY_ANNOTATION, TEMPLATE_HASH_ANNOTATION};
use clients::cluster;
use clients::cluster::apply::{self, Deletion, ObjectId, Propagation, Writer};
use lifecycle::notes::standby_of;
use lifecycle::world::{Leader, StandbyPod};
use render::Objects;
use render::names;
use render::preflight::ROLE_LABEL;

/// Label with which a ReplicaSet identifies the pods of its template.
pub(super) const HASH_LABEL: &str = "pod-template-hash";
/// Label of a cluster's pods: their role.
const COMPONENT_LABEL: &str = "component";

/// Returns `true` if the pod belongs to the run that takes over the cluster now.
pub(super) fn takes_over(pod: &Pod, subject: &Subject<'_>) -> bool {
    let FlinkDeployment { metadata, spec, .. } = subject.resource;
    let status = subject.status;
    let is_wanted = spec.job.as_ref().is_some_and(|job| job.state == JobState::Running)
        && status.reconciliation_status.state == ReconciliationState::Upgrading
        && metadata.deletion_timestamp.is_none();
    let run = standby_of(&status.cluster_info).map(|standby| standby.run);
    is_wanted && run.is_some() && pod.annotations().get(STANDBY_ANNOTATION) == run.as_ref()
}

/// Returns the pods that stand by, and those that were handed over and have the resource as their owner still.
pub(super) async fn known(
    subject: &Subject<'_>,
    context: &Context,
) -> Result<Vec<StandbyPod>, cluster::Error> {
    let uid = subject.resource.metadata.uid.as_deref().unwrap_or_default();
    let pods = pods(subject.namespace(), subject.name(), uid, context).await?;
    Ok(pods.iter().map(seen).collect())
}

async fn pods(
    namespace: &str,
    name: &str,
    uid: &str,
    context: &Context,
) -> Result<Vec<Pod>, cluster::Error> {
    let mut pods: Vec<Pod> = of_cluster(namespace, name, uid, context).await?;
    let handed_over = observe::pods_of(namespace, name, context).await?;
    let is_owned = |pod: &Pod| pod.owner_references().iter().any(|owner| owner.uid == uid);
    pods.extend(handed_over.into_iter().filter(is_owned));
    pods.retain(|pod| pod.annotations().contains_key(STANDBY_ANNOTATION));
    Ok(pods)
}

fn seen(pod: &Pod) -> StandbyPod {
    StandbyPod {
        name: pod.name_any(),
        run: pod.annotations().get(STANDBY_ANNOTATION).cloned().unwrap_or_default(),
        is_job_manager: is_job_manager(pod),
        is_handed_over: pod.labels().contains_key(COMPONENT_LABEL),
        is_adopted: has_controller(pod),
        ending_since: pod.metadata.deletion_timestamp.as_ref().map(|at| at.0),
    }
}

fn is_job_manager(pod: &Pod) -> bool {
    let role = pod.labels().get(COMPONENT_LABEL).or_else(|| pod.labels().get(ROLE_LABEL));
    role.is_some_and(|role| role == names::JOB_MANAGER)
}

fn has_controller(pod: &Pod) -> bool {
    pod.owner_references().iter().any(|owner| owner.controller == Some(true))
}

/// Returns who holds the lock of the cluster's JobManagers. A leader publishes the address of its pod.
pub(super) async fn leader(
    subject: &Subject<'_>,
    context: &Context,
) -> Result<Leader, cluster::Error> {
    let (holder, published) = subject.ha_place(context).leader().await?;
    match holder {
        Some(leader) => return Ok(leader),
        None if published.is_empty() => return Ok(Leader::Unproven),
        None => {}
    }
    let ips = job_managers(subject, context).await?;
    Ok(if published.iter().any(|ip| ips.contains(ip)) { Leader::Standby } else { Leader::Other })
}

/// Returns the IP addresses of the JobManager of the run that stands by.
pub(super) async fn job_managers(
    subject: &Subject<'_>,
    context: &Context,
) -> Result<Vec<IpAddr>, cluster::Error> {
    let run = standby_of(&subject.status.cluster_info).map(|standby| standby.run);
    let uid = subject.resource.metadata.uid.as_deref().unwrap_or_default();
    let pods = pods(subject.namespace(), subject.name(), uid, context).await?;
    let is_of_run = |pod: &&Pod| {
        is_job_manager(pod)
            && run.is_some()
            && pod.annotations().get(STANDBY_ANNOTATION) == run.as_ref()
    };
    Ok(pods.iter().filter(is_of_run).flat_map(ips).collect())
}

fn ips(pod: &Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else { return Vec::new() };
    let others = status.pod_ips.iter().flatten().map(|it| &it.ip);
    status.pod_ip.iter().chain(others).filter_map(|ip| ip.parse().ok()).collect()
}

impl Act<'_, FlinkDeployment> {
    /// Hands standby pods over to the Deployments that are about to be created: gives them the labels with which the
    /// ReplicaSets of these will identify pods, so that they adopt them and create none. The resource stays their owner
    /// until [`Self::disown_standby`]: without one, they would outlive the resource if there never are Deployments.
    /// The ConfigMap that the pods mount goes to the JobManager's Deployment, see [`Self::own_config_of_standby`].
    pub(super) async fn hand_over_standby(
        &self,
        objects: &Objects,
        digest: &str,
    ) -> Result<(), Error> {
        let (namespace, name) = (self.namespace(), self.resource.name_any());
        let standing: Vec<Pod> = of_cluster(&namespace, &name, &self.uid, self.context).await?;
        for deployment in [&objects.deployment].into_iter().chain(&objects.task_managers) {
            let labels = &deployment["spec"]["template"]["metadata"]["labels"];
            let is_of_role = |pod: &&Pod| {
                pod.annotations().get(PREFLIGHT_ANNOTATION).is_some_and(|it| it == digest)
                    && pod.labels().get(ROLE_LABEL).map(String::as_str)
                        == labels[COMPONENT_LABEL].as_str()
            };
            for pod in standing.iter().filter(is_of_role) {
                let Some(hash) = pod.annotations().get(TEMPLATE_HASH_ANNOTATION) else { continue };
                let id = ObjectId::of::<Pod>(&namespace, &pod.name_any());
                let patch = handed_over(pod, labels, hash);
                apply::amend(&self.context.client, &id, &patch, Writer::OPERATOR).await?;
            }
        }
        Ok(())
    }

    /// Gives the ConfigMap of standby pods to the JobManager's Deployment, once that has the pods.
    pub(super) async fn own_config_of_standby(&self, objects: &Objects) -> Result<(), Error> {
        let (namespace, name) = (self.namespace(), self.resource.name_any());
        let Some(own) = objects.config_maps.first().map(|map| &map["metadata"]) else {
            return Ok(());
        };
        let standing: Vec<Pod> = of_cluster(&namespace, &name, &self.uid, self.context).await?;
        if !standing.is_empty() {
            return Ok(());
        }
        for map in of_cluster::<ConfigMap>(&namespace, &name, &self.uid, self.context).await? {
            let id = ObjectId::of::<ConfigMap>(&namespace, &map.name_any());
            let labels = replaced(map.labels(), &own["labels"]);
            let patch = json!({"metadata": {
                "uid": map.uid(), "labels": labels, "ownerReferences": own["ownerReferences"],
            }});
            apply::amend(&self.context.client, &id, &patch, Writer::OPERATOR).await?;
        }
        Ok(())
    }

    /// Removes the resource from the owners of pods that have a controller. With two owners, they would outlive the
    /// deletion of their Deployment.
    pub(super) async fn disown_standby(&self) -> Result<(), Error> {
        let (namespace, name) = (self.namespace(), self.resource.name_any());
        for pod in pods(&namespace, &name, &self.uid, self.context).await? {
            if !has_controller(&pod) {
                continue;
            }
            let id = ObjectId::of::<Pod>(&namespace, &pod.name_any());
            let patch = disowned(&pod, &self.uid);
            match apply::amend(&self.context.client, &id, &patch, Writer::OPERATOR).await {
                Ok(_) | Err(cluster::Error::Conflict { .. } | cluster::Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Removes standby pods, also those that were handed over, except for those of one run. A JobManager that leads must
    /// not see its TaskManagers go, so these go once it has ended.
    pub(super) async fn remove_standby(&self, except: Option<&str>) -> Result<(), Error> {
        let (namespace, name) = (self.namespace(), self.resource.name_any());
        let run =
            |pod: &Pod| pod.annotations().get(STANDBY_ANNOTATION).cloned().unwrap_or_default();
        let mut pods = pods(&namespace, &name, &self.uid, self.context).await?;
        pods.retain(|pod| Some(run(pod).as_str()) != except);
        for map in of_cluster::<ConfigMap>(&namespace, &name, &self.uid, self.context).await? {
            if pods.iter().any(|pod| map.name_any().ends_with(&format!("-{}", run(pod)))) {
                self.remove_object(&map).await?;
            }
        }
        for pod in job_managers_first(&pods) {
            self.remove_object(pod).await?;
        }
        Ok(())
    }

    pub(super) async fn remove_object<K>(&self, object: &K) -> Result<(), Error>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        let metadata = object.meta();
        if metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let name = metadata.name.as_deref().unwrap_or_default();
        let id = ObjectId::of::<K>(&self.namespace(), name);
        let deletion =
            Deletion { uid: metadata.uid.as_deref(), ..Deletion::with(Propagation::Background) };
        match apply::delete(&self.context.client, &id, deletion).await {
            Ok(_) | Err(cluster::Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the pods to remove now: standby JobManagers while there are any, and all others after that.
pub(super) fn job_managers_first(pods: &[Pod]) -> impl Iterator<Item = &Pod> {
    let is_standby = |pod: &Pod| pod.annotations().contains_key(STANDBY_ANNOTATION);
    let is_leading = move |pod: &Pod| is_standby(pod) && is_job_manager(pod);
    let waits = pods.iter().any(is_leading);
    pods.iter().filter(move |pod| !waits || is_leading(pod))
}

/// Returns the patch that gives a pod the labels of a ReplicaSet's pods, and leaves its owners as they are. One without
/// a controller is adopted.
fn handed_over(pod: &Pod, labels: &Value, hash: &str) -> Value {
    let mut labels = labels.clone();
    labels[HASH_LABEL] = hash.into();
    json!({"metadata": {"uid": pod.uid(), "labels": replaced(pod.labels(), &labels)}})
}

/// Returns the patch that removes an owner, in this version of the pod: its owners may be changing.
fn disowned(pod: &Pod, owner: &str) -> Value {
    let mut owners = pod.owner_references().to_vec();
    owners.retain(|it| it.uid != owner);
    json!({"metadata": {
        "uid": pod.uid(), "resourceVersion": pod.resource_version(), "ownerReferences": owners,
    }})
}

/// Returns a patch that replaces the old labels by the new ones.
pub(super) fn replaced(old: &BTreeMap<String, String>, new: &Value) -> Value {
    let gone = old.keys().map(|label| (label.clone(), Value::Null));
    let mut labels: Map<String, Value> = gone.collect();
    labels.extend(new.as_object().cloned().unwrap_or_default());
    labels.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, labels: &Value, owners: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {
            "name": name, "uid": "p1", "resourceVersion": "7", "labels": labels,
            "ownerReferences": owners, "annotations": {STANDBY_ANNOTATION: "2-1"},
        }}))
        .unwrap()
    }

    fn owner(uid: &str, is_controller: bool) -> Value {
        json!({"apiVersion": "v1", "kind": "Owner", "name": uid, "uid": uid, "controller": is_controller})
    }

    #[test]
    fn a_pod_keeps_the_resource_as_its_owner_until_it_is_adopted() {
        let standing = pod("a", &json!({ROLE_LABEL: "jobmanager"}), &json!([owner("u1", false)]));
        let patch =
            handed_over(&standing, &json!({"app": "orders", "component": "jobmanager"}), "5d4");
        let labels = json!({"app": "orders", "component": "jobmanager", HASH_LABEL: "5d4", ROLE_LABEL: null});
        assert_eq!(patch, json!({"metadata": {"uid": "p1", "labels": labels}}));

        let owners = json!([owner("u1", false), owner("r1", true)]);
        let labels = json!({"component": "jobmanager"});
        let adopted = pod("a", &labels, &owners);
        let seen = seen(&adopted);
        assert!(seen.is_handed_over && seen.is_adopted && seen.is_job_manager, "{seen:?}");
        let patch = disowned(&adopted, "u1");
        assert_eq!(patch["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
        assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "r1");
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn job_managers_that_stand_by_are_removed_before_task_managers() {
        let role = |role: &str| json!({ROLE_LABEL: role});
        let pods = ["jobmanager", "taskmanager"].map(|it| pod(it, &role(it), &json!([])));
        let names =
            |pods: &[Pod]| job_managers_first(pods).map(ResourceExt::name_any).collect::<Vec<_>>();
        assert_eq!(names(&pods), ["jobmanager"]);
        assert_eq!(names(&pods[1..]), ["taskmanager"]);
    }
}
