//! The page of one resource, over plain HTTP.

use api::deployment::FlinkDeployment;
use kube::Api;
use kube::api::DeleteParams;

use super::*;

const BILLS: &str = "/in/default/deployment/bills";

pub(super) async fn page(shown: &Shown, cookie: &str, path: &str) -> (u16, String) {
    let page = shown.get(path).header(COOKIE, cookie).send().await.unwrap();
    (page.status().as_u16(), page.text().await.unwrap())
}

#[tokio::test]
async fn each_kind_has_a_page() {
    let shown = Shown::new(stage()).await;
    let cookie = shown.cookie().await;
    let wanted: [(&str, &[&str]); 5] = [
        (
            "deployment/bills",
            &[
                "<h1>bills</h1>",
                "last-state",
                "ImagePullBackOff",
                "flink:9: not found",
                "bills-6d4c7b9f8-x2x7k",
                "<code>kubectl ",
            ],
        ),
        (
            "deployment/wordcount",
            &[
                "Revision 1",
                "image flink:1.19",
                "sp-1 COMPLETED",
                "<b>Submit</b>",
                "Starting deployment",
                "<b>Created</b>",
            ],
        ),
        ("deployment/session", &["session cluster", "Session jobs", "clicks"]),
        ("sessionjob/clicks", &["FINISHED", "Session cluster session, JobManager"]),
        ("bluegreen/shop", &["FlinkBlueGreenDeployment", "SAVEPOINTING_BLUE"]),
    ];
    for (path, wanted) in wanted {
        let (status, page) = page(&shown, &cookie, &format!("/in/default/{path}")).await;
        assert_eq!(status, 200, "{path}");
        for text in wanted {
            assert!(page.contains(text), "{path}: {text}: {page}");
        }
    }
    let (status, text) = page(&shown, &cookie, "/in/default/deployment/nothing").await;
    assert!(status == 404 && text.contains("There is no FlinkDeployment `nothing`"), "{text}");
    let (status, text) = page(&shown, &cookie, "/in/default/pod/bills").await;
    assert!(status == 404 && text.contains("Page not found"), "{text}");
    assert_eq!(status_of(&shown, BILLS).await, 401, "who is not let in sees none");
    assert_eq!(status_of(&shown, &format!("{BILLS}/events")).await, 401);
    assert!(shown.cluster.writes().is_empty());
}

#[tokio::test]
async fn checkpoints_are_asked_of_the_job_manager_and_its_silence_is_reported() {
    let flink = job_manager().await;
    let behind = Behind { flink: flink.address().to_owned(), ..Behind::default() };
    let shown = Shown::behind(fleet(), behind).await;
    let cookie = shown.cookie().await;
    let path = "/in/shop/deployment/job-01";
    let (_, text) = page(&shown, &cookie, path).await;
    for wanted in [" completed, 0 failed", "<svg", "/chk-", " (discarded)", " KiB</td>"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    drop(flink);
    let shown = Shown::new(fleet()).await;
    let (status, text) = page(&shown, &shown.cookie().await, path).await;
    let checkpoints = text.split_once("id=\"checkpoints\"").unwrap().1;
    assert!(
        checkpoints.starts_with("><h2>Checkpoints</h2><p class=\"unread\">Not available: "),
        "{checkpoints}"
    );
    assert!(status == 200 && text.contains("before-upgrade-1"), "{text}");
}

async fn status_of(shown: &Shown, path: &str) -> u16 {
    status(shown.get(path)).await
}

#[tokio::test]
async fn a_part_that_may_not_be_read_takes_nothing_else_with_it() {
    let cluster = stage();
    let message = "pods is forbidden: User \"jane\" cannot list resource \"pods\"";
    cluster.fail(Method::GET, "/pods", Fault::Refused(403, message.to_owned()), usize::MAX);
    let shown = Shown::new(cluster).await;
    let (status, page) = page(&shown, &shown.cookie().await, BILLS).await;
    assert_eq!(status, 200);
    assert!(page.contains("pods") && page.contains("forbidden"), "{page}");
    assert!(page.contains("last-state") && page.contains("DEPLOYED"), "{page}");
}

#[tokio::test]
async fn a_page_follows_its_resource_to_its_end() {
    let shown = Shown::new(stage()).await;
    let cookie = shown.cookie().await;
    let follow = || shown.get(&format!("{BILLS}/events")).header(COOKIE, &cookie).send();
    let events = follow().await.unwrap();
    let failed = json!({"lifecycleState": "FAILED", "error": "no room"});
    shown.cluster.set_status("flinkdeployments", "default", "bills", &failed);
    described(events, &["FAILED", "no room"]).await;
    let events = follow().await.unwrap();
    let deployments: Api<FlinkDeployment> = Api::namespaced(shown.cluster.client(), "default");
    let mut events = events;
    let first = timeout(PATIENCE, events.chunk()).await.expect("it comes").unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("no room"));
    deployments.delete("bills", &DeleteParams::default()).await.unwrap();
    described(events, &["Showing its last known state"]).await;
}

#[tokio::test]
async fn pages_that_are_followed_are_bounded() {
    let shown = Shown::new(stage()).await;
    let cookie = shown.cookie().await;
    let follow = || shown.get(&format!("{BILLS}/events")).header(COOKIE, &cookie).send();
    let mut live = Vec::new();
    for _ in 0..8 {
        live.push(follow().await.unwrap());
    }
    assert!(live.iter().all(|it| it.status() == StatusCode::OK));
    assert_eq!(follow().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    let fleet = shown.get("/fleet/events").header(COOKIE, &cookie).send().await.unwrap();
    assert_eq!(fleet.status(), StatusCode::OK, "the fleet has room of its own");
    drop(live);
    let started = Instant::now();
    while follow().await.unwrap().status() != StatusCode::OK {
        assert!(started.elapsed() < PATIENCE, "who leaves makes room");
    }
}
