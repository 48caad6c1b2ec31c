//! Follows the operator's configuration files while it runs. A change is applied as a whole or not at all.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::super::extension::invalid;
use super::super::logging::Levels;
use super::super::operator_config::{self, Files};
use super::namespaces::Choice;
use config::catalogue::wrong_values;
use config::label_selector::LabelSelector;
use config::option::InvalidValue;
use config::plugin::InvalidPlugin;
use config::reload::{began_with, changed, waits_for_restart, waits_in_stand_by};
use config::{FlinkConfig, OperatorConfig, options};
use election::lease::Rules;
use metrics::Metrics;
use operator::live::Live;
use operator::run::{Operator, Watch};
use operator::scaling_rules::ScalingRules;
use operator::webhook::{ReviewRules, Webhook};
use operator::{listener, mutator, validator};

/// Minimum pause between two reads, whatever the configuration says.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Pause before changed files are read again: a file that is still being written may be incomplete.
const SETTLE: Duration = Duration::from_millis(500);
/// Maximum number of repeated reads; files that keep changing are read again later.
const SETTLE_MAX: usize = 10;
/// Maximum number of keys in one log line.
const KEYS_SHOWN_MAX: usize = 20;
/// Maximum size of a problem's text, in bytes.
const PROBLEM_MAX: usize = 2000;

/// Content of the files: a configuration with remarks, or why there is none.
type Seen = Result<(FlinkConfig, Vec<String>), String>;

/// Result of reading the files.
#[derive(Debug, PartialEq)]
enum News {
    /// Nothing to report.
    None,
    /// A different configuration.
    Changed { config: FlinkConfig, remarks: Vec<String> },
    /// The files hold a configuration that cannot be applied.
    Refused(String),
    /// The files match the configuration in force again.
    Mended,
}

/// The configuration files and the configuration in force.
pub(super) struct Reload {
    path: Option<PathBuf>,
    /// `None` if the files are read only once.
    interval: Option<Duration>,
    choice: Choice,
    /// Namespaces operated since the start; `None` while another process leads.
    watched: Option<Watch>,
    at_start: FlinkConfig,
    in_force: FlinkConfig,
    /// The last reported reason why the files cannot be applied.
    refused: Option<String>,
    /// Keys reported to take effect only after a restart.
    waiting: Vec<String>,
    /// The configuration in force, for the operator and, even without leadership, for reviews.
    live: Arc<Live>,
    metrics: Metrics,
    levels: Option<Levels>,
    webhook: Option<Arc<Webhook>>,
}

impl Reload {
    /// Creates a reload of the configuration read from `path`.
    pub(super) fn new(
        path: Option<PathBuf>,
        config: &FlinkConfig,
        choice: Choice,
        metrics: Metrics,
    ) -> Result<Self, InvalidValue> {
        let is_enabled = config.get(&options::DYNAMIC_CONFIG_ENABLED)?;
        let interval = config.get(&options::DYNAMIC_CONFIG_CHECK_INTERVAL)?.max(INTERVAL_MIN);
        Ok(Self {
            path,
            interval: is_enabled.then_some(interval),
            choice,
            watched: None,
            at_start: config.clone(),
            in_force: config.clone(),
            refused: None,
            waiting: Vec::new(),
            live: Arc::new(Live::new(OperatorConfig::new(config.clone()))),
            metrics,
            levels: None,
            webhook: None,
        })
    }

    /// Makes log levels follow the files.
    #[must_use]
    pub(super) fn speaking(mut self, levels: Levels) -> Self {
        self.levels = Some(levels);
        self
    }

    /// Returns the configuration in force, which follows the files.
    pub(super) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live)
    }

    /// Makes the webhook's reviews follow the files.
    pub(super) fn set_webhook(&mut self, webhook: Option<Arc<Webhook>>) {
        self.webhook = webhook;
    }

    /// Reads the files periodically while another process leads; never returns.
    pub(super) async fn stand_by(&mut self) -> Infallible {
        let Some(interval) = self.interval else { return std::future::pending().await };
        loop {
            tokio::time::sleep(interval).await;
            self.catch_up().await;
        }
    }

    /// Reads the files again for a process that has waited long before its start.
    pub(super) async fn newest(&mut self, config: OperatorConfig) -> OperatorConfig {
        if self.interval.is_none() {
            return config;
        }
        self.catch_up().await;
        OperatorConfig::new(self.in_force.clone())
    }

    /// Applies a change before the work has begun: everything built from the old configuration is built again.
    async fn catch_up(&mut self) {
        let news = self.read().await;
        if !self.take(news) {
            return;
        }
        if let Some(webhook) = &self.webhook {
            match self.rules() {
                Ok(rules) => webhook.set_rules(rules),
                // A configuration for which this fails was not applied.
                Err(error) => {
                    tracing::error!(
                        error = in_short(&error),
                        "the webhook keeps its previous rules"
                    );
                }
            }
        }
        self.report_waiting();
    }

    fn rules(&self) -> anyhow::Result<ReviewRules> {
        let config = &self.in_force;
        Ok(ReviewRules::new(
            self.choice.jurisdiction(config)?,
            validator::configured(config).map_err(invalid)?,
            mutator::configured(config).map_err(invalid)?,
        ))
    }

    /// Reports the news; returns `true` after applying a different configuration.
    fn take(&mut self, news: News) -> bool {
        match news {
            News::None => {}
            News::Mended => {
                tracing::info!("the configuration files match the configuration in use again");
                self.metrics.configuration_confirmed();
            }
            News::Refused(why) => {
                report_refused(&why);
                self.metrics.configuration_refused();
            }
            News::Changed { config, remarks } => {
                report_changed(&self.in_force, &config, &remarks);
                self.in_force = config.clone();
                self.live.replace(OperatorConfig::new(config));
                self.metrics.configuration_applied();
                if let (Some(levels), Ok(wanted)) =
                    (&self.levels, self.in_force.get(&options::LOG_LEVELS))
                {
                    levels.set(&wanted);
                }
                return true;
            }
        }
        false
    }

    /// Fixes the namespaces to operate from now on, the start of the work.
    pub(super) fn watch(&mut self) -> Result<Watch, InvalidValue> {
        let watch = self.choice.watch(&self.in_force)?;
        self.watched = Some(watch.clone());
        self.at_start = began_with(&self.at_start, &self.in_force);
        Ok(watch)
    }

    /// Reads the files periodically; never returns.
    pub(super) async fn follow(&mut self, operator: &Operator) -> Infallible {
        let Some(interval) = self.interval else { return std::future::pending().await };
        loop {
            tokio::time::sleep(interval).await;
            let news = self.read().await;
            if self.take(news) {
                self.move_to(operator).await;
                self.report_waiting();
            }
        }
    }

    /// Operates the namespaces that the configuration names now, if it allows them to change.
    async fn move_to(&mut self, operator: &Operator) {
        if let Some(remark) = self.choice.remark(&self.in_force) {
            tracing::warn!("{remark}");
        }
        // A configuration without valid namespaces was not applied.
        let Ok(wanted) = self.choice.watch(&self.in_force) else { return };
        if !self.choice.is_dynamic(&self.in_force) || self.watched.as_ref() == Some(&wanted) {
            return;
        }
        let moved = operator.watch(&wanted).await;
        if let (Some(webhook), Ok(jurisdiction)) =
            (&self.webhook, self.choice.jurisdiction(&self.in_force))
        {
            webhook.move_to(jurisdiction);
        }
        let (opened, closed) = (named(&moved.opened), named(&moved.closed));
        tracing::info!(opened, closed, "now operating {}", wanted.in_words(None));
        self.watched = Some(wanted);
    }

    async fn read(&mut self) -> News {
        let path = self.path.clone();
        let Some(seen) = self.settled(async || read(path.clone()).await).await else {
            return News::None;
        };
        let (config, remarks) = match seen {
            Ok(seen) => seen,
            Err(why) => return self.refuse(why),
        };
        if config == self.in_force {
            return if self.refused.take().is_some() { News::Mended } else { News::None };
        }
        let problems = problems(&config);
        if !problems.is_empty() {
            return self.refuse(problems.join("; "));
        }
        self.refused = None;
        News::Changed { config, remarks }
    }

    fn refuse(&mut self, mut why: String) -> News {
        why.truncate(why.floor_char_boundary(PROBLEM_MAX));
        if self.refused.as_ref() == Some(&why) {
            return News::None;
        }
        self.refused = Some(why.clone());
        News::Refused(why)
    }

    /// Reads the files until two reads agree; `None` while they keep changing.
    async fn settled(&self, mut read: impl AsyncFnMut() -> Seen) -> Option<Seen> {
        let mut seen = read().await;
        if seen.as_ref().is_ok_and(|(config, _)| *config == self.in_force) {
            return Some(seen);
        }
        for _ in 0..SETTLE_MAX {
            tokio::time::sleep(SETTLE).await;
            let again = read().await;
            if again == seen {
                return Some(seen);
            }
            seen = again;
        }
        None
    }

    /// Reports the options that wait, once for each set of them.
    fn report_waiting(&mut self) {
        let waits = if self.watched.is_some() { waits_for_restart } else { waits_in_stand_by };
        let keys = waits(&self.at_start, &self.in_force);
        let mut waiting: Vec<String> = keys.into_iter().map(str::to_owned).collect();
        if self.watched.is_some() && self.choice.watch(&self.in_force).ok() != self.watched {
            waiting.push(options::WATCHED_NAMESPACES.key().to_owned());
        }
        if waiting == self.waiting {
            return;
        }
        if !waiting.is_empty() {
            let options = named(&waiting);
            tracing::warn!(options, "these options take effect when the operator is restarted");
        }
        self.waiting = waiting;
    }
}

/// Reads the files without blocking others, wherever they are.
async fn read(path: Option<PathBuf>) -> Seen {
    let read = tokio::task::spawn_blocking(move || operator_config::read(path.as_deref()));
    match read.await {
        Ok(Ok(Files { unread, .. })) if !unread.is_empty() => {
            Err(unread.into_iter().map(|(_, remark)| remark).collect::<Vec<_>>().join("; "))
        }
        Ok(Ok(files)) => Ok((files.merged(), files.remarks)),
        Ok(Err(error)) => Err(in_short(&error)),
        Err(_) => Err("reading the files was aborted".to_owned()),
    }
}

/// Returns the chain of causes in one line. If a cause includes an excerpt of the file, which may hold a secret, only
/// its first line is kept: it says what is wrong and where.
fn in_short(error: &anyhow::Error) -> String {
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    error.chain().map(|cause| first(cause.to_string())).collect::<Vec<_>>().join(": ")
}

/// Returns everything that prevents a configuration from being applied, including what would prevent the operator from
/// starting with it.
fn problems(config: &FlinkConfig) -> Vec<String> {
    let mut all: Vec<String> = wrong_values(config).iter().map(ToString::to_string).collect();
    let mut note = |invalid: Option<Vec<InvalidPlugin>>| {
        all.extend(invalid.iter().flatten().map(ToString::to_string));
    };
    note(listener::configured(config).err());
    note(validator::configured(config).err());
    note(mutator::configured(config).err());
    note(ScalingRules::configured(config).err());
    let selector = config.text_of(&options::LABEL_SELECTOR).unwrap_or_default();
    if let Err(error) = LabelSelector::parse(selector) {
        let key = options::LABEL_SELECTOR.key();
        all.push(format!("`{key}`: {error}"));
    }
    if config.get(&options::LEADER_ELECTION_ENABLED) == Ok(true)
        && let Err(error) = Rules::of(config)
    {
        all.push(error.to_string());
    }
    all.sort();
    all.dedup();
    all
}

fn report_changed(before: &FlinkConfig, after: &FlinkConfig, remarks: &[String]) {
    for remark in remarks {
        tracing::warn!("{remark}");
    }
    let keys: Vec<String> = changed(before, after).into_iter().map(str::to_owned).collect();
    tracing::info!(changed = named(&keys), "a new configuration is in effect");
}

fn report_refused(why: &str) {
    tracing::error!(
        why,
        "the configuration files cannot be used: the previous configuration stays in effect"
    );
}

/// Returns some of the keys, never their values.
fn named(keys: &[String]) -> String {
    let shown = keys.iter().take(KEYS_SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    match keys.len().saturating_sub(KEYS_SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
