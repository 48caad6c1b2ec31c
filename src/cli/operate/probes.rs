//! The port for probes.

use config::{FlinkConfig, options};
use operator::health::Health;
use operator::http::Listener;

/// Starts to answer probes in a pod, or if the configuration enables them: a program in a terminal opens no port
/// unasked. If the port is taken, the operator works, but its probes fail.
pub(super) async fn serve(config: &FlinkConfig, health: &Health) -> anyhow::Result<()> {
    let is_enabled = config.get(&options::HEALTH_PROBE_ENABLED)?;
    let port = config.get(&options::HEALTH_PROBE_PORT)?;
    let is_asked = config.is_set(&options::HEALTH_PROBE_ENABLED)
        || config.is_set(&options::HEALTH_PROBE_PORT)
        || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    if !is_enabled || !is_asked {
        return Ok(());
    }
    match Listener::open(port).await {
        Ok(listener) => {
            tracing::info!(port, "serving probes");
            tokio::spawn(listener.serve(health.routes()));
        }
        Err(error) => tracing::error!(%error, "cannot serve probes"),
    }
    Ok(())
}
