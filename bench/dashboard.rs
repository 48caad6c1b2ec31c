//! How long a person waits for the console of a large fleet, and what its server takes.
//!
//! The API server is a stand-in in this process, as for the commands that only read.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::broadcast;

use crate::viewing::{deployment, memory, write_kubeconfig};

/// Number of deployments of the fleet.
const FLEET: usize = 10_000;
/// Number of page requests, and of changes.
const TURNS: usize = 20;
/// Anything that takes longer is stuck.
const LIMIT: Duration = Duration::from_mins(1);
/// Pause between two changes, so that none waits for the one before it.
const PAUSE: Duration = Duration::from_millis(400);

/// Measures `program`: pages, changes, and memory.
pub(crate) async fn run(program: &Path) -> Result<()> {
    let cluster = Arc::new(Cluster::new());
    let router = Router::new().fallback(answer).with_state(Arc::clone(&cluster));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    write_kubeconfig(&kubeconfig, address)?;

    let started = Instant::now();
    let mut child = Command::new(program)
        .args(["dashboard", "-A", "--port", "0"])
        .env("KUBECONFIG", &kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("while starting `{}`", program.display()))?;
    let status = format!("/proc/{}/status", child.id().context("it exited at once")?);
    let mut lines = BufReader::new(child.stdout.take().context("it has a stdout")?).lines();
    let address = lines.next_line().await?.context("no address was printed")?;
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let entered = client.get(&address).send().await?;
    let cookie = entered.headers().get(header::SET_COOKIE).context("no cookie is set")?.to_str()?;
    let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
    let base = address.split_once("/?").context("the address has a token")?.0;
    let get = |path: &str| client.get(format!("{base}{path}")).header(header::COOKIE, &cookie);

    while !get("/").send().await?.text().await?.contains("of 10,000") {
        if started.elapsed() > LIMIT {
            bail!("the fleet does not appear");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{:<34} {:>10}", "whole fleet after", milliseconds(started.elapsed()));
    for (what, path) in [
        ("first page", "/"),
        ("search", "/?q=orders-099"),
        ("labels and order, 100 rows", "/?labels=team%3Dpayments&sort=age&size=100"),
    ] {
        let mut times = Vec::new();
        for _ in 0..TURNS {
            let asked = Instant::now();
            get(path).send().await?.bytes().await?;
            times.push(asked.elapsed());
        }
        println!("{what:<34} {:>10}", milliseconds(median(times)?));
    }
    let mut events = get("/fleet/events").send().await?;
    events.chunk().await?.context("no events arrive")?;
    let mut times = Vec::new();
    for turn in 0..TURNS {
        tokio::time::sleep(PAUSE).await;
        let changed = Instant::now();
        cluster.change(turn);
        let mut told = String::new();
        while !told.contains(&format!("error of turn {turn}<")) {
            let chunk = tokio::time::timeout(LIMIT, events.chunk()).await??;
            told.push_str(&String::from_utf8_lossy(&chunk.context("events go on")?));
        }
        times.push(changed.elapsed());
    }
    println!("{:<34} {:>10}", "a change is on the page after", milliseconds(median(times)?));
    let now = memory(&status, "VmRSS:").context("no memory is reported")?;
    let most = memory(&status, "VmHWM:").context("no memory is reported")?;
    println!("{:<34} {now:>7.0} MB, {most:.0} MB at most", "memory of the server");
    Ok(())
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

fn median(mut times: Vec<Duration>) -> Result<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied().context("nothing was measured")
}

/// Prepared lists, and changes as they are made.
struct Cluster {
    all: Vec<Value>,
    changes: broadcast::Sender<Bytes>,
    version: Mutex<u64>,
}

impl Cluster {
    fn new() -> Self {
        let (changes, _) = broadcast::channel(TURNS);
        Self { all: (0..FLEET).map(deployment).collect(), changes, version: Mutex::new(10) }
    }

    /// Gives the first deployment an error that contains the turn.
    fn change(&self, turn: usize) {
        let mut object = self.all.first().cloned().unwrap_or_default();
        let mut version = self.version.lock().expect("nobody panics with it");
        *version += 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        object["status"]["error"] = json!(format!("error of turn {turn}"));
        let line = json!({"type": "MODIFIED", "object": object}).to_string() + "\n";
        // Without a watch the change reaches no one, and the time limit ends the bench.
        drop(self.changes.send(line.into()));
    }
}

async fn answer(State(cluster): State<Arc<Cluster>>, request: Request) -> Response {
    let value = |name: &str| {
        let pairs = request.uri().query().unwrap_or_default().split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(it, _)| *it == name)
    };
    let number = |name: &str| value(name).and_then(|(_, text)| text.parse::<usize>().ok());
    let all: &[Value] = match request.uri().path().rsplit('/').next() {
        Some("flinkdeployments") => &cluster.all,
        Some("flinksessionjobs" | "flinkbluegreendeployments") => &[],
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    if value("watch").is_some() {
        let changes = if all.is_empty() { None } else { Some(cluster.changes.subscribe()) };
        let lines = futures::stream::unfold(changes, |changes| async {
            let Some(mut changes) = changes else { return std::future::pending().await };
            let line = changes.recv().await.ok()?;
            Some((Ok::<_, std::io::Error>(line), Some(changes)))
        });
        return Body::from_stream(lines.boxed()).into_response();
    }
    let (first, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(FLEET));
    let rest = all.get(first..).unwrap_or_default();
    let items = &rest[..limit.min(rest.len())];
    let next = (items.len() < rest.len()).then(|| (first + items.len()).to_string());
    let list = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "List", "items": items,
        "metadata": {"resourceVersion": "10", "continue": next}});
    ([(header::CONTENT_TYPE, "application/json")], list.to_string()).into_response()
}
