//! One resource while a plan is carried out: what is written to the resource itself and reported about it, in the same
//! way for every kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::ResourceExt;
use tracing::Instrument;

use super::act::Error;
use super::context::{Context, now, resource_version};
use super::kind::{Operated, Written};
use super::listener::{Happening, Subject};
use super::observe::show;
use clients::cluster;
use clients::cluster::apply::{self, Writer};
use clients::cluster::events::{self, EventRequest, EventType, Repeat};
use config::OperatorConfig;
use lifecycle::audit;
use lifecycle::event::Event;
use lifecycle::status_texts::StatusTexts;

/// Number of times that a status is written again after someone changed another part of the resource.
const CONFLICTS_MAX: usize = 3;

/// One resource while a plan is carried out.
pub(super) struct Act<'a, K: Operated> {
    pub(super) context: &'a Context,
    /// Has the resource version of the last write.
    pub(super) resource: K,
    /// The stored status.
    pub(super) stored: K::Status,
    pub(super) uid: String,
    /// The configuration of this pass: one that is reloaded meanwhile applies to the next.
    pub(super) operator: Arc<OperatorConfig>,
}

impl<'a, K: Operated> Act<'a, K> {
    pub(super) fn new(context: &'a Context, resource: K) -> Self {
        let stored = resource.status().cloned().unwrap_or_default();
        let uid = resource.uid().unwrap_or_default();
        Self { context, resource, stored, uid, operator: context.operator() }
    }

    pub(super) fn namespace(&self) -> String {
        self.resource.namespace().unwrap_or_else(|| "default".to_owned())
    }

    pub(super) async fn change_finalizers(&mut self, add: bool) -> Result<(), Error> {
        let mut finalizers = self.resource.finalizers().to_vec();
        finalizers.retain(|finalizer| Some(finalizer.as_str()) != K::FINALIZER);
        finalizers.extend(K::FINALIZER.filter(|_| add).map(str::to_owned));
        let answer = apply::set_finalizers(&self.context.client, &self.resource, &finalizers).await;
        let stored = match answer {
            Ok(stored) => stored,
            // It is already gone, as happens when the last finalizer is removed.
            Err(cluster::Error::NotFound { .. }) if !add => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let metadata = self.resource.meta_mut();
        metadata.resource_version = stored.resource_version;
        metadata.finalizers = Some(finalizers);
        self.context.metrics.metadata_written(&self.uid, !add);
        if !add {
            self.report_end();
        }
        self.remember();
        Ok(())
    }

    /// Reports that the finalizer was removed, or that the resource is gone if it had none.
    pub(super) fn report_end(&self) {
        note(&audit::of_release(K::KIND.into_str()));
        self.notify_listeners(&Happening::Deleted { last: &self.stored });
    }

    /// Notes that the watch has not shown our last write yet.
    pub(super) fn remember(&self) {
        let resource_version = resource_version(self.resource.meta());
        K::cache(self.context).remember(&self.uid, Written { resource_version, pending: None });
    }

    /// Replaces the stored status by this one, without secrets in its texts.
    pub(super) async fn write_status(&mut self, status: &K::Status) -> Result<(), Error> {
        let mut status = status.clone();
        status.hide_secrets();
        self.replace_status(&status).await
    }

    /// Replaces the stored status. If another part of the resource changed meanwhile, the write is repeated; if the
    /// status itself did, nothing is written.
    async fn replace_status(&mut self, status: &K::Status) -> Result<(), Error> {
        if *status == self.stored {
            return Ok(());
        }
        let client = &self.context.client;
        for _ in 0..CONFLICTS_MAX {
            match apply::replace_status(client, &self.resource, status, Writer::OPERATOR).await {
                Ok(stored) => {
                    let version = resource_version(&stored);
                    *self.resource.meta_mut() = stored;
                    let facts = || self.resource.facts(status);
                    self.context.metrics.status_written(&self.uid, version, facts, now());
                    let previous = std::mem::replace(&mut self.stored, status.clone());
                    if let Some(line) = K::audit(&previous, status) {
                        note(&line);
                    }
                    self.notify_listeners(&Happening::Status {
                        previous: &previous,
                        current: status,
                    });
                    self.remember();
                    return Ok(());
                }
                Err(cluster::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let found: Option<K> =
                cluster::read::get(client, &self.namespace(), &self.resource.name_any()).await?;
            let Some(mut latest) = found else { return Err(Error::StatusTaken) };
            let is_same = latest.meta().uid == self.resource.meta().uid
                && latest.status().cloned().unwrap_or_default() == self.stored;
            if !is_same {
                return Err(Error::StatusTaken);
            }
            *self.resource.meta_mut() = std::mem::take(latest.meta_mut());
        }
        Err(Error::StatusTaken)
    }

    /// Keeps a status that is current and may wait, or writes it.
    pub(super) async fn end_with(
        &mut self,
        mut status: K::Status,
        may_wait: bool,
        since: Option<Instant>,
    ) -> Result<(), Error> {
        status.hide_secrets();
        if status == self.stored {
            return Ok(());
        }
        if may_wait {
            let resource_version = resource_version(self.resource.meta());
            let pending = Some((status, since.unwrap_or_else(Instant::now)));
            K::cache(self.context).remember(&self.uid, Written { resource_version, pending });
            return Ok(());
        }
        self.replace_status(&status).await
    }

    pub(super) async fn record_event(&self, event: Event) -> Result<(), Error> {
        let repeat = if event.key.is_some() { Repeat::Once } else { Repeat::Count };
        self.record(event, repeat, BTreeMap::new()).await;
        Ok(())
    }

    /// Records an event. A repeated event raises its count, and has the newest message.
    pub(super) async fn count_event(&self, event: Event, labels: BTreeMap<String, String>) {
        self.record(event, Repeat::Count, labels).await;
    }

    async fn record(&self, event: Event, repeat: Repeat, labels: BTreeMap<String, String>) {
        let event_type = if event.is_warning { EventType::Warning } else { EventType::Normal };
        let mut request = EventRequest::about(
            &self.resource,
            event_type,
            event.component,
            event.reason,
            event.message.clone(),
            Timestamp::now(),
        );
        request.repeat = repeat;
        request.labels = labels;
        request.key.clone_from(&event.key);
        request.annotations.clone_from(&event.annotations);
        match events::record(&self.context.client, &request).await {
            Ok(true) => {
                note(&audit::of_event(&event));
                self.notify_listeners(&Happening::Event(&event));
            }
            Ok(false) => {}
            // An event reports what happens; a failure to record it must not prevent that.
            Err(error) => {
                tracing::warn!(reason = event.reason, error = show(&error), "event not recorded");
            }
        }
    }

    fn notify_listeners(&self, happening: &Happening<'_, K::Status>) {
        let subject = || Subject {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: self.namespace(),
            name: self.resource.name_any(),
            uid: self.uid.clone(),
            generation: self.resource.meta().generation,
        };
        self.context.listeners.emit(subject, happening);
    }
}

/// Adds a line to the audit log: part of the log, with its own name for `KUBECTL_FLINK_LOG`. The span around it says
/// which resource it is about.
pub(super) fn note(line: &str) {
    tracing::info!(target: "kubectl_flink::audit", "{line}");
}

/// Writes statuses that were allowed to wait, before the process ends.
pub(super) async fn flush<K: Operated>(context: &Context) {
    let kept = K::cache(context);
    let pending = kept.pending();
    if pending.is_empty() {
        return;
    }
    let resources = kept.all();
    for (uid, status) in pending {
        let Some(resource) = resources
            .iter()
            .filter_map(|guarded| guarded.0.as_ref().ok())
            .find(|resource| resource.meta().uid.as_deref() == Some(&uid))
        else {
            continue;
        };
        let mut act = Act::new(context, resource.clone());
        let span = super::about::span(&K::kind(&()), resource.meta());
        if let Err(error) = act.write_status(&status).instrument(span).await {
            // The next process finds out from the Deployment's annotation.
            tracing::warn!(name = resource.name_any(), error = show(&error), "status not written");
        }
    }
}
