//! Options of the operator's own metrics. [`crate::reporter`] reads those of reporters, below `metrics.reporter.`.

use std::time::Duration;

use crate::option::ConfigOption;

options! {
    TABLE =>
    /// Metrics of the process, instead of the Java operator's JVM metrics.
    AtStart JVM_METRICS_ENABLED: bool = "kubernetes.operator.jvm.metrics.enabled" or "true";
    /// Metrics of passes and watches.
    AtStart JOSDK_METRICS_ENABLED: bool = "kubernetes.operator.josdk.metrics.enabled" or "true";
    /// Metrics of requests to the API server (`KubeClient`) and to Flink (`FlinkClient`, only
    /// here).
    AtStart KUBERNETES_CLIENT_METRICS_ENABLED: bool =
        "kubernetes.operator.kubernetes.client.metrics.enabled" or "true";
    /// Also counts responses by `1xx` to `5xx`.
    AtStart KUBERNETES_CLIENT_METRICS_CODE_GROUPS_ENABLED: bool =
        "kubernetes.operator.kubernetes.client.metrics.http.response.code.groups.enabled" or "false";
    /// Duration above which a request counts as slow.
    AtStart KUBERNETES_CLIENT_METRICS_SLOW_REQUEST_THRESHOLD: Duration =
        "kubernetes.operator.kubernetes.client.metrics.slow.request.threshold" or "5 s";
    /// Counts of resources by state, version and usage; disabling them also disables the lifecycle
    /// metrics.
    AtStart RESOURCE_METRICS_ENABLED: bool =
        "kubernetes.operator.resource.metrics.enabled" or "true";
    /// Counts of resources by lifecycle state, and durations of states and transitions.
    AtStart RESOURCE_LIFECYCLE_METRICS_ENABLED: bool =
        "kubernetes.operator.resource.lifecycle.metrics.enabled" or "true";
    /// These durations also by namespace.
    AtStart RESOURCE_LIFECYCLE_NAMESPACE_HISTOGRAMS_ENABLED: bool =
        "kubernetes.operator.resource.lifecycle.namespace.histograms.enabled" or "true";
    /// Number of newest values in a histogram.
    AtStart METRICS_HISTOGRAM_SAMPLE_SIZE: u32 =
        "kubernetes.operator.metrics.histogram.sample.size" or "1000";
    /// Scope format of the operator's own metrics: the prefix of their names for reporters without
    /// labels.
    AtStart METRICS_SCOPE_SYSTEM: String =
        "kubernetes.operator.metrics.scope.k8soperator.system"
        or "<host>.k8soperator.<namespace>.<name>.system"
        formerly ["kubernetes.operator.metrics.scope.k8soperator"];
    /// Scope format of the metrics of a kind in a namespace, for reporters without labels.
    AtStart METRICS_SCOPE_NAMESPACE: String =
        "kubernetes.operator.metrics.scope.k8soperator.resourcens"
        or "<host>.k8soperator.<namespace>.<name>.namespace.<resourcens>.<resourcetype>";
    /// Scope format of the metrics of a resource, for reporters without labels.
    AtStart METRICS_SCOPE_RESOURCE: String =
        "kubernetes.operator.metrics.scope.k8soperator.resource"
        or "<host>.k8soperator.<namespace>.<name>.resource.<resourcens>.<resourcename>.<resourcetype>";
}
