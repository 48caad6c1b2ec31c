//! What a spec asks for and this version does not do, said once per change of the spec: a wish that
//! is silently ignored is found out when it is needed.

use super::pass::{Kind, Pass, StatusOfJob};
use super::plan::{Component, Event};
use super::schedule::Schedule;
use super::trigger::SnapshotKind;
use crate::config::FlinkConfig;

/// Requests of the spec, by the field or option that makes them.
fn requests(config: &FlinkConfig) -> Vec<&'static str> {
    let all =
        [(config.get_text("job.autoscaler.enabled") == Some("true"), "job.autoscaler.enabled")];
    all.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, name)| name).collect()
}

impl<K: Kind> Pass<'_, K> {
    /// Warns when the spec is new to this operator and asks for what it does not do.
    pub(super) fn warn_of_unsupported(&mut self) {
        if self.status.observed_generation() == Some(self.generation) {
            return;
        }
        let Ok(config) = self.observe_config() else { return };
        self.warn_of_schedules(&config);
        let names = requests(&config);
        if names.is_empty() {
            return;
        }
        let message = format!("this operator version does not act on: {}", names.join(", "));
        let mut event = Event::warning("NotSupported", Component::Operator, message);
        event.key = Some(format!("NotSupported: {}", self.generation));
        self.tell(event);
    }
}

impl<K: Kind> Pass<'_, K> {
    /// A schedule that cannot be read never fires.
    fn warn_of_schedules(&mut self, config: &FlinkConfig) {
        for kind in SnapshotKind::ALL {
            let option = kind.schedule_option();
            let text = config.get(&option).unwrap_or_default();
            let Err(reason) = Schedule::parse(&text) else { continue };
            let message = format!("`{}` is never due: {reason}", option.key());
            let mut event = Event::warning("InvalidSchedule", Component::Operator, message.clone());
            event.key = Some(format!("{}: {message}", self.generation));
            self.tell(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_named_and_nothing_else() {
        let mut config = FlinkConfig::default();
        assert!(requests(&config).is_empty());
        config.set("kubernetes.operator.periodic.savepoint.interval", "6h");
        config.set("job.autoscaler.enabled", "true");
        assert_eq!(requests(&config), ["job.autoscaler.enabled"]);
    }
}
