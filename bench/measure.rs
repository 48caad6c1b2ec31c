//! How fast and how big an operator is, measured on a real API server with `flinkworld` in the place of
//! Flink. `bench/run.sh` lays the ground and starts this.
//!
//! The steps and the names of the figures are those of `baseline-java-*.json`, so that the two can be
//! read side by side: start the operator, create N deployments at once, wait until all are STABLE,
//! rest for a minute, then change the last ten and time their redeployment.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "a program that measures: it reads clocks and processes, and prints"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::time::sleep;

mod report;

/// Creates in flight at once.
const CREATORS: usize = 8;
/// How long all deployments may take to become STABLE.
const STABLE_LIMIT: Duration = Duration::from_secs(400);
/// Time after start in which an operator loads what it needs; its size then is its idle size.
const IDLE_AFTER: Duration = Duration::from_secs(12);
const SETTLE: Duration = Duration::from_secs(15);
const REST: Duration = Duration::from_mins(1);
const UPGRADES: usize = 10;
/// Ticks a second in `/proc/PID/stat`: the same on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

#[tokio::main]
async fn main() -> Result<()> {
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut args = env::args().skip(1);
    let usage = "usage: bench KUBECONFIG FLINKWORLD_ADDRESS COUNT OUTPUT -- OPERATOR COMMAND…";
    let mut next = || args.next().context(usage);
    let (kubeconfig, world, count, output) = (next()?, next()?, next()?.parse()?, next()?);
    if next()? != "--" {
        bail!(usage);
    }
    let command: Vec<String> = args.collect();
    let ground = Ground::new(Path::new(&kubeconfig), world).await?;
    let log = PathBuf::from(&output).with_extension("log");
    let figures = measure(&ground, count, &command, &log).await?;
    fs::write(&output, format!("{figures:#}\n"))?;
    println!("{}", report::table(&figures)?);
    Ok(())
}

async fn measure(ground: &Ground, count: usize, command: &[String], log: &Path) -> Result<Value> {
    let mut figures = json!({ "n": count });
    let start = Instant::now();
    let operator = Operator::start(command, log)?;
    ground.create("probe0").await?;
    while ground.lifecycle("probe0").await?.is_none() {
        if start.elapsed() > Duration::from_mins(2) {
            bail!("no status after two minutes; the operator's log is {}", log.display());
        }
        sleep(Duration::from_millis(5)).await;
    }
    figures["start_to_first_status_s"] = seconds(start.elapsed());

    sleep(IDLE_AFTER).await;
    let idle = operator.usage()?;
    figures["idle"] = idle.to_json();

    let calls = ground.api_calls().await?;
    let start = Instant::now();
    stream::iter(0..count)
        .map(|index| async move { ground.create(&name(index)).await })
        .buffer_unordered(CREATORS)
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    figures["created_in_s"] = seconds(start.elapsed());
    let wanted = count + 1;
    let states = loop {
        let states = ground.states().await?;
        let stable = states.get("STABLE").copied().unwrap_or(0);
        if stable * 2 >= wanted && figures.get("half_stable_s").is_none() {
            figures["half_stable_s"] = seconds(start.elapsed());
        }
        if stable >= wanted {
            figures["all_stable_s"] = seconds(start.elapsed());
            break states;
        }
        if start.elapsed() > STABLE_LIMIT {
            break states;
        }
        // The list is load, too.
        sleep(Duration::from_millis(100.max(count as u64))).await;
    };
    figures["states"] = json!(states);
    let stable = operator.usage()?;
    figures["cpu_s_to_stable"] = json!(round(stable.cpu_seconds - idle.cpu_seconds));
    figures.add_calls("_to_stable", &calls, &ground.api_calls().await?);
    figures["at_stable"] = stable.to_json();

    sleep(SETTLE).await;
    figures["steady_60s"] = rest(ground, &operator).await?;
    figures["upgrade_redeploy_s"] = upgrade(ground, count).await?;
    figures["end"] = operator.usage()?.to_json();
    operator.stop()?;
    Ok(figures)
}

/// What the operator does in a minute in which nothing happens.
async fn rest(ground: &Ground, operator: &Operator) -> Result<Value> {
    let (calls, flink, before) =
        (ground.api_calls().await?, ground.flink_calls().await?, operator.usage()?);
    sleep(REST).await;
    let (calls_after, after) = (ground.api_calls().await?, operator.usage()?);
    let mut figures = json!({ "flink_rest": ground.flink_calls().await? - flink });
    figures.add_calls("", &calls, &calls_after);
    figures["cpu_s"] = json!(round(after.cpu_seconds - before.cpu_seconds));
    figures["rss_mb"] = json!(round(after.rss_mb));
    figures["threads"] = json!(after.threads);
    Ok(figures)
}

/// From a changed spec to the new JobManager Deployment, one after the other.
async fn upgrade(ground: &Ground, count: usize) -> Result<Value> {
    let mut took = Vec::new();
    for index in count.saturating_sub(UPGRADES)..count {
        let name = name(index);
        let before = ground.job_managers.get(&name).await?.metadata.uid;
        let start = Instant::now();
        let patch = json!({"spec": {"job": {"parallelism": 2}}});
        ground.deployments.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        loop {
            let now = ground.job_managers.get_opt(&name).await?;
            if now.is_some_and(|deployment| deployment.metadata.uid != before) {
                break;
            }
            if start.elapsed() > REST {
                bail!("`{name}` was not redeployed in a minute");
            }
            sleep(Duration::from_millis(10)).await;
        }
        took.push(start.elapsed());
    }
    took.sort();
    let (Some(median), Some(longest)) = (took.get(took.len() / 2), took.last()) else {
        return Ok(Value::Null);
    };
    Ok(json!({ "p50": seconds(*median), "max": seconds(*longest) }))
}

fn name(index: usize) -> String {
    format!("fd-{index:05}")
}

fn seconds(duration: Duration) -> Value {
    json!(round(duration.as_secs_f64()))
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Counts of requests to the API server, other than watches.
struct Calls {
    all: f64,
    /// By anybody: what the recorded runs of the Java operator count.
    writes: f64,
    /// Without those of this program, of flinkworld and of the API server itself.
    operator_writes: f64,
}

trait AddCalls {
    /// Puts what was called between `before` and `after`.
    fn add_calls(&mut self, suffix: &str, before: &Calls, after: &Calls);
}

impl AddCalls for Value {
    fn add_calls(&mut self, suffix: &str, before: &Calls, after: &Calls) {
        self[format!("api_calls{suffix}")] = json!(after.all - before.all);
        self[format!("api_writes{suffix}")] = json!(after.writes - before.writes);
        self[format!("operator_writes{suffix}")] =
            json!(after.operator_writes - before.operator_writes);
    }
}

/// The API server and the stand-in Flink clusters.
struct Ground {
    client: Client,
    deployments: Api<DynamicObject>,
    job_managers: Api<Deployment>,
    world: String,
    http: reqwest::Client,
}

impl Ground {
    async fn new(kubeconfig: &Path, world: String) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let kind = GroupVersionKind::gvk("flink.apache.org", "v1beta1", "FlinkDeployment");
        let resource = ApiResource::from_gvk(&kind);
        Ok(Self {
            deployments: Api::namespaced_with(client.clone(), "default", &resource),
            job_managers: Api::namespaced(client.clone(), "default"),
            client,
            world,
            http: reqwest::Client::new(),
        })
    }

    async fn create(&self, name: &str) -> Result<()> {
        let object = serde_json::from_value(json!({
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkDeployment",
            "metadata": {"name": name},
            "spec": {
                "image": "flink:1.20",
                "flinkVersion": "v1_20",
                "serviceAccount": "flink",
                "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "1"},
                "jobManager": {"resource": {"memory": "1g", "cpu": 1}},
                "taskManager": {"resource": {"memory": "1g", "cpu": 1}},
                "job": {
                    "jarURI": "local:///opt/flink/examples/streaming/StateMachineExample.jar",
                    "parallelism": 1,
                    "upgradeMode": "stateless",
                },
            },
        }))?;
        self.deployments.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn lifecycle(&self, name: &str) -> Result<Option<String>> {
        Ok(lifecycle(&self.deployments.get(name).await?))
    }

    /// How many deployments are in each lifecycle state. As a table, which is the least load: what is
    /// measured shares the API server with this.
    async fn states(&self) -> Result<BTreeMap<String, usize>> {
        let path = format!("{}?includeObject=None", self.deployments.resource_url());
        let request = http::Request::get(path)
            .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
            .body(Vec::new())?;
        let table: Value = self.client.request(request).await?;
        let items = |field: &str| table[field].as_array().context("the list is no table");
        let column = items("columnDefinitions")?
            .iter()
            .position(|column| column["name"] == "Lifecycle State")
            .context("the custom resource has no column `Lifecycle State`")?;
        let mut states = BTreeMap::new();
        for row in items("rows")? {
            let state = row["cells"][column].as_str().unwrap_or("none");
            *states.entry(state.to_owned()).or_default() += 1;
        }
        Ok(states)
    }

    /// Counted by the API server since its start.
    async fn api_calls(&self) -> Result<Calls> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let mut calls = Calls { all: 0.0, writes: 0.0, operator_writes: 0.0 };
        for line in self.client.request_text(request).await?.lines() {
            let Some(line) = line.strip_prefix("apiserver_request_total{") else { continue };
            let (labels, value) = line.rsplit_once(' ').context("a metric without a value")?;
            let value: f64 = value.parse()?;
            let is = |label: &str, value: &str| labels.contains(&format!("{label}=\"{value}\""));
            if is("verb", "WATCH") {
                continue;
            }
            calls.all += value;
            if !["POST", "PUT", "PATCH", "APPLY", "DELETE"].iter().any(|verb| is("verb", verb)) {
                continue;
            }
            calls.writes += value;
            let by_api_server = is("resource", "leases") || is("resource", "ipaddresses");
            let by_flinkworld = is("resource", "deployments") && is("subresource", "status");
            let by_this = is("resource", "flinkdeployments") && is("verb", "POST");
            if !(by_api_server || by_flinkworld || by_this) {
                calls.operator_writes += value;
            }
        }
        Ok(calls)
    }

    async fn flink_calls(&self) -> Result<u64> {
        let stats = self.http.get(format!("http://{}/_stats", self.world)).send().await?;
        let stats: BTreeMap<String, u64> = stats.json().await?;
        Ok(stats.values().sum())
    }
}

fn lifecycle(deployment: &DynamicObject) -> Option<String> {
    deployment.data.pointer("/status/lifecycleState")?.as_str().map(str::to_owned)
}

/// The operator's process.
struct Operator {
    child: Child,
}

impl Operator {
    fn start(command: &[String], log: &Path) -> Result<Self> {
        let (program, args) = command.split_first().context("no operator command")?;
        let log = fs::File::create(log)?;
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("while starting `{program}`"))?;
        Ok(Self { child })
    }

    fn usage(&self) -> Result<Usage> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let stat = fs::read_to_string(process.join("stat"))?;
        // Fields are counted from behind the command, which may hold blanks.
        let (_, fields) = stat.rsplit_once(')').context("no command in /proc/PID/stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok());
        let (user, system) = ticks(11).zip(ticks(12)).context("no times in /proc/PID/stat")?;
        let status = fs::read_to_string(process.join("status"))?;
        let field = |name: &str| -> Result<f64> {
            let line =
                status.lines().find(|line| line.starts_with(name)).context(name.to_owned())?;
            Ok(line.split_whitespace().nth(1).context("no value")?.parse()?)
        };
        Ok(Usage {
            cpu_seconds: (user + system) / TICKS,
            rss_mb: field("VmRSS:")? / 1024.0,
            peak_mb: field("VmHWM:")? / 1024.0,
            threads: field("Threads:")?,
        })
    }

    /// As Ctrl-C does.
    fn stop(mut self) -> Result<()> {
        let id = i32::try_from(self.child.id())?;
        let id = rustix::process::Pid::from_raw(id).context("process id 0")?;
        rustix::process::kill_process(id, rustix::process::Signal::INT)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // After `stop` there is nothing to kill, and on an early error nobody reads why it failed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

struct Usage {
    cpu_seconds: f64,
    rss_mb: f64,
    peak_mb: f64,
    threads: f64,
}

impl Usage {
    fn to_json(&self) -> Value {
        let Self { cpu_seconds, rss_mb, peak_mb, threads } = self;
        json!({
            "cpu_s": round(*cpu_seconds),
            "rss_mb": round(*rss_mb),
            "peak_mb": round(*peak_mb),
            "threads": threads,
        })
    }
}
