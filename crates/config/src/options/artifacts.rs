//! Options of the jars of session jobs, which the operator downloads. Headers and the checksum are options of the job,
//! all others those of the operator.

use std::time::Duration;

use super::{List, TextMap};
use crate::memory::MemorySize;
use crate::option::ConfigOption;

options! {
    OF_JARS =>
    /// The operator's folder for fetched jars.
    Live USER_ARTIFACTS_BASE_DIR: String =
        "kubernetes.operator.user.artifacts.base.dir" or "/opt/flink/artifacts";
    /// URI schemes from which the operator fetches jars.
    Live USER_ARTIFACTS_ALLOWED_SCHEMES: List =
        "kubernetes.operator.user.artifacts.allowed-schemes" or "https";
    /// Refuses jars on hosts without a public address.
    Live USER_ARTIFACTS_DISALLOW_RESTRICTED_HOSTS: bool =
        "kubernetes.operator.user.artifacts.disallow-restricted-hosts" or "true";
    /// Further ranges of addresses whose hosts are refused, such as those of the cluster's Services
    /// and pods if they are public.
    Live USER_ARTIFACTS_RESTRICTED_RANGES: List =
        "kubernetes.operator.user.artifacts.restricted-ranges";
    /// Maximum size of a fetched jar.
    Live USER_ARTIFACTS_MAX_SIZE: MemorySize =
        "kubernetes.operator.user.artifacts.max-size" or "1 gb";
    /// Timeout for fetching a jar, whatever the scheme, from the first connection to the last byte.
    Live USER_ARTIFACTS_HTTP_TOTAL_TIMEOUT: Duration =
        "kubernetes.operator.user.artifacts.http.total-timeout" or "5 min"
        formerly ["kubernetes.operator.user.artifacts.timeout"];
    /// Timeout for connecting to the host of a jar, and for each silence of it.
    Live USER_ARTIFACTS_HTTP_SOCKET_TIMEOUT: Duration =
        "kubernetes.operator.user.artifacts.http.socket-timeout" or "30 s";
    /// Disk space for caching fetched jars, so that unchanged ones are not sent again; 0 disables
    /// the cache.
    Live USER_ARTIFACTS_CACHE_SIZE: MemorySize =
        "kubernetes.operator.user.artifacts.cache.max-size" or "512 mb";
    /// HTTP headers for fetching the jar of a session job, set in its configuration.
    Live USER_ARTIFACTS_HTTP_HEADER: TextMap = "kubernetes.operator.user.artifacts.http.header";
    /// Checksum that the jar of a session job must have: `sha256:` and 64 hexadecimal digits.
    Live USER_ARTIFACTS_CHECKSUM: String = "kubernetes.operator.user.artifacts.checksum";
}
