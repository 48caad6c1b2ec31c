//! Helpers that the simulations share.

pub(crate) mod operated;
pub(crate) mod phases;
pub(crate) mod worlds;
