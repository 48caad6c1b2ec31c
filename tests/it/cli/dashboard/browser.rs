//! What a person sees and does in a real browser. `tests/browser.sh` runs these tests.

mod pod;

use std::ops::Deref;
use std::time::{Duration, Instant};

use serde_json::json;
use thirtyfour::Key;

use super::showcase::showcase;
use super::{JOB_ID, PATIENCE, Shown, fleet, job_manager};
use crate::support::browser::Browser;
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_cluster::http::Behind;
use crate::support::fake_flink::FakeFlink;

/// The names in the first rows of the table.
const NAMES: &str =
    "return [...document.querySelectorAll('tbody th')].slice(0, 3).map(it => it.textContent)";
/// What the page reports about its connection.
const LINK: &str = "return document.getElementById('link').textContent";
/// The element that has the focus.
const FOCUS: &str = "return document.activeElement.name || document.activeElement.textContent";

/// A console, and a browser that shows it.
struct Seen {
    browser: Browser,
    shown: Shown,
    _flink: FakeFlink,
}

impl Deref for Seen {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

impl Seen {
    async fn new() -> Self {
        Self::of(fleet()).await
    }

    async fn of(cluster: FakeCluster) -> Self {
        let flink = job_manager().await;
        let behind = Behind { flink: flink.address().to_owned(), ..Behind::default() };
        let shown = Shown::behind(cluster, behind).await;
        let browser = Browser::start().await;
        browser.open(&shown.address).await;
        browser.shows(LINK, &json!("Live")).await;
        Self { browser, shown, _flink: flink }
    }

    /// Returns the current address, relative to the console's own.
    async fn path(&self) -> String {
        let address = self.driver.current_url().await.unwrap().to_string();
        address.strip_prefix(self.shown.base()).expect("it is the console").to_owned()
    }

    async fn leave(self) {
        self.browser.leave().await;
    }
}

#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn a_fleet_shows_at_a_glance_what_wants_attention() {
    let seen = Seen::of(showcase()).await;
    seen.resize(1280, 820, "light").await;
    let first = "return document.querySelector('#counts a + a').textContent.trim()";
    seen.shows(first, &json!("FAILED 1")).await;
    seen.picture("console-fleet").await;
    seen.resize(1280, 820, "dark").await;
    seen.picture("console-fleet-dark").await;
    seen.choose("FAILED 1").await;
    seen.shows(NAMES, &json!(["device-graph"])).await;
    seen.leave().await;
}

#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn the_address_keeps_what_was_chosen() {
    let seen = Seen::new().await;
    assert_eq!(seen.path().await, "/", "the token is gone from it");
    seen.shows(NAMES, &json!(["job-00", "job-02", "job-04"])).await;
    seen.click("#counts .bad").await;
    seen.shows(NAMES, &json!(["job-01", "job-05", "job-09"])).await;
    seen.click("th.parallelism a").await;
    seen.shows(NAMES, &json!(["job-77", "job-73", "job-69"])).await;
    assert_eq!(seen.path().await, "/?state=FAILED&sort=parallelism");
    seen.driver.refresh().await.unwrap();
    seen.shows(NAMES, &json!(["job-77", "job-73", "job-69"])).await;
    seen.click("#counts .clear").await;
    seen.shows("return document.querySelectorAll('tbody tr').length", &json!(50)).await;
    seen.click("#pager [rel=next]").await;
    seen.shows("return document.querySelectorAll('tbody tr').length", &json!(30)).await;
    assert_eq!(seen.path().await, "/?sort=parallelism&page=2");
    seen.leave().await;
}

#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn a_change_comes_into_the_page_and_moves_nothing_else() {
    let mut seen = Seen::new().await;
    let row = "document.getElementById('deployment/lab/job-08')";
    let state = format!("return {row}.querySelector('.state').textContent");
    seen.shows(&state, &json!("STABLE")).await;
    let focus = format!(
        "window.same = true; const link = {row}.querySelector('a'); link.focus(); window.link = link; \
         const error = document.querySelector('tbody details'); error.open = true; window.opened = error; \
         const table = document.querySelector('.table'); table.scrollTop = 200; return table.scrollTop"
    );
    assert_eq!(seen.ask(&focus).await, json!(200));
    let started = Instant::now();
    let failed = json!({"lifecycleState": "FAILED", "error": "no room"});
    seen.shown.cluster.set_status("flinkdeployments", "lab", "job-08", &failed);
    seen.shows(&state, &json!("FAILED")).await;
    println!("a change was seen after {} ms", started.elapsed().as_millis());
    let kept = "return window.same && document.activeElement === window.link && window.opened.isConnected && \
                window.opened.open && document.querySelector('.table').scrollTop === 200";
    assert_eq!(seen.ask(kept).await, json!(true));
    let failed = "return document.querySelector('#counts .bad b').textContent";
    seen.shows(failed, &json!("21")).await;

    seen.shown.end().await;
    seen.shows(LINK, &json!("Connection lost, reconnecting")).await;
    seen.leave().await;
}

#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn keys_are_enough() {
    let seen = Seen::new().await;
    seen.press("/").await;
    seen.shows(FOCUS, &json!("q")).await;
    seen.press("JOB-7").await;
    seen.shows(NAMES, &json!(["job-70", "job-72", "job-74"])).await;
    assert_eq!(seen.path().await, "/?q=JOB-7");
    seen.shows(FOCUS, &json!("q")).await;
    // Past the filters, the states and the table's header to the first row.
    let is_in_row = "return Boolean(document.activeElement.closest('tbody'))";
    for _ in 0..60 {
        if seen.ask(is_in_row).await == json!(true) {
            break;
        }
        seen.press(Key::Tab).await;
    }
    seen.shows(FOCUS, &json!("lab")).await;
    let outline = "return getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(seen.ask(outline).await, json!("solid"), "it is seen where the focus is");
    seen.press(Key::Enter).await;
    seen.shows("return location.search", &json!("?q=JOB-7&namespace=lab")).await;
    seen.shows("return document.querySelectorAll('tbody tr').length", &json!(5)).await;
    seen.leave().await;
}

#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn a_row_leads_to_its_page_and_back() {
    let seen = Seen::new().await;
    seen.click("#counts .bad").await;
    seen.shows(NAMES, &json!(["job-01", "job-05", "job-09"])).await;
    seen.ask("document.querySelector('tbody .name a').focus()").await;
    seen.press(Key::Enter).await;
    seen.shows("return document.querySelector('h1').textContent", &json!("job-01")).await;
    assert_eq!(seen.path().await, "/in/shop/deployment/job-01");
    seen.shows(LINK, &json!("Live")).await;
    let error = "window.same = true; return document.querySelector('pre.error').textContent.length";
    assert_eq!(seen.ask(error).await, json!(440), "the whole error");
    let stable = json!({"lifecycleState": "STABLE", "error": null});
    seen.shown.cluster.set_status("flinkdeployments", "shop", "job-01", &stable);
    let state = "return document.querySelector('#head .s').textContent";
    seen.shows(state, &json!("STABLE")).await;
    assert_eq!(seen.ask("return window.same").await, json!(true), "the page was not loaded again");
    seen.driver.back().await.unwrap();
    seen.shows(NAMES, &json!(["job-05", "job-09", "job-13"])).await;
    assert_eq!(seen.path().await, "/?state=FAILED");
    seen.leave().await;
}

#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn options_are_searched_in_the_address_and_what_is_typed_stays() {
    const FIRST: &str = "return document.querySelector('tbody th').textContent";
    let seen = Seen::new().await;
    let config = "/in/shop/deployment/job-01/config";
    seen.driver.goto(format!("{}{config}", seen.shown.base())).await.unwrap();
    seen.shows(LINK, &json!("Live")).await;
    seen.click("#filter [name=q]").await;
    seen.press("autoscaler.enab").await;
    // Meanwhile, the resource changes, and with it the options in force.
    let mut job = seen.shown.cluster.object("flinkdeployments", "shop", "job-01").unwrap();
    job["spec"]["flinkConfiguration"] = json!({"a.first": "1", "job.autoscaler.enabled": "true"});
    seen.shown.cluster.insert(job);
    seen.shows("return document.body.textContent.includes('a.first')", &json!(true)).await;
    seen.press("led" + Key::Enter).await;
    seen.shows(FIRST, &json!("job.autoscaler.enabled")).await;
    assert_eq!(seen.path().await, format!("{config}?q=autoscaler.enabled"));
    seen.click(".switch a:last-child").await;
    seen.shows("return location.search", &json!("?q=autoscaler.enabled&set=false")).await;
    seen.shows(FIRST, &json!("job.autoscaler.enabled")).await;
    seen.leave().await;
}

#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn who_has_no_token_reads_what_to_do() {
    let seen = Seen::new().await;
    seen.driver.delete_all_cookies().await.unwrap();
    seen.driver.goto(format!("{}/?token=wrong", seen.shown.base())).await.unwrap();
    seen.shows("return document.querySelector('h1').textContent", &json!("Access denied")).await;
    let dressed = "return getComputedStyle(document.querySelector('h1')).fontSize";
    assert_eq!(seen.ask(dressed).await, json!("18px"), "it has the style of the console");
    seen.leave().await;
}

/// The view stays at the end, unless a person scrolls up or pauses it.
#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn lines_come_and_can_be_held() {
    let seen = Seen::new().await;
    let page = format!("{}/in/shop/deployment/job-01/logs?role=jm", seen.shown.base());
    seen.driver.goto(page).await.unwrap();
    seen.shows(LINK, &json!("Live")).await;
    let last = "return document.getElementById('lines').lastElementChild.textContent";
    let is_at_end = "const it = document.getElementById('lines'); \
                     return it.scrollTop > 0 && it.scrollHeight - it.scrollTop - it.clientHeight < 2";
    let count = "return document.querySelectorAll('#lines p').length";
    let write = |text: &str| seen.shown.cluster.write_log("job-01-6d4c7b9f8-k2p4q", text);
    seen.shows(is_at_end, &json!(true)).await;
    let before = seen.ask(count).await.as_u64().unwrap();
    write("first\n");
    seen.shows(last, &json!("first")).await;
    seen.shows(is_at_end, &json!(true)).await;
    assert_eq!(seen.ask(count).await, json!(before + 1), "nothing is shown twice");

    seen.ask("document.getElementById('lines').scrollTop = 40").await;
    let end = "return document.getElementById('end').hidden";
    seen.shows(end, &json!(false)).await;
    write("second\n");
    seen.shows(last, &json!("second")).await;
    assert_eq!(seen.ask("return document.getElementById('lines').scrollTop").await, json!(40));
    seen.click("#end").await;
    seen.shows(is_at_end, &json!(true)).await;
    seen.shows(end, &json!(true)).await;

    seen.click("#pause").await;
    write("third\nfourth\n");
    let pause = "return document.getElementById('pause').textContent";
    seen.shows(pause, &json!("Paused: 2 more lines")).await;
    assert_eq!(seen.ask(last).await, json!("second"));
    seen.click("#pause").await;
    seen.shows(last, &json!("fourth")).await;

    // As when a tab becomes visible again.
    seen.ask("follow()").await;
    write("fifth\n");
    seen.shows(last, &json!("fifth")).await;
    assert_eq!(seen.ask(count).await, json!(before + 5), "known lines are not shown again");
    let many: Vec<_> = (0..2_100).map(|number| format!("line {number}\n")).collect();
    write(&many.concat());
    seen.shows(last, &json!("line 2099")).await;
    assert!(seen.ask(count).await.as_u64().unwrap() <= 2_000, "the oldest are dropped");
    seen.leave().await;
}

/// Flink's scripts run in another origin, and change nothing.
#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn a_link_leads_to_flinks_own_interface_at_the_job() {
    let seen = Seen::new().await;
    let page = format!("{}/in/shop/deployment/job-01", seen.shown.base());
    seen.driver.goto(page).await.unwrap();
    seen.shows(LINK, &json!("Live")).await;
    seen.click("#head [target=_blank]").await;
    let started = Instant::now();
    let windows = loop {
        let windows = seen.driver.windows().await.unwrap();
        if windows.len() == 2 {
            break windows;
        }
        assert!(started.elapsed() < PATIENCE, "a tab opens");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    seen.driver.switch_to_window(windows[1].clone()).await.unwrap();
    let text = "return (document.querySelector('p') || document.body).textContent";
    seen.shows(text, &json!(format!("1 at #/job/running/{JOB_ID}/overview"))).await;
    seen.shows("return document.querySelector('h1').textContent", &json!("405")).await;
    let address = seen.driver.current_url().await.unwrap().to_string();
    assert!(!address.starts_with(seen.shown.base()) && !address.contains("token"), "{address}");
    // What such a script could try to do to the console.
    let asked = format!(
        "const done = arguments[arguments.length - 1]; \
         fetch('{}/', {{mode: 'no-cors', credentials: 'include'}}).then(() => done('asked'), () => done('refused'))",
        seen.shown.base()
    );
    let answer = seen.driver.execute_async(asked, Vec::new()).await.unwrap();
    assert_eq!(*answer.json(), json!("refused"), "its policy lets it ask nobody else");
    seen.leave().await;
}

/// In light and dark, on a wide screen and on a phone, with an error and a note.
#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn everybody_can_read_it() {
    let seen = Seen::new().await;
    let page = format!("{}/?labels=%3D", seen.shown.base());
    let resource = format!("{}/in/shop/deployment/job-01", seen.shown.base());
    let job = format!("{resource}/job");
    let autoscaler = format!("{resource}/autoscaler");
    let config = format!("{resource}/config?set=false");
    let logs = format!("{resource}/logs");
    let scale = format!("{resource}/do/scale?parallelism=3");
    let deploy = format!("{}/deploy?namespace=shop&kind=deployment&name=job-01", seen.shown.base());
    for (width, theme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        seen.resize(width, 844, theme).await;
        for (name, address) in [
            ("fleet", seen.shown.base()),
            ("note", &page),
            ("resource", &resource),
            ("job", &job),
            ("config", &config),
            ("autoscaler", &autoscaler),
            ("scale", &scale),
            ("deploy", &deploy),
            ("logs", &logs),
        ] {
            seen.judge(address, width, &format!("{name}-{width}-{theme}")).await;
        }
    }
    seen.leave().await;
}
