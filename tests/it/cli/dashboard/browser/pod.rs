//! Signing in to the console of a pod.

use super::*;
use crate::cli::dashboard::pod::{Served, with_people};

const SIGN_IN: &str = "return document.activeElement.id";

#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn a_person_signs_in_and_out() {
    let served = Served::new(with_people()).await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/?state=FAILED", served.base)).await;
    browser.shows(SIGN_IN, &json!("token")).await;
    browser.press("of-somebody-else\u{e007}").await;
    let told = "return document.querySelector('.wrong')?.textContent.includes('does not accept')";
    browser.shows(told, &json!(true)).await;
    browser.shows(SIGN_IN, &json!("token")).await;
    browser.press("of-jane\u{e007}").await;
    browser.shows(NAMES, &json!(["job-01", "job-05", "job-09"])).await;
    browser.shows(LINK, &json!("Live")).await;
    browser.shows("return location.pathname + location.search", &json!("/?state=FAILED")).await;
    judge_all(&browser, &served.base, "visitor").await;
    let state = "return document.querySelector('#counts .bad b').textContent";
    browser.shows(state, &json!("20")).await;
    browser.click(".visitor button").await;
    browser.shows(SIGN_IN, &json!("token")).await;
    judge_all(&browser, &served.base, "sign-in").await;
    browser.leave().await;
}

/// In light and dark, on a wide screen and on a phone.
async fn judge_all(browser: &Browser, address: &str, name: &str) {
    for (width, theme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        browser.resize(width, 844, theme).await;
        browser.judge(address, width, &format!("{name}-{width}-{theme}")).await;
    }
}
