//! A row of the fleet: what is kept of one object.

use strum::{Display, EnumIter, IntoEnumIterator};

/// Maximum length of a name in Kubernetes.
const NAME_BYTES_MAX: usize = 253;

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
    /// Returns the word for addresses and element ids.
    pub fn word(self) -> &'static str {
        self.prefix().unwrap_or("deployment")
    }

    /// Returns the plural name in the API, as used in RBAC rules.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "flinkdeployments",
            Self::SessionJob => "flinksessionjobs",
            Self::BlueGreen => "flinkbluegreendeployments",
        }
    }

    /// Returns the prefix of names in `kubectl flink`; deployments have none.
    pub fn prefix(self) -> Option<&'static str> {
        match self {
            Self::Deployment => None,
            Self::SessionJob => Some("sessionjob"),
            Self::BlueGreen => Some("bluegreen"),
        }
    }
}

/// Identifies an object. The order of keys is the order of the fleet.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub kind: Kind,
}

impl Key {
    /// Parses the parts of an address; `None` if they are not valid names in Kubernetes.
    pub fn parse(namespace: &str, kind: &str, name: &str) -> Option<Self> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = |text: &str| {
            (1..=NAME_BYTES_MAX).contains(&text.len())
                && text.bytes().all(|byte| is_letter(byte) || b"-.".contains(&byte))
                && text.bytes().next().is_some_and(is_letter)
        };
        let kind = Kind::iter().find(|it| it.word() == kind)?;
        let is_valid = is_name(namespace) && is_name(name);
        is_valid.then(|| Self { namespace: namespace.into(), name: name.into(), kind })
    }

    /// Returns the argument of a command for this object.
    pub fn argument(&self) -> String {
        match self.kind.prefix() {
            Some(prefix) => format!("{prefix}/{}", self.name),
            None => self.name.to_string(),
        }
    }

    /// Returns the address of its page.
    pub fn address(&self) -> String {
        format!("/in/{}/{}/{}", self.namespace, self.kind.word(), self.name)
    }
}

/// Last figures of a running job from the JobManager, formatted; empty if there is no number.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// Records per second that the sources read.
    pub records_in: Box<str>,
    /// Records that wait in the sources.
    pub lag: Box<str>,
    /// Share of its time that the busiest subtask works.
    pub busy: Box<str>,
    /// Share of its time that the worst subtask waits for others.
    pub backpressure: Box<str>,
    /// Duration of the newest completed checkpoint.
    pub checkpoint: Box<str>,
}

/// What the table shows of an object. Unknown values are `None`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Row {
    pub lifecycle: Option<Box<str>>,
    pub job_state: Option<Box<str>>,
    pub version: Option<Box<str>>,
    pub image: Option<Box<str>>,
    pub parallelism: Option<i64>,
    /// Time of the newest known savepoint or checkpoint, in seconds since the epoch.
    pub snapshot_at: Option<i64>,
    /// Progress of an upgrade.
    pub upgrade: Option<Box<str>>,
    pub error: Option<Box<str>>,
    /// Seconds since the epoch.
    pub created_at: Option<i64>,
    pub is_session: bool,
    pub is_paused: bool,
    pub is_being_deleted: bool,
    /// Figures of a job that was measured, see [`crate::query::Query::figures`].
    pub figures: Option<Box<Figures>>,
    /// `name=value`, one per line, sorted by name.
    pub labels: Box<str>,
}

impl Row {
    /// Returns the value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }
}

/// How good or bad a state is, in the order of importance to a person.
#[derive(Clone, Copy, Debug, Display, Eq, Ord, PartialEq, PartialOrd)]
#[strum(serialize_all = "kebab-case")]
pub enum Tone {
    Bad,
    Moving,
    /// Nothing is known yet.
    Unknown,
    Quiet,
    Good,
}

impl Tone {
    /// Returns the tone of a state of a resource or its job.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_its_object() {
        for kind in Kind::iter() {
            let key = Key { namespace: "shop".into(), name: "orders.v2-1".into(), kind };
            let address = key.address();
            let parts: Vec<&str> = address.split('/').collect();
            let ["", "in", namespace, kind, name] = parts[..] else { panic!("{address}") };
            assert_eq!(Key::parse(namespace, kind, name), Some(key));
        }
        for (namespace, kind, name) in [
            ("shop", "pod", "a"),
            ("", "deployment", "a"),
            ("shop", "deployment", "../a"),
            ("A", "sessionjob", "a"),
        ] {
            assert_eq!(Key::parse(namespace, kind, name), None, "{namespace} {kind} {name}");
        }
        assert_eq!(Key::parse("shop", "deployment", &"a".repeat(254)), None);
    }
}
