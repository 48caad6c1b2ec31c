//! Several operators, each behind its own proxy, that share a lease or the shards of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;
use tokio::time::sleep;

use super::ground::Ground;
use super::operator::Operator;
use super::proxy::{Asked, Proxy, Recorded};
use super::scenarios::{JOB, deployment};
use super::stage::{OPERATOR_CONFIG, arguments, is_stable, line};
use crate::support::patience::PATIENCE;

pub(super) const LEASE: &str = "operators";
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(20);
const ELECTION: &str = "\
kubernetes.operator.leader-election.enabled: true
kubernetes.operator.leader-election.lease-name: operators
kubernetes.operator.leader-election.lease-duration: 20 s
kubernetes.operator.leader-election.renew-deadline: 16 s
kubernetes.operator.leader-election.retry-period: 1 s
kubernetes.operator.health.probe.enabled: false
";
const POLL: Duration = Duration::from_millis(20);

/// One operator.
pub(super) struct Replica {
    name: &'static str,
    pub(super) operator: Arc<Operator>,
    pub(super) proxy: Proxy,
}

impl Replica {
    /// Returns its writes for its jobs, to the API server and to Flink.
    pub(super) fn writes(&self) -> Vec<Recorded> {
        let recorded = self.proxy.recorded();
        let is_write = |one: &Recorded| one.asked.write.is_some() && !is_about_election(&one.asked);
        recorded.into_iter().filter(is_write).collect()
    }

    /// Whether its last write since then to each Lease with this in its path released it, so that no one has to wait
    /// for its expiry.
    pub(super) fn gave_back(&self, leases: &str, since: Instant) -> bool {
        let mut is_free = BTreeMap::new();
        for Recorded { asked, status, at, .. } in self.proxy.recorded() {
            let is_stored = asked.write.is_some() && status == Some(200);
            if is_stored && at >= since && asked.path.contains(leases) {
                let lease: Lease = serde_json::from_str(&asked.body).unwrap();
                let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                is_free.insert(lease.metadata.name, holder.is_empty());
            }
        }
        !is_free.is_empty() && is_free.into_values().all(|is_free| is_free)
    }
}

fn is_about_election(asked: &Asked) -> bool {
    asked.path.contains("/leases") || asked.path.contains("/selfsubjectaccessreviews")
}

/// All operators, and their jobs: one in each of `namespaces`.
pub(super) struct Replicas {
    pub(super) ground: Ground,
    pub(super) all: Vec<Replica>,
    /// Namespace of the Leases.
    home: &'static str,
    pub(super) namespaces: Vec<String>,
    /// Whether operators that end by themselves are restarted, as a kubelet does. They all end if the store stalls for
    /// the duration of a lease, which happens on a busy machine.
    pub(super) are_revived: bool,
}

impl Replicas {
    /// Returns a group without operators.
    pub(super) fn new(ground: Ground, home: &'static str, namespaces: Vec<String>) -> Self {
        Self { ground, all: Vec::new(), home, namespaces, are_revived: false }
    }

    /// Starts another one, with this added to the common configuration, and with extra arguments.
    pub(super) async fn start(
        &mut self,
        name: &'static str,
        config: &str,
        change: impl FnOnce(&mut Vec<String>),
    ) {
        let operator = Arc::new(self.ground.operator(name));
        let flink = self.ground.world.flink_address().to_owned();
        let proxy = Proxy::start(self.ground.client.clone(), flink, Arc::clone(&operator)).await;
        let config = format!("{OPERATOR_CONFIG}{ELECTION}{config}");
        let mut arguments = arguments(&self.ground, name, self.home, &proxy, &config);
        arguments.extend(["--lease-namespace".to_owned(), self.home.to_owned()]);
        change(&mut arguments);
        operator.start(arguments);
        self.all.push(Replica { name, operator, proxy });
    }

    /// Describes a failure, with everything that each of them wrote and logged.
    pub(super) fn described(&self, what: &str) -> String {
        let of = |replica: &Replica| {
            let writes: Vec<String> = replica.writes().iter().map(line).collect();
            format!("--- {}\n{}\n{}", replica.name, writes.join("\n"), replica.operator.said())
        };
        let all: Vec<String> = self.all.iter().map(of).collect();
        // Repeated, so that it is seen at the beginning and at the end.
        format!("{what}\n{}\n{what}", all.join("\n"))
    }

    /// Returns how often any of them ended by itself.
    pub(super) fn ends(&self) -> usize {
        self.all.iter().map(|replica| replica.operator.ends()).sum()
    }

    /// Waits until `inspect` returns something; returns it and how long that took.
    pub(super) async fn until<T>(
        &self,
        what: &str,
        mut inspect: impl AsyncFnMut() -> Option<T>,
    ) -> (T, Duration) {
        let start = Instant::now();
        loop {
            if let Some(found) = inspect().await {
                return (found, start.elapsed());
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.described(what));
            if self.are_revived {
                self.all.iter().for_each(|replica| replica.operator.revive());
            }
            sleep(POLL).await;
        }
    }

    /// Returns the holder of the lease; empty if there is none.
    pub(super) async fn holder(&self, lease: &str) -> String {
        let leases: Api<Lease> = Api::namespaced(self.ground.client.clone(), self.home);
        let lease = leases.get_opt(lease).await.unwrap();
        lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
    }

    fn deployments(&self, namespace: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("flink.apache.org", "v1beta1", "FlinkDeployment");
        let resource = ApiResource::from_gvk(&gvk);
        Api::namespaced_with(self.ground.client.clone(), namespace, &resource)
    }

    /// Creates a job in each namespace.
    pub(super) async fn create(&self, upgrade_mode: &str) {
        for namespace in &self.namespaces {
            let mut object = deployment(upgrade_mode);
            object["metadata"]["namespace"] = json!(namespace);
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            self.deployments(namespace).create(&PostParams::default(), &object).await.unwrap();
        }
    }

    /// Gives the operators something to do in each namespace.
    pub(super) async fn edit(&self, parallelism: i64) {
        let patch = Patch::Merge(json!({"spec": {"job": {"parallelism": parallelism}}}));
        for namespace in &self.namespaces {
            self.deployments(namespace).patch(JOB, &PatchParams::default(), &patch).await.unwrap();
        }
    }

    pub(super) async fn until_stable(&self) {
        for namespace in &self.namespaces {
            let what = format!("the job in {namespace} is not stable");
            let inspect = async || {
                let found = self.deployments(namespace).get(JOB).await.unwrap();
                is_stable(&serde_json::to_value(found).unwrap()).then_some(())
            };
            self.until(&what, inspect).await;
        }
    }
}
