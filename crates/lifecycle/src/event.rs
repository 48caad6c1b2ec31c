//! An event on a resource.

use std::collections::BTreeMap;

/// Which part an event is about, in the Java operator's words; the first part of the event's name.
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
    /// Stands for the message where repeated events must fold into one although it differs.
    pub key: Option<String>,
    /// Details for programs.
    pub annotations: BTreeMap<String, String>,
}

impl Event {
    /// One that tells what went as it should.
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

    /// One that asks for attention.
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
