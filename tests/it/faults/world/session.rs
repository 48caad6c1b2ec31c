//! Jobs in session clusters: what their users request, and the laws that apply to their starts.
//!
//! A cluster records each submission with what was known at the time. They are checked when a test asks, so it does not
//! matter when the world learns of an edit.

use std::collections::BTreeMap;
use std::sync::Weak;

use futures::StreamExt;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use lifecycle::session_job::identity;
use serde_json::Value;

use super::{Key, Soon, World};
use crate::support::fake_flink::Submission;

/// What a user has requested of one resource.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// The session cluster.
    cluster: Key,
    name: String,
    /// Whether it was stateless at some time.
    is_stateless: bool,
    nonce: Option<Value>,
    /// Explicit start states in order, one job each.
    told: Vec<Option<String>>,
}

pub(super) async fn follow(world: Weak<World>, client: Client) {
    let kind = GroupVersionKind::gvk("flink.apache.org", "v1beta1", "FlinkSessionJob");
    let kind = ApiResource::from_gvk(&kind);
    let jobs: Api<DynamicObject> = Api::all_with(client, &kind);
    let events = watcher(jobs, watcher::Config::default()).backoff(Soon);
    let mut events = events.touched_objects().boxed();
    while let Some(event) = events.next().await {
        let Some(world) = world.upgrade() else { return };
        if let Ok(job) = event {
            see(&world, &job);
        }
    }
}

fn see(world: &World, resource: &DynamicObject) {
    let (namespace, spec) = (resource.namespace().unwrap_or_default(), &resource.data["spec"]);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let job = &spec["job"];
    let mut state = world.state();
    let wanted = state.wanted.entry(resource.uid().unwrap_or_default()).or_default();
    wanted.cluster = format!("{namespace}/{}", text(&spec["deploymentName"]).unwrap_or_default());
    wanted.name = resource.name_any();
    wanted.is_stateless |= job["upgradeMode"] == "stateless";
    let nonce = Some(job["savepointRedeployNonce"].clone());
    if wanted.nonce != nonce {
        wanted.nonce = nonce;
        wanted.told.push(text(&job["initialSavepointPath"]));
    }
}

/// Returns the laws that session jobs of a namespace broke.
pub(super) fn broken(world: &World, namespace: &str) -> Vec<String> {
    let prefix = format!("{namespace}/");
    let mut clusters: BTreeMap<Key, Vec<(String, Wanted)>> = BTreeMap::new();
    for (uid, wanted) in world.state().wanted.clone() {
        if wanted.cluster.starts_with(&prefix) {
            clusters.entry(wanted.cluster.clone()).or_default().push((uid, wanted));
        }
    }
    let judged = clusters.into_iter().flat_map(|(key, mut resources)| {
        let submissions = world.flink.with(&key, |cluster| cluster.submissions.clone());
        let broken = submissions.iter().filter_map(|submission| {
            let is_of = |uid: &str| identity::is_of(uid, &submission.job_id);
            let law = match resources.iter_mut().find(|(uid, _)| is_of(uid)) {
                Some((_, wanted)) => judge(submission, wanted)
                    .map(|law| format!("session job `{}`: {law}", wanted.name)),
                None => Some("a job that belongs to no resource".to_owned()),
            };
            law.map(|law| format!("{key}: {law}"))
        });
        broken.collect::<Vec<_>>()
    });
    judged.collect()
}

/// Returns the law that a start breaks.
fn judge(submission: &Submission, wanted: &mut Wanted) -> Option<String> {
    let Submission { job_id, from, is_there, newest, live } = submission;
    if !live.is_empty() {
        return Some(format!("a start of {job_id} while {live:?} has not ended"));
    }
    if let Some(told) = wanted.told.iter().position(|path| path == from) {
        wanted.told.remove(told);
        return None;
    }
    if !is_there {
        return Some(format!("a start from {from:?}, which is not in the store"));
    }
    let is_newest = from == newest || (wanted.is_stateless && from.is_none());
    (!is_newest).then(|| format!("a start from {from:?}, and the newest state is {newest:?}"))
}
