//! Which metrics are collected, and where they are reported.

use clap::Args;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use config::FlinkConfig;
use config::reporter::{Prometheus, Push, Reporter, Reporters};
use metrics::{Identity, Metrics, Settings};
use operator::http::Listener;
use operator::{exposition, report};

/// Flags of metrics; the rest is in the operator's configuration.
#[derive(Args)]
pub(super) struct MetricsArgs {
    /// Port for Prometheus; closed unless set here or in the configuration
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,
}

/// The metrics and their reporters.
pub(super) struct Reporting {
    /// Disabled if nothing reports them.
    pub(super) metrics: Metrics,
    prometheus: Vec<Prometheus>,
    push: Vec<Push>,
    /// Tasks of reporters that push, and the token that ends them.
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Reporting {
    /// Reports what is counted; with a console that is something in any case.
    pub(super) fn new(
        args: &MetricsArgs,
        has_console: bool,
        config: &FlinkConfig,
    ) -> anyhow::Result<Self> {
        let settings = Settings::of(config)?;
        let (mut prometheus, mut push) = (Vec::new(), Vec::new());
        for reporter in Reporters::of(config).all {
            match reporter {
                Reporter::Prometheus(settings) => prometheus.push(settings),
                Reporter::Push(settings) => push.push(settings),
            }
        }
        if let Some(port) = args.metrics_port {
            // Keep the configured format.
            let configured: Prometheus = prometheus.drain(..).next().unwrap_or_default();
            prometheus.push(Prometheus { ports: vec![port], ..configured });
        }
        let is_wanted = has_console || !(prometheus.is_empty() && push.is_empty());
        let metrics = is_wanted.then(|| Metrics::new(settings, identity()));
        let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
        Ok(Self { metrics: metrics.unwrap_or_default(), prometheus, push, tasks, end })
    }

    /// Starts to answer scrapes and to push. The operator works even if no port is free or a reporter cannot start.
    pub(super) async fn serve(&self) {
        for settings in self.push.clone() {
            let (metrics, end) = (self.metrics.clone(), self.end.clone());
            self.tasks.spawn(async move {
                if let Err(error) = report::run(metrics, settings, end).await {
                    tracing::error!(%error, "could not start a metrics reporter");
                }
            });
        }
        for settings in &self.prometheus {
            match open(&settings.ports).await {
                Ok(listener) => {
                    tracing::info!(port = listener.port().unwrap_or_default(), "serving metrics");
                    tokio::spawn(listener.serve(exposition::routes(&self.metrics, settings)));
                }
                Err(error) => tracing::error!(error, "cannot serve metrics"),
            }
        }
    }

    /// Waits until the pushing reporters have ended, which takes a few seconds at most.
    pub(super) async fn end(&self) {
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Opens the first free port.
async fn open(ports: &[u16]) -> Result<Listener, String> {
    let mut last = "no port is configured".to_owned();
    for port in ports {
        match Listener::open(*port).await {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

/// Returns the identity that the Java operator would report.
fn identity() -> Identity {
    let variable = |name: &str, default: &str| {
        let value = std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        value.unwrap_or_else(|| default.to_owned())
    };
    Identity {
        host: variable("HOSTNAME", "localhost"),
        namespace: variable("OPERATOR_NAMESPACE", "default"),
        name: variable("OPERATOR_NAME", "flink-kubernetes-operator"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reporting(config: &str) -> Reporting {
        let config = config::file::parse_flink_conf(config);
        Reporting::new(&MetricsArgs { metrics_port: None }, false, &config).unwrap()
    }

    #[test]
    fn a_reporter_that_cannot_start_keeps_nothing_from_starting() {
        let reporting = reporting(
            "kubernetes.operator.metrics.reporter.otel.factory.class: \
             org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory\n\
             kubernetes.operator.metrics.reporter.otel.exporter.endpoint: collector\n\
             kubernetes.operator.metrics.reporter.jmx.factory.class: \
             org.apache.flink.metrics.jmx.JMXReporterFactory\n",
        );
        assert!(reporting.push.is_empty() && reporting.prometheus.is_empty());
        assert!(reporting.metrics.identity().is_none(), "nobody gets what is counted");
    }

    #[tokio::test]
    async fn reporters_come_to_their_end_before_the_program_does() {
        let (sender, mut heard) = tokio::sync::mpsc::channel(10);
        let hear = async move |method: http::Method| drop(sender.try_send(method));
        let gateway = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = gateway.local_addr().unwrap();
        let server = axum::serve(gateway, axum::Router::new().fallback(hear));
        tokio::spawn(async move { server.await });
        let reporting = reporting(&format!(
            "kubernetes.operator.metrics.reporter.push.factory.class: \
             org.apache.flink.metrics.prometheus.PrometheusPushGatewayReporterFactory\n\
             kubernetes.operator.metrics.reporter.push.hostUrl: http://{address}\n\
             kubernetes.operator.metrics.reporter.push.interval: 1 h\n",
        ));
        reporting.serve().await;
        reporting.end().await;
        assert_eq!(heard.try_recv().unwrap(), http::Method::DELETE);
    }

    #[tokio::test]
    async fn a_port_that_is_taken_gives_way_to_the_next() {
        let taken = Listener::open(0).await.unwrap();
        let port = taken.port().unwrap();
        assert_ne!(open(&[port, 0]).await.unwrap().port().unwrap(), port);
        let error = open(&[port]).await.map(drop).unwrap_err();
        assert!(error.contains(&port.to_string()), "{error}");
        assert!(open(&[]).await.is_err());
    }
}
