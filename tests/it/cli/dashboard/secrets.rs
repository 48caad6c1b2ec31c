//! What goes to others has no secrets: the program runs with secrets under every name of the corpus in every free text of
//! a spec and of what others say about its job, and everything that comes out is searched for them.

use std::io::Read;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::post;
use serde::Deserialize;
use serde_json::Value;
use testing::scene::{JOB_ID, Scene};
use tokio::net::TcpListener;

use super::*;
use crate::cli::commands::run;
use crate::support::operating::{insert_job_manager_of, with_status};

const SECRET: &str = "hunter2hunter2hunter2";

#[derive(Deserialize)]
struct Corpus {
    secret_names: Vec<String>,
    secret_texts: Vec<Value>,
}

impl Corpus {
    fn read() -> Self {
        let text = include_str!("../../../../crates/config/src/secret/corpus.yaml");
        serde_yaml::from_str(text).unwrap()
    }

    /// Returns the texts with the secret.
    fn texts(&self) -> impl Iterator<Item = String> {
        let text = |it: &Value| it["text"].as_str().or(it.as_str()).unwrap().replace("{}", SECRET);
        self.secret_texts.iter().map(text)
    }
}

/// Returns the scene's resource with secrets in its spec.
fn planted(scene: Scene, corpus: &Corpus) -> Scene {
    let mut scene = scene;
    for name in &corpus.secret_names {
        // Such options are for the operator's own configuration.
        if !name.starts_with("kubernetes.operator.") && !name.starts_with("high-availability") {
            scene = scene.option(name, SECRET);
        }
    }
    for (index, text) in corpus.texts().enumerate() {
        scene = scene.option(&format!("orders.note{index}"), &text);
    }
    let env: Vec<Value> = corpus
        .secret_names
        .iter()
        .map(|name| json!({"name": name, "value": SECRET}))
        .chain(
            corpus
                .texts()
                .enumerate()
                .map(|(index, text)| json!({"name": format!("NOTE_{index}"), "value": text})),
        )
        .collect();
    let args: Vec<String> = corpus
        .secret_names
        .iter()
        .flat_map(|name| [format!("--{name}"), SECRET.to_owned(), format!("--{name}={SECRET}")])
        .chain(corpus.texts())
        .collect();
    let notes: serde_json::Map<String, Value> = corpus
        .texts()
        .enumerate()
        .map(|(index, text)| (format!("note{index}"), json!(text)))
        .collect();
    let template = json!({
        "metadata": {"annotations": notes},
        "spec": {"containers": [{"name": "flink-main-container", "env": env, "args": args}]},
    });
    scene
        .edit(|spec| {
            // An earlier version refuses arguments of several lines.
            spec.flink_version = Some(api::version::FlinkVersion::V2_0);
            spec.pod_template = Some(serde_json::from_value(template).unwrap());
        })
        .edit_job(|job| job.args = args)
}

/// Keeps what is posted to it, and agrees with everything.
async fn endpoint() -> (String, Arc<Mutex<String>>) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/told", server.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(String::new()));
    let keep = Arc::clone(&heard);
    let answer = async move |body: String| {
        keep.lock().unwrap().push_str(&body);
        axum::Json(json!({"allowed": true}))
    };
    let router = Router::new().route("/told", post(answer));
    tokio::spawn(async move { axum::serve(server, router).await });
    (url, heard)
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    if let Some(at) = text.find("hunter2") {
        let from = text.floor_char_boundary(at.saturating_sub(300));
        panic!("{what}: …{}", &text[from..text.ceil_char_boundary((at + 60).min(text.len()))]);
    }
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one operator, and everything that comes out of it")]
async fn nothing_that_comes_out_has_a_secret() {
    let corpus = Corpus::read();
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let mut job = Job::running(JOB_ID, flink.now() - 60_000);
    let texts = corpus.texts().collect::<Vec<_>>();
    // A pass asks for the last twenty.
    let texts = texts.chunks(4).map(|texts| texts.join("\n")).collect::<Vec<_>>();
    for (index, text) in texts.iter().cloned().enumerate() {
        let at = flink.now() - 1_000 + i64::try_from(index).unwrap();
        job.exceptions.insert(0, ("java.lang.Boom".to_owned(), text, at));
    }
    flink.with("shop/orders", |cluster| cluster.jobs.insert(JOB_ID.to_owned(), job));
    let cluster = FakeCluster::new();
    // First it has run for an hour with secrets in its spec, and then they change.
    let scene = planted(Scene::new("stateless"), &corpus);
    let mut before = Scene::running("stateless");
    before.resource = scene.resource.clone();
    before.store(api::job::JobState::Running, api::job::UpgradeMode::Stateless);
    let stable = before.status.reconciliation_status.last_reconciled_spec.clone();
    before.status.reconciliation_status.last_stable_spec = stable;
    let mut resource = with_status(&before.resource, &before.status);
    let spec = resource["spec"].to_string().replace(SECRET, "hunter2hunter2hunter3");
    resource["spec"] = serde_json::from_str(&spec).unwrap();
    resource["metadata"]["generation"] = json!(2);
    insert_job_manager_of(&cluster, &before.resource);
    cluster.insert(resource);
    let refusal = corpus.texts().filter(|text| !text.contains(['"', '\''])).collect::<Vec<_>>();
    let refusal = Fault::Refused(403, format!("exceeded quota: {}", refusal.join("\n")));
    cluster.fail(Method::POST, "/deployments", refusal, usize::MAX);

    let ((listener, heard), (validator, judged)) = (endpoint().await, endpoint().await);
    let folder = tempfile::tempdir().unwrap();
    let options = "kubernetes.operator.plugins";
    let config = format!(
        "{options}.listeners.a.url: {listener}\n{options}.validators.a.url: {validator}\n\
         kubernetes.operator.events.exceptions.limit-per-reconciliation: 1000\n\
         kubernetes.operator.events.exceptions.stacktrace-lines: 1000\n\
         kubernetes.operator.exception.stacktrace.enabled: true\n\
         kubernetes.operator.reconcile.interval: 1 s\n"
    );
    std::fs::write(folder.path().join("config.yaml"), config).unwrap();
    let kubeconfig = reach(&cluster).await;
    let mut command = Command::from(program());
    command.args([
        "operate",
        "-A",
        "--log-format",
        "json",
        "--flink-rest-address",
        flink.address(),
    ]);
    command.arg("--operator-config").arg(folder.path()).env("KUBECONFIG", kubeconfig.path());
    command.env("KUBECTL_FLINK_LOG", "debug").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut operator = command.spawn().unwrap();
    let mut log = operator.stderr.take().unwrap();
    let log = tokio::spawn(async move {
        let mut text = String::new();
        log.read_to_string(&mut text).await.unwrap();
        text
    });
    let is_reported = || {
        let resource = cluster.object("flinkdeployments", "shop", "orders").unwrap();
        let events = cluster.objects("events");
        let of = |reason: &str| events.iter().filter(|event| event["reason"] == reason).count();
        resource["status"]["error"].as_str().is_some_and(|error| error.contains("quota"))
            && of("JobException") >= texts.len()
            && !judged.lock().unwrap().is_empty()
            && heard.lock().unwrap().contains("lastReconciledSpec")
    };
    let all_told = async {
        while !is_reported() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = timeout(PATIENCE, all_told).await.is_ok();
    // Nothing is written again and again because what is stored is not what was meant.
    let at_rest = async {
        loop {
            cluster.forget_requests();
            tokio::time::sleep(Duration::from_secs(3)).await;
            if !cluster.writes().iter().any(|it| it.uri.contains("/status")) {
                break;
            }
        }
    };
    let rests = timeout(PATIENCE, at_rest).await.is_ok();
    kill_process(
        Pid::from_raw(i32::try_from(operator.id().unwrap()).unwrap()).unwrap(),
        Signal::TERM,
    )
    .unwrap();
    let log = log.await.unwrap();
    let mut resource = cluster.object("flinkdeployments", "shop", "orders").unwrap();
    let events = json!(cluster.objects("events")).to_string();
    assert!(in_time, "{}\n{events}\n{log}", resource["status"]);
    assert!(rests, "statuses are written at rest");

    assert_clean("events", &events);
    assert!(log.contains("decided"), "{log}");
    assert_clean("log", &log);
    assert_clean("listener", &heard.lock().unwrap());
    assert_clean("validator", &judged.lock().unwrap());
    let recorded = resource["status"]["reconciliationStatus"].take().to_string();
    assert!(recorded.contains("hunter2"), "a rollback needs the recorded specs");
    assert_clean("status", &resource["status"].to_string());

    for line in
        ["events orders -n shop", "why orders -n shop", "status orders -n shop", "list -n shop"]
    {
        let ran = run(&cluster, Some(flink.address().to_owned()), line).await;
        assert_clean(line, &format!("{}{}{:?}", ran.output, ran.error, ran.failure));
    }
    let file = folder.path().join("report.zip");
    let line = format!("report orders -n shop --file {}", file.display());
    run(&cluster, Some(flink.address().to_owned()), &line).await.succeeded();
    let mut archive = zip::ZipArchive::new(std::fs::File::open(&file).unwrap()).unwrap();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        assert_clean(&format!("report: {}", entry.name().unwrap()), &text);
    }

    let shown =
        Shown::behind(cluster, Behind { flink: flink.address().to_owned(), ..Behind::default() })
            .await;
    let cookie = shown.cookie().await;
    for path in [
        "/",
        "/in/shop/deployment/orders",
        "/in/shop/deployment/orders/config",
        "/in/shop/deployment/orders/logs",
    ] {
        // A page says that it loads until what it shows has been listed.
        let has_loaded = async {
            loop {
                let page = shown.get(path).header(COOKIE, &cookie).send().await.unwrap();
                let page = page.text().await.unwrap();
                assert_clean(path, &page);
                if page.contains("orders") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(timeout(PATIENCE, has_loaded).await.is_ok(), "{path} does not show the job");
    }
}

/// Neither by escape sequences nor by single control characters.
#[tokio::test]
async fn what_a_cluster_says_cannot_control_the_terminal() {
    let cluster = crate::cli::commands::cluster();
    let now = jiff::Timestamp::now();
    cluster.insert(json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "FlinkDeployment", "name": "wordcount", "namespace": "default"},
        "type": "Warning", "reason": "Boom", "message": "a\u{9b}2Jb\u{7}c\u{8}d\u{202e}e", "count": 1,
        "firstTimestamp": now.to_string(), "lastTimestamp": now.to_string(),
    }));
    let ran = run(&cluster, None, "events wordcount").await.succeeded();
    assert!(ran.output.contains("a2Jbcde"), "{:?}", ran.output);
    assert!(!ran.output.contains(|it: char| it.is_control() && it != '\n'), "{:?}", ran.output);
}
