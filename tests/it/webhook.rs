//! The admission webhook over TLS on loopback, and replicas that share a certificate.
//!
//! `api_server::webhook` checks what a real API server sends and accepts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Method;
use bytes::Bytes;
use clients::cluster::webhooks::{self, CertificateSecret, SecretName};
use config::label_selector::LabelSelector;
use config::{FlinkConfig, OperatorConfig};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use operator::http::Listener;
use operator::live::Live;
use operator::run::Watch;
use operator::webhook::admit::Jurisdiction;
use operator::webhook::certificate::keep::{Keeper, Source};
use operator::webhook::certificate::{Pair, check, make};
use operator::webhook::serve::serve;
use operator::webhook::{ReviewRules, Webhook};
use operator::{mutator, validator};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use crate::support::fake_cluster::{FakeCluster, Fault};

const HOST: &str = "127.0.0.1";

fn made() -> Pair {
    let none = Pair { certificate: vec![], key: vec![], authority: vec![] };
    make(&[HOST.to_owned()], Timestamp::now(), &none).unwrap()
}

fn sound(pair: &Pair) -> Arc<ServerConfig> {
    check(pair, &[HOST.to_owned()], Timestamp::now()).unwrap().config
}

/// A running webhook.
struct Hook {
    port: u16,
    pair: Pair,
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
    webhook: Arc<Webhook>,
    _task: tokio::task::JoinHandle<()>,
}

impl Hook {
    async fn start(cluster: &FakeCluster, options: &[(&str, &str)]) -> Self {
        let pair = made();
        let (tls, receiver) = watch::channel(Some(sound(&pair)));
        let operator = OperatorConfig::new(options.iter().copied().collect::<FlinkConfig>());
        let validators = validator::configured(&operator.base).unwrap();
        let mutators = mutator::configured(&operator.base).unwrap();
        let rules = ReviewRules::new(Jurisdiction::default(), validators, mutators);
        let live = Arc::new(Live::new(operator));
        let webhook = Arc::new(Webhook::new(cluster.client(), live, rules));
        let listener = Listener::open(0).await.unwrap();
        let port = listener.port().unwrap();
        let task = tokio::spawn(serve(listener, receiver, Arc::clone(&webhook)));
        Self { port, pair, tls, webhook, _task: task }
    }

    /// Opens a connection that trusts only the authority of `pair`.
    async fn connect(&self, pair: &Pair) -> std::io::Result<SendRequest<Full<Bytes>>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(
            CertificateDer::pem_slice_iter(&pair.authority).map(Result::unwrap),
        );
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect((HOST, self.port)).await?;
        let name = ServerName::try_from(HOST).unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn ask(&self, path: &str, body: Vec<u8>) -> (u16, String) {
        let mut sender = self.connect(&self.pair).await.unwrap();
        sent(&mut sender, "POST", path, body).await
    }

    /// Returns the response to a review of `object`.
    async fn review(&self, path: &str, object: &Value) -> Value {
        let (status, text) = self.ask(path, review(object)).await;
        assert_eq!(status, 200, "{text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["response"]["uid"], "7");
        answer["response"].clone()
    }
}

async fn sent(
    sender: &mut SendRequest<Full<Bytes>>,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> (u16, String) {
    let request = http::Request::builder()
        .method(method)
        // As the API server sends it.
        .uri(format!("{path}?timeout=10s"))
        .header("host", HOST)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    sender.ready().await.unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn review(object: &Value) -> Vec<u8> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7",
            "kind": {"group": "flink.apache.org", "version": "v1beta1", "kind": object["kind"]},
            "namespace": "shop",
            "operation": "CREATE",
            "object": object,
            "oldObject": null,
        },
    });
    review.to_string().into_bytes()
}

fn deployment() -> Value {
    serde_json::from_str(include_str!("../reviews/deployment.json")).unwrap()
}

fn session_job() -> Value {
    let text = include_str!("../reviews/session-job.json");
    let mut job: Value = serde_json::from_str(text).unwrap();
    job["spec"]["deploymentName"] = json!("wordcount");
    job
}

#[tokio::test]
async fn a_review_is_answered_with_what_the_cluster_knows() {
    let cluster = FakeCluster::new();
    let hook = Hook::start(&cluster, &[]).await;
    assert_eq!(hook.review("/validate", &deployment()).await["allowed"], true);
    let alone = hook.review("/validate", &session_job()).await;
    assert_eq!(alone, json!({"uid": "7", "allowed": true}), "its cluster may come later");
    cluster.insert(deployment());
    let refused = hook.review("/validate", &session_job()).await;
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(message.contains("`wordcount` is an application cluster"), "{message}");
    cluster.fail(Method::GET, "flinkdeployments", Fault::Status(500), 1);
    let unknown = hook.review("/validate", &session_job()).await;
    assert_eq!(unknown["allowed"], true, "the operator checks it again: {unknown}");
    assert!(unknown["warnings"][0].as_str().unwrap().contains("session cluster"), "{unknown}");
    assert!(cluster.writes().is_empty(), "a review changes nothing");
}

#[tokio::test]
async fn rules_and_mutators_of_the_configuration_count() {
    let options = [
        (
            "kubernetes.operator.plugins.validators.size.expression",
            "!has(object.spec.job) || object.spec.job.parallelism <= 1",
        ),
        ("kubernetes.operator.plugins.validators.size.field", "spec.job.parallelism"),
        ("kubernetes.operator.plugins.validators.size.message", "must be 1 or less"),
        (
            "kubernetes.operator.plugins.mutators.team.expression",
            "{'metadata': {'labels': {'team': 'data'}}}",
        ),
    ];
    let hook = Hook::start(&FakeCluster::new(), &options).await;
    let refused = hook.review("/validate", &deployment()).await;
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(message.contains("spec.job.parallelism: must be 1 or less"), "{message}");
    let changed = hook.review("/mutate", &session_job()).await;
    let patch: k8s_openapi::ByteString = serde_json::from_value(changed["patch"].clone()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
    let mut object = session_job();
    json_patch::patch(&mut object, &patch).unwrap();
    let labels = json!({"team": "data", "target.session": "wordcount"});
    assert_eq!(object["metadata"]["labels"], labels);
    let mut again = hook.review("/mutate", &object).await;
    assert_eq!(again["patch"].take(), Value::Null, "what is so is not changed");
}

#[tokio::test]
async fn what_is_operated_elsewhere_is_let_pass_unseen() {
    let cluster = FakeCluster::new();
    let hook = Hook::start(&cluster, &[]).await;
    let mut bad = deployment();
    bad["spec"]["job"]["parallelism"] = json!(0);
    assert_eq!(hook.review("/validate", &bad).await["allowed"], false);
    let elsewhere = |namespace: &str, selector: Option<&str>| Jurisdiction {
        watch: Watch::Namespaces(vec![namespace.to_owned()]),
        selector: selector.map(|text| LabelSelector::parse(text).unwrap()),
    };
    hook.webhook.move_to(elsewhere("fraud", None));
    assert_eq!(hook.review("/validate", &bad).await, json!({"uid": "7", "allowed": true}));
    assert_eq!(hook.review("/mutate", &session_job()).await["patch"], Value::Null);
    hook.webhook.move_to(elsewhere("shop", Some("team=data")));
    assert_eq!(hook.review("/validate", &bad).await["allowed"], true);
    bad["metadata"]["labels"] = json!({"team": "data"});
    assert_eq!(hook.review("/validate", &bad).await["allowed"], false);

    // The owner of a snapshot is that of its job.
    let mut snapshot = json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
        "metadata": {"name": "before-release", "namespace": "shop"},
        "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "wordcount"}},
    });
    assert_eq!(hook.review("/validate", &snapshot).await["allowed"], false, "it says no kind");
    cluster.insert(deployment());
    assert_eq!(hook.review("/validate", &snapshot).await["allowed"], true);
    let mut ours = deployment();
    ours["metadata"] = json!({"name": "ours", "namespace": "shop", "labels": {"team": "data"}});
    cluster.insert(ours);
    snapshot["spec"]["jobReference"]["name"] = json!("ours");
    assert_eq!(hook.review("/validate", &snapshot).await["allowed"], false);
}

#[tokio::test]
async fn a_mutator_that_hangs_and_is_not_needed_refuses_nothing() {
    let prefix = "kubernetes.operator.plugins.mutators";
    // It accepts connections, but never answers.
    let silent = Listener::open(0).await.unwrap();
    let url = format!("http://{HOST}:{}/", silent.port().unwrap());
    let options = [
        (format!("{prefix}.a.url"), url),
        (format!("{prefix}.a.failure-policy"), "Ignore".to_owned()),
        (format!("{prefix}.a.timeout"), "60 s".to_owned()),
        (format!("{prefix}.b.expression"), "{'metadata': {'labels': {'b': 'c'}}}".to_owned()),
    ];
    let options: Vec<(&str, &str)> =
        options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let hook = Hook::start(&FakeCluster::new(), &options).await;
    let start = Instant::now();
    let changed = hook.review("/mutate", &deployment()).await;
    assert_eq!(changed["allowed"], true, "{changed}");
    assert!(changed["warnings"][0].as_str().unwrap().contains("mutator `a` is skipped"));
    assert_ne!(changed["patch"], Value::Null, "the other one had its turn");
    // It would not have been allowed if it had taken longer than the API server waits.
    println!("answered after {:?}", start.elapsed());
}

#[tokio::test]
async fn what_is_no_review_is_reported_and_holds_up_nobody() {
    let hook = Hook::start(&FakeCluster::new(), &[]).await;
    assert_eq!(hook.ask("/validate", b"{".to_vec()).await.0, 400);
    assert_eq!(hook.ask("/validate", vec![b' '; (4 << 20) + 1]).await.0, 413);
    let (status, text) = hook.ask("/elsewhere", vec![]).await;
    assert_eq!((status, text.as_str()), (404, "not found; available: /validate /mutate\n"));
    let mut sender = hook.connect(&hook.pair).await.unwrap();
    assert_eq!(sent(&mut sender, "GET", "/validate", vec![]).await.0, 405);
    // One connection serves several reviews in sequence.
    for _ in 0..3 {
        assert_eq!(sent(&mut sender, "POST", "/validate", review(&deployment())).await.0, 200);
    }
    // Clients that connect and send nothing.
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect((HOST, hook.port)).await.unwrap());
    }
    assert_eq!(hook.review("/validate", &deployment()).await["allowed"], true);
}

#[tokio::test]
async fn a_new_certificate_counts_from_the_next_connection_on() {
    let hook = Hook::start(&FakeCluster::new(), &[]).await;
    let mut open = hook.connect(&hook.pair).await.unwrap();
    let next = made();
    assert!(hook.connect(&next).await.is_err(), "it is another one's");
    hook.tls.send_replace(Some(sound(&next)));
    assert_eq!(sent(&mut open, "POST", "/validate", review(&deployment())).await.0, 200);
    let mut fresh = hook.connect(&next).await.unwrap();
    assert_eq!(sent(&mut fresh, "POST", "/validate", review(&deployment())).await.0, 200);
    assert!(hook.connect(&hook.pair).await.is_err());
}

const SECRET: &str = "kubectl-flink-operator-webhook";
const CONFIGURATION: &str = "flink-operator-kubectl-flink-operator-webhook";

/// Returns a cluster as an installation leaves it.
fn installed() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.insert(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": SECRET, "namespace": "flink-operator"},
    }));
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        cluster.insert(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": CONFIGURATION},
            "webhooks": [{"name": "a", "clientConfig": {"service": {"name": "s"}}}],
        }));
    }
    cluster
}

fn replica(cluster: &FakeCluster) -> (Keeper, watch::Receiver<Option<Arc<ServerConfig>>>) {
    let secret = SecretName { namespace: "flink-operator".to_owned(), name: SECRET.to_owned() };
    let source = Source::Own { secret, configuration: Some(CONFIGURATION.to_owned()) };
    Keeper::new(cluster.client(), source, vec!["hook.flink-operator.svc".to_owned()])
}

fn stored(cluster: &FakeCluster, name: &str) -> String {
    let secret = cluster.object("secrets", "flink-operator", SECRET).unwrap();
    secret["data"][name].as_str().unwrap_or_default().to_owned()
}

fn trusted(cluster: &FakeCluster) -> Vec<String> {
    ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"]
        .map(|kind| {
            let stored = cluster.object(kind, "", CONFIGURATION).unwrap();
            stored["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap().to_owned()
        })
        .into()
}

#[tokio::test]
async fn replicas_share_one_certificate_and_renew_it_together() {
    let cluster = installed();
    let ((mut one, one_tls), (mut other, other_tls)) = (replica(&cluster), replica(&cluster));
    let now = Timestamp::now();
    let (first, second) = tokio::join!(one.inspect(now), other.inspect(now));
    first.unwrap();
    second.unwrap();
    assert!(one_tls.borrow().is_some() && other_tls.borrow().is_some());
    assert_eq!(trusted(&cluster), [stored(&cluster, "ca.crt"), stored(&cluster, "ca.crt")]);

    cluster.forget_requests();
    one.inspect(now).await.unwrap();
    other.inspect(now).await.unwrap();
    assert!(cluster.writes().is_empty(), "at rest nothing is written: {:?}", cluster.writes());

    let (certificate, authority) = (stored(&cluster, "tls.crt"), stored(&cluster, "ca.crt"));
    let former = one_tls.borrow().clone().unwrap();
    let later = now + Duration::from_hours(300 * 24);
    let (first, second) = tokio::join!(one.inspect(later), other.inspect(later));
    first.unwrap();
    second.unwrap();
    assert!(Arc::ptr_eq(&former, one_tls.borrow().as_ref().unwrap()), "API servers see it first");
    let settled = later + Duration::from_mins(1);
    let (first, second) = tokio::join!(one.inspect(settled), other.inspect(settled));
    first.unwrap();
    second.unwrap();
    assert!(!Arc::ptr_eq(&former, one_tls.borrow().as_ref().unwrap()));
    assert_ne!(stored(&cluster, "tls.crt"), certificate);
    assert_ne!(stored(&cluster, "ca.crt"), authority);
    assert_eq!(trusted(&cluster), [stored(&cluster, "ca.crt"), stored(&cluster, "ca.crt")]);
}

#[tokio::test]
async fn a_certificate_that_nobody_trusts_yet_replaces_none_that_they_do() {
    let cluster = installed();
    let (mut keeper, tls) = replica(&cluster);
    let now = Timestamp::now();
    keeper.inspect(now).await.unwrap();
    let in_use = tls.borrow().clone().unwrap();
    cluster.fail(Method::PATCH, "webhookconfigurations", Fault::Status(403), 1);
    let later = now + Duration::from_hours(300 * 24);
    let told = keeper.inspect(later).await.unwrap_err().to_string();
    assert!(told.contains(CONFIGURATION) && told.contains("does not trust the webhook"), "{told}");
    assert!(Arc::ptr_eq(&in_use, tls.borrow().as_ref().unwrap()));
    keeper.inspect(later).await.unwrap();
    keeper.inspect(later + Duration::from_mins(1)).await.unwrap();
    assert!(!Arc::ptr_eq(&in_use, tls.borrow().as_ref().unwrap()));
}

#[tokio::test]
async fn a_slow_replica_takes_no_trust_back() {
    let cluster = installed();
    let (mut keeper, _tls) = replica(&cluster);
    let now = Timestamp::now();
    keeper.inspect(now).await.unwrap();
    let secret = SecretName { namespace: "flink-operator".to_owned(), name: SECRET.to_owned() };
    let stored = webhooks::read(&cluster.client(), &secret).await.unwrap().unwrap();
    let former = stored.get(CertificateSecret::AUTHORITY);
    keeper.inspect(now + Duration::from_hours(300 * 24)).await.unwrap();
    let renewed = trusted(&cluster);
    // It read the Secret before the other one wrote it.
    let slow = webhooks::trust(&cluster.client(), CONFIGURATION, &secret, &former).await;
    assert!(!slow.unwrap(), "it has to look again");
    assert_eq!(trusted(&cluster), renewed);
}

#[tokio::test]
async fn what_keeps_the_secret_from_being_written_is_reported() {
    let cluster = installed();
    let (mut keeper, tls) = replica(&cluster);
    let forbidden = "secrets \"kubectl-flink-operator-webhook\" is forbidden: User \"u\" cannot update resource \"secrets\" in API group \"\" in the namespace \"flink-operator\"";
    cluster.refuse(Method::PUT, "secrets", 403, forbidden);
    let told = keeper.inspect(Timestamp::now()).await.unwrap_err().to_string();
    assert!(told.contains("flink-operator/kubectl-flink-operator-webhook"), "{told}");
    assert!(told.contains("cannot update secrets"), "{told}");
    assert!(tls.borrow().is_none());
}

/// Prints how fast reviews are answered: two hundred per second, spread over sixteen connections, each at its own time,
/// so that a slow answer does not delay the following ones.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures: cargo test --test it webhook::two_hundred -- --ignored --nocapture"]
async fn two_hundred_reviews_a_second() {
    const A_SECOND: u32 = 200;
    const SECONDS: u32 = 10;
    let cluster = FakeCluster::new();
    let hook = Arc::new(Hook::start(&cluster, &[]).await);
    let start = Instant::now() + Duration::from_millis(100);
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..16 {
        let hook = Arc::clone(&hook);
        lanes.spawn(async move {
            let mut sender = hook.connect(&hook.pair).await.unwrap();
            let mut taken = Vec::new();
            for number in (lane..A_SECOND * SECONDS).step_by(16) {
                let due = start + Duration::from_secs(1) / A_SECOND * number;
                tokio::time::sleep_until(due.into()).await;
                let (path, object) = match number % 4 {
                    0 => ("/mutate", session_job()),
                    1 => ("/validate", session_job()),
                    2 => ("/mutate", deployment()),
                    _ => ("/validate", deployment()),
                };
                let (status, text) = sent(&mut sender, "POST", path, review(&object)).await;
                assert_eq!(status, 200, "{text}");
                // Measured from when it was due, so that queueing is included.
                taken.push(due.elapsed());
            }
            taken
        });
    }
    let mut taken: Vec<Duration> = lanes.join_all().await.into_iter().flatten().collect();
    taken.sort();
    let at = |percent: usize| taken[(taken.len() - 1) * percent / 100];
    println!(
        "webhook: {} reviews at {A_SECOND} a second: half within {:?}, 99 % within {:?}, all within {:?}",
        taken.len(),
        at(50),
        at(99),
        at(100)
    );
    assert_eq!(taken.len(), (A_SECOND * SECONDS) as usize);
}
