//! Commands against a cluster in memory, and the program itself by its transcripts.

mod changes;
mod check_report;
mod autoscaler;
mod backtest;
pub(crate) mod commands;
mod completion;
mod looking;
mod operator_config;
mod panics;
mod reference;
mod plan;
mod transcripts;
mod why;
