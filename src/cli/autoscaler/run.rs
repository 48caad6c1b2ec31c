//! `autoscaler run`: the autoscaler without the operator, for Flink clusters anywhere.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::tried::{option, read_file, settings};
use crate::cli::args::duration;
use crate::cli::extension::invalid;
use crate::cli::failure::Failure;
use crate::cli::logging::{self, LogFormat};
use crate::cli::operator_config::Files;
use crate::cli::printer::Printer;
use crate::cli::signals::asked_to_stop;
use autoscaler::settings::set_over;
use clients::flink::Deadlines;
use clients::flink::access::{Access, Connector, Options};
use clients::store::{self, Place};
use config::FlinkConfig;
use operator::http::Listener;
use operator::scaling_rules::ScalingRules;
use operator::standalone::{self, Cluster, Settings, URL_BYTES_MAX, View};

/// Default log levels: only warnings from other crates.
const LOG_LEVELS: &str = "warn,kubectl_flink=info";
/// Maximum number of clusters of one process.
const CLUSTERS_MAX: usize = 200;
/// Minimum pause between two turns; Flink itself updates its metrics every ten seconds.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Maximum size of a file with options in bytes, and of one with a password.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
const PASSWORD_BYTES_MAX: u64 = 4096;
/// Maximum duration of a turn, in addition to the pause before it: listing, measuring, storing and scaling.
const TURN_MAX: Duration = Duration::from_mins(5);

/// Prefix of the options of the Java standalone autoscaler.
const JAVA_PREFIX: &str = "autoscaler.standalone.";
/// Options of the Java standalone autoscaler, including older names, each with its equivalent here.
const JAVA_OPTIONS: [(&str, &str); 13] = [
    ("scalingInterval", "use --interval"),
    ("flinkClusterHost", "use --flink"),
    ("flinkClusterPort", "use --flink"),
    ("autoscaler.standalone.control-loop.interval", "use --interval"),
    ("autoscaler.standalone.control-loop.parallelism", "use --parallelism"),
    ("autoscaler.standalone.fetcher.flink-cluster.host", "use --flink"),
    ("autoscaler.standalone.fetcher.flink-cluster.port", "use --flink"),
    ("autoscaler.standalone.state-store.type", "use --store"),
    ("autoscaler.standalone.jdbc.url", "use --store"),
    ("autoscaler.standalone.jdbc.username", "use --store"),
    ("autoscaler.standalone.jdbc.password-env-variable", "use --store-password-env"),
    ("autoscaler.standalone.event-handler.type", EVENTS),
    ("autoscaler.standalone.jdbc.event-handler.ttl", EVENTS),
];
const EVENTS: &str = "events are logged";

/// Arguments of `autoscaler run`.
#[derive(Args)]
#[command(after_help = "\
Jobs are measured over Flink's REST API and scaled in place if jobmanager.scheduler is adaptive (Flink 1.18 and later);
other jobs are only advised, in the log and under /jobs. A new job is scaled after its first window; --set
advice.first-window=true only advises it for its first two. With --store memory every job is new after a restart.
Jobs whose own configuration has job.autoscaler.enabled: false are left alone.

The job's own configuration overrides --config, and --set overrides both. These environment variables are used:
FLINK_REST_CLIENT_HEADERS, FLINK_REST_CA_FILE, FLINK_REST_TLS_DIR and FLINK_REST_CHECK_HOST_NAME.

Examples:
  # Only advise the jobs of a cluster
  kubectl flink autoscaler run --flink http://flink.example:8081 --set scaling.enabled=false

  # Scale the jobs of two clusters, keep their data in a file, and serve it over HTTP
  kubectl flink autoscaler run --flink http://a:8081 --flink http://b:8081 --store sqlite:autoscaler.db \\
    --listen 127.0.0.1:8090

  # The same with a database server, and the password in a file
  kubectl flink autoscaler run --flink http://a:8081 --store postgres://flink@db/autoscaler \\
    --store-password-file /run/secrets/db")]
pub(super) struct RunArgs {
    /// URL of a JobManager's REST API; may be repeated
    #[arg(long, value_name = "URL", required = true)]
    flink: Vec<String>,
    #[arg(
        long,
        value_name = "PLACE",
        default_value = "memory",
        help = "Where to keep data: memory, sqlite:PATH, postgres://USER@HOST/DATABASE or \
                mysql://USER@HOST/DATABASE"
    )]
    store: String,
    /// Environment variable with the database password
    #[arg(
        long,
        value_name = "NAME",
        default_value = "KUBECTL_FLINK_STORE_PASSWORD",
        conflicts_with = "store_password_file"
    )]
    store_password_env: String,
    /// File with the database password
    #[arg(long, value_name = "FILE")]
    store_password_file: Option<PathBuf>,
    /// File with options: a config.yaml or flink-conf.yaml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set an option of the autoscaler, such as utilization.target=0.6, for all jobs; may be repeated
    #[arg(long = "set", value_name = "OPTION=VALUE", value_parser = option)]
    set: Vec<(String, String)>,
    /// Pause between two checks of a cluster
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s", hide_default_value = true)]
    interval: Duration,
    /// Number of jobs measured concurrently
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    parallelism: u16,
    /// Serve /healthz, /jobs and /metrics at this address, such as 127.0.0.1:8090
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Format of the log
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

/// Runs until Ctrl-C or SIGTERM.
pub(super) async fn run(args: RunArgs, printer: &Printer) -> anyhow::Result<()> {
    if args.interval < INTERVAL_MIN {
        return Err(Failure::usage("--interval must be at least 100ms").into());
    }
    let urls = urls(&args.flink)?;
    let place = place(&args)?;
    let base = base(args.config.as_deref(), printer)?;
    let set: FlinkConfig = args.set.iter().cloned().collect();
    // Report mistakes in the options now rather than for each job.
    let mut all = base.clone();
    set_over(&mut all, set.iter());
    let read = settings(&all, args.interval)?;
    // Take the rules from the file alone: a job's own configuration must not name an address.
    let rules = ScalingRules::configured(&base).map_err(invalid)?;
    rules.check(&read).map_err(|undefined| {
        Failure::new(undefined).hint("here the operator's configuration is the file of --config")
    })?;
    let connector = Connector::new(&Options::from_environment(Access::Service, None), None)
        .context("while preparing connections to JobManagers")?;
    let clusters = urls.into_iter().map(|url| {
        let client = connector.at(&url, Deadlines::default())?.without_retries();
        Ok(Cluster { url, client })
    });
    let clusters: Vec<Cluster> = clusters.collect::<anyhow::Result<_>>()?;
    let _levels = logging::set_up_with(LOG_LEVELS, args.log_format, std::io::stderr);
    let store = store::open(&place).await.map_err(|error| {
        Failure::new(error.to_string()).hint("see --store and --store-password-env")
    })?;
    let view = Arc::new(View::new(args.interval.saturating_add(TURN_MAX)));
    if let Some(address) = args.listen {
        let listener =
            Listener::at(address).await.context("while opening the address of --listen")?;
        tracing::info!("listening on http://{}", listener.address()?);
        tokio::spawn(listener.serve(standalone::routes(&view)));
    }
    let (count, kept) = (clusters.len(), store.name().to_owned());
    tracing::info!(store = kept, "autoscaling the jobs of {count} clusters");
    let stop = CancellationToken::new();
    let settings = Settings {
        base,
        set,
        interval: args.interval,
        parallelism: usize::from(args.parallelism),
        rules,
    };
    let running = standalone::run(clusters, settings, store, view, stop.clone());
    let mut running = std::pin::pin!(running);
    tokio::select! {
        () = &mut running => return Ok(()),
        () = asked_to_stop() => {}
    }
    tracing::info!("shutting down: finishing current writes; a second signal exits immediately");
    stop.cancel();
    tokio::select! {
        () = running => Ok(()),
        () = asked_to_stop() => Err(Failure::interrupted("exited before all writes had finished").into()),
    }
}

/// Returns the clusters' URLs without a trailing `/`, as they are used in keys.
fn urls(texts: &[String]) -> anyhow::Result<Vec<String>> {
    let mut urls = BTreeSet::new();
    for text in texts {
        let url = url(text).map_err(|problem| {
            Failure::usage(format!("--flink: {problem}")).hint("such as http://flink.example:8081")
        })?;
        if !urls.insert(url.clone()) {
            return Err(Failure::usage(format!("--flink names `{url}` twice")).into());
        }
    }
    if urls.len() > CLUSTERS_MAX {
        let problem = format!("--flink: at most {CLUSTERS_MAX} clusters, not {}", urls.len());
        return Err(Failure::usage(problem).into());
    }
    Ok(urls.into_iter().collect())
}

/// Checks a cluster's URL; error messages never repeat a text that may hold a password.
fn url(text: &str) -> Result<String, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&whole).map_err(|error| format!("invalid URL: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        let instead = "put them into a header with $FLINK_REST_CLIENT_HEADERS";
        return Err(format!("the URL must not contain a user or password: {instead}"));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{text}` is neither http nor https"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("`{text}` must end after the path"));
    }
    let url = url.as_str().trim_end_matches('/').to_owned();
    if url.len() > URL_BYTES_MAX {
        return Err(format!("`{url}` is longer than {URL_BYTES_MAX} characters"));
    }
    Ok(url)
}

/// Returns the location of the store, with its password.
fn place(args: &RunArgs) -> anyhow::Result<Place> {
    let place = Place::parse(&args.store).map_err(|problem| {
        Failure::usage(format!("--store: {problem}")).hint(format!(
            "pass the password with --store-password-file, or in ${}",
            args.store_password_env
        ))
    })?;
    let password = match &args.store_password_file {
        Some(file) => {
            Some(read_file(file, PASSWORD_BYTES_MAX)?.trim_end_matches(['\r', '\n']).to_owned())
        }
        None => std::env::var(&args.store_password_env).ok(),
    };
    match password {
        Some(password) if place.is_server() => place
            .with_password(&password)
            .map_err(|problem| Failure::usage(problem.to_string()).into()),
        Some(_) if args.store_password_file.is_some() => {
            Err(Failure::usage(format!("--store-password-file: `{place}` takes no password"))
                .into())
        }
        _ => Ok(place),
    }
}

/// Reads the configuration file, if there is one.
fn base(file: Option<&Path>, printer: &Printer) -> anyhow::Result<FlinkConfig> {
    let Some(file) = file else { return Ok(FlinkConfig::new()) };
    let text = read_file(file, CONFIG_BYTES_MAX)?;
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let files = Files::of_text(name, file.display().to_string(), &text)?;
    let config = files.merged();
    for remark in files.remarks.into_iter().chain(java_options(&config)) {
        printer.warning(remark);
    }
    Ok(config)
}

/// Returns warnings about options of the Java standalone autoscaler, each with the flag to use instead.
fn java_options(config: &FlinkConfig) -> Vec<String> {
    let told = config.iter().filter_map(|(key, _)| {
        let known = JAVA_OPTIONS.iter().find(|(name, _)| *name == key).map(|(_, instead)| *instead);
        let other = || key.starts_with(JAVA_PREFIX).then_some("see the flags of `autoscaler run`");
        Some(format!("`{key}` has no effect here: {}", known.or_else(other)?))
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_brought_into_one_form() {
        let texts = ["flink:8081", "https://b.example/proxy/", "http://a:80/"];
        let all = urls(&texts.map(str::to_owned)).unwrap();
        assert_eq!(all, ["http://a", "http://flink:8081", "https://b.example/proxy"]);
        let twice = urls(&["flink:8081", "http://flink:8081/"].map(str::to_owned)).unwrap_err();
        assert_eq!(twice.to_string(), "--flink names `http://flink:8081` twice");
    }

    #[test]
    fn options_of_the_java_program_are_reported_with_the_flag() {
        let keys = ["autoscaler.standalone.fetcher.type", "job.autoscaler.enabled"];
        let all = JAVA_OPTIONS.iter().map(|(key, _)| *key).chain(keys);
        let told = java_options(&all.map(|key| (key, "x")).collect());
        assert_eq!(told.len(), JAVA_OPTIONS.len() + 1, "{told:?}");
        for expected in [
            "`autoscaler.standalone.control-loop.interval` has no effect here: use --interval",
            "`autoscaler.standalone.fetcher.type` has no effect here: see the flags of `autoscaler run`",
            "`flinkClusterPort` has no effect here: use --flink",
        ] {
            assert!(told.iter().any(|one| one == expected), "{expected}: {told:?}");
        }
    }

    #[test]
    fn what_is_no_cluster_is_refused_without_its_secrets() {
        for text in ["http://u:s3cret@flink:8081", "http://s3cret@flink:8081", "http://u:s3cret@:x"]
        {
            let problem = url(text).unwrap_err();
            assert!(!problem.contains("s3cret"), "{problem}");
        }
        for text in ["ftp://flink", "http://flink/?a=b", "http://", "http://a/#b"] {
            assert!(url(text).is_err(), "{text}");
        }
        assert!(url(&format!("http://{}", "a".repeat(URL_BYTES_MAX))).is_err());
    }
}
