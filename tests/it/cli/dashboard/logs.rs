//! The log page, over plain HTTP.

use api::deployment::FlinkDeployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;

use super::*;
use crate::cli::transcripts::with_pods;

const WORDCOUNT: &str = "/in/default/deployment/wordcount/logs";
const JOB_MANAGER: &str = "wordcount-6d4c7b9f8-k2p4q";
const TASK_MANAGER: &str = "wordcount-taskmanager-1-1";

/// Returns the whole page.
async fn page(shown: &Shown, path: &str) -> String {
    let page = shown.get(path).header(COOKIE, shown.cookie().await).send().await.unwrap();
    assert_eq!(page.status(), StatusCode::OK, "{path}");
    page.text().await.unwrap()
}

/// Returns the texts of the page's lines, each with its class.
fn lines(page: &str) -> Vec<(&str, &str)> {
    let (_, lines) = page.split_once("id=\"lines\"").unwrap();
    let (lines, _) = lines.split_once("</div>").unwrap();
    lines.split("<p class=\"").filter_map(line).collect()
}

fn line(line: &str) -> Option<(&str, &str)> {
    let (class, rest) = line.split_once('"')?;
    Some((class, rest.rsplit_once("</p>")?.0.rsplit_once('>')?.1))
}

fn shown_of(page: &str) -> Vec<&str> {
    lines(page).into_iter().map(|(_, text)| text.trim()).collect()
}

async fn follow(shown: &Shown, path: &str) -> Response {
    let path = path.replacen("/logs", "/logs/events", 1);
    let events = shown.get(&path).header(COOKIE, shown.cookie().await).send().await.unwrap();
    assert_eq!(events.status(), StatusCode::OK);
    events
}

#[tokio::test]
async fn a_page_has_the_last_lines_of_all_pods() {
    let shown = Shown::new(with_pods()).await;
    let key = "no s3.secret-key: hush";
    shown
        .cluster
        .write_log(JOB_MANAGER, &format!("2026-01-01 00:00:01,000 ERROR a.A [] - {key}\n"));
    let page = page(&shown, WORDCOUNT).await;
    let wanted = [
        (JOB_MANAGER, "Job wordcount switched from state CREATED to RUNNING."),
        (TASK_MANAGER, "Registered at the ResourceManager."),
    ];
    for (pod, text) in wanted {
        assert!(page.contains(&format!("data-pod=\"{pod}\"")) && page.contains(text), "{page}");
        assert!(page.contains(&format!("{WORDCOUNT}?pod={pod}\"")), "{page}");
    }
    let lines = lines(&page);
    let class = |text: &str| lines.iter().find(|(_, it)| it.contains(text)).unwrap().0;
    assert_eq!(class("ResourceManager."), "unknown");
    assert_eq!(class("Connection refused"), "moving", "it goes on with a warning");
    assert_eq!(class("s3.secret-key: ******"), "bad");
    assert!(!page.contains("hush"), "{page}");
    assert!(page.contains("logs.js") && page.contains("role=\"log\" aria-live=\"off\""), "{page}");
    assert!(shown.cluster.writes().is_empty());
}

#[tokio::test]
async fn lines_are_chosen_by_pod_part_level_and_text() {
    let cluster = with_pods();
    cluster.set_log(&format!("{JOB_MANAGER} before"), "the run before\n");
    let shown = Shown::new(cluster).await;
    let of = async |query: &str| {
        let page = page(&shown, &format!("{WORDCOUNT}?{query}")).await;
        shown_of(&page).join("\n")
    };
    let text = of(&format!("pod={TASK_MANAGER}")).await;
    assert!(text.contains("Registered") && !text.contains("CREATED"), "{text}");
    let text = of("role=jm").await;
    assert!(text.contains("CREATED") && !text.contains("Registered"), "{text}");
    let text = of("level=warn").await;
    assert!(text.contains("sun.nio.ch") && !text.contains("Registered"), "{text}");
    let text = of("q=CONNECTION+refused").await;
    assert_eq!(text.lines().count(), 2, "with its stack trace: {text}");
    let text = of("previous=1&role=jm").await;
    assert_eq!(text, "the run before");
    let text = of("previous=1&role=tm").await;
    assert!(text.contains("the log cannot be read: "), "{text}");
    assert_eq!(of("pod=nothing").await, "");
}

#[tokio::test]
async fn lines_come_as_they_are_written_also_of_pods_that_come_later() {
    let shown = Shown::new(with_pods()).await;
    let mut events = follow(&shown, WORDCOUNT).await;
    let text = shown_on(&mut events, &["event: lines", "Registered", "CREATED"]).await;
    assert_eq!(text.matches("Registered").count(), 1, "{text}");
    shown.cluster.write_log(JOB_MANAGER, "2026-01-01 00:00:09,000 WARN a.A [] - <late>\n");
    let text = shown_on(&mut events, &["&lt;late&gt;"]).await;
    assert!(!text.contains("Registered"), "nothing is told twice: {text}");

    // The TaskManager is replaced.
    let pods: Api<Pod> = Api::namespaced(shown.cluster.client(), "default");
    pods.delete(TASK_MANAGER, &DeleteParams::default()).await.unwrap();
    shown.cluster.end_log(TASK_MANAGER);
    let mut next = shown.cluster.object("pods", "default", JOB_MANAGER).unwrap();
    next["metadata"]["name"] = json!("wordcount-taskmanager-2-1");
    next["metadata"]["uid"] = json!("other");
    next["metadata"]["labels"]["component"] = json!("taskmanager");
    shown.cluster.insert(next);
    shown.cluster.set_log("wordcount-taskmanager-2-1", "the next one\n");
    let looked = json!({"lifecycleState": "UPGRADING"});
    shown.cluster.set_status("flinkdeployments", "default", "wordcount", &looked);
    let text = shown_on(&mut events, &["the next one", "pod=wordcount-taskmanager-2-1"]).await;
    assert!(!text.contains("late"), "{text}");
}

/// Same as [`described`], for events of which more are read afterwards.
async fn shown_on(events: &mut Response, wanted: &[&str]) -> String {
    let mut text = String::new();
    while !wanted.iter().all(|it| text.contains(it)) {
        let chunk = timeout(PATIENCE, events.chunk()).await;
        let chunk = chunk.unwrap_or_else(|_| panic!("{wanted:?} does not come: {text}")).unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk.expect("it goes on")));
    }
    text
}

#[tokio::test]
async fn of_a_flood_only_the_newest_lines_are_reported() {
    let shown = Shown::new(with_pods()).await;
    let mut events = follow(&shown, &format!("{WORDCOUNT}?role=jm")).await;
    shown_on(&mut events, &["CREATED"]).await;
    let flood: Vec<_> = (1..=20_000).map(|number| format!("line {number}.\n")).collect();
    shown.cluster.write_log(JOB_MANAGER, &flood.concat());
    let text = shown_on(&mut events, &["line 20000."]).await;
    assert!(
        text.contains(" lines skipped here: they arrived faster than 1,000 per second"),
        "{text}"
    );
    assert!(text.matches("line ").count() < 10_000, "{}", text.len());
}

#[tokio::test]
async fn the_pods_of_others_are_those_of_their_cluster() {
    let cluster = with_pods();
    let mut pod = cluster.object("pods", "default", JOB_MANAGER).unwrap();
    pod["metadata"]["name"] = json!("session-1");
    pod["metadata"]["uid"] = json!("session-1");
    pod["metadata"]["labels"]["app"] = json!("session");
    cluster.insert(pod);
    cluster.set_log("session-1", "of the session cluster\n");
    let shown = Shown::new(cluster).await;
    for path in ["sessionjob/clicks", "deployment/session"] {
        let page = page(&shown, &format!("/in/default/{path}/logs")).await;
        assert_eq!(shown_of(&page), ["of the session cluster"], "{path}");
    }
}

#[tokio::test]
async fn where_there_is_no_log_it_says_why() {
    let shown = Shown::new(with_pods()).await;
    let waiting = page(&shown, "/in/default/deployment/bills/logs").await;
    for told in ["No pod has a log yet: `bills` is DEPLOYED", "ImagePullBackOff", "flink:9"] {
        assert!(waiting.contains(told), "{told}: {waiting}");
    }
    let cookie = shown.cookie().await;
    let absent = shown.get("/in/default/deployment/nothing/logs").header(COOKIE, &cookie);
    assert_eq!(status(absent).await, 404);
    let stranger = shown.get(WORDCOUNT);
    assert_eq!(status(stranger).await, 401);
    assert_eq!(status(shown.get(&format!("{WORDCOUNT}/events"))).await, 401);

    let message = "pods is forbidden: User \"jane\" cannot list resource \"pods\"";
    let refused = Fault::Refused(403, message.to_owned());
    shown.cluster.fail(Method::GET, "/pods?", refused, usize::MAX);
    let page = page(&shown, WORDCOUNT).await;
    assert!(page.contains("Not available: ") && page.contains("forbidden"), "{page}");
    let deployments: Api<FlinkDeployment> = Api::namespaced(shown.cluster.client(), "default");
    let mut events = follow(&shown, "/in/default/deployment/bills/logs").await;
    // It existed at the first read.
    timeout(PATIENCE, events.chunk()).await.expect("it comes").unwrap();
    deployments.delete("bills", &DeleteParams::default()).await.unwrap();
    described(events, &["Showing its last known state"]).await;
}
