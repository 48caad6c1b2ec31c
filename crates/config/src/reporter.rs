//! Reporters of the operator's own metrics, with the names of Flink's options:
//! `kubernetes.operator.metrics.reporter.<name>.<option>`. The same options without the operator's prefix are for the
//! metrics of jobs and go to their clusters.

mod otlp;
mod push;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::FlinkConfig;
use super::option::{InvalidValue, OptionValue};
use super::options::metrics as options;

pub use otlp::{Otlp, Protocol};
pub use push::{PushGateway, Server, Transport};

/// The names of the reporters, separated by commas; if it is missing, all reporters with options are used.
const CHOSEN: &str = "kubernetes.operator.metrics.reporters";
const PREFIX: &str = "kubernetes.operator.metrics.reporter.";
const FACTORY: &str = "factory.class";
const PROMETHEUS: &str = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory";
const OTLP: &str = "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory";
const PUSH_GATEWAY: &str =
    "org.apache.flink.metrics.prometheus.PrometheusPushGatewayReporterFactory";
const INFLUX_DB: &str = "org.apache.flink.metrics.influxdb.InfluxdbReporterFactory";
const STATSD: &str = "org.apache.flink.metrics.statsd.StatsDReporterFactory";
const GRAPHITE: &str = "org.apache.flink.metrics.graphite.GraphiteReporterFactory";
const LOG: &str = "org.apache.flink.metrics.slf4j.Slf4jReporterFactory";
/// Flink's reporters that are not available here, and their replacements.
const INSTEAD: [(&str, &str); 2] = [
    (
        "org.apache.flink.metrics.jmx.JMXReporterFactory",
        "JMX needs a JVM, and there is none here; use the Prometheus reporter",
    ),
    (
        "org.apache.flink.metrics.datadog.DatadogHttpReporterFactory",
        "Datadog's own API is not supported; use the OpenTelemetry or StatsD reporter with its \
         agent, or let the agent scrape the Prometheus reporter",
    ),
];
/// Default port, as in Flink's reporter.
const PROMETHEUS_PORT: u16 = 9249;
/// Default interval between two reports.
const INTERVAL: Duration = Duration::from_secs(10);
/// Default timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Reads the options of one reporter.
type Read = fn(&Options<'_>) -> Result<Reporter, InvalidValue>;
/// The available reporters, with the options of each.
const CLASSES: [(&str, &[&str], Read); 7] = [
    (PROMETHEUS, &["port", "filterLabelValueCharacters"], |it| it.prometheus()),
    (OTLP, &otlp::OPTIONS, |it| it.otlp()),
    (PUSH_GATEWAY, &push::PUSH_GATEWAY, |it| it.push_gateway()),
    (INFLUX_DB, &push::INFLUX_DB, |it| it.influx_db()),
    (STATSD, &push::STATSD, |it| it.statsd()),
    (GRAPHITE, &push::GRAPHITE, |it| it.graphite()),
    (LOG, &["interval"], |it| it.log()),
];
/// Maximum number of ports that a configuration may name, because each one that is taken is tried.
const PORTS_MAX: usize = 1000;

/// A destination of metrics.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reporter {
    Prometheus(Prometheus),
    Push(Push),
}

/// A reporter that sends metrics by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Push {
    /// Interval between two reports.
    pub interval: Duration,
    /// Timeout of one request.
    pub timeout: Duration,
    pub to: To,
}

/// The destination of a push.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum To {
    Log(Scopes),
    Otlp(Box<Otlp>),
    PushGateway(PushGateway),
    /// The URL to which points are written.
    InfluxDb(url::Url),
    StatsD(Server),
    Graphite(Server),
}

/// Prefixes of names for reporters without labels. `<host>` and others stand for the values that labels would have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Scopes {
    pub system: String,
    pub namespace: String,
    pub resource: String,
}

impl Scopes {
    /// Reads the scopes from the operator's configuration.
    pub fn of(config: &FlinkConfig) -> Result<Self, InvalidValue> {
        Ok(Self {
            system: config.get(&options::METRICS_SCOPE_SYSTEM)?,
            namespace: config.get(&options::METRICS_SCOPE_NAMESPACE)?,
            resource: config.get(&options::METRICS_SCOPE_RESOURCE)?,
        })
    }
}

/// Metrics served on a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Prometheus {
    /// The first free one is used.
    pub ports: Vec<u16>,
    /// Whether to remove from label values the characters that Flink's reporter removes, so that `my-shop` becomes
    /// `my_shop`.
    pub filters_label_values: bool,
}

impl Default for Prometheus {
    fn default() -> Self {
        Self { ports: vec![PROMETHEUS_PORT], filters_label_values: true }
    }
}

/// Reporters, and messages about options that have no effect.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reporters {
    pub all: Vec<Reporter>,
    pub without_effect: Vec<WithoutEffect>,
}

/// An option that is not read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WithoutEffect {
    pub key: String,
    pub why: String,
}

impl fmt::Display for WithoutEffect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` has no effect: {}", self.key, self.why)
    }
}

impl Reporters {
    /// Reads the reporters of the operator's configuration. As in Java, one that cannot start is reported and left out,
    /// without keeping anything else from starting: a configuration may be shared with the Java operator.
    pub fn of(config: &FlinkConfig) -> Self {
        let mut reporters = Self::default();
        let chosen = config.get_text(CHOSEN).map(chosen).unwrap_or_default();
        for name in names(config) {
            if !chosen.is_empty() && !chosen.contains(name) {
                continue;
            }
            let options = Options { config, name };
            let Some(class) = options.text(FACTORY) else {
                let why = format!("the reporter has no `{FACTORY}`");
                reporters.leave_out(format!("{PREFIX}{name}"), why);
                continue;
            };
            let Some((_, known, read)) = CLASSES.iter().find(|(known, ..)| *known == class) else {
                reporters.leave_out(options.key(FACTORY), no_such_class(class));
                continue;
            };
            match read(&options) {
                Ok(reporter) => reporters.all.push(reporter),
                Err(error) => reporters.leave_out(format!("{PREFIX}{name}"), error.to_string()),
            }
            reporters.leave_out_all_but(&options, known);
            if class == OTLP
                && let Some(unknown) = options.unknown_protocol()
            {
                reporters.leave_out(options.key("exporter.protocol"), unknown);
            }
        }
        for name in chosen.iter().filter(|name| !names(config).contains(*name)) {
            let why = format!("there are no options for a reporter `{name}`");
            reporters.leave_out(CHOSEN.to_owned(), why);
        }
        reporters
    }

    fn leave_out(&mut self, key: String, why: String) {
        self.without_effect.push(WithoutEffect { key, why });
    }

    fn leave_out_all_but(&mut self, options: &Options<'_>, known: &[&str]) {
        let prefix = options.key("");
        for (option, _) in options.config.below(&prefix) {
            if option != FACTORY && !known.contains(&option) {
                let why = format!("the reporter supports {}", known.join(", "));
                self.leave_out(options.key(option), why);
            }
        }
    }
}

fn no_such_class(class: &str) -> String {
    if let Some((_, instead)) = INSTEAD.iter().find(|(known, _)| *known == class) {
        return (*instead).to_owned();
    }
    let known: Vec<&str> = CLASSES
        .iter()
        .map(|(class, ..)| class.strip_prefix("org.apache.flink.metrics.").unwrap_or(class))
        .collect();
    format!("reporter `{class}` is not supported: expected one of Flink's {}", known.join(", "))
}

fn chosen(text: &str) -> BTreeSet<&str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

fn names(config: &FlinkConfig) -> BTreeSet<&str> {
    config.below(PREFIX).filter_map(|(key, _)| key.split_once('.')).map(|(name, _)| name).collect()
}

/// The options of one reporter.
struct Options<'c> {
    config: &'c FlinkConfig,
    name: &'c str,
}

impl<'c> Options<'c> {
    fn key(&self, option: &str) -> String {
        format!("{PREFIX}{}.{option}", self.name)
    }

    fn text(&self, option: &str) -> Option<&'c str> {
        self.config.get_text(&self.key(option)).map(str::trim)
    }

    fn invalid(&self, option: &str, text: &str, expected: &str) -> InvalidValue {
        InvalidValue::new(self.key(option), text, expected)
    }

    /// Reads an address for requests, such as `example`. It may contain a password, so no message quotes it.
    fn url(&self, option: &str, example: &str) -> Result<url::Url, InvalidValue> {
        let text = self.text(option).unwrap_or_default();
        let is_web = |url: &url::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        url::Url::parse(text).ok().filter(is_web).ok_or_else(|| {
            self.invalid(option, text, &format!("a URL such as `{example}`")).hidden()
        })
    }

    /// Reads a duration of at least one second.
    fn duration(&self, option: &str, default: Duration) -> Result<Duration, InvalidValue> {
        let Some(text) = self.text(option) else { return Ok(default) };
        let read = <Duration as OptionValue>::parse(text);
        read.filter(|duration| *duration >= Duration::from_secs(1)).ok_or_else(|| {
            self.invalid(option, text, "a duration of at least a second, such as `10 s`")
        })
    }

    fn log(&self) -> Result<Reporter, InvalidValue> {
        self.push(TIMEOUT, To::Log(Scopes::of(self.config)?))
    }

    fn push(&self, timeout: Duration, to: To) -> Result<Reporter, InvalidValue> {
        Ok(Reporter::Push(Push { interval: self.duration("interval", INTERVAL)?, timeout, to }))
    }

    fn prometheus(&self) -> Result<Reporter, InvalidValue> {
        let mut settings = Prometheus::default();
        if let Some(text) = self.text("port") {
            settings.ports = ports(text).ok_or_else(|| {
                let expected = "a port, or several such as `9249,9260-9270`";
                self.invalid("port", text, expected)
            })?;
        }
        settings.filters_label_values = self.flag("filterLabelValueCharacters", true)?;
        Ok(Reporter::Prometheus(settings))
    }

    fn flag(&self, option: &str, default: bool) -> Result<bool, InvalidValue> {
        let Some(text) = self.text(option) else { return Ok(default) };
        let read = <bool as OptionValue>::parse(text);
        read.ok_or_else(|| self.invalid(option, text, <bool as OptionValue>::EXPECTED))
    }
}

/// Parses ports in Flink's syntax: single ones and ranges, separated by commas.
fn ports(text: &str) -> Option<Vec<u16>> {
    let mut ports = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range: RangeInclusive<u16> = first.trim().parse().ok()?..=last.trim().parse().ok()?;
        if range.is_empty() || ports.len() + range.len() > PORTS_MAX {
            return None;
        }
        ports.extend(range);
    }
    Some(ports)
}

#[cfg(test)]
mod tests;
