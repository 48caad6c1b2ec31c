//! S3 and compatible stores, with the options of Flink's two S3 file systems.

use std::sync::Arc;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use url::Url;

use super::connector::Connector;
use super::settings::{Names, Settings};
use super::{client_options, endpoint_url, retries};
use crate::artifact::error::{Error, innermost};
use crate::artifact::request::Request;
use crate::artifact::source::Source;

const ACCESS_KEY: &str = "access.key";
const SECRET_KEY: &str = "secret.key";
const NAMES: Names = Names {
    prefixes: &["s3.", "s3a.", "fs.s3a.", "presto.s3.", "fs.s3."],
    credentials: &[ACCESS_KEY, SECRET_KEY, "session.token"],
    account: ACCESS_KEY,
    endpoint: "endpoint",
};
/// Provider for public buckets, which need no credentials.
const ANONYMOUS: &str = "AnonymousAWSCredentialsProvider";

pub(super) fn source(request: &Request) -> Result<Source, Error> {
    Ok(Settings::of(request, &NAMES)?.source())
}

pub(super) fn store(url: &Url, request: &Request) -> Result<Arc<AmazonS3>, Error> {
    let settings = Settings::of(request, &NAMES)?;
    let bucket = url.host_str().unwrap_or_default();
    if bucket.is_empty() {
        return Err(Error::invalid(request, "it has no bucket, as in `s3://bucket/job.jar`"));
    }
    settings.demand(&[ACCESS_KEY, SECRET_KEY], request)?;
    let mut builder =
        if settings.is_operators { AmazonS3Builder::from_env() } else { AmazonS3Builder::new() };
    let connector = Connector::of(request, settings.is_operators);
    builder = builder.with_bucket_name(bucket).with_retry(retries()).with_http_connector(connector);
    if let Some(key) = settings.get(ACCESS_KEY) {
        builder = builder.with_access_key_id(key);
    }
    if let Some(secret) = settings.get(SECRET_KEY) {
        builder = builder.with_secret_access_key(secret);
    }
    if let Some(token) = settings.get("session.token") {
        builder = builder.with_token(token);
    }
    if let Some(region) = settings.get("endpoint.region").or(settings.get("region")) {
        // Without an endpoint it is a part of the host's name.
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !region.chars().all(is_of_name) {
            let problem = format!("`{region}` is not a region: expected letters, digits and `-`");
            return Err(Error::invalid(request, problem));
        }
        builder = builder.with_region(region);
    }
    if settings.get("aws.credentials.provider").is_some_and(|name| name.ends_with(ANONYMOUS)) {
        builder = builder.with_skip_signature(true);
    }
    builder = match settings.get(NAMES.endpoint) {
        Some(endpoint) => at_endpoint(builder, endpoint, bucket, &settings, request)?,
        None => builder.with_client_options(client_options(request, false)),
    };
    let store = builder.build();
    Ok(Arc::new(
        store.map_err(|error| Error::invalid(request, request.redact(&innermost(&error))))?,
    ))
}

fn at_endpoint(
    builder: AmazonS3Builder,
    endpoint: &str,
    bucket: &str,
    settings: &Settings<'_>,
    request: &Request,
) -> Result<AmazonS3Builder, Error> {
    let is_tls = !settings.is("connection.ssl.enabled", "false");
    let mut endpoint = endpoint_url(request, endpoint, is_tls)?;
    // Path style by default: it works with every store that has an endpoint.
    let is_by_host = settings.is("path.style.access", "false");
    if is_by_host {
        let host = format!("{bucket}.{}", endpoint.host_str().unwrap_or_default());
        endpoint.set_host(Some(&host)).map_err(|_| {
            Error::invalid(
                request,
                "the bucket cannot be part of the endpoint's host name; set `s3.path.style.access: \
                 true`",
            )
        })?;
    }
    Ok(builder
        .with_endpoint(endpoint.as_str().trim_end_matches('/'))
        .with_virtual_hosted_style_request(is_by_host)
        .with_client_options(client_options(request, endpoint.scheme() == "http")))
}
