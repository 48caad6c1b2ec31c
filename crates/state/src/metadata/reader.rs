//! The primitives of the format: numbers and texts as Java writes them, each read within limits.

use std::collections::BTreeSet;

use super::{Files, ParseError};

/// The file, and how much of it has been read.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) files: Files,
    pub(super) earlier_checkpoints: BTreeSet<u64>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, files: Files::default(), earlier_checkpoints: BTreeSet::new() }
    }

    pub(super) fn broken(&self, problem: impl Into<String>) -> ParseError {
        ParseError::Broken { at: self.at, problem: problem.into() }
    }

    pub(super) fn take(
        &mut self,
        length: usize,
        what: &'static str,
    ) -> Result<&'a [u8], ParseError> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or(ParseError::Truncated { what })?;
        self.at += length;
        Ok(found)
    }

    pub(super) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], ParseError> {
        let found = self.take(N, what)?;
        found.try_into().map_err(|_| ParseError::Truncated { what })
    }

    pub(super) fn byte(&mut self, what: &'static str) -> Result<u8, ParseError> {
        let [byte] = self.array(what)?;
        Ok(byte)
    }

    pub(super) fn unsigned(&mut self, what: &'static str) -> Result<u32, ParseError> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub(super) fn int(&mut self, what: &'static str) -> Result<i32, ParseError> {
        self.array(what).map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self, what: &'static str) -> Result<i64, ParseError> {
        self.array(what).map(i64::from_be_bytes)
    }

    /// Returns the bytes that have not been read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Reads a count, which is never negative.
    pub(super) fn count(&mut self, what: &'static str) -> Result<u32, ParseError> {
        let count = self.int(what)?;
        u32::try_from(count).map_err(|_| self.broken(format!("{what} is {count}")))
    }

    /// Reads a size, which Flink writes as -1 if it does not know it.
    pub(super) fn size(&mut self, what: &'static str) -> Result<u64, ParseError> {
        Ok(u64::try_from(self.long(what)?).unwrap_or(0))
    }

    /// Reads text as Java's `writeUTF` writes it. Its two forms that differ from UTF-8, for zero and for what is beyond
    /// 16 bits, are rare in names and are not corrected.
    ///
    /// Leaves out what could move the cursor of a terminal.
    pub(super) fn text(&mut self, what: &'static str) -> Result<String, ParseError> {
        let length = u16::from_be_bytes(self.array(what)?);
        let text = String::from_utf8_lossy(self.take(length.into(), what)?);
        Ok(text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect())
    }

    pub(super) fn skip(
        &mut self,
        count: u32,
        each: usize,
        what: &'static str,
    ) -> Result<(), ParseError> {
        let length = (count as usize).checked_mul(each).ok_or(ParseError::Truncated { what })?;
        self.take(length, what).map(drop)
    }

    pub(super) fn unknown(&self, of: &str, kind: u8) -> ParseError {
        self.broken(format!("unknown kind {kind} of {of}"))
    }
}
