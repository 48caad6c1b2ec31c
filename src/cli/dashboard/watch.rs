//! What the console knows: a watch for each kind, of which only rows are kept.
//!
//! A lost connection ends none of them: see [`Contact`].

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use strum::IntoEnumIterator;
use tokio::task::JoinSet;

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

/// Each kind, and why it cannot be shown where it cannot.
pub(super) type Kinds = [(Kind, Option<cluster::Error>); 3];

/// Asks for one object of each kind.
///
/// # Errors
/// When deployments may not be listed, and when the API server does not answer.
pub(super) async fn kinds(client: &Client, scope: Scope<'_>) -> cluster::Result<Kinds> {
    let (deployments, session_jobs, blue_greens) = tokio::join!(
        ask::<FlinkDeployment>(client, scope),
        ask::<FlinkSessionJob>(client, scope),
        ask::<FlinkBlueGreenDeployment>(client, scope),
    );
    deployments?;
    let closed = |asked: cluster::Result<()>| match asked {
        Ok(()) => Ok(None),
        Err(error @ (cluster::Error::KindMissing { .. } | cluster::Error::Forbidden { .. })) => {
            Ok(Some(error))
        }
        Err(error) => Err(error),
    };
    Ok([
        (Kind::Deployment, None),
        (Kind::SessionJob, closed(session_jobs)?),
        (Kind::BlueGreen, closed(blue_greens)?),
    ])
}

async fn ask<K>(client: &Client, scope: Scope<'_>) -> cluster::Result<()>
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

/// What is watched: a scope, and labels where they are asked for.
#[derive(Clone, Copy)]
pub(super) struct What<'a> {
    pub(super) scope: Scope<'a>,
    pub(super) selector: Option<&'a str>,
}

impl What<'_> {
    /// Begins to watch what can be shown, and says what cannot.
    pub(super) fn start(
        self,
        kinds: Kinds,
        client: &Client,
        known: &Arc<Known>,
        watches: &mut JoinSet<()>,
    ) {
        for (kind, closed) in kinds {
            let feed = self.feed(kind);
            if let Some(error) = closed {
                known.change(|fleet| fleet.close(feed, error.to_string()));
                continue;
            }
            let seen = match kind {
                Kind::Deployment => self.watch::<FlinkDeployment>(client),
                Kind::SessionJob => self.watch::<FlinkSessionJob>(client),
                Kind::BlueGreen => self.watch::<FlinkBlueGreenDeployment>(client),
            };
            watches.spawn(follow(feed, seen, client.clone(), Arc::clone(known)));
        }
    }

    /// The watch of a kind, to the fleet.
    pub(super) fn feed(self, kind: Kind) -> Feed {
        match self.scope {
            Scope::AllNamespaces => Feed::from(kind),
            Scope::Namespace(namespace) => Feed { kind, namespace: Some(namespace.into()) },
        }
    }

    /// All watches of it, to the fleet.
    pub(super) fn feeds(self) -> impl Iterator<Item = Feed> {
        Kind::iter().map(move |kind| self.feed(kind))
    }

    fn watch<K>(self, client: &Client) -> BoxStream<'static, cluster::Result<Seen>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + 'static,
    {
        read::watch_values::<K>(client, self.scope, self.selector).boxed()
    }
}

/// Takes in what a watch tells; it tries again by itself, so this does not end.
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

/// What a row shows of an object, as the commands read it.
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
        is_being_deleted: object.is_being_deleted(),
        figures: None,
        labels: labels.collect::<Vec<_>>().join("\n").into(),
    };
    (key, row)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
