//! All ways to reach a JobManager on a real Kubernetes give the same answers.

use std::path::Path;
use std::time::{Duration, Instant};

use api::status::SavepointFormatType;
use clients::flink::{
    Client, Effect, Error,
    access::{Access, Connector, Options, Target},
    jobs::CancelAnswer,
    new_trigger_id,
    savepoints::{SavepointRequest, SavepointStatus},
};

use crate::support::patience::{DEADLINES, PATIENCE};

const NO_JOB: &str = "0123456789abcdef0123456789abcdef";

/// A namespace with a running cluster `cluster_id`, Service `empty-rest` that selects nothing, and Service `deaf-rest`
/// whose target port has no listener.
pub(super) struct Place<'a> {
    pub(super) config: &'a kube::Config,
    pub(super) namespace: &'a str,
    pub(super) cluster_id: &'a str,
}

impl Place<'_> {
    fn client(&self, access: Access) -> Client {
        self.client_of(access, self.cluster_id)
    }

    fn client_of(&self, access: Access, cluster_id: &str) -> Client {
        let options = Options { access, ..Options::default() };
        let target = Target {
            namespace: self.namespace.into(),
            cluster_id: cluster_id.into(),
            port: 8081,
            is_tls: false,
        };
        Connector::new(&options, Some(self.config)).unwrap().client(&target, DEADLINES)
    }
}

/// Asserts everything here except https.
pub(super) async fn all(place: &Place<'_>) {
    for access in [Access::Proxy, Access::PortForward, Access::Auto] {
        same_answers(&place.client(access)).await;
    }
    for cluster_id in ["missing", "empty", "deaf"] {
        nothing_behind_it_is_unreachable(place, Access::Proxy, cluster_id).await;
    }
    nothing_behind_it_is_unreachable(place, Access::PortForward, "missing").await;
    for access in [Access::Proxy, Access::PortForward] {
        jar_goes_up_and_away(&place.client(access)).await;
    }
    port_forward_where_the_proxy_is_forbidden(place).await;
}

/// Waits until Flink answers in the short time that it has for this.
async fn until_up(client: &Client) {
    let begun = Instant::now();
    while !client.is_up().await {
        assert!(begun.elapsed() < PATIENCE, "no JobManager");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn same_answers(client: &Client) {
    until_up(client).await;
    let version = client.config().await.unwrap().flink_version;
    assert!(["1.20.", "2.3."].iter().any(|it| version.starts_with(it)), "{version}");
    assert!(client.jobs_overview().await.unwrap().find(NO_JOB).is_none());
    // PATCH, POST with a body and Flink's own 404 are passed on.
    assert_eq!(client.cancel(NO_JOB).await.unwrap(), CancelAnswer::JobNotFound);
    let missing = client.checkpoints(NO_JOB).await.unwrap_err();
    assert!(missing.is_job_not_found(), "{missing}");
    let request = SavepointRequest {
        target_directory: Some("file:///tmp".into()),
        format: SavepointFormatType::Canonical,
        trigger_id: new_trigger_id(),
    };
    let trigger_id = client.trigger_savepoint(NO_JOB, &request).await.unwrap();
    assert_eq!(trigger_id, request.trigger_id);
    let status = client.savepoint_status(NO_JOB, &new_trigger_id()).await.unwrap();
    assert_eq!(status, SavepointStatus::TriggerLost);
}

async fn nothing_behind_it_is_unreachable(place: &Place<'_>, access: Access, cluster_id: &str) {
    let client = place.client_of(access, cluster_id).without_retries();
    assert!(!client.is_up().await, "{cluster_id}");
    let error = client.cancel(NO_JOB).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{cluster_id}: {error:?}");
    assert_eq!(error.effect(), Effect::Nothing);
    assert!(!error.is_job_not_found());
}

/// Multipart bodies arrive whole: Flink rejects any that does not.
async fn jar_goes_up_and_away(client: &Client) {
    let jar = bytes::Bytes::from(vec![7_u8; 3 << 20]);
    let jar_id = client.upload_jar("access.jar", jar).await.unwrap();
    assert!(jar_id.ends_with("_access.jar"), "{jar_id}");
    assert!(client.delete_jar(&jar_id).await.unwrap());
    assert!(!client.delete_jar(&jar_id).await.unwrap());
}

/// A user who may read pods and forward ports, and nothing else, needs no flag.
///
/// Role and binding `forwarder` of the user `forwarder` must exist.
async fn port_forward_where_the_proxy_is_forbidden(place: &Place<'_>) {
    let mut config = place.config.clone();
    config.auth_info.impersonate = Some("forwarder".into());
    let place = Place { config: &config, ..*place };
    let forbidden = place.client(Access::Proxy).config().await.unwrap_err();
    assert!(matches!(forbidden, Error::Forbidden { status: 403, .. }), "{forbidden:?}");
    assert!(forbidden.to_string().contains("services/proxy"), "{forbidden}");
    let client = place.client(Access::Auto);
    assert!(!client.config().await.unwrap().flink_version.is_empty());
    assert_eq!(client.cancel(NO_JOB).await.unwrap(), CancelAnswer::JobNotFound);
}

/// Reaches a REST endpoint that serves https with its own certificate, which is in `certificate`.
pub(super) async fn https_with_a_certificate_of_its_own(address: &str, certificate: &Path) {
    let client = |certificate_authorities| {
        let rest_address = Some(address.to_owned());
        let options = Options { rest_address, certificate_authorities, ..Options::default() };
        let target = Target {
            namespace: "default".into(),
            cluster_id: "demo".into(),
            port: 8081,
            is_tls: true,
        };
        Connector::new(&options, None).unwrap().client(&target, DEADLINES)
    };
    let trusting = client(Some(certificate.into()));
    assert!(!trusting.config().await.unwrap().flink_version.is_empty());
    let error = client(None).without_retries().config().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}
