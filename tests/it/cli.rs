//! Commands against a cluster in memory, and the program itself by its transcripts.

pub(crate) mod commands;
mod completion;
mod operator_config;
mod panics;
mod transcripts;
