//! How to reach a JobManager: by Service DNS from inside the cluster, from anywhere else through
//! the Kubernetes API server.

use std::{fmt, time::Duration};

use super::{
    client::{Answer, Call, Client, Deadlines},
    error::Error,
};

pub(super) mod direct;

/// The way that requests take.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Access {
    /// By Service DNS inside the cluster, else through the API server.
    #[default]
    Auto,
    /// Straight to `<id>-rest.<namespace>`.
    Service,
}

/// What the connector needs to know of the process.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub access: Access,
    /// `host:port` that stands for every cluster's REST endpoint; the `Host` header still names
    /// the cluster.
    pub rest_address: Option<String>,
    /// Lines `Name:value` to add to every request: the environment's `FLINK_REST_CLIENT_HEADERS`.
    pub extra_headers: String,
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
    /// The Service in front of the JobManager.
    pub fn service(&self) -> String {
        format!("{}-rest", self.cluster_id)
    }
}

/// Makes clients that share one connection pool.
#[derive(Clone)]
pub struct Connector {
    http: reqwest::Client,
    rest_address: Option<String>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("rest_address", &self.rest_address)
            .finish_non_exhaustive()
    }
}

impl Connector {
    /// A connector for this process; make one.
    pub fn new(options: &Options, _kubernetes: Option<kube::Client>) -> Result<Self, Error> {
        let headers = direct::parse_headers(&options.extra_headers)?;
        Ok(Self { http: direct::pool(headers)?, rest_address: options.rest_address.clone() })
    }

    /// A client of the JobManager at `target`.
    pub fn client(&self, target: &Target, deadlines: Deadlines) -> Client {
        let direct = direct::Direct::of(self.http.clone(), target, self.rest_address.as_deref());
        Client::new(Route::Direct(direct), deadlines)
    }
}

/// The way to one JobManager.
#[derive(Debug)]
pub(super) enum Route {
    Direct(direct::Direct),
}

impl Route {
    pub(super) async fn exchange(&self, call: &Call, within: Duration) -> Result<Answer, Error> {
        match self {
            Self::Direct(direct) => direct.exchange(call, within).await,
        }
    }

    pub(super) async fn is_up(&self, within: Duration) -> bool {
        match self {
            Self::Direct(direct) => direct.is_up(within).await,
        }
    }
}
