//! The admission webhook of `operate`: from flags to a listening port.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;

use super::super::connection::Connection;
use super::super::extension::invalid;
use super::super::failure::Failure;
use clients::cluster::webhooks::SecretName;
use operator::http::Listener;
use operator::live::Live;
use operator::webhook::admit::Jurisdiction;
use operator::webhook::certificate::keep::{Keeper, Source};
use operator::webhook::serve::serve;
use operator::webhook::{ReviewRules, Webhook};
use operator::{mutator, validator};

/// Flags of the webhook; without a port there is none.
#[derive(Args)]
#[command(next_help_heading = "Admission webhook")]
#[allow(clippy::struct_field_names, reason = "flags of a command that has others")]
pub(super) struct WebhookArgs {
    /// Serve the admission webhook on this port, over TLS, at /validate and /mutate
    #[arg(long, value_name = "PORT")]
    webhook_port: Option<u16>,
    /// Service that the API server calls, in the namespace of the pod or of the kubeconfig's
    /// context
    #[arg(long, value_name = "NAME", requires = "webhook_port")]
    webhook_service: Option<String>,
    /// Name or address that the API server calls, if it is not a Service; may be repeated
    #[arg(long, value_name = "HOST", requires = "webhook_port")]
    webhook_host: Vec<String>,
    /// Directory with tls.crt, tls.key and optionally ca.crt, such as a mounted Secret; reloaded
    /// when it changes
    #[arg(
        long,
        value_name = "DIRECTORY",
        requires = "webhook_port",
        conflicts_with_all = ["webhook_secret", "webhook_configuration"]
    )]
    webhook_certificate: Option<PathBuf>,
    /// Create the certificate, and keep it in this Secret, shared by all replicas
    #[arg(long, value_name = "NAME", requires = "webhook_port")]
    webhook_secret: Option<String>,
    /// Make the validating and mutating webhook configurations of this name trust the certificate
    #[arg(long, value_name = "NAME", requires = "webhook_secret")]
    webhook_configuration: Option<String>,
}

impl WebhookArgs {
    /// Returns the port, the names the webhook is called by, and the source of its certificate; `None` without a port.
    fn settings(&self, namespace: &str) -> anyhow::Result<Option<(u16, Vec<String>, Source)>> {
        let Some(port) = self.webhook_port else { return Ok(None) };
        let service = self.webhook_service.iter().map(|name| format!("{name}.{namespace}.svc"));
        let names: Vec<String> = service.chain(self.webhook_host.iter().cloned()).collect();
        if names.is_empty() {
            return Err(Failure::usage(
                "a webhook needs a name for its certificate: --webhook-service or --webhook-host",
            )
            .into());
        }
        let source = match (&self.webhook_certificate, &self.webhook_secret) {
            (Some(folder), _) => Source::Folder(folder.clone()),
            (None, Some(name)) => Source::Own {
                secret: SecretName { namespace: namespace.to_owned(), name: name.clone() },
                configuration: self.webhook_configuration.clone(),
            },
            (None, None) => {
                return Err(Failure::usage(
                    "a webhook needs a certificate: pass one with --webhook-certificate, or let the operator create one with --webhook-secret",
                )
                .into());
            }
        };
        Ok(Some((port, names, source)))
    }

    /// Starts to answer reviews, regardless of which process leads: every replica applies the same rules.
    pub(super) async fn serve(
        &self,
        connection: &Connection,
        live: Arc<Live>,
        jurisdiction: Jurisdiction,
    ) -> anyhow::Result<Option<Arc<Webhook>>> {
        let own = connection.config.as_ref().map(|config| config.default_namespace.as_str());
        let namespace = own.unwrap_or(&connection.namespace);
        let Some((port, names, source)) = self.settings(namespace)? else { return Ok(None) };
        let operator = live.get();
        let validators = validator::configured(&operator.base).map_err(invalid)?;
        let mutators = mutator::configured(&operator.base).map_err(invalid)?;
        let listener = Listener::open(port).await.context("while opening the webhook's port")?;
        let client = connection.client.clone();
        let (keeper, tls) = Keeper::new(client.clone(), source, names);
        let rules = ReviewRules::new(jurisdiction, validators, mutators);
        let webhook = Arc::new(Webhook::new(client, live, rules));
        tracing::info!(port, "serving the admission webhook");
        tokio::spawn(keeper.keep());
        tokio::spawn(serve(listener, tls, Arc::clone(&webhook)));
        Ok(Some(webhook))
    }
}

#[cfg(test)]
mod tests;
