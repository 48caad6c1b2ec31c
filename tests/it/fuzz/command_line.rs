//! A command line that is still being typed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{Target, fuzz};
use crate::support::program::{PROGRAM, other};

/// A shell command that limits a program to ten seconds of processor time and two gigabytes of address space.
const LIMITED: &str = "ulimit -t 10 && ulimit -v 2097152 && exec \"$0\" \"$@\"";

/// Each input is a run of the program, so only few fit into the time.
#[test]
fn completion_answers_whatever_is_typed() {
    let words = &[
        "status\n",
        "deploy\n",
        "-n\n",
        "--namespace=",
        "--context\n",
        "-o\n",
        "--",
        "-",
        "=",
        "\n",
        "help\n",
        "__complete\n",
        "--kubeconfig=/dev/null\n",
        "savepoint\n",
        "sessionjob/",
    ];
    let target = Target { name: "completion", words, bytes_max: 2 << 10, outcomes_min: 8 };
    fuzz(&target, |input| {
        // A process argument cannot contain a zero byte.
        let words = input.bytes.split(|byte| *byte == b'\n' || *byte == 0).map(OsStr::from_bytes);
        let output = other("sh")
            .args(["-c", LIMITED, PROGRAM])
            .arg("__complete")
            .arg("--")
            .args(words)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", output.status);
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(answer.ends_with(":4\n"), "{answer}");
        format!("{}", answer.lines().count())
    });
}
