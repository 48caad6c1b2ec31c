//! Signing in to the console of a pod.

use super::*;
use crate::cli::dashboard::pod::{Served, with_people};

const SIGN_IN: &str = "return document.activeElement.id";

#[tokio::test]
#[ignore = "needs Chromium: tests/browser.sh"]
async fn a_person_signs_in_and_out() {
    let served = Served::new(with_people()).await;
    let (driver, _chromedriver, _folder) = browser().await;
    let shows = async |script: &str, wanted: &Value| {
        let started = Instant::now();
        loop {
            let answer = driver.execute(script, Vec::new()).await.unwrap().json().clone();
            if answer == *wanted {
                return;
            }
            assert!(started.elapsed() < LIMIT, "{script}: {answer} and not {wanted}");
            tokio::time::sleep(LOOK).await;
        }
    };
    let press = async |keys: &str| {
        driver.action_chain().send_keys(keys).perform().await.unwrap();
    };
    driver.goto(format!("{}/?state=FAILED", served.base)).await.unwrap();
    shows(SIGN_IN, &json!("token")).await;
    press("of-somebody-else\u{e007}").await;
    let told = "return document.querySelector('.wrong')?.textContent.includes('does not accept')";
    shows(told, &json!(true)).await;
    shows(SIGN_IN, &json!("token")).await;
    press("of-jane\u{e007}").await;
    shows(NAMES, &json!(["job-01", "job-05", "job-09"])).await;
    shows(LINK, &json!("Live")).await;
    shows("return location.pathname + location.search", &json!("/?state=FAILED")).await;
    judge_all(&driver, &served.base, "visitor").await;
    let state = "return document.querySelector('#counts .bad b').textContent";
    shows(state, &json!("20")).await;
    driver.find(By::Css(".visitor button")).await.unwrap().click().await.unwrap();
    shows(SIGN_IN, &json!("token")).await;
    judge_all(&driver, &served.base, "sign-in").await;
    driver.quit().await.unwrap();
}

/// In light and dark, wide and on a phone.
async fn judge_all(driver: &WebDriver, address: &str, name: &str) {
    let devtools = driver.cdp();
    for (width, theme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        let size =
            json!({"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500});
        devtools.send_raw("Emulation.setDeviceMetricsOverride", size).await.unwrap();
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        devtools.send_raw("Emulation.setEmulatedMedia", media).await.unwrap();
        judge(driver, address, width, &format!("{name}-{width}-{theme}.png")).await;
    }
}
