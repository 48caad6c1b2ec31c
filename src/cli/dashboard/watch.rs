//! The watches of the fleet, one for each kind. Only rows are kept.
//!
//! A lost connection does not end a watch: see [`Contact`].

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use strum::IntoEnumIterator;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::known::Known;
use crate::cli::contact::Contact;
use crate::cli::deployment::Deployment;
use crate::cli::table;
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use clients::cluster;
use clients::cluster::read::{self, Scope, Seen};
use config::secret;
use console::fleet::Feed;
use console::row::{Key, Kind, Row};

/// Pause before a kind that cannot be shown is tried again. It may be installed, or permitted, in the meantime.
const REOPEN: Duration = Duration::from_secs(30);

/// Each kind, with the reason if it cannot be shown.
pub(super) type Kinds = [(Kind, Option<cluster::Error>); 3];

/// Tries to list one object of each kind.
///
/// # Errors
/// Returns an error if deployments may not be listed or the API server does not answer.
pub(super) async fn kinds(client: &Client, scope: Scope<'_>) -> cluster::Result<Kinds> {
    let (deployments, session_jobs, blue_greens) = tokio::join!(
        list_one::<FlinkDeployment>(client, scope),
        closed(Kind::SessionJob, client, scope),
        closed(Kind::BlueGreen, client, scope),
    );
    deployments?;
    Ok([
        (Kind::Deployment, None),
        (Kind::SessionJob, session_jobs?),
        (Kind::BlueGreen, blue_greens?),
    ])
}

/// Returns why a kind cannot be shown; `None` if it can.
async fn closed(
    kind: Kind,
    client: &Client,
    scope: Scope<'_>,
) -> cluster::Result<Option<cluster::Error>> {
    let listed = match kind {
        Kind::Deployment => list_one::<FlinkDeployment>(client, scope).await,
        Kind::SessionJob => list_one::<FlinkSessionJob>(client, scope).await,
        Kind::BlueGreen => list_one::<FlinkBlueGreenDeployment>(client, scope).await,
    };
    match listed {
        Ok(()) => Ok(None),
        Err(error @ (cluster::Error::KindMissing { .. } | cluster::Error::Forbidden { .. })) => {
            Ok(Some(error))
        }
        Err(error) => Err(error),
    }
}

async fn list_one<K>(client: &Client, scope: Scope<'_>) -> cluster::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let one = ListParams::default().limit(1);
    scope.api::<K>(client).list_metadata(&one).await?;
    Ok(())
}

/// The resources to watch.
#[derive(Clone)]
pub(super) struct What {
    /// `None` for all namespaces.
    pub(super) namespace: Option<String>,
    /// `None` for all labels.
    pub(super) selector: Option<String>,
}

impl What {
    pub(super) fn scope(&self) -> Scope<'_> {
        self.namespace.as_deref().into()
    }

    /// Starts a watch of each kind.
    pub(super) fn start(
        &self,
        kinds: Kinds,
        client: &Client,
        known: &Arc<Known>,
        watches: &mut JoinSet<()>,
    ) {
        for (kind, closed) in kinds {
            let shown = self.clone().show(kind, closed, REOPEN, client.clone(), Arc::clone(known));
            watches.spawn(shown);
        }
    }

    /// Watches a kind. If it cannot be shown, tries again after each pause. Does not return.
    async fn show(
        self,
        kind: Kind,
        mut closed: Option<cluster::Error>,
        pause: Duration,
        client: Client,
        known: Arc<Known>,
    ) {
        let feed = self.feed(kind);
        while let Some(error) = closed.take() {
            known.change(|fleet| fleet.close(feed.clone(), error.to_string()));
            sleep(pause).await;
            closed = self::closed(kind, &client, self.scope()).await.unwrap_or(Some(error));
        }
        let seen = match kind {
            Kind::Deployment => self.watch::<FlinkDeployment>(&client),
            Kind::SessionJob => self.watch::<FlinkSessionJob>(&client),
            Kind::BlueGreen => self.watch::<FlinkBlueGreenDeployment>(&client),
        };
        follow(feed, seen, client, known).await;
    }

    /// Returns how the fleet identifies the watch of a kind.
    fn feed(&self, kind: Kind) -> Feed {
        Feed { kind, namespace: self.namespace.as_deref().map(Into::into) }
    }

    /// Returns how the fleet identifies the watches of all kinds.
    pub(super) fn feeds(&self) -> impl Iterator<Item = Feed> {
        Kind::iter().map(|kind| self.feed(kind))
    }

    fn watch<K>(&self, client: &Client) -> BoxStream<'static, cluster::Result<Seen>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + 'static,
    {
        read::watch_values::<K>(client, self.scope(), self.selector.as_deref()).boxed()
    }
}

/// Applies the events of a watch to the fleet. The watch retries by itself, so this does not return.
async fn follow(
    feed: Feed,
    mut watch: BoxStream<'static, cluster::Result<Seen>>,
    client: Client,
    known: Arc<Known>,
) {
    let kind = feed.kind;
    let feed = || feed.clone();
    let mut contact = Contact::default();
    loop {
        let seen = tokio::select! {
            seen = watch.next() => seen,
            () = contact.regained(&client) => {
                contact.regain();
                known.change(|fleet| fleet.regain(feed()));
                continue;
            }
        };
        let Some(seen) = seen else { return };
        if seen.is_ok() && contact.regain() {
            known.change(|fleet| fleet.regain(feed()));
        }
        match seen {
            Ok(Seen::Restart) => known.change(|fleet| fleet.begin(feed())),
            Ok(Seen::Complete) => known.change(|fleet| fleet.complete(feed())),
            Ok(Seen::Present(value)) => {
                let (key, row) = row(kind, &Deployment(value));
                known.change(|fleet| fleet.put(key, row));
            }
            Ok(Seen::Gone(value)) => {
                let (key, _) = row(kind, &Deployment(value));
                known.change(|fleet| fleet.remove(&key));
            }
            Err(error) => {
                contact.lose(&error);
                let since = table::clock(Timestamp::now());
                known.change(|fleet| fleet.lose(feed(), since, error.to_string()));
            }
        }
    }
}

/// Returns what a row shows of an object, as the commands read it.
pub(super) fn row(kind: Kind, object: &Deployment) -> (Key, Row) {
    let text = |text: Option<&str>| text.map(Into::into);
    let key = Key { namespace: object.namespace().into(), name: object.name().into(), kind };
    let labels = object.labels().map(|(name, value)| format!("{name}={value}"));
    let row = Row {
        lifecycle: text(object.lifecycle()),
        job_state: text(object.job_state()),
        version: text(object.flink_version()),
        image: text(object.image()),
        parallelism: object.parallelism(),
        snapshot_at: object.snapshot_at().map(Timestamp::as_second),
        upgrade: text(object.upgrade()),
        error: object.error().map(|error| secret::hide_in(&error).into()),
        created_at: object.created_at().map(Timestamp::as_second),
        is_session: object.is_session(),
        is_paused: object.is_paused_by_itself(),
        is_being_deleted: object.is_being_deleted(),
        figures: None,
        labels: labels.collect::<Vec<_>>().join("\n").into(),
    };
    (key, row)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use console::fleet::Source;
    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_kind_that_is_installed_later_is_shown() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|it| it.contains("watch="));
            let is_installed = counted.fetch_add(1, Ordering::Relaxed) > 1;
            let list = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkSessionJobList",
                "metadata": {"resourceVersion": "1"}, "items": []});
            let missing = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "reason": "NotFound", "message": "the server could not find the requested resource", "code": 404});
            let (status, answer) = if is_installed {
                (StatusCode::OK, list)
            } else {
                (StatusCode::NOT_FOUND, missing)
            };
            async move {
                if is_watch {
                    std::future::pending::<()>().await;
                }
                let body = Body::from(answer.to_string().into_bytes());
                Response::builder().status(status).body(body)
            }
        });
        let client = Client::new(service, "default");
        let what = What { namespace: None, selector: None };
        let known = Arc::new(Known::default());
        let missing = closed(Kind::SessionJob, &client, what.scope()).await.unwrap();
        assert!(matches!(missing, Some(cluster::Error::KindMissing { .. })), "{missing:?}");
        let mut changes = known.changes();
        let shown =
            what.show(Kind::SessionJob, missing, Duration::ZERO, client, Arc::clone(&known));
        let is_current = async {
            let source = || {
                let fleet = known.fleet();
                let of_kind = fleet.sources().find(|(kind, _)| *kind == Kind::SessionJob);
                of_kind.map(|(_, source)| source.clone())
            };
            changes.changed().await.unwrap();
            assert!(matches!(source(), Some(Source::Closed { .. })));
            while source() != Some(Source::Current) {
                changes.changed().await.unwrap();
            }
        };
        tokio::select! {
            () = shown => panic!("a watch does not end"),
            () = is_current => {}
        }
        assert!(asked.load(Ordering::Relaxed) > 2, "it was asked for again");
    }

    #[test]
    fn a_row_shows_what_the_commands_read() {
        let object = Deployment(json!({
            "kind": "FlinkDeployment",
            "metadata": {"name": "orders", "namespace": "shop", "creationTimestamp": "1970-01-01T00:01:00Z",
                "labels": {"team": "a", "stage": "test"}},
            "spec": {"image": "flink:1.20", "flinkVersion": "v1_20", "job": {"parallelism": 4}},
            "status": {"lifecycleState": "UPGRADING", "error": "{\"message\": \"no s3.secret-key: hush\"}",
                "jobStatus": {"state": "RUNNING",
                    "savepointInfo": {"lastSavepoint": {"timeStamp": 5000}},
                    "checkpointInfo": {"lastCheckpoint": {"timeStamp": 7000}}}},
        }));
        let (key, row) = row(Kind::Deployment, &object);
        assert_eq!((&*key.namespace, &*key.name), ("shop", "orders"));
        let expected = Row {
            lifecycle: Some("UPGRADING".into()),
            job_state: Some("RUNNING".into()),
            version: Some("v1_20".into()),
            image: Some("flink:1.20".into()),
            parallelism: Some(4),
            snapshot_at: Some(7),
            upgrade: Some("restarting".into()),
            error: Some("no s3.secret-key: ******".into()),
            created_at: Some(60),
            labels: "stage=test\nteam=a".into(),
            ..Row::default()
        };
        assert_eq!(row, expected);
    }
}
