//! The overview of a resource, read while the page is open, in the words of the commands.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::answers::Console;
use super::live::Page;
use super::seen::Seen;
use super::shared_reads::SharedReads;
use super::{life, spans, watch};
use crate::cli::checkpoints::{self, Line};
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::why::{self, Explanation, Weight};
use crate::cli::{lookup, status, table};
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use clients::cluster::apply::ObjectId;
use clients::cluster::read;
use clients::flink::access::Access;
use config::secret;
use console::page;
use console::page::resource::{Fragment, Tab, View};
use console::resource::{Branch, Checkpoint, Checkpoints, Measure, Part, Resource, Verdict};
use console::row::{Key, Kind, Row, Tone};

/// Maximum number of resources read at the same time; others wait.
pub(super) const READS_MAX: usize = 4;
/// Maximum time to wait for a turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum time to read a part of a page, because a person is waiting.
pub(super) const PART_TIME_MAX: Duration = Duration::from_secs(8);

/// Maximum time for a response of the JobManager.
const FLINK_TIME_MAX: Duration = Duration::from_secs(3);

/// Reads resources with the rights of the person who looks at them.
pub(super) struct Reader {
    connection: Connection,
    reads: SharedReads,
    pub(super) access: Access,
    /// Namespace of the operator whose configuration applies.
    pub(super) operator_namespace: String,
    turns: Arc<Semaphore>,
}

/// A resource that a page shows.
pub(super) struct Subject {
    pub(super) object: Deployment,
    /// Connection in its namespace. For this page only, because the parts of the page share its answers.
    pub(super) connection: Connection,
    /// Deadline of the page, so that others get their turn.
    until: Instant,
}

impl Subject {
    /// Waits for a part of the page. If there is no answer in time, the error says why.
    pub(super) async fn within<T, E: Into<anyhow::Error>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Part<T> {
        until(self.until, answer).await
    }
}

/// State of the overview between two refreshes.
#[derive(Default)]
pub(super) struct PageData(Seen<Resource>);

impl Page for PageData {
    const TAB: Tab = Tab::Overview;

    async fn read(&mut self, console: &Console, key: &Key) -> Vec<Fragment> {
        let reader = &console.reader;
        let read = reader.inspect(key, async |subject| reader.around(key, subject).await);
        self.0.again(read.await);
        let actions = console.actions(key, self.0.row()).await;
        let (resource, standing) = (self.0.shown(), &self.0.standing);
        let view = View { key, resource, standing, actions: &actions };
        page::resource::overview(console.place(), view)
    }

    fn row(&self) -> Option<&Row> {
        self.0.row()
    }

    fn is_there(&self) -> bool {
        self.0.is_there()
    }
}

impl Reader {
    /// Creates a reader. Several readers may share their `turns`.
    pub(super) fn new(
        connection: Connection,
        access: Access,
        operator_namespace: String,
        turns: Arc<Semaphore>,
    ) -> Self {
        let reads = SharedReads::new(connection.client.clone());
        Self { connection, reads, access, operator_namespace, turns }
    }

    /// Waits for a turn to read something.
    pub(super) async fn turn(&self) -> Part<SemaphorePermit<'_>> {
        match timeout(TURN_TIME_MAX, self.turns.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err("too many resources are being read; retrying".to_owned()),
        }
    }

    /// Returns a connection in this namespace.
    pub(super) fn connection(&self, namespace: &str) -> Connection {
        Connection { namespace: namespace.to_owned(), ..self.connection.clone() }
    }

    /// Reads the object, if it exists.
    pub(super) async fn object(&self, key: &Key) -> Part<Option<Deployment>> {
        let found = within(read::get_value(&self.connection.client, &id(key))).await?;
        Ok(found.map(Deployment))
    }

    /// Waits for a turn and reads the object, with what a page shows of it; `None` if there is no such object.
    pub(super) async fn inspect<T>(
        &self,
        key: &Key,
        show: impl AsyncFnOnce(&Subject) -> T,
    ) -> Part<Option<(Row, T)>> {
        let _turn = self.turn().await?;
        let connection =
            Connection { client: self.reads.client(), ..self.connection(&key.namespace) };
        let deadline = Instant::now() + PART_TIME_MAX;
        let found = until(deadline, read::get_value(&connection.client, &id(key))).await?;
        let Some(object) = found.map(Deployment) else { return Ok(None) };
        let subject = Subject { object, connection, until: deadline };
        let (_, row) = watch::row(key.kind, &subject.object);
        Ok(Some((row, show(&subject).await)))
    }

    /// Returns what `kubectl flink why` reports about an object.
    pub(super) async fn described(
        &self,
        connection: &Connection,
        key: &Key,
        object: &Deployment,
    ) -> anyhow::Result<Explanation> {
        // Resources of different kinds may have the same name.
        let name = match key.kind {
            Kind::Deployment => format!("flinkdeployment/{}", key.name),
            Kind::SessionJob | Kind::BlueGreen => object.shown_name(),
        };
        why::explain(connection, &name, self.access).await
    }

    /// Reads everything that is shown of an object, each part independently: a part that may not be read does not
    /// affect the others.
    async fn around(&self, key: &Key, subject: &Subject) -> Resource {
        let Subject { object, connection, .. } = subject;
        let tree = status::parts(connection, object, self.access, Timestamp::now());
        let life = Box::pin(life::of(subject));
        let (tree, told, life, checkpoints) = tokio::join!(
            subject.within(Box::pin(tree)),
            subject.within(Box::pin(self.described(connection, key, object))),
            life,
            subject.within(Box::pin(self.checkpoints(connection, object))),
        );
        let (_, row) = watch::row(key.kind, object);
        Resource {
            row,
            more: more(object),
            verdict: told.map(|told| verdict(told, &key.namespace)),
            tree: tree.map(|nodes| nodes.into_iter().map(branch).collect()),
            checkpoints: (!object.is_session()).then_some(checkpoints),
            life,
        }
    }

    /// Reads the checkpoints; of a blue/green deployment, those of the serving colour.
    async fn checkpoints(
        &self,
        connection: &Connection,
        object: &Deployment,
    ) -> anyhow::Result<Checkpoints> {
        let (present, _) = job_manager_of(connection, object).await?;
        let patience = Some(FLINK_TIME_MAX);
        let statistics =
            checkpoints::remembered(connection, &present, self.access, patience).await?;
        let newest = statistics.history.iter().map(|it| checkpoint(checkpoints::line(it)));
        Ok(Checkpoints { summary: checkpoints::summary(&statistics), newest: newest.collect() })
    }
}

/// Returns the resource that has the job, which is the serving colour of a blue/green deployment, and the deployment
/// whose JobManager runs the job.
pub(super) async fn job_manager_of(
    connection: &Connection,
    object: &Deployment,
) -> anyhow::Result<(Deployment, Deployment)> {
    if object.is_session() {
        bail!("a session cluster has no job of its own");
    }
    let present = lookup::serving(connection, object).await?;
    let present = present.context("no colour has been created yet")?;
    let cluster = lookup::cluster_of(connection, &present).await?;
    let status = cluster.job_manager_status().unwrap_or("not deployed");
    if !matches!(status, "READY" | "DEPLOYED_NOT_READY") {
        bail!("the JobManager is not running: it is {status}");
    }
    Ok((present, cluster))
}

/// Returns the jobs of a session cluster, which have their own pages.
pub(super) async fn session_jobs(
    Subject { object, connection, .. }: &Subject,
) -> anyhow::Result<Vec<Key>> {
    let jobs = lookup::session_jobs_of(connection, object.name()).await?;
    Ok(jobs.iter().map(|job| watch::row(Kind::SessionJob, job).0).collect())
}

fn checkpoint(line: Line) -> Checkpoint {
    let Line { id, kind, status, triggered, duration_milliseconds, state_bytes, .. } = line;
    let path =
        line.path.map(|path| if line.is_discarded { format!("{path} (discarded)") } else { path });
    let measure = |amount: Option<i64>, words: fn(i64) -> String| {
        amount.map(|amount| Measure { amount, words: words(amount) })
    };
    Checkpoint {
        id,
        kind,
        status,
        at: triggered.map(Timestamp::as_second),
        duration: measure(duration_milliseconds, |it| format!("{it} ms")),
        size: measure(state_bytes, table::bytes),
        text: secret::hide_in(&line.error.or(path).unwrap_or_default()),
    }
}

/// Waits for an answer for a limited time. The error is text for the page.
pub(super) async fn within<T, E: Into<anyhow::Error>>(
    answer: impl Future<Output = Result<T, E>>,
) -> Part<T> {
    until(Instant::now() + PART_TIME_MAX, answer).await
}

async fn until<T, E: Into<anyhow::Error>>(
    deadline: Instant,
    answer: impl Future<Output = Result<T, E>>,
) -> Part<T> {
    match timeout_at(deadline, answer).await {
        Ok(answer) => answer.map_err(|error| secret::hide_in(&format!("{:#}", error.into()))),
        Err(_) => Err(format!("no answer within {} seconds", PART_TIME_MAX.as_secs())),
    }
}

/// Returns the fields that a row has no room for.
fn more(object: &Deployment) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    if !object.is_session() {
        fields.push(("Upgrade mode", object.upgrade_mode().to_owned()));
        fields.extend(
            (object.desired_state() != "running")
                .then(|| ("Wanted", object.desired_state().to_owned())),
        );
    }
    if !object.is_session_job() {
        let mode = if object.is_standalone() { "standalone" } else { "native" };
        fields.push(("Mode", mode.to_owned()));
    }
    fields.extend(object.session_cluster().map(|it| ("Session cluster", it.into_owned())));
    fields.extend(object.job_id().map(|it| ("Job", it.to_owned())));
    fields.extend(object.blue_green_parent().map(|it| ("Colour of", it.to_owned())));
    fields.push((
        "Generation",
        match object.observed_generation() {
            Some(seen) if seen == object.generation() => seen.to_string(),
            Some(seen) => format!("{}, observed: {seen}", object.generation()),
            None => format!("{}, not observed yet", object.generation()),
        },
    ));
    fields
}

fn verdict(told: Explanation, namespace: &str) -> Verdict {
    let Explanation { weight, what, evidence, remedy, mut next, unread } = told;
    // Another namespace may be the default where the command is typed.
    if next.starts_with("kubectl flink ") && !next.contains(" -n ") {
        next = format!("{next} -n {namespace}");
    }
    let tone = match weight {
        Weight::Well => Tone::Good,
        Weight::Waits => Tone::Moving,
        Weight::Wrong => Tone::Bad,
    };
    let evidence = secret::hide_in(&evidence);
    Verdict { tone, what, evidence, remedy, next, unread }
}

fn branch(node: status::Node) -> Branch {
    let status::Node { label, children } = node;
    let label = spans(&secret::hide_in(&label));
    Branch { label, children: children.into_iter().map(branch).collect() }
}

/// Returns how the API server identifies the object.
pub(super) fn id(Key { namespace, name, kind }: &Key) -> ObjectId {
    match kind {
        Kind::Deployment => ObjectId::of::<FlinkDeployment>(namespace, name),
        Kind::SessionJob => ObjectId::of::<FlinkSessionJob>(namespace, name),
        Kind::BlueGreen => ObjectId::of::<FlinkBlueGreenDeployment>(namespace, name),
    }
}
