//! How long a person waits for commands that only read: start-up, completion, and lists of a fleet.
//!
//! The API server is a stand-in in this process with a prepared fleet, so the figures are those of the program and one
//! command is enough; with a kubeconfig they are those of a real API server.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::process::Command;

/// Number of deployments of the fleet.
const FLEET: usize = 5_000;
/// Number of objects per page, as the program requests them.
const PAGE: usize = 500;
/// Interval at which a program's memory is sampled.
const POLL: Duration = Duration::from_millis(1);
/// A program that takes longer is stuck.
const LIMIT: Duration = Duration::from_mins(1);

/// A measurement: name, arguments, runs, maximum milliseconds, maximum MB.
struct Trial {
    what: &'static str,
    args: &'static [&'static str],
    runs: usize,
    milliseconds_max: f64,
    megabytes_max: Option<f64>,
}

const TRIALS: [Trial; 4] = [
    Trial {
        what: "start-up",
        args: &["--version"],
        runs: 40,
        milliseconds_max: 20.0,
        megabytes_max: None,
    },
    Trial {
        what: "completion of names",
        args: &["__complete", "status", ""],
        runs: 20,
        milliseconds_max: 150.0,
        megabytes_max: None,
    },
    Trial {
        what: "status of the fleet",
        args: &["status", "-A"],
        runs: 5,
        milliseconds_max: 2_000.0,
        megabytes_max: Some(120.0),
    },
    Trial {
        what: "list of the fleet",
        args: &["list", "-A", "-o", "wide"],
        runs: 5,
        milliseconds_max: 2_000.0,
        megabytes_max: Some(120.0),
    },
];

/// Measures `program` against the cluster of `kubeconfig`, or the stand-in.
pub(crate) async fn run(program: &Path, kubeconfig: Option<&Path>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let own = folder.path().join("kubeconfig");
    let kubeconfig = if let Some(kubeconfig) = kubeconfig {
        kubeconfig
    } else {
        let address = serve().await?;
        write_kubeconfig(&own, address)?;
        &own
    };
    println!("{:<22} {:>10} {:>10} {:>8} {:>8}", "", "median", "goal", "memory", "goal");
    let mut is_missed = false;
    for Trial { what, args, runs, milliseconds_max, megabytes_max } in TRIALS {
        let mut times = Vec::new();
        let mut peak = 0.0_f64;
        for _ in 0..runs {
            let (milliseconds, megabytes) = once(program, args, kubeconfig).await?;
            times.push(milliseconds);
            peak = peak.max(megabytes);
        }
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().context("nothing was run")?;
        let is_met = median <= milliseconds_max && megabytes_max.is_none_or(|max| peak <= max);
        is_missed |= !is_met;
        let goal = megabytes_max.map_or_else(String::new, |max| format!("{max:.0} MB"));
        println!(
            "{what:<22} {:>10} {:>10} {:>8} {goal:>8}  {}",
            format!("{median:.1} ms"),
            format!("{milliseconds_max:.0} ms"),
            format!("{peak:.0} MB"),
            if is_met { "met" } else { "missed" },
        );
    }
    if is_missed {
        bail!("not every goal is met; the goals are for the release build: make release");
    }
    Ok(())
}

/// Writes a kubeconfig for a stand-in at this address.
pub(crate) fn write_kubeconfig(path: &Path, address: std::net::SocketAddr) -> Result<()> {
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench", "namespace": "team-0"}}],
        "users": [{"name": "bench", "user": {}}]});
    Ok(std::fs::write(path, config.to_string())?)
}

/// Runs it once; returns milliseconds and the observed peak of its memory in MB.
async fn once(program: &Path, args: &[&str], kubeconfig: &Path) -> Result<(f64, f64)> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("while starting `{}`", program.display()))?;
    let status = child.id().map(|id| format!("/proc/{id}/status"));
    let mut peak = 0.0_f64;
    let ended: ExitStatus = loop {
        tokio::select! {
            ended = child.wait() => break ended?,
            () = tokio::time::sleep(POLL) => {}
        }
        if let Some(status) = &status {
            peak = peak.max(memory(status, "VmHWM:").unwrap_or_default());
        }
        if start.elapsed() > LIMIT {
            bail!("`{}` does not exit", args.join(" "));
        }
    };
    let milliseconds = start.elapsed().as_secs_f64() * 1_000.0;
    if !ended.success() {
        let output = child.wait_with_output().await?;
        bail!("`{}` failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok((milliseconds, peak))
}

/// Returns the kernel's figure for a process's memory in MB under a name such as `VmHWM:`, its peak so far.
pub(crate) fn memory(status: &str, name: &str) -> Option<f64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// Responses prepared before anything is measured.
struct Fleet {
    /// Pages of deployments.
    whole: Vec<Bytes>,
    /// The same with metadata only, of one namespace.
    names: Bytes,
}

/// Starts the stand-in and returns its address.
async fn serve() -> Result<std::net::SocketAddr> {
    let all: Vec<Value> = (0..FLEET).map(deployment).collect();
    let pages = FLEET.div_ceil(PAGE);
    let whole = all.chunks(PAGE).enumerate().map(|(index, items)| {
        let next = if index + 1 < pages { (index + 1).to_string() } else { String::new() };
        let list = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeploymentList",
            "metadata": {"resourceVersion": "1", "continue": next}, "items": items});
        Bytes::from(list.to_string())
    });
    let named = all.iter().filter(|it| it["metadata"]["namespace"] == "team-0");
    let named = named.map(|it| {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": it["metadata"]})
    });
    let list_of_names = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
        "metadata": {"resourceVersion": "1"}, "items": named.collect::<Vec<_>>()});
    let fleet = Fleet { whole: whole.collect(), names: Bytes::from(list_of_names.to_string()) };
    let router = Router::new().fallback(answer).with_state(Arc::new(fleet));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn answer(State(fleet): State<Arc<Fleet>>, request: Request) -> Response {
    let accept = request.headers().get(header::ACCEPT).and_then(|it| it.to_str().ok());
    let is_metadata = accept.is_some_and(|it| it.contains("PartialObjectMetadata"));
    let query = request.uri().query().unwrap_or_default();
    let page = query.split('&').find_map(|part| part.strip_prefix("continue="));
    let page: usize = page.and_then(|page| page.parse().ok()).unwrap_or_default();
    let json = |body: Bytes| ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    match request.uri().path().rsplit('/').next() {
        Some("flinkdeployments") if is_metadata => json(fleet.names.clone()),
        Some("flinkdeployments") => match fleet.whole.get(page) {
            Some(page) => json(page.clone()),
            None => StatusCode::GONE.into_response(),
        },
        Some("flinksessionjobs") => {
            json(Bytes::from_static(br#"{"metadata":{"resourceVersion":"1"},"items":[]}"#))
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Returns a deployment as large as that of a real job, with what the API server and the operator store in it.
pub(crate) fn deployment(index: usize) -> Value {
    let spec = json!({"image": "registry.example/team/orders:1.20.1-7", "flinkVersion": "v1_20", "serviceAccount": "flink",
        "flinkConfiguration": (0..20).map(|it| (format!("some.option.of.flink.{it}"), json!(format!("value-{it}"))))
            .collect::<serde_json::Map<_, _>>(),
        "jobManager": {"resource": {"memory": "2g", "cpu": 1}}, "taskManager": {"resource": {"memory": "4g", "cpu": 2}},
        "podTemplate": {"spec": {"containers": [{"name": "flink-main-container",
            "env": (0..10).map(|it| json!({"name": format!("VARIABLE_{it}"), "value": "x".repeat(40)})).collect::<Vec<_>>()}]}},
        "job": {"jarURI": "local:///opt/flink/usrlib/job.jar", "parallelism": 4, "upgradeMode": "savepoint", "state": "running"}});
    let managed = json!([{"manager": "kubectl-client-side-apply", "operation": "Update", "fieldsType": "FieldsV1",
        "fieldsV1": (0..60).map(|it| (format!("f:field{it}"), json!({}))).collect::<serde_json::Map<_, _>>()}]);
    json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": format!("orders-{index:05}"), "namespace": format!("team-{}", index / 100), "uid": format!("uid-{index}"),
            "generation": 3, "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": managed,
            "labels": {"team": "payments", "stage": "production"}},
        "status": {"observedGeneration": 3, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY",
            "jobStatus": {"state": "RUNNING", "jobId": "5a3e5a3e5a3e5a3e5a3e5a3e5a3e5a3e", "jobName": "orders"},
            "reconciliationStatus": {"lastReconciledSpec": json!({"spec": spec}).to_string(), "state": "DEPLOYED",
                "lastStableSpec": json!({"spec": spec}).to_string()},
            "taskManager": {"replicas": 2, "labelSelector": "component=taskmanager,app=orders"}},
        "spec": spec})
}
