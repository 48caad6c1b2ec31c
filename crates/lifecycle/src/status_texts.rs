//! The texts of a status that are written for people. They may repeat what others said, and are stored without secrets.

use api::blue_green::BlueGreenStatus;
use api::session_job::SessionJobStatus;
use api::state_snapshot::StateSnapshotStatus;
use api::status::{Condition, DeploymentStatus};
use config::secret::hide_in_document;

/// A status with texts for people.
pub trait StatusTexts {
    /// Returns the error and the conditions.
    fn texts(&mut self) -> (&mut Option<String>, &mut [Condition]);

    /// Hides secrets in all texts. What must be compared with a stored status has to go through this first.
    fn hide_secrets(&mut self) {
        let (error, conditions) = self.texts();
        let messages = conditions.iter_mut().filter_map(|condition| condition.message.as_mut());
        for text in error.iter_mut().chain(messages) {
            *text = hide_in_document(text);
        }
    }
}

macro_rules! status_texts {
    ($($status:ty: |$it:ident| $conditions:expr),* $(,)?) => {$(
        impl StatusTexts for $status {
            fn texts(&mut self) -> (&mut Option<String>, &mut [Condition]) {
                let $it = self;
                (&mut $it.error, $conditions)
            }
        }
    )*};
}

status_texts!(
    DeploymentStatus: |it| &mut it.conditions,
    SessionJobStatus: |_it| &mut [],
    StateSnapshotStatus: |_it| &mut [],
    BlueGreenStatus: |it| &mut it.conditions,
);
