//! etcd, API server, controllers and scheduler: their arguments, and the credentials of all parts.
//!
//! Other users of the machine reach the ports of a sandbox. Each of them therefore asks for credentials, which are in
//! files of the sandbox's user.

mod authority;

use std::path::PathBuf;
use std::time::Duration;

use super::archive::hex;
use super::command::{SHORT, run};
use super::error::Error;
use super::kubeconfig::{Entry, alone};
use super::process::Daemon;
use super::programs::Programs;
use super::state::{Folder, Instance, Kind, Ports, replace};

/// Name of the user for people.
const ADMIN: &str = "admin";
/// Identities, with the groups that give them their permissions.
const USERS: [(&str, &str, &str); 5] = [
    (ADMIN, "admin", "system:masters"),
    ("kube-controller-manager", "system:kube-controller-manager", ""),
    ("kube-scheduler", "system:kube-scheduler", ""),
    ("kube-proxy", "system:kube-proxy", ""),
    // There is no built-in role for a name server, and it exists only as long as the instance.
    ("coredns", "system:coredns", "system:masters"),
];
/// etcd's own limit of 2 GiB is meant for disks; this is the maximum that it recommends.
const ETCD_BYTES_MAX: &str = "8589934592";
/// The kubelet's identity contains the node's name.
const KUBELET: &str = "kubelet";

/// Files of the authority, and of the certificate and key of the control plane.
pub(super) const CERTIFICATES: [&str; 3] =
    ["control-plane-ca.crt", "control-plane.crt", "control-plane.key"];

/// An instance's files and properties, as all parts need them.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) folder: &'a Folder,
    pub(super) instance: &'a Instance,
    pub(super) programs: &'a Programs,
}

impl Setup<'_> {
    /// Returns the path of a file, as text for an argument.
    pub(super) fn file(&self, name: &str) -> String {
        self.folder.file(name).to_string_lossy().into_owned()
    }

    pub(super) fn daemon(&self, name: &str, arguments: Vec<String>) -> Daemon {
        Daemon { name: name.to_owned(), program: self.programs.path(name), arguments }
    }

    fn etcd_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.etcd_ports().0)
    }

    fn etcd_ports(&self) -> (u16, u16) {
        match self.instance.kind {
            Kind::Full { .. } => (2379, 2380),
            Kind::ControlPlane { ports: Ports { etcd, etcd_peer, api: _ } } => (etcd, etcd_peer),
        }
    }

    pub(super) fn etcd(&self) -> Daemon {
        let (client, peer) =
            (self.etcd_url(), format!("https://127.0.0.1:{}", self.etcd_ports().1));
        let [authority, certificate, key] = CERTIFICATES.map(|name| self.file(name));
        self.daemon(
            "etcd",
            options(&[
                ("name", "sandbox"),
                ("data-dir", &self.file("etcd")),
                ("listen-client-urls", &client),
                ("advertise-client-urls", &client),
                ("listen-peer-urls", &peer),
                ("initial-advertise-peer-urls", &peer),
                ("initial-cluster", &format!("sandbox={peer}")),
                ("client-cert-auth", "true"),
                ("trusted-ca-file", &authority),
                ("cert-file", &certificate),
                ("key-file", &key),
                ("peer-client-cert-auth", "true"),
                ("peer-trusted-ca-file", &authority),
                ("peer-cert-file", &certificate),
                ("peer-key-file", &key),
                // An instance does not outlive its machine, so nothing needs to reach the disk.
                ("unsafe-no-fsync", "true"),
                // Room for 10,000 FlinkDeployments with their objects and all versions of five minutes.
                ("quota-backend-bytes", ETCD_BYTES_MAX),
            ]),
        )
    }

    pub(super) fn api_server(&self) -> Daemon {
        let (host, port) = self.instance.kind.api();
        let (signing_key, port) = (self.file("signing.key"), port.to_string());
        let [authority, certificate, key] = CERTIFICATES.map(|name| self.file(name));
        let mut arguments = options(&[
            ("etcd-servers", &self.etcd_url()),
            ("etcd-cafile", &authority),
            ("etcd-certfile", &certificate),
            ("etcd-keyfile", &key),
            ("token-auth-file", &self.file("tokens.csv")),
            ("service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
            ("service-account-signing-key-file", &signing_key),
            ("service-account-key-file", &signing_key),
            ("authorization-mode", "Node,RBAC"),
            ("allow-privileged", "true"),
            ("advertise-address", &host),
            ("cert-dir", &self.file("certificates")),
            ("secure-port", &port),
        ]);
        arguments.extend(match &self.instance.kind {
            Kind::Full { network } => options(&[
                ("service-cluster-ip-range", &network.services()),
                // The node's name is not in DNS.
                ("kubelet-preferred-address-types", "InternalIP"),
                ("kubelet-client-certificate", &certificate),
                ("kubelet-client-key", &key),
            ]),
            Kind::ControlPlane { .. } => options(&[
                ("service-cluster-ip-range", "10.0.0.0/16"),
                ("bind-address", &host),
                // A loopback address is not a usable endpoint.
                ("endpoint-reconciler-type", "none"),
                // Do not throttle programs that are being measured.
                ("max-requests-inflight", "4000"),
                ("max-mutating-requests-inflight", "2000"),
            ]),
        });
        self.daemon("kube-apiserver", arguments)
    }

    pub(super) fn controllers(&self) -> Daemon {
        let mut arguments = options(&[
            ("kubeconfig", &self.kubeconfig("kube-controller-manager")),
            ("service-account-private-key-file", &self.file("signing.key")),
            ("root-ca-file", &self.certificate().to_string_lossy()),
            ("use-service-account-credentials", "true"),
            ("leader-elect", "false"),
            ("secure-port", "0"),
        ]);
        if matches!(self.instance.kind, Kind::ControlPlane { .. }) {
            let few = "garbage-collector-controller,namespace-controller";
            arguments.extend(options(&[
                ("controllers", few),
                // With the default of 20 per second, thousands of deletions would wait for the garbage collector.
                ("kube-api-qps", "2000"),
                ("kube-api-burst", "4000"),
            ]));
        }
        self.daemon("kube-controller-manager", arguments)
    }

    pub(super) fn scheduler(&self) -> Daemon {
        let kubeconfig = self.kubeconfig("kube-scheduler");
        let arguments = options(&[
            ("kubeconfig", &kubeconfig),
            ("leader-elect", "false"),
            ("secure-port", "0"),
        ]);
        self.daemon("kube-scheduler", arguments)
    }

    /// Returns the path of the API server's self-signed certificate.
    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.file("certificates/apiserver.crt")
    }

    /// Returns the path of a part's kubeconfig, which [`Self::write_kubeconfigs`] writes.
    pub(super) fn kubeconfig(&self, part: &str) -> String {
        self.file(&format!("{part}.kubeconfig"))
    }

    /// Creates the tokens, the signing key and the certificates, unless they exist.
    pub(super) async fn make_credentials(&self) -> Result<(), Error> {
        let tokens = self.folder.file("tokens.csv");
        if !tokens.exists() {
            replace(&tokens, &token_file(&self.instance.name, random_token)?)?;
        }
        let key = self.folder.file("signing.key");
        if !key.exists() {
            let program = self.programs.path("signing-key");
            let pem = run(&mut tokio::process::Command::new(program), SHORT).await?;
            replace(&key, &pem)?;
        }
        if CERTIFICATES.iter().any(|name| !self.folder.file(name).exists()) {
            let made = authority::make().map_err(|error| {
                Error::Refused(format!("the sandbox's certificates cannot be made: {error}"))
            })?;
            let authority::Certificates { authority, certificate, key } = made;
            for (name, pem) in CERTIFICATES.iter().zip([authority, certificate, key]) {
                replace(&self.folder.file(name), &pem)?;
            }
        }
        Ok(())
    }

    /// Returns the token of an identity.
    pub(super) fn token(&self, user: &str) -> Result<String, Error> {
        let path = self.folder.file("tokens.csv");
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        let found = text.lines().find_map(|line| {
            let mut fields = line.split(',');
            let token = fields.next()?;
            (fields.nth(1)? == user).then(|| token.to_owned())
        });
        found.ok_or_else(|| {
            Error::Refused(format!("`{}` has no token for `{user}`", path.display()))
        })
    }

    /// Returns the certificate authority in base64.
    pub(super) fn authority(&self) -> Result<String, Error> {
        let path = self.certificate();
        std::fs::read(&path).map(|pem| base64(&pem)).map_err(Error::file("read", &path))
    }

    /// Writes a kubeconfig for each part, and one for people.
    pub(super) fn write_kubeconfigs(&self) -> Result<(), Error> {
        let (authority, server) = (self.authority()?, self.instance.kind.server());
        for user in USERS.iter().map(|(user, ..)| *user).chain([KUBELET]) {
            let entry = Entry {
                name: &self.instance.name,
                server: &server,
                authority: &authority,
                token: &self.token(user)?,
            };
            replace(&self.folder.file(format!("{user}.kubeconfig")), &alone(&entry))?;
        }
        Ok(())
    }

    /// Returns a client with all permissions.
    pub(super) async fn client(&self) -> Result<kube::Client, Error> {
        let server = self.instance.kind.server();
        let entry = Entry {
            name: &self.instance.name,
            server: &server,
            authority: &self.authority()?,
            token: &self.token(ADMIN)?,
        };
        let unusable = |error: kube::config::KubeconfigError| {
            Error::Refused(format!("the sandbox's own kubeconfig cannot be used: {error}"))
        };
        let kubeconfig = kube::config::Kubeconfig::from_yaml(&alone(&entry)).map_err(unusable)?;
        let options = kube::config::KubeConfigOptions::default();
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unusable)?;
        config.connect_timeout = Some(Duration::from_secs(2));
        config.read_timeout = Some(Duration::from_secs(10));
        // The sandbox is on this machine, so no proxy may be used.
        config.proxy_url = None;
        Ok(kube::Client::try_from(config)?)
    }
}

/// Returns `--name=value` for each.
pub(super) fn options(options: &[(&str, &str)]) -> Vec<String> {
    options.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

/// Returns lines of `token,user,uid,groups`; the uid is used to find the token again.
fn token_file(
    node: &str,
    mut token: impl FnMut() -> Result<String, Error>,
) -> Result<String, Error> {
    let node = format!("system:node:{node}");
    let kubelet = (KUBELET, node.as_str(), "system:nodes");
    USERS
        .into_iter()
        .chain([kubelet])
        .map(|(id, user, group)| Ok(format!("{},{user},{id},{group}\n", token()?)))
        .collect()
}

fn random_token() -> Result<String, Error> {
    use std::io::Read;
    let path = std::path::Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::file("read", path))?;
    Ok(hex(&bytes))
}

/// Encodes bytes as Kubernetes does.
fn base64(bytes: &[u8]) -> String {
    let text = serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec()));
    text.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
