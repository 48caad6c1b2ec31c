//! Finds the operators of a cluster: their Deployments and the leaders' Leases.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Container;
use kube::Client;

use clients::cluster::lease::OPERATES;
use clients::cluster::read::{self, Scope};
use clients::cluster::{self, Error};

/// Selects installed operators: ours, and those of the Java operator's chart.
const SELECTOR: &str =
    "app.kubernetes.io/name in (kubectl-flink-operator,flink-kubernetes-operator)";
/// Seconds after which a leader that has not renewed its Lease is no longer considered leading.
const STALE_SECONDS: i64 = 60;

/// One installed operator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Installed {
    /// `namespace/name` of its Deployment.
    pub(super) name: String,
    pub(super) ready: i32,
    pub(super) wanted: i32,
    /// From its label, else its image's tag.
    pub(super) version: Option<String>,
    /// True for this program, false for the Java operator.
    pub(super) is_ours: bool,
}

/// A Lease of an operator's leader election.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Leading {
    /// `namespace/name` of the Lease.
    pub(super) lease: String,
    /// Empty if there is no leader.
    pub(super) holder: String,
    /// Seconds since the last renewal.
    pub(super) age_seconds: Option<i64>,
}

impl Leading {
    /// Returns true if an operator currently holds the Lease.
    pub(super) fn is_held(&self) -> bool {
        !self.holder.is_empty() && self.age_seconds.is_some_and(|age| age <= STALE_SECONDS)
    }
}

/// Returns the operators installed as pods, in all namespaces.
pub(super) async fn installed(client: &Client) -> cluster::Result<Vec<Installed>> {
    let all = read::list::<Deployment>(client, Scope::AllNamespaces, Some(SELECTOR)).await?;
    Ok(all.into_iter().map(of_deployment).collect())
}

fn of_deployment(deployment: Deployment) -> Installed {
    let Deployment { metadata, spec, status } = deployment;
    let (namespace, name) = (metadata.namespace.unwrap_or_default(), metadata.name);
    let labels = metadata.labels.unwrap_or_default();
    let containers = spec.template.spec.map(|pod| pod.containers).unwrap_or_default();
    let is_ours = operates(&containers).is_some();
    let tag = containers.first().and_then(|first| tag(first.image.as_deref()?));
    let label = labels.get("app.kubernetes.io/version").filter(|version| !version.is_empty());
    Installed {
        name: format!("{namespace}/{}", name.unwrap_or_default()),
        ready: status.and_then(|status| status.ready_replicas).unwrap_or_default(),
        wanted: spec.replicas.unwrap_or(1),
        version: label.cloned().or(tag),
        is_ours,
    }
}

/// Returns the container that runs this program. Its name and its pod's labels depend on the installation, so it is
/// recognized by its arguments.
pub(super) fn operates(containers: &[Container]) -> Option<&Container> {
    let first = |it: &&Container| it.args.as_ref().and_then(|args| args.first()).cloned();
    containers.iter().find(|it| first(it).is_some_and(|arg| arg == "operate"))
}

/// Returns the tag of an image: `1.2.3` for `registry:5000/name:1.2.3@sha256:…`.
fn tag(image: &str) -> Option<String> {
    let image = image.split('@').next().unwrap_or(image);
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').map(|(_, tag)| tag.to_owned())
}

/// Returns the Leases of our operators, in all namespaces.
pub(super) async fn leading(client: &Client, now: Timestamp) -> cluster::Result<Vec<Leading>> {
    let all = read::list::<Lease>(client, Scope::AllNamespaces, None).await?;
    let ours = all.into_iter().filter(|lease| {
        let annotations = lease.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key(OPERATES))
    });
    Ok(ours.map(|lease| of_lease(lease, now)).collect())
}

fn of_lease(lease: Lease, now: Timestamp) -> Leading {
    let Lease { metadata, spec } = lease;
    let (namespace, name) = (metadata.namespace.unwrap_or_default(), metadata.name);
    let renewed = spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|at| at.0);
    Leading {
        lease: format!("{namespace}/{}", name.unwrap_or_default()),
        holder: spec.and_then(|spec| spec.holder_identity).unwrap_or_default(),
        age_seconds: renewed.map(|at| now.as_second() - at.as_second()),
    }
}

/// State of the operators as far as the user's rights show it. An operator that runs in a terminal without a Lease is
/// not detected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum State {
    /// Why the state is unknown.
    Unknown(String),
    Alive,
    /// Why there is no operator.
    Gone(String),
}

/// Looks for an operator in the whole cluster.
pub(super) async fn state(client: &Client) -> State {
    let now = Timestamp::now();
    let (installed, leading) = tokio::join!(installed(client), leading(client, now));
    judge(installed, leading)
}

fn judge(installed: Result<Vec<Installed>, Error>, leading: Result<Vec<Leading>, Error>) -> State {
    let held = leading.as_ref().is_ok_and(|leading| leading.iter().any(Leading::is_held));
    let ready = installed.as_ref().is_ok_and(|all| all.iter().any(|one| one.ready > 0));
    if held || ready {
        return State::Alive;
    }
    match (installed, leading) {
        (Ok(installed), _) if !installed.is_empty() => {
            let names = installed.iter().map(|one| {
                format!("Deployment `{}` has {} of {} pods ready", one.name, one.ready, one.wanted)
            });
            State::Gone(names.collect::<Vec<_>>().join(", "))
        }
        (Ok(_), Ok(leading)) => match leading.first() {
            Some(Leading { lease, age_seconds: Some(age), .. }) => {
                State::Gone(format!("the Lease `{lease}` was last renewed {age} s ago"))
            }
            Some(_) | None => {
                State::Gone("there is no operator Deployment in the cluster".to_owned())
            }
        },
        (Err(error), _) | (_, Err(error)) => State::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(ready: i32) -> Installed {
        let name = "flink-operator/operator".to_owned();
        Installed { name, ready, wanted: 1, version: None, is_ours: true }
    }

    fn leading(holder: &str, age: i64) -> Leading {
        let lease = "flink-operator/operator".to_owned();
        Leading { lease, holder: holder.to_owned(), age_seconds: Some(age) }
    }

    fn forbidden<T>() -> Result<T, Error> {
        Err(Error::Forbidden {
            user: "u".to_owned(),
            verb: "list".to_owned(),
            resource: "leases".to_owned(),
            namespace: None,
        })
    }

    #[test]
    fn an_operator_is_alive_by_its_pods_or_its_lease() {
        assert_eq!(judge(Ok(vec![installed(1)]), forbidden()), State::Alive);
        assert_eq!(judge(forbidden(), Ok(vec![leading("pod", 5)])), State::Alive);
    }

    #[test]
    fn versions_come_from_labels_and_else_from_images() {
        assert_eq!(tag("localhost:5000/kubectl-flink:1.2.3@sha256:ab").as_deref(), Some("1.2.3"));
        assert_eq!(tag("localhost:5000/kubectl-flink"), None);
        let of = |labels: serde_json::Value, argument: &str| {
            let deployment = serde_json::json!({"metadata": {"name": "o", "namespace": "n", "labels": labels},
                "spec": {"selector": {}, "template": {"spec": {"containers": [
                    {"name": "o", "image": "o:7", "args": [argument]}]}}}});
            let found = of_deployment(serde_json::from_value(deployment).unwrap());
            (found.version, found.is_ours)
        };
        let java = serde_json::json!({"app.kubernetes.io/name": "flink-kubernetes-operator",
            "app.kubernetes.io/version": "1.14.0"});
        assert_eq!(of(java, "operator"), (Some("1.14.0".to_owned()), false));
        let renamed = serde_json::json!({"app.kubernetes.io/name": "flink-kubernetes-operator"});
        assert_eq!(of(renamed, "operate"), (Some("7".to_owned()), true));
    }

    #[test]
    fn an_operator_is_gone_only_where_that_was_seen() {
        let gone = |why: &str| State::Gone(why.to_owned());
        assert_eq!(
            judge(Ok(vec![installed(0)]), forbidden()),
            gone("Deployment `flink-operator/operator` has 0 of 1 pods ready")
        );
        assert_eq!(
            judge(Ok(vec![]), Ok(vec![leading("pod", 300)])),
            gone("the Lease `flink-operator/operator` was last renewed 300 s ago")
        );
        assert_eq!(
            judge(Ok(vec![]), Ok(vec![])),
            gone("there is no operator Deployment in the cluster")
        );
        assert!(
            matches!(judge(forbidden(), Ok(vec![])), State::Unknown(why) if why.contains("leases"))
        );
    }
}
