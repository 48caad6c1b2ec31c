//! Which resources this installation operates: it does not examine others.

use std::collections::BTreeMap;

use serde_json::Value;

use super::review::{Kind, Review};
use crate::run::Watch;
use config::label_selector::LabelSelector;

/// The resources that are operated. Another installation may operate others, by other rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Jurisdiction {
    pub watch: Watch,
    /// Labels of the resources; `None` if all are operated.
    pub selector: Option<LabelSelector>,
}

impl Default for Jurisdiction {
    /// Covers all resources.
    fn default() -> Self {
        Self { watch: Watch::AllNamespaces, selector: None }
    }
}

impl Jurisdiction {
    /// Returns `true` if the operator would see the resource once it is stored. For a snapshot, the labels of its job
    /// matter too: see [`Self::has_labels`].
    pub fn has(&self, review: &Review) -> bool {
        let Some(kind) = review.kind() else { return false };
        let is_watched = match &self.watch {
            Watch::AllNamespaces => true,
            Watch::Namespaces(names) => names.iter().any(|name| name == review.namespace()),
        };
        is_watched && (kind == Kind::StateSnapshot || self.has_labels(review.object()))
    }

    /// Returns `true` if resources with the labels of `object` are operated.
    pub fn has_labels(&self, object: &Value) -> bool {
        let Some(selector) = &self.selector else { return true };
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?)));
        selector.matches(&labels.collect::<BTreeMap<String, &str>>())
    }
}
