//! Helpers that the simulations share.

pub(crate) mod phases;
pub(crate) mod worlds;
