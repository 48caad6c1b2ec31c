//! `exec`: runs a command or a shell in a pod of a cluster, like `kubectl exec`.
//!
//! Input, output and exit code are the command's. On a terminal, keys are passed on as they are typed, so Ctrl-C
//! interrupts the command and not this program.

use std::io::{self, Read};

use anyhow::Context;
use clap::Args;
use futures::SinkExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachedProcess, TerminalSize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::args::Global;
use super::failure::Failure;
use super::logs::{MAIN_CONTAINER, RoleArg};
use super::printer::Printer;
use super::{complete, lookup, terminal};
use clients::cluster::exec::{self, Ending, Request};
use clients::cluster::pods::{self, Role};

/// Size of a read, in bytes.
const CHUNK_BYTES: usize = 8 * 1024;
/// Maximum number of input chunks that wait to be sent.
const CHUNKS_WAITING: usize = 16;
/// Maximum number of names shown in a hint.
const NAMES_SHOWN: usize = 8;
/// Annotation that names the pod's main container; `kubectl exec` uses it too.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Runs `bash` if the container has it, else `sh`.
const SHELL: [&str; 3] = ["sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"];
/// Offset that shells add to the number of the signal that ended a program.
const BY_SIGNAL: u8 = 128;

/// Arguments of `exec`.
#[derive(Args)]
#[command(after_help = "\
Exits with the code of COMMAND. Without COMMAND it runs a shell, with a terminal if there is one. The connection goes
through the API server (permission: pods/exec).

Examples:
  kubectl flink exec orders                                         # a shell in the JobManager
  kubectl flink exec orders --role tm -- df -h                      # in a TaskManager
  kubectl flink exec orders --pod orders-taskmanager-1-2 -it -- jshell
  kubectl flink exec orders -- cat conf/config.yaml > config.yaml
  kubectl flink exec sessionjob/clicks -- jcmd 1 Thread.print       # threads of its session cluster")]
pub struct ExecArgs {
    /// The FlinkDeployment; for sessionjob/NAME, the cluster it runs in
    #[arg(add = complete::deployments())]
    name: String,
    /// In a ready pod of this role; default: jm
    #[arg(long, value_enum, conflicts_with = "pod")]
    role: Option<RoleArg>,
    /// In this pod of the cluster
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// In this container; default: Flink's
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Pass stdin to COMMAND
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Allocate a terminal for COMMAND; with -i
    #[arg(short, long, requires = "stdin")]
    tty: bool,
    /// Command to run, with its arguments, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command until it ends.
pub async fn run(args: ExecArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let ExecArgs { name, role, pod, container, stdin, tty, command } = args;
    let connection = global.connect().await?;
    let named = lookup::fetch(&connection, &name).await?;
    let cluster = lookup::cluster_of(&connection, &named).await?;
    let role = match (&pod, role) {
        (Some(_), _) => None,
        (None, Some(RoleArg::Tm)) => Some(Role::TaskManager),
        (None, Some(RoleArg::Jm) | None) => Some(Role::JobManager),
    };
    let found = pods::list(&connection.client, cluster.namespace(), cluster.name(), role).await?;
    let chosen = choose(&found, pod.as_deref(), cluster.name())?;
    let pod = chosen.metadata.name.clone().unwrap_or_default();
    let is_shell = command.is_empty();
    let is_typed = printer.terminals().input;
    if tty && !is_typed {
        printer.warning("no terminal is allocated: stdin is not a terminal");
    }
    let request = Request {
        namespace: cluster.namespace().to_owned(),
        container: container.unwrap_or_else(|| container_of(chosen)),
        pod,
        command: if is_shell { SHELL.map(str::to_owned).to_vec() } else { command },
        has_input: stdin || is_shell,
        has_terminal: (tty || is_shell) && is_typed,
    };
    if found.len() > 1 || is_shell {
        printer.note(format_args!("in pod `{}`, container `{}`", request.pod, request.container));
    }
    let process = exec::start(&connection.client, &request).await?;
    let _raw = if request.has_terminal {
        Some(terminal::Raw::enter().context("while preparing the terminal")?)
    } else {
        None
    };
    match attend(process, printer).await? {
        Ending::Exited(0) => Ok(()),
        Ending::Exited(code) => Err(Failure::exited(code).into()),
        Ending::Failed(why) => {
            Err(Failure::new(format!("nothing was run in pod `{}`: {why}", request.pod)).into())
        }
        Ending::Lost => Err(Failure::new(format!(
            "lost the connection to pod `{}` before the command ended; it may still be running",
            request.pod
        ))
        .hint(format!("see whether the pod is still there: kubectl flink status {name}"))
        .into()),
    }
}

/// Returns the named pod; without a name, a ready pod, else a running one.
fn choose<'a>(found: &'a [Pod], wanted: Option<&str>, cluster: &str) -> Result<&'a Pod, Failure> {
    let name = |pod: &'a Pod| pod.metadata.name.as_deref().unwrap_or_default();
    if let Some(wanted) = wanted {
        let names = found.iter().take(NAMES_SHOWN).map(|pod| format!("`{}`", name(pod)));
        let shown = names.collect::<Vec<_>>().join(", ");
        return found.iter().find(|pod| name(pod) == wanted).ok_or_else(|| {
            let failure = Failure::new(format!("`{cluster}` has no pod `{wanted}`"));
            if shown.is_empty() { failure } else { failure.hint(format!("it has {shown}")) }
        });
    }
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    let runs = |pod: &&Pod| phase(pod).as_deref() == Some("Running");
    let ready = found.iter().find(|pod| pods::is_ready(pod));
    ready.or_else(|| found.iter().find(runs)).ok_or_else(|| {
        let what = match found.first() {
            None => format!("`{cluster}` has no pod to run it in"),
            Some(pod) => format!(
                "no pod of `{cluster}` is running: `{}` is {}",
                name(pod),
                phase(pod).unwrap_or_else(|| "in an unknown phase".to_owned())
            ),
        };
        Failure::new(what).hint(format!("see why: kubectl flink why {cluster}"))
    })
}

/// Returns the container that the pod declares as its default, else Flink's.
fn container_of(pod: &Pod) -> String {
    let annotations = pod.metadata.annotations.as_ref();
    let stated = annotations.and_then(|annotations| annotations.get(DEFAULT_CONTAINER));
    stated.cloned().unwrap_or_else(|| MAIN_CONTAINER.to_owned())
}

/// Passes data in both directions until the command has ended and all its output is printed.
async fn attend(mut process: AttachedProcess, printer: &Printer) -> anyhow::Result<Ending> {
    let status = process.take_status();
    let (output, error) = (process.stdout(), process.stderr());
    if let Some(input) = process.stdin() {
        tokio::spawn(feed(input));
    }
    if let Some(mut sizes) = process.terminal_size() {
        let mut changes =
            signal(SignalKind::window_change()).context("while following the terminal")?;
        tokio::spawn(async move {
            loop {
                let (width, height) = terminal::size().unwrap_or((80, 24));
                if sizes.send(TerminalSize { width, height }).await.is_err() {
                    return;
                }
                if changes.recv().await.is_none() {
                    return;
                }
            }
        });
    }
    let mut told_to_end = signal(SignalKind::terminate()).context("while preparing signals")?;
    let mut left_alone = signal(SignalKind::hangup()).context("while preparing signals")?;
    let streams = async {
        tokio::try_join!(
            print(output, |bytes| printer.pass_on(bytes)),
            print(error, |bytes| printer.pass_on_error(bytes)),
        )
    };
    let by_signal = |number: i32| u8::try_from(number).map_or(BY_SIGNAL, |it| BY_SIGNAL | it);
    tokio::select! {
        moved = streams => {
            moved?;
        }
        // The terminal must be restored before the process ends.
        _ = told_to_end.recv() => {
            return Ok(Ending::Exited(by_signal(SignalKind::terminate().as_raw_value())));
        }
        _ = left_alone.recv() => {
            return Ok(Ending::Exited(by_signal(SignalKind::hangup().as_raw_value())));
        }
    }
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    Ok(exec::ending(status))
}

async fn print(
    stream: Option<impl AsyncRead + Unpin>,
    write: impl Fn(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let Some(mut stream) = stream else { return Ok(()) };
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        // A broken stream means that the command ended; the status says how.
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(length) => write(&chunk[..length])?,
        }
    }
}

/// Sends stdin until it or the command ends.
async fn feed(mut input: impl AsyncWrite + Unpin) {
    let (sender, mut chunks) = mpsc::channel::<Vec<u8>>(CHUNKS_WAITING);
    // A blocking read cannot be cancelled; the process exits without waiting for it.
    tokio::task::spawn_blocking(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut stdin = io::stdin().lock();
        loop {
            match stdin.read(&mut chunk) {
                Ok(0) => return,
                Ok(length) => {
                    if sender.blocking_send(chunk[..length].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    while let Some(chunk) = chunks.recv().await {
        if input.write_all(&chunk).await.is_err() {
            return;
        }
    }
    // Close the command's input at the end of ours; it may already be closed.
    drop(input.shutdown().await);
}

#[cfg(test)]
mod tests;
