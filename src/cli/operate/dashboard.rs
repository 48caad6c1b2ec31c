//! The console of `operate`: from flags to a port that answers people's browsers.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::super::args::duration;
use super::super::connection::Connection;
use super::super::dashboard::pod::person::REVIEW_INTERVAL;
use super::super::dashboard::pod::watching::Operated;
use super::super::dashboard::pod::{Serving, Settings, serve};
use super::namespaces::Choice;
use metrics::Metrics;
use operator::live::Live;

/// Flags of the console; without a port there is none.
#[derive(Args)]
#[command(next_help_heading = "Console")]
#[allow(clippy::struct_field_names, reason = "flags of a command that has others")]
pub(super) struct DashboardArgs {
    /// Serve the console on this port, over plain HTTP: people sign in with a token of the cluster, see
    /// what they may list, and can change nothing
    #[arg(long, value_name = "PORT")]
    dashboard_port: Option<u16>,
    /// Name of the cluster on the pages of the console
    #[arg(long, value_name = "NAME", requires = "dashboard_port", default_value = "Kubernetes")]
    dashboard_cluster: String,
    /// After this time it is asked again who somebody is and what they may see
    #[arg(long, value_name = "DURATION", value_parser = duration, hide = true)]
    dashboard_review_interval: Option<Duration>,
}

impl DashboardArgs {
    /// Returns `true` if there is a console.
    pub(super) fn is_wanted(&self) -> bool {
        self.dashboard_port.is_some()
    }

    /// Answers from now on, whoever leads, until what is returned is dropped. Where the port is taken the operator works all
    /// the same.
    pub(super) async fn serve(
        &self,
        connection: &Connection,
        live: Arc<Live>,
        choice: Choice,
        metrics: Metrics,
    ) -> Option<Serving> {
        let (port, config) = (self.dashboard_port?, connection.config.clone()?);
        let operated = move || {
            let base = &live.get().base;
            Some(Operated {
                watch: choice.watch(base).ok()?,
                selector: choice.selector(base).ok()?,
            })
        };
        let settings = Settings {
            port,
            cluster: self.dashboard_cluster.clone(),
            review_interval: self.dashboard_review_interval.unwrap_or(REVIEW_INTERVAL),
            config,
            metrics,
            operated: Box::new(operated),
        };
        match serve(settings).await {
            Ok(serving) => {
                tracing::info!(port = serving.port, "serving the console");
                Some(serving)
            }
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "cannot serve the console");
                None
            }
        }
    }
}
