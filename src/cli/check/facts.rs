//! Observation of the facts, concurrently and with time limits. Nothing is written: creating an access review only
//! returns an answer.

use std::time::Duration;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};

use crate::cli::connection::Connection;
use crate::cli::operators::{self, Installed, Leading};
use crate::cli::permissions::{self, Right};
use api::deployment::FlinkDeployment;
use clients::cluster::access;
use clients::cluster::apply::OPERATOR_MANAGER;
use clients::cluster::read::{self, Scope};
use clients::cluster::{self, crds};

/// Maximum number of concurrent access reviews.
const REVIEWERS: usize = 16;
/// Time after which a fact is considered unknown.
const PATIENCE: Duration = Duration::from_secs(10);

/// All observed facts, with an error for each that could not be read.
pub(super) struct Facts {
    pub(super) is_pre: bool,
    pub(super) namespace: String,
    /// The version, such as `v1.34.2`, with its major and minor number.
    pub(super) version: (String, u32, u32),
    pub(super) crds: cluster::Result<Vec<Crd>>,
    /// Rights that the commands need, and whether they are granted.
    pub(super) rights: Vec<(Right, cluster::Result<bool>)>,
    pub(super) operators: cluster::Result<Vec<Installed>>,
    pub(super) leading: cluster::Result<Vec<Leading>>,
    pub(super) handled: cluster::Result<Handled>,
    pub(super) webhooks: cluster::Result<Vec<Webhook>>,
    /// Names of storage classes, and whether each is the default.
    pub(super) storage: cluster::Result<Vec<(String, bool)>>,
    /// Whether the service account for jobs that `init` creates exists.
    pub(super) service_account: cluster::Result<bool>,
}

/// One of the project's resource definitions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Crd {
    pub(super) name: String,
    pub(super) state: crds::Drift,
}

/// Signs, in the deployments of the namespace, of an operator that is neither installed nor holds a Lease.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Handled {
    pub(super) deployments: usize,
    /// Number of those whose status is about their current spec.
    pub(super) current: usize,
    /// Seconds since an operator of this program last wrote one of them, if one ever did.
    pub(super) age_seconds: Option<i64>,
}

/// A webhook of an operator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Webhook {
    pub(super) name: String,
    /// `namespace/service` of the service that answers; `None` for a URL.
    pub(super) service: Option<String>,
    /// Whether the webhook has a CA bundle for the API server to trust.
    pub(super) has_authority: bool,
}

/// Observes everything. Fails only if no API server answers.
pub(super) async fn observe(connection: &Connection, is_pre: bool) -> anyhow::Result<Facts> {
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    let info = client.apiserver_version().await.map_err(cluster::Error::from)?;
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_default()
    };
    let version = (info.git_version.clone(), number(&info.major), number(&info.minor));
    let now = Timestamp::now();
    let (crds, rights, operators, leading, handled, webhooks, storage, service_account) = tokio::join!(
        timely(definitions(client)),
        rights(connection, is_pre),
        timely(operators::installed(client)),
        timely(operators::leading(client, now)),
        timely(handled(client, namespace, now)),
        timely(webhooks(client)),
        timely(storage(client)),
        timely(async {
            Ok(read::get::<ServiceAccount>(client, namespace, "flink").await?.is_some())
        }),
    );
    Ok(Facts {
        is_pre,
        namespace: namespace.to_owned(),
        version,
        crds,
        rights,
        operators,
        leading,
        handled,
        webhooks,
        storage,
        service_account,
    })
}

async fn timely<T>(fact: impl Future<Output = cluster::Result<T>>) -> cluster::Result<T> {
    tokio::time::timeout(PATIENCE, fact).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} s", PATIENCE.as_secs());
        Err(cluster::Error::Unreachable { message })
    })
}

async fn definitions(client: &kube::Client) -> cluster::Result<Vec<Crd>> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let mut found = Vec::new();
    for wanted in crds::for_server(client).await? {
        let name = wanted.metadata.name.clone().unwrap_or_default();
        let present = api.get_opt(&name).await?;
        found.push(Crd { state: crds::drift(present.as_ref(), &wanted), name });
    }
    Ok(found)
}

async fn rights(connection: &Connection, is_pre: bool) -> Vec<(Right, cluster::Result<bool>)> {
    let wanted = if is_pre { permissions::to_install() } else { permissions::to_use() };
    stream::iter(wanted)
        .map(|right| async move {
            let namespace = if right.is_cluster_wide { "" } else { connection.namespace.as_str() };
            let may = timely(access::may(&connection.client, namespace, right.operation)).await;
            (right, may)
        })
        .buffered(REVIEWERS)
        .collect()
        .await
}

async fn handled(
    client: &kube::Client,
    namespace: &str,
    now: Timestamp,
) -> cluster::Result<Handled> {
    let all = read::list::<FlinkDeployment>(client, Scope::Namespace(namespace), None).await?;
    let is_current = |one: &&FlinkDeployment| {
        let observed = one.status.as_ref().and_then(|status| status.observed_generation);
        observed.is_some() && observed == one.metadata.generation
    };
    let writes = all.iter().flat_map(|one| one.metadata.managed_fields.iter().flatten());
    let ours = writes.filter(|it| it.manager.as_deref() == Some(OPERATOR_MANAGER));
    let last = ours.filter_map(|it| it.time.as_ref().map(|at| at.0)).max();
    Ok(Handled {
        deployments: all.len(),
        current: all.iter().filter(is_current).count(),
        age_seconds: last.map(|at| now.as_second() - at.as_second()),
    })
}

async fn webhooks(client: &kube::Client) -> cluster::Result<Vec<Webhook>> {
    let api = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let all = api.list(&ListParams::default().limit(500)).await?;
    let mut found = Vec::new();
    for configuration in all.items {
        for webhook in configuration.webhooks.unwrap_or_default() {
            let is_ours = webhook
                .rules
                .iter()
                .flatten()
                .any(|rule| rule.api_groups.iter().flatten().any(|group| group == api::GROUP));
            if !is_ours {
                continue;
            }
            let config = webhook.client_config;
            let service = config.service.map(|it| format!("{}/{}", it.namespace, it.name));
            found.push(Webhook {
                name: webhook.name,
                service,
                has_authority: config.ca_bundle.is_some_and(|bundle| !bundle.0.is_empty()),
            });
        }
    }
    Ok(found)
}

async fn storage(client: &kube::Client) -> cluster::Result<Vec<(String, bool)>> {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let all =
        Api::<StorageClass>::all(client.clone()).list(&ListParams::default().limit(500)).await?;
    Ok(all
        .items
        .into_iter()
        .map(|class| {
            let annotations = class.metadata.annotations.unwrap_or_default();
            let is_default = annotations.get(DEFAULT).is_some_and(|value| value == "true");
            (class.metadata.name.unwrap_or_default(), is_default)
        })
        .collect())
}
