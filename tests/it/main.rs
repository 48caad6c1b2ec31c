//! Integration tests, which use the crate from outside.
#![allow(
    clippy::disallowed_methods,
    clippy::large_stack_arrays,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests see the world, and fail loudly"
)]

mod api_server;
mod artifact_hub;
mod artifact_stores;
mod autoscaler;
mod autoscaler_rules;
mod autoscaler_session;
mod blue_green;
mod bounds;
mod chart;
mod cli;
mod conformance;
mod disposal;
mod e2e;
mod examples;
mod faults;
mod flink_client;
mod flink_scaling;
mod flink_tls;
mod foreign_service;
mod from_java;
mod fuzz;
mod going;
mod golden;
mod image_name;
mod ingress;
mod isolation;
mod kerberos;
mod krew;
mod kustomize;
mod layers;
mod links;
mod live_configuration;
mod metrics;
mod nemesis;
mod node_notices;
mod outage;
mod paused;
mod preconditions;
mod refused;
mod release;
mod renamed_cluster;
mod sbom;
mod scripts;
mod security;
mod set_back;
mod standalone;
mod structure;
mod support;
mod supported;
mod upstream;
mod webhook;
mod words;
