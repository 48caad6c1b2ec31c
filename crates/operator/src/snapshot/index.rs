//! The snapshots of each job, so that nothing has to look through all.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use kube::ResourceExt;

use crate::context::{Context, lock};
use crate::kind::Sight;
use api::state_snapshot::{FlinkStateSnapshot, JobKind, JobReference};

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct JobKey {
    namespace: String,
    kind: JobKind,
    name: String,
}

/// Names of snapshots by their job, as the watch last saw them, so a name may be stale.
#[derive(Default)]
pub(crate) struct ByJob {
    names: Mutex<HashMap<JobKey, BTreeSet<String>>>,
}

impl ByJob {
    /// Updates the index from the watch.
    pub(super) fn note(&self, snapshot: &FlinkStateSnapshot, sight: Sight) {
        let reference = snapshot.spec.job_reference.as_ref();
        let Some(JobReference { kind: Some(kind), name: Some(name) }) = reference else { return };
        let namespace = snapshot.namespace().unwrap_or_default();
        let key = JobKey { namespace, kind: *kind, name: name.clone() };
        let mut names = lock(&self.names);
        match sight {
            Sight::There => {
                names.entry(key).or_default().insert(snapshot.name_any());
            }
            Sight::Gone => {
                if let Some(of_job) = names.get_mut(&key) {
                    of_job.remove(&snapshot.name_any());
                    if of_job.is_empty() {
                        names.remove(&key);
                    }
                }
            }
        }
    }

    fn names(&self, namespace: &str, kind: JobKind, job: &str) -> Vec<String> {
        let key = JobKey { namespace: namespace.to_owned(), kind, name: job.to_owned() };
        lock(&self.names).get(&key).into_iter().flatten().cloned().collect()
    }
}

/// Returns the snapshots of a job as the watch last saw them.
pub(crate) fn of_job(
    context: &Context,
    namespace: &str,
    kind: JobKind,
    job: &str,
) -> Vec<Arc<crate::kind::Guarded<FlinkStateSnapshot>>> {
    let names = context.snapshots_by_job.names(namespace, kind, job);
    names.iter().filter_map(|name| context.snapshots.cached(namespace, name)).collect()
}

/// Wakes the snapshots that wait for the job, which has changed.
pub(crate) fn wake(context: &Context, namespace: &str, kind: JobKind, job: &str) {
    for snapshot in of_job(context, namespace, kind, job) {
        let Ok(snapshot) = &snapshot.0 else { continue };
        let state = snapshot.status.as_ref().map(|status| status.state).unwrap_or_default();
        if !state.is_final() || snapshot.metadata.deletion_timestamp.is_some() {
            context.snapshots.wake(namespace, &snapshot.name_any());
        }
    }
}
