//! The scripts in `completions/` are those that the program prints, and their requests are answered.

use std::path::Path;

use expect_test::expect_file;
use kubectl_flink::cli::completion::{Target, script};

use crate::support::program::program;

/// `UPDATE_EXPECT=1` rewrites them.
#[test]
fn scripts_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("completions");
    for (target, file) in [
        (Target::Bash, "kubectl-flink.bash"),
        (Target::Elvish, "kubectl-flink.elv"),
        (Target::Fish, "kubectl-flink.fish"),
        (Target::Powershell, "kubectl-flink.ps1"),
        (Target::Zsh, "_kubectl-flink"),
        (Target::Kubectl, "kubectl_complete-flink"),
    ] {
        expect_file![folder.join(file)].assert_eq(&script(target).unwrap());
    }
}

/// Returns the completions for the words after `kubectl flink`.
fn completed(words: &[&str]) -> String {
    let output = program().arg("__complete").args(words).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn kubectl_gets_cobras_form() {
    assert_eq!(
        completed(&["sav"]),
        "savepoint\tTake a savepoint of a running job and print its path, or inspect one\n:4\n"
    );
    assert!(completed(&["status", "--out"]).starts_with("--output\t"));
    assert_eq!(completed(&["status", "-o", "y"]), "yaml\tYAML\n:4\n");
    assert!(completed(&[""]).contains("deploy\t"));
    assert!(!completed(&[""]).contains("__complete"));
}

#[test]
fn names_that_cannot_be_asked_for_are_left_out() {
    assert_eq!(completed(&["suspend", "w"]), ":4\n");
}

#[test]
fn shells_are_answered() {
    let output = program()
        .env("KUBECTL_FLINK_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "1")
        .env("_CLAP_IFS", "\n")
        .args(["--", "kubectl-flink", "hist"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "history");
}
