//! Flink's and the operator's configuration: keys, defaults, value syntax, files and layers.
//!
//! Everything here is text in and text out, in exactly Flink's syntax. A value that cannot be parsed is an
//! [`option::InvalidValue`] that names its key; nothing here panics or falls back silently.

pub mod catalogue;
pub mod cluster;
pub mod duration;
pub mod file;
mod flink_config;
pub mod json;
pub mod known;
pub mod label_mapper;
pub mod label_selector;
pub mod layers;
pub mod log_levels;
pub mod memory;
pub mod namespaces;
pub mod nested;
mod operator_config;
pub mod option;
pub mod options;
pub mod plugin;
pub mod process_memory;
pub mod quantity;
pub mod reload;
pub mod reporter;
pub mod secret;
pub mod session_job;
pub mod structure;
pub mod template_file;

pub use flink_config::FlinkConfig;
pub use operator_config::OperatorConfig;
