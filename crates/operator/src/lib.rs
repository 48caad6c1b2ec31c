//! The control loop: observe, decide, act, for every resource in scope.
//!
//! The frame of a pass is common to all kinds: [`kind`] defines what a controller consists of,
//! [`controller`] runs one, [`pass`] hands it the newest version of its resource, and [`resource`]
//! writes the resource. The loop itself makes no decisions. For a `FlinkDeployment`, [`reconcile`] asks
//! `lifecycle` for a plan, [`observe`] answers the questions that the decision returns, and
//! [`act`] takes the steps of the plan in order. [`session_job`] does the same for a `FlinkSessionJob`.
//! The autoscaler measures jobs beside the passes, and provides its decisions in force.
//!
//! A program that embeds the operator can add its own listeners and validators to those of the
//! configuration:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use futures::future::{BoxFuture, FutureExt};
//! use kubectl_flink_operator::context::Context;
//! use kubectl_flink_operator::listener::{self, CloudEvent, Listener, Undelivered};
//! use kubectl_flink_operator::run::{Watch, start};
//! use kubectl_flink_operator::validator::{self, Subject, Validator, Violation};
//! use kubectl_flink_clients::flink::access::{Access, Connector, Options};
//! use kubectl_flink_config::OperatorConfig;
//!
//! /// Requires the name of a team on everything that is deployed.
//! struct Teams;
//!
//! impl Validator for Teams {
//!     fn name(&self) -> &str {
//!         "teams"
//!     }
//!
//!     fn validate<'a>(
//!         &'a self,
//!         subject: &'a Subject,
//!     ) -> BoxFuture<'a, Result<Vec<Violation>, String>> {
//!         let has_team = subject.object.pointer("/metadata/labels/team").is_some();
//!         let violation = || Violation {
//!             path: "metadata.labels.team".to_owned(),
//!             message: "must be set to the team that is called at night".to_owned(),
//!         };
//!         let violations = if has_team { vec![] } else { vec![violation()] };
//!         async move { Ok(violations) }.boxed()
//!     }
//! }
//!
//! /// Logs everything that happens.
//! struct Audit;
//!
//! impl Listener for Audit {
//!     fn name(&self) -> &str {
//!         "audit"
//!     }
//!
//!     fn hear<'a>(&'a self, event: &'a CloudEvent) -> BoxFuture<'a, Result<(), Undelivered>> {
//!         async move {
//!             tracing::info!(kind = %event.body()["type"], "heard");
//!             Ok(())
//!         }
//!         .boxed()
//!     }
//! }
//!
//! # async fn operate(client: kube::Client, kubeconfig: kube::Config, config: OperatorConfig)
//! #     -> Result<(), Box<dyn std::error::Error>> {
//! let problem = |problems: Vec<_>| format!("{problems:?}");
//! let mut validators = validator::configured(&config.base).map_err(problem)?;
//! validators.push(Arc::new(Teams));
//! let mut listeners = listener::configured(&config.base).map_err(problem)?;
//! listeners.push(Arc::new(Audit));
//! let options = Options::from_environment(Access::Auto, None);
//! let connector = Connector::new(&options, Some(&kubeconfig))?;
//! let context = Context::new(client, config, connector, true)
//!     .with_validators(validators)
//!     .with_listeners(listeners);
//! let operator = start(context, &Watch::AllNamespaces, None);
//! tokio::signal::ctrl_c().await?;
//! operator.stop().await;
//! # Ok(())
//! # }
//! ```

#![allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "shell")]

pub mod about;
pub mod act;
mod api_server_health;
mod autoscaler;
pub mod blue_green;
pub mod canary;
pub mod context;
pub mod controller;
mod deployment;
pub mod election;
pub mod endpoint;
mod etcd_restore;
pub mod exposition;
mod failures;
pub mod files;
pub mod health;
pub mod heavy;
pub mod high_availability;
pub mod http;
#[warn(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "pure")]
pub mod install;
mod job;
pub mod kind;
pub mod listener;
pub mod live;
pub mod mutator;
mod nodes;
mod objects;
pub mod observe;
pub mod pass;
mod plugin;
mod pod_watch;
pub mod pods;
mod preflight;
pub mod preview;
pub mod reconcile;
mod record;
pub mod rehearse;
pub mod report;
mod request_slots;
pub mod resource;
mod retention;
pub mod run;
pub mod scaling_rules;
pub mod scopes;
pub mod session_job;
pub mod sharding;
pub mod snapshot;
pub mod standalone;
mod standby;
mod transient_failures;
mod unlisted;
mod upgrades;
pub mod validator;
mod vitals;
mod watch_freshness;
mod watching;
pub mod webhook;
