//! Runs programs to completion, with a time limit, and captures their output.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::error::{Error, LogTail};

/// Folders of programs for root.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Time limit of programs that only set something up.
pub(super) const SHORT: Duration = Duration::from_mins(1);

/// Runs `command` and returns its stdout.
pub(super) async fn run(command: &mut Command, limit: Duration) -> Result<String, Error> {
    run_reading(command, Stdio::null(), limit).await
}

/// Runs `command` with `input` and returns its stdout.
pub(super) async fn run_reading(
    command: &mut Command,
    input: Stdio,
    limit: Duration,
) -> Result<String, Error> {
    let shown = shown(command);
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = match timeout(limit, command.output()).await {
        Ok(output) => output.map_err(|source| not_started(command, source))?,
        Err(_) => return Err(took_too_long(&shown, limit, None)),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let complaint = format!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
    Err(Error::Command {
        command: shown,
        status: output.status.to_string(),
        log: Some(LogTail::of_text(&complaint)),
    })
}

/// Runs a long `command`, appends all its output to the file at `log`, and passes on each line.
pub(super) async fn run_logged(
    command: &mut Command,
    limit: Duration,
    log: &Path,
    mut each_line: impl FnMut(&str),
) -> Result<(), Error> {
    let shown = shown(command);
    let mut file = tokio::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .await
        .map_err(Error::file("write", log))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|source| not_started(command, source))?;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Error::Refused(format!("`{shown}` was started without its output")));
    };
    let ended = async {
        let mut stdout = BufReader::new(stdout).lines();
        let mut stderr = BufReader::new(stderr).lines();
        let (mut stdout_open, mut stderr_open) = (true, true);
        while stdout_open || stderr_open {
            let line = tokio::select! {
                line = stdout.next_line(), if stdout_open => {
                    line.inspect(|line| stdout_open = line.is_some())
                }
                line = stderr.next_line(), if stderr_open => {
                    line.inspect(|line| stderr_open = line.is_some())
                }
            };
            // Skip a line that is not UTF-8; the next one may be.
            if let Ok(Some(line)) = line {
                drop(file.write_all(format!("{line}\n").as_bytes()).await);
                each_line(&line);
            }
        }
        drop(file.flush().await);
        child.wait().await
    };
    match timeout(limit, ended).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(Error::Command {
            command: shown,
            status: status.to_string(),
            log: Some(LogTail::of_file(log)),
        }),
        Ok(Err(source)) => Err(not_started(command, source)),
        Err(_) => Err(took_too_long(&shown, limit, Some(LogTail::of_file(log)))),
    }
}

/// Finds `program` in `PATH` and the folders of system programs.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_FOLDERS.map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| is_executable(candidate))
}

/// Returns `PATH` with the folders of system programs, which a user's own may lack.
pub(super) fn system_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    // Cannot fail: folders that were split can be joined again.
    std::env::join_paths(folders).unwrap_or(path)
}

/// Returns whether the file at `path` is executable.
pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Returns a command for `program`, located like [`find`] does.
pub(super) fn program(name: &str) -> Command {
    Command::new(find(name).unwrap_or_else(|| PathBuf::from(name)))
}

fn shown(command: &Command) -> String {
    let command = command.as_std();
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or(program.as_os_str())];
    words.extend(command.get_args());
    let line = words.into_iter().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    line.chars().take(200).collect()
}

fn not_started(command: &Command, source: std::io::Error) -> Error {
    let path = Path::new(command.as_std().get_program()).to_owned();
    Error::File { action: "run", path, source }
}

fn took_too_long(shown: &str, limit: Duration, log: Option<LogTail>) -> Error {
    Error::TimedOut { what: format!("`{shown}` did not finish"), after: limit, log }
}
