//! A client whose requests end: one that gets no answer in time has failed. Its writes end when
//! this process leads no more.
//!
//! Without it a connection that died in silence would hold a reconcile for ever.

use std::time::Duration;

use kube::client::ClientBuilder;
use kube::{Client, Config};
use tower::timeout::TimeoutLayer;

use super::guarded::GuardLayer;
use super::pulse::{Pulse, PulseLayer};
use crate::fence::Fence;
use metrics::traffic::Traffic;

/// Silence in the middle of an answer, watches included: longer than the API server lets one last.
const SILENCE_MAX: Duration = Duration::from_mins(6);

/// A client that waits `within` for the beginning of each answer, and writes only while `fence` is
/// open; `pulse` gets the signs of life of its watches, and `traffic` counts its requests. Whether a
/// request that is given up was carried out is not known.
///
/// # Errors
/// A configuration that no client can be made of.
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
