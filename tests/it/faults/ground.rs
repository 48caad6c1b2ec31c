//! What all cases of a test stand on: a control plane of their own, and Flink clusters without Flink.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::crd;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clients::cluster::crds;
use kube::Client;
use kube::config::Kubeconfig;
use tokio::sync::Semaphore;

use super::operator::Operator;
use super::world::World;
use crate::support::api_client;
use crate::support::program::program;

/// The file with the control plane's authority, in the folder of the test.
const AUTHORITIES: &str = "authorities.pem";

/// A control plane, which goes when this is dropped.
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

/// Cases that are played at the same time: most of their time is waiting.
const AT_ONCE: usize = 36;
/// A place for each case that is being played, of all tests that run side by side.
pub(super) static ROOM: Semaphore = Semaphore::const_new(AT_ONCE);

/// What all cases of a test stand on.
pub(super) struct Ground {
    sandbox: Sandbox,
    pub(super) folder: tempfile::TempDir,
    pub(super) client: Client,
    pub(super) world: Arc<World>,
}

impl Ground {
    pub(super) async fn new(name: &str) -> Self {
        // Refused where another test was first, which is as good.
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
        crds::wait_until_established(&client, &crd::all(), Duration::from_secs(30)).await.unwrap();
        let world = World::start(client.clone()).await;
        Self { sandbox, folder, client, world }
    }

    /// An operator that keeps its log under this name, and trusts the control plane's authority alone.
    pub(super) fn operator(&self, name: &str) -> Operator {
        Operator::new(&file(self, &format!("{name}.log"))).trusting(file(self, AUTHORITIES))
    }

    /// Name of the control plane's sandbox.
    pub(super) fn name(&self) -> &str {
        &self.sandbox.name
    }
}

/// A file in the folder of the test.
pub(super) fn file(ground: &Ground, name: &str) -> PathBuf {
    ground.folder.path().join(name)
}
