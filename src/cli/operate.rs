//! `operate`: runs the operator in the foreground.

mod dashboard;
mod election;
mod live;
mod metrics;
mod namespaces;
mod preflight;
mod probes;
mod reload;
mod webhook;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use kube::ResourceExt;
use kube::core::error_boundary::InvalidObject;

use self::dashboard::DashboardArgs;
use self::election::{ElectionArgs, Role, check_rights, deposed, fence_of, take_part};
use self::live::Live;
use self::metrics::{MetricsArgs, Reporting};
use self::namespaces::Choice;
use self::preflight::preflight;
use self::reload::Reload;
use self::webhook::WebhookArgs;
use super::args::{Global, duration};
use super::connection::Connection;
use super::extension::invalid;
use super::failure::Failure;
use super::logging::{self, Levels, LogFormat};
use super::printer::Printer;
use super::signals::asked_to_stop;
use ::election::lease::Lost;
use ::metrics::traffic::Traffic;
use api::status::{JobManagerDeploymentStatus, JobStatusState, LifecycleState};
use clients::cluster::deadline;
use clients::cluster::pulse::Pulse;
use clients::fence::Fence;
use clients::flink::access::{Access, Connector, Options};
use config::template_file::nothing_is_elsewhere;
use config::{FlinkConfig, OperatorConfig, options};
use operator::canary::is_canary;
use operator::context::Context;
use operator::files::Files;
use operator::health::Health;
use operator::listener;
use operator::run::{Operator, Part, Watch, start_part};
use operator::scaling_rules::ScalingRules;
use operator::validator;

/// Default log levels, which the configuration extends; `KUBECTL_FLINK_LOG` replaces both. The client's own lines are
/// off because the operator reports the same errors with their consequences.
const LOG_LEVELS: &str = "warn,kubectl_flink=info,kube_client=off";

/// How long the API server may take to begin an answer, unless `--request-timeout` says otherwise. The API server
/// itself gives up after a minute.
const REQUEST_DEADLINE: Duration = Duration::from_mins(1);

/// Interval at which `--until-stable` checks what the watches have seen.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Run the operator in the foreground, against the current kubeconfig or inside a pod
#[derive(Args)]
#[command(after_help = "\
Examples:
  # Operate the current namespace until Ctrl-C
  kubectl flink operate

  # Operate the whole cluster and log JSON, as a pod does
  kubectl flink operate -A --log-format json

  # One of several replicas: the holder of the Lease operates, another takes over when it exits
  kubectl flink operate -A --lease-name flink-operator

  # One of several replicas that divide the namespaces: each operates some of four shards
  kubectl flink operate -A --lease-name flink-operator --shards 4

  # In CI: exit with 0 once everything is STABLE or SUSPENDED, 1 when something FAILED, 124 on timeout
  kubectl flink operate -n shop --until-stable --timeout 5m")]
pub struct OperateArgs {
    /// Operate all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["watch_namespaces", "namespace"])]
    all_namespaces: bool,
    /// Operate these namespaces, instead of those in the operator's configuration
    #[arg(long, value_name = "NAMES", value_delimiter = ',', env = "WATCH_NAMESPACES")]
    watch_namespaces: Vec<String>,
    /// Only operate resources with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// File or directory with the operator's configuration
    #[arg(long, value_name = "PATH", env = "FLINK_CONF_DIR")]
    operator_config: Option<std::path::PathBuf>,
    /// How to reach JobManagers
    #[arg(long, value_enum, value_name = "WAY", default_value = "auto")]
    flink_access: Access,
    /// `host:port` that answers for every JobManager; the Host header names the cluster
    #[arg(long, value_name = "ADDRESS", hide = true)]
    flink_rest_address: Option<String>,
    /// Exit once every resource is STABLE or SUSPENDED (0) or one is FAILED (1)
    #[arg(long)]
    until_stable: bool,
    /// With --until-stable: give up after this time (124)
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5m")]
    timeout: Duration,
    #[command(flatten)]
    election: ElectionArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Format of the log; default: text, or what the operator's configuration says
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    #[command(flatten)]
    webhook: WebhookArgs,
    #[command(flatten)]
    dashboard: DashboardArgs,
}

/// Runs until Ctrl-C, SIGTERM, or the end of `--until-stable`.
pub async fn run(args: OperateArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let mut operator = super::operator_config::load(args.operator_config.as_deref(), printer)?;
    // What needs a pod template that was not read is refused, and all else goes on.
    nothing_is_elsewhere(&mut operator.base);
    let (live, levels) = speak(&args, &operator.base, printer)?;
    // Report invalid options now, not only once this process has been elected.
    drop(listener::configured(&operator.base).map_err(invalid)?);
    drop(validator::configured(&operator.base).map_err(invalid)?);
    drop(ScalingRules::configured(&operator.base).map_err(invalid)?);
    let reporting = Reporting::new(&args.metrics, args.dashboard.is_wanted(), &operator.base)?;
    let end = operate(args, global, printer, operator, (live, levels), &reporting);
    let end = Box::pin(end).await;
    reporting.end().await;
    end
}

async fn operate(
    args: OperateArgs,
    global: &Global,
    printer: &Printer,
    operator: OperatorConfig,
    (live, levels): (Option<Live>, Levels),
    reporting: &Reporting,
) -> anyhow::Result<()> {
    raise_descriptor_limit();
    let connection = global.connect().await?;
    let mut asked = std::pin::pin!(asked_to_stop());
    let options = Options::from_environment(args.flink_access, args.flink_rest_address.clone());
    let connector = Connector::new(&options, Some(&global.config().await?))
        .context("while preparing connections to JobManagers")?;
    let choice = Choice::new(&args, global, &connection)?;
    if let Some(remark) = choice.remark(&operator.base) {
        printer.warning(remark);
    }
    let watch = choice.watch(&operator.base)?;
    let scope = watch.in_words(choice.selector(&operator.base)?.as_deref());
    // All replicas must announce the same, no matter when each has read the configuration.
    let operates = if choice.is_dynamic(&operator.base) {
        "the namespaces of its configuration".to_owned()
    } else {
        scope.clone()
    };
    let election = args.election.settings(&operator.base, &connection, operates)?;
    let (path, metrics) = (args.operator_config.clone(), reporting.metrics.clone());
    let mut reload = Reload::new(path, &operator.base, choice.clone(), metrics)?.speaking(levels);
    let sharding = args.election.sharding(&operator.base, election.as_ref(), args.until_stable)?;
    let fence = fence_of(election.as_ref(), sharding.as_ref());
    let pulse = Pulse::default();
    let health = Health::new(pulse.clone());
    let client = with_deadline(&connection, &fence, &pulse, &reporting.metrics.kubernetes())?;
    probes::serve(&operator.base, &health).await?;
    reporting.serve().await;
    let stops = operator.base.get(&options::STARTUP_STOP_ON_INFORMER_ERROR)?;
    let has_snapshot_resources = preflight(&client, &watch, stops).await?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "operating {scope}");
    // Before the election, because every replica serves the webhook, not only the leader.
    let jurisdiction = choice.jurisdiction(&operator.base)?;
    reload.set_webhook(args.webhook.serve(&connection, reload.live(), jurisdiction).await?);
    let counted = reporting.metrics.clone();
    let _console = args.dashboard.serve(&connection, reload.live(), choice.clone(), counted).await;
    let mut role = Role::Alone;
    if let Some(election) = &election {
        let client = connection.client.clone();
        let is_all = sharding.is_some() && watch == Watch::AllNamespaces;
        check_rights(&client, election, is_all).await?;
        health.stand_by();
        role = tokio::select! {
            won = take_part(client, election, sharding.clone(), &fence) => won,
            never = reload.stand_by() => match never {},
            () = &mut asked => return stopped(&args, None),
        };
    }
    let operator = match &election {
        Some(_) => reload.newest(operator).await,
        None => operator,
    };
    let (watch, selector) = (reload.watch()?, choice.selector(&operator.base)?);
    let listeners = listener::configured(&operator.base).map_err(invalid)?;
    let validators = validator::configured(&operator.base).map_err(invalid)?;
    let scaling_rules = ScalingRules::configured(&operator.base).map_err(invalid)?;
    let connector = connector.behind(fence.clone()).counted(reporting.metrics.flink());
    let context = Context::new(client, operator, connector, has_snapshot_resources)
        .following(reload.live())
        .behind(fence)
        .with_health(health.clone())
        .with_metrics(reporting.metrics.clone())
        .with_listeners(listeners)
        .with_validators(validators)
        .with_scaling_rules(scaling_rules)
        .with_files(Files::here(|name| std::env::var(name).ok()));
    let part = sharding.map(|settings| Part { shards: settings.shards, ..Part::default() });
    let mut operator = start_part(context, &watch, selector.as_deref(), part);
    health.operate();
    if let Some(live) = live.clone() {
        tokio::spawn(live.follow(operator.context.follow()));
    }
    let end = tokio::select! {
        biased;
        lost = role.drive(&operator) => Err(lost),
        end = wait(&args, &operator) => Ok(end),
        never = reload.follow(&operator) => match never {},
        () = asked => Ok(stopped(&args, Some(&operator))),
    };
    if let Some(live) = live {
        live.clear();
    }
    let end = match end {
        Ok(end) => leave(&mut operator, role).await.map(|()| end),
        Err(lost) => Err(lost),
    };
    let end = match (end, &election) {
        (Ok(end), _) => end,
        (Err(lost), Some(election)) => {
            operator.abandon();
            Err(deposed(election, &lost))
        }
        // Without an election there is no lease to lose.
        (Err(_), None) => Ok(()),
    };
    operator.report_the_rest().await;
    if args.until_stable && end.is_ok() {
        printer.note("all resources are STABLE or SUSPENDED");
    }
    end
}

/// Sets up logging according to the flags and the configuration. On a terminal the log is written above the live lines.
fn speak(
    args: &OperateArgs,
    config: &FlinkConfig,
    printer: &Printer,
) -> anyhow::Result<(Option<Live>, Levels)> {
    let configured = config.get(&options::LOG_FORMAT)?.into();
    let format = args.log_format.unwrap_or(configured);
    let live = (printer.terminals().error && format == LogFormat::Text).then(Live::new);
    let levels = match live.clone() {
        Some(live) => logging::set_up_with(LOG_LEVELS, format, move || live.log_writer()),
        None => logging::set_up_with(LOG_LEVELS, format, std::io::stderr),
    };
    levels.set(&config.get(&options::LOG_LEVELS)?);
    Ok((live, levels))
}

/// Finishes current writes, and releases the lease once nothing more is written.
async fn leave(operator: &mut Operator, mut role: Role) -> Result<(), Lost> {
    tracing::info!("shutting down: finishing current writes");
    let is_orderly = tokio::select! {
        biased;
        lost = role.lost() => return Err(lost),
        is_orderly = operator.rest() => is_orderly,
    };
    // A dropped write may still arrive. Then the lease is left to expire, which happens after it.
    if is_orderly {
        role.give_back().await;
    }
    Ok(())
}

/// Allows as many open files as the system permits. Shells often start programs with a limit of 1024, and each
/// JobManager takes a connection.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "could not raise the limit of open files");
    }
}

/// Returns the operator's client, whose requests have a deadline so that none blocks a reconcile forever.
fn with_deadline(
    connection: &Connection,
    fence: &Fence,
    pulse: &Pulse,
    traffic: &Traffic,
) -> anyhow::Result<kube::Client> {
    let Some(config) = connection.config.clone() else {
        anyhow::ensure!(fence.is_open(), "a client of the caller's own cannot be fenced");
        return Ok(connection.client.clone());
    };
    // Applies to requests only; a watch may be silent for longer.
    let within = config.read_timeout.unwrap_or(REQUEST_DEADLINE);
    deadline::client(config, within, fence, pulse, traffic)
        .context("while preparing the connection")
}

/// Waits until `--until-stable` has its result; forever without that flag.
async fn wait(args: &OperateArgs, operator: &Operator) -> anyhow::Result<()> {
    if !args.until_stable {
        return std::future::pending().await;
    }
    let settled = async {
        operator.ready().await;
        loop {
            if let Some(end) = settled(&inspect(operator)?) {
                return end;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    match tokio::time::timeout(args.timeout, settled).await {
        Ok(end) => end,
        Err(_) => Err(Failure::timed_out(format!(
            "not STABLE after {:?}: {}",
            args.timeout,
            unsettled(&inspect(operator)?)
        ))
        .into()),
    }
}

/// Returns the result after a request to stop: an error if the awaited state was not reached.
fn stopped(args: &OperateArgs, operator: Option<&Operator>) -> anyhow::Result<()> {
    if !args.until_stable {
        return Ok(());
    }
    let left = match operator {
        Some(operator) => unsettled(&inspect(operator)?),
        None => "another operator is the leader".to_owned(),
    };
    let left = if left.is_empty() { left } else { format!(": {left}") };
    Err(Failure::new(format!("stopped before all resources were STABLE or SUSPENDED{left}")).into())
}

/// A resource as seen by `--until-stable`.
struct Seen {
    name: String,
    /// True if the status is about the present spec.
    is_current: bool,
    state: Option<LifecycleState>,
    /// True if the job runs or has finished, or the session cluster's JobManager is ready.
    runs: bool,
    error: Option<String>,
}

/// Returns every deployment and session job; fails if one of them cannot be read.
fn inspect(operator: &Operator) -> anyhow::Result<Vec<Seen>> {
    let mut all = Vec::new();
    for resource in operator.resources().iter().filter(|it| !is_canary(&***it)) {
        let resource = readable(&resource.0)?;
        let status = resource.status.clone().unwrap_or_default();
        let runs = if resource.spec.job.is_some() {
            status.job_status.state.is_some_and(is_up)
        } else {
            status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready
        };
        all.push(Seen {
            name: resource.name_any(),
            is_current: status.observed_generation == resource.metadata.generation,
            state: status.lifecycle_state,
            runs,
            error: status.error,
        });
    }
    for resource in operator.session_jobs().iter().filter(|it| !is_canary(&***it)) {
        let resource = readable(&resource.0)?;
        let status = resource.status.clone().unwrap_or_default();
        all.push(Seen {
            name: format!("sessionjob/{}", resource.name_any()),
            is_current: status.observed_generation == resource.metadata.generation,
            state: status.lifecycle_state,
            runs: status.job_status.state.is_some_and(is_up),
            error: status.error,
        });
    }
    Ok(all)
}

fn is_up(state: JobStatusState) -> bool {
    matches!(state, JobStatusState::Running | JobStatusState::Finished)
}

fn readable<K>(resource: &Result<K, InvalidObject>) -> anyhow::Result<&K> {
    resource.as_ref().map_err(|InvalidObject { error, metadata }| {
        let name = metadata.name.as_deref().unwrap_or_default();
        Failure::new(format!("`{name}` cannot be read: {error}")).into()
    })
}

/// Returns the result, or `None` while something is under way.
fn settled(resources: &[Seen]) -> Option<anyhow::Result<()>> {
    let mut is_settled = true;
    for Seen { name, is_current, state, runs, error } in resources {
        match state {
            Some(LifecycleState::Failed) => {
                let error = error.as_deref().unwrap_or_default();
                let message = lifecycle::error_document::message_of(error);
                let text = format!("`{name}` is FAILED: {message}");
                return Some(Err(Failure::new(text).into()));
            }
            Some(LifecycleState::Suspended) if *is_current => {}
            // After a rollback to the last stable spec the state is `STABLE` before the job runs.
            Some(LifecycleState::Stable) if *is_current && *runs => {}
            Some(_) | None => is_settled = false,
        }
    }
    is_settled.then_some(Ok(()))
}

fn unsettled(resources: &[Seen]) -> String {
    let states: BTreeMap<&str, &str> = resources
        .iter()
        .filter_map(|seen| {
            let state = match seen.state {
                _ if settled(std::slice::from_ref(seen)).is_some() => return None,
                Some(LifecycleState::Stable) if seen.is_current => "STABLE but not running yet",
                Some(_) if !seen.is_current => "not seen since its last change",
                state => state.map_or("not seen", |it| it.into_str()),
            };
            Some((seen.name.as_str(), state))
        })
        .collect();
    let each = states.iter().take(10).map(|(name, state)| format!("`{name}` is {state}"));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The case after a rollback, which is `STABLE` at once.
    #[test]
    fn what_is_stable_and_does_not_run_is_waited_for_and_reported() {
        let seen = |is_current, state, runs| {
            vec![Seen { name: "orders".to_owned(), is_current, state, runs, error: None }]
        };
        let starting = seen(true, Some(LifecycleState::Stable), false);
        assert!(settled(&starting).is_none());
        assert_eq!(unsettled(&starting), "`orders` is STABLE but not running yet");
        let edited = seen(false, Some(LifecycleState::Suspended), false);
        assert!(settled(&edited).is_none());
        assert_eq!(unsettled(&edited), "`orders` is not seen since its last change");
        assert_eq!(unsettled(&seen(false, None, false)), "`orders` is not seen");
        let running = seen(true, Some(LifecycleState::Stable), true);
        assert!(settled(&running).is_some());
        assert_eq!(unsettled(&running), "");
    }
}
