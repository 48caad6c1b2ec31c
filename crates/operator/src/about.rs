//! The subject of a line of the log: every line that is written within a pass carries its resource.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tracing::Span;

/// Around all that is done about a resource. It has the highest level, so that a log of warnings
/// alone tells of what they are as well. Its name is a field as well in JSON, so none of its own is
/// called so.
pub fn span(kind: &str, metadata: &ObjectMeta) -> Span {
    let ObjectMeta { namespace, name, generation, .. } = metadata;
    tracing::error_span!("reconcile", kind, namespace, resource = name, generation)
}
