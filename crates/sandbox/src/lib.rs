//! A real one-node Kubernetes on this machine, for people without one.
//!
//! Each instance has its own network and mount namespace, its own control groups and its own folder: on the host it
//! changes only one cable, one route and one kubeconfig entry, and taking it down removes all of it, even after a kill
//! at any point.
//!
//! `up` ensures one thing after another; the parts are ordinary Kubernetes programs, built once from sources inside
//! this program, and Debian's container runtime.

#![allow(
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "it is about the world"
)]

pub mod archive;
mod cgroup;
mod command;
mod control_plane;
pub mod down;
pub mod error;
pub mod flink_image;
pub mod image;
mod kubeconfig;
mod network;
mod node;
mod process;
mod programs;
pub mod progress;
mod requirements;
pub mod state;
pub mod status;
pub mod up;
