//! A port of this machine that leads to a port of a pod, through the API server.
//!
//! Each connection finds a ready pod of its own, so a JobManager may be replaced meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::{Error, Result, pods};

/// Maximum number of simultaneous connections: a browser opens six.
const CONNECTIONS_MAX: usize = 64;

/// Where the port leads.
#[derive(Clone, Debug)]
pub struct Destination {
    pub namespace: String,
    /// Selects the pods.
    pub labels: String,
    pub port: u16,
}

/// An open port that is reachable only from this machine.
pub struct Tunnel {
    listener: TcpListener,
    address: SocketAddr,
}

impl Tunnel {
    /// Opens `port`; 0 picks a free one.
    pub async fn open(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Forwards connections forever; reports those that could not be opened to `troubles`.
    pub async fn serve(self, client: Client, to: Destination, troubles: mpsc::Sender<Error>) {
        let api = Api::<Pod>::namespaced(client, &to.namespace);
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut tasks = JoinSet::new();
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let Ok((stream, _)) = self.listener.accept().await else {
                // Out of file descriptors, or the client has left: the next one may succeed.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            };
            let (api, to, troubles) = (api.clone(), to.clone(), troubles.clone());
            tasks.spawn(async move {
                if let Err(error) = carry(&api, &to, stream).await {
                    // A receiver that is gone does not need the error.
                    drop(troubles.try_send(error));
                }
                drop(permit);
            });
            while tasks.try_join_next().is_some() {}
        }
    }
}

/// Copies bytes until either side closes.
async fn carry(api: &Api<Pod>, to: &Destination, mut stream: TcpStream) -> Result<()> {
    let found = api.list(&ListParams::default().labels(&to.labels)).await?;
    let name = found
        .items
        .iter()
        .find(|pod| pods::is_ready(pod))
        .and_then(|pod| pod.metadata.name.as_deref());
    let Some(name) = name else {
        let message = format!("no pod with labels `{}` is ready", to.labels);
        return Err(Error::Unavailable { status: 503, message });
    };
    let mut forwarder = api.portforward(name, &[to.port]).await?;
    let Some(mut remote) = forwarder.take_stream(to.port) else {
        let message = format!("pod `{name}` opened no stream");
        return Err(Error::Unavailable { status: 503, message });
    };
    // Browsers routinely close connections early.
    let _moved = tokio::io::copy_bidirectional(&mut stream, &mut remote).await;
    forwarder.abort();
    Ok(())
}
