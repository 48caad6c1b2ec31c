//! The subject of a log line: every line that is written within a pass carries its resource.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tracing::Span;

/// Returns the span around everything that is done about a resource. It has the highest level, so that a log of
/// warnings alone carries the resource as well. In JSON, the span's name is also a field, so no field of the span is
/// called `name`.
pub fn span(kind: &str, metadata: &ObjectMeta) -> Span {
    let ObjectMeta { namespace, name, generation, .. } = metadata;
    tracing::error_span!("reconcile", kind, namespace, resource = name, generation)
}
