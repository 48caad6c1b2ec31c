//! Azure Blob Storage and Data Lake Storage, with the options of Hadoop's ABFS and WASB.

use std::sync::Arc;

use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use url::Url;

use super::connector::Connector;
use super::settings::partial;
use super::{client_options, endpoint_url, retries};
use crate::artifact::error::{Error, innermost};
use crate::artifact::request::Request;
use crate::artifact::source::Source;
use config::FlinkConfig;

/// Suffixes of the hosts that belong to Azure: credentials are sent to no others.
const CLOUDS: [&str; 3] = ["core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net"];
const PREFIX: &str = "fs.azure.";
/// Another endpoint for all accounts, such as that of an emulator.
const ENDPOINT: &str = "fs.azure.abfs.endpoint";
const CLIENT_ID: &str = "fs.azure.account.oauth2.client.id";
const CLIENT_SECRET: &str = "fs.azure.account.oauth2.client.secret";
const TOKEN_ENDPOINT: &str = "fs.azure.account.oauth2.client.endpoint";
const ACCOUNT_KEY: &str = "fs.azure.account.key";
const SAS: &str = "fs.azure.sas.fixed.token";

/// `abfss://container@account.dfs.core.windows.net/path`
struct Place<'a> {
    container: &'a str,
    account: &'a str,
    cloud: &'a str,
    host: &'a str,
}

impl<'a> Place<'a> {
    fn of(url: &'a Url, request: &Request) -> Result<Self, Error> {
        let wrong = || {
            Error::invalid(
                request,
                "Azure storage is written as `abfss://container@account.dfs.core.windows.net/path`",
            )
        };
        let host = url.host_str().unwrap_or_default();
        let (account, rest) = host.split_once('.').ok_or_else(wrong)?;
        let cloud = rest.strip_prefix("dfs.").or(rest.strip_prefix("blob.")).ok_or_else(wrong)?;
        let is_account = !account.is_empty()
            && account.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        let container = url.username();
        if container.is_empty() || !is_account || !CLOUDS.contains(&cloud) {
            return Err(wrong());
        }
        Ok(Self { container, account, cloud, host })
    }

    /// Returns the option for this account, otherwise the one for all accounts.
    fn find<'c>(&self, config: &'c FlinkConfig, key: &str) -> Option<&'c str> {
        let Self { account, cloud, host, .. } = self;
        let keys = [
            format!("{key}.{host}"),
            format!("{key}.{account}.dfs.{cloud}"),
            format!("{key}.{account}.blob.{cloud}"),
            key.to_owned(),
        ];
        keys.iter().find_map(|key| config.get_text(key)).filter(|text| !text.trim().is_empty())
    }
}

impl Place<'_> {
    /// Returns whether the job sets the option to something else than the operator does.
    fn is_own(&self, key: &str, request: &Request) -> bool {
        let own = self.find(&request.job, key);
        own.is_some() && own != self.find(&request.operator, key)
    }

    /// Returns whether the credentials are the operator's.
    fn is_operators(&self, request: &Request) -> Result<bool, Error> {
        let is_own = |key: &&str| self.is_own(key, request);
        // An id alone is not a credential: Flink's pods may have one for their managed identity.
        let is_operators = ![ACCOUNT_KEY, SAS, CLIENT_SECRET].iter().any(is_own);
        if is_operators && is_own(&ENDPOINT) {
            return Err(Error::invalid(
                request,
                format!(
                    "the job sets its own endpoint (`{ENDPOINT}`) without credentials, and the \
                     operator's are not sent there"
                ),
            ));
        }
        Ok(is_operators)
    }
}

pub(super) fn source(url: &Url, request: &Request) -> Result<Source, Error> {
    let is_operators = Place::of(url, request)?.is_operators(request)?;
    let mut source = Source::of(is_operators);
    let config = if is_operators { &request.operator } else { &request.job };
    for (key, value) in config.below(PREFIX) {
        source.add(format!("{PREFIX}{key}"), value, false);
    }
    Ok(source)
}

pub(super) fn store(url: &Url, request: &Request) -> Result<Arc<MicrosoftAzure>, Error> {
    let place = Place::of(url, request)?;
    let is_operators = place.is_operators(request)?;
    let config = if is_operators { &request.operator } else { &request.job };
    let builder =
        if is_operators { MicrosoftAzureBuilder::from_env() } else { MicrosoftAzureBuilder::new() };
    let builder = builder
        .with_account(place.account)
        .with_container_name(place.container)
        .with_retry(retries())
        .with_http_connector(Connector::of(request, is_operators));
    // Of a job's configuration, only the job's own options are used: the rest comes from the operator.
    let counts = |key: &str| is_operators || place.is_own(key, request);
    let (builder, are_complete) = with_credentials(builder, &place, config, counts);
    if !is_operators && !are_complete {
        let wanted = format!("`{CLIENT_ID}` and `{TOKEN_ENDPOINT}`");
        return Err(Error::invalid(request, partial(&wanted)));
    }
    let builder = at_endpoint(builder, &place, config, request)?;
    let store = builder.build();
    Ok(Arc::new(
        store.map_err(|error| Error::invalid(request, request.redact(&innermost(&error))))?,
    ))
}

/// Adds the credentials of the options that are used, and returns whether they are complete.
fn with_credentials(
    mut builder: MicrosoftAzureBuilder,
    place: &Place<'_>,
    config: &FlinkConfig,
    counts: impl Fn(&str) -> bool,
) -> (MicrosoftAzureBuilder, bool) {
    let mut are_complete = false;
    if let Some(key) = place.find(config, ACCOUNT_KEY).filter(|_| counts(ACCOUNT_KEY)) {
        builder = builder.with_access_key(key);
        are_complete = true;
    }
    if let Some(token) = place.find(config, SAS).filter(|_| counts(SAS)) {
        let pairs = url::form_urlencoded::parse(token.trim_start_matches('?').as_bytes());
        builder = builder.with_sas_authorization(pairs.into_owned().collect::<Vec<_>>());
        are_complete = true;
    }
    // `https://login.microsoftonline.com/<tenant>/oauth2/token`
    let tenant = place.find(config, TOKEN_ENDPOINT).and_then(|text| {
        let url = Url::parse(text).ok()?;
        Some(url.path_segments()?.next()?.to_owned())
    });
    if let (Some(id), Some(secret), Some(tenant)) =
        (place.find(config, CLIENT_ID), place.find(config, CLIENT_SECRET), tenant)
        && counts(CLIENT_SECRET)
    {
        builder = builder.with_client_secret_authorization(id, secret, tenant);
        are_complete = true;
    }
    (builder, are_complete)
}

fn at_endpoint(
    builder: MicrosoftAzureBuilder,
    place: &Place<'_>,
    config: &FlinkConfig,
    request: &Request,
) -> Result<MicrosoftAzureBuilder, Error> {
    let Some(endpoint) = config.get_text(ENDPOINT) else {
        let endpoint = format!("https://{}.blob.{}", place.account, place.cloud);
        return Ok(builder
            .with_endpoint(endpoint)
            .with_client_options(client_options(request, false)));
    };
    let endpoint = endpoint_url(request, endpoint, true)?;
    Ok(builder
        .with_endpoint(endpoint.as_str().trim_end_matches('/').to_owned())
        .with_client_options(client_options(request, endpoint.scheme() == "http")))
}
