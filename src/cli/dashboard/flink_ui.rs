//! Read-only access to Flink's own web UI, on a separate port for each cluster.
//!
//! The UI runs scripts that the JobManager serves, and a JobManager runs code of anyone who writes jobs. So the UI
//! never shares the console's origin: each cluster has its own port, with its own guard, token and cookie. Requests
//! that change something are refused, because changes that the operator does not know of can cost state.

pub(in crate::cli) mod door;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use tokio::task::{AbortHandle, JoinSet};

use super::answers::{Console, Parts, Refused, meant};
use super::resource::within;
use crate::cli::{job_manager, lookup, wait};
use clients::flink::{Client, Deadlines};
use console::row::Key;
use door::{ANSWER_TIME_MAX, Door, IDLE_MAX, Mode};

/// Maximum number of clusters whose UI is open at the same time.
const OPEN_MAX: usize = 8;

/// The UIs that are open.
#[derive(Default)]
pub(super) struct Proxies(tokio::sync::Mutex<Open>);

#[derive(Default)]
struct Open {
    /// By namespace and name of the cluster.
    doors: BTreeMap<(String, String), (Arc<Door>, AbortHandle)>,
    /// Dropping the set closes all UIs.
    tasks: JoinSet<()>,
}

/// Opens the UI of a resource and redirects to it.
pub(super) async fn open(
    State(console): State<Arc<Console>>,
    parts: Parts,
) -> Result<Response, Refused> {
    let key = meant(&console, &parts)?;
    let proxies = console.proxies.as_ref().ok_or_else(|| {
        let text = "Use `kubectl flink ui` or `kubectl flink dashboard` to open it.";
        Refused::new(StatusCode::NOT_FOUND, "Flink's own UI is not available here", text)
    })?;
    let address = address(&console, proxies, &key).await.map_err(|why| {
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, "Flink's own UI cannot be opened", &why)
    })?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response())
}

/// Returns the address of the UI, with a token and the job.
async fn address(console: &Console, proxies: &Proxies, key: &Key) -> Result<String, String> {
    let reader = &console.reader;
    let _turn = reader.turn().await?;
    let Some(object) = reader.object(key).await? else {
        return Err(format!(
            "There is no {} `{}` in namespace `{}`.",
            key.kind, key.name, key.namespace
        ));
    };
    let opened = async {
        let connection = reader.connection(&key.namespace);
        let serving = lookup::serving(&connection, &object).await?;
        let serving = serving.context("no colour has been created yet")?;
        let cluster = lookup::cluster_of(&connection, &serving).await?;
        if cluster.job_manager_status() != Some("READY") {
            let (name, phase) = (cluster.name(), wait::phase(&cluster));
            bail!("the JobManager of `{name}` is not ready: it is {phase}. The overview says why");
        }
        let deadlines = Deadlines { request: ANSWER_TIME_MAX, ..Deadlines::default() };
        let client = job_manager::client(&connection, &cluster, reader.access, deadlines)?;
        let place = (cluster.namespace().to_owned(), cluster.name().to_owned());
        let job = serving.job_id().filter(|_| !serving.is_session());
        proxies.address(place, client.without_retries(), command(key), job).await
    };
    within(Box::pin(opened)).await
}

/// Returns the command that opens the full UI from a terminal.
fn command(key: &Key) -> String {
    format!("kubectl flink ui {} -n {}", key.argument(), key.namespace)
}

impl Proxies {
    /// Returns the address of the UI of a cluster, and opens it if necessary.
    async fn address(
        &self,
        place: (String, String),
        client: Client,
        command: String,
        job: Option<&str>,
    ) -> anyhow::Result<String> {
        let mut open = self.0.lock().await;
        let Open { doors, tasks } = &mut *open;
        doors.retain(|_, (_, task)| !task.is_finished());
        while tasks.try_join_next().is_some() {}
        let door = match doors.get(&place) {
            Some((door, _)) => {
                door.renew(client);
                Arc::clone(door)
            }
            None if doors.len() >= OPEN_MAX => {
                let minutes = IDLE_MAX.as_secs() / 60;
                bail!(
                    "the UIs of {OPEN_MAX} clusters are open, which is the maximum. Close some of their tabs: each UI closes \
                     {minutes} minutes after its last request"
                );
            }
            None => {
                let (door, listener) = Door::open(0, client, Mode::ReadOnly { command }).await?;
                let task = tasks.spawn(Arc::clone(&door).serve(listener));
                doors.insert(place, (Arc::clone(&door), task));
                door
            }
        };
        Ok(door.address(job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::row::Kind;

    #[test]
    fn what_opens_all_of_it_names_the_resource() {
        let key = |kind| Key { namespace: "shop".into(), name: "orders".into(), kind };
        assert_eq!(command(&key(Kind::Deployment)), "kubectl flink ui orders -n shop");
        assert_eq!(command(&key(Kind::SessionJob)), "kubectl flink ui sessionjob/orders -n shop");
    }
}
