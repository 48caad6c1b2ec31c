//! Flink's own UI behind the console, over plain HTTP.

use http::header::AUTHORIZATION;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::*;

const LINK: &str = "/in/shop/deployment/job-01/flink-ui";

/// A console, and the open UI of one deployment.
struct Opened {
    shown: Shown,
    flink: FakeFlink,
    /// Cookie of the console.
    cookie: String,
    /// Address of the UI, with its token.
    address: String,
}

impl Opened {
    async fn new() -> Self {
        let flink = job_manager().await;
        let behind = Behind { flink: flink.address().to_owned(), ..Behind::default() };
        let shown = Shown::behind(fleet(), behind).await;
        let cookie = shown.cookie().await;
        let opened = shown.get(LINK).header(COOKIE, &cookie).send().await.unwrap();
        assert_eq!(opened.status(), StatusCode::SEE_OTHER);
        let address = opened.headers()[LOCATION].to_str().unwrap().to_owned();
        Self { shown, flink, cookie, address }
    }

    fn base(&self) -> &str {
        self.address.split_once("/?token=").expect("the address has a token").0
    }

    fn get(&self, path: &str) -> RequestBuilder {
        client().get(format!("{}{path}", self.base()))
    }

    /// Follows the link and returns the cookie.
    async fn enter(&self) -> String {
        let entered = client().get(&self.address).send().await.unwrap();
        assert_eq!(entered.status(), StatusCode::SEE_OTHER);
        assert_eq!(entered.headers()[LOCATION], format!("/#/job/running/{JOB_ID}/overview"));
        let cookie = entered.headers()[SET_COOKIE].to_str().unwrap().to_owned();
        cookie.split(';').next().unwrap().to_owned()
    }
}

#[tokio::test]
async fn flinks_pages_are_of_an_origin_of_their_own_and_see_no_cookie() {
    let opened = Opened::new().await;
    let cookie = opened.enter().await;
    assert_ne!(opened.base(), opened.shown.base());
    assert_ne!(cookie.split('=').next(), opened.cookie.split('=').next(), "each has a name");
    let cookies = format!("{cookie}; {}", opened.cookie);
    let page = opened.get("/").header(COOKIE, &cookies).header(AUTHORIZATION, "Bearer x");
    let page = page.header("x-of-the-browser", "1").send().await.unwrap();
    assert_eq!(page.status(), StatusCode::OK);
    assert_eq!(page.headers()["content-type"], "text/html");
    let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.starts_with("default-src 'self' "), "{policy}");
    assert!(!page.headers().contains_key(SET_COOKIE), "a JobManager sets none");
    assert!(page.text().await.unwrap().contains("Fake Flink Web Dashboard"));
    let json = opened.get("/jobs/overview").header(COOKIE, &cookies).send().await.unwrap();
    assert_eq!(json.headers()["content-type"], "application/json; charset=UTF-8");
    assert!(json.text().await.unwrap().contains(JOB_ID));

    let heard = opened.flink.heard();
    assert!(heard.contains("host: "), "{heard}");
    for secret in
        ["cookie", "kubectl-flink-", "authorization", "x-of-the-browser", "referer", "origin"]
    {
        assert!(!heard.contains(secret), "{secret}: {heard}");
    }
    let again = opened.shown.get(LINK).header(COOKIE, &opened.cookie).send().await.unwrap();
    assert_eq!(again.headers()[LOCATION], *opened.address, "one door for one cluster");
}

#[tokio::test]
async fn nobody_else_comes_in_and_nothing_is_changed() {
    let opened = Opened::new().await;
    assert_eq!(status(opened.shown.get(LINK)).await, 401, "the link is the console's own");
    let link = || opened.shown.get(LINK).header(COOKIE, &opened.cookie);
    assert_eq!(status(link().header("sec-fetch-site", "same-site")).await, 403);
    assert_eq!(status(link().header(ORIGIN, opened.base())).await, 403);

    let cookie = opened.enter().await;
    assert_eq!(status(opened.get("/")).await, 401);
    assert_eq!(status(opened.get("/").header(COOKIE, &opened.cookie)).await, 401);
    assert_eq!(status(opened.shown.get("/").header(COOKIE, &cookie)).await, 401);
    assert_eq!(status(opened.get("/assets/x.js")).await, 401, "Flink has such a folder, too");
    let with = |path: &str| opened.get(path).header(COOKIE, &cookie);
    assert_eq!(status(with("/").header(ORIGIN, "http://evil.example")).await, 403);
    assert_eq!(status(with("/").header(ORIGIN, opened.shown.base())).await, 403);
    assert_eq!(status(with("/").header("sec-fetch-site", "same-site")).await, 403);
    assert_eq!(status(with("/").header(HOST, "evil.example")).await, 403);
    assert_eq!(status(with("/main.js").header("service-worker", "script")).await, 403);

    let before = opened.flink.requests("").len();
    let base = opened.base();
    for method in [Method::POST, Method::PATCH, Method::PUT, Method::DELETE] {
        let changed = client().request(method, format!("{base}/jobs/{JOB_ID}"));
        let changed = changed.header(COOKIE, &cookie).header(ORIGIN, base).send().await.unwrap();
        assert_eq!(changed.status(), StatusCode::METHOD_NOT_ALLOWED);
        let text = changed.text().await.unwrap();
        assert!(text.contains("kubectl flink ui job-01 -n shop"), "{text}");
    }
    let foreign = client().post(base).header(COOKIE, &cookie).header(ORIGIN, opened.shown.base());
    assert_eq!(status(foreign).await, 403);
    for path in [&*format!("/jobs/{JOB_ID}/yarn-cancel"), "/jobs/%79arn-cancel", "/x%2f..%2fy"] {
        assert_eq!(status(with(path)).await, 405, "{path}");
    }
    // HTTP clients would normalize these paths.
    let host = base.trim_start_matches("http://");
    for path in ["/../../../../secrets/x", &format!("/jobs/{JOB_ID}\\yarn-cancel")] {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it ends").unwrap();
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    }
    assert_eq!(opened.flink.requests("").len(), before, "nothing of this has reached Flink");
    assert!(!opened.shown.cluster.requests().iter().any(|it| it.uri.contains("secrets/x")));
}

#[tokio::test]
async fn a_job_manager_that_is_not_ready_is_reported() {
    let opened = Opened::new().await;
    let path = "/in/shop/deployment/job-03/flink-ui";
    let answer = opened.shown.get(path).header(COOKIE, &opened.cookie).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let text = answer.text().await.unwrap();
    assert!(text.contains("the JobManager of `job-03` is not ready: it is SUSPENDED"), "{text}");
    let cookie = opened.enter().await;
    opened.flink.with("shop/job-01", |cluster| cluster.is_down = true);
    let answer = opened.get("/jobs/overview").header(COOKIE, cookie).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "Flink's own answer");
    drop(opened.flink);
}

#[tokio::test]
async fn doors_are_bounded_and_end_with_the_command() {
    let mut opened = Opened::new().await;
    let ready = json!({"jobManagerDeploymentStatus": "READY"});
    let mut answers = Vec::new();
    for number in [3, 5, 7, 9, 11, 13, 15, 17] {
        let name = format!("job-{number:02}");
        opened.shown.cluster.set_status("flinkdeployments", "shop", &name, &ready);
        let link = opened.shown.get(&format!("/in/shop/deployment/{name}/flink-ui"));
        let answer = link.header(COOKIE, &opened.cookie).send().await.unwrap();
        answers.push((answer.status().as_u16(), answer.text().await.unwrap()));
    }
    let (last, others) = answers.split_last().unwrap();
    assert!(others.iter().all(|(status, _)| *status == 303), "{others:?}");
    assert!(last.0 == 503 && last.1.contains("the UIs of 8 clusters are open"), "{last:?}");
    assert_eq!(opened.shown.end().await.0, Some(0));
    assert!(opened.get("/").send().await.is_err(), "nothing listens any more");
}
