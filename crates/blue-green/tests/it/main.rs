//! The decision about blue/green deployments: rows, and random lives against a world in memory.

extern crate kubectl_flink_blue_green as blue_green;

mod decisions;
mod simulation;
mod world;
