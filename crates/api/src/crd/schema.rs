//! Converts the schemas that the types derive to the published schema.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Keeps only what the Java operator's schema contains too (names, types, enums, quantities, preserved unknown fields),
/// and descriptions, at every level. Everything else in a derived schema would reject or change objects that the Java
/// operator accepts: `required`, `default`, `format`, bounds, and list types, whose keys would have to be required.
pub(super) fn relax(schema: &mut JSONSchemaProps) {
    let old = std::mem::take(schema);
    let int_or_string = old.x_kubernetes_int_or_string == Some(true);
    *schema = JSONSchemaProps {
        description: old.description,
        type_: old.type_.filter(|_| !int_or_string),
        any_of: int_or_string.then(|| vec![of_type("integer"), of_type("string")]),
        enum_: old.enum_.map(sorted_texts),
        properties: old.properties,
        items: old.items,
        additional_properties: old.additional_properties,
        x_kubernetes_int_or_string: old.x_kubernetes_int_or_string,
        x_kubernetes_preserve_unknown_fields: old.x_kubernetes_preserve_unknown_fields,
        ..JSONSchemaProps::default()
    };
    each_child(schema, &mut relax);
}

/// Gives every pod template the schema of a Pod. Only one of them describes its fields: the others have the same
/// fields, and with three descriptions a definition would exceed what etcd stores.
pub(super) fn fill_in_pod_templates(root: &mut JSONSchemaProps, pod: &JSONSchemaProps) {
    let mut undescribed = pod.clone();
    undescribe(&mut undescribed);
    for spec in [&["spec"][..], &["spec", "template", "spec"]] {
        for (process, pod) in
            [(&[][..], pod), (&["jobManager"], &undescribed), (&["taskManager"], &undescribed)]
        {
            if let Some(template) = schema_at(root, &[spec, process, &["podTemplate"]].concat()) {
                let description = template.description.take();
                *template = JSONSchemaProps { description, ..pod.clone() };
            }
        }
    }
}

/// Returns the schema of a Pod, open at every level: `kubectl explain` describes each field and a wrong type is
/// rejected, while a field added by a newer Kubernetes is preserved rather than pruned.
pub(super) fn pod() -> JSONSchemaProps {
    let generator = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator();
    let schema = generator.into_root_schema_for::<Pod>().to_value();
    let mut pod = serde_json::from_value(schema).expect("the schema of a Pod is structural");
    relax(&mut pod);
    keep_unknown_fields(&mut pod);
    pod
}

/// Marks every object that is not a map to preserve unknown fields.
fn keep_unknown_fields(schema: &mut JSONSchemaProps) {
    if schema.type_.as_deref() == Some("object") && schema.additional_properties.is_none() {
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
    }
    each_child(schema, &mut keep_unknown_fields);
}

/// Returns the schema of the field at `path` below `schema`.
pub(super) fn schema_at<'a>(
    schema: &'a mut JSONSchemaProps,
    path: &[&str],
) -> Option<&'a mut JSONSchemaProps> {
    path.iter().try_fold(schema, |schema, name| schema.properties.as_mut()?.get_mut(*name))
}

/// Calls `visit` on each direct subschema of `schema`.
pub(super) fn each_child(
    schema: &mut JSONSchemaProps,
    visit: &mut impl FnMut(&mut JSONSchemaProps),
) {
    schema
        .properties
        .iter_mut()
        .flat_map(|properties| properties.values_mut())
        .for_each(&mut *visit);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        visit(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        visit(values);
    }
}

fn undescribe(schema: &mut JSONSchemaProps) {
    each_child(schema, &mut |child| {
        child.description = None;
        undescribe(child);
    });
}

fn of_type(name: &str) -> JSONSchemaProps {
    JSONSchemaProps { type_: Some(name.to_owned()), ..JSONSchemaProps::default() }
}

fn sorted_texts(values: Vec<JSON>) -> Vec<JSON> {
    let mut texts: Vec<String> = values
        .into_iter()
        .filter_map(|JSON(value)| value.as_str().map(ToOwned::to_owned))
        .collect();
    texts.sort();
    texts.into_iter().map(|text| JSON(Value::String(text))).collect()
}
