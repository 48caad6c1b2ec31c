//! Finds what refers to a savepoint, of everything that this operator sees.
//!
//! The namespace of the savepoint's resource is read, because a watch may be late. Beyond it the watches must suffice:
//! `FlinkDeployment`s, `FlinkSessionJob`s and `FlinkStateSnapshot`s of all namespaces that are watched. Revisions apply
//! in their own namespace: they name what their own job left.

use std::sync::Arc;

use kube::{Resource, ResourceExt};

use crate::context::Context;
use crate::kind::{Guarded, Operated};
use crate::observe::{fact, show};
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::FlinkStateSnapshot;
use clients::cluster::apply::ObjectId;
use clients::cluster::read::{self, Scope};
use clients::cluster::revisions;
use lifecycle::world::Fact;
use state::references::{Referrers, Unread};
use state::revision::Revision;

/// Maximum number of objects of a kind that cannot be parsed and whose text is read instead: each takes a request.
const UNREADABLE_MAX: usize = 20;

type Seen<K> = Vec<Arc<Guarded<K>>>;

/// Everything that could refer to a savepoint of a namespace.
pub(super) struct Referring {
    namespace: String,
    deployments: Seen<FlinkDeployment>,
    session_jobs: Seen<FlinkSessionJob>,
    snapshots: Seen<FlinkStateSnapshot>,
    revisions: Vec<(String, Revision)>,
    unread: Vec<Unread>,
}

/// Returns what refers to the savepoint of the snapshot.
pub(super) async fn of_snapshot(
    snapshot: &FlinkStateSnapshot,
    context: &Context,
) -> Fact<Vec<String>> {
    let path = snapshot.status.as_ref().and_then(|status| status.path.clone()).unwrap_or_default();
    let namespace = snapshot.namespace().unwrap_or_default();
    let all = Box::pin(Referring::read(&namespace, context)).await;
    fact(all.map(|all| all.to(&path, snapshot.metadata.uid.as_deref())))
}

impl Referring {
    /// Reads all of it.
    ///
    /// # Errors
    /// Names a kind that cannot be read, or that its watch has not shown yet. The references are unknown then.
    pub(super) async fn read(namespace: &str, context: &Context) -> Result<Self, String> {
        let (deployments, session_jobs, snapshots, blue_green, revisions) = tokio::try_join!(
            seen::<FlinkDeployment>(namespace, context),
            seen::<FlinkSessionJob>(namespace, context),
            seen::<FlinkStateSnapshot>(namespace, context),
            blue_green(namespace, context),
            async { revisions::list_all(&context.client, namespace).await.map_err(|it| show(&it)) },
        )?;
        let mut unread = blue_green;
        unread.extend(texts(&deployments, context).await?);
        unread.extend(texts(&session_jobs, context).await?);
        unread.extend(texts(&snapshots, context).await?);
        let namespace = namespace.to_owned();
        Ok(Self { namespace, deployments, session_jobs, snapshots, revisions, unread })
    }

    /// Returns what refers to the savepoint, besides the object with the uid `of`, which has it.
    pub(super) fn to(&self, location: &str, of: Option<&str>) -> Vec<String> {
        let referrers = Referrers {
            namespace: &self.namespace,
            deployments: readable(&self.deployments),
            session_jobs: readable(&self.session_jobs),
            revisions: &self.revisions,
            snapshots: readable(&self.snapshots),
            unread: &self.unread,
        };
        referrers.of(location, of)
    }
}

fn readable<K>(all: &Seen<K>) -> Vec<&K> {
    all.iter().filter_map(|guarded| guarded.0.as_ref().ok()).collect()
}

/// Returns all of a kind: those of the namespace as they are stored, and those of others as last seen.
async fn seen<K: Operated>(namespace: &str, context: &Context) -> Result<Seen<K>, String> {
    let kept = K::cache(context);
    let own = vec![Some(namespace.to_owned())];
    let scopes = if kept.is_watched() { own } else { reach(namespace, context) };
    let mut all = Vec::new();
    for scope in scopes {
        let scope = Scope::from(scope.as_deref());
        let listed = read::list::<Guarded<K>>(&context.client, scope, None).await;
        let listed = read::or_none::<K, _>(&context.client, listed).await;
        all.extend(listed.map_err(|error| show(&error))?);
    }
    let own = all.into_iter().map(Arc::new);
    // A caller without watches sees what it may read.
    if !context.deployments.is_watched() {
        return Ok(own.collect());
    }
    if let Some(scope) = kept.unlisted() {
        let kind = K::kind(&());
        return Err(format!("the {kind}s of {scope} have not been listed yet"));
    }
    let elsewhere =
        kept.all().into_iter().filter(|it| it.namespace().as_deref() != Some(namespace));
    Ok(own.chain(elsewhere).collect())
}

/// Returns where to look for a kind that is not watched: wherever others are, and in its own namespace. `None` is all
/// namespaces.
fn reach(namespace: &str, context: &Context) -> Vec<Option<String>> {
    let mut all = context.deployments.namespaces();
    if all.contains(&None) {
        return vec![None];
    }
    let own = Some(namespace.to_owned());
    if !all.contains(&own) {
        all.push(own);
    }
    all
}

/// Returns the text of blue/green deployments: what they name is found in it, in whatever field an operator has put it.
async fn blue_green(namespace: &str, context: &Context) -> Result<Vec<Unread>, String> {
    let mut all = Vec::new();
    for scope in reach(namespace, context) {
        let scope = Scope::from(scope.as_deref());
        let listed =
            read::list_values::<FlinkBlueGreenDeployment>(&context.client, scope, None).await;
        let listed = read::or_none::<FlinkBlueGreenDeployment, _>(&context.client, listed).await;
        all.extend(listed.map_err(|error| show(&error))?);
    }
    let text = |value: &serde_json::Value, path: &str| {
        value.pointer(path).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let unread = |value: &serde_json::Value| Unread {
        kind: FlinkBlueGreenDeployment::kind(&()).into_owned(),
        namespace: text(value, "/metadata/namespace"),
        name: text(value, "/metadata/name"),
        text: value.to_string(),
    };
    Ok(all.iter().map(unread).collect())
}

/// Returns the text of each object that cannot be parsed.
async fn texts<K: Operated>(all: &Seen<K>, context: &Context) -> Result<Vec<Unread>, String> {
    let unreadable: Vec<_> = all.iter().filter(|guarded| guarded.0.is_err()).collect();
    let kind = K::kind(&());
    if let Some(first) = unreadable.first().filter(|_| unreadable.len() > UNREADABLE_MAX) {
        return Err(format!(
            "{} {kind}s cannot be read, such as `{}` in namespace `{}`: fix or delete them",
            unreadable.len(),
            first.name_any(),
            first.namespace().unwrap_or_default(),
        ));
    }
    let mut texts = Vec::new();
    for object in unreadable {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let id = ObjectId::of::<K>(&namespace, &name);
        let found = read::get_value(&context.client, &id).await.map_err(|error| show(&error))?;
        // One that was deleted meanwhile names nothing.
        let Some(value) = found else { continue };
        texts.push(Unread { kind: kind.to_string(), namespace, name, text: value.to_string() });
    }
    Ok(texts)
}
