//! The console in a pod: who has access, and what each person may see.
//!
//! The operator that serves it waits to be elected, so that it does nothing else.

use reqwest::header::{AUTHORIZATION, WWW_AUTHENTICATE};

use super::*;
use crate::support::serving::{Serving, lease};

const JOB: &str = "/in/shop/deployment/job-01";

/// A cluster, and an operator that serves its console.
pub(super) struct Served {
    pub(super) cluster: FakeCluster,
    pub(super) base: String,
    serving: Serving,
    _kubeconfig: NamedTempFile,
}

impl Served {
    pub(super) async fn new(cluster: FakeCluster) -> Self {
        Self::behind(cluster, Behind::default(), &[]).await
    }

    /// Reviews the person again on each request.
    async fn asking(cluster: FakeCluster) -> Self {
        Self::behind(cluster, Behind::default(), &["--dashboard-review-interval", "0s"]).await
    }

    pub(super) async fn behind(cluster: FakeCluster, behind: Behind, flags: &[&str]) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        cluster.insert(lease("default"));
        let kubeconfig = kubeconfig(cluster.listen(behind).await);
        let flags = [&["-A"], flags].concat();
        let serving = Serving::start(kubeconfig.path(), "default", &flags).await;
        Self { cluster, base: serving.base.clone(), serving, _kubeconfig: kubeconfig }
    }

    fn get(&self, path: &str) -> RequestBuilder {
        client().get(format!("{}{path}", self.base))
    }

    fn post(&self, path: &str, body: &str) -> RequestBuilder {
        let form = "application/x-www-form-urlencoded";
        let request = client().post(format!("{}{path}", self.base));
        request.header("content-type", form).body(body.to_owned())
    }

    /// Signs in with this token, and returns the cookie.
    async fn sign_in(&self, token: &str) -> String {
        self.serving.sign_in(token).await
    }

    async fn page(&self, path: &str, cookie: &str) -> (u16, String) {
        let page = self.get(path).header(COOKIE, cookie).send().await.unwrap();
        (page.status().as_u16(), page.text().await.unwrap())
    }
}

/// A fleet, with people who may see one of its namespaces, all of them, and none.
pub(super) fn with_people() -> FakeCluster {
    let cluster = fleet();
    cluster.know("of-jane", "jane", &["shop"]);
    cluster.know("of-root", "root", &["*"]);
    cluster.know("of-nobody", "nobody", &[]);
    cluster
}

#[tokio::test]
async fn who_is_not_known_is_asked_to_sign_in_and_sees_nothing() {
    let served = Served::new(with_people()).await;
    for path in ["/", "/?state=FAILED", JOB, "/fleet/events", "/nothing"] {
        let page = served.get(path).send().await.unwrap();
        assert_eq!(page.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(page.headers()[WWW_AUTHENTICATE], "Bearer");
        assert_eq!(page.headers()["cache-control"], "no-store");
        assert_eq!(page.headers()["referrer-policy"], "same-origin", "else a form has no origin");
        assert_eq!(page.headers().get_all(CONTENT_SECURITY_POLICY).iter().count(), 1);
        let page = page.text().await.unwrap();
        assert!(page.contains("Sign in to lab") && !page.contains("<table"), "{path}: {page}");
        assert!(page.contains(&format!("name=\"to\" value=\"{path}\"")), "{path}: {page}");
        let style = page.split('"').find(|it| it.ends_with("console.css")).unwrap();
        assert_eq!(status(served.get(style)).await, 200);
    }
    assert!(served.cluster.reviews().is_empty(), "nobody is asked about");
    let lists = served.cluster.requests();
    let is_watch = |uri: &str| uri.contains("/flinkdeployments") && uri.contains("watch=");
    assert!(!lists.iter().any(|it| is_watch(&it.uri)), "nothing is watched for nobody");

    for (body, told) in [
        ("token=of-nobody-else&to=%2F", "does not accept this token"),
        ("token=of+jane", "This is not a token"),
        ("", "This is not a token"),
    ] {
        let page = served.post("/sign-in", body).send().await.unwrap();
        assert_eq!(page.status(), StatusCode::UNAUTHORIZED);
        assert!(!page.headers().contains_key(SET_COOKIE));
        let page = page.text().await.unwrap();
        assert!(page.contains(told) && !page.contains("of-nobody-else"), "{page}");
    }
    let long = format!("token={}", "a".repeat(20_000));
    assert_eq!(status(served.post("/sign-in", &long)).await, 401);
    let other = served.get("/").header(COOKIE, "kubectl-flink-console=x").send().await.unwrap();
    assert!(other.text().await.unwrap().contains("Sign in"), "a cookie of another name is none");
}

#[tokio::test]
async fn nothing_is_posted_and_no_other_site_asks() {
    let served = Served::new(with_people()).await;
    let cookie = served.sign_in("of-root").await;
    let with = |request: RequestBuilder| request.header(COOKIE, &cookie);
    for path in ["/", JOB, "/in/shop/deployment/job-01/restart", "/fleet/events"] {
        assert_eq!(status(with(served.post(path, ""))).await, 405, "{path}");
        let url = format!("{}{path}", served.base);
        for method in [Method::PUT, Method::DELETE, Method::PATCH] {
            assert_eq!(status(with(client().request(method, &url))).await, 405, "{path}");
        }
    }
    let sign_in = || served.post("/sign-in", "token=of-root&to=%2F");
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1"] {
        assert_eq!(status(sign_in().header(ORIGIN, origin)).await, 403, "{origin}");
        assert_eq!(status(with(served.get("/")).header(ORIGIN, origin)).await, 403, "{origin}");
    }
    assert_eq!(status(sign_in().header("sec-fetch-site", "cross-site")).await, 403);
    assert_eq!(status(sign_in().header(ORIGIN, &served.base)).await, 303);
    let linked = with(served.get("/?q=job-01")).header("sec-fetch-site", "cross-site");
    let linked = linked.header("sec-fetch-mode", "navigate").send().await.unwrap();
    let linked = linked.text().await.unwrap();
    assert!(linked.contains("0;url=/?q=job-01") && !linked.contains("<table"), "{linked}");
    // Under another host name, this cookie is ignored.
    let renamed = with(served.get("/")).header(HOST, "evil.example").send().await.unwrap();
    assert_eq!(renamed.status(), StatusCode::UNAUTHORIZED);
    let writes = served.cluster.writes();
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test]
async fn each_sees_what_they_may_list_and_no_trace_of_the_rest() {
    let served = Served::new(with_people()).await;
    let jane = served.sign_in("of-jane").await;
    let follow = served.get("/fleet/events?size=100").header(COOKIE, &jane).send();
    let shown = described(follow.await.unwrap(), &["job-01", "of 40"]).await;
    assert!(!shown.contains("job-00") && !shown.contains("/lab/"), "{shown}");
    let (_, page) = served.page("/?size=100", &jane).await;
    assert!(page.contains("deployment/shop/job-01") && page.contains("All <b>40</b>"), "{page}");
    assert!(!page.contains("job-00") && !page.contains("value=\"lab\""), "{page}");
    assert!(page.contains("your namespaces") && page.contains("jane"), "{page}");
    let (_, page) = served.page("/in/lab/deployment/job-00", &jane).await;
    assert!(page.contains("cannot read in namespace") && !page.contains("UPGRADING"), "{page}");

    let root = served.sign_in("of-root").await;
    let (_, page) = served.page("/?size=100", &root).await;
    assert!(page.contains("All <b>80</b>") && page.contains("all namespaces"), "{page}");
    let nobody = served.sign_in("of-nobody").await;
    let (_, page) = served.page("/", &nobody).await;
    assert!(page.contains("FlinkDeployments are not shown") && !page.contains("job-"), "{page}");

    let mut job = served.cluster.object("flinkdeployments", "shop", "job-01").unwrap();
    job["metadata"] = json!({"name": "later", "namespace": "new"});
    served.cluster.know("of-jane", "jane", &["shop", "new"]);
    let follow = served.get("/fleet/events?q=later").header(COOKIE, &jane).send().await.unwrap();
    served.cluster.insert(job);
    described(follow, &["deployment/new/later"]).await;
    let asked = served.cluster.reviews().into_iter().filter(|it| it.uri.ends_with("/tokenreviews"));
    assert_eq!(asked.count(), 3, "one question for each who signed in");
}

#[tokio::test]
async fn a_resource_is_read_with_the_token_of_its_reader() {
    let flink = job_manager().await;
    let behind = Behind { flink: flink.address().to_owned(), ..Behind::default() };
    let served = Served::behind(with_people(), behind, &[]).await;
    let jane = served.sign_in("of-jane").await;
    served.page("/", &jane).await;
    served.cluster.forget_requests();
    let (status, page) = served.page(JOB, &jane).await;
    assert_eq!(status, 200);
    for wanted in ["before-upgrade-1", " completed, 0 failed", "/chk-", "Starting deployment"] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    let of_jane = Some("of-jane".to_owned());
    let requests = served.cluster.requests();
    // The operator itself reads its Lease, and watches continue.
    let is_own = |uri: &str| uri.contains("/leases") || uri.contains("watch=");
    let read: Vec<_> = requests.iter().filter(|it| !is_own(&it.uri)).collect();
    assert!(read.len() > 5 && read.iter().all(|it| it.token == of_jane), "{read:#?}");
    let proxied = served.cluster.proxied();
    assert!(!proxied.is_empty() && proxied.iter().all(|it| it.token == of_jane), "{proxied:#?}");
    let headers = |it: &crate::support::fake_cluster::Recorded| it.body.to_string();
    assert!(!proxied.iter().any(|it| headers(it).contains("x-own")), "{proxied:#?}");
}

#[tokio::test]
async fn a_token_that_is_worth_nothing_any_more_ends_what_was_open_with_it() {
    let served = Served::asking(with_people()).await;
    let jane = served.sign_in("of-jane").await;
    for path in ["/fleet/events".to_owned(), format!("{JOB}/events")] {
        served.cluster.know("of-jane", "jane", &["shop"]);
        let jane = served.sign_in("of-jane").await;
        let events = served.get(&path).header(COOKIE, &jane).send().await.unwrap();
        assert_eq!(events.status(), StatusCode::OK);
        served.cluster.forget("of-jane");
        timeout(PATIENCE, events.text()).await.expect("it ends").unwrap();
    }
    let (status, page) = served.page("/", &jane).await;
    assert!(status == 401 && page.contains("Your session has ended"), "{page}");
    served.cluster.know("of-jane", "jane", &["shop"]);
    assert_eq!(served.page("/", &jane).await.0, 401, "it does not come back");
}

#[tokio::test]
async fn rights_that_are_taken_back_hide_their_rows() {
    let served = Served::asking(with_people()).await;
    let jane = served.sign_in("of-jane").await;
    let (_, page) = served.page("/", &jane).await;
    assert!(page.contains("deployment/shop/job-01"), "{page}");
    let events = served.get("/fleet/events").header(COOKIE, &jane).send().await.unwrap();
    served.cluster.know("of-jane", "jane", &[]);
    described(events, &["FlinkDeployments are not shown"]).await;
    let (status, page) = served.page("/", &jane).await;
    assert!(status == 200 && !page.contains("job-01"), "{page}");
}

#[tokio::test]
async fn who_signs_out_sees_nothing_more() {
    let served = Served::new(with_people()).await;
    let jane = served.sign_in("of-jane").await;
    let events = served.get("/fleet/events").header(COOKIE, &jane).send().await.unwrap();
    let out = served.post("/sign-out", "").header(COOKIE, &jane).send().await.unwrap();
    assert_eq!(out.status(), StatusCode::SEE_OTHER);
    assert!(out.headers()[SET_COOKIE].to_str().unwrap().ends_with("Max-Age=0"));
    timeout(PATIENCE, events.text()).await.expect("what was open ends").unwrap();
    assert_eq!(served.page("/", &jane).await.0, 401);
}

#[tokio::test]
async fn a_proxy_may_bring_the_token_with_each_request() {
    let served = Served::new(with_people()).await;
    let get = |path: &str, token: &str| {
        served.get(path).header(AUTHORIZATION, format!("Bearer {token}")).send()
    };
    assert_eq!(get("/", "wrong").await.unwrap().status(), StatusCode::UNAUTHORIZED);
    for _ in 0..3 {
        let page = get("/?size=100", "of-jane").await.unwrap().text().await.unwrap();
        assert!(page.contains("deployment/shop/job-01") && !page.contains("job-00"), "{page}");
        assert!(!page.contains("Sign out"), "the proxy has signed them in");
    }
    let reviews = served.cluster.reviews();
    let of_tokens = reviews.iter().filter(|it| it.uri.ends_with("/tokenreviews"));
    assert_eq!(of_tokens.count(), 2, "the answer counts for a while");
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_lets_nobody_in_and_puts_nobody_out() {
    let served = Served::asking(with_people()).await;
    let jane = served.sign_in("of-jane").await;
    served.page("/", &jane).await;
    served.cluster.fail(Method::POST, "/tokenreviews", Fault::Status(503), usize::MAX);
    let (status, page) = served.page("/", &jane).await;
    assert!(status == 200 && page.contains("deployment/shop/job-01"), "{page}");
    let refused = served.post("/sign-in", "token=of-root").send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let text = refused.text().await.unwrap();
    assert!(text.contains("You cannot be identified"), "{text}");
    served.cluster.heal();
    served.sign_in("of-root").await;
}

#[tokio::test]
async fn nobody_takes_all_of_the_room() {
    let served = Served::new(with_people()).await;
    let jane = served.sign_in("of-jane").await;
    let follow = async |cookie: &str| {
        served.get("/fleet/events").header(COOKIE, cookie).send().await.unwrap()
    };
    let mut live = Vec::new();
    for _ in 0..8 {
        live.push(follow(&jane).await);
    }
    assert!(live.iter().all(|it| it.status() == StatusCode::OK));
    assert_eq!(follow(&jane).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    let root = served.sign_in("of-root").await;
    assert_eq!(follow(&root).await.status(), StatusCode::OK);
    for _ in 0..8 {
        served.sign_in("of-jane").await;
    }
    assert_eq!(served.page("/", &jane).await.0, 401, "the first of too many has ended");
    for events in live {
        timeout(PATIENCE, events.text()).await.expect("with what was open").unwrap();
    }
    assert_eq!(served.page("/", &root).await.0, 200);
}
