//! Tests see nothing of the machine, and touch nothing but their own files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use testing::sources::{path, texts_below};

use crate::support::program::{HOME, other, program};

/// Variables that change what a program prints or does, as a user may have set them.
const OF_A_USER: &[(&str, &str)] = &[
    ("ALL_PROXY", "socks5://127.0.0.1:1"),
    ("CLICOLOR_FORCE", "1"),
    ("COLUMNS", "20"),
    ("EDITOR", "false"),
    ("FLINK_CONF_DIR", "/nonexistent"),
    ("FORCE_COLOR", "1"),
    ("HOME", "/nonexistent"),
    ("HTTPS_PROXY", "http://127.0.0.1:1"),
    ("HTTP_PROXY", "http://127.0.0.1:1"),
    ("KUBECONFIG", "/nonexistent"),
    ("KUBECTL_FLINK_IMAGE_FROM", "nowhere"),
    ("KUBECTL_FLINK_LOG", "trace"),
    ("KUBECTL_FLINK_SANDBOX_STATE", "/nonexistent"),
    ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
    ("KUBE_EDITOR", "false"),
    ("LANG", "tr_TR.UTF-8"),
    ("LC_ALL", "tr_TR.UTF-8"),
    ("NO_PROXY", ""),
    ("OPERATOR_NAMESPACE", "nowhere"),
    ("PAGER", "false"),
    ("RUST_LOG", "trace"),
    ("TMPDIR", "/nonexistent"),
    ("TZ", "Asia/Kathmandu"),
    ("WATCH_NAMESPACES", "nowhere"),
    ("XDG_STATE_HOME", "/nonexistent"),
    ("http_proxy", "http://127.0.0.1:1"),
    ("https_proxy", "http://127.0.0.1:1"),
];

/// Returns the environment that `command` prints.
fn environment(command: &mut Command) -> BTreeMap<String, String> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn a_test_sees_nothing_that_a_user_has_set() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = other(path("tests/alone.sh"));
    command.envs(OF_A_USER.iter().copied()).env("KUBECTL_FLINK_TEST_TARGET", folder.path());
    command.env("UPDATE_EXPECT", "0").args(["A=b", "env"]);
    let seen = environment(&mut command);
    for (name, value) in OF_A_USER {
        assert_ne!(seen.get(*name).map(String::as_str), Some(*value), "{name}");
    }
    assert_eq!((seen["A"].as_str(), seen["UPDATE_EXPECT"].as_str()), ("b", "0"));
    // `.cargo/config.toml` runs all tests this way, but only if they are started by Cargo.
    if std::env::var_os("CARGO").is_some() {
        assert_eq!(std::env::var_os("HOME").as_deref(), Some(OsStr::new(HOME)));
    }
}

#[test]
fn a_program_of_a_transcript_has_the_variables_that_it_is_given_and_no_others() {
    let mut command = other(path("tests/cli/program.sh"));
    command.envs(OF_A_USER.iter().copied());
    command.env("PROGRAM", "/usr/bin/env").env("VARIABLES", "A=b c\nD=*");
    let given = [("A", "b c"), ("D", "*")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(environment(&mut command), BTreeMap::from(given));
}

#[test]
fn programs_are_started_in_one_place_alone() {
    let own = ["tests/it/support/program.rs", "tests/it/isolation.rs"];
    let starts = ["Command::new(", "cargo_bin", "CARGO_BIN_EXE"];
    let mut found = Vec::new();
    let folders = ["tests/it", "crates/lifecycle/tests", "crates/testing"];
    for (file, text) in folders.into_iter().flat_map(texts_below) {
        if own.iter().all(|own| file != Path::new(own)) {
            let lines = text.lines().filter(|line| starts.iter().any(|start| line.contains(start)));
            found.extend(lines.map(|line| format!("{}: {line}", file.display())));
        }
    }
    assert!(found.is_empty(), "`support::program` starts programs: {found:#?}");
    let command = program();
    let home = command.get_envs().find(|(name, _)| *name == "HOME");
    assert_eq!(home, Some((OsStr::new("HOME"), Some(OsStr::new(HOME)))));
}
