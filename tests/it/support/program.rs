//! Programs that tests start, each in a clean environment.
//!
//! Nothing set up or running on the machine affects them: no kubeconfig, sandbox, proxy, locale or terminal.
//! `tests/alone.sh` does the same for the test process itself.

use std::ffi::OsStr;
use std::process::Command;

/// The program from this build.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-flink");
/// Folder of the tests' sandboxes, where those of a killed test can be found.
pub(crate) const SANDBOXES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/sandboxes");
/// A home directory without anything of the user's.
pub(crate) const HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/home");

/// Variables that programs inherit: the paths of programs and certificates, and the cache, which holds what takes
/// minutes to build.
const STORED: [&str; 6] = [
    "PATH",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "KUBECTL_FLINK_TEST_TOOLS",
];

/// Returns a command for `kubectl-flink`, as all tests start it.
pub(crate) fn program() -> Command {
    other(PROGRAM)
}

/// Returns a command for any other program.
pub(crate) fn other(program: impl AsRef<OsStr>) -> Command {
    std::fs::create_dir_all(HOME).unwrap();
    let mut command = Command::new(program);
    command.env_clear();
    for name in STORED {
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
