//! Commands that run until they are ended, as separate programs: what a signal leaves behind.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::Duration;

use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};
use testing::terminal::terminal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::sql::{Kubelet, READY, stage};
use super::transcripts::kubeconfig;
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_cluster::http::Behind;
use crate::support::fake_sql_gateway::FakeSqlGateway;
use crate::support::patience::PATIENCE;
use crate::support::program::program;

const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// A cluster with an address, and what is needed to reach it.
pub(super) struct World {
    pub(super) cluster: FakeCluster,
    gateway: FakeSqlGateway,
    kubeconfig: NamedTempFile,
    /// Where the program stores its own files.
    home: TempDir,
}

impl World {
    pub(super) async fn new(flink: String) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
        let behind = Behind { flink, sql_gateway: gateway.address(), ..Behind::default() };
        let kubeconfig = kubeconfig(cluster.listen(behind).await);
        Self { cluster, gateway, kubeconfig, home: tempfile::tempdir().unwrap() }
    }

    fn program(&self, words: &[&str]) -> Command {
        let mut command = Command::from(program());
        command
            .args(words)
            .env("KUBECONFIG", self.kubeconfig.path())
            .env("HOME", self.home.path())
            .kill_on_drop(true);
        command
    }

    /// Starts the program with output that can be read.
    pub(super) fn start(&self, words: &[&str]) -> Child {
        let mut command = self.program(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Asserts that no statement and no session is left in the gateway, and no pod in the cluster.
    #[track_caller]
    fn is_tidy(&self, cancelled: usize) {
        let closed = self.gateway.closed();
        assert_eq!((self.gateway.sessions(), closed.1), (0, 0), "open sessions and statements");
        assert_eq!(self.gateway.cancelled(), cancelled);
        assert_eq!(self.cluster.objects("pods"), [] as [Value; 0]);
    }
}

pub(super) fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id().expect("it runs")).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Returns exit code and stderr of a program that is about to end.
pub(super) async fn ended(child: Child) -> (Option<i32>, String) {
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the next lines of stdout.
pub(super) async fn lines(child: &mut Child, count: usize) -> Vec<String> {
    // Whatever is buffered beyond them does not matter to these tests.
    let mut all = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut lines = Vec::new();
    while lines.len() < count {
        let line = timeout(PATIENCE, all.next_line()).await.expect("a line comes").unwrap();
        lines.push(line.expect("it goes on"));
    }
    lines
}

#[tokio::test]
async fn a_statement_that_is_under_way_is_cancelled_and_the_gateway_goes() {
    for signal in SIGNALS {
        let world = World::new(String::new()).await;
        let _kubelet = Kubelet::start(&world.cluster, READY);
        let script = ["sql", "lab", "-e", "SELECT endless", "-e", "SELECT 2"];
        let mut child = world.start(&script);
        assert_eq!(lines(&mut child, 3).await[0].split_whitespace().next(), Some("op"));
        send(&child, signal);
        let (code, error) = ended(child).await;
        assert_eq!(code, Some(130), "{signal:?}: {error}");
        assert!(error.contains("error: -e:1: stopped while it was running"), "{error}");
        let hint = "0 statements completed before it, 1 statement after it not started";
        assert!(error.contains(hint), "{error}");
        assert_eq!(world.gateway.statements(), ["SELECT endless"]);
        world.is_tidy(1);
    }
}

#[tokio::test]
async fn a_gateway_that_still_starts_goes_too() {
    for signal in SIGNALS {
        let world = World::new(String::new()).await;
        let child = world.start(&["sql", "lab", "-e", "SELECT 1"]);
        let is_made = async {
            // Created, and waited for.
            let is_waited_for = || {
                let requests =
                    world.cluster.requests().into_iter().filter(|it| it.uri.contains("/pods"));
                requests
                    .skip_while(|it| it.method != Method::POST)
                    .any(|it| it.method == Method::GET)
            };
            while !is_waited_for() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, is_made).await.expect("a pod is made");
        send(&child, signal);
        let (code, error) = ended(child).await;
        assert_eq!(code, Some(130), "{signal:?}: {error}");
        assert!(error.contains("error: stopped before any statement was run"), "{error}");
        world.is_tidy(0);
    }
}

#[tokio::test]
async fn a_gateway_that_is_retained_stays_without_the_session() {
    let world = World::new(String::new()).await;
    let _kubelet = Kubelet::start(&world.cluster, READY);
    let mut child = world.start(&["sql", "lab", "-e", "SELECT endless", "--keep-gateway"]);
    lines(&mut child, 3).await;
    send(&child, Signal::INT);
    let (code, error) = ended(child).await;
    assert_eq!(code, Some(130), "{error}");
    assert!(error.contains("the gateway is kept for later sessions"), "{error}");
    assert_eq!((world.gateway.sessions(), world.gateway.closed()), (0, (1, 0)));
    assert_eq!(world.cluster.objects("pods").len(), 1);
}

/// Reads the program's output until it contains `text`.
async fn shows(terminal: &mut tokio::fs::File, text: &str) {
    let mut shown = String::new();
    let mut part = [0; 4096];
    while !shown.contains(text) {
        let read = timeout(PATIENCE, terminal.read(&mut part)).await;
        let length = read.unwrap_or_else(|_| panic!("no {text:?} in {shown:?}")).unwrap();
        shown.push_str(&String::from_utf8_lossy(&part[..length]));
    }
}

/// Returns the terminal of a person at the prompt, and the program.
async fn at_the_prompt(world: &World) -> (tokio::fs::File, Child) {
    let (person, program) = terminal();
    let hand = || Stdio::from(program.as_fd().try_clone_to_owned().unwrap());
    let mut command = world.program(&["sql", "lab"]);
    let child = command.stdin(hand()).stdout(hand()).stderr(hand()).spawn().unwrap();
    // Only the program may hold its end, so that the terminal ends with it.
    drop((command, program));
    let mut person = tokio::fs::File::from_std(File::from(person));
    shows(&mut person, "SQL in session cluster `lab`").await;
    person.write_all(b"SELECT endless;\r").await.unwrap();
    shows(&mut person, "+I").await;
    (person, child)
}

#[tokio::test]
async fn who_is_asked_to_leave_while_a_typed_statement_runs_leaves() {
    let world = World::new(String::new()).await;
    let _kubelet = Kubelet::start(&world.cluster, READY);
    let (mut person, mut child) = at_the_prompt(&world).await;
    send(&child, Signal::TERM);
    shows(&mut person, "stopped").await;
    let status = timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
    world.is_tidy(1);
}

#[tokio::test]
async fn a_person_stops_a_statement_and_not_the_session() {
    let world = World::new(String::new()).await;
    let _kubelet = Kubelet::start(&world.cluster, READY);
    let (mut person, mut child) = at_the_prompt(&world).await;
    send(&child, Signal::INT);
    shows(&mut person, "stopped").await;
    assert_eq!((world.gateway.cancelled(), world.gateway.sessions()), (1, 1));
    person.write_all(b"SHOW TABLES;\r").await.unwrap();
    shows(&mut person, "3 rows").await;
    // Sent at about the time when the next line is waited for, which must not delay the end.
    send(&child, Signal::TERM);
    let status = timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(world.gateway.statements(), ["SELECT endless", "SHOW TABLES"]);
    world.is_tidy(1);
}
