//! A schema as a list of fields, which is what compatibility depends on.

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// One field of a definition's schema.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Field {
    /// Path, starting with the kind: `.name` for a field, `[]` for items, `{}` for the values of a map.
    pub path: String,
    /// `string`, `object`, …, `int-or-string`, or `any`.
    pub kind: String,
    /// The allowed values, if they are enumerated.
    pub values: Vec<String>,
    /// Whether unknown fields below it are preserved.
    pub is_open: bool,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, kind, values, is_open } = self;
        write!(f, "{path} {kind}")?;
        if *is_open {
            f.write_str(" open")?;
        }
        if !values.is_empty() {
            write!(f, " {}", values.join("|"))?;
        }
        Ok(())
    }
}

/// Lists the fields of `schema`, which is at `path`, and those below it.
pub(super) fn list(path: &str, schema: &JSONSchemaProps) -> Vec<Field> {
    let mut fields = vec![Field {
        path: path.to_owned(),
        kind: kind(schema).to_owned(),
        values: values(schema),
        is_open: schema.x_kubernetes_preserve_unknown_fields == Some(true),
    }];
    for (name, property) in schema.properties.iter().flatten() {
        fields.extend(list(&format!("{path}.{name}"), property));
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        fields.extend(list(&format!("{path}[]"), items));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(entries)) = &schema.additional_properties {
        fields.extend(list(&format!("{path}{{}}"), entries));
    }
    fields
}

/// Returns the type that `schema` requires.
pub(crate) fn kind(schema: &JSONSchemaProps) -> &str {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "int-or-string";
    }
    schema.type_.as_deref().unwrap_or("any")
}

/// Returns the values that `schema` allows, if it enumerates them.
pub(crate) fn values(schema: &JSONSchemaProps) -> Vec<String> {
    schema
        .enum_
        .iter()
        .flatten()
        .filter_map(|value| value.0.as_str().map(ToOwned::to_owned))
        .collect()
}
