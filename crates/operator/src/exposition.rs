//! Metrics for Prometheus: a page that is created on request.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use bytes::Bytes;

use super::context::{self, lock};
use super::http;
use clients::fence;
use config::reporter::Prometheus;
use metrics::text as page;
use metrics::{Metrics, process};

/// A page of ten thousand resources has ten megabytes: another request within this time gets the same one.
const FRESH: Duration = Duration::from_secs(1);

/// The last text, and when it was created.
type Last = Mutex<Option<(Duration, Bytes)>>;

/// Returns the routes `/metrics`, and `/` as on the Java operator's port.
pub fn routes(metrics: &Metrics, settings: &Prometheus) -> Router {
    let last = Arc::new(Last::default());
    let (metrics, filters) = (metrics.clone(), settings.filters_label_values);
    let by = get(move || async move {
        answer(&last, &metrics, filters).map(|page| ([(CONTENT_TYPE, page::CONTENT_TYPE)], page))
    });
    http::routes("GET and HEAD", [("/", by.clone()), ("/metrics", by)])
}

/// Returns the page, or why there is none.
fn answer(
    last: &Last,
    metrics: &Metrics,
    filters_label_values: bool,
) -> Result<Bytes, (StatusCode, &'static str)> {
    let Some(identity) = metrics.identity() else {
        return Err((StatusCode::NOT_FOUND, "no metrics are counted\n"));
    };
    let mut last = lock(last);
    let now = fence::now();
    let fresh = last.as_ref().filter(|(made, _)| now.saturating_sub(*made) < FRESH);
    if let Some((_, body)) = fresh {
        return Ok(body.clone());
    }
    let mut families = metrics.families(context::now());
    if metrics.wants_process() {
        families.extend(own_process());
    }
    // Growing step by step would copy a text of this size again and again.
    let size = last.as_ref().map_or(0, |(_, body)| body.len() + body.len() / 8);
    let Ok(body) = page::encode(families, identity, filters_label_values, size) else {
        return Err((StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n"));
    };
    let body = Bytes::from(body);
    *last = Some((now, body.clone()));
    Ok(body)
}

/// Returns the kernel's figures of this process. Without `/proc` there are few.
pub fn own_process() -> Vec<metrics::family::Family> {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The handle that reads them is open as well.
    let files = fs::read_dir("/proc/self/fd").ok().map(|files| files.count().saturating_sub(1));
    let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = machine.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    let page_bytes = rustix::param::page_size();
    process::families(&process::Reading {
        stat: &stat,
        open_files: files.and_then(|files| files.try_into().ok()),
        open_files_max: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        page_bytes: page_bytes.try_into().unwrap_or_default(),
        ticks_per_second: rustix::param::clock_ticks_per_second(),
        booted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::FlinkConfig;
    use metrics::{Identity, Settings};

    fn metrics() -> Metrics {
        let settings = Settings::of(&FlinkConfig::new()).unwrap();
        let [host, namespace, name] = ["h", "ns", "n"].map(str::to_owned);
        Metrics::new(settings, Identity { host, namespace, name })
    }

    #[test]
    fn the_process_is_read() {
        let names: Vec<String> = own_process().into_iter().map(|family| family.name).collect();
        if cfg!(target_os = "linux") {
            assert_eq!(names.len(), 7, "{names:?}");
        }
    }

    #[test]
    fn many_who_ask_at_once_share_a_page() {
        let (last, metrics) = (Last::default(), metrics());
        let one = answer(&last, &metrics, true).unwrap();
        let other = answer(&last, &metrics, true).unwrap();
        assert_eq!(one.as_ptr(), other.as_ptr());
        assert!(one.ends_with(b"# EOF\n"));
    }
}
