//! Programs that tests start: each with an environment made from nothing.
//!
//! Nothing that is set or runs on the machine reaches them: no kubeconfig, sandbox, proxy, locale
//! or terminal. `tests/alone.sh` does as much for the process of a test itself.

use std::ffi::OsStr;
use std::process::Command;

/// The program of this build.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-flink");
/// Where sandboxes of tests are: those of a test that was killed are found there.
pub(crate) const SANDBOXES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/sandboxes");
/// A home that is the user's in nothing.
pub(crate) const HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/home");

/// What a program has of the machine: where programs and certificates are, and the cache, which
/// holds what takes minutes to build.
const KEPT: [&str; 6] = [
    "PATH",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "KUBECTL_FLINK_TEST_STORES",
];

/// `kubectl-flink`, as all tests start it.
pub(crate) fn program() -> Command {
    other(PROGRAM)
}

/// Any other program.
pub(crate) fn other(program: impl AsRef<OsStr>) -> Command {
    std::fs::create_dir_all(HOME).unwrap();
    let mut command = Command::new(program);
    command.env_clear();
    for name in KEPT {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command
        .env("HOME", HOME)
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .env("KUBECTL_FLINK_SANDBOX_STATE", SANDBOXES)
        .env("COLUMNS", "100")
        .env("LANG", "C.UTF-8")
        .env("NO_COLOR", "1")
        .env("TERM", "xterm")
        .env("TZ", "UTC");
    command
}
