//! The changes in a new text of the operator's configuration, and those that wait for a restart.
//!
//! A new default affects no running job: a spec is compared with the last reconciled spec, without the defaults. It is
//! used for the next deployment.

use std::collections::BTreeSet;

use super::catalogue::{self, Effect};
use super::flink_config::OPERATOR_PREFIX;
use super::{FlinkConfig, options};

/// Prefixes of options that are read when the operator starts, because what they configure runs from then on.
const AT_START: [&str; 2] = ["plugins.", "metrics."];

/// Returns the keys that differ between the two, including those set in only one of them.
pub fn changed<'c>(before: &'c FlinkConfig, after: &'c FlinkConfig) -> Vec<&'c str> {
    let keys: BTreeSet<&str> = before.iter().chain(after.iter()).map(|(key, _)| key).collect();
    keys.into_iter().filter(|key| before.get_text(key) != after.get_text(key)).collect()
}

/// Returns the keys whose new value takes effect only after a restart, compared with the configuration at the start.
pub fn waits_for_restart<'c>(at_start: &'c FlinkConfig, now: &'c FlinkConfig) -> Vec<&'c str> {
    changed(at_start, now).into_iter().filter(|key| needs_restart(key, at_start)).collect()
}

/// Returns the options that wait for a restart while a replica is on standby. Options of the work itself are read when
/// the work begins.
pub fn waits_in_stand_by<'c>(at_start: &'c FlinkConfig, now: &'c FlinkConfig) -> Vec<&'c str> {
    let mut keys = waits_for_restart(at_start, now);
    keys.retain(|key| !begins_with_work(key));
    keys
}

/// Returns the configuration with which an operator begins to work now: options that were read earlier keep the values
/// that were read.
pub fn began_with(at_start: &FlinkConfig, now: &FlinkConfig) -> FlinkConfig {
    let mut began = now.clone();
    for key in waits_in_stand_by(at_start, now) {
        match at_start.get_text(key) {
            Some(value) => began.set(key, value),
            None => drop(began.remove(key)),
        }
    }
    began
}

/// Returns whether the option is read when the operator begins to work, after it was elected.
fn begins_with_work(key: &str) -> bool {
    let is_plugin = key.strip_prefix(OPERATOR_PREFIX).is_some_and(|it| it.starts_with("plugins."));
    let read = [
        options::LABEL_SELECTOR.key(),
        options::RECONCILE_PARALLELISM.key(),
        options::SNAPSHOT_RESOURCE_ENABLED.key(),
    ];
    is_plugin || catalogue::find(key).is_some_and(|known| read.contains(&known.key))
}

fn needs_restart(key: &str, at_start: &FlinkConfig) -> bool {
    let Some(name) = key.strip_prefix(OPERATOR_PREFIX) else { return false };
    if AT_START.iter().any(|prefix| name.starts_with(prefix)) {
        return true;
    }
    let Some(known) = catalogue::find(key) else { return false };
    // If they are disabled at the start, snapshots are not watched.
    let unwatched = || at_start.get(&options::SNAPSHOT_RESOURCE_ENABLED) == Ok(false);
    known.effect == Effect::AtStart
        || (known.key == options::SNAPSHOT_RESOURCE_ENABLED.key() && unwatched())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> FlinkConfig {
        crate::file::parse_flink_conf(text)
    }

    #[test]
    fn what_was_added_changed_or_taken_away_is_a_change() {
        let before = config("a: 1\nb: 2\nc: 3\n");
        assert_eq!(changed(&before, &config("b: 2\nc: 4\nd: 5\n")), ["a", "c", "d"]);
        assert_eq!(changed(&before, &before), [""; 0]);
    }

    #[test]
    fn only_what_is_read_at_the_start_waits_for_the_next_one() {
        let before = config("kubernetes.operator.reconcile.parallelism: 10\n");
        let after = config(
            "kubernetes.operator.reconciler.max.parallelism: 20\n\
             kubernetes.operator.reconcile.interval: 15 s\n\
             kubernetes.operator.plugins.listeners.audit.url: https://audit.example.com\n\
             kubernetes.operator.jvm.metrics.enabled: false\n\
             kubernetes.operator.snapshot.resource.enabled: false\n\
             taskmanager.numberOfTaskSlots: 4\n",
        );
        assert_eq!(
            waits_for_restart(&before, &after),
            [
                "kubernetes.operator.jvm.metrics.enabled",
                "kubernetes.operator.plugins.listeners.audit.url",
                "kubernetes.operator.reconcile.parallelism",
                "kubernetes.operator.reconciler.max.parallelism",
            ]
        );
        assert_eq!(waits_for_restart(&after, &after), [""; 0]);
    }

    #[test]
    fn a_standby_waits_for_a_restart_only_for_what_it_has_read() {
        let start = config(
            "kubernetes.operator.reconcile.parallelism: 10\n\
             kubernetes.operator.health.probe.port: 8085\n",
        );
        let now = config(
            "kubernetes.operator.reconciler.max.parallelism: 20\n\
             kubernetes.operator.health.probe.port: 9000\n\
             kubernetes.operator.jvm.metrics.enabled: false\n\
             kubernetes.operator.plugins.validators.size.expression: 'true'\n",
        );
        let waiting =
            ["kubernetes.operator.health.probe.port", "kubernetes.operator.jvm.metrics.enabled"];
        assert_eq!(waits_in_stand_by(&start, &now), waiting);
        let began = began_with(&start, &now);
        assert_eq!(began.get_text("kubernetes.operator.health.probe.port"), Some("8085"));
        assert_eq!(began.get_text("kubernetes.operator.jvm.metrics.enabled"), None);
        assert_eq!(waits_for_restart(&began, &now), waiting);
    }

    #[test]
    fn snapshots_that_were_switched_off_are_watched_after_a_restart() {
        let off = config("kubernetes.operator.snapshot.resource.enabled: false\n");
        let key = "kubernetes.operator.snapshot.resource.enabled";
        assert_eq!(waits_for_restart(&off, &FlinkConfig::new()), [key]);
        assert_eq!(waits_for_restart(&FlinkConfig::new(), &off), [""; 0]);
    }
}
