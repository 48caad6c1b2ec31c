//! An event on a resource.

use std::collections::BTreeMap;

/// The part that an event is about, in the Java operator's terms; it begins the event's name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum Component {
    Operator,
    JobManagerDeployment,
    Job,
    Snapshot,
}

/// A Kubernetes event on the resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub is_warning: bool,
    pub reason: &'static str,
    pub component: Component,
    pub message: String,
    /// Replaces the message as the identity of the event, so that repeated events fold into one even if their messages
    /// differ.
    pub key: Option<String>,
    /// Machine-readable details.
    pub annotations: BTreeMap<String, String>,
}

impl Event {
    /// Creates an event for something that went as expected.
    pub fn normal(reason: &'static str, component: Component, message: impl Into<String>) -> Self {
        Self {
            is_warning: false,
            reason,
            component,
            message: message.into(),
            key: None,
            annotations: BTreeMap::new(),
        }
    }

    /// Creates an event that calls for attention.
    pub fn warning(reason: &'static str, component: Component, message: impl Into<String>) -> Self {
        Self {
            is_warning: true,
            reason,
            component,
            message: message.into(),
            key: None,
            annotations: BTreeMap::new(),
        }
    }
}
