//! The node: namespaces, container runtime, kubelet, service routing and name server.
//!
//! The instance's namespaces exist as long as a process in them. The first is the *holder*, which does nothing; mounts
//! and settings in them are gone when the last process ends.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::cgroup::Hierarchies;
use super::command::{SHORT, find, program, run};
use super::control_plane::{CERTIFICATES, Setup, options};
use super::error::Error;
use super::network::{BRIDGE, Network};
use super::process::{Daemon, Place, ProcessId, entering};
use super::requirements::network_plugins;

/// The process that keeps the namespaces alive.
pub(super) const HOLDER: &str = "holder";
/// Socket of the container runtime, in the instance's own `/run`.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";
/// The image of the container that holds a pod's namespaces.
pub(super) const PAUSE: &str = "localhost/pause:1";
/// Port on which the name server reports that it is ready.
const DNS_READY_PORT: u16 = 8181;

/// Kernel settings that a kubelet requires. It sees files with these values instead of the kernel's own, which belong
/// to the whole machine.
const KERNEL_SETTINGS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// A node: the instance and its network.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) setup: Setup<'a>,
    pub(super) network: Network,
}

impl Node<'_> {
    fn name(&self) -> &str {
        &self.setup.instance.name
    }

    /// Starts the holder in new namespaces, mounts the instance's own folders, and connects the network.
    pub(super) async fn make_namespaces(&self) -> Result<ProcessId, Error> {
        let holder = self.start_holder().await?;
        self.mount(holder).await?;
        self.network.connect(holder).await?;
        Ok(holder)
    }

    async fn start_holder(&self) -> Result<ProcessId, Error> {
        let (groups, folder) = (hierarchies()?, self.setup.folder);
        groups.create(&folder.group())?;
        let place = Place {
            identity: folder.identity(HOLDER),
            log: folder.log(HOLDER),
            group: groups.processes_file(&folder.group()),
            namespaces_of: None,
        };
        let pause = self.setup.programs.path("pause").to_string_lossy().into_owned();
        let arguments = ["--net", "--mount", "--propagation=slave", &pause];
        let holder = Daemon {
            name: HOLDER.to_owned(),
            program: find("unshare").unwrap_or_else(|| PathBuf::from("unshare")),
            arguments: arguments.map(str::to_owned).to_vec(),
        };
        let holder = holder.start(&place).await?;
        // The namespaces are new only once `unshare` has executed the program.
        let own = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).ok();
        let of_holder =
            |kind: &str| std::fs::read_link(format!("/proc/{}/ns/{kind}", holder.pid)).ok();
        let program = std::fs::canonicalize(self.setup.programs.path("pause")).ok();
        let made = super::process::wait_for(SHORT, async || {
            let is_program =
                std::fs::read_link(format!("/proc/{}/exe", holder.pid)).ok() == program;
            (is_program || !holder.is_alive()).then(|| holder.is_alive())
        });
        if made.await != Some(true)
            || own("net") == of_holder("net")
            || own("mnt") == of_holder("mnt")
        {
            return Err(Error::Ended {
                part: "the process that holds the namespaces".to_owned(),
                log: super::error::LogTail::of_file(&place.log),
            });
        }
        Ok(holder)
    }

    async fn mount(&self, holder: ProcessId) -> Result<(), Error> {
        let folder = self.setup.folder;
        let logs = folder.file("pod-logs");
        std::fs::create_dir_all(&logs).map_err(Error::file("make", &logs))?;
        let mut mounts = vec![
            ["-t", "tmpfs", "-o", "mode=755", "sandbox", "/run"].map(str::to_owned).to_vec(),
            vec!["--bind".to_owned(), logs.to_string_lossy().into_owned(), "/var/log".to_owned()],
        ];
        let settings = folder.file("kernel");
        for (name, value) in KERNEL_SETTINGS {
            let real = format!("/proc/sys/{name}");
            if !Path::new(&real).exists() {
                continue;
            }
            let shown = settings.join(name.replace('/', "."));
            std::fs::create_dir_all(&settings).map_err(Error::file("make", &settings))?;
            std::fs::write(&shown, format!("{value}\n")).map_err(Error::file("write", &shown))?;
            mounts.push(vec!["--bind".into(), shown.to_string_lossy().into_owned(), real]);
        }
        for arguments in mounts {
            let mut command = inside(holder, "mount");
            run(command.args(&arguments), SHORT).await?;
        }
        Ok(())
    }

    /// Returns where the parts of the node and its control plane run.
    pub(super) fn place(&self, holder: ProcessId, part: &str) -> Result<Place, Error> {
        Ok(Place {
            identity: self.setup.folder.identity(part),
            log: self.setup.folder.log(part),
            group: hierarchies()?.processes_file(&self.setup.folder.group()),
            namespaces_of: Some(holder),
        })
    }

    /// Writes the configuration files of all parts of the node.
    pub(super) fn write_configurations(&self) -> Result<(), Error> {
        let plugins = network_plugins().unwrap_or_else(|| PathBuf::from("/usr/lib/cni"));
        let networks = self.setup.folder.file("networks");
        std::fs::create_dir_all(&networks).map_err(Error::file("make", &networks))?;
        let bridge = format!("nameserver {}\n", self.network.bridge());
        let files = [
            ("containerd.toml", self.containerd(&plugins)),
            ("networks/10-pods.conflist", pretty(&self.pod_network())),
            ("kubelet.json", pretty(&self.kubelet_configuration())),
            (
                "kube-proxy.json",
                pretty(&self.proxy_configuration(Network::translates_on_bridges())),
            ),
            ("Corefile", self.name_server_configuration()),
            ("root.zone", ROOT_ZONE.to_owned()),
            ("resolv.conf", bridge),
        ];
        for (name, text) in files {
            let path = self.setup.folder.file(name);
            std::fs::write(&path, text).map_err(Error::file("write", &path))?;
        }
        Ok(())
    }

    fn containerd(&self, plugins: &Path) -> String {
        // A JSON string is also a valid TOML string.
        let text = |value: &str| json!(value).to_string();
        let (root, networks) = (self.setup.file("containerd"), self.setup.file("networks"));
        format!(
            r#"version = 2
root = {root}
state = "/run/containerd/state"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = {socket}

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {pause}
  # Without CAP_SYS_RESOURCE runc dies when it is to lower a score.
  restrict_oom_score_adj = true
  # A profile would be loaded into the kernel of the whole machine.
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      # As the kubelet does it, also where systemd runs.
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {plugins}
    conf_dir = {networks}
"#,
            root = text(&root),
            socket = text(SOCKET),
            pause = text(PAUSE),
            plugins = text(&plugins.to_string_lossy()),
            networks = text(&networks),
        )
    }

    fn pod_network(&self) -> Value {
        json!({
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": BRIDGE,
                    "isGateway": true,
                    "hairpinMode": true,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": "/run/cni",
                        "ranges": [[{ "subnet": self.network.pods() }]],
                        "routes": [{ "dst": "0.0.0.0/0" }],
                    },
                },
                { "type": "portmap", "capabilities": { "portMappings": true } },
            ],
        })
    }

    fn kubelet_configuration(&self) -> Value {
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/{}", self.setup.folder.group()),
            "failSwapOn": false,
            "failCgroupV1": false,
            "clusterDNS": [self.network.bridge()],
            "clusterDomain": "cluster.local",
            "resolvConf": self.setup.file("resolv.conf"),
            "maxPods": 500,
            // The disk is the user's own: pods are evicted only when it is really full, images never.
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "nodefs.inodesFree": "1%",
                "imagefs.available": "1%",
            },
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            // Only the control plane has the certificate.
            "authentication": {
                "anonymous": { "enabled": false },
                "webhook": { "enabled": false },
                "x509": { "clientCAFile": self.setup.file(CERTIFICATES[0]) },
            },
            "authorization": { "mode": "AlwaysAllow" },
        })
    }

    fn proxy_configuration(&self, translates_on_bridges: bool) -> Value {
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clusterCIDR": self.network.pods(),
            // Otherwise a pod that replies to a neighbour would bypass the reverse translation. With this setting, all
            // traffic to services comes from the bridge's own address, and returns to it.
            "iptables": { "masqueradeAll": !translates_on_bridges },
            // The size of the table belongs to the whole machine.
            "conntrack": { "maxPerCore": 0 },
            "hostnameOverride": self.name(),
            "clientConnection": { "kubeconfig": self.setup.kubeconfig("kube-proxy") },
        })
    }

    fn name_server_configuration(&self) -> String {
        let (bridge, kubeconfig) = (self.network.bridge(), self.setup.kubeconfig("coredns"));
        format!(
            r#".:53 {{
    bind {bridge}
    errors
    ready {bridge}:{DNS_READY_PORT}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig "{kubeconfig}" {name}
        pods insecure
        ttl 5
    }}
    # Any other name is answered with NXDOMAIN at once, also for IPv6: Java gives up on SERVFAIL.
    file "{zone}" .
}}
"#,
            name = self.name(),
            zone = self.setup.file("root.zone"),
        )
    }

    pub(super) fn container_runtime(&self) -> Daemon {
        Daemon {
            name: "containerd".to_owned(),
            program: find("containerd").unwrap_or_else(|| PathBuf::from("containerd")),
            arguments: options(&[("config", &self.setup.file("containerd.toml"))]),
        }
    }

    pub(super) fn kubelet(&self) -> Daemon {
        self.setup.daemon(
            "kubelet",
            options(&[
                ("config", &self.setup.file("kubelet.json")),
                ("kubeconfig", &self.setup.kubeconfig("kubelet")),
                ("hostname-override", self.name()),
                ("node-ip", &self.network.node()),
                ("root-dir", &self.setup.file("kubelet")),
                ("cert-dir", &self.setup.file("kubelet/pki")),
            ]),
        )
    }

    pub(super) fn proxy(&self) -> Daemon {
        let arguments = options(&[("config", &self.setup.file("kube-proxy.json"))]);
        self.setup.daemon("kube-proxy", arguments)
    }

    pub(super) fn name_server(&self) -> Daemon {
        self.setup.daemon("coredns", vec!["-conf".to_owned(), self.setup.file("Corefile")])
    }

    /// Returns whether the name server knows the cluster's services by now.
    pub(super) async fn knows_names(&self) -> bool {
        let url = format!("http://{}:{DNS_READY_PORT}/ready", self.network.bridge());
        let Ok(client) = reqwest::Client::builder().no_proxy().build() else { return false };
        client.get(url).send().await.is_ok_and(|answer| answer.status().is_success())
    }
}

/// Returns NXDOMAIN for everything.
const ROOT_ZONE: &str = "\
. 3600 IN SOA nowhere.invalid. nobody.invalid. 1 3600 600 86400 30
. 3600 IN NS nowhere.invalid.
";

/// Returns the control groups of this machine.
pub(super) fn hierarchies() -> Result<Hierarchies, Error> {
    Hierarchies::of_this_machine().ok_or_else(|| {
        Error::Refused(
            "no control groups are mounted on this machine: the node needs them".to_owned(),
        )
    })
}

/// Returns a command that runs `name` in the namespaces of `holder`.
pub(super) fn inside(holder: ProcessId, name: &str) -> tokio::process::Command {
    let mut command = program("nsenter");
    command.args(entering(holder)).arg(find(name).unwrap_or_else(|| PathBuf::from(name)));
    command
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests;
