//! The `CustomResourceDefinition`s of the four kinds, generated from the Rust types.
//!
//! The schema accepts whatever the Java operator's schema accepts, so that both operators manage the same resources:
//! nothing is required, defaulted or bounded, and integers have no format. In addition, the API server applies the
//! rules of [`rules`], which reject what no operator could run.

pub mod fields;
mod rules;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube_core::CustomResourceExt;

use self::fields::Field;
use super::blue_green::FlinkBlueGreenDeployment;
use super::deployment::FlinkDeployment;
use super::session_job::FlinkSessionJob;
use super::state_snapshot::FlinkStateSnapshot;

/// The oldest minor version of Kubernetes 1.x that accepts unchanged parts of a stored object although a rule rejects
/// them (`CRDValidationRatcheting`, on by default since 1.30).
pub const RATCHETING_SINCE_MINOR: u32 = 30;

/// Returns the definitions of all four kinds, always in this order.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut definitions = vec![
        FlinkDeployment::crd(),
        FlinkSessionJob::crd(),
        FlinkStateSnapshot::crd(),
        FlinkBlueGreenDeployment::crd(),
    ];
    let pod = schema::pod();
    for definition in &mut definitions {
        let kind = definition.spec.names.kind.clone();
        if let Some(root) = root_mut(definition) {
            schema::relax(root);
            schema::fill_in_pod_templates(root, &pod);
            rules::attach(&kind, root);
        }
    }
    definitions
}

/// Removes all rules, for an API server older than 1.[`RATCHETING_SINCE_MINOR`]: there, a rule would reject each write
/// to an object that violated it before it was added, even the removal of its finalizer.
pub fn without_rules(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    if let Some(root) = root_mut(&mut definition) {
        rules::detach(root);
    }
    definition
}

/// Returns the fields of `definition`, from the kind down.
pub fn fields(definition: &CustomResourceDefinition) -> Vec<Field> {
    root(definition).map(|root| fields::list(&definition.spec.names.kind, root)).unwrap_or_default()
}

/// Returns the root schema of `definition`'s only version.
pub fn root(definition: &CustomResourceDefinition) -> Option<&JSONSchemaProps> {
    definition.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn root_mut(definition: &mut CustomResourceDefinition) -> Option<&mut JSONSchemaProps> {
    definition.spec.versions.first_mut()?.schema.as_mut()?.open_api_v3_schema.as_mut()
}

#[cfg(test)]
mod tests;
