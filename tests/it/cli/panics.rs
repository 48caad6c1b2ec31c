//! What becomes of the process when something panics.

use std::os::unix::process::ExitStatusExt;

use kubectl_flink::cli;
use validation::extension::cel::Rule;

use crate::support::program::other;

const CHILD: &str = "KUBECTL_FLINK_TEST_PANIC";
const SIGABRT: i32 = 6;

/// A task that panics would be gone, and the operator go on without it.
#[test]
fn a_panic_anywhere_ends_the_process() {
    if std::env::var_os(CHILD).is_some() {
        cli::abort_on_panic();
        // A rule is no reason to.
        assert!(Rule::compile("((").is_err());
        drop(std::thread::spawn(|| panic!("as a task might")).join());
        return;
    }
    let this = std::env::current_exe().unwrap();
    let name = "cli::panics::a_panic_anywhere_ends_the_process";
    let ended = other(this).args(["--exact", name]).env(CHILD, "1").output().unwrap();
    assert_eq!(ended.status.signal(), Some(SIGABRT), "{ended:?}");
}
