//! Schedules of snapshots that cannot be parsed, reported once per change of the spec. They never fire, which would
//! only be noticed when a snapshot is missing.

use super::event::{Component, Event};
use super::kind::Kind;
use super::pass::Pass;
use super::resource::StatusOfJob;
use super::trigger::known::SnapshotKind;
use validation::schedule::Schedule;

impl<K: Kind> Pass<'_, K> {
    /// Warns if the spec is new to this operator and has a schedule that never fires.
    pub(super) fn warn_of_schedules(&mut self) {
        if self.status.observed_generation() == Some(self.generation) {
            return;
        }
        let Ok(config) = self.observe_config() else { return };
        for kind in SnapshotKind::ALL {
            let option = kind.schedule_option();
            let text = config.get(&option).unwrap_or_default();
            let Err(reason) = Schedule::parse(&text) else { continue };
            let message = format!("`{}` is never due: {reason}", option.key());
            let mut event = Event::warning("InvalidSchedule", Component::Operator, message.clone());
            event.key = Some(format!("{}: {message}", self.generation));
            self.emit(event);
        }
    }
}
