//! Contents of the `_metadata` file of a savepoint or checkpoint: its operators, the size of each one's state, and the
//! other files that it needs.
//!
//! The file lists state handles one after the other, without lengths to skip them by, so each must be understood to
//! find the next. The file may be corrupt or malicious: counts are believed only as far as there are bytes, the nesting
//! of handles is limited, and no more is kept than people look at.
//!
//! The format is that of Flink's `MetadataV2Serializer` to `MetadataV6Serializer`, with their base
//! `MetadataV2V3SerializerBase`, as Flink 2.3 reads it. Flink 1.20 writes version 4, 2.0 version 5, and 2.1 to 2.3
//! write version 6. Version 7 is that of the pull request for FLINK-40209 (FLIP-600), which no release has yet: a file
//! of version 7 in another form counts as one of an unknown version.

mod handles;
mod operators;
mod reader;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use operators::keep;
use reader::Reader;

/// The first bytes of every such file.
pub const MAGIC: u32 = 0x4960_672d;
/// Supported format versions: those of Flink 1.3 to 2.3, and the proposed one.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 2..=PROPOSED;
/// The version that may still change until Flink releases it.
const PROPOSED: u32 = 7;

/// Maximum number of operators that are listed; no job has as many.
const OPERATORS_MAX: usize = 20_000;

/// Why a file cannot be parsed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseError {
    #[error(
        "it is not the metadata of a savepoint or checkpoint: it does not start with the magic number"
    )]
    Foreign,
    #[error(
        "its format version {version} is not supported, only {} to {} are: {}",
        VERSIONS.start(),
        VERSIONS.end(),
        if version < VERSIONS.start() { "Flink before 1.3 wrote it" } else { "a newer Flink wrote it" }
    )]
    Version { version: u32 },
    #[error(
        "its format version {PROPOSED} is not as it was proposed for Flink 2.4, which is the only form known here: {0}"
    )]
    Proposed(Box<Self>),
    #[error("it is incomplete: it ends within {what}")]
    Truncated { what: &'static str },
    #[error("it is corrupt at byte {at}: {problem}")]
    Broken { at: usize, problem: String },
}

/// Contents of a `_metadata` file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    pub format_version: u32,
    pub checkpoint_id: u64,
    /// `None` if the file does not say: those of version 4 and newer end with it.
    pub kind: Option<Kind>,
    /// Names of the states that hooks in the JobManager left; at most 50.
    pub master_states: Vec<String>,
    pub operators: Vec<Operator>,
    /// Ids of earlier checkpoints whose state some subtasks have, because their own part of this one failed; at most
    /// 50. Since version 7.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub earlier_checkpoints: BTreeSet<u64>,
    pub files: Files,
}

/// Form in which a snapshot was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    Checkpoint,
    CanonicalSavepoint,
    NativeSavepoint,
    /// In a format that the file does not name.
    Savepoint,
}

impl Kind {
    /// Returns the kind in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::CanonicalSavepoint => "canonical savepoint",
            Self::NativeSavepoint => "native savepoint",
            Self::Savepoint => "savepoint",
        }
    }
}

/// An operator of the job, with the state of all its subtasks.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operator {
    /// Hash of its uid, or of its place in the job if it has none: 32 hex digits.
    pub id: String,
    /// Known since version 5.
    pub name: Option<String>,
    /// Known since version 5, if the job sets one.
    pub uid: Option<String>,
    pub parallelism: i32,
    pub max_parallelism: i32,
    /// Number of subtasks that left state, not including finished ones.
    pub subtasks: u32,
    pub finished_subtasks: u32,
    /// Whether all subtasks were finished.
    pub is_finished: bool,
    /// Names of its operator states, such as `source-offsets`; at most 50. The names of keyed states are in the state
    /// itself.
    pub operator_states: Vec<String>,
    pub bytes: Bytes,
}

/// Size of state, in bytes. State whose size Flink does not know counts as 0.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bytes {
    pub keyed: u64,
    pub operator: u64,
    /// Records in flight between operators, in an unaligned checkpoint.
    pub channels: u64,
    /// State of coordinators, such as those that assign work to sources.
    pub coordinator: u64,
}

impl Bytes {
    /// Returns the sum of all.
    pub fn total(&self) -> u64 {
        [self.operator, self.channels, self.coordinator]
            .into_iter()
            .fold(self.keyed, u64::saturating_add)
    }
}

/// Files that hold state.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Files {
    /// Files beside the metadata, named relative to it: they move with it.
    pub beside: Use,
    /// Files with a path of their own, by folder; at most 200.
    pub folders: BTreeMap<String, Use>,
    /// Files in further folders.
    pub elsewhere: Use,
    /// State in the metadata itself.
    pub within: Use,
}

/// How often something is referred to, and how much of it is used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Use {
    pub references: u64,
    pub bytes: u64,
}

impl Use {
    fn add(&mut self, bytes: u64) {
        self.references += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            references: self.references.saturating_add(other.references),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl Files {
    /// Returns the files that are not below `folder`, which holds the metadata: they must stay where they are for it to
    /// be usable.
    pub fn outside(&self, folder: &str) -> Use {
        self.folders_outside(folder).fold(self.elsewhere, |sum, (_, its)| sum.and(its))
    }

    /// Returns the folders of those files, as far as they are counted separately.
    pub fn folders_outside(&self, folder: &str) -> impl Iterator<Item = (&str, Use)> {
        let folder = plain(folder);
        self.folders.iter().filter_map(move |(other, its)| {
            let rest = plain(other).strip_prefix(folder.as_str()).map(str::to_owned);
            let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            (!is_below).then_some((other.as_str(), *its))
        })
    }
}

/// Returns a folder in a form to compare: the file systems that read the same place have several names for it.
fn plain(folder: &str) -> String {
    let folder = folder.trim_end_matches('/');
    match folder.split_once(':') {
        Some(("file", path)) => format!("/{}", path.trim_start_matches('/')),
        Some(("s3a" | "s3n" | "s3p", rest)) => format!("s3:{rest}"),
        Some(_) | None => folder.to_owned(),
    }
}

/// Parses the whole file.
pub fn parse(bytes: &[u8]) -> Result<Metadata, ParseError> {
    let mut reader = Reader::new(bytes);
    let version = version(&mut reader)?;
    let parsed = read(reader, version);
    // What is broken cannot be told from what has changed since.
    parsed.map_err(|error| match version {
        PROPOSED => ParseError::Proposed(error.into()),
        _ => error,
    })
}

/// Returns the error of metadata of which nothing is known: what it refers to need not be in it as text, as it is in
/// all known versions.
pub fn unknown(bytes: &[u8]) -> Option<ParseError> {
    let is_of_a_newer_flink =
        |error: &ParseError| matches!(error, ParseError::Version { .. } | ParseError::Proposed(_));
    parse(bytes).err().filter(is_of_a_newer_flink)
}

fn version(reader: &mut Reader<'_>) -> Result<u32, ParseError> {
    if reader.unsigned("its beginning") != Ok(MAGIC) {
        return Err(ParseError::Foreign);
    }
    let version = reader.unsigned("its format version")?;
    if VERSIONS.contains(&version) { Ok(version) } else { Err(ParseError::Version { version }) }
}

fn read(mut reader: Reader<'_>, version: u32) -> Result<Metadata, ParseError> {
    let checkpoint_id = reader.long("the checkpoint's id")?;
    let checkpoint_id = u64::try_from(checkpoint_id)
        .map_err(|_| reader.broken(format!("the checkpoint's id is {checkpoint_id}")))?;
    let mut master_states = Vec::new();
    for _ in 0..reader.count("the number of master states")? {
        let name = reader.master_state()?;
        keep(&mut master_states, name);
    }
    let count = reader.count("the number of operators")?;
    if count as usize > OPERATORS_MAX {
        return Err(reader.broken(format!("it claims to have {count} operators")));
    }
    let mut operators = Vec::new();
    for _ in 0..count {
        operators.push(reader.operator(version)?);
    }
    Ok(Metadata {
        format_version: version,
        checkpoint_id,
        kind: if version >= 4 { reader.properties()? } else { None },
        master_states,
        operators,
        earlier_checkpoints: reader.earlier_checkpoints,
        files: reader.files,
    })
}

#[cfg(test)]
mod tests;
