//! Parses bodies, within limits: whoever controls a JobManager also controls its responses. Deserializers tolerate
//! differences between Flink versions: a null, a missing field, -1 for "not set".

use config::json;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use tokio::sync::Semaphore;

/// Maximum number of values in a body. `/jobs/overview` of 10,000 session jobs has 420,000; a body of nothing but
/// brackets and commas would take twenty times its length in memory.
const VALUES_MAX: usize = 1_000_000;
/// A longer body is parsed on a thread of its own, which takes up to 0.2 s.
const SHORT_MAX: usize = 256 * 1024;
/// Maximum length of an error body; it contains stack traces.
const ERROR_MAX: usize = 1024 * 1024;

/// Long bodies that are parsed at the same time. Others wait.
static LONG: Semaphore = Semaphore::const_new(2);

/// Reads a null as the default.
pub(super) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads milliseconds since the epoch; `None` if Flink writes null or -1.
pub(super) fn timestamp<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<i64>, D::Error> {
    Ok(Option::<i64>::deserialize(deserializer)?.filter(|millis| *millis >= 0))
}

/// Reads a number; `None` if Flink writes null, `"NaN"` or another text.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Number(f64),
        Text(String),
    }
    Ok(match Option::<Number>::deserialize(deserializer)? {
        Some(Number::Number(number)) => Some(number),
        Some(Number::Text(text)) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        None => None,
    })
}

/// Parses the body of an error: `{"errors":["text", …]}`.
pub(super) fn errors(body: &[u8]) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct ErrorBody {
        errors: Vec<String>,
    }
    let body = Some(body).filter(|body| body.len() <= ERROR_MAX)?;
    serde_json::from_slice::<ErrorBody>(body).ok().map(|body| body.errors)
}

/// Parses a Kubernetes `Status` object of the API server: its code, reason and message.
pub(super) fn kubernetes_status(body: &[u8]) -> Option<(u16, String)> {
    #[derive(Deserialize)]
    struct Status {
        kind: String,
        #[serde(rename = "apiVersion")]
        api_version: String,
        #[serde(default)]
        code: u16,
        #[serde(default, deserialize_with = "null_as_default")]
        message: String,
    }
    let body = Some(body).filter(|body| body.len() <= ERROR_MAX)?;
    let status = serde_json::from_slice::<Status>(body).ok()?;
    (status.kind == "Status" && status.api_version == "v1").then_some((status.code, status.message))
}

/// Parses `body`; the error is one line.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let values = json::count_values(body);
    if values > VALUES_MAX {
        return Err(format!("it has {values} values, and at most {VALUES_MAX} are read"));
    }
    serde_json::from_slice(body).map_err(|error| {
        let start = String::from_utf8_lossy(body.get(..200).unwrap_or(body)).into_owned();
        format!("{error} in `{}`", super::error::excerpt(&start))
    })
}

/// Parses a body, a long one while other tasks continue; the error is one line.
pub(super) async fn read_any<T>(body: Vec<u8>) -> Result<T, String>
where
    T: DeserializeOwned + Send + 'static,
{
    if body.len() <= SHORT_MAX {
        return read(&body);
    }
    // The permit goes along, because dropping this future does not end the parsing.
    let permit = LONG.acquire().await;
    let reading = tokio::task::spawn_blocking(move || {
        let read = read(&body);
        drop(permit);
        read
    });
    reading.await.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(test)]
mod tests;
