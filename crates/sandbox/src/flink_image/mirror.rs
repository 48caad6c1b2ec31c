//! The source of this machine's own packages: its distribution and mirror.

use std::fs;
use std::path::{Path, PathBuf};

use super::files;
use crate::error::Error;

/// Returns the code name of this machine's distribution.
pub(super) fn suite() -> Result<String, Error> {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    code_name(&text).ok_or_else(|| {
        Error::Refused(
            "/etc/os-release has no VERSION_CODENAME: an image can be built from packages on \
             Debian and Ubuntu only"
                .to_owned(),
        )
    })
}

fn code_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    Some(value.trim().trim_matches('"').to_owned()).filter(|name| !name.is_empty())
}

/// The source of a suite's packages.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Mirror {
    pub(super) address: String,
    pub(super) components: Vec<String>,
}

/// Returns the mirror of this machine's own packages.
pub(super) fn mirror(suite: &str) -> Result<Mirror, Error> {
    let folder = Path::new("/etc/apt/sources.list.d");
    let mut paths = files(folder).unwrap_or_default();
    paths.sort();
    paths.insert(0, PathBuf::from("/etc/apt/sources.list"));
    paths
        .iter()
        .find_map(|path| {
            let text = fs::read_to_string(path).ok()?;
            match path.extension()?.to_str()? {
                "list" => mirror_in_lines(&text, suite),
                "sources" => mirror_in_paragraphs(&text, suite),
                _ => None,
            }
        })
        .ok_or_else(|| {
            Error::Refused(format!(
                "no source of packages for `{suite}` is in /etc/apt/sources.list or sources.list.d"
            ))
        })
}

fn is_mirror(address: &str) -> bool {
    ["http://", "https://", "file:/"].iter().any(|scheme| address.starts_with(scheme))
}

/// Parses lines such as `deb [options] http://mirror/debian bookworm main`.
fn mirror_in_lines(text: &str, suite: &str) -> Option<Mirror> {
    text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']')?.1,
            None => rest,
        };
        let mut words = rest.split_whitespace();
        let address = words.next().filter(|address| is_mirror(address))?.to_owned();
        (words.next()? == suite)
            .then(|| Mirror { address, components: words.map(str::to_owned).collect() })
    })
}

/// Parses paragraphs of `Types:`, `URIs:`, `Suites:` and `Components:`.
fn mirror_in_paragraphs(text: &str, suite: &str) -> Option<Mirror> {
    let without_comments: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#')).map(str::trim_end).collect();
    without_comments.split(|line| line.is_empty()).find_map(|paragraph| {
        let words = |field: &str| -> Vec<String> {
            let found = paragraph.iter().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case(field).then_some(value)
            });
            found.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        let is_for_us = words("Types").iter().any(|kind| kind == "deb")
            && words("Suites").iter().any(|found| found == suite)
            && words("Enabled") != ["no"];
        let address = words("URIs").into_iter().find(|address| is_mirror(address))?;
        is_for_us.then(|| Mirror { address, components: words("Components") })
    })
}

#[cfg(test)]
mod tests;
