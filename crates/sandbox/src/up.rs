//! Brings an instance up. Every step is idempotent, so running all of them again changes nothing, except that it starts
//! what has died since.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node as KubernetesNode, ServiceAccount};
use kube::Api;

use super::control_plane::Setup;
use super::down;
use super::error::{Error, LogTail};
use super::image;
use super::kubeconfig::{self, Entry};
use super::network::Network;
use super::node::{HOLDER, Node};
use super::process::{Daemon, Place, ProcessId, wait_for};
use super::programs::Programs;
use super::progress::Progress;
use super::requirements::{Purpose, check};
use super::state::{FORMAT, Folder, Instance, Kind, Ports, boot, replace};

/// A file that exists once namespaces and network are complete.
const CONNECTED: &str = "connected";

/// Options for bringing an instance up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the instance, of its node and of its context.
    pub name: String,
    /// Start no node, only etcd, API server and two controllers, for tests that need nothing else.
    pub control_plane_only: bool,
    /// Install missing programs.
    pub install: bool,
    /// The kubeconfig to write to; `kubectl`'s by default.
    pub kubeconfig: Option<PathBuf>,
    /// Make the context current even if another one is.
    pub switch_context: bool,
    /// Time limit for everything after installing and building.
    pub timeout: Duration,
}

/// A running instance.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    pub name: String,
    /// Address of its API server.
    pub server: String,
    /// The kubeconfig that contains its context.
    pub kubeconfig: PathBuf,
    pub context: String,
    /// Whether its context is the current one there.
    pub is_current: bool,
    /// Whether there was nothing to start.
    pub was_running: bool,
}

/// Installs missing tools if requested, and builds the programs, so that the next start takes seconds.
pub async fn prepare(options: &Options, progress: &Progress<'_>) -> Result<(), Error> {
    programs(options, progress).await.map(drop)
}

async fn programs(options: &Options, progress: &Progress<'_>) -> Result<Programs, Error> {
    let programs = Programs::locate()?;
    let purpose = if options.control_plane_only { Purpose::ControlPlane } else { Purpose::Cluster };
    check(purpose, !programs.are_built(), options.install, progress).await?;
    programs.build(progress).await?;
    Ok(programs)
}

/// Brings the instance up and returns when it is ready for use.
pub async fn up(options: &Options, progress: &Progress<'_>) -> Result<Running, Error> {
    let folder = Folder::of(&options.name)?;
    let programs = programs(options, progress).await?;
    let _lock = folder.lock().await?;
    let instance = if let Some(instance) = usable(&folder, options)? {
        instance
    } else {
        down::clear(&folder, progress).await?;
        new_instance(&folder, &programs, options)?
    };
    let programs = Programs::of_build(instance.build.clone())?;
    let setup = Setup { folder: &folder, instance: &instance, programs: &programs };
    let bring_up = BringUp { setup, progress, deadline: Instant::now() + options.timeout };
    let (instance, started) = match &instance.kind {
        Kind::Full { network } => bring_up.cluster(*network).await?,
        Kind::ControlPlane { .. } => (instance.clone(), bring_up.control_plane().await?),
    };
    let setup = Setup { folder: &folder, instance: &instance, programs: &programs };
    enter_kubeconfig(&setup, options, !started).await
}

/// Returns the existing instance if its first process is still running, so that it can be repaired.
fn usable(folder: &Folder, options: &Options) -> Result<Option<Instance>, Error> {
    // An unreadable instance is cleaned up like the remains of a crash.
    let Ok(Some(instance)) = folder.read() else { return Ok(None) };
    let first = match instance.kind {
        Kind::Full { .. } => HOLDER,
        Kind::ControlPlane { .. } => "etcd",
    };
    if folder.running(&instance, first).is_none() {
        return Ok(None);
    }
    let is_control_plane = matches!(instance.kind, Kind::ControlPlane { .. });
    if is_control_plane != options.control_plane_only {
        return Err(Error::Refused(format!(
            "sandbox `{name}` is already running, {kind}: choose another name, or take it down \
             with `kubectl flink sandbox down --name {name}`",
            name = instance.name,
            kind = if options.control_plane_only {
                "with a node"
            } else {
                "as a control plane without a node"
            },
        )));
    }
    // Unfinished namespaces cannot be used; nothing runs in them yet.
    let is_complete = is_control_plane || folder.file(CONNECTED).exists();
    Ok(Some(instance).filter(|_| is_complete))
}

fn new_instance(
    folder: &Folder,
    programs: &Programs,
    options: &Options,
) -> Result<Instance, Error> {
    let kind = if options.control_plane_only {
        Kind::ControlPlane { ports: free_ports()? }
    } else {
        // The block is chosen later, under a lock; see `BringUp::namespaces`.
        Kind::Full { network: Network::new(0, 0) }
    };
    folder.create()?;
    let instance = Instance {
        format: FORMAT,
        name: options.name.clone(),
        kind,
        boot: boot(),
        build: programs.key.clone(),
        kubeconfig: kubeconfig_path(options, None)?,
        context_before: None,
        images: Vec::new(),
    };
    folder.write(&instance)?;
    Ok(instance)
}

/// Returns ports that are free right now.
fn free_ports() -> Result<Ports, Error> {
    let failed = || Error::file("listen on", Path::new("127.0.0.1:0"));
    // All three are open at once, so that they differ.
    let mut listeners = Vec::new();
    let mut ports = [0; 3];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed())?;
        *port = listener.local_addr().map_err(failed())?.port();
        listeners.push(listener);
    }
    let [api, etcd, etcd_peer] = ports;
    Ok(Ports { api, etcd, etcd_peer })
}

fn kubeconfig_path(options: &Options, before: Option<&Path>) -> Result<PathBuf, Error> {
    match (&options.kubeconfig, before) {
        (Some(path), _) => std::path::absolute(path).map_err(Error::file("find", path)),
        (None, Some(path)) => Ok(path.to_owned()),
        (None, None) => kubeconfig::default_path(),
    }
}

/// Writes the context into the kubeconfig, and records which file.
async fn enter_kubeconfig(
    setup: &Setup<'_>,
    options: &Options,
    was_running: bool,
) -> Result<Running, Error> {
    let mut instance = setup.instance.clone();
    let (name, server) = (instance.name.clone(), instance.kind.server());
    let path = kubeconfig_path(options, Some(&instance.kubeconfig))?;
    if path != instance.kubeconfig {
        let before = instance.context_before.take();
        kubeconfig::take_out(&instance.kubeconfig, &name, &server, before.as_deref()).await?;
        instance.kubeconfig.clone_from(&path);
    }
    // Record it first: after a crash, cleanup checks the recorded file.
    setup.folder.write(&instance)?;
    let (authority, token) = (setup.authority()?, setup.token("admin")?);
    let entry = Entry { name: &name, server: &server, authority: &authority, token: &token };
    let current = kubeconfig::add(&path, &entry, options.switch_context).await?;
    if current.before.is_some() {
        instance.context_before = current.before;
        setup.folder.write(&instance)?;
    }
    Ok(Running {
        context: name.clone(),
        name,
        server,
        kubeconfig: path,
        is_current: current.is_ours,
        was_running,
    })
}

/// The steps of bringing an instance up.
struct BringUp<'a> {
    setup: Setup<'a>,
    progress: &'a Progress<'a>,
    deadline: Instant,
}

impl BringUp<'_> {
    /// Starts a control plane on loopback ports; returns whether anything had to be started.
    async fn control_plane(&self) -> Result<bool, Error> {
        let Setup { folder, .. } = self.setup;
        let place = |part: &str| {
            Ok(Place {
                identity: folder.identity(part),
                log: folder.log(part),
                group: None,
                namespaces_of: None,
            })
        };
        let task = self.progress.task("starting etcd, API server and controllers");
        let mut started = self.ensure_api_server(&place).await?;
        started |= self.ensure(self.setup.controllers(), &place).await?;
        task.done();
        Ok(started)
    }

    /// Starts a whole cluster, with its network; returns whether anything had to be started.
    async fn cluster(&self, network: Network) -> Result<(Instance, bool), Error> {
        let Setup { folder, instance, programs } = self.setup;
        let (holder, network, instance) = match folder.running(instance, HOLDER) {
            Some(holder) => (holder, network, instance.clone()),
            None => self.namespaces().await?,
        };
        let setup = Setup { folder, instance: &instance, programs };
        let here = BringUp { setup, progress: self.progress, deadline: self.deadline };
        let started = here.parts(&Node { setup, network }, holder).await?;
        Ok((instance, started))
    }

    /// Creates the namespaces, with a network that nothing else uses or is about to take.
    async fn namespaces(&self) -> Result<(ProcessId, Network, Instance), Error> {
        let task = self.progress.task("creating namespaces, control groups and network");
        let _lock = Folder::lock_networks().await?;
        let network = Network::choose().await?;
        let instance = Instance { kind: Kind::Full { network }, ..self.setup.instance.clone() };
        self.setup.folder.write(&instance)?;
        let setup = Setup { instance: &instance, ..self.setup };
        let holder = Node { setup, network }.make_namespaces().await?;
        replace(&self.setup.folder.file(CONNECTED), "")?;
        task.done();
        Ok((holder, network, instance))
    }

    async fn parts(&self, node: &Node<'_>, holder: ProcessId) -> Result<bool, Error> {
        let place = |part: &str| node.place(holder, part);
        node.write_configurations()?;

        let task = self.progress.task("starting etcd, API server and container runtime");
        let mut started = self.ensure(node.container_runtime(), &place).await?;
        let runtime = async {
            self.wait("the container runtime does not answer", "containerd", async || {
                image::answers(holder).await
            })
            .await?;
            image::ensure_pause(&self.setup, holder).await
        };
        let (api_started, ()) = tokio::try_join!(self.ensure_api_server(&place), runtime)?;
        started |= api_started;
        task.done();

        let task = self.progress.task("starting controllers, scheduler, kubelet and name server");
        started |= self.ensure_all(node, &place).await?;
        task.done();

        let task = self.progress.task("waiting for the node");
        self.wait_for_node(node).await?;
        // A part may have exited because another one was not there yet.
        started |= self.ensure_all(node, &place).await?;
        task.done();
        Ok(started)
    }

    /// Starts everything that needs the API server and is not running; returns whether there was anything.
    async fn ensure_all(
        &self,
        node: &Node<'_>,
        place: &impl Fn(&str) -> Result<Place, Error>,
    ) -> Result<bool, Error> {
        let mut started = false;
        for part in [
            self.setup.controllers(),
            self.setup.scheduler(),
            node.kubelet(),
            node.proxy(),
            node.name_server(),
        ] {
            started |= self.ensure(part, place).await?;
        }
        Ok(started)
    }

    async fn wait_for_node(&self, node: &Node<'_>) -> Result<(), Error> {
        let client = self.setup.client().await?;
        let nodes: Api<KubernetesNode> = Api::all(client.clone());
        let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
        let name = &self.setup.instance.name;
        self.wait("the node is not ready", "kubelet", async || {
            nodes.get_opt(name).await.ok().flatten().is_some_and(|node| is_ready(&node))
        })
        .await?;
        // Without it no pod can be created in the namespace.
        self.wait("there is no service account `default`", "kube-controller-manager", async || {
            accounts.get_opt("default").await.ok().flatten().is_some()
        })
        .await?;
        self.wait("the name server does not know the cluster", "coredns", async || {
            node.knows_names().await
        })
        .await
    }

    /// Starts etcd and the API server, with everyone's credentials; returns whether one was started.
    async fn ensure_api_server(
        &self,
        place: &impl Fn(&str) -> Result<Place, Error>,
    ) -> Result<bool, Error> {
        self.setup.make_credentials().await?;
        let mut started = self.ensure(self.setup.etcd(), place).await?;
        started |= self.ensure(self.setup.api_server(), place).await?;
        self.wait("the API server is not ready", "kube-apiserver", async || {
            // The certificate does not exist until the server has created it.
            match self.setup.client().await {
                Ok(client) => is_api_ready(&client).await,
                Err(_) => false,
            }
        })
        .await?;
        self.setup.write_kubeconfigs()?;
        Ok(started)
    }

    /// Starts a part unless it is running; returns whether it was started.
    async fn ensure(
        &self,
        daemon: Daemon,
        place: &impl Fn(&str) -> Result<Place, Error>,
    ) -> Result<bool, Error> {
        if self.setup.folder.running(self.setup.instance, &daemon.name).is_some() {
            return Ok(false);
        }
        daemon.start(&place(&daemon.name)?).await?;
        Ok(true)
    }

    /// Waits until `ask` returns true, as long as `part` is running.
    async fn wait(
        &self,
        what: &str,
        part: &str,
        mut ask: impl AsyncFnMut() -> bool,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let limit = self.deadline.saturating_duration_since(begun);
        let log = || LogTail::of_file(&self.setup.folder.log(part));
        let answer = wait_for(limit, async || {
            if ask().await {
                return Some(true);
            }
            let runs = self.setup.folder.running(self.setup.instance, part).is_some();
            (!runs).then_some(false)
        });
        match answer.await {
            Some(true) => Ok(()),
            Some(false) => Err(Error::Ended { part: part.to_owned(), log: log() }),
            None => Err(Error::TimedOut {
                what: what.to_owned(),
                after: begun.elapsed(),
                log: Some(log()),
            }),
        }
    }
}

/// Returns whether the API server is ready, with its roles and namespaces.
async fn is_api_ready(client: &kube::Client) -> bool {
    let request = http::Request::get("/readyz").body(Vec::new());
    match request {
        Ok(request) => client.request_text(request).await.is_ok_and(|answer| answer == "ok"),
        Err(_) => false,
    }
}

/// Returns whether a node reports that it is ready.
pub(super) fn is_ready(node: &KubernetesNode) -> bool {
    node.status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests;
