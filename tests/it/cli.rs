//! Commands against a cluster in memory, and the program itself through its transcripts.

mod autoscaler;
mod backtest;
mod blue_green;
mod changes;
mod check_report;
pub(crate) mod commands;
mod completion;
mod dashboard;
mod from_java;
mod json;
mod operator_config;
mod panics;
mod plan;
mod reference;
mod signals;
mod sql;
mod transcripts;
mod ui;
mod upgrades;
mod viewing;
mod why;
