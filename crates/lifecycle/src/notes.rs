//! Notes that the operator keeps on a `FlinkDeployment` between passes.
//!
//! Each note is an entry of `status.clusterInfo`, which also holds Flink's own facts. The Java operator keeps entries
//! that it does not know. What has to stay in the status for as long as an error does is part of [the
//! error](crate::error_document).

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::attempts::Attempts;

/// Id of the job whose JobManager is being created, until that is done. HA metadata names a checkpoint of this job only
/// if the JobManager was created.
pub const STARTING_JOB: Note<String> = Note::plain("StartingJob");

/// Uid of the JobManager's Deployment that an upgrade replaces, until the new one is created.
pub const REPLACED_DEPLOYMENT: Note<String> = Note::plain("ReplacedDeployment");

/// The JobManager's Deployment was removed before any of its processes ran; kept until there is another one. The newest
/// state is what its job was to start from.
pub const REMOVED_UNSTARTED: Note<Removed> = Note::plain("RemovedUnstarted");

/// Uid of the JobManager's Deployment for which the API server refused another object of the cluster, until all objects
/// exist.
pub const UNFINISHED_DEPLOYMENT: Note<String> = Note::plain("UnfinishedDeployment");

/// High availability options that the cluster was started with.
pub const STARTED_WITH: Note<BTreeMap<String, String>> = Note::json("HighAvailability");

/// The newest checkpoint named by HA metadata when it was decided to restore from the metadata. If the metadata names
/// an older one when it is used, it is not the same metadata.
pub const STOPPED_AT: Note<StoppedAt> = Note::plain("StoppedAt");

/// The last checkpoint of a job that was stopped with HA metadata alone, which Flink deletes if the next program cannot
/// restore it. It stays until something else is started, or the next program is stable.
pub const LAST_CHECKPOINT: Note<LastCheckpoint> = Note::json("LastCheckpoint");

/// Jobs that ran before the one on record, and whose HA metadata may still be in ZooKeeper. Other metadata there may
/// belong to someone else: a cluster of this name in another namespace uses the same location unless its `path.root`
/// says otherwise.
pub const FORMER_JOBS: Note<JobIds> = Note::plain("FormerJobs");

/// Number of restarts of a failed job.
pub const RESTART_ATTEMPTS: Note<Attempts> = Note::json("RestartAttempts");

/// Restarts and checkpoints of a running job, in the Java operator's format.
pub const CLUSTER_HEALTH: Note<HealthInfo> = Note::json("ClusterHealthInfo");

/// The generation that Flink was asked to scale to. A second attempt would meet the same refusal.
pub const SCALED_TO: Note<i64> = Note::plain("InPlaceScaling");

/// A redeploy that waits for the statistics of the job it drops.
pub const REDEPLOY_WAITS: Note<Waiting> = Note::plain("RedeployWaits");

/// Start of a deletion's wait for a JobManager that cannot be asked for its jobs.
pub const AWAY_SINCE: Note<Timestamp> = Note::plain("AwaySince");

/// The generation of a session cluster that waits until the jobs have left it.
pub const AWAITS_JOBS: Note<i64> = Note::plain("AwaitsJobs");

/// The generation of a session cluster that is about to be replaced and keeps its jobs: until it is, none of them is
/// stopped.
pub const KEEPS_JOBS: Note<i64> = Note::plain("KeepsJobs");

/// Returns the generation for which the jobs of a session cluster are stopped, or wait.
pub fn generation_of_jobs(info: &BTreeMap<String, String>) -> Option<i64> {
    AWAITS_JOBS.get(info).max(KEEPS_JOBS.get(info))
}

/// Progress of the trial of a changed spec, until something is stopped for it.
pub const PREFLIGHT: Note<Trial> = Note::plain("Preflight");

/// Name of the run whose standby pods were handed over to the cluster's Deployments, until these have adopted all of
/// them. Until then the `FlinkDeployment` owns the pods, and they outlive their Deployments.
pub const HANDED_OVER: Note<String> = Note::plain("HandedOver");

/// The generation whose pods cannot stand by, so that its upgrade is not hot.
pub const COLD_UPGRADE: Note<i64> = Note::plain("ColdUpgrade");

/// Entries that apply to a single cluster and are meaningless for the next one.
pub(super) const OF_ONE_CLUSTER: [&str; 10] = [
    COLD_UPGRADE.key,
    AWAITS_JOBS.key,
    KEEPS_JOBS.key,
    CLUSTER_HEALTH.key,
    REPLACED_DEPLOYMENT.key,
    REMOVED_UNSTARTED.key,
    STARTING_JOB.key,
    STARTED_WITH.key,
    STOPPED_AT.key,
    UNFINISHED_DEPLOYMENT.key,
];

/// `status.clusterInfo`.
type ClusterInfo = BTreeMap<String, String>;

/// An entry of `status.clusterInfo` and its type.
pub struct Note<T> {
    pub key: &'static str,
    parse: fn(&str) -> Option<T>,
    to_text: fn(&T) -> String,
}

impl<T: FromStr + Display> Note<T> {
    const fn plain(key: &'static str) -> Self {
        Self { key, parse: |text| text.parse().ok(), to_text: T::to_string }
    }
}

impl<T: Serialize + DeserializeOwned> Note<T> {
    const fn json(key: &'static str) -> Self {
        Self {
            key,
            parse: |text| serde_json::from_str(text).ok(),
            to_text: |value| serde_json::json!(value).to_string(),
        }
    }
}

impl<T> Note<T> {
    /// Reads the note. An entry that cannot be parsed is ignored.
    pub fn get(&self, info: &ClusterInfo) -> Option<T> {
        (self.parse)(info.get(self.key)?)
    }

    pub fn set(&self, info: &mut ClusterInfo, value: &T) {
        info.insert(self.key.to_owned(), (self.to_text)(value));
    }

    /// Removes the note; returns whether there was one.
    pub fn clear(&self, info: &mut ClusterInfo) -> bool {
        info.remove(self.key).is_some()
    }
}

/// Ids of jobs, the oldest first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JobIds(pub Vec<String>);

impl FromStr for JobIds {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // They become paths, and anyone may have written them.
        let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric());
        Ok(Self(text.split(',').filter(is_id).map(str::to_owned).collect()))
    }
}

impl Display for JobIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// When something was removed, and the record of the last start at that time. Another start invalidates the note, even
/// one by the Java operator, which keeps the entry unchanged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Removed {
    pub at: Timestamp,
    /// `None` in notes of older versions.
    pub start: Option<LastStart>,
}

/// Record of the last start, in milliseconds since the epoch. It is compared for equality, not ordered: the clocks of
/// two operators, and of Flink, differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LastStart {
    /// `reconciliationTimestamp`.
    pub deployed: i64,
    /// `jobStatus.startTime`; zero for a job that was not seen starting.
    pub started: i64,
}

/// Begins the last start as a suffix of the time, by RFC 9557. Versions that know only the time can still read it.
const START: &str = "[start=";

impl FromStr for Removed {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // An earlier format has a space instead of the suffix.
        let (at, start) =
            text.split_once(START).or_else(|| text.split_once(' ')).unwrap_or((text, ""));
        let at = at.parse().map_err(|_| ())?;
        if start.is_empty() {
            return Ok(Self { at, start: None });
        }
        let (deployed, started) = start.trim_end_matches(']').split_once(['-', ' ']).ok_or(())?;
        let number = |text: &str| text.parse().map_err(|_| ());
        let start = LastStart { deployed: number(deployed)?, started: number(started)? };
        Ok(Self { at, start: Some(start) })
    }
}

impl Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, start } = self;
        write!(f, "{at}")?;
        match start {
            Some(LastStart { deployed, started }) => write!(f, "{START}{deployed}-{started}]"),
            None => Ok(()),
        }
    }
}

/// A checkpoint of a job: its number, and the job's start (`jobStatus.startTime`, in milliseconds since the epoch).
/// Another start invalidates the note, even one by the Java operator, which keeps the entry unchanged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StoppedAt {
    pub checkpoint: u64,
    pub started: i64,
}

impl FromStr for StoppedAt {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (checkpoint, started) = text.split_once(START).ok_or(())?;
        let started = started.trim_end_matches(']').parse().map_err(|_| ())?;
        Ok(Self { checkpoint: checkpoint.parse().map_err(|_| ())?, started })
    }
}

impl Display for StoppedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{START}{}]", self.checkpoint, self.started)
    }
}

/// A checkpoint that a job was stopped with.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastCheckpoint {
    /// Number and path of the newest one when it was decided to stop the job.
    pub checkpoint: u64,
    pub path: String,
    /// The job that took it, by its start (`jobStatus.startTime`).
    pub started: i64,
    /// The start that used the HA metadata, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<MetadataUsed>,
}

/// The start of a job from HA metadata.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataUsed {
    /// `reconciliationTimestamp`. Another start invalidates the note, even one by the Java operator, which keeps the
    /// entry unchanged.
    pub deployed: i64,
    /// Number of the newest checkpoint that the metadata named, after all that wrote it had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<u64>,
}

/// Trial of a changed spec.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Trial {
    /// Its pods exist, or will.
    UnderWay,
    /// Like [`Self::UnderWay`]: pods that will stand by, and already contend for the lock of the JobManagers.
    WarmingUp,
    /// Nothing is tried. Pods that stood by may still exist.
    LeftOver,
    /// What has this digest may start. Its pods are gone.
    Passed(String),
    /// Its pods wait to take over.
    StandingBy(Standby),
}

/// Pods of a new spec that wait to take over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Standby {
    /// Digest of what the pods were created from.
    pub digest: String,
    /// Name of their run of the job.
    pub run: String,
    /// Number of the checkpoint that the job has completed since they began to wait.
    pub checkpoint: Option<u64>,
    /// When the lock was released for them, after it had been held until the old pods had ended.
    pub leads: Option<Timestamp>,
}

impl Trial {
    /// Returns true if a spec is being tried.
    pub fn is_under_way(&self) -> bool {
        matches!(self, Self::UnderWay | Self::WarmingUp)
    }

    /// Returns true if there may be pods that contend for the lock of the JobManagers.
    pub(super) fn may_contend(&self) -> bool {
        match self {
            Self::WarmingUp | Self::LeftOver | Self::StandingBy(_) => true,
            Self::UnderWay | Self::Passed(_) => false,
        }
    }
}

const UNDER_WAY: &str = "under way";
const WARMING_UP: &str = "warming up";
const LEFT_OVER: &str = "left over";
const PASSED: &str = "passed ";
const STANDBY_PREFIX: &str = "standing by ";
/// Begins the time of the release. Notes of older versions have no time.
const LEADS: &str = "leads";

impl FromStr for Trial {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(digest) = text.strip_prefix(PASSED) {
            return Ok(Self::Passed(digest.to_owned()));
        }
        if let Some(standby) = text.strip_prefix(STANDBY_PREFIX) {
            let mut words = standby.split(' ');
            let mut word = || words.next().map(str::to_owned).ok_or(());
            let (digest, run) = (word()?, word()?);
            let (mut checkpoint, mut leads) = (None, None);
            for word in words {
                if let Some(at) = word.strip_prefix(LEADS) {
                    leads = Some(at.trim_start_matches('=').parse().unwrap_or_default());
                } else {
                    checkpoint = Some(word.parse().map_err(|_| ())?);
                }
            }
            return Ok(Self::StandingBy(Standby { digest, run, checkpoint, leads }));
        }
        match text {
            UNDER_WAY => Ok(Self::UnderWay),
            WARMING_UP => Ok(Self::WarmingUp),
            LEFT_OVER => Ok(Self::LeftOver),
            _ => Err(()),
        }
    }
}

impl Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnderWay => f.write_str(UNDER_WAY),
            Self::WarmingUp => f.write_str(WARMING_UP),
            Self::LeftOver => f.write_str(LEFT_OVER),
            Self::Passed(digest) => write!(f, "{PASSED}{digest}"),
            Self::StandingBy(Standby { digest, run, checkpoint, leads }) => {
                write!(f, "{STANDBY_PREFIX}{digest} {run}")?;
                checkpoint.map_or(Ok(()), |checkpoint| write!(f, " {checkpoint}"))?;
                leads.map_or(Ok(()), |at| write!(f, " {LEADS}={at}"))
            }
        }
    }
}

/// Returns the pods of a new spec that wait to take over.
pub fn standby_of(info: &ClusterInfo) -> Option<Standby> {
    match PREFLIGHT.get(info)? {
        Trial::StandingBy(standby) => Some(standby),
        Trial::UnderWay | Trial::WarmingUp | Trial::LeftOver | Trial::Passed(_) => None,
    }
}

/// A wait that belongs to one generation of the spec.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waiting {
    pub generation: i64,
    pub since: Timestamp,
}

impl FromStr for Waiting {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (generation, since) = text.split_once(' ').ok_or(())?;
        let generation = generation.parse().map_err(|_| ())?;
        Ok(Self { generation, since: since.parse().map_err(|_| ())? })
    }
}

impl Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.generation, self.since)
    }
}

/// Figures remembered between two observations; times are in milliseconds since the epoch.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthInfo {
    pub time_stamp: i64,
    pub num_restarts: i64,
    pub num_restarts_evaluation_time_stamp: i64,
    pub num_completed_checkpoints: i64,
    pub num_completed_checkpoints_increased_time_stamp: i64,
    pub health_result: HealthResult,
}

/// Result of the health check.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct HealthResult {
    pub healthy: bool,
    pub error: Option<String>,
}

impl Default for HealthResult {
    fn default() -> Self {
        Self { healthy: true, error: None }
    }
}

#[cfg(test)]
mod tests;
