//! Looks at all resources and outputs every second: what changes, who is silent, what is written twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::check::{Silences, is_carried_out};
use super::colours::Colours;
use super::output::Output;
use super::plan::Target;
use super::stage::{KINDS, Stage};

const POLL_EVERY: Duration = Duration::from_secs(1);
/// Time for the other operator to lead, and to catch up, after the operator could not write.
const HANDED_OVER: f64 = 30.0;
/// Records that are there again and are noted one by one, of each look.
const NOTED_MAX: usize = 5;

/// The output of a job, and for how long it got nothing.
pub(super) struct Written {
    pub(super) target: Target,
    pub(super) output: Output,
    pub(super) longest_gap: f64,
    grew: f64,
}

/// What was seen until the end.
pub(super) struct Statuses {
    pub(super) written: Vec<Written>,
    pub(super) silences: Silences,
    /// Name and seconds of each resource that was silent for too long.
    pub(super) silent: Vec<(String, f64)>,
    pub(super) changes: usize,
    pub(super) upgrades: usize,
    last: BTreeMap<String, String>,
    muted_at: f64,
}

impl Statuses {
    pub(super) fn new(stage: &Stage) -> Self {
        let of = |target: Target| Written {
            target,
            output: Output::of(stage.cluster.data().join(target.name())),
            longest_gap: 0.0,
            grew: 0.0,
        };
        let with_job = Target::ALL.into_iter().filter(|target| *target != Target::Lab);
        Self {
            written: with_job.map(of).collect(),
            silences: Silences::default(),
            silent: Vec::new(),
            changes: 0,
            upgrades: 0,
            last: BTreeMap::new(),
            muted_at: f64::NEG_INFINITY,
        }
    }

    /// Looks until it is over.
    pub(super) fn watch(mut self, stage: &Stage, colours: &Colours, is_over: &AtomicBool) -> Self {
        while !is_over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            stage.operators.tend();
            self.inspect(stage, colours);
            thread::sleep(POLL_EVERY.saturating_sub(begun.elapsed()));
        }
        self.read(stage);
        self
    }

    fn inspect(&mut self, stage: &Stage, colours: &Colours) {
        // Before the resources: what is written later may be promised twice.
        self.read(stage);
        let mut seen = Vec::new();
        for kind in KINDS {
            match stage.list(kind) {
                Ok(listed) => seen.extend(listed),
                // Nobody can tell anything while the API server does not answer.
                Err(_) => return self.mute(stage),
            }
        }
        if stage.is_mute() {
            self.mute(stage);
        }
        let now = stage.history.elapsed().as_secs_f64();
        let is_mute = now < self.muted_at + HANDED_OVER;
        let names: Vec<String> = seen.iter().map(name_of).collect();
        self.silences.keep_only(&names);
        for (resource, name) in seen.iter().zip(&names) {
            self.note_change(stage, resource, name);
            if let Some(seconds) = self.silences.inspect(now, name, resource, is_mute) {
                stage.history.emit("silent", name, json!({"status": resource["status"]}));
                self.silent.push((name.clone(), seconds));
            }
        }
        for gone in self.last.keys().filter(|name| !names.contains(name)) {
            stage.history.note("gone", gone, Value::Null);
        }
        self.last.retain(|name, _| names.contains(name));
        let output = self.written.iter_mut().find(|it| it.target == Target::Colours).unwrap();
        // Those that were committed while the resources were read are not yet among the marks of a calm time.
        let before = output.output.latest().clone();
        let again = output.output.inspect();
        colours.inspect(stage, &seen, before, output.output.marks());
        note_again(stage, Target::Colours, &again);
    }

    fn mute(&mut self, stage: &Stage) {
        self.muted_at = stage.history.elapsed().as_secs_f64();
    }

    fn read(&mut self, stage: &Stage) {
        for written in &mut self.written {
            let before = written.output.records();
            let again = written.output.inspect();
            note_again(stage, written.target, &again);
            let now = stage.history.elapsed().as_secs_f64();
            // Until the first one the job has only just been created.
            if before > 0 {
                written.longest_gap = written.longest_gap.max(now - written.grew);
            }
            if before == 0 || written.output.records() > before {
                written.grew = now;
            }
        }
    }

    fn note_change(&mut self, stage: &Stage, resource: &Value, name: &str) {
        let status = &resource["status"];
        let job = &status["jobStatus"];
        let shown = json!({
            "generation": resource["metadata"]["generation"],
            "observed": status["observedGeneration"],
            "lifecycle": status["lifecycleState"],
            "jobManager": status["jobManagerDeploymentStatus"],
            "job": job["state"],
            "jobId": job["jobId"],
            "from": job["upgradeSavepointPath"],
            "colour": status["blueGreenState"],
            "snapshot": status["state"],
            "error": status["error"],
            "conditions": status["conditions"],
            "recorded": status["reconciliationStatus"]["state"],
            "deleted": resource["metadata"]["deletionTimestamp"],
            "wanted": resource["spec"]["job"]["state"],
        });
        let text = shown.to_string();
        let before = self.last.insert(name.to_owned(), text.clone());
        if before.as_ref() == Some(&text) {
            return;
        }
        self.changes += 1;
        let is_stopped = |text: &str| text.contains(r#""lifecycle":"UPGRADING""#);
        self.upgrades +=
            usize::from(is_stopped(&text) && !before.is_some_and(|it| is_stopped(&it)));
        let mut details = shown;
        details.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        details["carriedOut"] = json!(is_carried_out(resource));
        stage.history.note("status", name, details);
    }
}

fn note_again(stage: &Stage, target: Target, again: &[super::output::Again]) {
    for one in again.iter().take(NOTED_MAX) {
        let details = json!({
            "key": one.key, "sequence": one.sequence, "times": one.times, "file": one.file, "of": again.len(),
        });
        stage.history.note("again", target.name(), details);
    }
}

/// Returns `KIND/NAME`.
fn name_of(resource: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&resource["kind"]), text(&resource["metadata"]["name"]))
}
