//! Deserializers that tolerate differences between Flink versions: a null, a missing field, -1 for "not set".

use serde::{Deserialize, Deserializer, de::DeserializeOwned};

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
    let status = serde_json::from_slice::<Status>(body).ok()?;
    (status.kind == "Status" && status.api_version == "v1").then_some((status.code, status.message))
}

/// Parses `body`; the error is one line.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| {
        let start = String::from_utf8_lossy(body.get(..200).unwrap_or(body)).into_owned();
        format!("{error} in `{}`", super::error::excerpt(&start))
    })
}

#[cfg(test)]
mod tests;
