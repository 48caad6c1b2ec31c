//! The ground that cases share: a control plane, and Flink clusters without Flink.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};

use api::crd;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clients::cluster::crds;
use kube::Client;
use kube::config::Kubeconfig;
use tokio::sync::{OnceCell, Semaphore};

use super::disturbance::Base;
use super::operator::Operator;
use super::world::World;
use crate::support::api_client;
use crate::support::patience::PATIENCE;
use crate::support::program::program;

/// File with the control plane's certificate authority, in the test's folder.
const AUTHORITIES: &str = "authorities.pem";

/// A control plane; it is removed when dropped.
struct Sandbox {
    name: String,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let down = program().args(["sandbox", "down", "--name", &self.name]).output().unwrap();
        // A second panic would hide the first.
        if !down.status.success() {
            println!("sandbox down: {}", String::from_utf8_lossy(&down.stderr));
        }
    }
}

/// Maximum number of cases at the same time; most of their time is waiting.
const AT_ONCE: usize = 30;
/// One permit for each case in progress, across all tests that run in parallel.
pub(super) static ROOM: Semaphore = Semaphore::const_new(AT_ONCE);

/// A control plane with its Flink clusters.
pub(super) struct Ground {
    /// Ends of undisturbed scenarios by name.
    pub(super) bases: Mutex<BTreeMap<&'static str, Arc<OnceCell<Arc<Base>>>>>,
    sandbox: Sandbox,
    pub(super) folder: tempfile::TempDir,
    pub(super) client: Client,
    pub(super) world: Arc<World>,
}

impl Ground {
    /// Returns the ground shared by all tests that leave the control plane alone; it is removed with the last of them.
    /// Their namespaces have different names.
    pub(super) async fn shared() -> Arc<Self> {
        static SHARED: tokio::sync::Mutex<(usize, Weak<Ground>)> =
            tokio::sync::Mutex::const_new((0, Weak::new()));
        let mut shared = SHARED.lock().await;
        if let Some(ground) = shared.1.upgrade() {
            return ground;
        }
        // The previous one may still be shutting down.
        shared.0 += 1;
        let ground = Arc::new(Self::new(&format!("shared-{}", shared.0)).await);
        shared.1 = Arc::downgrade(&ground);
        ground
    }

    pub(super) async fn new(name: &str) -> Self {
        // Fails if another test was first, which is fine.
        drop(rustls::crypto::ring::default_provider().install_default());
        let sandbox = Sandbox { name: format!("faults-{name}-{}", std::process::id()) };
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let mut up = program();
        up.args(["sandbox", "up", "--control-plane-only", "--name", &sandbox.name, "--kubeconfig"]);
        let up = up.arg(&kubeconfig).output().unwrap();
        assert!(up.status.success(), "sandbox up: {}", String::from_utf8_lossy(&up.stderr));
        let stored = Kubeconfig::read_from(&kubeconfig).unwrap();
        let authority = stored.clusters[0].cluster.as_ref().unwrap();
        let authority = authority.certificate_authority_data.as_ref().unwrap();
        let authority = BASE64_STANDARD.decode(authority).unwrap();
        std::fs::write(folder.path().join(AUTHORITIES), authority).unwrap();
        let client = api_client::client(api_client::config(&kubeconfig).await);
        crds::apply(&client, &crd::all(), false).await.unwrap();
        crds::wait_until_established(&client, &crd::all(), PATIENCE).await.unwrap();
        let world = World::start(client.clone()).await;
        Self { bases: Mutex::default(), sandbox, folder, client, world }
    }

    /// Returns an operator that logs under this name and trusts only the control plane's authority.
    pub(super) fn operator(&self, name: &str) -> Operator {
        Operator::new(&file(self, &format!("{name}.log"))).trusting(file(self, AUTHORITIES))
    }

    /// Returns the name of the control plane's sandbox.
    pub(super) fn name(&self) -> &str {
        &self.sandbox.name
    }
}

/// Returns the path of a file in the test's folder.
pub(super) fn file(ground: &Ground, name: &str) -> PathBuf {
    ground.folder.path().join(name)
}
