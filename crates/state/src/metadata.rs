//! Content of the `_metadata` file of a savepoint or checkpoint: its operators, how large the state
//! of each is, and which other files it needs.
//!
//! The file lists handles of state one after the other, without lengths to skip by, so each must be
//! understood to find the next. It may be broken, or be somebody's trap: counts are believed only as
//! far as there are bytes, handles nest only so deep, and no more is kept than people look at.
//!
//! The format is that of Flink's `MetadataV2Serializer` to `MetadataV6Serializer`, with their base
//! `MetadataV2V3SerializerBase`, as Flink 2.3 reads it. Flink 1.20 writes version 4, 2.0 version 5, and
//! 2.1 to 2.3 write version 6.

mod handles;
mod operators;
mod reader;

use std::collections::BTreeMap;

use serde::Serialize;

use operators::keep;
use reader::Reader;

/// The first bytes of every such file.
pub const MAGIC: u32 = 0x4960_672d;
/// Format versions that are understood: those of Flink 1.3 to 2.3.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 2..=6;

/// Operators that are listed; no job has as many.
const OPERATORS_MAX: usize = 20_000;

/// Why a file is not understood.
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
    #[error("it is incomplete: it ends within {what}")]
    Truncated { what: &'static str },
    #[error("it is corrupt at byte {at}: {problem}")]
    Broken { at: usize, problem: String },
}

/// Content of a `_metadata` file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    pub format_version: u32,
    pub checkpoint_id: u64,
    /// As far as the file says: those of version 4 and newer end with it.
    pub kind: Option<Kind>,
    /// Names of what hooks in the JobManager left; at most 50.
    pub master_states: Vec<String>,
    pub operators: Vec<Operator>,
    pub files: Files,
}

/// Form in which a snapshot was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    Checkpoint,
    CanonicalSavepoint,
    NativeSavepoint,
    /// In a format that is not named.
    Savepoint,
}

impl Kind {
    /// For people.
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
    /// Hash of its uid, or of its place in the job where it has none: 32 hex digits.
    pub id: String,
    /// Known from version 5 on.
    pub name: Option<String>,
    /// Known from version 5 on, where the job gives one.
    pub uid: Option<String>,
    pub parallelism: i32,
    pub max_parallelism: i32,
    /// Subtasks that left something, those that were finished not among them.
    pub subtasks: u32,
    pub finished_subtasks: u32,
    /// All subtasks were finished.
    pub is_finished: bool,
    /// Names of its operator states, such as `source-offsets`; at most 50. Those of keyed states
    /// are in the state itself.
    pub operator_states: Vec<String>,
    pub bytes: Bytes,
}

/// How large state is, in bytes. What Flink does not know the size of counts as none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bytes {
    pub keyed: u64,
    pub operator: u64,
    /// Records on their way between operators, of an unaligned checkpoint.
    pub channels: u64,
    /// Of what assigns work to sources and such.
    pub coordinator: u64,
}

impl Bytes {
    /// All of them.
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
    /// Beside the metadata, named relative to it: they move with it.
    pub beside: Use,
    /// With a path of their own, by folder; at most 200.
    pub folders: BTreeMap<String, Use>,
    /// Those in still more folders.
    pub elsewhere: Use,
    /// State that is in the metadata itself.
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

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            references: self.references.saturating_add(other.references),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl Files {
    /// Those that are not below `folder`, in which the metadata is: they must stay where they are for
    /// it to be of use.
    pub fn outside(&self, folder: &str) -> Use {
        self.folders_outside(folder).fold(self.elsewhere, |sum, (_, its)| sum.and(its))
    }

    /// The folders of those, as far as they are told apart.
    pub fn folders_outside(&self, folder: &str) -> impl Iterator<Item = (&str, Use)> {
        let folder = plain(folder);
        self.folders.iter().filter_map(move |(other, its)| {
            let rest = plain(other).strip_prefix(folder.as_str()).map(str::to_owned);
            let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            (!is_below).then_some((other.as_str(), *its))
        })
    }
}

/// A folder as it is compared: the file systems that read the same place have several names for it.
fn plain(folder: &str) -> String {
    let folder = folder.trim_end_matches('/');
    match folder.split_once(':') {
        Some(("file", path)) => format!("/{}", path.trim_start_matches('/')),
        Some(("s3a" | "s3n" | "s3p", rest)) => format!("s3:{rest}"),
        Some(_) | None => folder.to_owned(),
    }
}

/// Reads the whole file.
pub fn parse(bytes: &[u8]) -> Result<Metadata, ParseError> {
    let mut reader = Reader::new(bytes);
    if bytes.len() < 4 || reader.unsigned("its beginning")? != MAGIC {
        return Err(ParseError::Foreign);
    }
    let version = reader.unsigned("its format version")?;
    if !VERSIONS.contains(&version) {
        return Err(ParseError::Version { version });
    }
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
    let kind = if version >= 4 { reader.properties()? } else { None };
    let files = reader.files;
    Ok(Metadata { format_version: version, checkpoint_id, kind, master_states, operators, files })
}

#[cfg(test)]
mod tests;
