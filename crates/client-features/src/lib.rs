//! Nothing: this crate is there for its `Cargo.toml`.
