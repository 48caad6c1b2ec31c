//! Rules in the operator's configuration that affect the autoscaler's decisions, with a real endpoint.

use std::sync::{Arc, Mutex};

use autoscaler::plugin::rules::Rules;
use autoscaler::simulation::model::Model;
use autoscaler::simulation::simulate;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use config::FlinkConfig;
use config::file::parse_config_yaml;
use serde_json::{Value, json};
use testing::sources::path;
use tokio::net::TcpListener;

use crate::autoscaler::{events, flink, parallelism, run, scene, state, with_load};
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::load::{SOURCE, WINDOW};
use crate::support::operating::Operating;

/// Status and body of an answer.
type Answer = (u16, String);

/// An endpoint with a changeable answer, and the requests it received.
#[derive(Clone)]
struct Endpoint {
    url: String,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Endpoint {
    async fn start(status: u16, answer: &str) -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://127.0.0.1:{}/", server.local_addr().unwrap().port());
        let answer = Arc::new(Mutex::new((status, answer.to_owned())));
        let endpoint = Self { url, answer, asked: Arc::default() };
        let Self { answer, asked, .. } = endpoint.clone();
        let take = async move |body: String| {
            asked.lock().unwrap().push(serde_json::from_str(&body).unwrap());
            let (status, text) = answer.lock().unwrap().clone();
            if status == 0 {
                std::future::pending::<()>().await;
            }
            (StatusCode::from_u16(status).unwrap(), text)
        };
        let router = Router::new().route("/", post(take));
        tokio::spawn(async move { axum::serve(server, router).await });
        endpoint
    }

    fn answers(&self, status: u16, answer: &str) {
        *self.answer.lock().unwrap() = (status, answer.to_owned());
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn is_reported(reason: &'static str, part: String) -> impl Fn(&FakeCluster) -> Option<Value> {
    move |cluster| {
        let all = events(cluster, reason);
        all.into_iter().find(|event| event["message"].as_str().unwrap().contains(&part))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_decided_without_the_answer_of_an_executor() {
    let endpoint = Endpoint::start(500, "hush").await;
    let url = &endpoint.url;
    let config = format!(
        "kubernetes.operator.plugins.executors.cap.url: {url}?token=hush\n\
         kubernetes.operator.plugins.executors.cap.headers: x-token:hush\n\
         kubernetes.operator.plugins.executors.cap.timeout: 300 ms\n"
    );
    let operating = Operating::start_ruled(flink().await, &config);
    let scene = scene(&[
        ("job.autoscaler.scaling.custom-executors", "cap"),
        ("job.autoscaler.scaling.custom-executor.cap.password", "hush"),
        ("job.autoscaler.scaling.custom-executor.cap.team", "shop"),
    ]);
    run(&operating, &scene, 100.0);
    let unanswered = [
        (500, "hush", "it answered 500".to_owned()),
        (200, "<html>hush", "its answer is not JSON".to_owned()),
        (0, "", "it took longer than 300ms".to_owned()),
        (200, "null", "its answer is not `true`, `false`, a text, or an object".to_owned()),
        (200, r#"{"x": 3}"#, "there is no vertex `x` that can be scaled now".to_owned()),
        (200, &format!(r#"{{"{SOURCE}": NaN}}"#), "its answer is not JSON".to_owned()),
        (
            200,
            &format!(r#"{{"{SOURCE}": 100000}}"#),
            format!("vertex `{SOURCE}`: parallelism 100000 is not between"),
        ),
    ];
    for (status, answer, why) in unanswered {
        endpoint.answers(status, answer);
        let event = operating
            .until(
                &why,
                is_reported("AutoscalerError", format!("executor `cap` gives no answer: {why}")),
            )
            .await;
        assert_eq!(event["involvedObject"]["name"].as_str(), Some("orders"), "{event}");
    }
    endpoint.answers(200, r#""not on Fridays, token=hush""#);
    let refused = is_reported("ScalingVetoed", "refuses the decision: not on Fridays".to_owned());
    operating.until("it is refused", refused).await;
    assert_eq!(with_load(&operating, |load| load.changes), 0);
    assert_eq!(state(&operating.cluster).unwrap().state.overrides.len(), 0);

    endpoint.answers(200, &json!({ SOURCE: 5, WINDOW: 6 }).to_string());
    operating.until("it is scaled", |_| (parallelism(&operating) == (5, 6)).then_some(())).await;
    let request = endpoint.asked.lock().unwrap().pop().unwrap();
    assert_eq!(request["kind"], "executor");
    assert_eq!(
        (&request["job"]["namespace"], &request["job"]["name"]),
        (&json!("shop"), &json!("orders"))
    );
    assert_eq!(request["parameters"]["team"], "shop");
    assert!(request["vertices"][SOURCE]["metrics"]["TARGET_DATA_RATE"]["average"].is_f64());
    assert!(request["scalings"][WINDOW]["new"].is_u64(), "{request}");
    assert!(!request.to_string().contains("hush"), "{request}");
    let told = operating.cluster.objects("events");
    assert!(!json!(told).to_string().contains("hush"), "{told:#?}");
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evaluator_and_an_alignment_mode_are_asked_about_each_vertex() {
    let endpoint = Endpoint::start(200, "").await;
    let config = format!(
        "kubernetes.operator.plugins.evaluators.mine.url: {}\n\
         kubernetes.operator.plugins.alignments.even.expression: \
         alignment.target % 2 == 0 ? null : alignment.target + 1\n",
        endpoint.url
    );
    let operating = Operating::start_ruled(flink().await, &config);
    let scene = scene(&[
        ("job.autoscaler.metrics.custom-evaluators", "mine"),
        ("job.autoscaler.scaling.parallelism-alignment.mode", "even"),
    ]);
    run(&operating, &scene, 28.0);
    operating.until("it is asked", |_| (endpoint.asked() >= 6).then_some(())).await;
    assert_eq!(with_load(&operating, |load| load.changes), 0, "what was measured is enough");
    // The window, which reads from the source, is evaluated too.
    let asked: Vec<Value> = endpoint.asked.lock().unwrap().clone();
    let of = |id: &str| asked.iter().find(|request| request["vertex"]["id"] == id).unwrap();
    assert_eq!(of(SOURCE)["inputs"], json!({}));
    assert!(of(WINDOW)["inputs"][SOURCE]["TARGET_DATA_RATE"]["average"].is_f64());

    endpoint.answers(200, r#"{"TARGET_DATA_RATE": -1}"#);
    let why = "`TARGET_DATA_RATE` is not a number of zero or more".to_owned();
    operating.until("it is no figure", is_reported("AutoscalerError", why)).await;
    assert_eq!(with_load(&operating, |load| load.changes), 0);

    // 80 records per second at 70 percent of 40 each need 3; the next even number is 4.
    endpoint.answers(200, r#"{"TARGET_DATA_RATE": 80, "CATCH_UP_DATA_RATE": 0}"#);
    operating.until("it is scaled", |_| (parallelism(&operating) == (4, 4)).then_some(())).await;
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_names_what_nobody_defines_is_not_scaled_and_shown_what_to_define() {
    let operating = Operating::start_ruled(flink().await, "");
    // A job cannot define rules, because anyone who may edit it could have the operator call any address.
    let scene = scene(&[
        ("job.autoscaler.metrics.custom-evaluators", "mine"),
        ("kubernetes.operator.plugins.evaluators.mine.expression", "null"),
    ]);
    run(&operating, &scene, 100.0);
    let why = "set `kubernetes.operator.plugins.evaluators.mine.expression` or `….url`".to_owned();
    operating.until("it is told", is_reported("AutoscalerError", why)).await;
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(with_load(&operating, |load| load.changes), 0);
    operating.stop().await;
}

/// The example of the page, applied to a job on paper.
#[test]
fn the_rules_of_the_page_do_what_they_say() {
    let page = std::fs::read_to_string(path("docs/autoscaler.md")).unwrap();
    let begin = page.find("# The operator's configuration\n").expect("the example begins");
    let example = &page[begin..begin + page[begin..].find("```").unwrap()];
    let (operators, job) = example.split_once("# The job's\n").unwrap();
    let rules = Rules::read(&parse_config_yaml(operators).unwrap()).unwrap();
    let model = "
rate: [{at: 0 s, records: 4000}]
duration: 1 h
vertices:
- {name: source, recordsPerSubtask: 2000, partitions: 60}
- {name: sink, recordsPerSubtask: 1000, inputs: [{from: source, ship: HASH}]}
";
    let model = Model::read(model).unwrap();
    let trace = |config: &FlinkConfig| {
        let settings = autoscaler::settings::Settings::read(config).unwrap();
        rules.check(&settings).unwrap();
        let start = "2026-01-01T00:00:00Z".parse().unwrap();
        simulate(&model, &settings, config, start, &rules).unwrap().trace
    };
    let mut config = parse_config_yaml(job).unwrap();
    let scaled = trace(&config);
    let [decision] = scaled.decisions.as_slice() else { panic!("{:#?}", scaled.decisions) };
    let changes: Vec<_> = decision.changes.iter().map(|(id, of)| (id.as_str(), of.new)).collect();
    // 50000 records per second instead of 4000: the next lower divisors of 60 partitions and 128 key groups.
    assert_eq!(changes, [("sink", 64), ("source", 30)]);
    let steps = decision.changes[&"source".into()].steps.iter();
    let steps: Vec<String> = steps.map(|step| step.rule.to_string()).collect();
    for rule in ["TARGET_DATA_RATE by evaluator `floor`", "aligned by alignment mode `divisor`"] {
        assert!(steps.iter().any(|step| step == rule), "{steps:?}");
    }
    config.set("job.autoscaler.scaling.custom-executor.cap.most", "20");
    let refused = trace(&config);
    let why = "executor `cap` refuses the decision: more than 20 subtasks: ask the platform team";
    assert_eq!(refused.decisions[0].outcome.to_string(), why);
}
