//! A script of calls to Flink's REST API by our client, and their results as text.
//!
//! A line is a call and its arguments: the name of a job, then that of a trigger. Jobs and triggers have the ids that the
//! script's names stand for, and the text has the names again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::time::{Duration, Instant};

use api::status::SavepointFormatType;
use api::version::FlinkVersion;
use bytes::Bytes;
use clients::flink::checkpoints::{CheckpointKind, CheckpointStatus, Checkpoints, LastState};
use clients::flink::failures::{ExecutionResult, FailureCause};
use clients::flink::jars::RunRequest;
use clients::flink::jobs::Vertex;
use clients::flink::rescale::{ParallelismBounds, VertexRequirements};
use clients::flink::savepoints::{
    DisposalStatus, SavepointRequest, SavepointStatus, StopOutcome, StopRequest,
};
use clients::flink::{Client, Error, new_trigger_id};
use futures::future::LocalBoxFuture;
use regex::Regex;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::application::Application;
use super::metadata::{self, Maps};
use super::show;
use crate::support::patience::PATIENCE;

/// Pause before Flink is asked again for what takes its time.
pub(crate) const AGAIN: Duration = Duration::from_millis(20);
/// Records that a job has before it ends, one every 10 ms.
pub(super) const MANY: &str = "1000000000";

/// How a checkpoint of a failing task ends, the one or the other as it happens.
const FAILS: &str = concat!(
    r"CheckpointException: .*(Task (has failed|local checkpoint failure)\.",
    r"|Checkpoint (Coordinator is suspending\.|was declined \([a-z ]+\)))$"
);

/// A cluster in which a script runs; by default, a session cluster that is faked.
pub(crate) trait World {
    fn client(&self) -> Client;

    /// Makes jobs wait or fail at a place, or no longer.
    fn set(&self, gate: &str, is_set: bool);

    /// Returns the jar of the scripted job.
    fn jar(&self) -> Vec<u8> {
        b"PK".to_vec()
    }

    /// Returns the job's first argument.
    fn gate(&self) -> String {
        "gate".to_owned()
    }

    /// Whether a job waits at a place. One of a fake is nowhere else when it is held.
    fn is_held(&self, _place: &str) -> bool {
        true
    }

    /// Returns the URL of the directory of savepoints.
    fn savepoints(&self) -> String {
        "file:/savepoints".to_owned()
    }

    /// Returns the URL of the directory of checkpoints.
    fn checkpoints(&self) -> String {
        "file:/checkpoints".to_owned()
    }

    /// Whether scripts deploy applications, and do not submit jobs to a cluster that runs.
    fn is_for_applications(&self) -> bool {
        false
    }

    /// Starts a JobManager with an application, after the end of the one that runs.
    fn deploy(&self, _application: Application) -> LocalBoxFuture<'_, ()> {
        unimplemented!("only for applications")
    }

    /// Ends the JobManager of an application.
    fn undeploy(&self) -> LocalBoxFuture<'_, ()> {
        unimplemented!("only for applications")
    }

    /// Returns where HA metadata is kept.
    fn maps(&self) -> Option<&Maps> {
        None
    }

    /// Kills the JobManager, and starts another one.
    fn crash(&self) -> LocalBoxFuture<'_, ()> {
        unimplemented!("only with HA metadata")
    }

    /// Starts the JobManager again whenever it has ended by itself, as a kubelet does.
    fn tend(&self) -> LocalBoxFuture<'_, Infallible> {
        Box::pin(std::future::pending())
    }

    /// Waits until all is written that Flink writes before it answers.
    fn settle(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Splits a text into scripts, each with its name.
pub(super) fn parse(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut scripts: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(name) => scripts.push((name, Vec::new())),
            None => scripts.last_mut().expect("`# NAME` first").1.push(line),
        }
    }
    scripts
}

/// Runs all scripts, and returns each line with its result.
pub(crate) async fn run(world: &dyn World, text: &str) -> String {
    let client = world.client();
    let jar = if world.is_for_applications() {
        "none".to_owned()
    } else {
        wait_for_slots(&client).await;
        client.upload_jar("scripted.jar", Bytes::from(world.jar())).await.unwrap()
    };
    let mut answers = String::new();
    for (name, lines) in parse(text) {
        writeln!(answers, "# {name}").unwrap();
        let mut stage = Stage::new(&client, world, &jar);
        for line in lines {
            // Shown if the script does not come to an end.
            println!("{name}: {line}");
            let answer = stage.carry_out(line).await;
            writeln!(answers, "{line}").unwrap();
            for line in answer.lines() {
                println!("    {line}");
                writeln!(answers, "    {line}").unwrap();
            }
        }
        assert!(stage.pending.is_empty(), "{name}: every `begin` needs its `end`");
    }
    answers
}

/// Returns those answers that are not the ones of another version.
pub(crate) fn differences(other: &str, answers: &str) -> String {
    let (others, answers) = (blocks(other), blocks(answers));
    assert_eq!(others.len(), answers.len(), "both have the same scripts");
    let differing = answers.iter().zip(&others).filter(|(one, other)| one != other);
    let differing = differing.map(|((script, block), _)| format!("{script}\n{block}\n"));
    differing.collect::<Vec<_>>().concat()
}

/// Splits answers into a script's name and a line with its result.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let (mut script, mut blocks) = ("", Vec::new());
    for line in text.lines() {
        if line.starts_with("# ") {
            script = line;
        } else if line.starts_with(' ') {
            let (_, block): &mut (&str, String) = blocks.last_mut().expect("a line and its result");
            write!(block, "\n{line}").unwrap();
        } else {
            blocks.push((script, line.to_owned()));
        }
    }
    blocks
}

/// A JobManager answers before its TaskManager has registered.
async fn wait_for_slots(client: &Client) {
    let begun = Instant::now();
    while !client.overview().await.is_ok_and(|overview| overview.slots_total > 0) {
        assert!(begun.elapsed() < PATIENCE, "no TaskManager");
        sleep(AGAIN).await;
    }
}

struct Stage<'a> {
    client: &'a Client,
    world: &'a dyn World,
    jar: &'a str,
    /// Ids of jobs and triggers by the words that stand for them.
    ids: BTreeMap<String, String>,
    /// Paths of savepoints, for which the text has `@1`, `@2` and so on.
    savepoints: Vec<String>,
    pending: BTreeMap<String, JoinHandle<String>>,
}

impl<'a> Stage<'a> {
    fn new(client: &'a Client, world: &'a dyn World, jar: &'a str) -> Self {
        let (ids, pending) = (BTreeMap::new(), BTreeMap::new());
        Self { client, world, jar, ids, savepoints: Vec::new(), pending }
    }

    /// Carries a line out; after `begin` it goes on at once, and `end` with the same call gives the result.
    async fn carry_out(&mut self, line: &str) -> String {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let answer = match first {
            "set" | "unset" => {
                self.world.set(rest, first == "set");
                return String::new();
            }
            "held" => {
                let begun = Instant::now();
                while !self.world.is_held(rest) {
                    assert!(begun.elapsed() < PATIENCE, "nothing is held at {rest}");
                    sleep(AGAIN).await;
                }
                return String::new();
            }
            "begin" => {
                let (call, client) = (self.call(rest), self.client.clone());
                let task = tokio::spawn(async move { call.result(&client).await });
                self.pending.insert(rest.to_owned(), task);
                return String::new();
            }
            "crash" => {
                self.world.crash().await;
                wait_for_slots(self.client).await;
                return String::new();
            }
            "deploy" => {
                let (savepoints, checkpoints) = (self.world.savepoints(), self.world.checkpoints());
                let application = Application::read(&self.words(line), &savepoints, &checkpoints);
                self.world.deploy(application).await;
                wait_for_slots(self.client).await;
                return String::new();
            }
            "undeploy" => {
                self.world.undeploy().await;
                return String::new();
            }
            _ if metadata::is_about(line) => {
                let words = self.words(line);
                let maps = self.world.maps().expect("a cluster with HA metadata");
                self.world.settle().await;
                let answer = tokio::select! {
                    answer = maps.carry_out(&words) => answer,
                    never = self.world.tend() => match never {},
                };
                if rest == "led" {
                    wait_for_slots(self.client).await;
                }
                answer
            }
            "end" => self.pending.remove(rest).expect("it was begun").await.unwrap(),
            _ => self.call(line).result(self.client).await,
        };
        self.show(&answer)
    }

    fn words(&mut self, line: &str) -> Vec<String> {
        line.split(' ').map(|word| self.fill_in(word)).collect()
    }

    fn call(&mut self, line: &str) -> Call {
        let words = self.words(line);
        let (gate, savepoints) = (self.world.gate(), self.world.savepoints());
        Call { words, jar: self.jar.to_owned(), gate, savepoints }
    }

    /// Replaces `$NAME` by an id, and `@1` by the path of a savepoint.
    fn fill_in(&mut self, word: &str) -> String {
        if let Some(number) = word.strip_prefix('@') {
            return self.savepoints[number.parse::<usize>().unwrap() - 1].clone();
        }
        if !word.starts_with('$') {
            return word.to_owned();
        }
        self.ids.entry(word.to_owned()).or_insert_with(new_trigger_id).clone()
    }

    /// Returns a result with the script's words for what differs between two runs.
    fn show(&mut self, answer: &str) -> String {
        let mut text = answer.to_owned();
        let savepoint = Regex::new(r"file:\S*?/savepoint-[0-9a-f]{6}-[0-9a-f]{12}").unwrap();
        for found in savepoint.find_iter(answer) {
            if !self.savepoints.iter().any(|known| known == found.as_str()) {
                self.savepoints.push(found.as_str().to_owned());
            }
        }
        for (number, path) in self.savepoints.iter().enumerate() {
            text = text.replace(path, &format!("@{}", number + 1));
        }
        for (name, id) in &self.ids {
            text = text.replace(id, name);
        }
        text = text.replace(self.jar, "JAR");
        for (pattern, word) in [
            (r"file:\S*?/checkpoints/", "CHECKPOINTS/"),
            (r"file:\S*?/savepoints/", "SAVEPOINTS/"),
            (FAILS, "CheckpointException: a task fails, or the job does"),
            (r"triggering task .* \(1/1\)", "triggering task TASK"),
            (r"RecipientUnreachableException: .*", "RecipientUnreachableException"),
        ] {
            text = Regex::new(&format!("(?m){pattern}"))
                .unwrap()
                .replace_all(&text, word)
                .into_owned();
        }
        text
    }
}

/// A call and what it needs of its world.
struct Call {
    words: Vec<String>,
    jar: String,
    gate: String,
    savepoints: String,
}

impl Call {
    async fn result(&self, client: &Client) -> String {
        match self.answer(client).await {
            Ok(answer) => answer,
            Err(error) => show::error(&error),
        }
    }

    fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    async fn answer(&self, client: &Client) -> Result<String, Error> {
        let job = self.word(1);
        Ok(match self.word(0) {
            "run" => {
                let answer = client.run_jar(&self.jar, FlinkVersion::V1_20, &self.run()).await?;
                format!("{answer:?}")
            }
            "facts" => return facts(client).await,
            "upload" => {
                client.upload_jar("other.jar", Bytes::from_static(b"PK")).await?;
                String::new()
            }
            "delete-jar" => client.delete_jar(job).await?.to_string(),
            "until" => return self.until(client).await,
            "list" => {
                let overview = client.jobs_overview().await?;
                let Some(found) = overview.find(job) else { return Ok("not listed".to_owned()) };
                let has_ended = found.end_time.is_some();
                format!(
                    "{}, which counts as {}{}; tasks: {}",
                    found.state,
                    found.effective_state(),
                    if has_ended { ", ended" } else { "" },
                    show::tasks(found.tasks)
                )
            }
            "job" => {
                let details = client.job(job).await?;
                let vertices = details
                    .vertices
                    .iter()
                    .map(|vertex| format!(", {} × {}", vertex.status, vertex.parallelism));
                format!(
                    "{}{}{}",
                    details.state,
                    if details.end_time.is_some() { ", ended" } else { "" },
                    vertices.collect::<String>()
                )
            }
            "cancel" => format!("{:?}", client.cancel(job).await?),
            "result" => match client.execution_result(job).await? {
                ExecutionResult::InProgress => "in progress".to_owned(),
                ExecutionResult::Completed { status, failure } => {
                    format!("{status}{}", failure.map(|it| show::cause(&it)).unwrap_or_default())
                }
            },
            "exceptions" => {
                let exceptions = client.exceptions(job, 5).await?;
                let all = exceptions.entries.iter().map(|entry| {
                    let cause = FailureCause {
                        class: String::new(),
                        stack_trace: entry.stacktrace.clone(),
                    };
                    let has_time = entry.timestamp.is_some();
                    format!("{}, time: {has_time}{}", entry.name, show::cause(&cause))
                });
                format!(
                    "{} of them\n{}",
                    exceptions.entries.len(),
                    all.collect::<Vec<_>>().join("\n")
                )
            }
            "requirements" => show::requirements(&client.resource_requirements(job).await?),
            "require" => {
                let one = VertexRequirements {
                    parallelism: ParallelismBounds { lower_bound: 1, upper_bound: 2 },
                };
                let vertices = client.job(job).await?.vertices;
                let wanted = vertices.into_iter().map(|vertex| (vertex.id, one)).collect();
                client.set_resource_requirements(job, &wanted).await?;
                String::new()
            }
            "times" => show::times(&client.job(job).await?, &client.final_checkpoints(job).await?),
            "rescales" => format!("{:?}", client.rescales(job).await?),
            "metrics" => {
                let metrics = client.job_metrics(job, &["numRestarts", "noSuchMetric"]).await?;
                format!("{metrics:?}")
            }
            "subtask-metrics" => {
                let vertices = client.job(job).await?.vertices;
                let unknown =
                    client.subtask_metrics(job, &vertices[0].id, &["noSuchMetric"]).await?;
                format!("{unknown:?}")
            }
            _ => self.answer_about_state(client).await?,
        })
    }

    async fn answer_about_state(&self, client: &Client) -> Result<String, Error> {
        let (job, trigger) = (self.word(1), self.word(2));
        Ok(match self.word(0) {
            "statistics" => show::statistics(&client.checkpoints(job).await?),
            "has-current-state" => {
                let current = client.current_checkpoints(job).await?;
                let Checkpoints::Statistics(current) = current else { panic!("{current:?}") };
                matches!(current.last_state(), LastState::At(_)).to_string()
            }
            "final-statistics" => show::statistics(&client.final_checkpoints(job).await?),
            "checkpoint-details" => {
                let found = client.checkpoint(job, trigger.parse().unwrap()).await?;
                found.map_or_else(|| "none".to_owned(), |found| show::checkpoint(&found))
            }
            "checkpoint-config" => match client.checkpoint_config(job).await? {
                None => "disabled".to_owned(),
                Some(config) => format!(
                    "{}, {:?}, blank: {}",
                    config.mode,
                    config.externalization,
                    config.is_blank()
                ),
            },
            "checkpoint" => client.trigger_checkpoint(job, CheckpointKind::Full, trigger).await?,
            "checkpoint-status" => {
                show::checkpoint_status(&client.checkpoint_status(job, trigger).await?)
            }
            "savepoint" => client.trigger_savepoint(job, &self.savepoint()).await?,
            "stop" => client.stop_with_savepoint(job, &self.stop(false)).await?,
            "drain" => client.stop_with_savepoint(job, &self.stop(true)).await?,
            "savepoint-status" => show::savepoint(&client.savepoint_status(job, trigger).await?),
            "find-stop" => match client.find_stop(job, trigger).await? {
                StopOutcome::Known(status) => format!("known: {}", show::savepoint(&status)),
                StopOutcome::FinishedWith { location, checkpoint_id } => {
                    format!("finished with {location}, checkpoint {checkpoint_id}")
                }
                StopOutcome::NotStopped(state) => format!("not stopped: {state}"),
                StopOutcome::Unknown { state } => format!("unknown: {state:?}"),
            },
            "dispose" => {
                let trigger = client.dispose_savepoint(job).await?;
                match client.await_disposal(&trigger).await? {
                    DisposalStatus::Failed(cause) => format!("failed{}", show::cause(&cause)),
                    other => format!("{other:?}"),
                }
            }
            "disposal-status" => format!("{:?}", client.disposal_status(job).await?),
            other => panic!("{other}: a call of the scripts"),
        })
    }

    /// Asks until the result is another one: `until STATE JOB`, `until OPENING JOB`, `until 2 JOB`, `until ended JOB`,
    /// `until saved JOB TRIGGER`, `until deposed`, `until replaced JOB` or `until checkpointed JOB TRIGGER`.
    async fn until(&self, client: &Client) -> Result<String, Error> {
        let begun = Instant::now();
        let (what, job, trigger) = (self.word(1), self.word(2), self.word(3));
        loop {
            let answer = match what {
                "saved" => {
                    let status = client.savepoint_status(job, trigger).await?;
                    (status != SavepointStatus::InProgress).then(|| show::savepoint(&status))
                }
                "checkpointed" => {
                    let status = client.checkpoint_status(job, trigger).await?;
                    (status != CheckpointStatus::InProgress)
                        .then(|| show::checkpoint_status(&status))
                }
                // Cached statistics tell at once that their newest checkpoint was replaced, and not by which.
                "replaced" => {
                    let trigger = new_trigger_id();
                    client.trigger_checkpoint(job, CheckpointKind::Full, &trigger).await?;
                    let mut is_replaced = false;
                    for _ in 0..5 {
                        is_replaced |= show::has_lost_its_newest(&client.checkpoints(job).await?);
                    }
                    is_replaced.then(String::new)
                }
                // What comes of it is told, and not whether it is asked again.
                "deposed" => {
                    let answer = client.without_retries().jobs_overview().await;
                    answer.err().map(|error| show::error(&error))
                }
                // The parallelism of all its tasks, which run.
                number if number.parse::<u32>().is_ok() => {
                    let all = client.job(job).await?.vertices;
                    let is_so = |it: &Vertex| it.parallelism.to_string() == number;
                    let is_so = |it| is_so(it) && it.status == "RUNNING";
                    (!all.is_empty() && all.iter().all(is_so)).then(String::new)
                }
                state => {
                    let overview = client.jobs_overview().await?;
                    let found = overview.find(job).filter(|found| match state {
                        "ended" => found.state.is_globally_terminal(),
                        "OPENING" => found.tasks.initializing > 0 && found.tasks.running > 0,
                        state => found.effective_state().to_string() == state,
                    });
                    found.map(|found| found.effective_state().to_string())
                }
            };
            if let Some(answer) = answer {
                return Ok(answer);
            }
            assert!(begun.elapsed() < PATIENCE, "not so: {:?}", self.words);
            sleep(AGAIN).await;
        }
    }

    /// `run JOB`, and then `from PATH`, `restarts`, `parallelism N` or `records N`.
    fn run(&self) -> RunRequest {
        let mut records = MANY;
        let mut request = RunRequest {
            job_id: self.word(1).to_owned(),
            entry_class: None,
            args: Vec::new(),
            parallelism: Some(1),
            allow_non_restored_state: false,
            savepoint_path: None,
            configuration: BTreeMap::new(),
        };
        let mut words = self.words[2..].iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "from" => request.savepoint_path = words.next().cloned(),
                "parallelism" => request.parallelism = words.next().map(|it| it.parse().unwrap()),
                "records" => records = words.next().unwrap(),
                "restarts" => {
                    let options = [
                        ("restart-strategy.type", "fixed-delay"),
                        ("restart-strategy.fixed-delay.attempts", "1000"),
                        // A busy machine takes seconds for what a script asks meanwhile.
                        ("restart-strategy.fixed-delay.delay", "5 s"),
                    ];
                    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
                    request.configuration = BTreeMap::from(options);
                }
                other => panic!("{other}: an option of `run`"),
            }
        }
        request.args = vec![self.gate.clone(), records.to_owned()];
        request
    }

    /// `savepoint JOB TRIGGER [URL]`; `nowhere` for a request without a directory.
    fn savepoint(&self) -> SavepointRequest {
        let (target_directory, trigger_id) = (self.directory(), self.word(2).to_owned());
        SavepointRequest { target_directory, format: SavepointFormatType::Canonical, trigger_id }
    }

    fn stop(&self, drain: bool) -> StopRequest {
        let (target_directory, trigger_id) = (self.directory(), self.word(2).to_owned());
        StopRequest { target_directory, drain, format: SavepointFormatType::Canonical, trigger_id }
    }

    fn directory(&self) -> Option<String> {
        match self.word(3) {
            "" => Some(self.savepoints.clone()),
            "nowhere" => None,
            url => Some(url.to_owned()),
        }
    }
}

/// Returns what there is, but no number that may change.
async fn facts(client: &Client) -> Result<String, Error> {
    let version = client.config().await?.flink_version;
    let (major, _) = version.rsplit_once('.').unwrap();
    let slots = client.overview().await?.slots_total;
    let managers = client.taskmanagers().await?.taskmanagers;
    let memory = managers[0].memory_configuration.unwrap().total_process_memory;
    let refresh = client.job_manager_config().await?.contains_key("web.refresh-interval");
    // Which metrics there are depends on the time since the start.
    client.job_manager_metrics(&["taskSlotsTotal"]).await?;
    let unknown = client.task_manager_metrics(&["noSuchMetric"]).await?;
    Ok(format!(
        "{major}, {slots} slots, {} TaskManager, memory: {}, configuration: {refresh}, {unknown:?}",
        managers.len(),
        memory.is_some()
    ))
}
