//! SQL in a session cluster, through a gateway whose pod is started by a test kubelet.

use std::time::Duration;

use axum::http::Method;
use clients::flink::sql_gateway::{Fetched, Gateway, RowFormat, is_session_lost};
use clients::flink::{Client, Deadlines};
use kubectl_flink::cli::failure::Kind;
use serde_json::{Value, json};

use super::commands::{Ran, cluster, run_words};
use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::fake_sql_gateway::{FakeSqlGateway, JOB};

/// Returns a cluster with `wordcount` and the session cluster `lab`.
pub(super) fn stage() -> FakeCluster {
    let cluster = cluster();
    cluster.insert(lab());
    cluster.insert(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "lab", "namespace": "default"},
        "spec": {"template": {"metadata": {"labels": {"app": "lab"}}, "spec": {
            "serviceAccountName": "flink",
            "containers": [{"name": "flink-main-container", "image": "flink:1.20", "command": ["/docker-entrypoint.sh"],
                "args": ["bash", "-c", "kubernetes-jobmanager.sh kubernetes-session"],
                "volumeMounts": [{"name": "flink-config-volume", "mountPath": "/opt/flink/conf"}]}],
            "volumes": [{"name": "flink-config-volume", "configMap": {"name": "flink-config-lab"}}],
        }}},
    }));
    cluster
}

fn lab() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "lab", "namespace": "default", "uid": "u-lab", "generation": 1},
        "spec": {"image": "flink:1.20", "flinkVersion": "v1_20", "serviceAccount": "flink"},
        "status": {"observedGeneration": 1, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY"},
    })
}

pub(super) const READY: &str =
    r#"{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}"#;

/// Gives each new pod this status, like a kubelet, until dropped.
pub(super) struct Kubelet(tokio::task::JoinHandle<()>);

impl Kubelet {
    pub(super) fn start(cluster: &FakeCluster, status: &str) -> Self {
        let cluster = cluster.clone();
        let status: Value = serde_json::from_str(status).unwrap();
        Self(tokio::spawn(async move {
            loop {
                for pod in cluster.objects("pods") {
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    if pod.get("status").is_none_or(Value::is_null) {
                        cluster.set_status("pods", "default", name, &status);
                    }
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs `sql lab` with these words, against a gateway that starts at once.
async fn sql(cluster: &FakeCluster, gateway: &FakeSqlGateway, words: &[&str]) -> Ran {
    let _kubelet = Kubelet::start(cluster, READY);
    let address = gateway.address();
    let words = ["sql", "lab"].iter().chain(words).map(ToString::to_string);
    run_words(cluster, Some(address), words).await
}

fn script(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".sql").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test]
async fn rows_come_as_a_table_and_the_gateway_goes() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let ran = sql(&cluster, &gateway, &["-e", "SELECT * FROM t"]).await.succeeded();
    assert_eq!(
        ran.output,
        "op         id   name\n+I          1   a\n+I          2   <NULL>\n+U          1   b,\"c\"\n"
    );
    assert!(ran.error.contains("3 rows"), "{}", ran.error);
    assert_eq!(gateway.statements(), ["SELECT * FROM t"]);
    assert_eq!((gateway.sessions(), gateway.cancelled(), gateway.closed()), (0, 0, (1, 0)));
    assert_eq!(cluster.objects("pods"), [] as [Value; 0]);
    let made = &cluster.writes()[0];
    assert_eq!(made.method, Method::POST);
    let pod = &made.body;
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u-lab");
    assert_eq!(pod["spec"]["activeDeadlineSeconds"], 8 * 3600);
    assert_eq!(pod["spec"]["containers"][0]["image"], "flink:1.20");
    for label in ["app", "component", "type"] {
        assert!(pod["metadata"]["labels"].get(label).is_none(), "{label}");
    }
}

/// For programs that read the output.
#[tokio::test]
async fn json_has_an_object_a_row_with_the_statement_it_is_of() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let file = script(
        "-- a script\nCREATE TABLE t (id INT);\nSELECT * FROM t;\n\nINSERT INTO s SELECT * FROM t;\n",
    );
    let path = file.path().display().to_string();
    let ran = sql(&cluster, &gateway, &["-f", &path, "-o", "json"]).await.succeeded();
    let expected = [
        r#"{"statement":2,"op":"+I","row":{"id":1,"name":"a"}}"#.to_owned(),
        r#"{"statement":2,"op":"+I","row":{"id":2,"name":null}}"#.to_owned(),
        r#"{"statement":2,"op":"+U","row":{"id":1,"name":"b,\"c\""}}"#.to_owned(),
        format!(r#"{{"statement":3,"jobId":"{JOB}"}}"#),
    ];
    assert_eq!(ran.output.lines().collect::<Vec<_>>(), expected);
    assert!(ran.error.contains(&format!("{path}:2: statement 1 of 3: done")), "{}", ran.error);
    let goes_on = format!("job {JOB} runs in `lab` and continues after this session");
    assert!(ran.error.contains(&goes_on), "{}", ran.error);
    assert!(ran.error.contains(&format!("kubectl flink rest lab PATCH '/jobs/{JOB}?mode=cancel'")));
}

#[tokio::test]
async fn a_complete_result_is_csv_without_changes() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let words = ["-e", "SET 'execution.runtime-mode' = 'batch'; SELECT * FROM t", "-o", "csv"];
    let ran = sql(&cluster, &gateway, &words).await.succeeded();
    assert_eq!(ran.output, "id,name\n1,a\n2,\n1,\"b,\"\"c\"\"\"\n");
    let synchronous = ["-e", "SET 'table.dml-sync' = 'true'; INSERT INTO s SELECT 1"];
    let ran = sql(&cluster, &gateway, &synchronous).await.succeeded();
    assert!(!ran.error.contains("runs in `lab`"), "it has ended: {}", ran.error);
}

#[tokio::test]
async fn a_script_ends_at_the_first_error_with_its_line() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let file = script("SET 'a' = 'b';\n\nSELECT x\n FROM unknown;\nSELECT 2;\nSELECT 3;");
    let path = file.path().display().to_string();
    let ran = sql(&cluster, &gateway, &["-f", &path]).await;
    ran.failed(Kind::Failed, &format!("{path}:4: Object 'foo' not found"));
    assert!(
        ran.hints.contains(
            &"1 statement completed before it, 2 statements after it not started".to_owned()
        ),
        "{:?}",
        ran.hints
    );
    assert_eq!(gateway.statements().len(), 2);
    assert_eq!((gateway.sessions(), gateway.closed()), (0, (2, 0)));
    assert_eq!(cluster.objects("pods"), [] as [Value; 0], "no gateway stays behind");
    let whole = sql(&cluster, &gateway, &["-e", "SELECT unknown", "--verbose"]).await;
    whole.failed(Kind::Failed, "Failed to fetchResults");
}

#[tokio::test]
async fn what_is_no_script_needs_no_cluster() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let open = script("SELECT 1;\nSELECT 'a;\n");
    let path = open.path().display().to_string();
    let ran = sql(&cluster, &gateway, &["-f", &path]).await;
    ran.failed(Kind::Usage, &format!("{path}:2: unterminated string '…'"));
    let ran = sql(&cluster, &gateway, &["-e", " -- nothing"]).await;
    ran.failed(Kind::Usage, "-e contains no statement");
    let ran = sql(&cluster, &gateway, &["-f", "/nowhere.sql"]).await;
    ran.failed(Kind::Failed, "while reading `/nowhere.sql`");
    assert_eq!(cluster.requests(), []);
}

#[tokio::test]
async fn only_session_clusters_that_are_ready_take_statements() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let on = async |name: &str| {
        let words = ["sql", name, "-e", "SELECT 1"].map(str::to_owned);
        run_words(&cluster, Some(gateway.address()), words.into_iter()).await
    };
    on("wordcount").await.failed(Kind::Failed, "`wordcount` is an application cluster");
    on("labb").await.failed(Kind::Failed, "no FlinkDeployment `labb`");
    cluster.insert(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkSessionJob",
        "metadata": {"name": "clicks", "namespace": "default"}, "spec": {"deploymentName": "lab"}}));
    let ran = on("clicks").await;
    ran.failed(Kind::Failed, "`sessionjob/clicks` is a job");
    assert_eq!(ran.hints, ["it runs in `lab`: kubectl flink sql lab"]);
    let mut old = lab();
    old["spec"]["flinkVersion"] = json!("v1_16");
    cluster.insert(old);
    on("lab").await.failed(Kind::Failed, "`lab` has Flink v1_16, but SQL needs v1_17 or later");
    let mut starting = lab();
    starting["status"]["jobManagerDeploymentStatus"] = json!("DEPLOYING");
    cluster.insert(starting);
    on("lab").await.failed(Kind::Failed, "the JobManager of `lab` is not ready");
    let mut secure = lab();
    secure["spec"]["flinkConfiguration"] = json!({"security.ssl.rest.enabled": "true"});
    cluster.insert(secure);
    on("lab").await.failed(Kind::Failed, "serves its REST API over TLS");
    assert_eq!((cluster.writes(), gateway.sessions()), (vec![], 0));
}

#[tokio::test]
async fn a_gateway_that_is_retained_serves_later_sessions() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let line = ["-e", "SELECT 1", "--keep-gateway", "--gateway-lifetime", "1h"];
    let ran = sql(&cluster, &gateway, &line).await.succeeded();
    let pods = cluster.objects("pods");
    assert_eq!((pods.len(), &pods[0]["spec"]["activeDeadlineSeconds"]), (1, &json!(3600)));
    let name = pods[0]["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(ran.error.contains(&format!("kubectl delete pod {name}")), "{}", ran.error);
    cluster.forget_requests();
    sql(&cluster, &gateway, &["-e", "SELECT 2"]).await.succeeded();
    assert_eq!(cluster.writes(), [], "it is there, and stays");

    // A gateway that has ended or was created differently is not usable.
    cluster.set_status("pods", "default", &name, &json!({"phase": "Failed", "conditions": []}));
    sql(&cluster, &gateway, &["-e", "SELECT 3"]).await.succeeded();
    assert_eq!(cluster.objects("pods"), [] as [Value; 0]);
    sql(&cluster, &gateway, &line).await.succeeded();
    cluster.forget_requests();
    let other = ["-e", "SELECT 4", "--gateway-image", "flink-sql:1.20"];
    sql(&cluster, &gateway, &other).await.succeeded();
    let made = &cluster.writes()[0].body;
    assert_eq!(made["spec"]["containers"][0]["image"], "flink-sql:1.20");
    assert_eq!(cluster.objects("pods").len(), 1, "the one that is kept");
}

#[tokio::test]
async fn dry_runs_show_the_pod_and_make_none() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let ran = sql(&cluster, &gateway, &["--dry-run=client"]).await.succeeded();
    assert!(ran.output.starts_with("apiVersion: v1\nkind: Pod\n"), "{}", ran.output);
    assert_eq!(cluster.writes(), []);
    let ran = sql(&cluster, &gateway, &["--dry-run=server", "-o", "json"]).await.succeeded();
    let pod: Value = serde_json::from_str(&ran.output).unwrap();
    assert_eq!(pod["kind"], "Pod");
    assert_eq!(cluster.objects("pods"), [] as [Value; 0]);
    assert!(cluster.writes()[0].uri.contains("dryRun=All"), "{:?}", cluster.writes());
}

#[tokio::test]
async fn a_gateway_that_does_not_start_says_why_and_goes() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let words = ["sql", "lab", "-e", "SELECT 1"].map(str::to_owned);
    let status = r#"{"phase": "Pending", "containerStatuses": [
        {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "flink:1.20: not found"}}}]}"#;
    let kubelet = Kubelet::start(&cluster, status);
    let ran = run_words(&cluster, Some(gateway.address()), words.clone().into_iter()).await;
    ran.failed(
        Kind::Failed,
        "the SQL gateway did not start: ImagePullBackOff: flink:1.20: not found",
    );
    assert_eq!(cluster.objects("pods"), [] as [Value; 0]);
    drop(kubelet);
    let waiting = words.into_iter().chain(["--start-timeout".to_owned(), "1s".to_owned()]);
    let ran = run_words(&cluster, Some(gateway.address()), waiting).await;
    ran.failed(Kind::TimedOut, "the SQL gateway is not ready after 1s");
    assert_eq!(cluster.objects("pods"), [] as [Value; 0]);
    cluster.fail(Method::POST, "/pods", Fault::Status(403), 1);
    let ran = sql(&cluster, &gateway, &["-e", "SELECT 1"]).await;
    assert!(ran.failure.is_some());
    assert_eq!(gateway.sessions(), 0);
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_cancelled() {
    // A slow machine needs longer for the first rows.
    for limit in ["1s", "20s"] {
        let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
        let ran = sql(&cluster, &gateway, &["-e", "SELECT endless", "--timeout", limit]).await;
        ran.failed(Kind::TimedOut, &format!("-e:1: cancelled after {limit}"));
        assert_eq!((gateway.cancelled(), gateway.closed(), gateway.sessions()), (1, (1, 0), 0));
        if ran.output.lines().count() > 2 {
            return;
        }
    }
    panic!("no rows are shown as they come");
}

#[tokio::test]
async fn lost_answers_are_asked_for_again_and_no_row_is_lost_or_doubled() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    gateway.lose_answers(3);
    let ran = sql(&cluster, &gateway, &["-e", "SELECT 1", "-o", "csv"]).await.succeeded();
    assert_eq!(ran.output.lines().count(), 4, "{}", ran.output);
}

#[tokio::test]
async fn a_session_that_is_lost_is_reported() {
    let (cluster, gateway) = (stage(), FakeSqlGateway::start().await);
    let ran = sql(&cluster, &gateway, &["-e", "SELECT lose"]).await;
    ran.failed(Kind::Failed, "the session is lost");
    assert_eq!(cluster.objects("pods"), [] as [Value; 0]);
}

#[tokio::test]
async fn sessions_stay_open_by_heartbeats_and_are_known_when_lost() {
    let gateway = FakeSqlGateway::start().await;
    let client =
        Client::at(&format!("http://{}", gateway.address()), Deadlines::default()).unwrap();
    let session = Gateway::connect(client).await.unwrap().open("test").await.unwrap();
    session.heartbeat().await.unwrap();
    assert_eq!(gateway.heartbeats(), 1);
    let operation = session.execute("SELECT 1").await.unwrap();
    let fetched = session.fetch(&operation, 0, RowFormat::Json).await.unwrap();
    assert_eq!(fetched, Fetched::NotReady);
    session.close().await.unwrap();
    assert!(is_session_lost(&session.heartbeat().await.unwrap_err()));
}

/// `KUBECTL_FLINK_TEST_SQL_GATEWAY` is the address of a gateway with a cluster behind it.
#[tokio::test]
#[ignore = "needs a SQL gateway of real Flink"]
async fn real_flink_answers_as_the_fake_does() {
    let address = std::env::var("KUBECTL_FLINK_TEST_SQL_GATEWAY").unwrap();
    let cluster = stage();
    let _kubelet = Kubelet::start(&cluster, READY);
    let sql = async |words: &[&str]| {
        let words = ["sql", "lab"].iter().chain(words).map(ToString::to_string);
        run_words(&cluster, Some(address.clone()), words).await
    };
    let file = script(
        "CREATE TABLE t (x INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');\n\
         CREATE TABLE s (x INT) WITH ('connector' = 'blackhole'); -- ; no end\n\
         SET 'execution.runtime-mode' = 'batch';\n\
         SELECT x, 'a;b' AS s FROM (VALUES (1), (2)) AS v(x) ORDER BY x;\n\
         SHOW TABLES;\n\
         EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT * FROM t; INSERT INTO s SELECT x + 1 FROM t; END;\n",
    );
    let path = file.path().display().to_string();
    let ran = sql(&["-f", &path, "-o", "json"]).await.succeeded();
    println!("{}\n{}", ran.output, ran.error);
    let told = ran.output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told = told.collect::<Vec<_>>();
    assert_eq!(told[0], json!({"statement": 4, "op": "+I", "row": {"x": 1, "s": "a;b"}}));
    assert_eq!(told[1], json!({"statement": 4, "op": "+I", "row": {"x": 2, "s": "a;b"}}));
    assert_eq!(told[2], json!({"statement": 5, "op": "+I", "row": {"table name": "s"}}));
    assert_eq!(told[4]["jobId"].as_str().unwrap().len(), 32);

    let stream = "SELECT x, COUNT(*) AS n FROM (VALUES (1), (1), (2)) AS v(x) GROUP BY x";
    let ran = sql(&["-e", stream]).await.succeeded();
    println!("{}\n{}", ran.output, ran.error);
    assert!(ran.output.starts_with("op") && ran.output.contains("+U"), "{}", ran.output);

    let wrong = script("SELECT 1;\nSELECT *\n  FROM foo;");
    let path = wrong.path().display().to_string();
    let ran = sql(&["-f", &path]).await;
    ran.failed(Kind::Failed, &format!("{path}:3: Object 'foo' not found"));
    let ran = sql(&["-e", "SELECT 1 FORM x"]).await;
    ran.failed(
        Kind::Failed,
        "-e:1: Encountered \"x\" at line 1, column 15.\nWas expecting one of: <EOF>",
    );
    let missing = "CREATE TABLE k (x INT) WITH ('connector' = 'kafka'); SELECT * FROM k";
    let ran = sql(&["-e", missing]).await;
    println!("{:?}\n{:?}", ran.failure, ran.hints);
    ran.failed(Kind::Failed, "Could not find any factory for identifier 'kafka'");

    let endless = "CREATE TABLE e (x INT) WITH ('connector' = 'datagen', 'rows-per-second' = '5'); SELECT * FROM e";
    let ran = sql(&["-e", endless, "--timeout", "6s"]).await;
    ran.failed(Kind::TimedOut, "cancelled after 6s");
    assert!(ran.output.lines().count() > 3, "{}", ran.output);
}
