//! The console with a running job: a person upgrades it, rolls it back from the timeline, and is refused what they may
//! not do.
//!
//! `KUBECTL_FLINK_TEST_PICTURES=DIR` saves pictures of the pages along the way: those of `docs/images`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::json;

use super::cluster::{Cluster, JOB};
use crate::support::browser::Browser;

/// Size of the pictures.
const WIDTH: u32 = 1280;
const HEIGHT: u32 = 860;

/// A console of a namespace, with further arguments.
struct Console {
    child: Child,
    /// Includes the token.
    address: String,
}

impl Console {
    fn start(cluster: &Cluster, words: &[&str]) -> Self {
        let mut command = cluster.command(&["dashboard", "--port", "0", "--no-browser"]);
        let mut child = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.address.split_once("/?token=").expect("it has a token").0)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_person_upgrades_and_goes_back_in_the_console() {
    let mut cluster = Cluster::new("console");
    let job = cluster.job();
    cluster.start(&job);
    cluster.wait_until_writing();
    for object in viewer(&cluster.namespace) {
        cluster.create(&object);
    }
    let console = Console::start(&cluster, &[]);
    let viewer = Console::start(&cluster, &["--as", "viewer"]);
    cluster.wait_for(async {
        let browser = Browser::start().await;
        browser.resize(WIDTH, HEIGHT, "light").await;
        browser.open(&console.address).await;
        upgrade(&browser).await;
        browse(&browser).await;
        go_back(&browser).await;
        browser.leave().await;
    });
    let back = cluster.wait_until_stable();
    assert_eq!(back["spec"]["job"]["parallelism"], 1, "the spec is that of revision 1");
    let restored = back["status"]["jobStatus"]["upgradeSavepointPath"].as_str();
    assert!(restored.is_some_and(|it| it.contains("savepoint")), "with its state: {back:#}");
    cluster.wait_for(async {
        let browser = Browser::start().await;
        browser.open(&viewer.address).await;
        inspect(&browser, &viewer, &cluster.namespace).await;
        browser.leave().await;
    });
    drop((console, viewer));
    cluster.delete_and_count();
}

/// From the fleet to a plan, and from there until the job is stable.
async fn upgrade(browser: &Browser) {
    browser.shows_text("STABLE").await;
    browser.choose(JOB).await;
    let is_well = "return Boolean(document.querySelector('#why .s.good'))";
    browser.shows(is_well, &json!(true)).await;
    browser.shows_text("TaskManager").await;
    browser.picture("console-deployment").await;
    browser.choose("Scale").await;
    let field = "const it = document.getElementById('parallelism'); it.value = '2'; return it.name";
    assert_eq!(browser.ask(field).await, json!("parallelism"));
    browser.choose("Preview").await;
    for told in ["What the operator would do", "job.parallelism", "savepoint", "--parallelism=2"] {
        browser.shows_text(told).await;
    }
    browser.picture("console-plan").await;
    browser.choose("Scale").await;
    browser.shows_text("scaled").await;
    let state = "return document.querySelector('#run .s').textContent";
    // The upgrade may be over before it is seen.
    let is_reported = "const text = document.body.innerText; return text.includes('UPGRADING') || \
                   document.querySelector('#run .s').textContent === 'Done'";
    browser.shows(is_reported, &json!(true)).await;
    browser.picture("console-run").await;
    browser.shows(state, &json!("Done")).await;
    browser.shows_text("STABLE").await;
    browser.choose(&format!("Back to {JOB}")).await;
    let state = "return document.querySelector('#head .s').textContent";
    browser.shows(state, &json!("STABLE")).await;
}

/// Visits the pages with what the JobManager, the pods and the operator report.
async fn browse(browser: &Browser) {
    browser.choose("Job").await;
    for told in ["Source: counter", "files: Writer"] {
        browser.shows_text(told).await;
    }
    // A task counts as busy until its first figures arrive.
    let is_measured = "const text = document.body.innerText; return text.includes('busy ') && !text.includes('busy 100%')";
    browser.shows(is_measured, &json!(true)).await;
    browser.picture("console-job").await;
    browser.choose("Configuration").await;
    browser.shows_text("execution.checkpointing.interval").await;
    browser.picture("console-config").await;
    browser.choose("Autoscaler").await;
    browser.shows_text("job.autoscaler.enabled").await;
    browser.choose("Logs").await;
    browser.shows_text("INFO").await;
    browser.shows_text("taskmanager-1-1").await;
    browser.picture("console-logs").await;
    let address = "return document.querySelector('a[target=_blank]').href";
    let address = browser.ask(address).await;
    browser.open(address.as_str().unwrap()).await;
    // The last one is an edge of its graph.
    for told in ["Running Jobs", JOB, "Source: counter", "HASH"] {
        browser.shows_text(told).await;
    }
    browser.picture("console-flink-ui").await;
    browser.driver.back().await.unwrap();
    browser.shows_text("INFO").await;
    browser.choose("Overview").await;
}

/// Rolls back to the revision that the upgrade has left on the timeline.
async fn go_back(browser: &Browser) {
    browser.shows_text("Revision 1").await;
    browser.ask("document.getElementById('life').scrollIntoView()").await;
    browser.picture("console-timeline").await;
    browser.choose("Roll back to this").await;
    for told in ["What the operator would do", "job.parallelism", "--to-revision=1"] {
        browser.shows_text(told).await;
    }
    browser.choose("Roll back").await;
    browser.shows_text("rolled back to revision 1").await;
    let state = "return document.querySelector('#run .s').textContent";
    browser.shows(state, &json!("Done")).await;
}

/// A person with read-only rights is offered nothing, and is refused a direct request.
async fn inspect(browser: &Browser, console: &Console, namespace: &str) {
    browser.shows_text("STABLE").await;
    let links = "return document.querySelectorAll('.acts a').length";
    assert_eq!(browser.ask(links).await, json!(0));
    browser.choose(JOB).await;
    browser.shows_text("Timeline").await;
    let actions = "return document.querySelectorAll('.actions a, #life a.next').length";
    assert_eq!(browser.ask(actions).await, json!(0));
    let path = format!("/in/{namespace}/deployment/{JOB}/do/suspend");
    browser.open(&console.at(&path)).await;
    browser.shows_text("Permission denied").await;
}

/// A user who may see everything that the console shows, and change nothing.
fn viewer(namespace: &str) -> [serde_json::Value; 2] {
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "viewer", "namespace": namespace});
    let verbs = ["get", "list", "watch"];
    let resources = ["pods", "pods/log", "events", "configmaps"];
    [
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata, "rules": [
            {"apiGroups": ["flink.apache.org"], "resources": ["*"], "verbs": verbs},
            {"apiGroups": [""], "resources": resources, "verbs": verbs},
            {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get"]},
            {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": verbs}]}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "viewer"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "viewer"}]}),
    ]
}
