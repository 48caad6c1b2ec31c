//! What the simulations share.

pub(crate) mod exploration;
