//! The decisions in force for a job: read once, put into each pass's spec, and cleared when necessary.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt;

use super::books::{Decided, InForce, Work};
use super::{Cluster, Scaled, candidate};
use crate::blue_green::is_switching;
use crate::context::Context;
use crate::heavy;
use crate::observe::Subject;
use crate::observe::show;
use api::blue_green::{parent_of, uids_of};
use api::deployment::{FlinkConfiguration, FlinkDeployment};
use api::reconciled::{Reconciled, StoredSpec, running_spec};
use api::state_snapshot::JobKind;
use autoscaler::advice;
use autoscaler::effects::{self, tune_memory, with_parallelism};
use autoscaler::state;
use autoscaler::topology::VertexId;
use clients::cluster::{self, autoscaler::JobMap};
use clients::flink::patience;
use config::options::PARALLELISM_OVERRIDES;
use config::options::autoscaler::{ENABLED, MEMORY_TUNING_ENABLED, VERTEX_EXCLUDE_IDS};
use config::{FlinkConfig, OperatorConfig};

/// Whether the autoscaler of a job is on.
pub(super) enum Switch {
    /// With the configuration that results from the user's spec.
    On(Box<FlinkConfig>),
    Off,
    /// It cannot be determined; what runs is left as it is.
    Unknown,
}

/// Returns whether the autoscaler is on. Most resources do not mention it, and are not examined further.
pub(super) fn switch<K: Scaled>(
    resource: &K,
    cluster: Cluster<'_>,
    operator: &OperatorConfig,
) -> Switch {
    if K::JOB == JobKind::FlinkSessionJob && cluster.is_none() {
        // The autoscaler may be turned on there.
        return Switch::Unknown;
    }
    let in_force = cluster.map(in_force);
    let cluster = in_force.as_deref();
    let is_mentioned = mentions(K::configuration(resource.spec()))
        || cluster.is_some_and(|of| mentions(&of.spec.flink_configuration))
        || operator.base.iter().any(|(key, _)| key.ends_with(ENABLED.key()));
    if !is_mentioned || resource.spec().job().is_none() {
        return Switch::Off;
    }
    let Ok(config) = resource.effective(cluster, operator) else { return Switch::Unknown };
    match config.get(&ENABLED) {
        Ok(true) => Switch::On(Box::new(config)),
        Ok(false) => Switch::Off,
        Err(_) => Switch::Unknown,
    }
}

/// Returns a session cluster with the spec in force: an edit that is rejected or pending turns nothing on or off for
/// its jobs.
fn in_force(cluster: &FlinkDeployment) -> Cow<'_, FlinkDeployment> {
    let observed = cluster.status.as_ref().and_then(|status| status.observed_generation);
    if observed == cluster.metadata.generation {
        return Cow::Borrowed(cluster);
    }
    // The pass of the cluster itself reports a record that cannot be read.
    running_spec(cluster).map_or(Cow::Borrowed(cluster), |spec| Cow::Owned(with(cluster, spec)))
}

/// Returns the resource with another spec.
fn with<K: Scaled>(resource: &K, spec: K::Spec) -> K {
    let mut with = resource.clone();
    *with.spec_mut() = spec;
    with
}

/// Returns `true` if the option may be among these, flat or nested.
fn mentions(configuration: &FlinkConfiguration) -> bool {
    let may_hold = |name: &String| ENABLED.keys().any(|key| key.starts_with(name.as_str()));
    configuration.0.keys().any(may_hold)
}

/// Returns the resource as the pass must see it: with the decision in force for its job.
pub(crate) async fn wanted<'a, K: Scaled>(
    resource: &'a K,
    status: &K::Status,
    cluster: Cluster<'_>,
    operator: &OperatorConfig,
    context: &Context,
) -> cluster::Result<Cow<'a, K>> {
    let candidate = candidate(resource, status);
    let last = candidate.reconciliation.last_reconciled_spec.as_deref();
    // A job that never started has no decisions, except for a colour that continues where the other one is.
    let is_new = last.is_none() && parent_of(resource.meta()).is_none();
    if is_new || candidate.is_deleting {
        return Ok(Cow::Borrowed(resource));
    }
    let Switch::On(config) = switch(resource, cluster, operator) else {
        return Ok(Cow::Borrowed(resource));
    };
    // The pass itself reports what is wrong with a spec that cannot be read.
    let Ok(last) = last.map(Reconciled::<K::Spec>::parse).transpose() else {
        return Ok(Cow::Borrowed(resource));
    };
    let mut last = last.map(|last| last.spec);
    let decided = decided(resource, context).await?;
    let excluded = config.get(&VERTEX_EXCLUDE_IDS).unwrap_or_default();
    let mut excluded: BTreeSet<VertexId> =
        excluded.iter().map(|id| VertexId::from(id.trim())).collect();
    let running = last.as_ref().map(K::configuration);
    // A decision waits until a switch to another colour is over; a job that starts only now starts with it.
    let is_held = last.is_some() && is_switching(resource.meta(), context);
    let in_force = match &decided {
        Decided::Known(_) if is_held => effects::InForce::Unknown,
        Decided::Known(of) => {
            let InForce { parallelism, unscaled, config } = &**of;
            if let Some(running) = running {
                excluded = effects::excluded(excluded, unscaled, parallelism, running);
            }
            effects::InForce::Known { decided: parallelism, excluded: &excluded, config }
        }
        Decided::Unknown { .. } => effects::InForce::Unknown,
        Decided::Unread | Decided::Cleared => return Ok(Cow::Borrowed(resource)),
    };
    let own = K::configuration(resource.spec());
    // Validation reports the user's overrides that cannot be read.
    let Ok(configuration) = with_parallelism(own, &config, running, in_force) else {
        return Ok(Cow::Borrowed(resource));
    };
    let mut spec = resource.spec().clone();
    *K::configuration_mut(&mut spec) = configuration;
    let is_tuned = config.get(&MEMORY_TUNING_ENABLED).unwrap_or_default();
    if is_tuned && let Some(spec) = K::application(&mut spec) {
        tune_memory(spec, last.as_mut().and_then(K::application).as_deref(), in_force);
    }
    Ok(Cow::Owned(with(resource, spec)))
}

/// Returns the decision in force, from the ConfigMap if this process has not read it yet.
async fn decided<K: Scaled>(resource: &K, context: &Context) -> cluster::Result<Decided> {
    let uid = resource.uid().unwrap_or_default();
    let known = context.autoscalers.with(&uid, |book| book.in_force.clone());
    match known {
        // The autoscaler is on again.
        Some(Decided::Unread | Decided::Cleared) | None => {}
        Some(decided) => return Ok(decided),
    }
    let (kept, is_new) = match find(resource, context).await {
        Ok(found) => found,
        // The job is maintained all the same, and keeps what it runs with; the next pass reads again.
        Err(error) => {
            tracing::warn!(error = show(&error), "the autoscaler's stored state cannot be read");
            return Ok(Decided::Unknown { reason: show(&error) });
        }
    };
    let data = kept.data.clone();
    // Others may write the ConfigMap too, and a megabyte of it takes a while.
    let read = match patience::wait(heavy::run(move || state::read(&data))).await {
        Ok(read) => read,
        Err(reason) => return Ok(Decided::Unknown { reason }),
    };
    let unknown = |reason: String| (Decided::Unknown { reason }, None);
    let other_owner = kept.other_owner(&uids_of(resource.meta()));
    let (decided, work) = match (other_owner, read) {
        (Some(owner), _) => unknown(format!(
            "ConfigMap `{}` belongs to {owner}: nothing is decided until it is gone",
            cluster::autoscaler::object_name(&resource.name_any())
        )),
        (None, Err(unreadable)) => unknown(format!(
            "ConfigMap `{}`: {unreadable}",
            cluster::autoscaler::object_name(&resource.name_any())
        )),
        (None, Ok(stored)) => {
            for aside in &stored.set_aside {
                let state::SetAside { key, kept_as, reason } = aside;
                tracing::warn!(
                    key,
                    kept_as,
                    reason,
                    "a value of the autoscaler's stored state cannot be read"
                );
            }
            let in_force = InForce {
                parallelism: stored.state.overrides.clone(),
                config: stored.state.config.clone(),
                ..InForce::default()
            };
            let work = Work { kept, stored, is_new, ..Work::default() };
            (Decided::Known(Arc::new(in_force)), Some(work))
        }
    };
    context.autoscalers.open(&uid, decided.clone(), work);
    Ok(decided)
}

/// Finds the stored data of a resource, which becomes its own when it is stored again. The flag is `true` if its
/// autoscaler begins now.
async fn find<K: Scaled>(resource: &K, context: &Context) -> cluster::Result<(JobMap, bool)> {
    let (client, own) = (&context.client, JobMap::of(resource));
    let (namespace, name) = (resource.namespace().unwrap_or_default(), resource.name_any());
    let Some(mut kept) = cluster::autoscaler::find(client, &namespace, &name).await? else {
        return Ok((own, true));
    };
    if kept.other_owner(&uids_of(resource.meta())).is_none() {
        // A blue/green deployment hands it to its child.
        kept.set_owner_of(&own);
        return Ok((kept, false));
    }
    // It belongs to a resource of this name that was deleted. Or a late watch shows a deleted resource, and it belongs
    // to the one that exists now.
    let is_former = kept.is_of_resource(&K::kind(&()), &name)
        && cluster::read::get::<K>(client, &namespace, &name)
            .await?
            .is_some_and(|present| present.uid() == resource.uid());
    if is_former {
        tracing::info!("the autoscaler's state of an earlier resource of this name is dropped");
        kept.data.clear();
        kept.set_owner_of(&own);
    }
    Ok((kept, is_former))
}

/// Clears the stored data of a job whose autoscaler was turned off, or must start over. This happens before the new
/// spec is put on record, so that a crash in between repeats it.
pub(crate) async fn tidy<K: Scaled>(
    resource: &K,
    status: &K::Status,
    cluster: Cluster<'_>,
    operator: &OperatorConfig,
    context: &Context,
) -> cluster::Result<()> {
    let candidate = candidate(resource, status);
    let Some(last) = candidate.reconciliation.last_reconciled_spec.as_deref() else {
        return Ok(());
    };
    if candidate.is_deleting {
        return Ok(());
    }
    let uid = resource.uid().unwrap_or_default();
    let nonce = candidate.job.and_then(|job| job.autoscaler_reset_nonce);
    let is_owed = context.autoscalers.is_owed(&uid, candidate.observed_generation);
    let is_clearing = match switch(resource, cluster, operator) {
        Switch::Unknown => false,
        Switch::On(_) => {
            let of = |spec: &K::Spec| spec.job().and_then(|job| job.autoscaler_reset_nonce);
            nonce.is_some()
                && Reconciled::<K::Spec>::parse(last).is_ok_and(|last| of(&last.spec) != nonce)
        }
        Switch::Off => match context.autoscalers.with(&uid, |book| book.in_force.clone()) {
            Some(Decided::Cleared) => false,
            Some(Decided::Known(_) | Decided::Unknown { .. } | Decided::Unread) => true,
            None => {
                speaks_of_scaling(last)
                    && Reconciled::<K::Spec>::parse(last).is_ok_and(|last| {
                        let was_on = with(resource, last.spec.clone());
                        matches!(switch(&was_on, cluster, operator), Switch::On(_))
                            || !has_same_overrides(
                                K::configuration(&last.spec),
                                K::configuration(resource.spec()),
                            )
                    })
            }
        },
    };
    if !is_clearing && !is_owed {
        return Ok(());
    }
    // A spec that will be rejected turns nothing off: the last valid one continues with its data.
    let is_sound = Reconciled::<K::Spec>::parse(last)
        .is_ok_and(|last| resource.is_sound(&last.spec, cluster, operator));
    if !is_sound {
        return Ok(());
    }
    if !is_owed {
        match admitted(resource, status, cluster, operator, context).await {
            Some(true) => {}
            Some(false) => return Ok(()),
            None => {
                // This pass may get the answer a moment later, and put the spec on record.
                context.autoscalers.owe(&uid, candidate.generation);
                return Ok(());
            }
        }
    }
    context.autoscalers.settle(&uid);
    match clear(resource, &uid, context).await {
        // Without the right to read it, the operator never wrote it.
        Err(error @ cluster::Error::Forbidden { .. }) => {
            tracing::warn!(error = show(&error), "the autoscaler's stored state is not cleared");
            Ok(())
        }
        other => other,
    }
}

/// Returns whether external validators let the spec come into force; `None` if they have not all answered.
async fn admitted<K: Scaled>(
    resource: &K,
    status: &K::Status,
    cluster: Cluster<'_>,
    operator: &OperatorConfig,
    context: &Context,
) -> Option<bool> {
    let subject = Subject::new((resource, status), cluster, operator);
    let judging = subject.judging();
    let (kind, uid, version) = (judging.subject.kind, judging.uid, judging.version);
    let known = context.validators.known(kind, uid);
    if !known.has_any || known.were_asked(version) {
        return known.admit(version);
    }
    let _verdict = context.validators.ask(judging).await;
    context.validators.known(kind, uid).admit(version)
}

/// Returns `true` if a stored spec may concern the autoscaler.
fn speaks_of_scaling(text: &str) -> bool {
    ["autoscaler.enabled", "\"autoscaler\":", "jobvertex-parallelism-overrides"]
        .iter()
        .any(|word| text.contains(word))
}

fn has_same_overrides(one: &FlinkConfiguration, other: &FlinkConfiguration) -> bool {
    let of = |configuration| FlinkConfig::flatten(configuration).find(&PARALLELISM_OVERRIDES).ok();
    of(one) == of(other)
}

async fn clear<K: Scaled>(resource: &K, uid: &str, context: &Context) -> cluster::Result<()> {
    // A cycle that runs now finds another book, and stores nothing.
    context.autoscalers.open(uid, Decided::Cleared, None);
    let gate = context.autoscalers.with(uid, |book| Arc::clone(&book.gate)).unwrap_or_default();
    let _gate = gate.lock().await;
    let cleared = async {
        let namespace = resource.namespace().unwrap_or_default();
        let (client, name) = (&context.client, resource.name_any());
        let found = cluster::autoscaler::find(client, &namespace, &name).await?;
        let Some(mut kept) = found.filter(|kept| kept.is_of(&uids_of(resource.meta()))) else {
            return Ok(());
        };
        let before = kept.data.len();
        kept.data.retain(|key, _| key == advice::KEY);
        if kept.data.len() < before {
            tracing::info!("the autoscaler's state of the job is cleared");
            cluster::autoscaler::store(client, &mut kept).await?;
        }
        Ok(())
    };
    let cleared = cleared.await;
    if cleared.is_err() {
        context.autoscalers.forget(uid);
    }
    cleared
}
