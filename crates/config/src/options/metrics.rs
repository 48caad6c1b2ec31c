//! Options of the operator's own metrics. Those of reporters, below `metrics.reporter.`, are read by
//! [`crate::reporter`].

use std::time::Duration;

use crate::option::ConfigOption;

options! {
    TABLE =>
    /// Metrics of the process, for which the Java operator has those of its JVM.
    AtStart JVM_METRICS_ENABLED: bool = "kubernetes.operator.jvm.metrics.enabled" or "true";
    /// Metrics of passes, and of what watches show.
    AtStart JOSDK_METRICS_ENABLED: bool = "kubernetes.operator.josdk.metrics.enabled" or "true";
    /// Metrics of requests to the API server (`KubeClient`) and to Flink (`FlinkClient`, which the
    /// Java operator has not).
    AtStart KUBERNETES_CLIENT_METRICS_ENABLED: bool =
        "kubernetes.operator.kubernetes.client.metrics.enabled" or "true";
    /// Counts answers by `1xx` to `5xx` as well.
    AtStart KUBERNETES_CLIENT_METRICS_CODE_GROUPS_ENABLED: bool =
        "kubernetes.operator.kubernetes.client.metrics.http.response.code.groups.enabled" or "false";
    /// From when on a request counts as slow.
    AtStart KUBERNETES_CLIENT_METRICS_SLOW_REQUEST_THRESHOLD: Duration =
        "kubernetes.operator.kubernetes.client.metrics.slow.request.threshold" or "5 s";
    /// Counts of resources by state, version and use; without them there are none of the lifecycle
    /// either.
    AtStart RESOURCE_METRICS_ENABLED: bool =
        "kubernetes.operator.resource.metrics.enabled" or "true";
    /// Counts of resources by lifecycle state, and times of states and transitions.
    AtStart RESOURCE_LIFECYCLE_METRICS_ENABLED: bool =
        "kubernetes.operator.resource.lifecycle.metrics.enabled" or "true";
    /// These times by namespace as well.
    AtStart RESOURCE_LIFECYCLE_NAMESPACE_HISTOGRAMS_ENABLED: bool =
        "kubernetes.operator.resource.lifecycle.namespace.histograms.enabled" or "true";
    /// Newest values that one histogram is made of.
    AtStart METRICS_HISTOGRAM_SAMPLE_SIZE: u32 =
        "kubernetes.operator.metrics.histogram.sample.size" or "1000";
    /// Scope format of the operator's own metrics: their names begin with it where a reporter has
    /// no labels.
    AtStart METRICS_SCOPE_SYSTEM: String =
        "kubernetes.operator.metrics.scope.k8soperator.system"
        or "<host>.k8soperator.<namespace>.<name>.system"
        formerly ["kubernetes.operator.metrics.scope.k8soperator"];
    /// Scope format of metrics of a kind's resources in a namespace, for reporters without labels.
    AtStart METRICS_SCOPE_NAMESPACE: String =
        "kubernetes.operator.metrics.scope.k8soperator.resourcens"
        or "<host>.k8soperator.<namespace>.<name>.namespace.<resourcens>.<resourcetype>";
    /// Scope format of metrics of one resource, for reporters without labels.
    AtStart METRICS_SCOPE_RESOURCE: String =
        "kubernetes.operator.metrics.scope.k8soperator.resource"
        or "<host>.k8soperator.<namespace>.<name>.resource.<resourcens>.<resourcename>.<resourcetype>";
}
