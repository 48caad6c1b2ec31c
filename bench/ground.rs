//! The API server and the stand-in Flink clusters.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use backon::{ConstantBuilder, Retryable};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Maximum number of requests in flight.
const WRITERS: usize = 8;
/// Number of attempts: one request dropped by an overloaded server must not end a run of minutes.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Numbers of requests to the API server, other than watches.
#[derive(Clone, Copy, Default)]
pub(crate) struct Calls {
    pub(crate) all: f64,
    /// From all clients, as in the recorded runs of the Java operator.
    pub(crate) writes: f64,
    /// Excluding those of this program, of `flinkworld` and of the API server itself.
    pub(crate) operator_writes: f64,
    /// Number of created Deployments.
    pub(crate) clusters: f64,
    /// Number of written `FlinkDeployment` statuses.
    pub(crate) statuses: f64,
}

impl Calls {
    /// Adds the numbers of calls since `before` to the figures.
    pub(crate) fn note(&self, before: &Self, suffix: &str, figures: &mut Value) {
        figures[format!("api_calls{suffix}")] = json!(self.all - before.all);
        figures[format!("api_writes{suffix}")] = json!(self.writes - before.writes);
        figures[format!("operator_writes{suffix}")] =
            json!(self.operator_writes - before.operator_writes);
    }
}

pub(crate) struct Ground {
    client: Client,
    pub(crate) deployments: Api<DynamicObject>,
    pub(crate) job_managers: Api<Deployment>,
    world: String,
    http: reqwest::Client,
    /// Name of the sandbox that the API server belongs to.
    pub(crate) instance: String,
}

impl Ground {
    pub(crate) async fn new(kubeconfig: &Path, world: String) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let instance = kubeconfig.current_context.clone().unwrap_or_default();
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
            instance,
        })
    }

    pub(crate) async fn create(&self, name: &str) -> Result<()> {
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
        patient(async || {
            match self.deployments.create(&PostParams::default(), &object).await {
                // Perhaps only the response to the first attempt was lost.
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                other => Ok(other.map(drop)?),
            }
        })
        .await
    }

    pub(crate) async fn create_all(&self, names: impl Iterator<Item = String>) -> Result<()> {
        stream::iter(names)
            .map(|name| async move { self.create(&name).await })
            .buffer_unordered(WRITERS)
            .try_collect()
            .await
    }

    /// Changes the spec of one deployment.
    pub(crate) async fn edit(&self, name: &str, spec: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        patient(async || {
            self.deployments.patch(name, &PatchParams::default(), &patch).await?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn edit_all(
        &self,
        names: impl Iterator<Item = String>,
        spec: &Value,
    ) -> Result<()> {
        stream::iter(names)
            .map(|name| async move { self.edit(&name, spec).await })
            .buffer_unordered(WRITERS)
            .try_collect()
            .await
    }

    pub(crate) async fn lifecycle(&self, name: &str) -> Result<Option<String>> {
        patient(async || Ok(lifecycle(&self.deployments.get(name).await?))).await
    }

    /// Returns the number of deployments in each lifecycle state.
    pub(crate) async fn states(&self) -> Result<BTreeMap<String, usize>> {
        Ok(count(&self.lifecycles().await?))
    }

    /// Returns name and lifecycle state of each deployment, as a table, which is the least load: the measured operator
    /// shares the API server with this program.
    pub(crate) async fn lifecycles(&self) -> Result<Vec<(String, String)>> {
        let path = format!("{}?includeObject=None", self.deployments.resource_url());
        let table: Value = patient(async || {
            let request = http::Request::get(&path)
                .header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
                .body(Vec::new())?;
            Ok(self.client.request(request).await?)
        })
        .await?;
        let items = |field: &str| table[field].as_array().context("the list is not a table");
        let columns = items("columnDefinitions")?;
        let column = |name: &str| {
            let at = columns.iter().position(|column| column["name"] == name);
            at.with_context(|| format!("the custom resource has no column `{name}`"))
        };
        let (name, state) = (column("Name")?, column("Lifecycle State")?);
        let text = |cell: &Value| cell.as_str().unwrap_or("none").to_owned();
        let rows = items("rows")?.iter();
        Ok(rows.map(|row| (text(&row["cells"][name]), text(&row["cells"][state]))).collect())
    }

    /// Returns the API server's counts since its start.
    pub(crate) async fn calls(&self) -> Result<Calls> {
        let mut calls = Calls::default();
        for line in self.metrics().await?.lines() {
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
            if is("resource", "deployments") && is("verb", "POST") && is("code", "201") {
                calls.clusters += value;
            }
            if is("resource", "flinkdeployments") && is("subresource", "status") {
                calls.statuses += value;
            }
            let by_api_server = is("resource", "leases") || is("resource", "ipaddresses");
            let by_flinkworld = is("resource", "deployments") && is("subresource", "status");
            let by_this = is("resource", "flinkdeployments")
                && is("subresource", "")
                && (is("verb", "POST") || is("verb", "DELETE"));
            if !(by_api_server || by_flinkworld || by_this) {
                calls.operator_writes += value;
            }
        }
        Ok(calls)
    }

    /// Returns the seconds that the API server has spent on requests, by verb and resource, with their number.
    pub(crate) async fn server_seconds(&self) -> Result<BTreeMap<String, (f64, f64)>> {
        let mut seconds: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for line in self.metrics().await?.lines() {
            let Some(rest) = line.strip_prefix("apiserver_request_duration_seconds_") else {
                continue;
            };
            let Some((labels, value)) = rest.rsplit_once(' ') else { continue };
            let label = |name: &str| {
                let text = labels.split_once(&format!("{name}=\""))?.1;
                text.split_once('"').map(|(text, _)| text.to_owned())
            };
            let (Some(verb), Some(resource), Some(sub)) =
                (label("verb"), label("resource"), label("subresource"))
            else {
                continue;
            };
            if verb == "WATCH" || resource.is_empty() {
                continue;
            }
            let value: f64 = value.parse()?;
            let entry = seconds.entry(format!("{verb} {resource}/{sub}")).or_default();
            if labels.starts_with("sum") {
                entry.0 += value;
            } else if labels.starts_with("count") {
                entry.1 += value;
            }
        }
        Ok(seconds)
    }

    async fn metrics(&self) -> Result<String> {
        patient(async || {
            let request = http::Request::get("/metrics").body(Vec::new())?;
            Ok(self.client.request_text(request).await?)
        })
        .await
    }

    /// Returns the calls to Flink so far, by method and route.
    pub(crate) async fn flink_calls(&self) -> Result<BTreeMap<String, u64>> {
        self.get("_stats").await
    }

    /// Resets the record of clusters that received a request.
    pub(crate) async fn forget_asked(&self) -> Result<()> {
        self.post("_asked").await
    }

    /// Returns how many clusters have received a request since then.
    pub(crate) async fn asked(&self) -> Result<usize> {
        self.get("_asked").await
    }

    /// Makes clusters whose names come before `below` accept connections and never respond.
    pub(crate) async fn stall(&self, below: &str) -> Result<()> {
        self.post(&format!("_stall?below={below}")).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        patient(async || {
            let answer = self.http.get(format!("http://{}/{path}", self.world)).send().await?;
            Ok(answer.error_for_status()?.json().await?)
        })
        .await
    }

    async fn post(&self, path: &str) -> Result<()> {
        patient(async || {
            let answer = self.http.post(format!("http://{}/{path}", self.world)).send().await?;
            answer.error_for_status()?;
            Ok(())
        })
        .await
    }
}

/// Returns the number of deployments in each state.
pub(crate) fn count(lifecycles: &[(String, String)]) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    for (_, state) in lifecycles {
        *states.entry(state.clone()).or_default() += 1;
    }
    states
}

/// Retries a request that may be made twice.
async fn patient<T>(request: impl AsyncFn() -> Result<T>) -> Result<T> {
    let pauses = ConstantBuilder::default().with_delay(PAUSE).with_max_times(TRIES);
    (|| request())
        .retry(pauses)
        .notify(|error, _| eprintln!("bench: a request failed and is retried: {error:#}"))
        .await
}

pub(crate) fn lifecycle(deployment: &DynamicObject) -> Option<String> {
    deployment.data.pointer("/status/lifecycleState")?.as_str().map(str::to_owned)
}
