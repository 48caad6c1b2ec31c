//! A job of the fake: its states, checkpoints and operations.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::Metrics;
use super::gates::Gates;
use super::load::Load;

/// How long statistics are cached (Flink: 3 s).
pub(crate) const STATISTICS_AGE: Duration = Duration::from_millis(20);

/// Name under which a vertex's metrics hold the record count for its details.
pub(crate) const READ_RECORDS: &str = "read-records";

/// Number of checkpoints that Flink keeps in a job's history.
const HISTORY: usize = 10;

const CHECKPOINT_EXCEPTION: &str = "org.apache.flink.runtime.checkpoint.CheckpointException";
const JOB_EXCEPTION: &str = "org.apache.flink.runtime.JobException";

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) state: String,
    /// Running tasks, out of two.
    pub(crate) running_tasks: u32,
    pub(crate) is_checkpointing: bool,
    /// Whether each request completes a checkpoint.
    pub(crate) checkpoints_by_itself: bool,
    /// Whether cancelling the job deletes its checkpoints, as its code specifies.
    pub(crate) deletes_checkpoints: bool,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// Oldest first.
    pub(crate) checkpoints: Vec<Snapshot>,
    pub(crate) restored: Option<Snapshot>,
    /// Newest first: class, message, time.
    pub(crate) exceptions: Vec<(String, String, i64)>,
    /// Rescale history of Flink 2.3, if it keeps one.
    pub(crate) rescales: Option<Value>,
    /// Reason for which the next savepoints fail.
    pub(crate) savepoint_failure: Option<String>,
    /// Whether the next stop leaves a savepoint and a job that failed while stopping.
    pub(crate) fails_while_stopping: bool,
    /// Whether it may restart as often as it fails.
    pub(crate) restarts: bool,
    /// Whether the cluster has too few slots for it.
    pub(crate) lacks_slots: bool,
    /// Number of requests until its input ends.
    pub(crate) ends_after: Option<usize>,
    /// Whether the JobManager has made its execution graph: before, it knows little of the job.
    has_graph: bool,
    is_opening: bool,
    failed_checkpoints: usize,
    last_failed: Option<Snapshot>,
    /// Number of requests until a savepoint completes.
    pub(crate) savepoint_steps: usize,
    pub(crate) operations: BTreeMap<String, Operation>,
    /// Subtask metrics by vertex.
    pub(crate) metrics: BTreeMap<String, Metrics>,
    /// Load that drives the metrics, if there is any input.
    pub(crate) load: Option<Load>,
    /// Finished vertices.
    pub(crate) finished: Vec<String>,
    /// Vertex counts to which no subtask has reported.
    pub(crate) incomplete: Vec<(&'static str, &'static str)>,
    next_states: VecDeque<(&'static str, u32)>,
    next_checkpoint: i64,
    /// Time and checkpoint count of the cached statistics.
    cached: Option<(Instant, usize)>,
}

/// A checkpoint or savepoint.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) id: i64,
    pub(crate) path: String,
    pub(crate) time: i64,
    /// `CHECKPOINT`, `SAVEPOINT` or `SYNC_SAVEPOINT`.
    pub(crate) kind: &'static str,
    pub(crate) is_discarded: bool,
}

/// A triggered operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) kind: Triggered,
    pub(crate) steps_left: usize,
    pub(crate) result: Option<Result<Done, (String, String)>>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Triggered {
    Savepoint { path: String },
    Stop { path: String },
    Checkpoint,
}

#[derive(Clone, Debug)]
pub(crate) enum Done {
    Path(String),
    Checkpoint(i64),
}

impl Job {
    /// Returns a job whose tasks all run.
    pub(crate) fn running(id: &str, now: i64) -> Self {
        let mut job = Self::submitted(id, now);
        job.next_states.clear();
        (job.state, job.running_tasks, job.has_graph) = ("RUNNING".into(), 2, true);
        job
    }

    /// Returns a job that is starting.
    pub(crate) fn submitted(id: &str, now: i64) -> Self {
        Self {
            id: id.into(),
            name: "CarTopSpeedWindowingExample".into(),
            state: "INITIALIZING".into(),
            running_tasks: 0,
            is_checkpointing: true,
            checkpoints_by_itself: true,
            deletes_checkpoints: false,
            start: now,
            end: -1,
            checkpoints: Vec::new(),
            restored: None,
            exceptions: Vec::new(),
            rescales: None,
            savepoint_failure: None,
            fails_while_stopping: false,
            restarts: false,
            lacks_slots: false,
            ends_after: None,
            has_graph: false,
            is_opening: false,
            failed_checkpoints: 0,
            last_failed: None,
            savepoint_steps: 2,
            operations: BTreeMap::new(),
            metrics: BTreeMap::new(),
            load: None,
            finished: Vec::new(),
            incomplete: Vec::new(),
            next_states: [("CREATED", 0), ("RUNNING", 0), ("RUNNING", 1), ("RUNNING", 2)].into(),
            next_checkpoint: 1,
            cached: None,
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.state.as_str(), "FAILED" | "CANCELED" | "FINISHED")
    }

    /// Whether its JobManager has lost the lock while it ran.
    pub(crate) fn is_suspended(&self) -> bool {
        self.state == "SUSPENDED"
    }

    /// Restores the job from `path`, whose checkpoint had the number `id`. Flink takes all that a path names for a
    /// savepoint, and for a checkpoint what it finds in HA metadata.
    pub(crate) fn restore(&mut self, kind: &'static str, id: i64, path: &str, time: i64) {
        let path = path.to_owned();
        self.restored = Some(Snapshot { id, path, time, kind, is_discarded: false });
        self.next_checkpoint = id + 1;
    }

    /// Returns the number of its next checkpoint if it takes none by itself.
    pub(crate) fn counter(&self) -> Option<i64> {
        (!self.checkpoints_by_itself && self.next_checkpoint > 1).then_some(self.next_checkpoint)
    }

    /// Returns the number of the newest checkpoint that was triggered by request.
    pub(crate) fn asked_checkpoint(&self) -> Option<i64> {
        let results = self.operations.values().filter_map(|operation| operation.result.as_ref());
        let number = |done: &Result<Done, _>| match done {
            Ok(Done::Checkpoint(number)) => Some(*number),
            Ok(Done::Path(_)) | Err(_) => None,
        };
        results.filter_map(number).max()
    }

    /// Whether the JobManager is still making its execution graph.
    pub(super) fn is_initializing(&self) -> bool {
        !self.has_graph && !self.is_terminal()
    }

    /// Returns the checkpoint storage, which nobody knows of a job without an execution graph.
    pub(super) fn checkpoint_storage(&self) -> &'static str {
        if self.has_graph { "FileSystemCheckpointStorage" } else { "Unknown" }
    }

    pub(crate) fn cancel(&mut self) {
        self.state = "CANCELLING".into();
        self.next_states = [("CANCELED", 0)].into();
    }

    pub(crate) fn fail(&mut self, class: &str, message: &str, now: i64) {
        self.exceptions.insert(0, (class.into(), message.into(), now));
        self.end(now, "FAILED");
    }

    /// Fails because there is nothing at the path from which it should start; returns the cause.
    pub(crate) fn fail_to_restore(&mut self, path: &str, now: i64) -> String {
        let cause = format!(
            "java.io.FileNotFoundException: Cannot find checkpoint or savepoint file/directory '{path}' on file system 'file'."
        );
        let text = format!("Could not start the JobMaster.\nCaused by: {cause}");
        self.fail("org.apache.flink.runtime.client.JobInitializationException", &text, now);
        cause
    }

    /// Lets a task fail: the job restarts from its newest checkpoint if it may.
    fn fail_a_task(&mut self, cause: &str, now: i64) {
        if !self.restarts {
            return self.fail_for(cause, now);
        }
        let (class, message) = cause.split_once(": ").unwrap();
        self.exceptions.insert(0, (class.to_owned(), message.to_owned(), now));
        self.start_again(now);
    }

    /// Starts all tasks again from the newest checkpoint.
    fn start_again(&mut self, now: i64) {
        self.suspend();
        (self.state, self.running_tasks) = ("RESTARTING".into(), 0);
        self.next_states = [("RUNNING", 0), ("RUNNING", 1), ("RUNNING", 2)].into();
        let newest = self.checkpoints.iter().rfind(|one| one.kind == "CHECKPOINT").cloned();
        let newest = newest.map(|one| Snapshot { time: now, ..one });
        self.restored = newest.or_else(|| self.restored.take());
    }

    /// Sets the bounds of its vertices.
    pub(super) fn require(&mut self, requirements: &Value, now: i64) {
        let load = self.load.as_mut();
        let is_rescaled = load.is_some_and(|load| load.require(requirements, now));
        if is_rescaled && self.running_tasks > 0 {
            self.start_again(now);
        }
    }

    /// Whether a job waits for its execution graph. The adaptive scheduler has accepted it by then.
    fn is_held_in_graph(&self, gates: &Gates) -> bool {
        let is_there =
            if self.load.is_some() { self.state == "CREATED" } else { self.is_initializing() };
        is_there && gates.hold("graph")
    }

    fn fail_for(&mut self, cause: &str, now: i64) {
        let strategy = "Recovery is suppressed by NoRestartBackoffTimeStrategy";
        self.fail(JOB_EXCEPTION, &format!("{strategy}\nCaused by: {cause}"), now);
    }

    /// Stops all tasks, as a JobManager does that has lost the lock.
    pub(crate) fn lose_leader(&mut self) {
        if !self.is_terminal() {
            self.suspend();
            (self.state, self.running_tasks) = ("SUSPENDED".into(), 0);
            self.next_states.clear();
        }
    }

    /// Ends what was triggered and is not complete.
    fn suspend(&mut self) {
        let mut operations = std::mem::take(&mut self.operations);
        for operation in operations.values_mut().filter(|operation| operation.result.is_none()) {
            operation.result = Some(Err(self.fail_checkpoint(&operation.kind, SUSPENDED)));
        }
        self.operations.append(&mut operations);
    }

    /// A checkpoint fails that had its number already.
    fn fail_checkpoint(&mut self, kind: &Triggered, reason: &str) -> (String, String) {
        let (id, path) = (self.next_checkpoint, String::new());
        self.next_checkpoint += 1;
        self.failed_checkpoints += 1;
        let kind = kind.name();
        self.last_failed = Some(Snapshot { id, path, time: self.start, kind, is_discarded: false });
        checkpoint_exception(reason)
    }

    fn end(&mut self, now: i64, state: &str) {
        self.suspend();
        (self.state, self.running_tasks, self.end) = (state.into(), 0, now);
        self.next_states.clear();
        if state == "FINISHED" || (state == "CANCELED" && self.deletes_checkpoints) {
            // The job no longer needs its checkpoints.
            for checkpoint in self.checkpoints.iter_mut().filter(|one| one.kind == "CHECKPOINT") {
                checkpoint.is_discarded = true;
            }
        }
    }

    /// Drops what a JobManager holds in memory only.
    pub(crate) fn forget(&mut self) {
        self.operations.clear();
        self.cached = None;
        if !self.is_terminal() {
            let newest = self.checkpoints.last().cloned();
            self.restored = newest.or_else(|| self.restored.take());
            self.checkpoints.clear();
        }
    }

    /// Advances the job by one request.
    pub(super) fn step(&mut self, now: i64, gates: &Gates) {
        if let Some(load) = &mut self.load {
            load.step(now);
        }
        self.move_on(now, gates);
        let is_due = self.is_checkpointing && self.checkpoints_by_itself;
        if is_due && self.runs_fully() {
            self.add_checkpoint(now);
        }
        let mut operations = std::mem::take(&mut self.operations);
        let ran = self.runs_fully();
        let mut pending: Vec<&mut Operation> =
            operations.values_mut().filter(|operation| operation.result.is_none()).collect();
        // A stop suspends what was triggered before it, so it comes first.
        pending.sort_by_key(|operation| !operation.kind.is_stop());
        for operation in pending {
            if !ran {
                operation.result = Some(Err(self.not_carried_out()));
            } else if !self.runs_fully() {
                operation.result = Some(self.overtake(&operation.kind, now));
            } else if operation.steps_left > 0 {
                operation.steps_left -= 1;
            } else if !gates.hold("snapshot") {
                operation.result = Some(self.carry_out(&operation.kind, now, gates));
            }
        }
        self.operations.append(&mut operations);
    }

    /// A savepoint that was triggered during a stop completes after that one; everything else fails with the job.
    fn overtake(&mut self, kind: &Triggered, now: i64) -> Result<Done, (String, String)> {
        match kind {
            Triggered::Savepoint { path } if self.state == "FINISHED" => {
                self.add("SAVEPOINT", path.clone(), now);
                Ok(Done::Path(path.clone()))
            }
            _ => Err(self.fail_checkpoint(kind, SUSPENDED)),
        }
    }

    fn runs_fully(&self) -> bool {
        self.state == "RUNNING" && self.running_tasks == 2
    }

    /// Goes on to its next state, unless it is held where it is.
    fn move_on(&mut self, now: i64, gates: &Gates) {
        self.is_opening = gates.hold("open");
        let is_held = match self.state.as_str() {
            _ if self.is_held_in_graph(gates) => true,
            "RUNNING" => self.running_tasks == 1 && self.is_opening,
            "RESTARTING" => gates.fail("record") || gates.fail("snapshot"),
            "CANCELLING" => gates.hold("close"),
            _ => false,
        };
        if is_held || self.is_terminal() {
            return;
        }
        self.has_graph = true;
        match self.next_states.pop_front() {
            Some((state @ ("CANCELED" | "FINISHED" | "FAILED"), _)) => self.end(now, state),
            Some((state, running)) => {
                (self.state, self.running_tasks) = (state.into(), running);
            }
            None => {}
        }
        if self.lacks_slots {
            let class =
                "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException";
            self.fail_for(
                &format!("{class}: Could not acquire the minimum required resources."),
                now,
            );
        } else if self.runs_fully() && gates.fail("record") {
            self.fail_a_task("java.lang.IllegalStateException: told to fail at record", now);
        } else if self.runs_fully()
            && let Some(left) = &mut self.ends_after
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                // With one more checkpoint, so that sinks commit the last records.
                self.add_checkpoint(now);
                self.end(now, "FINISHED");
            }
        }
    }

    /// Returns why an operation was not begun.
    fn not_carried_out(&self) -> (String, String) {
        if self.is_terminal() {
            return job_not_found(&self.id);
        }
        if self.is_initializing() {
            return unavailable();
        }
        checkpoint_exception(&format!(
            "Checkpoint triggering task Source: Car data (1/1) of job {} is not being executed at the moment. \
             Aborting checkpoint. Failure reason: Not all required tasks are currently running.",
            self.id
        ))
    }

    /// Triggering with a known id does not start another operation. A stop suspends what else was triggered, and the job
    /// fails if that was a stop.
    pub(super) fn trigger(&mut self, id: &str, kind: Triggered, now: i64) {
        if self.operations.contains_key(id) {
            return;
        }
        let mut operation = Operation { kind, steps_left: self.savepoint_steps, result: None };
        if self.is_terminal() || self.is_initializing() {
            operation.result = Some(Err(self.not_carried_out()));
        } else if operation.kind.is_stop() {
            let is_stop = |one: &Operation| one.result.is_none() && one.kind.is_stop();
            let is_second = self.operations.values().any(is_stop);
            self.suspend();
            if is_second {
                operation.result = Some(Err(self.fail_checkpoint(&operation.kind, SUSPENDED)));
                let cause =
                    "org.apache.flink.util.FlinkRuntimeException: Stop-with-savepoint failed.";
                self.fail_a_task(cause, now);
            }
        }
        self.operations.insert(id.to_owned(), operation);
    }

    fn carry_out(
        &mut self,
        kind: &Triggered,
        now: i64,
        gates: &Gates,
    ) -> Result<Done, (String, String)> {
        if let Triggered::Savepoint { path } | Triggered::Stop { path } = kind
            && path.contains("/proc/")
        {
            let directory = path.rsplit_once('/').unwrap().0.replace("file:///", "file:/");
            let (class, text) = self.fail_checkpoint(
                kind,
                "An Exception occurred while triggering the checkpoint. IO-problem detected.",
            );
            let cause = "java.io.IOException: Failed to create savepoint directory at";
            return Err((class, format!("{text}\nCaused by: {cause} {directory}")));
        }
        if let Some(reason) = self.savepoint_failure.take() {
            return Err(self.fail_checkpoint(kind, &reason));
        }
        if gates.fail("snapshot") {
            let failure = self.fail_checkpoint(kind, "Task has failed.");
            self.fail_a_task("java.lang.IllegalStateException: told to fail at snapshot", now);
            return Err(failure);
        }
        match kind {
            Triggered::Checkpoint => Ok(Done::Checkpoint(self.add_checkpoint(now))),
            Triggered::Savepoint { path } => {
                self.add("SAVEPOINT", path.clone(), now);
                Ok(Done::Path(path.clone()))
            }
            Triggered::Stop { path } => {
                self.add("SYNC_SAVEPOINT", path.clone(), now);
                if self.fails_while_stopping || gates.fail("notify") {
                    return Err(self.fail_after_savepoint(path, now));
                }
                self.end(now, "FINISHED");
                Ok(Done::Path(path.clone()))
            }
        }
    }

    /// Fails the job although it has restarts left, as Flink does for fear of side effects.
    fn fail_after_savepoint(&mut self, path: &str, now: i64) -> (String, String) {
        let class = "org.apache.flink.runtime.scheduler.stopwithsavepoint.StopWithSavepointStoppingException";
        let text = format!(
            "{class}: A savepoint has been created at: {path}, but the corresponding job {} failed during stopping. \
             The savepoint is consistent, but might have uncommitted transactions. If you want to commit the \
             transaction please restart a job from this savepoint.",
            self.id
        );
        self.fail_for("java.lang.IllegalStateException: told to fail at notify", now);
        self.fail_for(&text, now);
        (class.to_owned(), text)
    }

    /// Completes a checkpoint, which replaces the ones before.
    fn add_checkpoint(&mut self, now: i64) -> i64 {
        for older in self.checkpoints.iter_mut().filter(|one| one.kind == "CHECKPOINT") {
            older.is_discarded = true;
        }
        let path = format!("file:/checkpoints/{}/chk-{}", self.id, self.next_checkpoint);
        self.add("CHECKPOINT", path, now)
    }

    fn add(&mut self, kind: &'static str, path: String, time: i64) -> i64 {
        let id = self.next_checkpoint;
        self.next_checkpoint += 1;
        self.checkpoints.push(Snapshot { id, path, time, kind, is_discarded: false });
        id
    }

    /// Returns the states of the source's task and of the other one.
    fn tasks(&self) -> Vec<&'static str> {
        if !self.has_graph || self.is_suspended() {
            return Vec::new();
        }
        match self.state.as_str() {
            "RUNNING" => {
                let starting = if self.is_opening { "INITIALIZING" } else { "SCHEDULED" };
                let running = |index| if index < self.running_tasks { "RUNNING" } else { starting };
                [0, 1].map(running).to_vec()
            }
            "FINISHED" => vec!["FINISHED"; 2],
            "CANCELED" => vec!["CANCELED"; 2],
            "CANCELLING" => vec!["CANCELING"; 2],
            "FAILED" | "RESTARTING" => vec!["CANCELED", "FAILED"],
            "CREATED" if self.load.is_some() => vec!["CREATED"; 2],
            _ => vec!["SCHEDULED"; 2],
        }
    }

    pub(crate) fn overview(&self, now: i64) -> Value {
        let tasks = self.tasks();
        let parallelism = self.load.iter().flat_map(|load| load.parallelism.values().copied());
        // Without a load, each vertex has one task.
        let parallelism = parallelism.chain([1, 1]).take(tasks.len());
        let tasks: Vec<_> = tasks.iter().zip(parallelism).collect();
        let sum = |all: &mut dyn Iterator<Item = u32>| all.sum::<u32>();
        let count = |state| sum(&mut tasks.iter().filter(|(one, _)| **one == state).map(|it| it.1));
        json!({
            "jid": self.id, "name": self.name, "start-time": self.start, "end-time": self.end,
            "duration": now - self.start, "state": self.state, "last-modification": now,
            "tasks": {
                "total": sum(&mut tasks.iter().map(|it| it.1)), "created": count("CREATED"), "scheduled": count("SCHEDULED"), "deploying": 0,
                "running": count("RUNNING"), "finished": count("FINISHED"),
                "canceling": count("CANCELING"), "canceled": count("CANCELED"),
                "failed": count("FAILED"), "reconciling": 0, "initializing": count("INITIALIZING"),
            },
        })
    }

    pub(crate) fn details(&self, now: i64) -> Value {
        let load = self.load.as_ref();
        let runs_since = load.and_then(|load| load.rescaled).unwrap_or(self.start);
        let parallelism = |id: &str| load.and_then(|load| load.parallelism.get(id)).unwrap_or(&1);
        let counted = |id: &str| self.metrics.get(id)?.get(READ_RECORDS).copied();
        let records_in = |id: &str| match load {
            Some(load) => load.records_in(id),
            None => counted(id).unwrap_or_default(),
        };
        let vertex = |id: &str, name: &str, task: &str| {
            let is_finished = self.finished.iter().any(|finished| finished == id);
            let status = if is_finished { "FINISHED" } else { task };
            let mut metrics = json!({
                "read-records": records_in(id), "read-records-complete": true,
                "write-records": 7, "write-records-complete": true,
                "accumulated-busy-time": "NaN",
            });
            for (_, count) in self.incomplete.iter().filter(|(of, _)| *of == id) {
                metrics[count] = json!(0);
                metrics[format!("{count}-complete")] = json!(false);
            }
            json!({
                "id": id, "name": name, "maxParallelism": 128, "parallelism": parallelism(id),
                "status": status, "start-time": self.start, "end-time": self.end,
                "duration": now - self.start, "tasks": {"RUNNING": self.running_tasks / 2},
                "metrics": metrics,
            })
        };
        let source = "cbc357ccb763df2852fee8c4fc7d55f2";
        let window = "90bea66de1c231edf33913ecd54406c1";
        let vertices = match *self.tasks() {
            [first, second] => {
                json!([
                    vertex(source, "Source: Car data", first),
                    vertex(window, "GlobalWindows -> Sink", second)
                ])
            }
            _ => json!([]),
        };
        json!({
            "jid": self.id, "name": self.name, "isStoppable": false, "state": self.state,
            "job-type": "STREAMING", "start-time": self.start, "end-time": self.end,
            "duration": now - self.start, "maxParallelism": -1, "now": now,
            "timestamps": {"INITIALIZING": self.start, "RUNNING": runs_since, "FAILED": 0},
            "vertices": vertices,
            "status-counts": {"RUNNING": self.running_tasks},
            "plan": {"jid": self.id, "name": self.name, "type": "STREAMING", "nodes": [
                {"id": window, "parallelism": parallelism(window), "operator": "", "operator_strategy": "",
                 "description": "", "optimizer_properties": {},
                 "inputs": [{"num": 0, "id": source, "ship_strategy": "HASH", "exchange": "pipelined_bounded"}]},
                {"id": source, "parallelism": parallelism(source), "operator": "", "operator_strategy": "",
                 "description": "", "optimizer_properties": {}},
            ]},
        })
    }

    /// Returns the checkpoints that existed when the statistics were last computed. Whether one of them has been
    /// discarded since is always current.
    fn known_checkpoints(&mut self) -> Vec<Snapshot> {
        let kept = self.cached.filter(|(since, _)| since.elapsed() < STATISTICS_AGE);
        let (since, known) = kept.unwrap_or((Instant::now(), self.checkpoints.len()));
        self.cached = Some((since, known));
        self.checkpoints[..known].to_vec()
    }

    pub(crate) fn checkpoint(&mut self, id: &str) -> Option<Value> {
        let known = self.known_checkpoints();
        let found = known.iter().rev().take(HISTORY).find(|one| one.id.to_string() == id);
        found.map(Snapshot::json)
    }

    pub(crate) fn statistics(&mut self) -> Value {
        let checkpoints = self.known_checkpoints();
        let quantiles = json!({"min": 0, "max": 0, "avg": 0, "p50": "NaN", "p99": "NaN"});
        let newest = |wanted: fn(&str) -> bool| {
            checkpoints.iter().rev().find(|one| wanted(one.kind)).map(Snapshot::json)
        };
        let restored = self.restored.as_ref().map(|one| {
            json!({"id": one.id, "restore_timestamp": one.time,
                   "is_savepoint": one.kind != "CHECKPOINT", "external_path": one.path})
        });
        let history: Vec<Value> =
            checkpoints.iter().rev().take(HISTORY).map(Snapshot::json).collect();
        let total = checkpoints.len();
        json!({
            "counts": {"restored": u8::from(self.restored.is_some()),
                       "total": total + self.failed_checkpoints, "in_progress": 0,
                       "completed": total, "failed": self.failed_checkpoints},
            "summary": {"state_size": quantiles, "end_to_end_duration": quantiles},
            "latest": {
                "completed": newest(|kind| kind == "CHECKPOINT"),
                "savepoint": newest(|kind| kind != "CHECKPOINT"),
                "failed": self.last_failed.as_ref().map(Snapshot::failed), "restored": restored,
            },
            "history": history,
        })
    }

    pub(crate) fn exceptions(&self, limit: usize) -> Value {
        let entry = |(class, message, time): &(String, String, i64)| {
            json!({"exceptionName": class, "stacktrace": format!("{class}: {message}\n\tat x"),
                   "timestamp": time, "taskName": null, "endpoint": null, "location": null,
                   "taskManagerId": null, "failureLabels": {}, "concurrentExceptions": []})
        };
        let entries: Vec<Value> = self.exceptions.iter().take(limit).map(entry).collect();
        json!({"root-exception": null, "timestamp": null, "all-exceptions": [], "truncated": false,
               "exceptionHistory": {"entries": entries, "truncated": self.exceptions.len() > limit}})
    }

    pub(crate) fn result(&self) -> Value {
        if !self.is_terminal() {
            return json!({"status": {"id": "IN_PROGRESS"}});
        }
        let status = if self.state == "FINISHED" { "SUCCEEDED" } else { &self.state };
        let mut result = json!({"id": self.id, "application-status": status,
                                "accumulator-results": {}, "net-runtime": self.end - self.start});
        if let (true, Some((class, message, _))) = (self.state == "FAILED", self.exceptions.first())
        {
            result["failure-cause"] = json!({
                "class": class, "stack-trace": format!("{class}: {message}\n\tat x"),
                "serialized-throwable": "rO0AB",
            });
        }
        json!({"status": {"id": "COMPLETED"}, "job-execution-result": result})
    }
}

const SUSPENDED: &str = "Checkpoint Coordinator is suspending.";

fn checkpoint_exception(reason: &str) -> (String, String) {
    let text = format!("{CHECKPOINT_EXCEPTION}: {reason}\n\tat org.apache.flink.X");
    (CHECKPOINT_EXCEPTION.to_owned(), text)
}

/// Returns class and text of the failure of an operation on a job without an execution graph.
pub(super) fn unavailable() -> (String, String) {
    let class = "org.apache.flink.runtime.dispatcher.UnavailableDispatcherOperationException";
    let text = "Unable to get JobMasterGateway for initializing job. The requested operation is not available while \
                the JobManager is initializing.";
    (class.to_owned(), format!("{class}: {text}\n\tat x"))
}

/// Returns class and text of the failure of an operation on a missing job.
pub(crate) fn job_not_found(id: &str) -> (String, String) {
    let cause = format!(
        "org.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job ({id})"
    );
    let class = "java.util.concurrent.CompletionException";
    (class.to_owned(), format!("{class}: {cause}\n\tat x\nCaused by: {cause}\n\tat x"))
}

impl Triggered {
    fn is_stop(&self) -> bool {
        matches!(self, Self::Stop { .. })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Savepoint { .. } => "SAVEPOINT",
            Self::Stop { .. } => "SYNC_SAVEPOINT",
            Self::Checkpoint => "CHECKPOINT",
        }
    }
}

impl Snapshot {
    fn failed(&self) -> Value {
        let mut json = self.json();
        json["status"] = "FAILED".into();
        json["external_path"] = Value::Null;
        json
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "className": "completed", "id": self.id, "status": "COMPLETED",
            "is_savepoint": self.kind != "CHECKPOINT",
            "savepointFormat": if self.kind == "CHECKPOINT" { Value::Null } else { json!("CANONICAL") },
            "trigger_timestamp": self.time, "latest_ack_timestamp": self.time + 20,
            "checkpointed_size": 7144, "state_size": 7144, "end_to_end_duration": 20,
            "alignment_buffered": 0, "processed_data": 0, "persisted_data": 0, "num_subtasks": 2,
            "num_acknowledged_subtasks": 2, "checkpoint_type": self.kind, "tasks": {},
            "external_path": self.path, "discarded": self.is_discarded,
        })
    }
}
