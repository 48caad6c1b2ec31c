//! The operator's own installation: the objects that run it as a pod, created from values.
//!
//! The Helm chart in `helm/` takes the same values and creates the same objects.

mod dashboard;
pub mod from_java;
pub mod merge;
pub mod objects;
pub mod rules;
pub mod values;
mod webhook;
pub mod without_effect;

#[cfg(test)]
mod tests;
