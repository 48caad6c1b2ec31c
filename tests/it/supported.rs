//! `docs/support.md` says which versions are supported, and which of them are tested.

use std::collections::BTreeMap;
use std::fs;

use api::version::FlinkVersion;
use testing::sources::path;

/// Returns what the page says of each version of Flink: the first word of its row.
fn flink_versions() -> BTreeMap<String, String> {
    let page = fs::read_to_string(path("docs/support.md")).unwrap();
    let mut versions = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `v")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for version in cells[1].split(", ") {
            let version = version.trim_matches('`').to_owned();
            assert_eq!(versions.insert(version, cells[2].to_owned()), None, "{line}");
        }
    }
    versions
}

#[test]
fn the_page_shows_how_each_version_of_flink_is_supported() {
    let tools = fs::read_to_string(path("tests/tools.sh")).unwrap();
    let tested: Vec<String> = ["flink=", "flink_between="]
        .iter()
        .flat_map(|name| tools.lines().find_map(|line| line.strip_prefix(name)).unwrap().split(' '))
        .map(|patch| patch.trim_matches('"').rsplit_once('.').unwrap().0.to_owned())
        .collect();
    assert_eq!(tested.len(), 3, "{tested:?}");
    let status = |version: &FlinkVersion| {
        let name = version.into_str().trim_start_matches('v').replace('_', ".");
        let status = if tested.contains(&name) {
            "tested"
        } else if version.is_supported() {
            "supported"
        } else {
            "kept"
        };
        (version.to_string(), status.to_owned())
    };
    assert_eq!(flink_versions(), FlinkVersion::ALL.iter().map(status).collect());
}
