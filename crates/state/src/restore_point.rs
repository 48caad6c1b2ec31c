//! The state that a job starts from.

use api::job::UpgradeMode;

/// Where a job starts from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RestorePoint {
    /// No state: this was requested, or there never was any.
    Empty,
    /// A savepoint or retained checkpoint.
    Path(String),
    /// The newest checkpoint that HA metadata names; Flink finds it by the job id, which is kept.
    HaMetadata,
}

impl RestorePoint {
    /// Returns a phrase for logs and plans.
    pub fn describe(&self) -> String {
        match self {
            Self::Empty => "empty state".to_owned(),
            Self::Path(path) => path.clone(),
            Self::HaMetadata => "the latest checkpoint in HA metadata".to_owned(),
        }
    }
    /// Returns how a start from it is recorded.
    pub fn upgrade_mode(&self) -> UpgradeMode {
        match self {
            Self::Empty => UpgradeMode::Stateless,
            Self::Path(_) => UpgradeMode::Savepoint,
            Self::HaMetadata => UpgradeMode::LastState,
        }
    }
}
