//! Values generated from the schema of a definition, field by field.
//!
//! It is the published schema, so a new field is tested without any change here.

use api::crd;
use api::deployment::FlinkConfiguration;
use api::manifest::{self, Resource};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Value, json};

use crate::choices::Choices;

/// Maximum depth of a value generated below a field.
pub const DEPTH_MAX: usize = 4;
/// Texts that are meaningful in some field, and some that are meaningless everywhere.
const TEXTS: [&str; 32] = [
    "",
    " ",
    "a",
    "b",
    "1",
    "-1",
    "0.5",
    "500m",
    "1g",
    "1Gi",
    "2048m",
    "2Gi",
    "1.5Gi",
    "true",
    "flink",
    "orders",
    "Always",
    "IfNotPresent",
    "local:///job.jar",
    "https://example.com/a.jar",
    "s3://lake/sp/1",
    "{{name}}.{{namespace}}.example.com",
    "/{{namespace}}/{{name}}(/|$)(.*)",
    "a: b",
    "it's \"quoted\"",
    "#",
    "two\nlines",
    "\u{e9}\u{1f600}",
    "../..",
    "A_b",
    "main",
    "0 0 * * * ?",
];
const INTEGERS: [i64; 9] = [0, 1, 2, 3, -1, 100, 65535, 2_147_483_647, i64::MAX];
const OPTIONS: [(&str, &str); 12] = [
    ("taskmanager.numberOfTaskSlots", "4"),
    ("taskmanager.memory.process.size", "2g"),
    ("execution.checkpointing.interval", "10 s"),
    ("parallelism.default", "9"),
    ("kubernetes.operator.savepoint.history.max.count", "3"),
    ("kubernetes.operator.snapshot.resource.enabled", "true"),
    ("job.autoscaler.enabled", "false"),
    ("job.autoscaler.target.utilization", "0.5"),
    ("pipeline.object-reuse", "true"),
    ("kubernetes.jobmanager.annotations", "a:b,c:d"),
    ("env.java.opts.all", "-Da=b: c"),
    ("rest.port", "8081"),
];

/// A field of a definition: its position, and its allowed values.
#[derive(Clone)]
pub struct Field<'a> {
    /// Names from the root; `[]` for the items of a list, `{}` for the values of a map.
    pub path: Vec<&'a str>,
    pub schema: &'a JSONSchemaProps,
}

impl Field<'_> {
    pub fn is_in_pod_template(&self) -> bool {
        self.path.contains(&"podTemplate")
    }
}

/// Collects all fields at and below `schema`.
fn fields<'a>(path: &[&'a str], schema: &'a JSONSchemaProps, all: &mut Vec<Field<'a>>) {
    all.push(Field { path: path.to_vec(), schema });
    for (name, property) in schema.properties.iter().flatten() {
        fields(&[path, &[name]].concat(), property, all);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &schema.items {
        fields(&[path, &["[]"]].concat(), items, all);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        fields(&[path, &["{}"]].concat(), values, all);
    }
}

fn one_of<T: Copy>(all: &[T], choices: &mut Choices) -> T {
    all[usize::try_from(choices.below(all.len() as u64)).unwrap()]
}

/// Generates a value that the schema accepts.
pub fn value(name: &str, schema: &JSONSchemaProps, depth: usize, choices: &mut Choices) -> Value {
    let kind = schema.type_.as_deref().unwrap_or("any");
    if let Some(values) = &schema.enum_ {
        let at = usize::try_from(choices.below(values.len() as u64)).unwrap();
        return values[at].0.clone();
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        return if choices.below(2) == 0 {
            json!(one_of(&INTEGERS, choices))
        } else {
            text(choices)
        };
    }
    match kind {
        // Times are text in the schema, but our types parse them.
        "string" if name == "time" || name.ends_with("Timestamp") => json!("2026-01-01T00:00:00Z"),
        "string" => text(choices),
        "integer" => json!(integer(name, choices)),
        "number" => {
            one_of(&[0.0, 0.1, 0.5, 1.0, 2.5, -1.0, 1e9, 0.300_000_000_000_000_04], choices).into()
        }
        "boolean" => json!(choices.below(2) == 0),
        "array" => items(schema, depth, choices),
        "object" => object(schema, depth, choices),
        _ => options(choices),
    }
}

fn text(choices: &mut Choices) -> Value {
    json!(one_of(&TEXTS, choices))
}

/// The types are a little stricter than the schema: a replica count has 32 bits.
fn integer(name: &str, choices: &mut Choices) -> i64 {
    let is_small = ["replicas", "parallelism", "backoffLimit", "failures"].contains(&name);
    let number = one_of(&INTEGERS, choices);
    if is_small { number.min(i64::from(i32::MAX)) } else { number }
}

fn items(schema: &JSONSchemaProps, depth: usize, choices: &mut Choices) -> Value {
    let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items else { return json!([]) };
    let count = if depth == 0 { 0 } else { choices.below(3) };
    (0..count).map(|_| value("", item, depth - 1, choices)).collect()
}

fn object(schema: &JSONSchemaProps, depth: usize, choices: &mut Choices) -> Value {
    let mut fields = serde_json::Map::new();
    if depth == 0 {
        return Value::Object(fields);
    }
    let properties: Vec<_> = schema.properties.iter().flatten().collect();
    // A pod has many fields, so use a few of them at a time.
    let share = u64::try_from(properties.len()).unwrap().div_ceil(3).max(1);
    for (name, property) in properties {
        if choices.below(share) == 0 {
            fields.insert(name.clone(), value(name, property, depth - 1, choices));
        }
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        for _ in 0..choices.below(3) {
            let key = one_of(&TEXTS, choices).to_owned();
            fields.insert(key, value("", values, depth - 1, choices));
        }
    }
    if schema.x_kubernetes_preserve_unknown_fields == Some(true) && choices.below(3) == 0 {
        fields.insert("fieldOfTomorrow".to_owned(), json!({"nested": [1, "two", null, {}]}));
    }
    Value::Object(fields)
}

fn options(choices: &mut Choices) -> Value {
    let mut options = serde_json::Map::new();
    for _ in 0..choices.below(4) {
        let (key, value) = one_of(&OPTIONS, choices);
        let value = if choices.below(6) == 0 { text(choices) } else { json!(value) };
        options.insert(key.to_owned(), value);
    }
    if choices.below(4) == 0 {
        options.insert(
            "nested".to_owned(),
            json!({"a": {"b": one_of(&INTEGERS, choices)}, "c": [1, 2.5, true]}),
        );
    }
    Value::Object(options)
}

/// Generates a value of another type than the field's.
pub fn wrong(schema: &JSONSchemaProps, choices: &mut Choices) -> Option<Value> {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return Some(json!({"a": 1}));
    }
    let others = [json!({"a": 1}), json!(["a"]), json!("a"), json!(1.5), json!(true)];
    let of = ["object", "array", "string", "number", "boolean"];
    let kind = schema.type_.as_deref()?;
    let at = usize::try_from(choices.below(5)).unwrap();
    (of[at] != kind).then(|| others[at].clone())
}

/// Puts `new` at `path`, creating missing parents.
pub fn put(target: &mut Value, path: &[&str], new: Value) {
    let Some((first, rest)) = path.split_first() else {
        *target = new;
        return;
    };
    let child = match *first {
        "[]" => {
            if !target.is_array() {
                *target = json!([null]);
            }
            let items = target.as_array_mut().unwrap();
            if items.is_empty() {
                items.push(Value::Null);
            }
            &mut items[0]
        }
        name => {
            if !target.is_object() {
                *target = json!({});
            }
            let name = if name == "{}" { "a" } else { name };
            target.as_object_mut().unwrap().entry(name).or_insert(Value::Null)
        }
    };
    put(child, rest, new);
}

/// Returns every field below `spec` of a definition, without the root of the schema above it.
pub fn spec_fields(definition: &CustomResourceDefinition) -> Vec<Field<'_>> {
    let root = crd::root(definition).unwrap();
    let mut all = Vec::new();
    fields(&["spec"], &root.properties.as_ref().unwrap()["spec"], &mut all);
    all
}

/// Parses a manifest that the schema accepts, or returns what is wrong with it.
pub fn read(object: &Value) -> Result<Resource, Vec<manifest::Problem>> {
    let mut documents = manifest::parse("generated.json", &object.to_string())?;
    Ok(documents.remove(0).resource)
}

/// Puts a value into a random field of `all`, rarely into one of a pod template, which has the most fields. Returns
/// what it has put where.
pub fn put_anywhere(object: &mut Value, all: &[Field<'_>], choices: &mut Choices) -> String {
    let any =
        |choices: &mut Choices| &all[usize::try_from(choices.below(all.len() as u64)).unwrap()];
    let mut field = any(choices);
    while field.is_in_pod_template() && choices.below(30) != 0 {
        field = any(choices);
    }
    let new = value(field.path.last().unwrap(), field.schema, DEPTH_MAX, choices);
    let what = format!("{} = {new}", field.path.join("."));
    put(object, &field.path, new);
    what
}

/// Restores options that were removed.
pub fn keep_options(options: &mut FlinkConfiguration, former: &FlinkConfiguration) {
    for (key, value) in &former.0 {
        options.0.entry(key.clone()).or_insert_with(|| value.clone());
    }
}
