//! A client whose requests end: without a response in time, a request fails. Its writes end when this process is no
//! longer the leader.
//!
//! Otherwise a connection that died silently would block a reconcile forever.

use std::time::Duration;

use kube::client::ClientBuilder;
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;

use super::guarded::GuardLayer;
use super::pulse::{Pulse, PulseLayer};
use crate::fence::Fence;
use metrics::traffic::Traffic;

/// Maximum silence within a response, watches included: longer than the API server lets a watch last.
const SILENCE_MAX: Duration = Duration::from_mins(6);

/// Returns a client that waits `within` for the beginning of each response and writes only while `fence` is open.
/// `pulse` receives the signs of life of its watches, and `traffic` counts its requests. Whether a request that timed
/// out was carried out is unknown.
///
/// # Errors
/// If no client can be built from the configuration.
pub fn client(
    mut config: Config,
    within: Duration,
    fence: &Fence,
    pulse: &Pulse,
    traffic: &Traffic,
) -> Result<Client, kube::Error> {
    config.read_timeout = Some(SILENCE_MAX.max(within));
    config.reset_reader_on_write = true;
    let builder = ClientBuilder::try_from(config)?.with_layer(&TimeoutLayer::new(within));
    let builder =
        builder.with_layer(&PulseLayer { pulse: pulse.clone(), traffic: traffic.clone() });
    Ok(builder.with_layer(&GuardLayer(fence.clone())).build())
}
