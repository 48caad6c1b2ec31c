//! What a spec asks for and this version does not do, said once per change of the spec: a wish that
//! is silently ignored is found out when it is needed.

use super::application::Pass;
use super::plan::{Component, Event, Step};
use crate::config::{FlinkConfig, options};

/// Requests of the spec, by the field or option that makes them.
fn requests(config: &FlinkConfig, has_trigger_nonce: bool) -> Vec<&'static str> {
    let is_stated =
        |text: Option<&str>| text.is_some_and(|text| !text.trim().is_empty() && text != "0");
    let all = [
        (
            is_stated(config.text_of(&options::PERIODIC_SAVEPOINT_INTERVAL)),
            options::PERIODIC_SAVEPOINT_INTERVAL.key(),
        ),
        (
            is_stated(config.text_of(&options::PERIODIC_CHECKPOINT_INTERVAL)),
            options::PERIODIC_CHECKPOINT_INTERVAL.key(),
        ),
        (config.get_text("job.autoscaler.enabled") == Some("true"), "job.autoscaler.enabled"),
        (has_trigger_nonce, "spec.job.savepointTriggerNonce and checkpointTriggerNonce"),
    ];
    all.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, name)| name).collect()
}

impl Pass<'_> {
    /// Warns when the spec is new to this operator and asks for what it does not do.
    pub(super) fn warn_of_unsupported(&mut self) {
        if self.status.observed_generation == Some(self.generation) {
            return;
        }
        let Ok(config) = self.observe_config() else { return };
        let job = self.job();
        let last = self.last.as_ref().and_then(|last| last.spec.job.as_ref());
        let is_new = |nonce: Option<i64>, last: Option<i64>| nonce.is_some() && nonce != last;
        let has_trigger_nonce =
            is_new(job.savepoint_trigger_nonce, last.and_then(|job| job.savepoint_trigger_nonce))
                || is_new(
                    job.checkpoint_trigger_nonce,
                    last.and_then(|job| job.checkpoint_trigger_nonce),
                );
        let names = requests(&config, has_trigger_nonce);
        if names.is_empty() {
            return;
        }
        let message = format!("this operator version does not act on: {}", names.join(", "));
        let mut event = Event::warning("NotSupported", Component::Operator, message);
        event.key = Some(format!("NotSupported: {}", self.generation));
        self.steps.push(Step::Event(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_named_and_nothing_else() {
        let mut config = FlinkConfig::default();
        assert!(requests(&config, false).is_empty());
        config.set("kubernetes.operator.periodic.savepoint.interval", "6h");
        config.set("kubernetes.operator.job.restart.failed", "true");
        assert_eq!(requests(&config, false), ["kubernetes.operator.periodic.savepoint.interval"]);
        assert_eq!(requests(&config, true).len(), 2);
    }
}
