//! The program `kubectl-flink`, run by kubectl as `kubectl flink`.

use std::process::ExitCode;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Both HTTP clients use the process-wide provider. Installing fails only if one is already installed, which is
    // fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    kubectl_flink::cli::run()
}
