use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::endpoint::fake::endpoint;
use lifecycle::event::{Component, Event};

const TYPE: &str = "application/cloudevents+json; charset=utf-8";

fn config(options: &[(&str, &str)]) -> FlinkConfig {
    let prefix = "kubernetes.operator.plugins.listeners.";
    options.iter().map(|(key, value)| (format!("{prefix}{key}"), (*value).to_owned())).collect()
}

fn start(options: &[(&str, &str)]) -> Listeners {
    Listeners::start(configured(&config(options)).unwrap())
}

fn subject() -> Subject {
    Subject {
        api_version: "flink.apache.org/v1beta1".to_owned(),
        kind: "FlinkDeployment".to_owned(),
        namespace: "ns".to_owned(),
        name: "demo".to_owned(),
        uid: "u1".to_owned(),
        generation: Some(3),
    }
}

fn event(message: &str) -> Event {
    Event {
        is_warning: true,
        reason: "Missing",
        component: Component::Job,
        message: message.to_owned(),
        key: None,
        annotations: std::collections::BTreeMap::new(),
    }
}

fn report_event(listeners: &Listeners, message: &str) {
    let event = event(message);
    let happening: Happening<'_, Value> = Happening::Event(&event);
    listeners.emit(subject, &happening);
}

/// Also in the specs that a status contains, which stay documents.
#[test]
fn no_listener_receives_a_secret() {
    let spec = json!({"spec": {
        "flinkConfiguration": {"s3.secret-key": "hunter2", "s3.endpoint": "http://minio"},
        "job": {"jarURI": "https://me:hunter2@host/a.jar", "args": ["--db-pass", "hunter2"]},
        "podTemplate": {"spec": {"containers": [{"env": [{"name": "DB_PASS", "value": "hunter2"}]}]}},
    }});
    let status = json!({
        "error": json!({"message": "no access: s3.secret-key=hunter2"}).to_string(),
        "reconciliationStatus": {
            "lastReconciledSpec": spec.to_string(), "lastStableSpec": spec.to_string(),
        },
    });
    let mut event = event("password: hunter2");
    event.annotations.insert("task-name".to_owned(), "DB_PASS=hunter2".to_owned());
    for happening in [
        Happening::Event(&event),
        Happening::Status { previous: &status, current: &status },
        Happening::Deleted { last: &status },
    ] {
        let message = CloudEvent::new(&subject(), &happening, jiff::Timestamp::UNIX_EPOCH).text();
        assert!(!message.contains("hunter2") && message.contains("******"), "{message}");
    }
    let happening = Happening::Deleted { last: &status };
    let message = CloudEvent::new(&subject(), &happening, jiff::Timestamp::UNIX_EPOCH);
    let spec = &message.body()["data"]["previousStatus"]["reconciliationStatus"]["lastStableSpec"];
    let spec: Value = serde_json::from_str(spec.as_str().unwrap()).unwrap();
    assert_eq!(spec["spec"]["flinkConfiguration"]["s3.endpoint"], "http://minio");
}

#[test]
fn settings_are_checked_all_at_once() {
    let problems = Settings::all(&config(&[
        ("a.unknown", "x"),
        ("b.url", "ftp://host"),
        ("c.command", "  "),
        ("d.timeout", "5 s"),
        ("e.url", "http://host"),
        ("e.command", "true"),
        ("f.url", "http://host"),
        ("f.queue", "0"),
    ]))
    .unwrap_err();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    expect_test::expect![[r#"
        operator configuration `kubernetes.operator.plugins.listeners.a.unknown`: unknown option: expected one of url, headers, command, timeout, queue
        operator configuration `kubernetes.operator.plugins.listeners.b.url`: expected an http or https URL
        operator configuration `kubernetes.operator.plugins.listeners.c.command`: expected a program
        operator configuration `kubernetes.operator.plugins.listeners.d.url`: set `url` or `command`
        operator configuration `kubernetes.operator.plugins.listeners.e.command`: set `url` or `command`, not both
        operator configuration `kubernetes.operator.plugins.listeners.f.queue`: expected a number from 1 to 100000"#]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(Settings::all(&FlinkConfig::default()).unwrap(), []);
}

#[test]
fn a_java_class_is_left_out_and_what_goes_with_it() {
    let listeners = Settings::all(&config(&[
        ("java.class", "com.example.Listener"),
        ("java.threshold", "3"),
        ("shared.class", "com.example.Listener"),
        ("shared.command", "true"),
    ]));
    let names: Vec<String> = listeners.unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["shared"]);
}

#[tokio::test]
async fn events_and_statuses_are_posted_in_order_and_tried_again() {
    let (url, mut told) =
        endpoint(TYPE, [503, 202, 202].map(|status| (status, json!({}))).into()).await;
    let listeners = start(&[("audit.url", &url)]);
    report_event(&listeners, "first");
    let (previous, current) = (json!({"lifecycleState": "DEPLOYED"}), json!({"error": null}));
    listeners.emit(subject, &Happening::Status { previous: &previous, current: &current });
    listeners.finish().await;
    let bodies = [told.recv().await, told.recv().await, told.recv().await].map(Option::unwrap);
    assert_eq!(bodies[0], bodies[1], "the same event again, by its id");
    assert_eq!(bodies[1]["type"], "org.apache.flink.kubernetes.event");
    assert_eq!(bodies[1]["data"]["event"]["message"], "first");
    assert_eq!(
        bodies[1]["source"],
        "/apis/flink.apache.org/v1beta1/namespaces/ns/FlinkDeployment/demo"
    );
    assert_eq!(bodies[2]["type"], "org.apache.flink.kubernetes.status");
    assert_eq!(bodies[2]["data"]["previousStatus"], previous);
    assert_eq!(bodies[2]["data"]["resource"]["generation"], 3);
}

#[tokio::test]
async fn a_hanging_listener_delays_nobody_and_its_queue_is_bounded() {
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", deaf.local_addr().unwrap());
    let (good_url, mut told) = endpoint(TYPE, vec![(200, json!({}))]).await;
    let listeners = start(&[
        ("deaf.url", &url),
        ("deaf.queue", "2"),
        ("deaf.timeout", "1 min"),
        ("good.url", &good_url),
    ]);
    report_event(&listeners, "heard");
    let heard = tokio::time::timeout(Duration::from_secs(10), told.recv()).await.unwrap();
    assert_eq!(heard.unwrap()["data"]["event"]["message"], "heard");
    for _ in 0..10 {
        report_event(&listeners, "dropped");
    }
    let dropped = listeners.queues[0].dropped.load(Ordering::Relaxed);
    assert!((8..=9).contains(&dropped), "two wait, one may be on its way: {dropped}");
}

#[tokio::test]
async fn a_program_reads_the_event_and_is_ended_when_it_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("told");
    let command = format!("cp /dev/stdin {}", file.display());
    let listeners = start(&[("program.command", &command)]);
    report_event(&listeners, "read me");
    listeners.finish().await;
    let told: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(told["data"]["event"]["message"], "read me");

    let options = [("program.command", "sleep 1000"), ("program.timeout", "100 ms")];
    let program = configured(&config(&options)).unwrap().remove(0);
    let happening = event("ignored");
    let happening: Happening<'_, Value> = Happening::Event(&happening);
    let message = CloudEvent::new(&subject(), &happening, jiff::Timestamp::UNIX_EPOCH);
    let error = try_once(&*program, &message).await.unwrap_err();
    assert_eq!(error.to_string(), "it took longer than 100ms");
    assert!(error.is_transient);
}
