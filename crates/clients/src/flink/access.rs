//! How to reach a JobManager: by Service DNS from inside the cluster, otherwise through the Kubernetes API server.
//!
//! Whatever is between us and Flink, only Flink's own responses are used as responses: a missing Service, a pod that
//! does not listen or a gateway's page are [`Error::Unreachable`], [`Error::Disconnected`] or [`Error::NotFlink`], and
//! never a missing job.
//!
//! kube logs every response with status 500 and above as an error of its own (target `kube_client::client::builder`),
//! even if a JobManager is not up yet: programs filter that.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::HeaderMap;

use super::{
    client::{Answer, Call, Client, Deadlines, Page, Payload},
    error::Error,
    triggers::Triggers,
};
use crate::fence::Fence;
use metrics::traffic::Traffic;

pub(super) mod direct;
mod front;
mod port_forward;
mod proxy;
mod secure;

/// Maximum size of a response in bytes. `/jobs/overview` of 10,000 session jobs takes 4 MiB.
pub(super) const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Size in bytes of bodies that may be in memory without waiting for a turn.
const SMALL_BYTES_MAX: u64 = 1 << 20;

/// Maximum time to connect to an endpoint.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);

/// A cluster's address outlives its pods: idle connections are dropped before the usual reconcile interval has passed,
/// so that the next reconcile reaches the current pod.
const POOL_IDLE: Duration = Duration::from_secs(10);

/// How requests reach a JobManager.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Access {
    /// By Service DNS inside the cluster, otherwise through the API server.
    #[default]
    Auto,
    /// Directly, by the Service's DNS name.
    Service,
    /// Through the API server's service proxy (permission: `services/proxy`).
    Proxy,
    /// Through a port-forward to a ready JobManager pod (permission: `pods/portforward`).
    PortForward,
}

/// The settings that the connector takes from the process.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub access: Access,
    /// `host:port` used instead of every cluster's Service; the `Host` header still names the cluster. Implies
    /// [`Access::Service`].
    pub rest_address: Option<String>,
    /// Lines `Name:value` to add to every request, from the environment's `FLINK_REST_CLIENT_HEADERS`.
    pub extra_headers: String,
    /// File of certificates (PEM) to trust besides the system's if Flink serves https, from the environment's
    /// `FLINK_REST_CA_FILE`.
    pub certificate_authorities: Option<PathBuf>,
    /// Folder of a mounted TLS Secret for Flink that serves https: `ca.crt` is trusted as well, and `tls.crt` and
    /// `tls.key` identify this process. Read again when it changes. From the environment's `FLINK_REST_TLS_DIR`.
    pub tls_folder: Option<PathBuf>,
    /// Accepts only certificates of these authorities, whatever host they name, as Flink's own client does: the
    /// environment's `FLINK_REST_CHECK_HOST_NAME=false`.
    pub ignores_host_name: bool,
}

impl Options {
    /// Returns the options with the headers and certificates that the environment names.
    pub fn from_environment(access: Access, rest_address: Option<String>) -> Self {
        let extra_headers = std::env::var("FLINK_REST_CLIENT_HEADERS").unwrap_or_default();
        let path = |variable: &str| {
            std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
        };
        Self {
            access,
            rest_address,
            extra_headers,
            certificate_authorities: path("FLINK_REST_CA_FILE"),
            tls_folder: path("FLINK_REST_TLS_DIR"),
            ignores_host_name: std::env::var("FLINK_REST_CHECK_HOST_NAME")
                .is_ok_and(|text| text.trim().eq_ignore_ascii_case("false")),
        }
    }
}

/// One cluster's REST endpoint.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Target {
    pub namespace: String,
    /// `kubernetes.cluster-id`: the name of the `FlinkDeployment`.
    pub cluster_id: String,
    /// `rest.port`.
    pub port: u16,
    /// `security.ssl.rest.enabled`.
    pub is_tls: bool,
}

impl Target {
    /// Returns the name of the Service in front of the JobManager.
    pub fn service(&self) -> String {
        format!("{}-rest", self.cluster_id)
    }
}

/// A REST endpoint in pods without a Service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodPort {
    pub namespace: String,
    /// Selects the pods; a ready one is used.
    pub labels: String,
    pub port: u16,
}

/// Creates clients that share one connection pool.
#[derive(Clone)]
pub struct Connector {
    access: Access,
    pools: Arc<direct::Pools>,
    rest_address: Option<String>,
    headers: HeaderMap,
    kubernetes: Option<kube::Client>,
    services: Option<kube::Client>,
    triggers: Triggers,
    fence: Fence,
    traffic: Traffic,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("access", &self.access).finish_non_exhaustive()
    }
}

impl Connector {
    /// Creates the connector of this process; create only one, inside a Tokio runtime.
    ///
    /// `kubernetes` describes how to reach the API server; without it there is only [`Access::Service`].
    pub fn new(options: &Options, kubernetes: Option<&kube::Config>) -> Result<Self, Error> {
        let Options { access, rest_address, extra_headers, .. } = options;
        let is_inside = kubernetes.is_none_or(is_inside);
        let access = match access {
            Access::Auto if rest_address.is_some() || is_inside => Access::Service,
            Access::Proxy | Access::PortForward if kubernetes.is_none() => {
                return Err(Error::Invalid {
                    problem: "no Kubernetes API server to reach Flink through".into(),
                });
            }
            other => *other,
        };
        let headers = direct::parse_headers(extra_headers)?;
        let secure = secure::Secure::of(options, headers.clone())?;
        let kubernetes = match access {
            Access::Service => None,
            Access::Auto | Access::Proxy | Access::PortForward => {
                kubernetes.map(kubernetes_client).transpose()?
            }
        };
        Ok(Self {
            access,
            pools: Arc::new(direct::Pools::new(&headers, secure)?),
            rest_address: rest_address.clone(),
            headers,
            kubernetes,
            services: None,
            triggers: Triggers::default(),
            fence: Fence::default(),
            traffic: Traffic::default(),
        })
    }

    /// Returns the connector with clients whose requests are counted in `traffic`.
    #[must_use]
    pub fn counted(self, traffic: Traffic) -> Self {
        Self { traffic, ..self }
    }

    /// Returns the connector with clients that make changes only while `fence` is open.
    #[must_use]
    pub fn behind(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// Returns the connector with clients that check a cluster's Service before they change anything through it: for a
    /// process that reaches JobManagers of many people, who do not reach those of each other. Such a client is for one
    /// pass.
    #[must_use]
    pub fn checking_services(self, kubernetes: kube::Client) -> Self {
        Self { services: Some(kubernetes), ..self }
    }

    /// Returns a client of the REST endpoint at `base_url`, on any host, without Kubernetes.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn at(&self, base_url: &str, deadlines: Deadlines) -> Result<Client, Error> {
        let route = Route::Direct(direct::Direct::with(&self.pools, base_url)?);
        let (triggers, fence) = (self.triggers.clone(), self.fence.clone());
        Ok(Client::new(route, deadlines, triggers, fence, self.traffic.clone()))
    }

    /// Returns a client of the endpoint in the pods at `to`, through a port-forward.
    ///
    /// # Errors
    /// If the connector has no Kubernetes API server.
    pub fn pod_client(&self, to: &PodPort, deadlines: Deadlines) -> Result<Client, Error> {
        let Some(kubernetes) = &self.kubernetes else {
            return Err(Error::Invalid {
                problem: "no Kubernetes API server to reach the pod through".into(),
            });
        };
        let forward = port_forward::PortForward::to_pods(kubernetes.clone(), to, &HeaderMap::new());
        let fence = self.fence.of(&to.namespace);
        let route = Route::PortForward(Box::new(forward));
        Ok(Client::new(route, deadlines, self.triggers.clone(), fence, self.traffic.clone()))
    }

    /// Returns a client of the JobManager at `target`.
    pub fn client(&self, target: &Target, deadlines: Deadlines) -> Client {
        let proxy = |kubernetes: &kube::Client| {
            proxy::Proxy::new(kubernetes.clone(), target, &self.headers)
        };
        let forward = |kubernetes: &kube::Client| {
            port_forward::PortForward::new(kubernetes.clone(), target, &self.headers)
        };
        let route = match (self.access, &self.kubernetes) {
            (Access::Service, _) | (_, None) => {
                let (address, services) = (self.rest_address.as_deref(), self.services.as_ref());
                Route::Direct(direct::Direct::of(&self.pools, target, address, services))
            }
            (Access::Proxy, Some(kubernetes)) => Route::Proxy(proxy(kubernetes)),
            (Access::PortForward, Some(kubernetes)) => {
                Route::PortForward(Box::new(forward(kubernetes)))
            }
            (Access::Auto, Some(kubernetes)) => Route::ProxyElsePortForward(Box::new(Fallback {
                proxy: proxy(kubernetes),
                forward: forward(kubernetes),
                is_forwarding: AtomicBool::new(false),
            })),
        };
        Client::new(
            route,
            deadlines,
            self.triggers.clone(),
            self.fence.of(&target.namespace),
            self.traffic.clone(),
        )
    }
}

/// Returns whether this process runs inside the cluster that `config` points to.
///
/// A pod with a kubeconfig of another cluster is not inside: the same Service name may exist here too, and belong to
/// another job.
pub fn is_inside(config: &kube::Config) -> bool {
    let Ok(host) = std::env::var("KUBERNETES_SERVICE_HOST") else { return false };
    let host = host.trim_matches(['[', ']']);
    let server = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
    !host.is_empty() && (server == host || server == "kubernetes.default.svc")
}

/// Returns a separate client without retries of its own: only the caller knows which calls may be repeated.
fn kubernetes_client(config: &kube::Config) -> Result<kube::Client, Error> {
    direct::install_tls_provider();
    let mut config = config.clone();
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_DEADLINE);
    kube::Client::try_from(config).map_err(|error| Error::Invalid {
        problem: format!("Kubernetes client: {}", direct::innermost(&error)),
    })
}

/// The route to one JobManager.
#[derive(Debug)]
pub(super) enum Route {
    Direct(direct::Direct),
    Proxy(proxy::Proxy),
    PortForward(Box<port_forward::PortForward>),
    ProxyElsePortForward(Box<Fallback>),
}

/// The proxy until it refuses access or the size of a body; the port-forward from then on.
#[derive(Debug)]
pub(super) struct Fallback {
    proxy: proxy::Proxy,
    forward: port_forward::PortForward,
    is_forwarding: AtomicBool,
}

impl Fallback {
    async fn exchange(&self, call: &Call, within: Duration) -> Result<Answer, Error> {
        let Self { proxy, forward, is_forwarding } = self;
        if is_forwarding.load(Ordering::Relaxed) {
            return forward.exchange(call, within).await;
        }
        let refusal = match proxy.exchange(call, within).await {
            // In both cases the request has not reached Flink, so it may be sent again.
            Err(error @ Error::Forbidden { .. }) => error,
            Ok(answer) if answer.status == 413 && !answer.is_flinks() => answer.not_flink(call),
            other => return other,
        };
        self.instead_of(refusal, forward.exchange(call, within)).await
    }

    async fn pass(&self, call: &Call, within: Duration) -> Result<Page, Error> {
        let Self { proxy, forward, is_forwarding } = self;
        if is_forwarding.load(Ordering::Relaxed) {
            return forward.pass(call, within).await;
        }
        // A streamed body can be sent only once, and the proxy would hold it in memory.
        if matches!(call.payload, Payload::Stream { .. }) && !forward.is_tls() {
            return match forward.pass(call, within).await {
                // It has not been taken.
                Err(Error::Forbidden { .. }) => proxy.pass(call, within).await,
                other => other,
            };
        }
        let refusal = match proxy.pass(call, within).await {
            Err(error @ Error::Forbidden { .. }) => error,
            other => return other,
        };
        self.instead_of(refusal, forward.pass(call, within)).await
    }

    /// Returns what the port-forward does after the proxy's refusal, and stays with it unless that is refused, too.
    async fn instead_of<T>(
        &self,
        refusal: Error,
        forwarding: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tracing::debug!(%refusal, "trying a port-forward instead");
        match forwarding.await {
            Err(Error::Forbidden { .. }) => Err(refusal),
            other => {
                self.is_forwarding.store(true, Ordering::Relaxed);
                other
            }
        }
    }
}

impl Route {
    /// Passes a request on. The head of the response must come within `within`.
    pub(super) async fn pass(&self, call: &Call, within: Duration) -> Result<Page, Error> {
        match self {
            Self::Direct(direct) => {
                let passing = Box::pin(direct.pass(call, within));
                call.in_time(within, || true, passing).await
            }
            Self::Proxy(proxy) => proxy.pass(call, within).await,
            Self::PortForward(forward) => forward.pass(call, within).await,
            Self::ProxyElsePortForward(fallback) => fallback.pass(call, within).await,
        }
    }

    pub(super) async fn exchange(&self, call: &Call, within: Duration) -> Result<Answer, Error> {
        match self {
            Self::Direct(direct) => direct.exchange(call, within).await,
            Self::Proxy(proxy) => proxy.exchange(call, within).await,
            Self::PortForward(forward) => forward.exchange(call, within).await,
            Self::ProxyElsePortForward(fallback) => fallback.exchange(call, within).await,
        }
    }

    /// Returns whether something listens: a connection to the port succeeds, or Flink sends any response.
    pub(super) async fn is_up(&self, within: Duration) -> bool {
        if let Self::Direct(direct) = self {
            return direct.is_up(within).await;
        }
        let call = Call::new(http::Method::GET, "/config".into());
        match self.exchange(&call, within).await {
            Ok(answer) => answer.status == 200 || answer.is_flinks(),
            Err(_) => false,
        }
    }
}
