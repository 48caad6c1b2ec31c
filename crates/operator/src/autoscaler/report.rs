//! Reports about cycles, worded as in the Java operator.

use super::Scaled;
use crate::context::Context;
use crate::resource::Act;
use autoscaler::events::Event;
use config::options::CLUSTER_RESOURCE_VIEW_REFRESH_INTERVAL;
use lifecycle::event::{self, Component};

/// Label that distinguishes sets of changes.
const PARALLELISM_LABEL: &str = "parallelismMap";
/// Maximum length of a reason in an event, in characters.
const REASON_MAX: usize = 2048;

/// Why there was no cycle.
pub(super) enum Failure {
    /// Transient, as just after a start.
    Quiet(String),
    Lasting(String),
}

impl Failure {
    pub(super) fn lasting(reason: &str) -> Self {
        Self::Lasting(reason.to_owned())
    }
}

/// Reports an event of a cycle.
pub(super) async fn report_event<K: Scaled>(resource: &K, event: &Event, context: &Context) {
    let Event { is_warning, reason, message, key, interval: _, parallelism } = event;
    let event = event::Event {
        is_warning: *is_warning,
        key: Some(key.clone()),
        ..event::Event::normal(reason, Component::Operator, message.clone())
    };
    let label = parallelism.map(|of| (PARALLELISM_LABEL.to_owned(), of.to_string()));
    Act::new(context, resource.clone()).count_event(event, label.into_iter().collect()).await;
}

/// Reports why there was no cycle.
pub(super) async fn report_failure<K: Scaled>(resource: &K, reason: &str, context: &Context) {
    tracing::warn!(reason, "the autoscaler does not decide");
    let message: String = reason.chars().take(REASON_MAX).collect();
    let mut event = event::Event::warning("AutoscalerError", Component::Operator, message.clone());
    event.key = Some(message);
    Act::new(context, resource.clone()).count_event(event, std::collections::BTreeMap::new()).await;
}

/// Reports, once, that the operator cannot read the room on the cluster's nodes.
pub(super) async fn report_unread_nodes<K: Scaled>(resource: &K, reason: &str, context: &Context) {
    let message = format!(
        "`{}` has no effect, because the operator cannot read the free capacity of nodes: allow \
         its service account to list nodes and pods in all namespaces, and to get the ConfigMap \
         kube-system/cluster-autoscaler-status, as `rbac.resourceViewRule.create: true` of the \
         installation does. {reason}",
        CLUSTER_RESOURCE_VIEW_REFRESH_INTERVAL.key()
    );
    tracing::warn!("{message}");
    let mut event = event::Event::warning("NodesUnreadable", Component::Operator, message);
    event.key = Some("capacity".to_owned());
    Act::new(context, resource.clone()).count_event(event, std::collections::BTreeMap::new()).await;
}
