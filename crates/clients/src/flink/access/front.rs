//! The Service in front of a JobManager: whether it leads there, and to which address.

use std::{fmt, net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, ListParams};
use tokio::sync::OnceCell;

use super::{Target, direct::innermost};
use crate::flink::{client::Call, error::Error};

/// Maximum number of JobManager pods that are looked at; a cluster has one, or a few standby ones.
const PODS_MAX: u32 = 20;

/// The Service of one cluster, which anybody who may write Services in the namespace can change: it may lead to the
/// JobManager of somebody else, who does not admit the writer but the operator. It is checked once, so a client is for
/// one pass.
pub(super) struct Front {
    kubernetes: kube::Client,
    namespace: String,
    name: String,
    cluster_id: String,
    checked: OnceCell<Lead>,
}

/// Where a Service leads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lead {
    /// To pods of its namespace, from an address that no other Service has.
    Address(IpAddr),
    /// Its name stands for the addresses of the pods.
    Pods,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Front {
    pub(super) fn new(kubernetes: kube::Client, target: &Target) -> Self {
        Self {
            kubernetes,
            namespace: target.namespace.clone(),
            name: target.service(),
            cluster_id: target.cluster_id.clone(),
            checked: OnceCell::new(),
        }
    }

    /// Returns if the Service leads to JobManagers of its cluster.
    pub(super) async fn check(&self, call: &Call, within: Duration) -> Result<(), Error> {
        call.in_time(within, || false, self.lead(call)).await.map(drop)
    }

    /// Returns the address behind the checked Service. Its name may still stand for what it led to before: in the
    /// caches of name servers, and for open connections.
    pub(super) async fn address(&self, call: &Call, within: Duration) -> Result<IpAddr, Error> {
        let address = async {
            match self.lead(call).await? {
                Lead::Address(address) => Ok(address),
                Lead::Pods => self.pod(call).await,
            }
        };
        call.in_time(within, || false, address).await
    }

    async fn lead(&self, call: &Call) -> Result<Lead, Error> {
        let look = async {
            let api: Api<Service> = Api::namespaced(self.kubernetes.clone(), &self.namespace);
            let service = api.get(&self.name).await;
            let service = service.map_err(|error| self.unknown(call, error))?;
            lead(&service, &self.cluster_id).map_err(|problem| Error::ForeignService {
                request: call.name(),
                service: format!("{}/{}", self.namespace, self.name),
                cluster: self.cluster_id.clone(),
                problem,
            })
        };
        self.checked.get_or_try_init(|| look).await.copied()
    }

    /// Returns the address of a ready JobManager.
    async fn pod(&self, call: &Call) -> Result<IpAddr, Error> {
        let api: Api<Pod> = Api::namespaced(self.kubernetes.clone(), &self.namespace);
        let selector = format!("app={},component={JOB_MANAGER}", self.cluster_id);
        let pods = api.list(&ListParams::default().labels(&selector).limit(PODS_MAX)).await;
        let pods = pods.map_err(|error| self.unknown(call, error))?;
        pods.items.iter().find_map(ready_at).ok_or_else(|| Error::Unreachable {
            request: call.name(),
            problem: format!("no pod behind Service `{}/{}` is ready", self.namespace, self.name),
            source: None,
        })
    }

    fn unknown(&self, call: &Call, error: kube::Error) -> Error {
        let request = call.name();
        match error {
            kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
                Error::Forbidden { request, status: status.code, message: status.message.clone() }
            }
            error => Error::Unreachable {
                request,
                problem: format!(
                    "could not check Service `{}/{}`: {}",
                    self.namespace,
                    self.name,
                    innermost(&error)
                ),
                source: Some(Box::new(error)),
            },
        }
    }
}

const JOB_MANAGER: &str = "jobmanager";

/// Returns where the Service of a cluster leads, or why that is not certainly the cluster's JobManager. With a selector
/// it leads to pods of its own namespace. Owners and labels prove nothing: who changes the rest can write them.
fn lead(service: &Service, cluster_id: &str) -> Result<Lead, String> {
    let Some(spec) = &service.spec else { return Err("has no `spec`".to_owned()) };
    if let Some(name) = &spec.external_name {
        return Err(format!("has the `externalName` `{name}`"));
    }
    if spec.type_.as_deref() == Some("ExternalName") {
        return Err("has the type `ExternalName`".to_owned());
    }
    let label = |key| spec.selector.as_ref().and_then(|selector| selector.get(key));
    for (key, expected) in [("app", cluster_id), ("component", JOB_MANAGER)] {
        if label(key).is_none_or(|value| value != expected) {
            return Err(format!("does not select pods with the label `{key}: {expected}`"));
        }
    }
    // A headless one has `None`.
    let address = spec.cluster_ip.as_ref().and_then(|address| address.parse().ok());
    Ok(address.map_or(Lead::Pods, Lead::Address))
}

fn ready_at(pod: &Pod) -> Option<IpAddr> {
    let status = pod.status.as_ref().filter(|_| pod.metadata.deletion_timestamp.is_none())?;
    let mut conditions = status.conditions.iter().flatten();
    conditions
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
        .then(|| status.pod_ip.as_ref()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, expected: Result<Lead, &str>) {
        let found = lead(&serde_json::from_value(json!({"spec": spec})).unwrap(), "orders");
        match (found, expected) {
            (Err(problem), Err(part)) => assert!(problem.contains(part), "{spec}: {problem}"),
            (found, expected) => assert_eq!(found.as_ref().ok(), expected.as_ref().ok(), "{spec}"),
        }
    }

    #[test]
    fn only_a_service_that_selects_the_job_manager_leads_there() {
        let own =
            json!({"app": "orders", "component": "jobmanager", "type": "flink-native-kubernetes"});
        let address = Lead::Address("10.96.0.7".parse().unwrap());
        check(json!({"clusterIP": "10.96.0.7", "selector": own}), Ok(address));
        check(json!({"type": "NodePort", "clusterIP": "10.96.0.7", "selector": own}), Ok(address));
        check(json!({"type": "ClusterIP", "clusterIP": "None", "selector": own}), Ok(Lead::Pods));
        let v6 = Lead::Address("fd00::7".parse().unwrap());
        check(json!({"clusterIP": "fd00::7", "selector": own}), Ok(v6));
        let external = json!({"type": "ExternalName", "externalName": "victim-rest.b.svc"});
        check(external, Err("victim-rest.b.svc"));
        check(json!({"type": "ExternalName", "selector": own}), Err("ExternalName"));
        check(json!({"externalName": "victim-rest.b.svc", "selector": own}), Err("externalName"));
        for selector in [
            json!(null),
            json!({}),
            json!({"app": "orders"}),
            json!({"app": "payments", "component": "jobmanager"}),
            json!({"app": "orders", "component": "taskmanager"}),
        ] {
            check(json!({"clusterIP": "10.96.0.7", "selector": selector}), Err("does not select"));
        }
    }
}
