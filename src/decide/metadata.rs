//! What the `_metadata` file of a savepoint or checkpoint says: its operators, how large the state
//! of each is, and which other files it needs.
//!
//! The file lists handles of state one after the other, without lengths to skip by, so each must be
//! understood to find the next. It may be broken, or be somebody's trap: counts are believed only as
//! far as there are bytes, handles nest only so deep, and no more is kept than people look at.
//!
//! The format is that of Flink's `MetadataV2Serializer` to `MetadataV6Serializer`, with their base
//! `MetadataV2V3SerializerBase`, as Flink 2.1 reads it.

use std::collections::BTreeMap;

use serde::Serialize;

/// The first bytes of every such file.
pub const MAGIC: u32 = 0x4960_672d;
/// Format versions that are understood: those of Flink 1.3 to 2.1.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 2..=6;

/// Begins what a master hook left.
const MASTER_STATE_MAGIC: u32 = 0xc96b_1696;
/// Begins an object of Java.
const JAVA_OBJECT: [u8; 4] = [0xac, 0xed, 0x00, 0x05];
/// Operators that are listed; no job has as many.
const OPERATORS_MAX: usize = 20_000;
/// Names of states that are kept of an operator, and of master states.
const NAMES_MAX: usize = 50;
/// Folders that files are counted by; those of more are counted together.
const FOLDERS_MAX: usize = 200;
/// Handles within handles: a changelog holds what holds groups of keys, which are in a file.
const DEPTH_MAX: u32 = 8;

/// Kinds of handles, as `MetadataV2V3SerializerBase` numbers them.
mod handle {
    pub(super) const NULL: u8 = 0;
    pub(super) const BYTES: u8 = 1;
    pub(super) const FILE: u8 = 2;
    pub(super) const KEY_GROUPS: u8 = 3;
    pub(super) const OPERATOR: u8 = 4;
    pub(super) const INCREMENTAL: u8 = 5;
    pub(super) const RELATIVE_FILE: u8 = 6;
    pub(super) const SAVEPOINT_KEY_GROUPS: u8 = 7;
    pub(super) const CHANGELOG: u8 = 8;
    pub(super) const CHANGELOG_BYTES: u8 = 9;
    pub(super) const CHANGELOG_FILES: u8 = 10;
    pub(super) const INCREMENTAL_V2: u8 = 11;
    pub(super) const KEY_GROUPS_V2: u8 = 12;
    pub(super) const CHANGELOG_FILES_V2: u8 = 13;
    pub(super) const CHANGELOG_V2: u8 = 14;
    pub(super) const SEGMENT: u8 = 15;
    pub(super) const EMPTY_SEGMENT: u8 = 16;
    pub(super) const SEGMENT_OPERATOR: u8 = 17;
}

/// Kinds of channel handles of version 6, as `ChannelStateHandleSerializerV2` numbers them: of one
/// channel, and of many.
const CHANNEL_KINDS: [u8; 2] = [1, 2];
const MERGED_CHANNEL_KINDS: [u8; 2] = [3, 4];

/// Why a file is not understood.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseError {
    #[error("it is not the metadata of a savepoint or checkpoint: it begins otherwise")]
    Foreign,
    #[error(
        "its format version {version} is not understood here, which are {} to {}: {}",
        VERSIONS.start(),
        VERSIONS.end(),
        if version < VERSIONS.start() { "Flink before 1.3 wrote it" } else { "a newer Flink wrote it" }
    )]
    Version { version: u32 },
    #[error("it is incomplete: it ends within {what}")]
    Truncated { what: &'static str },
    #[error("it is broken at byte {at}: {problem}")]
    Broken { at: usize, problem: String },
}

/// What the file says.
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

/// What a snapshot was taken as.
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
    let mut reader = Reader { bytes, at: 0, files: Files::default() };
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
        return Err(reader.broken(format!("it counts {count} operators")));
    }
    let mut operators = Vec::new();
    for _ in 0..count {
        operators.push(reader.operator(version)?);
    }
    let rest = reader.bytes.get(reader.at..).unwrap_or_default();
    let kind = if version >= 4 { reader.properties(rest)? } else { None };
    let files = reader.files;
    Ok(Metadata { format_version: version, checkpoint_id, kind, master_states, operators, files })
}

fn keep(names: &mut Vec<String>, name: String) {
    if names.len() < NAMES_MAX && !names.contains(&name) {
        names.push(name);
    }
}

/// The file, and what of it was read.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    files: Files,
}

impl<'a> Reader<'a> {
    fn broken(&self, problem: impl Into<String>) -> ParseError {
        ParseError::Broken { at: self.at, problem: problem.into() }
    }

    fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], ParseError> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or(ParseError::Truncated { what })?;
        self.at += length;
        Ok(found)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ParseError> {
        let found = self.take(N, what)?;
        found.try_into().map_err(|_| ParseError::Truncated { what })
    }

    fn byte(&mut self, what: &'static str) -> Result<u8, ParseError> {
        let [byte] = self.array(what)?;
        Ok(byte)
    }

    fn unsigned(&mut self, what: &'static str) -> Result<u32, ParseError> {
        self.array(what).map(u32::from_be_bytes)
    }

    fn int(&mut self, what: &'static str) -> Result<i32, ParseError> {
        self.array(what).map(i32::from_be_bytes)
    }

    fn long(&mut self, what: &'static str) -> Result<i64, ParseError> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// How many of something follow, which is never less than none.
    fn count(&mut self, what: &'static str) -> Result<u32, ParseError> {
        let count = self.int(what)?;
        u32::try_from(count).map_err(|_| self.broken(format!("{what} is {count}")))
    }

    /// A size that Flink may not know, which it writes as -1.
    fn size(&mut self, what: &'static str) -> Result<u64, ParseError> {
        Ok(u64::try_from(self.long(what)?).unwrap_or(0))
    }

    /// Text as Java's `writeUTF` writes it. Its two forms that differ from UTF-8, of the zero and of
    /// what is beyond 16 bits, are rare in names and not put right.
    ///
    /// Without what could move the cursor of a terminal.
    fn text(&mut self, what: &'static str) -> Result<String, ParseError> {
        let length = u16::from_be_bytes(self.array(what)?);
        let text = String::from_utf8_lossy(self.take(length.into(), what)?);
        Ok(text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect())
    }

    fn skip(&mut self, count: u32, each: usize, what: &'static str) -> Result<(), ParseError> {
        let length = (count as usize).checked_mul(each).ok_or(ParseError::Truncated { what })?;
        self.take(length, what).map(drop)
    }

    /// What a hook left: its name.
    fn master_state(&mut self) -> Result<String, ParseError> {
        const WHAT: &str = "a master state";
        if self.unsigned(WHAT)? != MASTER_STATE_MAGIC {
            return Err(self.broken("no master state begins there"));
        }
        let length = self.count(WHAT)?;
        let end = self.at.saturating_add(length as usize);
        self.int(WHAT)?;
        let name = self.text(WHAT)?;
        let length = self.count(WHAT)?;
        self.skip(length, 1, WHAT)?;
        if self.at != end {
            return Err(self.broken("a master state is not as long as it says"));
        }
        Ok(name)
    }

    fn operator(&mut self, version: u32) -> Result<Operator, ParseError> {
        const WHAT: &str = "an operator";
        let mut operator = Operator::default();
        if version >= 5 {
            operator.name = Some(self.text(WHAT)?).filter(|name| !name.is_empty());
            operator.uid = Some(self.text(WHAT)?).filter(|uid| !uid.is_empty());
        }
        let id: [u8; 16] = self.array(WHAT)?;
        operator.id = format!("{:032x}", u128::from_be_bytes(id));
        operator.parallelism = self.int(WHAT)?;
        operator.max_parallelism = self.int(WHAT)?;
        if operator.parallelism < 0 || operator.max_parallelism < operator.parallelism {
            return Err(self.broken(format!(
                "operator {} has parallelism {} of at most {}",
                operator.id, operator.parallelism, operator.max_parallelism
            )));
        }
        if version >= 3 {
            operator.bytes.coordinator = self.stream(0)?;
        } else {
            // The length of a chain, which nobody reads any more.
            self.int(WHAT)?;
        }
        let count = self.int(WHAT)?;
        if count < 0 {
            operator.is_finished = true;
            return Ok(operator);
        }
        for _ in 0..count {
            // From version 3 on, one that was finished has a negative number and nothing else.
            if self.int("a subtask")? < 0 && version >= 3 {
                operator.finished_subtasks += 1;
            } else {
                operator.subtasks += 1;
                self.subtask(version, &mut operator)?;
            }
        }
        Ok(operator)
    }

    fn subtask(&mut self, version: u32, operator: &mut Operator) -> Result<(), ParseError> {
        const WHAT: &str = "a subtask";
        if version == 2 {
            self.long(WHAT)?;
            if self.int(WHAT)? > 0 {
                return Err(self.broken("it has state of Flink 1.1"));
            }
        }
        let sum = &mut operator.bytes;
        // What the operator manages, and what it wrote as it liked.
        for _ in 0..2 {
            if self.int(WHAT)? != 0 {
                let bytes = self.operator_state(&mut operator.operator_states)?;
                sum.operator = sum.operator.saturating_add(bytes);
            }
        }
        for _ in 0..2 {
            sum.keyed = sum.keyed.saturating_add(self.keyed(0)?);
        }
        if version >= 3 {
            // Of inputs, and of outputs.
            for _ in 0..2 {
                for _ in 0..self.count("the state of channels")? {
                    sum.channels = sum.channels.saturating_add(self.channel(version)?);
                }
            }
        }
        Ok(())
    }

    /// Lists and broadcast state: names with offsets into one stream.
    fn operator_state(&mut self, names: &mut Vec<String>) -> Result<u64, ParseError> {
        const WHAT: &str = "the state of an operator";
        let kind = self.byte(WHAT)?;
        if kind == handle::NULL {
            return Ok(0);
        }
        if ![handle::OPERATOR, handle::SEGMENT_OPERATOR].contains(&kind) {
            return Err(self.unknown("operator state", kind));
        }
        for _ in 0..self.count(WHAT)? {
            let name = self.text(WHAT)?;
            keep(names, name);
            self.byte(WHAT)?;
            let offsets = self.count(WHAT)?;
            self.skip(offsets, 8, WHAT)?;
        }
        if kind == handle::SEGMENT_OPERATOR {
            // Folders of the task and of what it shares, and whether there is nothing in them.
            self.text(WHAT)?;
            self.text(WHAT)?;
            self.byte(WHAT)?;
        }
        self.stream(0)
    }

    /// State by key.
    fn keyed(&mut self, depth: u32) -> Result<u64, ParseError> {
        const WHAT: &str = "keyed state";
        let kind = self.byte(WHAT)?;
        if depth > DEPTH_MAX {
            return Err(self.broken("its handles are nested too deep"));
        }
        match kind {
            handle::NULL => Ok(0),
            handle::KEY_GROUPS | handle::KEY_GROUPS_V2 | handle::SAVEPOINT_KEY_GROUPS => {
                let bytes = self.key_groups(depth)?;
                if kind == handle::KEY_GROUPS_V2 {
                    self.text(WHAT)?;
                }
                Ok(bytes)
            }
            handle::INCREMENTAL | handle::INCREMENTAL_V2 => {
                self.long(WHAT)?;
                self.text(WHAT)?;
                self.skip(2, 4, WHAT)?;
                if kind == handle::INCREMENTAL_V2 {
                    self.long(WHAT)?;
                }
                let mut bytes = self.stream(depth + 1)?;
                // What is shared with other checkpoints, and what is not.
                for _ in 0..2 {
                    for _ in 0..self.count(WHAT)? {
                        self.text(WHAT)?;
                        bytes = bytes.saturating_add(self.stream(depth + 1)?);
                    }
                }
                if kind == handle::INCREMENTAL_V2 {
                    self.text(WHAT)?;
                }
                Ok(bytes)
            }
            handle::CHANGELOG | handle::CHANGELOG_V2 => {
                self.skip(2, 4, WHAT)?;
                self.long(WHAT)?;
                let mut bytes = 0_u64;
                // What was materialized, and what came after it.
                for _ in 0..2 {
                    for _ in 0..self.count(WHAT)? {
                        bytes = bytes.saturating_add(self.keyed(depth + 1)?);
                    }
                }
                self.long(WHAT)?;
                if kind == handle::CHANGELOG_V2 {
                    self.long(WHAT)?;
                }
                self.text(WHAT)?;
                Ok(bytes)
            }
            handle::CHANGELOG_BYTES => {
                self.skip(2, 4, WHAT)?;
                self.skip(2, 8, WHAT)?;
                let mut bytes = 0_u64;
                for _ in 0..self.count(WHAT)? {
                    self.int(WHAT)?;
                    let length = self.count(WHAT)?;
                    self.skip(length, 1, WHAT)?;
                    bytes = bytes.saturating_add(length.into());
                    self.files.within.add(length.into());
                }
                self.text(WHAT)?;
                Ok(bytes)
            }
            handle::CHANGELOG_FILES | handle::CHANGELOG_FILES_V2 => {
                self.skip(2, 4, WHAT)?;
                for _ in 0..self.count(WHAT)? {
                    self.long(WHAT)?;
                    self.stream(depth + 1)?;
                }
                // Its files hold changes of others, too: what it has in them is said by itself.
                let bytes = self.size(WHAT)?;
                self.long(WHAT)?;
                self.text(WHAT)?;
                if kind == handle::CHANGELOG_FILES_V2 {
                    self.text(WHAT)?;
                }
                Ok(bytes)
            }
            other => Err(self.unknown("keyed state", other)),
        }
    }

    /// Offsets of groups of keys, and the stream that they point into.
    fn key_groups(&mut self, depth: u32) -> Result<u64, ParseError> {
        const WHAT: &str = "groups of keys";
        self.int(WHAT)?;
        let groups = self.count(WHAT)?;
        self.skip(groups, 8, WHAT)?;
        self.stream(depth + 1)
    }

    /// Records between operators.
    fn channel(&mut self, version: u32) -> Result<u64, ParseError> {
        const WHAT: &str = "the state of channels";
        let is_merged = if version < 6 {
            false
        } else {
            let kind = self.byte(WHAT)?;
            if !CHANNEL_KINDS.contains(&kind) && !MERGED_CHANNEL_KINDS.contains(&kind) {
                return Err(self.unknown("channel state", kind));
            }
            MERGED_CHANNEL_KINDS.contains(&kind)
        };
        self.int(WHAT)?;
        if is_merged {
            let bytes = self.size(WHAT)?;
            self.stream(0)?;
            let length = self.count(WHAT)?;
            self.skip(length, 1, WHAT)?;
            return Ok(bytes);
        }
        // Which gate and channel, or which partition and part of it.
        self.skip(2, 4, WHAT)?;
        let offsets = self.count(WHAT)?;
        self.skip(offsets, 8, WHAT)?;
        let bytes = self.size(WHAT)?;
        // All channels of a subtask are in one stream: the size of each is its own.
        self.stream(0)?;
        Ok(bytes)
    }

    /// Bytes, wherever they are.
    fn stream(&mut self, depth: u32) -> Result<u64, ParseError> {
        const WHAT: &str = "a handle of state";
        let kind = self.byte(WHAT)?;
        if depth > DEPTH_MAX {
            return Err(self.broken("its handles are nested too deep"));
        }
        match kind {
            handle::NULL | handle::EMPTY_SEGMENT => Ok(0),
            handle::BYTES => {
                self.text(WHAT)?;
                let length = self.count(WHAT)?;
                self.skip(length, 1, WHAT)?;
                self.files.within.add(length.into());
                Ok(length.into())
            }
            handle::FILE => {
                let bytes = self.size(WHAT)?;
                let path = self.text(WHAT)?;
                self.file(&path, bytes);
                Ok(bytes)
            }
            handle::RELATIVE_FILE => {
                let path = self.text(WHAT)?;
                let bytes = self.size(WHAT)?;
                if path.starts_with('/') || path.split('/').any(|part| part == "..") {
                    return Err(self.broken(format!("`{}` is no file beside it", shown(&path))));
                }
                self.files.beside.add(bytes);
                Ok(bytes)
            }
            handle::KEY_GROUPS => self.key_groups(depth),
            handle::SEGMENT => {
                self.long(WHAT)?;
                let bytes = self.size(WHAT)?;
                self.int(WHAT)?;
                let path = self.text(WHAT)?;
                self.text(WHAT)?;
                self.file(&path, bytes);
                Ok(bytes)
            }
            other => Err(self.unknown("state", other)),
        }
    }

    fn file(&mut self, path: &str, bytes: u64) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let has_room = self.files.folders.len() < FOLDERS_MAX;
        match self.files.folders.get_mut(folder) {
            Some(known) => known.add(bytes),
            None if has_room => {
                self.files.folders.entry(folder.to_owned()).or_default().add(bytes);
            }
            None => self.files.elsewhere.add(bytes),
        }
    }

    fn unknown(&self, of: &str, kind: u8) -> ParseError {
        self.broken(format!("there is no {of} of kind {kind}"))
    }

    /// The object of Java at the end, of which only the names that are in it are read.
    fn properties(&self, rest: &[u8]) -> Result<Option<Kind>, ParseError> {
        const WHAT: &str = "the properties at its end";
        let Some(object) = rest.strip_prefix(&JAVA_OBJECT) else {
            return Err(if JAVA_OBJECT.starts_with(rest) {
                ParseError::Truncated { what: WHAT }
            } else {
                self.broken("no properties begin there")
            });
        };
        let names = |name: &str| object.windows(name.len()).any(|window| window == name.as_bytes());
        Ok(match (names("SavepointType"), names("CheckpointType")) {
            (true, _) if names("NATIVE") => Some(Kind::NativeSavepoint),
            (true, _) if names("CANONICAL") => Some(Kind::CanonicalSavepoint),
            (true, _) => Some(Kind::Savepoint),
            (false, true) => Some(Kind::Checkpoint),
            (false, false) => None,
        })
    }
}

/// A name in a message, not longer than one reads.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    text.chars().take(CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
