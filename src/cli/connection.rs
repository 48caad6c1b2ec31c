//! Turns kubectl's connection flags into a client, once a command needs one.
//!
//! The flags are written into the kubeconfig before it is resolved, so that they combine with exec plugins,
//! certificates and proxies exactly as in kubectl.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use kube::config::{
    AuthInfo, Cluster, Config, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster,
    NamedContext,
};

use super::args::Global;
use super::failure::Failure;
use clients::cluster::read::Scope;

/// How long a connection attempt may take before the cluster is considered unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Name of the generated context, cluster and user when the flags need no kubeconfig.
const FLAGS: &str = "flags";

/// A client and the namespace that commands work in.
#[derive(Clone)]
pub struct Connection {
    pub client: Client,
    /// From `--namespace`, the context, or `default`.
    pub namespace: String,
    /// How to reach the API server; `None` if the caller created the client.
    pub config: Option<Config>,
    /// `host:port` that replaces the JobManager of every cluster, for tests.
    pub rest_address: Option<String>,
    /// True if the connection acts for someone other than the user of this process. Calls of JobManagers then ignore
    /// this process's environment.
    pub is_lent: bool,
}

impl Connection {
    /// Returns the namespaces that a command covers, with or without `--all-namespaces`.
    pub fn scope(&self, all_namespaces: bool) -> Scope<'_> {
        if all_namespaces { Scope::AllNamespaces } else { Scope::Namespace(&self.namespace) }
    }
}

impl Global {
    /// Connects according to the flags and the kubeconfig. Sends no request yet.
    pub async fn connect(&self) -> anyhow::Result<Connection> {
        if let Some(connection) = &self.connection {
            let mut connection = connection.clone();
            if let Some(namespace) = &self.namespace {
                connection.namespace.clone_from(namespace);
            }
            return Ok(connection);
        }
        let config = self.config().await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config.clone()).context("while preparing the connection")?;
        Ok(Connection {
            client,
            namespace,
            config: Some(config),
            rest_address: None,
            is_lent: false,
        })
    }

    /// Resolves the configuration.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let mut config = match self.kubeconfig()? {
            Some(kubeconfig) => self.resolve(kubeconfig).await?,
            None => Config::incluster_env().context("while reading the pod's service account")?,
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        if let Some(timeout) = self.request_timeout {
            config.read_timeout = (!timeout.is_zero()).then_some(timeout);
            if let Some(read) = config.read_timeout {
                config.connect_timeout = Some(read.min(CONNECT_TIMEOUT));
            }
        }
        Ok(config)
    }

    /// Returns the name of the context in use; `None` if flags or a service account replace it.
    pub fn context_name(&self) -> Option<String> {
        let current = || self.kubeconfig().ok().flatten()?.current_context;
        self.context.clone().or_else(current).filter(|name| !name.is_empty() && name != FLAGS)
    }

    /// Returns the names of the contexts in the kubeconfig.
    pub fn context_names(&self) -> anyhow::Result<Vec<String>> {
        let contexts = self.kubeconfig()?.map(|kubeconfig| kubeconfig.contexts).unwrap_or_default();
        Ok(contexts.into_iter().map(|named| named.name).collect())
    }

    /// Returns the kubeconfig; `None` if the pod's service account applies.
    fn kubeconfig(&self) -> anyhow::Result<Option<Kubeconfig>> {
        if let Some(path) = &self.kubeconfig {
            return read(path).map(Some);
        }
        let paths = default_paths();
        let mut merged: Option<Kubeconfig> = None;
        // Like kubectl, skip paths in KUBECONFIG that do not exist.
        for path in paths.iter().filter(|path| path.exists()) {
            let kubeconfig = read(path)?;
            merged = Some(match merged {
                None => kubeconfig,
                Some(first) => {
                    first.merge(kubeconfig).context("while merging the files in KUBECONFIG")?
                }
            });
        }
        if merged.is_some() {
            return Ok(merged);
        }
        if self.server.is_some() {
            return Ok(Some(Kubeconfig::default()));
        }
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
            return Ok(None);
        }
        let looked_at =
            paths.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ");
        Err(Failure::new(format!("no kubeconfig: {looked_at} does not exist"))
            .hint("name one with --kubeconfig or KUBECONFIG, or start your own cluster: kubectl flink sandbox up")
            .into())
    }

    /// Applies the flags to the kubeconfig and resolves the context.
    async fn resolve(&self, mut kubeconfig: Kubeconfig) -> anyhow::Result<Config> {
        if kubeconfig.contexts.is_empty() && self.server.is_some() && self.context.is_none() {
            add_empty_context(&mut kubeconfig);
        }
        let context_name = self.context.clone().or_else(|| kubeconfig.current_context.clone());
        let Some(context_name) = context_name.filter(|name| !name.is_empty()) else {
            return Err(Failure::new("the kubeconfig has no current context")
                .hint("choose one with --context NAME, or: kubectl config use-context NAME")
                .into());
        };
        let Some(context) = kubeconfig
            .contexts
            .iter()
            .find(|named| named.name == context_name)
            .and_then(|named| named.context.clone())
        else {
            let known = kubeconfig
                .contexts
                .iter()
                .map(|named| format!("`{}`", named.name))
                .collect::<Vec<_>>();
            return Err(Failure::new(format!("context `{context_name}` is not in the kubeconfig"))
                .hint(if known.is_empty() {
                    "the kubeconfig has no contexts".to_owned()
                } else {
                    format!("its contexts are {}", known.join(", "))
                })
                .into());
        };
        let cluster_name = self.cluster.clone().unwrap_or(context.cluster);
        let user_name = self.user.clone().or(context.user);
        if let Some(cluster) = kubeconfig
            .clusters
            .iter_mut()
            .find(|named| named.name == cluster_name)
            .and_then(|named| named.cluster.as_mut())
        {
            self.override_cluster(cluster);
        }
        let user_name = user_name.unwrap_or_else(|| {
            kubeconfig.auth_infos.push(named_user(FLAGS));
            FLAGS.to_owned()
        });
        if let Some(user) = kubeconfig
            .auth_infos
            .iter_mut()
            .find(|named| named.name == user_name)
            .and_then(|named| named.auth_info.as_mut())
        {
            self.override_user(user);
        } else if self.user.is_some() {
            return Err(Failure::new(format!("user `{user_name}` is not in the kubeconfig")).into());
        }
        let options = KubeConfigOptions {
            context: Some(context_name),
            cluster: Some(cluster_name),
            user: Some(user_name),
        };
        Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| Failure::new(format!("the kubeconfig cannot be used: {error}")).into())
    }

    /// Applies `--server`, `--certificate-authority` and `--insecure-skip-tls-verify`.
    fn override_cluster(&self, cluster: &mut Cluster) {
        if let Some(server) = &self.server {
            cluster.server = Some(if server.contains("://") {
                server.clone()
            } else {
                format!("http://{server}")
            });
        }
        if let Some(path) = &self.certificate_authority {
            cluster.certificate_authority = Some(path.to_string_lossy().into_owned());
            cluster.certificate_authority_data = None;
        }
        if self.insecure_skip_tls_verify {
            cluster.insecure_skip_tls_verify = Some(true);
            cluster.certificate_authority = None;
            cluster.certificate_authority_data = None;
        }
    }

    /// Applies `--token`, `--as` and `--as-group`.
    fn override_user(&self, user: &mut AuthInfo) {
        if let Some(token) = &self.token {
            // A token on the command line replaces all other credentials.
            *user = AuthInfo {
                token: Some(token.clone().into()),
                impersonate: user.impersonate.take(),
                impersonate_groups: user.impersonate_groups.take(),
                ..AuthInfo::default()
            };
        }
        if let Some(impersonate) = &self.impersonate {
            user.impersonate = Some(impersonate.clone());
        }
        if !self.impersonate_groups.is_empty() {
            user.impersonate_groups = Some(self.impersonate_groups.clone());
        }
    }
}

/// Reads one kubeconfig file.
fn read(path: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read_from(path).map_err(|error| match error {
        kube::config::KubeconfigError::ReadConfig(source, path) => {
            Failure::new(format!("kubeconfig `{}` cannot be read: {source}", path.display()))
                .hint("name another with --kubeconfig or KUBECONFIG")
                .into()
        }
        other => {
            Failure::new(format!("kubeconfig `{}` cannot be used: {other}", path.display())).into()
        }
    })
}

/// Returns the paths that kubectl reads: `KUBECONFIG`, else `~/.kube/config`.
fn default_paths() -> Vec<PathBuf> {
    match std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
        Some(value) => {
            std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
        }
        None => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
    }
}

/// Adds a context for flags that need no kubeconfig, such as `--server` with `--token`.
fn add_empty_context(kubeconfig: &mut Kubeconfig) {
    kubeconfig.clusters.push(NamedCluster {
        name: FLAGS.to_owned(),
        cluster: Some(Cluster::default()),
        ..NamedCluster::default()
    });
    kubeconfig.auth_infos.push(named_user(FLAGS));
    kubeconfig.contexts.push(NamedContext {
        name: FLAGS.to_owned(),
        context: Some(kube::config::Context {
            cluster: FLAGS.to_owned(),
            user: Some(FLAGS.to_owned()),
            ..kube::config::Context::default()
        }),
        ..NamedContext::default()
    });
    kubeconfig.current_context = Some(FLAGS.to_owned());
}

fn named_user(name: &str) -> NamedAuthInfo {
    NamedAuthInfo {
        name: name.to_owned(),
        auth_info: Some(AuthInfo::default()),
        ..NamedAuthInfo::default()
    }
}

#[cfg(test)]
mod tests;
