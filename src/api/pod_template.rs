//! Pod templates: Pod-shaped JSON that keeps every field, known here or not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A pod template as the user wrote it. Field order and unknown fields are kept.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Map<String, Value>);
