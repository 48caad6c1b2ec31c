//! The URI of a jar: its scheme, the name of its file, and how it is shown.

use percent_encoding::percent_decode_str;
use url::Url;

/// Maximum length of a file name in characters; file systems allow 255 bytes.
const FILE_NAME_MAX: usize = 120;

/// A kind of source.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Scheme {
    Http,
    File,
    S3,
    Gcs,
    Azure,
    Hdfs,
}

impl Scheme {
    /// Returns the kind of source for a scheme in lower case, or why there is none.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        match name {
            "http" | "https" => Ok(Self::Http),
            "file" => Ok(Self::File),
            "s3" | "s3a" | "s3n" | "s3p" => Ok(Self::S3),
            "gs" => Ok(Self::Gcs),
            "abfs" | "abfss" | "wasb" | "wasbs" => Ok(Self::Azure),
            "hdfs" | "viewfs" => Ok(Self::Hdfs),
            "local" => {
                Err("`local` is a file inside the Flink image, which only an application cluster \
                     can run; upload the jar to a place such as `https://` or `s3://`"
                    .to_owned())
            }
            other => Err(format!(
                "the operator cannot fetch from `{other}`; it can from https, http, s3, s3a, gs, \
                 abfs, abfss, wasb, wasbs, hdfs, viewfs and file"
            )),
        }
    }
}

/// Returns the URI for messages: without user, password, query and fragment, each of which may contain a secret.
pub(super) fn shown(uri: &str) -> String {
    let end = uri.find(['?', '#']).unwrap_or(uri.len());
    let uri = &uri[..end];
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        // Azure puts the container where others have a user.
        Some((user, host)) if is_azure(scheme) && !user.contains(':') => {
            format!("{scheme}://{user}@{host}{path}")
        }
        Some((_, host)) => format!("{scheme}://{host}{path}"),
        None => uri.to_owned(),
    }
}

fn is_azure(scheme: &str) -> bool {
    ["abfs", "abfss", "wasb", "wasbs"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// Returns the last segment of the path, as a file name that ends in `.jar`: Flink accepts no other.
pub(super) fn file_name(url: &Url) -> String {
    let last = url.path().rsplit('/').find(|part| !part.is_empty()).unwrap_or("job");
    let decoded = percent_decode_str(last).decode_utf8_lossy();
    let mut name: String = decoded
        .chars()
        .map(|c| if c.is_control() || "/\\\"<>|:*?".contains(c) { '_' } else { c })
        .collect();
    let is_jar = name.to_lowercase().ends_with(".jar");
    if is_jar {
        name.truncate(name.len() - ".jar".len());
    }
    let stem: String = name.chars().take(FILE_NAME_MAX).collect();
    let stem = if stem.is_empty() || stem == "." || stem == ".." { "job" } else { &stem };
    format!("{stem}.jar")
}

#[cfg(test)]
mod tests;
