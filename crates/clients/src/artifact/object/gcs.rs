//! Google Cloud Storage, with the options of the Hadoop connector that Flink uses.

use std::sync::Arc;

use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use serde_json::json;
use url::Url;

use super::connector::Connector;
use super::settings::{Names, Settings};
use super::{client_options, endpoint_url, retries};
use crate::artifact::error::{Error, innermost};
use crate::artifact::request::Request;
use crate::artifact::source::Source;

const EMAIL: &str = "auth.service.account.email";
const PRIVATE_KEY: &str = "auth.service.account.private.key";
const NAMES: Names = Names {
    prefixes: &["fs.gs.", "gs."],
    credentials: &[EMAIL, PRIVATE_KEY],
    account: EMAIL,
    endpoint: "storage.root.url",
};

pub(super) fn source(request: &Request) -> Result<Source, Error> {
    Ok(Settings::of(request, &NAMES)?.source())
}

pub(super) fn store(url: &Url, request: &Request) -> Result<Arc<GoogleCloudStorage>, Error> {
    let settings = Settings::of(request, &NAMES)?;
    let bucket = url.host_str().unwrap_or_default();
    if bucket.is_empty() {
        return Err(Error::invalid(request, "it has no bucket, as in `gs://bucket/job.jar`"));
    }
    settings.demand(&[EMAIL, PRIVATE_KEY], request)?;
    let mut builder = if settings.is_operators {
        GoogleCloudStorageBuilder::from_env()
    } else {
        GoogleCloudStorageBuilder::new()
    };
    let connector = Connector::of(request, settings.is_operators);
    builder = builder.with_bucket_name(bucket).with_retry(retries()).with_http_connector(connector);
    // The file belongs to the operator, so only the operator's own configuration may name it.
    if let (true, Some(file)) =
        (settings.is_operators, settings.get("auth.service.account.json.keyfile"))
    {
        builder = builder.with_service_account_path(file);
    }
    if let (Some(email), Some(key)) = (settings.get(EMAIL), settings.get(PRIVATE_KEY)) {
        let id = settings.get("auth.service.account.private.key.id").unwrap_or_default();
        // A properties file contains line ends as `\n`.
        let key = key.replace("\\n", "\n");
        let account = json!({"client_email": email, "private_key": key, "private_key_id": id});
        builder = builder.with_service_account_key(account.to_string());
    }
    if settings.is("auth.type", "UNAUTHENTICATED") {
        builder = builder.with_skip_signature(true);
    }
    builder = match settings.get(NAMES.endpoint) {
        Some(endpoint) => {
            let endpoint = endpoint_url(request, endpoint, true)?;
            builder
                .with_base_url(endpoint.as_str().trim_end_matches('/'))
                .with_client_options(client_options(request, endpoint.scheme() == "http"))
        }
        None => builder.with_client_options(client_options(request, false)),
    };
    let store = builder.build();
    Ok(Arc::new(
        store.map_err(|error| Error::invalid(request, request.redact(&innermost(&error))))?,
    ))
}
