//! `spec.flinkVersion`: which Flink a resource runs, and what that version can do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// A Flink version, ordered by (major, minor).
#[derive(
    Clone,
    Copy,
    Debug,
    Deserialize,
    Eq,
    Hash,
    JsonSchema,
    Ord,
    PartialEq,
    PartialOrd,
    Serialize,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "lowercase", const_into_str)]
#[serde(rename_all = "snake_case")]
pub enum FlinkVersion {
    #[serde(rename = "v1_13")]
    V1_13,
    #[serde(rename = "v1_14")]
    V1_14,
    #[serde(rename = "v1_15")]
    V1_15,
    #[serde(rename = "v1_16")]
    V1_16,
    #[serde(rename = "v1_17")]
    V1_17,
    #[serde(rename = "v1_18")]
    V1_18,
    #[serde(rename = "v1_19")]
    V1_19,
    #[serde(rename = "v1_20")]
    V1_20,
    #[serde(rename = "v2_0")]
    V2_0,
    #[serde(rename = "v2_1")]
    V2_1,
    #[serde(rename = "v2_2")]
    V2_2,
    #[serde(rename = "v2_3")]
    V2_3,
    #[serde(rename = "v2_4")]
    V2_4,
}

impl FlinkVersion {
    /// Every version that the CRD accepts, oldest first.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Parses a version such as `v1_20`; also accepts `1.20`, as people type it.
    pub fn parse(text: &str) -> Option<Self> {
        let wanted = text.trim_start_matches('v').replace('.', "_");
        Self::ALL
            .iter()
            .copied()
            .find(|version| version.into_str().trim_start_matches('v') == wanted)
    }

    /// Returns whether this operator manages such clusters (1.15 and newer).
    pub fn is_supported(self) -> bool {
        self >= Self::V1_15
    }
}

impl std::fmt::Display for FlinkVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.into_str())
    }
}
