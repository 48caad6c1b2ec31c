//! Finds the stored objects that a user names.

use super::connection::Connection;
use super::deployment::{BLUE_GREEN, Deployment, PARENT, SESSION_JOB, blue_green_name};
use super::failure::Failure;
use api::blue_green::{BlueGreenState, BlueGreenStatus, Colour, FlinkBlueGreenDeployment};
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::FlinkStateSnapshot;
use clients::cluster;
use clients::cluster::apply::ObjectId;
use clients::cluster::read::{self, Scope};
use serde_json::json;

/// Maximum number of names shown in a hint.
const NAMES_SHOWN: usize = 8;
/// Type prefixes of a snapshot's name.
const SNAPSHOT: [&str; 4] = ["snapshot", "flinksnp", "flinkstatesnapshot", "flinkstatesnapshots"];
/// Minimum similarity of a name to a suggested one. Two swapped letters out of eight give 0.97.
const LIKENESS_MIN: f64 = 0.85;

/// Returns the identity of a deployment in the connection's namespace.
pub fn id(connection: &Connection, name: &str) -> ObjectId {
    ObjectId::of::<FlinkDeployment>(&connection.namespace, name)
}

/// Kinds that a name on the command line may refer to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Meant {
    Deployment,
    SessionJob,
    /// Refers to the serving colour.
    BlueGreen,
    Either,
}

/// Parses `orders`, `sessionjob/orders`, `flinkdeployment/orders` or `bluegreen/orders`, and kubectl's other spellings.
fn meaning(name: &str) -> (Meant, &str) {
    let Some((kind, rest)) = name.split_once('/') else { return (Meant::Either, name) };
    let kind = kind.strip_suffix(".flink.apache.org").unwrap_or(kind).to_lowercase();
    match kind.as_str() {
        "sessionjob" | "flinksessionjob" | "flinksessionjobs" => (Meant::SessionJob, rest),
        "flinkdep" | "flinkdeployment" | "flinkdeployments" => (Meant::Deployment, rest),
        BLUE_GREEN | "flinkbgdep" | "flinkbluegreendeployment" | "flinkbluegreendeployments" => {
            (Meant::BlueGreen, rest)
        }
        // No object has such a name, so the lookup reports that it does not exist.
        _ => (Meant::Either, name),
    }
}

/// Returns the name without its optional kind prefix.
pub fn plain(name: &str) -> &str {
    meaning(name).1
}

/// Reads the deployment or session job; for a blue/green deployment, the serving colour. If it is missing, the error
/// suggests existing names.
pub async fn fetch(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let (meant, plain) = meaning(name);
    if meant == Meant::BlueGreen {
        let resource = fetch_blue_green(connection, plain).await?;
        let found = serving(connection, &resource).await?;
        return found.ok_or_else(|| no_colour(plain, &connection.namespace).into());
    }
    let deployment = async {
        match meant {
            Meant::SessionJob | Meant::BlueGreen => Ok(None),
            Meant::Deployment | Meant::Either => {
                read::get_value(&connection.client, &id(connection, plain)).await
            }
        }
    };
    let session_job = async {
        let id = ObjectId::of::<FlinkSessionJob>(&connection.namespace, plain);
        match (meant, read::get_value(&connection.client, &id)) {
            (Meant::Deployment | Meant::BlueGreen, _) => Ok(None),
            (Meant::SessionJob, found) => found.await,
            (Meant::Either, found) => match found.await {
                // A kind that is not installed or not readable cannot be meant.
                Err(cluster::Error::KindMissing { .. } | cluster::Error::Forbidden { .. }) => {
                    Ok(None)
                }
                other => other,
            },
        }
    };
    let (deployment, session_job) = tokio::join!(deployment, session_job);
    match (deployment?, session_job?) {
        (Some(_), Some(_)) => Err(Failure::usage(format!(
            "`{plain}` is both a FlinkDeployment and a FlinkSessionJob: use flinkdeployment/{plain} or \
             {SESSION_JOB}/{plain}"
        ))
        .into()),
        (Some(value), None) | (None, Some(value)) => Ok(Deployment(value)),
        (None, None) => Err(not_found(connection, name).await.into()),
    }
}

/// Returns the blue/green deployment that the name refers to; `None` for other kinds.
pub async fn find_blue_green(
    connection: &Connection,
    name: &str,
) -> anyhow::Result<Option<Deployment>> {
    match meaning(name) {
        (Meant::BlueGreen, plain) => fetch_blue_green(connection, plain).await.map(Some),
        (Meant::Deployment | Meant::SessionJob | Meant::Either, _) => Ok(None),
    }
}

/// Like [`fetch`], but returns a blue/green deployment itself.
pub async fn fetch_itself(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    match find_blue_green(connection, name).await? {
        Some(resource) => Ok(resource),
        None => fetch(connection, name).await,
    }
}

/// Like [`fetch_itself`], also for `snapshot/NAME`.
pub async fn fetch_of_any_kind(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let (kind, plain) = name.split_once('/').unwrap_or_default();
    let kind = kind.strip_suffix(".flink.apache.org").unwrap_or(kind).to_lowercase();
    if !SNAPSHOT.contains(&&*kind) {
        return fetch_itself(connection, name).await;
    }
    let namespace = &connection.namespace;
    let id = ObjectId::of::<FlinkStateSnapshot>(namespace, plain);
    let found = read::get_value(&connection.client, &id).await?;
    found.map(Deployment).ok_or_else(|| {
        Failure::new(format!("no FlinkStateSnapshot `{plain}` in namespace `{namespace}`")).into()
    })
}

/// Returns the existing colours: the serving one first, one that is being deleted last. A deployment that only has the
/// name of a colour is left out.
pub async fn colours(
    connection: &Connection,
    resource: &Deployment,
) -> anyhow::Result<Vec<Deployment>> {
    let (client, name) = (&connection.client, resource.name());
    let status = resource.0.get("status").cloned().unwrap_or_default();
    let status: BlueGreenStatus = serde_json::from_value(status).unwrap_or_default();
    let state = status.blue_green_state.unwrap_or(BlueGreenState::InitializingBlue);
    let serving = if status.is_decided() { state.serving().other() } else { state.serving() };
    let read = async |colour: Colour| {
        read::get_value(client, &id(connection, &colour.child_of(name))).await
    };
    let (first, second) = tokio::try_join!(read(serving), read(serving.other()))?;
    let found = [first, second].into_iter().flatten().map(Deployment);
    let is_child = |it: &Deployment| {
        it.owner_uids().into_iter().skip(1).any(|uid| Some(uid) == resource.uid())
    };
    let mut colours: Vec<_> = found.filter(is_child).collect();
    colours.sort_by_key(Deployment::is_being_deleted);
    Ok(colours)
}

/// Returns the object, followed by its colours if it is a blue/green deployment.
pub async fn with_colours(
    connection: &Connection,
    stored: &Deployment,
) -> anyhow::Result<Vec<Deployment>> {
    let mut all = vec![stored.clone()];
    if stored.is_blue_green() {
        all.extend(colours(connection, stored).await?);
    }
    Ok(all)
}

/// Returns the object itself; for a blue/green deployment the serving colour, or the other one if that does not exist.
pub async fn serving(
    connection: &Connection,
    resource: &Deployment,
) -> anyhow::Result<Option<Deployment>> {
    if !resource.is_blue_green() {
        return Ok(Some(resource.clone()));
    }
    Ok(colours(connection, resource).await?.into_iter().next())
}

fn no_colour(name: &str, namespace: &str) -> Failure {
    Failure::new(format!("the blue/green deployment `{name}` has no FlinkDeployment yet")).hint(
        format!("see what it waits for: kubectl get flinkbgdep {name} -n {namespace} -o yaml"),
    )
}

/// Reads a blue/green deployment itself.
pub async fn fetch_blue_green(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let namespace = &connection.namespace;
    let id = ObjectId::of::<FlinkBlueGreenDeployment>(namespace, name);
    let found = read::get_value(&connection.client, &id).await?;
    found.map(Deployment).ok_or_else(|| {
        Failure::new(format!("no FlinkBlueGreenDeployment `{name}` in namespace `{namespace}`"))
            .hint(format!("list them: kubectl get flinkbgdep -n {namespace}"))
            .into()
    })
}

/// Like [`fetch`], for an object that the user is about to change. For a blue/green deployment it returns the serving
/// colour with the template's spec. Refuses a colour by itself, because its blue/green deployment manages it.
pub async fn fetch_to_change(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let (Meant::BlueGreen, plain) = meaning(name) else {
        let present = fetch(connection, name).await?;
        refuse_colour(&present)?;
        return Ok(present);
    };
    let resource = fetch_blue_green(connection, plain).await?;
    let colour = serving(connection, &resource).await?.unwrap_or_else(|| {
        let name = Colour::Blue.child_of(plain);
        Deployment(json!({"metadata": {"name": name, "namespace": resource.namespace()}}))
    });
    Ok(shown_as(colour, resource))
}

fn shown_as(colour: Deployment, resource: Deployment) -> Deployment {
    let Deployment(mut it) = colour;
    it["spec"] = resource.0.pointer("/spec/template/spec").cloned().unwrap_or_default();
    it[PARENT] = resource.0;
    Deployment(it)
}

/// Refuses a colour of a blue/green deployment.
pub fn refuse_colour(present: &Deployment) -> Result<(), Failure> {
    let Some(parent) = present.blue_green_parent() else { return Ok(()) };
    let (name, namespace) = (present.name(), present.namespace());
    Err(Failure::new(format!(
        "`{name}` cannot be changed directly: it is a colour of the blue/green deployment `{parent}`"
    ))
    .hint(format!("change its spec.template: kubectl edit flinkbgdep {parent} -n {namespace}"))
    .hint(format!("or pass {BLUE_GREEN}/{parent} to commands that change or delete")))
}

/// Like [`cluster_of`], for a row of a list, which lacks the options that determine where the JobManager listens.
pub async fn cluster_of_row(
    connection: &Connection,
    row: &Deployment,
) -> anyhow::Result<Deployment> {
    let mut home = connection.clone();
    home.namespace = row.namespace().to_owned();
    let deployment = || format!("flinkdeployment/{}", row.name());
    let name = if row.is_session_job() { row.shown_name() } else { deployment() };
    let whole = fetch(&home, &name).await?;
    cluster_of(&home, &whole).await
}

/// Returns the deployment whose JobManager runs the job: itself, or the cluster of a session job.
pub async fn cluster_of(
    connection: &Connection,
    deployment: &Deployment,
) -> anyhow::Result<Deployment> {
    let Some(cluster) = deployment.session_cluster() else { return Ok(deployment.clone()) };
    let id = ObjectId::of::<FlinkDeployment>(deployment.namespace(), &cluster);
    match read::get_value(&connection.client, &id).await? {
        Some(value) => Ok(Deployment(value)),
        None => Err(Failure::new(format!(
            "the session cluster `{cluster}` of `{}` does not exist",
            deployment.name()
        ))
        .into()),
    }
}

/// Returns the session jobs of the cluster; none if the kind is not installed.
///
/// # Errors
/// If they cannot be read, which does not mean that there are none.
pub async fn session_jobs_of(
    connection: &Connection,
    cluster: &str,
) -> cluster::Result<Vec<Deployment>> {
    let scope = Scope::Namespace(&connection.namespace);
    let listed = read::list_values::<FlinkSessionJob>(&connection.client, scope, None).await;
    let all = read::or_none::<FlinkSessionJob, _>(&connection.client, listed).await?;
    let jobs = all.into_iter().map(Deployment);
    Ok(jobs.filter(|job| job.session_cluster().as_deref() == Some(cluster)).collect())
}

/// Returns an error that suggests similar names, the same name in another namespace, or all names in this one.
pub async fn not_found(connection: &Connection, name: &str) -> Failure {
    let (client, namespace) = (&connection.client, &connection.namespace);
    let (kind, plain) = match meaning(name) {
        (Meant::SessionJob, name) => ("FlinkSessionJob", name),
        (Meant::Deployment | Meant::BlueGreen | Meant::Either, name) => ("FlinkDeployment", name),
    };
    let failure = Failure::new(format!("no {kind} `{plain}` in namespace `{namespace}`"));
    let scope = Scope::Namespace(namespace);
    // The hint is optional; without the right to list there is none.
    let (deployments, jobs, parents, elsewhere) = tokio::join!(
        read::names::<FlinkDeployment>(client, scope),
        read::names::<FlinkSessionJob>(client, scope),
        read::names::<FlinkBlueGreenDeployment>(client, scope),
        read::namespaces_with::<FlinkDeployment>(client, plain),
    );
    let Ok(mut names) = deployments else { return failure };
    // Parents come before their children, whose names start with the parent's.
    names.splice(..0, parents.unwrap_or_default().iter().map(|name| blue_green_name(name)));
    names.extend(jobs.unwrap_or_default().into_iter().map(|job| format!("{SESSION_JOB}/{job}")));
    if let Some(other) = elsewhere.unwrap_or_default().first() {
        return failure.hint(format!("namespace `{other}` has one: add -n {other}"));
    }
    if names.is_empty() {
        return failure
            .hint("the namespace has none; search all namespaces: kubectl flink list -A");
    }
    let near = near(plain, &names);
    let (lead, shown) = match near.as_slice() {
        [] => ("the namespace has", names.iter().map(String::as_str).collect::<Vec<_>>()),
        _ => ("did you mean", near),
    };
    let more = if shown.len() > NAMES_SHOWN { ", …" } else { "" };
    let mark = if lead == "did you mean" { "?" } else { "" };
    let shown = shown.iter().take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>();
    failure.hint(format!("{lead} {}{more}{mark}", shown.join(", ")))
}

/// Returns names that the missing one may refer to: those that it is a prefix of, else similar ones, best match first.
fn near<'a>(name: &str, names: &'a [String]) -> Vec<&'a str> {
    let plain = |name: &'a String| name.rsplit('/').next().unwrap_or(name);
    let begun = names.iter().filter(|other| !name.is_empty() && plain(other).starts_with(name));
    let begun = begun.map(String::as_str).collect::<Vec<_>>();
    if !begun.is_empty() {
        return begun;
    }
    let alike = |other: &'a String| (strsim::jaro_winkler(name, plain(other)), other.as_str());
    let mut alike = names.iter().map(alike).collect::<Vec<_>>();
    alike.retain(|(likeness, _)| *likeness > LIKENESS_MIN);
    alike.sort_by(|one, other| other.0.total_cmp(&one.0));
    alike.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_say_its_kind() {
        assert_eq!(meaning("orders"), (Meant::Either, "orders"));
        assert_eq!(meaning("sessionjob/orders"), (Meant::SessionJob, "orders"));
        assert_eq!(meaning("flinksessionjob.flink.apache.org/a"), (Meant::SessionJob, "a"));
        assert_eq!(meaning("flinkdeployment.flink.apache.org/a"), (Meant::Deployment, "a"));
        assert_eq!(meaning("pod/a"), (Meant::Either, "pod/a"));
    }

    #[test]
    fn near_names_are_found() {
        let names = ["orders-eu", "orders-us", "sessionjob/clicks", "wordcount"].map(str::to_owned);
        assert_eq!(near("orders", &names), ["orders-eu", "orders-us"]);
        assert_eq!(near("wordcoutn", &names), ["wordcount"]);
        assert_eq!(near("click", &names), ["sessionjob/clicks"]);
        assert_eq!(near("clcks", &names), ["sessionjob/clicks"]);
        assert_eq!(near("unlike", &names), <[&str; 0]>::default());
        assert_eq!(near("", &names), <[&str; 0]>::default());
    }
}
