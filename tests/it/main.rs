//! Tests that see the crate from outside.

mod layers;
