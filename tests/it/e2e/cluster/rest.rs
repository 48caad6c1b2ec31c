//! The JobManager's REST API, as programs use it.

use std::collections::BTreeMap;
use std::time::Instant;
use std::{fs, thread};

use api::version::FlinkVersion;
use clients::flink;
use clients::flink::access::{Access, Connector, Options, Target};
use clients::flink::jars::RunRequest;
use serde_json::Value;

use super::{Cluster, POLL_EVERY, jar};
use crate::support::api_client;
use crate::support::patience::{DEADLINES, PATIENCE};

impl Cluster {
    /// Returns an answer of the JobManager's REST API, through the API server.
    pub(in crate::e2e) fn rest(&self, path: &str) -> Option<Value> {
        self.rest_of(&self.name, path)
    }

    /// As [`Self::rest`], for one of several.
    pub(in crate::e2e) fn rest_of(&self, name: &str, path: &str) -> Option<Value> {
        let namespace = &self.namespace;
        let uri = format!("/api/v1/namespaces/{namespace}/services/{name}-rest:8081/proxy{path}");
        let request = http::Request::get(uri).body(Vec::new()).unwrap();
        self.runtime.block_on(self.client.request(request)).ok()
    }

    /// As [`Self::rest_of`], from a JobManager that is up: a busy one may answer only when it is asked again.
    #[track_caller]
    pub(in crate::e2e) fn answer_of(&self, name: &str, path: &str) -> Value {
        let start = Instant::now();
        loop {
            if let Some(answer) = self.rest_of(name, path) {
                return answer;
            }
            assert!(start.elapsed() < PATIENCE, "{name} does not answer {path} in {PATIENCE:?}");
            thread::sleep(POLL_EVERY);
        }
    }

    /// Runs `ask` with a client of the JobManager's REST API.
    pub(in crate::e2e) fn ask_flink<T>(&self, ask: impl AsyncFnOnce(flink::Client) -> T) -> T {
        self.runtime.block_on(async {
            let config = api_client::config(&self.kubeconfig).await;
            let options = Options { access: Access::Proxy, ..Options::default() };
            let target = Target {
                namespace: self.namespace.clone(),
                cluster_id: self.name.clone(),
                port: 8081,
                is_tls: false,
            };
            let connector = Connector::new(&options, Some(&config)).unwrap();
            ask(connector.client(&target, DEADLINES)).await
        })
    }

    /// Submits the job of the tests to a session cluster and returns its id.
    pub(in crate::e2e) fn submit(&self) -> String {
        let jar = fs::read(jar()).unwrap();
        let job = self.job();
        let args = job["spec"]["job"]["args"].as_array().unwrap().iter();
        let request = RunRequest {
            job_id: flink::new_trigger_id(),
            entry_class: None,
            args: args.map(|arg| arg.as_str().unwrap().to_owned()).collect(),
            parallelism: Some(1),
            allow_non_restored_state: false,
            savepoint_path: None,
            configuration: BTreeMap::new(),
        };
        self.ask_flink(async |client| {
            let jar = client.upload_jar("job.jar", jar.into()).await.unwrap();
            client.run_jar(&jar, FlinkVersion::V1_20, &request).await.unwrap();
        });
        request.job_id
    }
}
