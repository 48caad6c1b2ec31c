//! The objects of a cluster: creates, completes and replaces them, and tries them before anything is stopped for them.

use std::fmt;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::act::Error;
use super::context::Context;
use super::kind::Operated;
use super::observe::show;
use super::resource::Act;
use api::deployment::FlinkDeployment;
use clients::cluster;
use clients::cluster::apply::{self, Deletion, ObjectId, Writer};
use lifecycle::event::{Component, Event};
use lifecycle::notes::standby_of;
use render::files::FileObject;
use render::{Objects, names};

/// Writes in a dry run: the API server checks the object and stores nothing.
pub(super) const TRIED: Writer<'static> = Writer { is_dry_run: true, ..Writer::OPERATOR };

/// Text of an API server's rejection that names a quota.
pub(super) const QUOTA: &str = "exceeded quota";
/// Text of a rejection by a webhook that does not support dry runs.
pub(super) const NO_DRY_RUN: &str = "does not support dry run";

/// An object beside a running JobManager that the API server rejected.
pub(super) struct Unfinished {
    /// Uid of the JobManager's Deployment.
    pub(super) uid: String,
    pub(super) refusal: Error,
}

impl Act<'_, FlinkDeployment> {
    /// Creates the objects of a cluster. ConfigMaps and Secrets come first, so that no pod waits for one. They get
    /// their owner, the Deployment, once it exists, and have the Deployment's own owner until then, so that a resource
    /// that is deleted meanwhile leaves none behind. A Deployment that already exists is left to the next pass: this
    /// pass has not created a cluster. Its intention stays on record, so that the next pass completes the cluster, or
    /// reports that it belongs to someone else.
    pub(super) async fn create_cluster(
        &mut self,
        objects: Objects,
    ) -> Result<Option<Unfinished>, Error> {
        let client = &self.context.client;
        if self.resource.spec.job.is_none() {
            // The leadership of an application's JobManager has ended with its graph.
            self.end_leadership().await?;
        }
        let mut first = objects.config_maps.clone();
        for object in &objects.file_objects {
            first.push(self.context.files.fill(object).await?);
        }
        for mut map in first {
            map["metadata"]["ownerReferences"] =
                objects.deployment["metadata"]["ownerReferences"].clone();
            let map = &map;
            match apply::create(client, map, Writer::OPERATOR).await {
                Ok(_) => {}
                Err(cluster::Error::AlreadyExists { .. }) => {
                    if self.find_deployment().await?.is_some() {
                        // Its JobManager would start with another job's configuration.
                        return Err(Error::Raced);
                    }
                    self.replace(map).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(standby) = standby_of(&self.stored.cluster_info) {
            self.hand_over_standby(&objects, &standby.digest).await?;
        }
        let deployment = match apply::create(client, &objects.deployment, Writer::OPERATOR).await {
            Ok(deployment) => deployment,
            Err(error @ cluster::Error::AlreadyExists { .. }) => {
                tracing::debug!(error = show(&error), "looking at the Deployment that is there");
                return Err(Error::Raced);
            }
            Err(error) => return Err(error.into()),
        };
        self.context.note_sighting(&self.uid, &deployment);
        let uid = deployment.uid.unwrap_or_default();
        self.add_belongings(objects, uid).await
    }

    async fn find_deployment(&self) -> Result<Option<Deployment>, Error> {
        let name = self.resource.name_any();
        Ok(cluster::read::get(&self.context.client, &self.namespace(), &name).await?)
    }

    pub(super) async fn finish_cluster(
        &mut self,
        objects: Objects,
    ) -> Result<Option<Unfinished>, Error> {
        match self.find_deployment().await?.and_then(|deployment| deployment.metadata.uid) {
            Some(uid) => self.add_belongings(objects, uid).await,
            None => Ok(None),
        }
    }

    /// Creates the TaskManagers of a standalone cluster, Services and Ingress, and sets the owner of the ConfigMaps.
    /// The JobManager runs, so an object that is rejected holds up no other. The rejection is returned.
    async fn add_belongings(
        &self,
        objects: Objects,
        uid: String,
    ) -> Result<Option<Unfinished>, Error> {
        let client = &self.context.client;
        let objects = objects.owned_by(&uid);
        if standby_of(&self.stored.cluster_info).is_some() {
            self.own_config_of_standby(&objects).await?;
        }
        let mut refusal = None;
        if let Some(task_managers) = &objects.task_managers {
            let made = match apply::create(client, task_managers, Writer::OPERATOR).await {
                // Those that outlived a lost JobManager, or were created before a crash.
                Ok(_) | Err(cluster::Error::AlreadyExists { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            };
            refusal = refused(task_managers, made)?;
        }
        for service in &objects.services {
            if let Some(error) = refused(service, self.put_service(service).await)? {
                // The job that runs behind it must be maintained, and saved, all the same.
                refused(service, self.put_service(&plain(service)).await)?;
                refusal.get_or_insert(error);
            }
        }
        for map in &objects.config_maps {
            let owned = refused(map, self.own_config_map(map).await)?;
            refusal = refusal.or(owned);
        }
        for object in &objects.file_objects {
            let owned = refused(&object.manifest, self.own_file_object(object).await)?;
            refusal = refusal.or(owned);
        }
        let refusal = self.put_ingress(objects.ingress.as_ref()).await?.or(refusal);
        Ok(refusal.map(|refusal| Unfinished { uid, refusal }))
    }

    /// Makes the Deployment the owner of a ConfigMap. If someone deleted it, it is created again: the JobManager's pod
    /// cannot start without it.
    async fn own_config_map(&self, map: &Value) -> Result<(), Error> {
        let client = &self.context.client;
        let id = ObjectId::in_manifest(map)?;
        let owners = &map["metadata"]["ownerReferences"];
        let patch = json!({"metadata": {"ownerReferences": owners}});
        match apply::amend(client, &id, &patch, Writer::OPERATOR).await {
            Err(cluster::Error::NotFound { .. }) => {
                apply::create(client, map, Writer::OPERATOR).await?;
            }
            other => drop(other?),
        }
        Ok(())
    }

    /// Makes the Deployment the owner of an object with files; creates the object again if someone deleted it.
    async fn own_file_object(&self, object: &FileObject) -> Result<(), Error> {
        let client = &self.context.client;
        let id = ObjectId::in_manifest(&object.manifest)?;
        let owners = &object.manifest["metadata"]["ownerReferences"];
        let patch = json!({"metadata": {"ownerReferences": owners}});
        match apply::amend(client, &id, &patch, Writer::OPERATOR).await {
            Err(cluster::Error::NotFound { .. }) => {
                let object = self.context.files.fill(object).await?;
                apply::create(client, &object, Writer::OPERATOR).await?;
            }
            other => drop(other?),
        }
        Ok(())
    }

    async fn put_service(&self, service: &Value) -> Result<(), Error> {
        match apply::create(&self.context.client, service, Writer::OPERATOR).await {
            Ok(_) => Ok(()),
            Err(cluster::Error::AlreadyExists { .. }) => self.replace(service).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a changed Ingress in place while the job runs.
    pub(super) async fn move_ingress(
        &self,
        ingress: Option<&Value>,
    ) -> Result<Option<Unfinished>, Error> {
        if let Some(refusal) = self.put_ingress(ingress).await? {
            let deployment = self.find_deployment().await?;
            let uid = deployment.and_then(|deployment| deployment.metadata.uid);
            return Ok(uid.map(|uid| Unfinished { uid, refusal }));
        }
        let what = if ingress.is_some() {
            "The Ingress matches the spec"
        } else {
            "The spec no longer has an Ingress"
        };
        let message = format!("{what}, and the job keeps running.");
        self.record_event(Event::normal("IngressChanged", Component::Operator, message)).await?;
        Ok(None)
    }

    /// Puts the Ingress in place, or the route from a Gateway, and removes what was there instead. Reports a rejection
    /// and returns it: the job is maintained all the same.
    async fn put_ingress(&self, ingress: Option<&Value>) -> Result<Option<Error>, Error> {
        let kind = ingress.and_then(|ingress| ingress["kind"].as_str());
        if let Some(ingress) = ingress
            && let Some(refusal) = refused(ingress, self.replace(ingress).await)?
        {
            let message = format!(
                "The {} of the web UI does not match the spec, and the job runs without it. Change \
                 spec.ingress, or what rejects it; the operator tries again. {}",
                kind.unwrap_or_default(),
                show(&refusal)
            );
            let event = Event::warning("IngressManagement", Component::Operator, message);
            self.record_event(event).await?;
            return Ok(Some(refusal));
        }
        if self.resource.metadata.generation == Some(1) {
            return Ok(None);
        }
        for exposed_by in EXPOSED_BY {
            if kind != Some(exposed_by.1) {
                self.delete_left_over(exposed_by).await?;
            }
        }
        Ok(None)
    }

    /// Makes an object of the cluster equal to `manifest`. An object of this name that belongs to someone else stays
    /// unchanged.
    pub(super) async fn replace(&self, manifest: &Value) -> Result<(), Error> {
        let client = &self.context.client;
        let id = ObjectId::in_manifest(manifest)?;
        let found = match cluster::read::get_value(client, &id).await {
            Ok(found) => found,
            // Without the right to read it, the name alone decides.
            Err(cluster::Error::Forbidden { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if found.is_some_and(|found| !is_of_cluster(&self.resource.name_any(), &found)) {
            return Err(Error::Foreign { kind: id.kind, name: id.name });
        }
        apply::apply(client, manifest, Writer::OPERATOR).await?;
        Ok(())
    }
}

impl<K: Operated> Act<'_, K> {
    /// Deletes the Ingress or route of an earlier spec.
    pub(super) async fn delete_left_over(&self, exposed_by: (&str, &str)) -> Result<(), Error> {
        let client = &self.context.client;
        let found = exposed(&self.resource, exposed_by, client).await?;
        if let Some(found) = found.filter(|found| is_owned(found, &self.uid)) {
            let deletion = Deletion {
                uid: found["metadata"]["uid"].as_str(),
                ..Deletion::with(apply::Propagation::Background)
            };
            apply::delete(client, &exposed_id(&self.resource, exposed_by), deletion).await?;
        }
        Ok(())
    }
}

/// Returns the object of this kind that has the name of the resource.
pub(super) async fn exposed<K: Operated>(
    resource: &K,
    exposed_by: (&str, &str),
    client: &Client,
) -> cluster::Result<Option<Value>> {
    match cluster::read::get_value(client, &exposed_id(resource, exposed_by)).await {
        // Without the right to read one, or without such a kind, none was created.
        Err(cluster::Error::Forbidden { .. } | cluster::Error::KindMissing { .. }) => Ok(None),
        other => other,
    }
}

fn exposed_id<K: Operated>(resource: &K, (api_version, kind): (&str, &str)) -> ObjectId {
    ObjectId {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: resource.namespace(),
        name: resource.name_any(),
    }
}

/// Returns `true` if the resource with this uid owns the object.
pub(super) fn is_owned(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["uid"] == uid)
}

/// Kinds of objects that may lead to a web UI.
pub(super) const EXPOSED_BY: [(&str, &str); 2] =
    [("networking.k8s.io/v1", "Ingress"), ("gateway.networking.k8s.io/v1", ROUTE)];
const ROUTE: &str = "HTTPRoute";

/// Returns `true` if the cluster cannot have such an object, or rejects this one. That is no reason to hold up a job.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Foreign { .. }
            | Error::File { .. }
            | Error::Cluster(
                cluster::Error::KindMissing { .. }
                    | cluster::Error::Forbidden { .. }
                    | cluster::Error::Invalid { .. }
                    | cluster::Error::Rejected { .. }
            )
    )
}

/// Returns `true` if the object belongs to the cluster: by its owner, which may be an earlier Deployment or resource of
/// the name, or by Flink's labels.
fn is_of_cluster(name: &str, found: &Value) -> bool {
    let metadata = &found["metadata"];
    let owners = metadata["ownerReferences"].as_array();
    let is_owner = |owner: &Value| {
        let is_cluster = matches!(owner["kind"].as_str(), Some("Deployment" | "FlinkDeployment"));
        let names = [names::job_manager(name), names::task_manager(name), name.to_owned()];
        is_cluster && names.iter().any(|name| owner["name"] == name.as_str())
    };
    let labels = &metadata["labels"];
    let is_flinks = labels["type"].as_str().is_some_and(|of| of.starts_with("flink-"));
    owners.into_iter().flatten().any(is_owner) || is_flinks && labels["app"] == name
}

/// Returns why an object beside a running JobManager could not be made, whatever the error: the job must be maintained,
/// and saved, all the same. Only an operator that has lost its leadership ends here.
fn refused(object: &Value, made: Result<(), Error>) -> Result<Option<Error>, Error> {
    match made {
        Ok(()) => Ok(None),
        Err(error @ Error::Cluster(cluster::Error::Deposed(_))) => Err(error),
        Err(error) => {
            let ObjectId { kind, name, .. } = ObjectId::in_manifest(object)?;
            Ok(Some(Error::Unfinished { kind, name, source: Box::new(error) }))
        }
    }
}

/// Returns the Service without the parts that may be rejected: annotations, and ports or addresses for the outside.
fn plain(service: &Value) -> Value {
    let mut plain = service.clone();
    if let Some(metadata) = plain["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    plain["spec"]["type"] = "ClusterIP".into();
    plain
}

/// An object that the API server would reject, and why.
pub(super) struct Refusal {
    object: ObjectId,
    because: Error,
}

impl Refusal {
    /// Returns `true` if the caller lacks the right to create such an object.
    pub(super) fn is_of_rights(&self) -> bool {
        matches!(self.because, Error::Cluster(cluster::Error::Forbidden { .. }))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectId { kind, name, .. } = &self.object;
        write!(to, "{kind} `{name}` cannot be created: {}", self.because)?;
        if kind == "Secret" && self.is_of_rights() {
            to.write_str(
                " (`rbac.keytabsRule.create: true` of the installation grants the permission)",
            )?;
        }
        Ok(())
    }
}

/// Returns the first object of a cluster that the API server would reject, by a dry run of each. The objects of the
/// running cluster exist under the same names, which the API server checks last. The Ingress is left out: a job runs
/// without it.
///
/// # Errors
/// If the API server gives no conclusive answer for an object, which one and why.
pub(super) async fn refusal(
    objects: &Objects,
    context: &Context,
) -> Result<Option<Refusal>, String> {
    // At the same time: a webhook may take its time for each.
    let tried = objects.iter().filter(|object| Some(*object) != objects.ingress.as_ref());
    let tried = tried.map(|object| async move {
        let id = ObjectId::in_manifest(object).map_err(|error| show(&error))?;
        match rejection(objects, object, &id, context).await {
            Ok(because) => Ok(because.map(|because| Refusal { object: id, because })),
            Err(error) => Err(format!("{} `{}`: {}", id.kind, id.name, show(&error))),
        }
    });
    let mut outcomes = join_all(tried).await.into_iter();
    outcomes.find_map(Result::transpose).transpose()
}

/// Returns why the API server would reject one of the objects.
async fn rejection(
    objects: &Objects,
    object: &Value,
    id: &ObjectId,
    context: &Context,
) -> cluster::Result<Option<Error>> {
    let client = &context.client;
    let filled = match objects.file_objects.iter().find(|it| it.manifest == *object) {
        Some(of_files) => match context.files.fill(of_files).await {
            Ok(filled) => Some(filled),
            Err(because) => return Ok(Some(because)),
        },
        None => None,
    };
    let object = filled.as_ref().unwrap_or(object);
    let error = match apply::create(client, object, TRIED).await {
        Err(cluster::Error::AlreadyExists { .. }) if id.kind == "Service" || filled.is_some() => {
            let found = match cluster::read::get_value(client, id).await {
                Err(cluster::Error::Forbidden { .. }) => None,
                found => found?,
            };
            let cluster = objects.deployment["metadata"]["name"].as_str().unwrap_or_default();
            if found.is_none_or(|found| is_of_cluster(cluster, &found)) {
                return Ok(None);
            }
            Error::Foreign { kind: id.kind.clone(), name: id.name.clone() }
        }
        Ok(_) | Err(cluster::Error::AlreadyExists { .. }) => return Ok(None),
        Err(error) if error.is_transient() => return Err(error),
        Err(error) => Error::from(error),
    };
    let text = error.to_string();
    if !is_refusal(&error) || text.contains(NO_DRY_RUN) {
        tracing::debug!(error = text, "could not determine whether the object would be rejected");
        return Ok(None);
    }
    // A new object replaces an old one that is deleted first, so a quota needs room for the difference alone. A dry
    // run of the object as a change of the old one counts exactly that.
    let is_quota = text.contains(QUOTA);
    if is_quota && !is_refused_by_quota(apply::apply(client, object, TRIED).await)? {
        return Ok(None);
    }
    Ok(Some(error))
}

fn is_refused_by_quota(changed: cluster::Result<Value>) -> cluster::Result<bool> {
    match changed {
        Err(error) if error.is_transient() => Err(error),
        Err(error) => Ok(error.to_string().contains(QUOTA)),
        Ok(_) => Ok(false),
    }
}
