//! The `CustomResourceDefinition`s of the four kinds, made from the Rust types.
//!
//! The schema accepts whatever the Java operator's accepts, so that its resources and ours are the
//! same resources: nothing is required, defaulted or bounded, and integers have no format. On top
//! of that come the rules of [`rules`], which refuse at the API server what no operator could run.

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

/// The oldest Kubernetes 1.x that leaves unchanged parts of a stored object alone when a rule
/// refuses them (`CRDValidationRatcheting`, on by default since 1.30).
pub const RATCHETING_SINCE_MINOR: u32 = 30;

/// The definitions of all four kinds, always in this order.
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

/// Takes every rule out, for an API server older than 1.[`RATCHETING_SINCE_MINOR`]: there a rule
/// would stop each write to an object that broke it before the rule came, even the removal of its
/// finalizer.
pub fn without_rules(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    if let Some(root) = root_mut(&mut definition) {
        rules::detach(root);
    }
    definition
}

/// The fields of `definition`, from the kind down.
pub fn fields(definition: &CustomResourceDefinition) -> Vec<Field> {
    root(definition).map(|root| fields::list(&definition.spec.names.kind, root)).unwrap_or_default()
}

/// The root schema of `definition`'s only version.
pub fn root(definition: &CustomResourceDefinition) -> Option<&JSONSchemaProps> {
    definition.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn root_mut(definition: &mut CustomResourceDefinition) -> Option<&mut JSONSchemaProps> {
    definition.spec.versions.first_mut()?.schema.as_mut()?.open_api_v3_schema.as_mut()
}

#[cfg(test)]
mod tests;
