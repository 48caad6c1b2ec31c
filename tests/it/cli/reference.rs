//! `docs/commands.md` matches the program's help, and every command has a man page.

use std::path::Path;

use expect_test::expect_file;
use kubectl_flink::cli::reference;

/// `UPDATE_EXPECT=1` rewrites it.
#[test]
fn reference_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    expect_file![file].assert_eq(&reference::markdown());
}

#[test]
fn every_command_has_a_man_page() {
    let pages = reference::man_pages().unwrap();
    let named = |name: &str| pages.iter().any(|(page, _)| page == name);
    for name in ["kubectl-flink.1", "kubectl-flink-restore.1", "kubectl-flink-set-image.1"] {
        assert!(named(name), "{name}");
    }
    assert!(!named("kubectl-flink-__complete.1"));
    for (name, page) in &pages {
        assert!(String::from_utf8_lossy(page).contains(".SH SYNOPSIS"), "{name}");
    }
}
