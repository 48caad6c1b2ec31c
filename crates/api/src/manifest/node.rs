//! YAML as a tree whose nodes know their position.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_yaml::{DuplicateKeyPolicy, Spanned};

use super::{Place, Problem};

/// Maximum depth of lists and maps; a resource of this API group has some twenty levels. Each takes tens of kilobytes
/// of stack in a test build.
const DEPTH_MAX: usize = 40;
/// Maximum number of nodes from aliases: a few lines of nested aliases can expand to millions.
const REPLAYED_MAX: usize = 20_000;

/// A value and its position in the text, line and column from 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// Anything but a list or a map.
    Scalar(Value),
    List(Vec<Node>),
    /// Each entry with the node of its key.
    Map(Vec<(Node, Node)>),
}

/// Why a text is not YAML.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SyntaxError {
    line: u64,
    column: u64,
    path: String,
    message: String,
}

impl SyntaxError {
    pub(super) fn into_problem(self, file: &str) -> Problem {
        let Self { line, column, path, message } = self;
        Problem { file: file.to_owned(), line, column, path, message }
    }
}

/// Reads the documents of `text`, without empty ones. Scalars are read as kubectl reads them, with the booleans and
/// octal numbers of YAML 1.1.
pub(super) fn read(text: &str) -> Result<Vec<Node>, SyntaxError> {
    read_with(text, DuplicateKeyPolicy::Error).map_err(|error| syntax_error(text, &error))
}

fn read_with(text: &str, duplicates: DuplicateKeyPolicy) -> Result<Vec<Node>, serde_yaml::Error> {
    let options = serde_yaml::options! {
        duplicate_keys: duplicates,
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_yaml::budget! { max_depth: DEPTH_MAX },
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: REPLAYED_MAX },
    };
    serde_yaml::from_multiple_with_options(text, options)
}

fn syntax_error(text: &str, error: &serde_yaml::Error) -> SyntaxError {
    let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
    if let serde_yaml::Error::DuplicateMappingKey { key: Some(key), .. } = error {
        let roots = read_with(text, DuplicateKeyPolicy::FirstWins).unwrap_or_default();
        let mut places = Vec::new();
        for root in &roots {
            root.keys("", &mut places);
        }
        // The duplicate is the nearest earlier key of that name in the same column.
        let twin = places
            .iter()
            .filter(|place| place.line <= line && is_named(&place.path, key))
            .max_by_key(|place| (place.column == column, place.line));
        if let Some(twin) = twin {
            return SyntaxError {
                line,
                column,
                path: twin.path.clone(),
                message: format!("is set twice, first in line {}", twin.line),
            };
        }
    }
    let message = error.to_string();
    // The position is reported separately from the message.
    let message = message.split(" at line ").next().unwrap_or_default().to_owned();
    SyntaxError {
        line,
        column,
        path: String::new(),
        message: format!("is not valid YAML: {message}"),
    }
}

fn is_named(path: &str, name: &str) -> bool {
    path == name || path.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
}

impl Node {
    /// Returns the value of the entry `name` of a map.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        self.entries().iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(value) => value.as_str(),
            Content::List(_) | Content::Map(_) => None,
        }
    }

    /// Returns the entries of a map.
    pub(super) fn entries(&self) -> &[(Self, Self)] {
        match &self.content {
            Content::Map(entries) => entries,
            Content::Scalar(_) | Content::List(_) => &[],
        }
    }

    /// Returns the items of a list.
    pub(super) fn items(&self) -> &[Self] {
        match &self.content {
            Content::List(items) => items,
            Content::Scalar(_) | Content::Map(_) => &[],
        }
    }

    /// Returns the value without positions.
    pub(super) fn to_value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::to_value).collect(),
            Content::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.text(), value.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// Returns a scalar as the key of a map.
    pub(super) fn text(&self) -> String {
        match &self.content {
            Content::Scalar(Value::String(text)) => text.clone(),
            Content::Scalar(value) => value.to_string(),
            Content::List(_) | Content::Map(_) => String::new(),
        }
    }

    /// Returns the position of each field.
    pub(super) fn all_places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        self.places("", &mut places);
        places
    }

    fn places(&self, path: &str, places: &mut Vec<Place>) {
        let Self { line, column, content } = self;
        places.push(Place { path: path.to_owned(), line: *line, column: *column });
        match content {
            Content::Scalar(_) => {}
            Content::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.places(&format!("{path}[{index}]"), places);
                }
            }
            Content::Map(entries) => {
                for (key, value) in entries {
                    value.places(&super::check::join(path, &key.text()), places);
                }
            }
        }
    }

    /// Collects the position of each key below `path`.
    fn keys(&self, path: &str, places: &mut Vec<Place>) {
        for (index, item) in self.items().iter().enumerate() {
            item.keys(&format!("{path}[{index}]"), places);
        }
        for (key, value) in self.entries() {
            let path = super::check::join(path, &key.text());
            value.keys(&path, places);
            places.push(Place { path, line: key.line, column: key.column });
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        let place = spanned.referenced;
        Ok(Self { line: place.line(), column: place.column(), content: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Content, E> {
        let number = Number::from_f64(value)
            .ok_or_else(|| E::custom(format!("`{value}` is not a number that JSON can hold")))?;
        Ok(Content::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(Value::String(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Ok(Content::Scalar(Value::String(value)))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Content::Map(entries))
    }
}
