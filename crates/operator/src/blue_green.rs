//! Tells of each `FlinkBlueGreenDeployment` in its own status, and by an event, that it is not operated.
//!
//! Each is looked at as its watch shows it, one after the other, and nothing but its uid is kept.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::context::Context;
use super::observe::tell;
use super::watching;
use api::blue_green::FlinkBlueGreenDeployment;
use clients::cluster;
use clients::cluster::apply::Writer;
use clients::cluster::events::{self, EventRequest, EventType, Repeat};
use lifecycle::blue_green::{Notice, notice};

/// How often the kind is looked for while it is not installed, or may not be read.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);

/// Follows those of one scope with these labels; ends never.
pub(super) async fn follow(scope: Option<String>, labels: Option<String>, context: Arc<Context>) {
    let kind = ApiResource::erase::<FlinkBlueGreenDeployment>(&());
    let client = context.client.clone();
    let api: Api<DynamicObject> = match &scope {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    };
    while let Err(error) = api.list(&ListParams::default().limit(1)).await {
        tracing::debug!(kind = kind.kind, error = tell(&error), "not to be read");
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
    let mut config = watching::config();
    if let Some(labels) = &labels {
        config = config.labels(labels);
    }
    let mut events = watching::watch(api, config, context.etcd_restores.follow()).boxed();
    // By uid: the generation that was told about.
    let mut told = HashMap::new();
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        let resource = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(resource)) => {
                listed.insert(resource.uid());
                resource
            }
            Ok(Event::InitDone) => {
                told.retain(|uid, _| listed.contains(uid));
                continue;
            }
            Ok(Event::Apply(resource)) => resource,
            Ok(Event::Delete(resource)) => {
                told.remove(&resource.uid());
                continue;
            }
            // The watch starts again by itself.
            Err(_) => continue,
        };
        let (uid, generation) = (resource.uid(), resource.meta().generation);
        if told.get(&uid) != Some(&generation)
            && report_until_recorded(&resource, &kind, &context).await
        {
            told.insert(uid, generation);
        }
    }
}

/// Returns `true` if nothing is left to report. It is `false` for a version that is no longer the
/// newest, because another one follows.
async fn report_until_recorded(
    resource: &DynamicObject,
    kind: &ApiResource,
    context: &Context,
) -> bool {
    let mut pause = watching::PAUSE_MIN;
    loop {
        let error = match say(resource, kind, context).await {
            Ok(()) => return true,
            Err(cluster::Error::Conflict { .. }) => return false,
            Err(error) => error,
        };
        if !error.is_transient() || pause > watching::PAUSE_MAX {
            let (namespace, name) = (resource.namespace(), resource.name_any());
            let error = tell(&error);
            tracing::warn!(
                kind = kind.kind,
                namespace,
                name,
                error,
                "not told that it is not operated"
            );
            return true;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

async fn say(
    resource: &DynamicObject,
    kind: &ApiResource,
    context: &Context,
) -> cluster::Result<()> {
    let now = Timestamp::now();
    let Some(Notice { event, status }) = notice(resource.meta(), resource.data.get("status"), now)
    else {
        return Ok(());
    };
    let (namespace, name) = (resource.namespace().unwrap_or_default(), resource.name_any());
    tracing::warn!(kind = kind.kind, namespace, name, "{}", event.message);
    let request = EventRequest {
        regarding: resource.object_ref(kind),
        event_type: EventType::Warning,
        reason: event.reason.to_owned(),
        component: event.component,
        message: event.message,
        key: event.key,
        repeat: Repeat::Count,
        labels: BTreeMap::new(),
        annotations: event.annotations,
        now,
    };
    events::record(&context.client, &request).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, kind);
    let patch = json!({
        "metadata": {"resourceVersion": resource.meta().resource_version},
        "status": status,
    });
    let params = PatchParams {
        field_manager: Some(Writer::OPERATOR.manager.to_owned()),
        ..PatchParams::default()
    };
    match api
        .patch_status(&name, &params, &Patch::Merge(&patch))
        .await
        .map_err(cluster::Error::from)
    {
        Ok(_) | Err(cluster::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
