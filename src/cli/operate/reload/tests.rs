use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;

use http::{Request, Response};
use kube::client::Body;

use super::*;
use clients::flink::access::{Connector, Options};
use metrics::family::Value;
use metrics::{Identity, Now, Settings};
use operator::context::Context;
use operator::run::start;
use operator::webhook::{Task, Turn};

/// A directory as the kubelet mounts a ConfigMap: the files are links through `..data`, which is replaced as a whole.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(text: &str) -> Self {
        let mounted = Self(tempfile::tempdir().unwrap());
        mounted.update(text);
        symlink("..data/flink-conf.yaml", mounted.path().join("flink-conf.yaml")).unwrap();
        mounted
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn update(&self, text: &str) {
        let data = tempfile::tempdir_in(self.path()).unwrap().keep();
        std::fs::write(data.join("flink-conf.yaml"), text).unwrap();
        let link = self.path().join("..data_tmp");
        symlink(data.file_name().unwrap(), &link).unwrap();
        std::fs::rename(link, self.path().join("..data")).unwrap();
    }

    fn follow(&self) -> Reload {
        let path = self.path().to_owned();
        let files = operator_config::read(Some(&path)).unwrap();
        Reload::new(Some(path), &files.merged(), nobody(), Metrics::default()).unwrap()
    }
}

/// A choice without namespaces from the command line or the environment.
fn nobody() -> Choice {
    Choice::of_own("default")
}

fn config(text: &str) -> FlinkConfig {
    config::file::parse_flink_conf(text)
}

fn refused(news: News) -> String {
    match news {
        News::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_config_map_that_is_replaced_is_noticed_once() {
    let mounted = Mounted::new("a: 1\n");
    let mut reload = mounted.follow();
    assert_eq!(reload.read().await, News::None);
    mounted.update("a: 2\nkubernetes.operator.reconcile.intervall: 1 s\n");
    let News::Changed { config: found, remarks } = reload.read().await else { panic!() };
    assert_eq!(found, config("a: 2\nkubernetes.operator.reconcile.intervall: 1 s\n"));
    assert!(
        remarks[0].contains("did you mean `kubernetes.operator.reconcile.interval`?"),
        "{remarks:?}"
    );
    reload.in_force = found;
    assert_eq!(reload.read().await, News::None);
}

#[tokio::test]
async fn what_is_wrong_is_reported_once_and_the_last_good_one_stays() {
    let mounted = Mounted::new("a: 1\n");
    let mut reload = mounted.follow();
    mounted.update("a: 2\nkubernetes.operator.reconcile.interval: soon\n");
    let why = refused(reload.read().await);
    assert!(why.contains("`soon` of `kubernetes.operator.reconcile.interval`"), "{why}");
    assert_eq!(reload.read().await, News::None);
    assert_eq!(reload.in_force, config("a: 1\n"));
    mounted.update("a: 1\n");
    assert_eq!(reload.read().await, News::Mended);
    assert_eq!(reload.read().await, News::None);
}

#[tokio::test]
async fn a_pod_template_is_read_along_with_the_options_that_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("workers.yaml");
    let path = template.display().to_string();
    std::fs::write(&template, "spec: {priorityClassName: low}\n").unwrap();
    let mounted = Mounted::new(&format!("kubernetes.pod-template-file.taskmanager: {path}\n"));
    let mut reload = mounted.follow();
    let text = |config: &FlinkConfig| {
        let entry = config::template_file::entry(&path);
        config.get_text(&entry).unwrap().to_owned()
    };
    assert_eq!(text(&reload.in_force), "spec: {priorityClassName: low}\n");
    std::fs::write(&template, "spec: {priorityClassName: high}\n").unwrap();
    let News::Changed { config: found, .. } = reload.read().await else { panic!() };
    assert_eq!(text(&found), "spec: {priorityClassName: high}\n");
    std::fs::write(&template, "password: hunter2\n").unwrap();
    let why = refused(reload.read().await);
    assert!(why.contains(&path) && why.contains("`spec`") && !why.contains("hunter2"), "{why}");
    std::fs::remove_file(&template).unwrap();
    let why = refused(reload.read().await);
    assert!(why.contains("No such file") && why.contains("`operatorVolumes`"), "{why}");
    assert_eq!(text(&reload.in_force), "spec: {priorityClassName: low}\n");
}

#[tokio::test]
async fn what_would_keep_the_operator_from_starting_is_refused() {
    let mounted = Mounted::new("a: 1\n");
    let mut reload = mounted.follow();
    for (text, told) in [
        ("kubernetes.operator.plugins.validators.x.expression: 1 +\n", "plugins.validators.x"),
        ("kubernetes.operator.plugins.listeners.x.url: nowhere\n", "plugins.listeners.x.url"),
        (
            "kubernetes.operator.plugins.executors.x.expression: object\n",
            "unknown variable `object`",
        ),
        (
            "kubernetes.operator.leader-election.enabled: true\n\
             kubernetes.operator.leader-election.lease-duration: 5 s\n",
            "leader-election.renew-deadline",
        ),
    ] {
        mounted.update(text);
        let why = refused(reload.read().await);
        assert!(why.contains(told), "{why}");
    }
}

/// It does not prevent a start either.
#[tokio::test]
async fn a_reporter_that_cannot_start_is_pointed_out_and_refuses_nothing() {
    let mounted = Mounted::new("a: 1\n");
    let mut reload = mounted.follow();
    mounted.update(
        "kubernetes.operator.metrics.reporter.otel.factory.class: \
         org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory\n\
         kubernetes.operator.metrics.reporter.otel.exporter.endpoint: me:secret@collector\n",
    );
    let News::Changed { remarks, .. } = reload.read().await else { panic!("not taken") };
    let [remark] = remarks.as_slice() else { panic!("{remarks:?}") };
    assert!(remark.contains("metrics.reporter.otel.exporter.endpoint"), "{remark}");
    assert!(!remark.contains("secret"), "{remark}");
}

#[tokio::test]
async fn a_file_that_is_gone_is_no_empty_configuration() {
    let mounted = Mounted::new("a: 1\n");
    let mut reload = mounted.follow();
    std::fs::remove_file(mounted.path().join("flink-conf.yaml")).unwrap();
    let why = refused(reload.read().await);
    assert!(why.contains("contains neither"), "{why}");
}

#[tokio::test]
async fn a_file_that_cannot_be_parsed_is_reported_without_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, "a: 1\n").unwrap();
    let files = operator_config::read(Some(&path)).unwrap();
    let mut reload =
        Reload::new(Some(path.clone()), &files.merged(), nobody(), Metrics::default()).unwrap();
    std::fs::write(&path, "s3.secret-key: hunter2\na: [\n").unwrap();
    let why = refused(reload.read().await);
    assert!(why.contains("config.yaml") && !why.contains("hunter2"), "{why}");
}

#[tokio::test]
async fn a_file_that_is_being_written_is_waited_for() {
    let reload = Reload::new(None, &config("a: 1\nb: 1\n"), nobody(), Metrics::default()).unwrap();
    let mut read = ["a: 2\n", "a: 2\nb: 2\n", "a: 2\nb: 2\n"].into_iter();
    let seen = reload.settled(async || Ok((config(read.next().unwrap()), vec![]))).await;
    assert_eq!(seen, Some(Ok((config("a: 2\nb: 2\n"), vec![]))));
}

#[test]
fn options_that_wait_for_a_restart_are_reported_until_they_are_taken_back() {
    let start = config("kubernetes.operator.reconcile.parallelism: 10\n");
    let mut reload = Reload::new(None, &start, nobody(), Metrics::default()).unwrap();
    reload.watch().unwrap();
    reload.in_force = config("kubernetes.operator.reconcile.parallelism: 20\n");
    reload.report_waiting();
    assert_eq!(reload.waiting, ["kubernetes.operator.reconcile.parallelism"]);
    reload.in_force = start;
    reload.report_waiting();
    assert_eq!(reload.waiting, [""; 0]);
}

#[tokio::test]
async fn one_that_stands_by_says_what_waits_and_judges_by_what_is_new() {
    let text = |is_valid: &str| {
        let prefix = "kubernetes.operator.plugins.validators.x";
        format!("{prefix}.expression: {is_valid}\n{prefix}.message: is not allowed\n")
    };
    let mounted = Mounted::new(&text("true"));
    let mut reload = mounted.follow();
    let (client, _) = empty_cluster();
    let rules = reload.rules().unwrap();
    let webhook = Arc::new(Webhook::new(client, reload.live(), rules));
    reload.set_webhook(Some(Arc::clone(&webhook)));
    let is_allowed = async || {
        let review = serde_json::json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "7", "namespace": "default", "operation": "CREATE",
                "kind": {"group": "flink.apache.org", "kind": "FlinkDeployment"},
                "object": serde_json::from_str::<serde_json::Value>(include_str!(
                    "../../../../tests/reviews/deployment.json"
                )).unwrap(),
            },
        });
        let until = tokio::time::Instant::now() + Duration::from_secs(8);
        let turn = Turn { until, permits: Arc::new([]) };
        let asked = Arc::clone(&webhook).answer(Task::Validate, review.to_string().into(), turn);
        asked.await.unwrap()["response"]["allowed"].clone()
    };
    assert_eq!(is_allowed().await, true);
    mounted.update(&format!(
        "{}kubernetes.operator.health.probe.port: 9000\nkubernetes.operator.reconcile.parallelism: 7\n",
        text("false")
    ));
    reload.catch_up().await;
    assert_eq!(is_allowed().await, false);
    assert_eq!(reload.waiting, ["kubernetes.operator.health.probe.port"]);
    reload.watch().unwrap();
    reload.report_waiting();
    assert_eq!(reload.waiting, ["kubernetes.operator.health.probe.port"], "it still does");
}

#[test]
fn other_namespaces_wait_for_a_restart_where_they_are_not_dynamic() {
    let mut reload = Reload::new(None, &FlinkConfig::new(), nobody(), Metrics::default()).unwrap();
    reload.watch().unwrap();
    reload.in_force = config("kubernetes.operator.watched.namespaces: shop\n");
    reload.report_waiting();
    assert_eq!(reload.waiting, ["kubernetes.operator.watched.namespaces"]);
}

#[test]
fn it_can_be_switched_off_and_is_never_made_in_a_hurry() {
    let off = config("kubernetes.operator.dynamic.config.enabled: false\n");
    assert_eq!(Reload::new(None, &off, nobody(), Metrics::default()).unwrap().interval, None);
    let hasty = config("kubernetes.operator.dynamic.config.check.interval: 0 s\n");
    assert_eq!(
        Reload::new(None, &hasty, nobody(), Metrics::default()).unwrap().interval,
        Some(INTERVAL_MIN)
    );
    assert_eq!(
        Reload::new(None, &FlinkConfig::new(), nobody(), Metrics::default()).unwrap().interval,
        Some(Duration::from_mins(5))
    );
}

#[test]
fn many_keys_are_not_all_named() {
    let keys: Vec<String> = (0..KEYS_SHOWN_MAX + 3).map(|number| format!("k{number}")).collect();
    assert!(named(&keys).ends_with("k19 and 3 more"), "{}", named(&keys));
}

/// An API server without any objects, and the requests it has received.
fn empty_cluster() -> (kube::Client, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let all = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let is_watch = uri.contains("watch=true");
        all.lock().unwrap().push(uri);
        async move {
            if is_watch {
                std::future::pending::<()>().await;
            }
            let list = r#"{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":"1"},"items":[]}"#;
            Ok::<_, std::io::Error>(Response::new(Body::from(list.as_bytes().to_vec())))
        }
    });
    (kube::Client::new(service, "default"), asked)
}

#[tokio::test]
async fn what_the_files_say_reaches_an_operator_at_work() {
    const DYNAMIC: &str = "kubernetes.operator.dynamic.namespaces.enabled: true\n";
    let of = |namespace: &str, more: &str| {
        format!("{DYNAMIC}kubernetes.operator.watched.namespaces: {namespace}\n{more}")
    };
    let mounted = Mounted::new(&of("shop", ""));
    let mut reload = mounted.follow();
    let [host, namespace, name] = ["h", "ns", "n"].map(str::to_owned);
    let settings = Settings::of(&FlinkConfig::new()).unwrap();
    reload.metrics = Metrics::new(settings, Identity { host, namespace, name });
    reload.interval = Some(Duration::from_millis(20));
    let (client, asked) = empty_cluster();
    let connector = Connector::new(&Options::default(), None).unwrap();
    let in_force = OperatorConfig::new(reload.in_force.clone());
    let watch = reload.watch().unwrap();
    let context = Context::new(client, in_force, connector, true).following(reload.live());
    let operator = start(context, &watch, None);
    let is_asked = |namespace: &str| {
        let part = format!("/namespaces/{namespace}/flinkdeployments");
        asked.lock().unwrap().iter().any(|uri| uri.contains(&part))
    };
    let counted = reload.metrics.clone();
    // How often a configuration was applied, how often one was refused, and whether one is refused now.
    let reloads = || {
        let now = Now { clock: Duration::ZERO, time: jiff::Timestamp::UNIX_EPOCH };
        let families = counted.families(now);
        ["Applied.Count", "Refused.Count", "IsRefused"].map(|name| {
            let name = format!("Configuration.{name}");
            let family = families.iter().find(|family| family.name == name).unwrap();
            match family.points[0].value {
                Value::Count(number) | Value::Gauge(number) => format!("{number}"),
                Value::Summary(_) => panic!("{family:?}"),
            }
        })
    };
    let until = async |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let steps = async {
        until(&|| is_asked("shop")).await;
        mounted.update(&of("shop", "kubernetes.operator.reconcile.interval: soon\n"));
        until(&|| reloads() == ["0", "1", "1"]).await;
        assert!(!is_asked("fraud"));
        mounted.update(&of("fraud", ""));
        until(&|| is_asked("fraud")).await;
        assert_eq!(reloads(), ["1", "1", "0"]);
        assert_eq!(operator.context.live.get().base, config(&of("fraud", "")));
    };
    let patience = Duration::from_secs(30);
    tokio::select! {
        never = reload.follow(&operator) => match never {},
        done = tokio::time::timeout(patience, steps) => done.unwrap(),
    }
    operator.stop().await;
}
