//! The job page of a resource, over plain HTTP.

use super::resource::page;
use super::*;

const JOB: &str = "/in/shop/deployment/job-01/job";

#[tokio::test]
async fn a_job_is_shown_with_what_its_vertices_do() {
    let flink = job_manager().await;
    let behind = Behind { flink: flink.address().to_owned(), ..Behind::default() };
    let shown = Shown::behind(fleet(), behind).await;
    let cookie = shown.cookie().await;
    let (status, text) = page(&shown, &cookie, JOB).await;
    assert_eq!(status, 200);
    for wanted in [
        "<h1>job-01</h1>",
        "aria-current=\"page\">Job</a>",
        "<g class=\"vertex moving\"><title>Source: Car data</title>",
        "busy 12% · backpressure 64%",
        "1/1 tasks · 12.5k → 12.5k/s",
        "<path class=\"edge\"",
        "<i></i>busy</span>",
        "data-name=\"busy\">97%</td>",
        "data-name=\"lag\">48.0k</td>",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let events = shown.get(&format!("{JOB}/events")).header(COOKIE, &cookie).send().await.unwrap();
    described(events, &["Source: Car data"]).await;
    assert!(shown.cluster.writes().is_empty());
}

#[tokio::test]
async fn a_job_manager_that_does_not_answer_is_reported() {
    let shown = Shown::new(fleet()).await;
    let (status, text) = page(&shown, &shown.cookie().await, JOB).await;
    assert_eq!(status, 200);
    let job = text.split_once("<section id=\"job\">").unwrap().1;
    assert!(job.starts_with("<h2>Job</h2><p class=\"unread\">Not available: "), "{job}");
}

#[tokio::test]
async fn a_session_cluster_leads_to_the_pages_of_its_jobs() {
    let shown = Shown::new(stage()).await;
    let cookie = shown.cookie().await;
    let (status, text) = page(&shown, &cookie, "/in/default/deployment/session/job").await;
    let link = "<a href=\"/in/default/sessionjob/clicks/job\">clicks</a>";
    assert!(status == 200 && text.contains(link), "{text}");
    let (status, text) = page(&shown, &cookie, "/in/default/deployment/nothing/job").await;
    assert!(status == 404 && text.contains("There is no FlinkDeployment `nothing`"), "{text}");
}

#[tokio::test]
async fn a_blue_green_deployment_shows_the_job_of_the_colour_that_serves() {
    let flink = FakeFlink::start().await;
    let now = flink.now();
    flink.with("default/shop-blue", |cluster| {
        cluster.jobs.insert(JOB_ID.to_owned(), Job::running(JOB_ID, now));
    });
    let cluster = stage();
    let path = "/in/default/bluegreen/shop";
    let behind = Behind { flink: flink.address().to_owned(), ..Behind::default() };
    let parent = cluster.object("flinkbluegreendeployments", "default", "shop").unwrap();
    let shown = Shown::behind(cluster, behind).await;
    let cookie = shown.cookie().await;
    let (status, text) = page(&shown, &cookie, &format!("{path}/job")).await;
    assert!(status == 200 && text.contains("no colour has been created yet"), "{text}");
    let owner = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
        "name": "shop", "uid": parent["metadata"]["uid"], "controller": true});
    shown.cluster.insert(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "shop-blue", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"flinkVersion": "v1_20", "flinkConfiguration": {"a.colour": "blue"},
            "job": {"jarURI": "local:///job.jar", "parallelism": 1}},
        "status": {"lifecycleState": "STABLE", "jobManagerDeploymentStatus": "READY",
            "jobStatus": {"state": "RUNNING", "jobId": JOB_ID}},
    }));
    let (_, text) = page(&shown, &cookie, &format!("{path}/job")).await;
    assert!(text.contains("<title>Source: Car data</title>"), "{text}");
    let (_, text) = page(&shown, &cookie, &format!("{path}/config")).await;
    assert!(text.contains("a.colour"), "{text}");
    let (_, text) = page(&shown, &cookie, &format!("{path}/autoscaler")).await;
    assert!(text.contains("set config bluegreen/shop job.autoscaler.enabled=true"), "{text}");
}
