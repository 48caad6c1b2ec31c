//! A real headless browser, controlled by its own driver. `tests/browser.sh` installs both.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::patience::PATIENCE;
use super::program::other;

/// Pause between two looks at a page.
const POLL: Duration = Duration::from_millis(20);
/// How often the driver may start. It takes a free port of IPv4 and needs the same one of IPv6, where a connection of
/// another test may use it: it ends then.
const STARTS: usize = 5;
/// Variable with the folder for pictures, if any are wanted.
const PICTURES: &str = "KUBECTL_FLINK_TEST_PICTURES";

/// A browser, which ends before its driver.
pub(crate) struct Browser {
    pub(crate) driver: WebDriver,
    _chromedriver: Child,
    /// Everything that the browser writes.
    _folder: TempDir,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut started = None;
        for _ in 0..STARTS {
            started = start_driver(folder.path()).await;
            if started.is_some() {
                break;
            }
        }
        let (chromedriver, port) = started.expect("chromedriver starts");
        let mut wanted = DesiredCapabilities::chrome();
        // Root may not use the browser's own sandbox, and containers have little shared memory. The browser shows
        // nothing but the console.
        for argument in [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--window-size=1280,800",
        ] {
            wanted.add_arg(argument).unwrap();
        }
        let driver = WebDriver::builder(format!("http://127.0.0.1:{port}"), wanted);
        let driver = driver.request_timeout(PATIENCE).await.unwrap();
        driver.set_script_timeout(PATIENCE).await.unwrap();
        driver.set_page_load_timeout(PATIENCE).await.unwrap();
        Self { driver, _chromedriver: chromedriver, _folder: folder }
    }

    pub(crate) async fn open(&self, address: &str) {
        self.driver.goto(address).await.unwrap();
    }

    pub(crate) async fn ask(&self, script: &str) -> Value {
        self.driver.execute(script, Vec::new()).await.unwrap().json().clone()
    }

    /// Waits until a script returns this value.
    pub(crate) async fn shows(&self, script: &str, wanted: &Value) {
        let started = Instant::now();
        loop {
            let answer = self.ask(script).await;
            if answer == *wanted {
                return;
            }
            if started.elapsed() > PATIENCE {
                let page = self.ask("return document.body.innerText").await;
                panic!(
                    "{script}: {answer} and not {wanted}\n{}",
                    page.as_str().unwrap_or_default()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the page has this text.
    pub(crate) async fn shows_text(&self, text: &str) {
        let script = format!("return document.body.innerText.includes({})", json!(text));
        self.shows(&script, &json!(true)).await;
    }

    pub(crate) async fn click(&self, css: &str) {
        self.driver.find(By::Css(css)).await.unwrap().click().await.unwrap();
    }

    /// Follows the first link, or presses the first button, with this text.
    pub(crate) async fn choose(&self, words: &str) {
        let path =
            format!("//a[normalize-space()={0}] | //button[normalize-space()={0}]", json!(words));
        let found = self.driver.find(By::XPath(&path)).await;
        found.unwrap_or_else(|error| panic!("`{words}`: {error}")).click().await.unwrap();
    }

    pub(crate) async fn press(&self, keys: impl Into<TypingData>) {
        self.driver.action_chain().send_keys(keys).perform().await.unwrap();
    }

    /// Sets the size, and the light or dark theme.
    pub(crate) async fn resize(&self, width: u32, height: u32, theme: &str) {
        let devtools = self.driver.cdp();
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        devtools.send_raw("Emulation.setDeviceMetricsOverride", size).await.unwrap();
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        devtools.send_raw("Emulation.setEmulatedMedia", media).await.unwrap();
    }

    /// Takes a picture for people to look at, if pictures are wanted.
    pub(crate) async fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os(PICTURES) else { return };
        let file = Path::new(&folder).join(format!("{name}.png"));
        self.driver.screenshot(&file).await.unwrap();
    }

    /// Opens a page and checks that everyone can read it: axe finds nothing at all, and it does not scroll sideways.
    pub(crate) async fn judge(&self, address: &str, width: u32, picture: &str) {
        let axe = std::env::var_os("KUBECTL_FLINK_TEST_AXE").expect("tests/browser.sh names axe");
        let axe = std::fs::read_to_string(axe).unwrap();
        self.open(address).await;
        self.picture(picture).await;
        let script = format!(
            "{axe}; const done = arguments[arguments.length - 1]; axe.run().then(it => done({{\
             passed: it.passes.length, \
             found: it.violations.map(it => it.impact + ' ' + it.id + ' ' + it.nodes[0].html)}}))"
        );
        let judged = self.driver.execute_async(script, Vec::new()).await.unwrap();
        let Value::Object(judged) = judged.json() else { panic!("axe tells what it found") };
        assert_eq!(judged["found"], json!([]), "{picture} {address}");
        assert!(judged["passed"].as_u64().unwrap() > 20, "{judged:?}");
        let overflow = self.ask("return document.documentElement.scrollWidth - innerWidth").await;
        assert!(overflow.as_i64().unwrap() <= 0, "{width} {address} scrolls sideways");
    }

    pub(crate) async fn leave(self) {
        self.driver.quit().await.unwrap();
    }
}

/// Starts a driver, and returns it with its port; `None` if it ends before it has one.
async fn start_driver(folder: &Path) -> Option<(Child, String)> {
    let mut command = Command::from(other("chromedriver"));
    command.env("HOME", folder).env("TMPDIR", folder);
    command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut chromedriver = command.spawn().expect("chromedriver is installed: tests/browser.sh");
    let mut lines = BufReader::new(chromedriver.stdout.take().unwrap()).lines();
    while let Some(line) = timeout(PATIENCE, lines.next_line()).await.expect("it starts").unwrap() {
        if let Some((_, port)) = line.split_once("successfully on port ") {
            return Some((chromedriver, port.trim_end_matches('.').to_owned()));
        }
    }
    None
}
