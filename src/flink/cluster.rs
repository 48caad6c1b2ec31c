//! Facts about the cluster as a whole.

use serde::Deserialize;

use super::{client::Client, error::Error, wire::null_as_default};

/// `GET /config`. Flink answers it very early; it does not mean that a job exists.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterConfig {
    /// Such as `1.20.1`.
    pub flink_version: String,
    /// Such as `0980485 @ 2026-01-01T00:00:00+00:00`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub flink_revision: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub features: Features,
}

/// What the web server allows.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub struct Features {
    #[serde(default, deserialize_with = "null_as_default")]
    pub web_submit: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    pub web_cancel: bool,
    /// 1.18 and newer.
    #[serde(default, deserialize_with = "null_as_default")]
    pub web_rescale: bool,
}

impl Client {
    /// `GET /config`.
    pub async fn config(&self) -> Result<ClusterConfig, Error> {
        self.get("/config".into()).await
    }
}
