//! A row of the fleet: what is kept of one object.

use strum::{Display, EnumIter};

/// Kinds that the fleet shows.
#[derive(Clone, Copy, Debug, Display, EnumIter, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    #[strum(to_string = "FlinkDeployment")]
    Deployment,
    #[strum(to_string = "FlinkSessionJob")]
    SessionJob,
    #[strum(to_string = "FlinkBlueGreenDeployment")]
    BlueGreen,
}

impl Kind {
    /// As `kubectl flink` has it before a name; deployments go without.
    pub fn prefix(self) -> Option<&'static str> {
        match self {
            Self::Deployment => None,
            Self::SessionJob => Some("sessionjob"),
            Self::BlueGreen => Some("bluegreen"),
        }
    }
}

/// Which object it is. The order of keys is that of a fleet.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub kind: Kind,
}

/// What the table shows of an object; what is not known is absent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Row {
    pub lifecycle: Option<Box<str>>,
    pub job_state: Option<Box<str>>,
    pub version: Option<Box<str>>,
    pub image: Option<Box<str>>,
    pub parallelism: Option<i64>,
    /// Seconds since the epoch, of the newest savepoint or checkpoint in the status.
    pub snapshot_at: Option<i64>,
    /// How far an upgrade is.
    pub upgrade: Option<Box<str>>,
    pub error: Option<Box<str>>,
    /// Seconds since the epoch.
    pub created_at: Option<i64>,
    pub is_session: bool,
    pub is_being_deleted: bool,
    /// `name=value`, a line each, by name.
    pub labels: Box<str>,
}

impl Row {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }
}

/// How a state is to be taken. The order is that in which a person wants to know.
#[derive(Clone, Copy, Debug, Display, Eq, Ord, PartialEq, PartialOrd)]
#[strum(serialize_all = "kebab-case")]
pub enum Tone {
    Bad,
    Moving,
    /// There is nothing to say yet.
    Unknown,
    Quiet,
    Good,
}

impl Tone {
    /// That of a state of a resource or of its job.
    pub fn of(state: Option<&str>) -> Self {
        match state {
            None => Self::Unknown,
            Some("FAILED" | "FAILING" | "ROLLED_BACK") => Self::Bad,
            Some("STABLE" | "ACTIVE_BLUE" | "ACTIVE_GREEN" | "RUNNING") => Self::Good,
            Some("SUSPENDED" | "FINISHED" | "CANCELED") => Self::Quiet,
            Some(_) => Self::Moving,
        }
    }
}
