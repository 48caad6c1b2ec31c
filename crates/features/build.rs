//! Does nothing: `Cargo.toml` says why it is there.

fn main() {}
