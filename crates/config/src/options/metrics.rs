//! Options of the operator's own metrics. Those of reporters, below `metrics.reporter.`, are read by
//! [`crate::reporter`].

use std::time::Duration;

use crate::option::ConfigOption;

/// Those of the process, for which the Java operator has those of its JVM.
pub const JVM_METRICS_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.jvm.metrics.enabled").or("true");
/// Passes, and events of watches.
pub const JOSDK_METRICS_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.josdk.metrics.enabled").or("true");
pub const KUBERNETES_CLIENT_METRICS_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.kubernetes.client.metrics.enabled").or("true");
/// Also by `1xx` to `5xx`.
pub const KUBERNETES_CLIENT_METRICS_CODE_GROUPS_ENABLED: ConfigOption<bool> = ConfigOption::new(
    "kubernetes.operator.kubernetes.client.metrics.http.response.code.groups.enabled",
)
.or("false");
pub const KUBERNETES_CLIENT_METRICS_SLOW_REQUEST_THRESHOLD: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.kubernetes.client.metrics.slow.request.threshold")
        .or("5 s");
/// Counts of resources; without them there are none of the lifecycle either.
pub const RESOURCE_METRICS_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.resource.metrics.enabled").or("true");
pub const RESOURCE_LIFECYCLE_METRICS_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.resource.lifecycle.metrics.enabled").or("true");
pub const RESOURCE_LIFECYCLE_NAMESPACE_HISTOGRAMS_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.resource.lifecycle.namespace.histograms.enabled")
        .or("true");
/// Newest values that one histogram is made of.
pub const METRICS_HISTOGRAM_SAMPLE_SIZE: ConfigOption<u32> =
    ConfigOption::new("kubernetes.operator.metrics.histogram.sample.size").or("1000");
/// What the names of metrics begin with where a reporter has no labels: those of the operator itself.
pub const METRICS_SCOPE_SYSTEM: ConfigOption<String> =
    ConfigOption::new("kubernetes.operator.metrics.scope.k8soperator.system")
        .or("<host>.k8soperator.<namespace>.<name>.system")
        .formerly(&["kubernetes.operator.metrics.scope.k8soperator"]);
/// Those of the resources of a kind in a namespace.
pub const METRICS_SCOPE_NAMESPACE: ConfigOption<String> =
    ConfigOption::new("kubernetes.operator.metrics.scope.k8soperator.resourcens")
        .or("<host>.k8soperator.<namespace>.<name>.namespace.<resourcens>.<resourcetype>");
/// Those of one resource.
pub const METRICS_SCOPE_RESOURCE: ConfigOption<String> = ConfigOption::new(
    "kubernetes.operator.metrics.scope.k8soperator.resource",
)
.or("<host>.k8soperator.<namespace>.<name>.resource.<resourcens>.<resourcename>.<resourcetype>");
