//! Keeps the logs of all pods, which are gone with the pods.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use tokio::io::AsyncWriteExt;

use super::stage::Stage;

const POLL_EVERY: Duration = Duration::from_secs(2);
const CONTAINER: &str = "flink-main-container";

/// Follows the logs of each container until it ends.
pub(super) fn keep(stage: &Stage, is_over: &AtomicBool) {
    let folder = stage.history.folder().join("pods");
    fs::create_dir_all(&folder).unwrap();
    let mut followed = BTreeSet::new();
    while !is_over.load(Ordering::Relaxed) {
        for pod in stage.pods("").unwrap_or_default() {
            let Some(name) = pod.metadata.name else { continue };
            let statuses = pod.status.and_then(|it| it.container_statuses).unwrap_or_default();
            let Some(status) = statuses.into_iter().find(|it| it.name == CONTAINER) else {
                continue;
            };
            let has_started = status.state.is_some_and(|it| it.waiting.is_none());
            if has_started && followed.insert((name.clone(), status.restart_count)) {
                let file = folder.join(format!("{name}-{}.log", status.restart_count));
                let pods = Api::namespaced(stage.cluster.client(), &stage.cluster.namespace);
                stage.cluster.spawn(follow(pods, name, file));
            }
        }
        thread::sleep(POLL_EVERY);
    }
}

async fn follow(pods: Api<Pod>, name: String, file: std::path::PathBuf) {
    let container = Some(CONTAINER.to_owned());
    let params = LogParams { container, follow: true, ..LogParams::default() };
    let Ok(stream) = pods.log_stream(&name, &params).await else { return };
    let Ok(mut file) = tokio::fs::File::create(file).await else { return };
    let mut lines = stream.lines();
    while let Ok(Some(line)) = lines.try_next().await {
        if file.write_all(format!("{line}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}
