//! Pod templates: Pod-shaped JSON that preserves every field, known here or not.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A pod template as the user wrote it. Field order and unknown fields are kept.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Map<String, Value>);

/// Any object. `super::crd` replaces it with the schema of a Pod, once. Deriving that schema here would repeat the work
/// for each of six templates, which takes seconds.
impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}
