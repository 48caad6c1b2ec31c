//! Options of the jars of session jobs, which the operator fetches. Headers and the checksum are those
//! of the job, and all others those of the operator.

use std::time::Duration;

use super::{List, TextMap};
use crate::memory::MemorySize;
use crate::option::ConfigOption;

options! {
    OF_JARS =>
    /// Folder of the operator for jars that it fetches.
    Live USER_ARTIFACTS_BASE_DIR: String =
        "kubernetes.operator.user.artifacts.base.dir" or "/opt/flink/artifacts";
    /// Schemes of addresses from which the operator fetches jars.
    Live USER_ARTIFACTS_ALLOWED_SCHEMES: List =
        "kubernetes.operator.user.artifacts.allowed-schemes" or "https";
    /// Refuses jars on hosts without a public address.
    Live USER_ARTIFACTS_DISALLOW_RESTRICTED_HOSTS: bool =
        "kubernetes.operator.user.artifacts.disallow-restricted-hosts" or "true";
    /// The largest jar that is fetched.
    Live USER_ARTIFACTS_MAX_SIZE: MemorySize =
        "kubernetes.operator.user.artifacts.max-size" or "1 gb";
    /// Longest time that one jar may take, from the first connection to the last byte.
    Live USER_ARTIFACTS_TIMEOUT: Duration =
        "kubernetes.operator.user.artifacts.timeout" or "10 min";
    /// Disk for jars that were fetched before, so that an unchanged one is not sent again; 0 for
    /// none.
    Live USER_ARTIFACTS_CACHE_SIZE: MemorySize =
        "kubernetes.operator.user.artifacts.cache.max-size" or "512 mb";
    /// Headers with which the jar of a session job is asked for; its configuration states them.
    Live USER_ARTIFACTS_HTTP_HEADER: TextMap = "kubernetes.operator.user.artifacts.http.header";
    /// Checksum that the jar of a session job must have: `sha256:` and 64 hexadecimal digits.
    Live USER_ARTIFACTS_CHECKSUM: String = "kubernetes.operator.user.artifacts.checksum";
}
