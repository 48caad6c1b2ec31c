//! The two operators' processes, of which one leads.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use rustix::process::Signal;

use super::stage::Stage;
use crate::e2e::cluster::Cluster;
use crate::faults::operator::Operator;

pub(super) const COUNT: usize = 2;

struct One {
    process: Operator,
    /// Whether it stays ended for now.
    is_held: AtomicBool,
}

pub(super) struct Operators {
    all: [One; COUNT],
}

impl Operators {
    /// Starts them, with their logs in this folder.
    pub(super) fn start(cluster: &Cluster, folder: &Path) -> Self {
        let kubeconfig = cluster.operator_kubeconfig();
        let config = cluster.operator_config();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let arguments = vec![
            "--kubeconfig".to_owned(),
            text(&kubeconfig),
            "-n".to_owned(),
            cluster.namespace.clone(),
            "operate".to_owned(),
            "--lease-namespace".to_owned(),
            cluster.namespace.clone(),
            "--operator-config".to_owned(),
            text(&config),
        ];
        let all = std::array::from_fn(|number| {
            let process = Operator::new(&folder.join(format!("operator-{number}.log")));
            process.start(arguments.clone());
            One { process, is_held: AtomicBool::new(false) }
        });
        Self { all }
    }

    /// Starts those again that have ended, as a kubelet does.
    pub(super) fn tend(&self) {
        for one in self.all.iter().filter(|one| !one.is_held.load(Ordering::Relaxed)) {
            one.process.tend();
        }
    }

    /// Kills one, which stays away until it is released.
    pub(super) fn kill(&self, number: usize) {
        self.all[number].is_held.store(true, Ordering::Relaxed);
        self.all[number].process.kill();
    }

    pub(super) fn release(&self, number: usize) {
        self.all[number].is_held.store(false, Ordering::Relaxed);
    }

    pub(super) fn signal(&self, number: usize, signal: Signal) {
        self.all[number].process.signal(signal);
    }

    pub(super) fn starts(&self) -> usize {
        self.all.iter().map(|one| one.process.starts()).sum()
    }
}

/// Returns the number of the operator that leads, as far as it can be known.
pub(super) fn leader(stage: &Stage) -> usize {
    let leases: Api<Lease> = Api::namespaced(stage.cluster.client(), &stage.cluster.namespace);
    let lease = stage.ask(leases.get(operator::install::objects::NAME)).ok();
    let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
    usize::from(holder.starts_with("operator-1"))
}
