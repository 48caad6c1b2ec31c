//! State handles: each says where its bytes are and how many, and may hold others.

use super::ParseError;
use super::operators::keep;
use super::reader::Reader;

/// Maximum number of folders that files are counted by; those in further ones are counted together.
pub(super) const FOLDERS_MAX: usize = 200;
/// Maximum nesting of handles: a changelog holds what holds groups of keys, which are in a file.
const DEPTH_MAX: u32 = 8;

/// Kinds of handles, as `MetadataV2V3SerializerBase` numbers them.
pub(super) mod handle {
    pub(in super::super) const NULL: u8 = 0;
    pub(in super::super) const BYTES: u8 = 1;
    pub(in super::super) const FILE: u8 = 2;
    pub(in super::super) const KEY_GROUPS: u8 = 3;
    pub(in super::super) const OPERATOR: u8 = 4;
    pub(in super::super) const INCREMENTAL: u8 = 5;
    pub(in super::super) const RELATIVE_FILE: u8 = 6;
    pub(in super::super) const SAVEPOINT_KEY_GROUPS: u8 = 7;
    pub(in super::super) const CHANGELOG: u8 = 8;
    pub(in super::super) const CHANGELOG_BYTES: u8 = 9;
    pub(in super::super) const CHANGELOG_FILES: u8 = 10;
    pub(in super::super) const INCREMENTAL_V2: u8 = 11;
    pub(in super::super) const KEY_GROUPS_V2: u8 = 12;
    pub(in super::super) const CHANGELOG_FILES_V2: u8 = 13;
    pub(in super::super) const CHANGELOG_V2: u8 = 14;
    pub(in super::super) const SEGMENT: u8 = 15;
    pub(in super::super) const EMPTY_SEGMENT: u8 = 16;
    pub(in super::super) const SEGMENT_OPERATOR: u8 = 17;
}

/// Kinds of channel handles of version 6, as `ChannelStateHandleSerializerV2` numbers them: of one
/// channel, and of many.
const CHANNEL_KINDS: [u8; 2] = [1, 2];
const MERGED_CHANNEL_KINDS: [u8; 2] = [3, 4];

/// Name of what is read, for errors.
const KEYED: &str = "keyed state";

impl Reader<'_> {
    /// Reads lists and broadcast state: names with offsets into one stream.
    pub(super) fn operator_state(&mut self, names: &mut Vec<String>) -> Result<u64, ParseError> {
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
            // Folders of the task and of what it shares, and whether they are empty.
            self.text(WHAT)?;
            self.text(WHAT)?;
            self.byte(WHAT)?;
        }
        self.stream(0)
    }

    /// Reads state by key.
    pub(super) fn keyed(&mut self, depth: u32) -> Result<u64, ParseError> {
        let kind = self.byte(KEYED)?;
        if depth > DEPTH_MAX {
            return Err(self.broken("its handles are nested too deeply"));
        }
        match kind {
            handle::NULL => Ok(0),
            handle::KEY_GROUPS | handle::KEY_GROUPS_V2 | handle::SAVEPOINT_KEY_GROUPS => {
                let bytes = self.key_groups(depth)?;
                if kind == handle::KEY_GROUPS_V2 {
                    self.text(KEYED)?;
                }
                Ok(bytes)
            }
            handle::INCREMENTAL | handle::INCREMENTAL_V2 => {
                self.long(KEYED)?;
                self.text(KEYED)?;
                self.skip(2, 4, KEYED)?;
                if kind == handle::INCREMENTAL_V2 {
                    self.long(KEYED)?;
                }
                let mut bytes = self.stream(depth + 1)?;
                // State that is shared with other checkpoints, then private state.
                for _ in 0..2 {
                    for _ in 0..self.count(KEYED)? {
                        self.text(KEYED)?;
                        bytes = bytes.saturating_add(self.stream(depth + 1)?);
                    }
                }
                if kind == handle::INCREMENTAL_V2 {
                    self.text(KEYED)?;
                }
                Ok(bytes)
            }
            handle::CHANGELOG | handle::CHANGELOG_V2 => {
                self.skip(2, 4, KEYED)?;
                self.long(KEYED)?;
                let mut bytes = 0_u64;
                // Materialized state, then the changes after it.
                for _ in 0..2 {
                    for _ in 0..self.count(KEYED)? {
                        bytes = bytes.saturating_add(self.keyed(depth + 1)?);
                    }
                }
                self.long(KEYED)?;
                if kind == handle::CHANGELOG_V2 {
                    self.long(KEYED)?;
                }
                self.text(KEYED)?;
                Ok(bytes)
            }
            handle::CHANGELOG_BYTES => self.changelog_bytes(),
            handle::CHANGELOG_FILES | handle::CHANGELOG_FILES_V2 => {
                self.changelog_files(kind, depth)
            }
            other => Err(self.unknown(KEYED, other)),
        }
    }

    /// Reads changes that are in the metadata itself.
    fn changelog_bytes(&mut self) -> Result<u64, ParseError> {
        self.skip(2, 4, KEYED)?;
        self.skip(2, 8, KEYED)?;
        let mut bytes = 0_u64;
        for _ in 0..self.count(KEYED)? {
            self.int(KEYED)?;
            let length = self.count(KEYED)?;
            self.skip(length, 1, KEYED)?;
            bytes = bytes.saturating_add(length.into());
            self.files.within.add(length.into());
        }
        self.text(KEYED)?;
        Ok(bytes)
    }

    fn changelog_files(&mut self, kind: u8, depth: u32) -> Result<u64, ParseError> {
        self.skip(2, 4, KEYED)?;
        for _ in 0..self.count(KEYED)? {
            self.long(KEYED)?;
            self.stream(depth + 1)?;
        }
        // Its files hold changes of others, too: it says itself how much it has in them.
        let bytes = self.size(KEYED)?;
        self.long(KEYED)?;
        self.text(KEYED)?;
        if kind == handle::CHANGELOG_FILES_V2 {
            self.text(KEYED)?;
        }
        Ok(bytes)
    }

    /// Reads offsets of groups of keys, and the stream that they point into.
    fn key_groups(&mut self, depth: u32) -> Result<u64, ParseError> {
        const WHAT: &str = "groups of keys";
        self.int(WHAT)?;
        let groups = self.count(WHAT)?;
        self.skip(groups, 8, WHAT)?;
        self.stream(depth + 1)
    }

    /// Reads records between operators.
    pub(super) fn channel(&mut self, version: u32) -> Result<u64, ParseError> {
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
        // The gate and channel, or the partition and its part.
        self.skip(2, 4, WHAT)?;
        let offsets = self.count(WHAT)?;
        self.skip(offsets, 8, WHAT)?;
        let bytes = self.size(WHAT)?;
        // All channels of a subtask share one stream: each has its own size.
        self.stream(0)?;
        Ok(bytes)
    }

    /// Reads a handle of bytes, wherever they are.
    pub(super) fn stream(&mut self, depth: u32) -> Result<u64, ParseError> {
        const WHAT: &str = "a handle of state";
        let kind = self.byte(WHAT)?;
        if depth > DEPTH_MAX {
            return Err(self.broken("its handles are nested too deeply"));
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
                    return Err(
                        self.broken(format!("`{}` is not a file in its directory", shown(&path)))
                    );
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
}

/// Shortens a name for a message to a readable length.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    text.chars().take(CHARS_MAX).collect()
}
