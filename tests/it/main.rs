//! Tests that see the crate from outside.

mod flink_access;
mod layers;
