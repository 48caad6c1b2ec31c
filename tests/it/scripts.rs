//! The scripts that run the tests: what fails is named at the end, and one script installs what all need.

use std::fs;
use std::path::Path;
use std::process::Command;

use testing::sources::path;

use crate::support::program::other;

const RUN: &str = r"
. tests/phases.sh
together tests/parallel.sh tests/nested.sh
attempt 'goes on' true
attempt 'ends unheard' sh -c 'echo its last words; exit 3'
outcome
";
const PARALLEL: &str = "#!/usr/bin/env bash\n. tests/strict.sh\nlook() { false; }\nlook\n";
const NESTED: &str = r#"#!/usr/bin/env bash
. tests/phases.sh
attempt 'within' sh -c '
    cat tests/differs; echo "test a::b ... FAILED <1.250s>"; echo "panicked at b.rs:9:5:"; echo "nobody answered"; exit 101'
if [ -n "$failed_phases" ]; then exit 1; fi
"#;

/// The last lines of `expect_test` about a text that is another one.
const DIFFERS: &str = "\x1b[1mDiff\x1b[0m:
----
the same
the \x1b[4m\x1b[31mold\x1b[0m\x1b[4m\x1b[32mnew\x1b[0m word
\x1b[4m\x1b[32mlines
that are new
\x1b[0mthe same again
----
";

fn bash(folder: &Path, script: &str) -> Command {
    let mut command = other("bash");
    command.current_dir(folder).args(["-c", script]);
    command
}

#[test]
fn a_run_ends_with_each_failed_phase_and_the_line_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let scripts = folder.path().join("tests");
    fs::create_dir(&scripts).unwrap();
    for name in ["phases.sh", "strict.sh"] {
        fs::copy(path("tests").join(name), scripts.join(name)).unwrap();
    }
    for (name, text) in [("parallel.sh", PARALLEL), ("nested.sh", NESTED), ("differs", DIFFERS)] {
        fs::write(scripts.join(name), text).unwrap();
    }
    assert!(bash(folder.path(), "chmod +x tests/*.sh").status().unwrap().success());

    let output = bash(folder.path(), RUN).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, failed) = text.split_once("== failed phases").unwrap();
    let mut phases: Vec<&str> = failed.split_inclusive('\n').skip(1).collect();
    // Phases that run in parallel end in any order.
    phases[..10].sort_unstable();
    let failed = phases.concat();
    expect_test::expect![[r#"
            +[lines
            ]the same again
            nobody answered
            panicked at b.rs:9:5:
            test a::b ... FAILED <1.250s>
            tests/parallel.sh:3: ended with 1: false
            that are new
            the -[old]+[new] word
        tests/parallel.sh
        within
        ends unheard
            its last words
    "#]]
    .assert_eq(&failed);
    assert!(text.contains("goes on"), "the phases after it run: {text}");
}

#[test]
fn one_script_installs_what_tests_need() {
    let folders = ["tests", "tests/stores"].map(|folder| fs::read_dir(path(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|file| file.extension().is_some_and(|it| it == "sh" || it == "py"));
    let scripts: Vec<(String, String)> = scripts
        .map(|file| {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(file).unwrap())
        })
        .collect();
    // `python-image.py` downloads packages into the image that it writes.
    for (word, others) in [
        ("apt-get", &["python-image.py"][..]),
        ("go install", &[]),
        ("npm install", &[]),
        ("pip\" --quiet", &[]),
        ("mvn ", &[]),
    ] {
        let with = scripts
            .iter()
            .filter(|(name, text)| text.contains(word) && !others.contains(&name.as_str()));
        let found: Vec<&str> = with.map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, ["tools.sh"], "scripts that contain `{word}`");
    }
}
