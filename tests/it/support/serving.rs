//! An operator that only serves the console, because another one leads.

use std::path::Path;
use std::process::Stdio;

use reqwest::StatusCode;
use reqwest::header::SET_COOKIE;
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::patience::PATIENCE;
use super::program::program;

/// Name of the Lease: an installed operator has permissions for no other one.
const LEASE: &str = operator::install::objects::NAME;
/// The other leader's lease outlasts every test.
const CONFIGURATION: &str = "\
kubernetes.operator.leader-election.lease-duration: 1 h
kubernetes.operator.leader-election.renew-deadline: 30 min
";

/// Returns the Lease that the leading operator holds.
pub(crate) fn lease(namespace: &str) -> Value {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": namespace},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600, "leaseTransitions": 1,
            "acquireTime": now, "renewTime": now}})
}

/// The operator; it ends when dropped.
pub(crate) struct Serving {
    pub(crate) base: String,
    _child: Child,
    _folder: TempDir,
}

impl Serving {
    /// Starts with the lease in this namespace; the flags select what is operated.
    pub(crate) async fn start(kubeconfig: &Path, namespace: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.yaml"), CONFIGURATION).unwrap();
        let mut command = Command::from(program());
        command.args(["operate", "--log-format", "json", "--lease-name", LEASE]);
        command.args(["--lease-namespace", namespace]);
        command.arg("--operator-config").arg(folder.path());
        command.args(["--dashboard-port", "0", "--dashboard-cluster", "lab"]).args(flags);
        command.env("KUBECONFIG", kubeconfig).env("FLINK_REST_CLIENT_HEADERS", "X-Own: hush");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let base = format!("http://127.0.0.1:{}", port(&mut child).await);
        Self { base, _child: child, _folder: folder }
    }

    /// Signs in with this token and returns the cookie.
    pub(crate) async fn sign_in(&self, token: &str) -> String {
        let client = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
        let request = client.post(format!("{}/sign-in", self.base));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let signed_in = request.body(format!("token={token}&to=%2F")).send().await.unwrap();
        assert_eq!(signed_in.status(), StatusCode::SEE_OTHER);
        let cookie = signed_in.headers()[SET_COOKIE].to_str().unwrap().to_owned();
        cookie.split(';').next().unwrap().to_owned()
    }
}

/// Reads the console's port from the log; the rest of the log is drained and discarded.
async fn port(child: &mut Child) -> u64 {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut log = String::new();
    let port = loop {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("it comes").unwrap();
        let line = line.unwrap_or_else(|| panic!("it ended: {log}"));
        if line.contains("serving the console") {
            let line: Value = serde_json::from_str(&line).unwrap();
            let port = line.pointer("/fields/port").or_else(|| line.get("port")).cloned();
            break port.unwrap_or_else(|| panic!("{line}")).as_u64().unwrap();
        }
        log.push_str(&line);
    };
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    port
}
