//! The size of the process, to find leaks: `KUBECTL_FLINK_LOG=kubectl_flink_operator::vitals=debug`.

use std::time::Duration;

use tokio::runtime::Handle;

const EVERY: Duration = Duration::from_secs(10);

/// Logs how many tasks the runtime has; never ends.
pub(super) async fn log() {
    loop {
        tracing::debug!(alive_tasks = Handle::current().metrics().num_alive_tasks(), "vitals");
        tokio::time::sleep(EVERY).await;
    }
}
