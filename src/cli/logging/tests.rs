use std::sync::Mutex;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::*;
use config::option::OptionValue;
use operator::about;

/// Keeps what is written.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn add(&self, bytes: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(bytes);
    }

    /// Returns everything written since the last call.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const DEFAULT: &str = "warn,kubectl_flink=info";

/// Runs `speak` with a log of its own.
fn logged(format: LogFormat, speak: impl FnOnce(&Levels, &Page)) {
    let page = Page::default();
    let writer = page.clone();
    let (subscriber, levels) =
        subscriber(EnvFilter::new(DEFAULT), DEFAULT, format, false, move || writer.clone());
    tracing::subscriber::with_default(subscriber, || speak(&levels, &page));
}

fn levels(text: &str) -> LogLevels {
    LogLevels::parse(text).unwrap()
}

#[test]
fn levels_change_while_the_process_runs() {
    for format in [LogFormat::Text, LogFormat::Json] {
        logged(format, |change, page| {
            let speak = || {
                tracing::debug!("quiet");
                tracing::info!("loud");
                tracing::info!(target: "hyper", "of others");
            };
            let described = || {
                speak();
                let text = page.take();
                ["quiet", "loud", "of others"].map(|part| text.contains(part))
            };
            assert_eq!(described(), [false, true, false]);
            // The targets of the program's crates start with its name.
            tracing::info!(target: "kubectl_flink_clients::flink", "of a crate");
            assert!(page.take().contains("of a crate"));
            change.set(&levels("debug"));
            assert_eq!(described(), [true, true, false]);
            change.set(&levels("warn,hyper=info"));
            assert_eq!(described(), [false, false, true]);
            change.set(&levels("warn,kubectl_flink::cli=trace"));
            assert_eq!(described(), [true, true, false]);
            change.set(&LogLevels::default());
            assert_eq!(described(), [false, true, false]);
        });
    }
}

#[test]
fn a_line_bears_its_resource_whatever_the_level() {
    let speak = || {
        let metadata = ObjectMeta {
            namespace: Some("shop".to_owned()),
            name: Some("orders".to_owned()),
            generation: Some(7),
            ..ObjectMeta::default()
        };
        let span = about::span("FlinkDeployment", &metadata);
        let _entered = span.enter();
        tracing::warn!("late");
        tracing::info!(target: "kubectl_flink::audit", "audited");
    };
    logged(LogFormat::Text, |change, page| {
        change.set(&levels("warn,kubectl_flink::audit=info"));
        speak();
        let text = page.take();
        let about = r#"kind="FlinkDeployment" namespace="shop" resource="orders" generation=7"#;
        assert_eq!(text.matches(about).count(), 2, "{text}");
    });
    logged(LogFormat::Json, |change, page| {
        change.set(&levels("warn"));
        speak();
        let line: serde_json::Value = serde_json::from_str(&page.take()).unwrap();
        assert_eq!(line["message"], "late");
        assert_eq!(line["target"], "kubectl_flink::cli::logging::tests");
        let span = &line["span"];
        assert_eq!((&span["namespace"], &span["resource"]), (&"shop".into(), &"orders".into()));
        assert_eq!(span["generation"], 7);
    });
}

/// Also in lines of libraries, and a line in JSON stays JSON.
#[test]
fn no_line_has_a_secret() {
    for format in [LogFormat::Text, LogFormat::Json] {
        logged(format, |_, page| {
            let error = "java.lang.Boom: no access: s3.secret-key=hunter2, {\"password\":\"hunter2\"}\nDB_PASS: hunter2 x";
            tracing::warn!(error, count = 2, "https://me:hunter2@host is away");
            tracing::error!(target: "hyper", token = 7_777, ?error, "not sent");
            let lines = page.take();
            assert!(!lines.contains("hunter2"), "{lines}");
            assert!(lines.contains("java.lang.Boom") && lines.contains("host is away"), "{lines}");
            if format == LogFormat::Json {
                let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
                assert_eq!(
                    lines.lines().map(|line| read(line)["count"].clone()).next().unwrap(),
                    2
                );
                assert_eq!(read(lines.lines().next_back().unwrap())["target"], "hyper");
                assert!(!lines.contains("7777") && lines.ends_with('\n'), "{lines}");
            }
        });
    }
}
