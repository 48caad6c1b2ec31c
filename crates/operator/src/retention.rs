//! Removes what former clusters and jobs left behind, once it is old: what `kubectl flink gc` would remove, except for
//! what leads to state.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::context::Context;
use super::observe::show;
use clients::cluster::leftovers;
use clients::cluster::read::Scope;
use config::options;
use state::garbage::{Rules, garbage};

/// Pause before each check. Leftovers are kept for days, so nothing is urgent.
const PAUSE: Duration = Duration::from_hours(6);
/// Maximum number of objects to remove after one check; the next one continues.
const REMOVALS_MAX: usize = 100;

/// Checks again and again; never ends.
pub(super) async fn keep_tidy(context: Arc<Context>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let age_min = match context.operator().base.get(&options::LEFTOVERS_RETENTION) {
            Ok(age_min) if age_min.is_zero() => continue,
            Ok(age_min) => age_min,
            Err(error) => {
                tracing::warn!(error = show(&error), "leftovers are not removed");
                continue;
            }
        };
        for namespace in context.deployments.namespaces() {
            if let Err(error) = tidy(&context, namespace, age_min).await {
                tracing::warn!(error = show(&error), "leftovers not removed");
            }
        }
    }
}

/// Removes leftovers. A namespace that is given up meanwhile is left as it is.
async fn tidy(
    context: &Context,
    namespace: Option<String>,
    age_min: Duration,
) -> Result<(), clients::cluster::Error> {
    let is_watched = || context.deployments.namespaces().contains(&namespace);
    if !is_watched() {
        return Ok(());
    }
    let scope = Scope::from(namespace.as_deref());
    let inventory = leftovers::inventory(&context.client, scope).await?;
    let rules = Rules { now: Timestamp::now(), age_min, includes_state: false };
    let findings = garbage(&inventory, &rules);
    for finding in findings.iter().filter(|finding| finding.is_removable).take(REMOVALS_MAX) {
        if !is_watched() {
            break;
        }
        if leftovers::remove(&context.client, finding).await? {
            let (namespace, name) = (&finding.namespace, &finding.name);
            tracing::info!(namespace, name, because = finding.why, "leftover removed");
        }
    }
    Ok(())
}
