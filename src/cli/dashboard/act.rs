//! Actions: the console shows what a command would do, then runs it.
//!
//! Every change is a command of the command line, with its checks and questions. Nothing is written until a form of the
//! console itself is submitted, from a page that shows what it will do.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::sync::watch::Receiver;
use tokio::time::timeout;

use super::answers::{Console, Parts, Refused, meant};
use super::live::{self, Fragments, Live, Permits, Sent};
use super::resource::PART_TIME_MAX;
use super::rights::Rights;
use super::runs::{self, Running, Runs, Wanted};
use super::spans;
use crate::cli::args::{FlinkAccess, Global};
use crate::cli::change::{Expected, version, without_managed_fields};
use crate::cli::connection::Connection;
use crate::cli::equivalent::{quoted_where_needed, spec_without_secrets};
use crate::cli::failure;
use crate::cli::plan;
use crate::cli::printer::Printer;
use clients::cluster::read;
use config::secret;
use console::action::{self, Action, Values};
use console::page;
use console::page::act::{Asked, DEPLOY, DEPLOY_RUN, Deploy, FORM, Plan, Preview, VERSION};
use console::page::run::{ANSWER, EVENTS, RUNS, address};
use console::resource::Part;
use console::row::{Key, Row};

/// Maximum size of a form in bytes. etcd has no room for larger objects either.
const FORM_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Maximum number of plans computed at the same time; others wait.
const PLANS_MAX: usize = 2;

/// What a console needs to act. A console without it is read-only.
pub(super) struct Acts {
    connection: Connection,
    access: FlinkAccess,
    /// The flags that the console was started with, for commands that are typed elsewhere.
    flags: Vec<String>,
    rights: Rights,
    runs: Runs,
    /// Limits the plans computed at the same time.
    turns: Arc<Semaphore>,
    /// Whether the person may deploy new resources.
    pub(super) may_deploy: bool,
}

impl Acts {
    pub(super) async fn new(connection: Connection, access: FlinkAccess, global: &Global) -> Self {
        let may_deploy = super::rights::may_deploy(&connection.client, &connection.namespace).await;
        let flags = [
            ("context", &global.context),
            ("cluster", &global.cluster),
            ("user", &global.user),
            ("as", &global.impersonate),
        ];
        let flags = flags
            .into_iter()
            .filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
        Self {
            connection,
            access,
            flags: flags.collect(),
            rights: Rights::default(),
            runs: Runs::default(),
            turns: Arc::new(Semaphore::new(PLANS_MAX)),
            may_deploy,
        }
    }

    /// Returns the actions that the person may run on a resource and that its state allows.
    pub(super) async fn of(&self, key: &Key, row: Option<&Row>) -> Vec<Action> {
        let may = self.rights.of(&self.connection.client, &key.namespace, key.kind).await;
        Action::of(key, row).filter(|action| may.contains(action)).collect()
    }

    fn global(&self, namespace: &str, input: Option<String>) -> Global {
        Global {
            namespace: Some(namespace.to_owned()),
            connection: Some(self.connection.clone()),
            input,
            ..Global::default()
        }
    }

    /// Returns the command as a person would type it.
    fn typed(&self, arguments: &[String], namespace: Option<&str>) -> String {
        let namespace = namespace.map(|namespace| ["-n", namespace].map(str::to_owned));
        let flags = namespace.into_iter().flatten().chain(self.flags.iter().cloned());
        let words = arguments.iter().cloned().chain(flags);
        let words = words.map(|word| secret::hide_in(&quoted_where_needed(&word)));
        std::iter::once("kubectl flink".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Previews an action; `None` while one of its fields is missing.
    async fn preview(&self, action: Action, key: &Key, values: &Values) -> Option<Preview> {
        let command = self.typed(&action.run(key, values)?, Some(&key.namespace));
        let dry_run = action.dry_run(key, values).filter(|_| action.has_plan());
        let plan = match dry_run {
            Some(dry_run) => in_time(self.plan(&dry_run, key)).await,
            None => Plan::None,
        };
        Some(Preview { command, plan })
    }

    async fn plan(&self, dry_run: &[String], key: &Key) -> Plan {
        let output = match runs::output(dry_run, &self.global(&key.namespace, None)).await {
            Ok(output) => output,
            Err(why) => return Plan::Refused(why),
        };
        let object: Value = match serde_json::from_str(&output) {
            Ok(object) => object,
            Err(error) => {
                return Plan::Unknown(format!(
                    "the output of the dry run cannot be parsed: {error}"
                ));
            }
        };
        let connection =
            Connection { namespace: key.namespace.to_string(), ..self.connection.clone() };
        let (printer, transcript) = Printer::in_memory();
        match Box::pin(plan::of_object(object, &connection, self.access, &printer)).await {
            Ok(text) => Plan::Known(spans(&secret::hide_in(&text))),
            Err(error) => {
                failure::report(&error, failure::FAILED, &printer);
                Plan::Unknown(secret::hide_in(transcript.error().trim()))
            }
        }
    }

    /// Previews the deployment of a manifest.
    async fn preview_of(&self, manifest: &str, of: Option<&Key>) -> Preview {
        let file = of.map_or_else(|| "FILE".to_owned(), |key| format!("{}.yaml", key.name));
        let command = self.typed(&deploy(&file), Some(&self.namespace_of(of)));
        let global = self.global(&self.namespace_of(of), Some(manifest.to_owned()));
        let planned = async {
            let checked = ["deploy", "-f", "-", "--dry-run=server"].map(str::to_owned);
            if let Err(why) = runs::output(&checked, &global).await {
                return Plan::Refused(why);
            }
            match runs::output(&["plan", "-f", "-"].map(str::to_owned), &global).await {
                Ok(text) => Plan::Known(spans(&secret::hide_in(&text))),
                Err(why) => Plan::Unknown(why),
            }
        };
        Preview { command, plan: in_time(planned).await }
    }

    fn namespace_of(&self, of: Option<&Key>) -> String {
        of.map_or_else(|| self.connection.namespace.clone(), |key| key.namespace.to_string())
    }

    async fn read(&self, key: &Key) -> Part<Value> {
        let id = super::resource::id(key);
        let found = read::get_value(&self.connection.client, &id).await;
        let found = found.map_err(|error| error.to_string())?;
        found.ok_or_else(|| format!("there is no {} `{}`", key.kind, key.name))
    }

    /// Refuses to change a resource that is not as the page has shown it. The command checks that again when it writes.
    async fn unchanged(&self, key: &Key, body: &str) -> Result<Expected, Refused> {
        let version = action::value(body, VERSION).unwrap_or_default();
        let expected = Expected { id: super::resource::id(key), version };
        let present = self.read(key).await.map_err(|why| {
            let text = format!("Nothing was changed: {why}.");
            Refused::new(StatusCode::CONFLICT, "Cannot be compared with what was shown", &text)
        })?;
        if expected.check(Some(&present)).is_ok() {
            return Ok(expected);
        }
        let text = format!(
            "Nothing was changed. `{}` has been changed since this page was opened. Open it again, look at what it \
             is now, and repeat your change.",
            key.name
        );
        Err(Refused::new(StatusCode::CONFLICT, "Changed since", &text))
    }

    /// Returns the manifest of an existing resource as a person would write it, and its version.
    async fn manifest(&self, key: &Key) -> Part<(String, String)> {
        let object = without_managed_fields(self.read(key).await?);
        let version = version(&object);
        let mut object = object;
        if spec_without_secrets(&object["spec"]) != object["spec"] {
            return Err("its spec contains a secret, which is not shown here. Edit it with kubectl or, better, move the value to a Secret".to_owned());
        }
        if let Some(it) = object.as_object_mut() {
            it.remove("status");
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|name, _| ["name", "namespace", "labels"].contains(&name.as_str()));
        }
        let text = serde_yaml::to_string(&object).map_err(|error| error.to_string())?;
        Ok((text, version))
    }
}

/// Returns the arguments that deploy a file and wait for the result.
fn deploy(file: &str) -> Vec<String> {
    ["deploy", "-f", file, "--wait", "--timeout=10m"].map(str::to_owned).into()
}

/// Prepares a preview. Only a few are prepared at the same time, because each sends many requests.
async fn prepared<F: Future<Output = Option<Preview>>>(
    console: Arc<Console>,
    prepare: impl FnOnce(Arc<Console>) -> F + Send + 'static,
) -> Result<Option<Preview>, Refused> {
    let busy = || {
        let text = "Other plans are still being computed. Reload the page in a moment.";
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, "Too many requests", text)
    };
    let turn = Arc::clone(&acts(&console)?.turns);
    let Ok(Ok(turn)) = timeout(PLAN_TIME_MAX, turn.acquire_owned()).await else {
        return Err(busy());
    };
    let preview = runs::apart(move || async move {
        let preview = prepare(console).await;
        drop(turn);
        preview
    });
    preview.await.map_err(|_| busy())
}

/// Limits the time for a plan, because a person is waiting for it.
async fn in_time(plan: impl Future<Output = Plan>) -> Plan {
    let late = || format!("no answer within {} seconds", PLAN_TIME_MAX.as_secs());
    timeout(PLAN_TIME_MAX, plan).await.unwrap_or_else(|_| Plan::Unknown(late()))
}

/// Maximum time for a plan, which sends as many requests as the operator would.
const PLAN_TIME_MAX: std::time::Duration = PART_TIME_MAX.saturating_mul(4);

/// Routes of the pages that act.
pub(super) fn routes() -> Router<Arc<Console>> {
    let run = format!("{RUNS}/{{number}}");
    Router::new()
        .route("/in/{namespace}/{kind}/{name}/do/{action}", get(ask).post(act))
        .route(DEPLOY, get(write).post(inspect))
        .route(DEPLOY_RUN, post(send))
        .route(RUNS, get(list))
        .route(&run, get(shown))
        .route(&format!("{run}{EVENTS}"), get(events))
        .route(&format!("{run}{ANSWER}"), post(answer))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
}

type Answered = Result<Response, Refused>;
type ActionParts = Path<(String, String, String, String)>;

fn acts(console: &Console) -> Result<&Acts, Refused> {
    console.acts.as_ref().ok_or_else(|| {
        let text = "To make changes, use the command line or `kubectl flink dashboard`.";
        Refused::new(StatusCode::METHOD_NOT_ALLOWED, "This console is read-only", text)
    })
}

/// Rejects forms that the console has not created.
fn own_form(console: &Console, body: &str) -> Result<(), Refused> {
    let form = action::value(body, FORM).unwrap_or_default();
    if console.is_own_form(&form) {
        return Ok(());
    }
    let text = "Nothing was changed. Reload the page and submit the form again.";
    Err(Refused::new(StatusCode::FORBIDDEN, "The form has expired", text))
}

/// Returns the resource and the action of an address if the resource is shown and the person may run the action.
async fn wanted(console: &Console, parts: ActionParts) -> Result<(Key, Action), Refused> {
    let acts = acts(console)?;
    let Path((namespace, kind, name, action)) = parts;
    let key = meant(console, &Path((namespace, kind, name)) as &Parts)?;
    let action: Action = action.parse().map_err(|_| Refused::no_such_page())?;
    let may = acts.rights.of(&acts.connection.client, &key.namespace, key.kind).await;
    if may.contains(&action) {
        return Ok((key, action));
    }
    let text = format!(
        "You do not have the permissions of `{}` in namespace `{}`: `kubectl flink check -n {1}` lists \
         the missing ones.",
        action.command(),
        key.namespace
    );
    Err(Refused::new(StatusCode::FORBIDDEN, "Permission denied", &text))
}

/// Shows what an action would do.
async fn ask(
    State(console): State<Arc<Console>>,
    parts: ActionParts,
    RawQuery(query): RawQuery,
) -> Answered {
    let (key, action) = wanted(&console, parts).await?;
    let values = Values::parse(&query.unwrap_or_default());
    let acts = acts(&console)?;
    // Read before the plan: what changes while that is computed is not in it.
    let version = if action.has_plan() {
        acts.read(&key).await.map(|object| version(&object)).unwrap_or_default()
    } else {
        String::new()
    };
    let preview = {
        let (key, values) = (key.clone(), values.clone());
        prepared(Arc::clone(&console), move |console| async move {
            self::acts(&console).ok()?.preview(action, &key, &values).await
        })
    };
    let preview = preview.await?;
    let row = console.row(&key);
    let (preview, row) = (preview.as_ref(), row.as_ref());
    let form = console.form();
    let version = &version;
    let asked = Asked { key: &key, row, action, values: &values, preview, form, version };
    Ok(Html(page::act::page(console.place(), asked)).into_response())
}

/// Runs an action.
async fn act(State(console): State<Arc<Console>>, parts: ActionParts, body: String) -> Answered {
    own_form(&console, &body)?;
    let (key, action) = wanted(&console, parts).await?;
    let values = Values::parse(&body);
    let Some(arguments) = action.run(&key, &values) else {
        let text = "Nothing was changed. Go back and complete the form.";
        return Err(Refused::new(StatusCode::BAD_REQUEST, "A value is missing or invalid", text));
    };
    let acts = acts(&console)?;
    let mut global = acts.global(&key.namespace, None);
    if action.has_plan() {
        global.expected = Some(acts.unchanged(&key, &body).await?);
    }
    let command = acts.typed(&arguments, Some(&key.namespace));
    let title = format!("{}: {}", action.title(), key.name);
    start(acts, Wanted { title, key: Some(key), arguments, command }, global)
}

fn start(acts: &Acts, wanted: Wanted, global: Global) -> Answered {
    match acts.runs.start(wanted, global) {
        Ok(number) => Ok((StatusCode::SEE_OTHER, [(LOCATION, address(number))]).into_response()),
        Err(error) => {
            let text = format!("Nothing was changed: {error:#}");
            Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, "The command was not started", &text))
        }
    }
}

/// Returns the resource to edit, which the query of the address names.
fn edited(console: &Console, query: &str) -> Result<Option<Key>, Refused> {
    let value = |name| action::value(query, name).unwrap_or_default();
    let parts = (value("namespace"), value("kind"), value("name"));
    if parts.2.is_empty() {
        return Ok(None);
    }
    meant(console, &Path(parts)).map(Some)
}

/// Shows the editor, empty or with the manifest of a resource.
async fn write(State(console): State<Arc<Console>>, RawQuery(query): RawQuery) -> Answered {
    let acts = acts(&console)?;
    let of = edited(&console, &query.unwrap_or_default())?;
    let manifest = match &of {
        Some(key) => acts.manifest(key).await,
        None => Ok((String::new(), String::new())),
    };
    let (manifest, version) = manifest.map_err(|why| {
        Refused::new(StatusCode::NOT_FOUND, "The manifest cannot be edited", &why)
    })?;
    let form = console.form();
    let (preview, of, version) = (None, of.as_ref(), version.as_str());
    let page = Deploy { manifest: &manifest, preview, form, of, version };
    Ok(Html(page::act::deploy(console.place(), page)).into_response())
}

/// Shows what a manifest would do.
async fn inspect(
    State(console): State<Arc<Console>>,
    RawQuery(query): RawQuery,
    body: String,
) -> Answered {
    own_form(&console, &body)?;
    let of = edited(&console, &query.unwrap_or_default())?;
    let manifest = action::value(&body, "manifest").unwrap_or_default();
    let preview = {
        let (of, manifest) = (of.clone(), manifest.clone());
        prepared(Arc::clone(&console), move |console| async move {
            Some(acts(&console).ok()?.preview_of(&manifest, of.as_ref()).await)
        })
    };
    let preview = preview.await?;
    let (preview, form) = (preview.as_ref(), console.form());
    let version = action::value(&body, VERSION).unwrap_or_default();
    let (of, version) = (of.as_ref(), version.as_str());
    let page = Deploy { manifest: &manifest, preview, form, of, version };
    Ok(Html(page::act::deploy(console.place(), page)).into_response())
}

/// Deploys a manifest.
async fn send(
    State(console): State<Arc<Console>>,
    RawQuery(query): RawQuery,
    body: String,
) -> Answered {
    own_form(&console, &body)?;
    let acts = acts(&console)?;
    let of = edited(&console, &query.unwrap_or_default())?;
    let manifest = action::value(&body, "manifest").unwrap_or_default();
    let file = of.as_ref().map_or_else(|| "FILE".to_owned(), |key| format!("{}.yaml", key.name));
    let namespace = acts.namespace_of(of.as_ref());
    let command = acts.typed(&deploy(&file), Some(&namespace));
    let title =
        of.as_ref().map_or_else(|| "Deploy".to_owned(), |key| format!("Edit: {}", key.name));
    let mut global = acts.global(&namespace, Some(manifest));
    if let Some(key) = &of {
        global.expected = Some(acts.unchanged(key, &body).await?);
    }
    start(acts, Wanted { title, key: of, arguments: deploy("-"), command }, global)
}

async fn list(State(console): State<Arc<Console>>) -> Answered {
    let runs = acts(&console)?.runs.all();
    Ok(Html(page::run::list(console.place(), &runs)).into_response())
}

fn found(console: &Console, number: u64) -> Result<Arc<Running>, Refused> {
    let text = "The most recent commands are listed at /runs.";
    acts(console)?
        .runs
        .find(number)
        .ok_or_else(|| Refused::new(StatusCode::NOT_FOUND, "Command not found", text))
}

/// Shows the page of a command that was started.
async fn shown(State(console): State<Arc<Console>>, Path(number): Path<u64>) -> Answered {
    let run = found(&console, number)?.shown();
    Ok(Html(page::run::page(console.place(), &run, console.form())).into_response())
}

/// Streams the output of a command.
async fn events(State(console): State<Arc<Console>>, Path(number): Path<u64>) -> Answered {
    let running = found(&console, number)?;
    let permits = console.room.live()?;
    let changed = running.changes();
    Ok(live::respond(FollowingRun {
        console,
        running,
        changed,
        sent: Sent::default(),
        is_first: true,
        _permits: permits,
    }))
}

/// Answers the question of a command with yes or no.
async fn answer(
    State(console): State<Arc<Console>>,
    Path(number): Path<u64>,
    body: String,
) -> Answered {
    own_form(&console, &body)?;
    let running = found(&console, number)?;
    running.answer(action::value(&body, "answer").as_deref() == Some("yes"));
    Ok((StatusCode::SEE_OTHER, [(LOCATION, address(number))]).into_response())
}

/// The live page of a command.
struct FollowingRun {
    console: Arc<Console>,
    running: Arc<Running>,
    changed: Receiver<()>,
    sent: Sent,
    is_first: bool,
    _permits: Permits,
}

impl Live for FollowingRun {
    fn console(&self) -> &Arc<Console> {
        &self.console
    }

    async fn next(&mut self) -> Fragments {
        if !std::mem::take(&mut self.is_first) {
            // Cannot fail: the sender is in the command, which lives as long as `self`.
            drop(self.changed.changed().await);
            tokio::time::sleep(live::PAUSE).await;
        }
        self.changed.mark_unchanged();
        let fragments = page::run::fragments(&self.running.shown(), self.console.form());
        self.sent.news(fragments)
    }
}
