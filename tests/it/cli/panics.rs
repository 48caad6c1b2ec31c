//! A panic ends the whole process.

use std::os::unix::process::ExitStatusExt;

use kubectl_flink::cli;
use validation::extension::cel::Rule;

use crate::support::program::other;

const CHILD: &str = "KUBECTL_FLINK_TEST_PANIC";
const SIGABRT: i32 = 6;

/// Otherwise the panicked task would be gone and the operator continue without it.
#[test]
fn a_panic_anywhere_ends_the_process() {
    if std::env::var_os(CHILD).is_some() {
        cli::abort_on_panic();
        // An invalid rule is no reason to panic.
        assert!(Rule::compile("((").is_err());
        drop(std::thread::spawn(|| panic!("as a task might")).join());
        return;
    }
    let this = std::env::current_exe().unwrap();
    let name = "cli::panics::a_panic_anywhere_ends_the_process";
    let ended = other(this).args(["--exact", name]).env(CHILD, "1").output().unwrap();
    assert_eq!(ended.status.signal(), Some(SIGABRT), "{ended:?}");
}
