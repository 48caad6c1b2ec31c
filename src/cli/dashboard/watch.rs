//! What the console knows: a watch for each kind, of which only rows are kept.
//!
//! A lost connection ends none of them: see [`Contact`].

use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::answers::Console;
use crate::cli::connection::Connection;
use crate::cli::contact::Contact;
use crate::cli::deployment::Deployment;
use crate::cli::table;
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use clients::cluster;
use clients::cluster::read::{self, Scope, Seen};
use config::secret;
use console::row::{Key, Kind, Row};

/// Each kind, and why it cannot be shown where it cannot.
pub(super) type Kinds = [(Kind, Option<cluster::Error>); 3];

/// Asks for one object of each kind.
///
/// # Errors
/// When deployments may not be listed, and when the API server does not answer.
pub(super) async fn kinds(connection: &Connection, scope: Scope<'_>) -> cluster::Result<Kinds> {
    let (deployments, session_jobs, blue_greens) = tokio::join!(
        ask::<FlinkDeployment>(connection, scope),
        ask::<FlinkSessionJob>(connection, scope),
        ask::<FlinkBlueGreenDeployment>(connection, scope),
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

async fn ask<K>(connection: &Connection, scope: Scope<'_>) -> cluster::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let one = ListParams::default().limit(1);
    scope.api::<K>(&connection.client).list_metadata(&one).await?;
    Ok(())
}

/// Begins to watch what can be shown, and says what cannot.
pub(super) fn start(
    kinds: Kinds,
    client: &Client,
    scope: Scope<'_>,
    console: &Arc<Console>,
    watches: &mut JoinSet<()>,
) {
    for (kind, closed) in kinds {
        if let Some(error) = closed {
            console.change(|fleet| fleet.close(kind, error.to_string()));
            continue;
        }
        let (client, console) = (client.clone(), Arc::clone(console));
        let seen = match kind {
            Kind::Deployment => read::watch_values::<FlinkDeployment>(&client, scope, None).boxed(),
            Kind::SessionJob => read::watch_values::<FlinkSessionJob>(&client, scope, None).boxed(),
            Kind::BlueGreen => {
                read::watch_values::<FlinkBlueGreenDeployment>(&client, scope, None).boxed()
            }
        };
        watches.spawn(follow(kind, seen, client, console));
    }
}

/// Takes in what a watch tells; it tries again by itself, so this does not end.
async fn follow(
    kind: Kind,
    mut watch: impl futures::Stream<Item = cluster::Result<Seen>> + Unpin,
    client: Client,
    console: Arc<Console>,
) {
    let mut contact = Contact::default();
    loop {
        let seen = tokio::select! {
            seen = watch.next() => seen,
            () = contact.regained(&client) => {
                contact.regain();
                console.change(|fleet| fleet.regain(kind));
                continue;
            }
        };
        let Some(seen) = seen else { return };
        if seen.is_ok() && contact.regain() {
            console.change(|fleet| fleet.regain(kind));
        }
        match seen {
            Ok(Seen::Restart) => console.change(|fleet| fleet.begin(kind)),
            Ok(Seen::Complete) => console.change(|fleet| fleet.complete(kind)),
            Ok(Seen::Present(value)) => {
                let (key, row) = row(kind, &Deployment(value));
                console.change(|fleet| fleet.put(key, row));
            }
            Ok(Seen::Gone(value)) => {
                let (key, _) = row(kind, &Deployment(value));
                console.change(|fleet| fleet.remove(&key));
            }
            Err(error) => {
                contact.lose(&error);
                let since = table::clock(Timestamp::now());
                console.change(|fleet| fleet.lose(kind, since, error.to_string()));
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
            upgrade: Some("stops and starts".into()),
            error: Some("no s3.secret-key: ******".into()),
            created_at: Some(60),
            labels: "stage=test\nteam=a".into(),
            ..Row::default()
        };
        assert_eq!(row, expected);
    }
}
