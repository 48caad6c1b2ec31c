//! Every way to a JobManager on a real Kubernetes gives the same answers.
//!
//! Needs a kubeconfig, and `KUBECTL_FLINK_TEST_NAMESPACE` with: Service `demo-rest` in front of a
//! JobManager (pod labels `app=demo,component=jobmanager`), Service `empty-rest` that selects
//! nothing, and Service `deaf-rest` whose target port nobody listens on.

use kubectl_flink::{
    api::status::SavepointFormatType,
    flink::{
        Client, Deadlines, Effect, Error,
        access::{Access, Connector, Options, Target},
        jobs::CancelAnswer,
        new_trigger_id,
        savepoints::{SavepointRequest, SavepointStatus},
    },
};

const NO_JOB: &str = "0123456789abcdef0123456789abcdef";

async fn client(access: Access, cluster_id: &str) -> Client {
    client_with(access, cluster_id, &kube::Config::infer().await.unwrap())
}

fn client_with(access: Access, cluster_id: &str, config: &kube::Config) -> Client {
    let options = Options { access, ..Options::default() };
    let target = Target {
        namespace: std::env::var("KUBECTL_FLINK_TEST_NAMESPACE").unwrap(),
        cluster_id: cluster_id.into(),
        port: 8081,
        is_tls: false,
    };
    let deadlines =
        Deadlines { request: std::time::Duration::from_secs(5), ..Deadlines::default() };
    Connector::new(&options, Some(config)).unwrap().client(&target, deadlines)
}

async fn same_answers(access: Access) {
    let client = client(access, "demo").await;
    assert!(client.is_up().await);
    assert!(client.config().await.unwrap().flink_version.starts_with("1.20"));
    assert!(client.jobs_overview().await.unwrap().find(NO_JOB).is_none());
    // PATCH, POST with a body and Flink's own 404 come through.
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

async fn nothing_behind_it_is_unreachable(access: Access, cluster_id: &str) {
    let client = client(access, cluster_id).await.without_retries();
    assert!(!client.is_up().await, "{cluster_id}");
    let error = client.cancel(NO_JOB).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{cluster_id}: {error:?}");
    assert_eq!(error.effect(), Effect::Nothing);
    assert!(!error.is_job_not_found());
}

#[tokio::test]
#[ignore = "needs a real Flink on Kubernetes"]
async fn service_proxy() {
    same_answers(Access::Proxy).await;
    for cluster_id in ["missing", "empty", "deaf"] {
        nothing_behind_it_is_unreachable(Access::Proxy, cluster_id).await;
    }
}

#[tokio::test]
#[ignore = "needs a real Flink on Kubernetes"]
async fn port_forward() {
    same_answers(Access::PortForward).await;
    nothing_behind_it_is_unreachable(Access::PortForward, "missing").await;
}

#[tokio::test]
#[ignore = "needs a real Flink on Kubernetes"]
async fn automatic() {
    same_answers(Access::Auto).await;
}

/// Multipart bodies come through whole: Flink refuses any that is not.
async fn jar_goes_up_and_away(access: Access) {
    let client = client(access, "demo").await;
    let jar = bytes::Bytes::from(vec![7_u8; 3 << 20]);
    let jar_id = client.upload_jar("access.jar", jar).await.unwrap();
    assert!(jar_id.ends_with("_access.jar"), "{jar_id}");
    assert!(client.delete_jar(&jar_id).await.unwrap());
    assert!(!client.delete_jar(&jar_id).await.unwrap());
}

#[tokio::test]
#[ignore = "needs a real Flink on Kubernetes"]
async fn jars_through_the_proxy_and_the_port_forward() {
    jar_goes_up_and_away(Access::Proxy).await;
    jar_goes_up_and_away(Access::PortForward).await;
}

/// A user who may read pods and forward ports, and nothing else, needs no flag.
///
/// Role and binding `forwarder` of the user `forwarder` have to be there.
#[tokio::test]
#[ignore = "needs a real Flink on Kubernetes"]
async fn port_forward_where_the_proxy_is_forbidden() {
    let as_forwarder = |access| async move {
        let mut config = kube::Config::infer().await.unwrap();
        config.auth_info.impersonate = Some("forwarder".into());
        client_with(access, "demo", &config)
    };
    let forbidden = as_forwarder(Access::Proxy).await.config().await.unwrap_err();
    assert!(matches!(forbidden, Error::Forbidden { status: 403, .. }), "{forbidden:?}");
    assert!(forbidden.to_string().contains("services/proxy"), "{forbidden}");
    let client = as_forwarder(Access::Auto).await;
    assert!(!client.config().await.unwrap().flink_version.is_empty());
    assert_eq!(client.cancel(NO_JOB).await.unwrap(), CancelAnswer::JobNotFound);
}

/// `KUBECTL_FLINK_TEST_FLINK_TLS` is `host:port` of a REST endpoint that serves https with a
/// certificate of its own, which is in the file `KUBECTL_FLINK_TEST_FLINK_TLS_CERTIFICATE`.
#[tokio::test]
#[ignore = "needs a real Flink with TLS"]
async fn https_with_a_certificate_of_its_own() {
    let certificate = std::env::var("KUBECTL_FLINK_TEST_FLINK_TLS_CERTIFICATE").unwrap();
    let client = |certificate_authorities| {
        let rest_address = std::env::var("KUBECTL_FLINK_TEST_FLINK_TLS").ok();
        let options = Options { rest_address, certificate_authorities, ..Options::default() };
        let target = Target {
            namespace: "default".into(),
            cluster_id: "demo".into(),
            port: 8081,
            is_tls: true,
        };
        Connector::new(&options, None).unwrap().client(&target, Deadlines::default())
    };
    let trusting = client(Some(certificate.into()));
    assert!(!trusting.config().await.unwrap().flink_version.is_empty());
    let error = client(None).without_retries().config().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}
