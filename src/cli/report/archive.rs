//! The archive: files in the order in which they are added, with size limits.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use jiff::Timestamp;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::redact;

/// Maximum size of one file in bytes; a longer one keeps its end, which shows what happened last.
const ENTRY_BYTES_MAX: usize = 5 << 20;
/// Maximum size of all files together, in bytes.
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// Contents of a finished archive: names of the files, what was left out, and its size.
pub(super) type Written = (Vec<String>, Vec<String>, u64);

/// An archive that is being written.
pub(super) struct Archive {
    writer: ZipWriter<File>,
    entries: Vec<String>,
    left_out: Vec<String>,
    bytes: usize,
}

impl Archive {
    /// Creates the file with access for its owner only. Fails if it exists, so that no report is overwritten.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.write(true).read(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let writer = ZipWriter::new(options.open(path)?);
        Ok(Self { writer, entries: Vec::new(), left_out: Vec::new(), bytes: 0 })
    }

    /// Adds a text without its secrets.
    pub(super) fn add(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let text = redact::plain::text(text);
        let kept = end_of(&text, ENTRY_BYTES_MAX);
        if kept.len() < text.len() {
            self.leave_out(format!("the first {} bytes of {name}", text.len() - kept.len()));
        }
        if self.bytes + kept.len() > TOTAL_BYTES_MAX {
            self.leave_out(format!(
                "{name}: the archive has reached its limit of {} MiB",
                TOTAL_BYTES_MAX >> 20
            ));
            return Ok(());
        }
        self.write(name, kept)
    }

    fn write(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        self.writer.start_file(name, options)?;
        self.writer.write_all(text.as_bytes())?;
        self.bytes += text.len();
        self.entries.push(name.to_owned());
        Ok(())
    }

    /// Notes that something is not included.
    pub(super) fn leave_out(&mut self, what: impl Into<String>) {
        self.left_out.push(redact::plain::text(&what.into()));
    }

    /// Adds the list of what was left out, and closes the archive.
    pub(super) fn finish(mut self, now: Timestamp) -> anyhow::Result<Written> {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("Created by kubectl-flink {version} at {now}.\n");
        let is_whole = self.left_out.is_empty();
        text.push_str(if is_whole { "Nothing was left out.\n" } else { "\nLeft out:\n" });
        for left_out in &self.left_out {
            text.extend(["  ", left_out, "\n"]);
        }
        self.write("README.txt", &text)?;
        let file = self.writer.finish()?;
        file.sync_all()?;
        Ok((self.entries, self.left_out, file.metadata()?.len()))
    }
}

/// Returns the last bytes of a text, starting at the beginning of a line.
fn end_of(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let from = text.len() - bytes_max;
    let line = text.as_bytes().iter().skip(from).position(|byte| *byte == b'\n');
    let from = line.map_or(text.len(), |line| from + line + 1);
    text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_end() {
        assert_eq!(end_of("a\nb\nc\n", 100), "a\nb\nc\n");
        assert_eq!(end_of("aaaa\nb\nc\n", 6), "b\nc\n");
        assert_eq!(end_of("ööö\nü\n", 5), "ü\n");
    }

    #[test]
    fn a_report_is_written_over_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.zip");
        std::fs::write(&path, "mine").unwrap();
        assert!(Archive::create(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
