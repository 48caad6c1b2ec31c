//! Canaries: resources that only show whether the operator works. Their `spec.restartNonce` is raised again and again;
//! it is the only field of a spec that the operator writes. A change that no pass sees means that the operator is stuck
//! somewhere, whatever its parts report.
//!
//! Canaries get no status, no finalizer and no pods, and may have no spec.

use std::time::Duration;

use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::context::Context;
use super::health::Due;
use super::kind::{Guarded, Operated};
use super::observe::show;
use super::pass::Again;
use api::CANARY_LABEL;
use clients::cluster::apply::{self, ObjectId, Writer};
use clients::cluster::{self, read};
use config::options;

/// How long a change may take to be seen if the configuration is invalid.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Minimum timeout, because each change costs a write.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Returns `true` if the resource is a canary.
pub fn is_canary<K: Resource<DynamicType = ()>>(resource: &K) -> bool {
    api::is_canary(&K::kind(&()), resource.labels().get(CANARY_LABEL).map(String::as_str))
}

/// Runs a pass over a canary; returns `None` for any other resource.
pub(super) async fn check<K: Operated>(resource: &Guarded<K>, context: &Context) -> Option<Again> {
    let uid = resource.uid().unwrap_or_default();
    // A canary that is being deleted is handled like any other resource.
    if !is_canary(resource) || resource.meta().deletion_timestamp.is_some() {
        context.health.forget_canary(&uid);
        return None;
    }
    let timeout = context.operator().base.get(&options::HEALTH_CANARY_RESOURCE_TIMEOUT);
    let timeout = timeout.unwrap_or(TIMEOUT).max(TIMEOUT_MIN);
    let generation = resource.meta().generation.unwrap_or_default();
    let left = match context.health.see_canary(&uid, generation, timeout) {
        Due::In(left) => left,
        Due::Now => {
            match change(resource, context).await {
                Ok(Some(generation)) => {
                    let namespace = resource.namespace().unwrap_or_default();
                    let about = format!("{} {namespace}/{}", K::kind(&()), resource.name_any());
                    context.health.await_canary(&uid, &namespace, about, generation, timeout);
                }
                // It was deleted meanwhile.
                Ok(None) => {}
                // This says nothing about this process.
                Err(error) => {
                    let name = resource.name_any();
                    tracing::warn!(name, error = show(&error), "canary not changed");
                }
            }
            timeout
        }
    };
    Some(Some(left))
}

/// Raises the nonce; returns the generation that a pass must see.
async fn change<K: Operated>(
    resource: &Guarded<K>,
    context: &Context,
) -> cluster::Result<Option<i64>> {
    let id = ObjectId::of::<K>(&resource.namespace().unwrap_or_default(), &resource.name_any());
    let Some(stored) = read::get_value(&context.client, &id).await? else { return Ok(None) };
    let nonce = stored.pointer("/spec/restartNonce").and_then(Value::as_i64).unwrap_or(0);
    let patch = json!({
        "metadata": {"resourceVersion": stored.pointer("/metadata/resourceVersion")},
        "spec": {"restartNonce": nonce.wrapping_add(1)},
    });
    let stored = apply::amend(&context.client, &id, &patch, Writer::OPERATOR).await?;
    Ok(stored.generation)
}
