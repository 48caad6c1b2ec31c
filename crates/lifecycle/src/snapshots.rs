//! Snapshots of a job: requesting them, following those that are not resources, and removing old ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::event::{Component, Event};
use super::history::{Limits, expired, expired_savepoints};
use super::kind::{Kind, Maybe};
use super::pass::Pass;
use super::plan::Step;
use super::plan::{SnapshotStep, TakeSnapshot};
use super::problem::Halt;
use super::resource::StatusOfJob;
use super::snapshot::request::{Request, Wanted};
use super::trigger::known::{Cause, KnownSnapshot, SnapshotKind};
use super::trigger::{JobFacts, savepoint_format, upgrade_resource};
use super::world::Fact;
use super::world::Trigger;
use super::{job, legacy};
use crate::wait::Awaited;
use api::job::JobSpec;
use api::reconciled::{Reconciled, StoredSpec};
use api::state_snapshot::SnapshotState;
use api::status::{JobStatus, JobStatusState, ReconciliationStatus, SnapshotTriggerType};
use config::cluster::savepoint_directory;
use config::{FlinkConfig, options};
use state::references::{CLAIMED, claims, in_job, is_checkpoint, is_same_location};

/// How soon to look again after a snapshot was requested, to schedule the next one.
pub(super) const AFTER_TRIGGER: Duration = Duration::from_secs(5);
/// Maximum number of snapshots removed per pass; each takes a call.
const DELETIONS_MAX: usize = 10;
/// How soon to check again whether a savepoint of the history that something else refers to may be removed. The check
/// reads everything that could refer to it.
const HELD: SignedDuration = SignedDuration::from_mins(5);

impl<K: Kind> Pass<'_, K> {
    /// Returns true if snapshots of this job are resources.
    pub(super) fn uses_resources(&self, config: &FlinkConfig) -> bool {
        self.world.has_snapshot_resources
            && config.get(&options::SNAPSHOT_RESOURCE_ENABLED).unwrap_or(true)
    }

    fn is_answering(&self) -> bool {
        K::is_answering(self)
    }

    /// Requests the snapshots that are due and removes old ones; returns when the next one is due.
    pub(super) fn maintain_snapshots(
        &mut self,
        config: &FlinkConfig,
    ) -> Result<Option<Duration>, Halt> {
        let Some(last) = self.last.as_ref().and_then(|last| last.spec.job().cloned()) else {
            return Ok(None);
        };
        let known = if self.uses_resources(config) {
            match self.world.snapshots()? {
                Ok(known) => known.clone(),
                // Without them, it is unknown when the last one was taken.
                Err(_) => return Ok(None),
            }
        } else {
            Vec::new()
        };
        // The spec of a target is not proven yet. The limits of the serving colour apply.
        if !self.world.is_target {
            self.clean_up(config, &known)?;
        }
        let wanted = self.job();
        let mut next: Option<Duration> = None;
        let mut is_asking = false;
        for kind in SnapshotKind::ALL {
            let facts = self.job_facts(config, &wanted, &last, &known);
            let (due, later) = (facts.due(kind), facts.next_in(kind));
            match due {
                Some(cause) => {
                    self.take_snapshot(kind, cause, config, &last, &known)?;
                    is_asking = true;
                    next = [next, Some(AFTER_TRIGGER)].into_iter().flatten().min();
                }
                None => next = [next, later].into_iter().flatten().min(),
            }
        }
        let is_pending = SnapshotKind::ALL
            .into_iter()
            .any(|kind| legacy::pending(self.status.job(), kind).is_some());
        let check = config.get(&options::OBSERVER_PROGRESS_CHECK_INTERVAL)?;
        let heeded = self.snapshot_for_node_notices(
            config,
            (&wanted, &last, &known),
            is_asking || is_pending,
        )?;
        Ok([next, is_pending.then_some(check), heeded].into_iter().flatten().min())
    }

    pub(super) fn job_facts<'a>(
        &'a self,
        config: &'a FlinkConfig,
        wanted: &'a JobSpec,
        last: &'a JobSpec,
        known: &'a [KnownSnapshot],
    ) -> JobFacts<'a> {
        let created = self.world.metadata().creation_timestamp.as_ref();
        JobFacts {
            now: self.world.now,
            zone: &self.world.zone,
            kind: K::JOB,
            namespace: self.world.namespace(),
            name: self.world.name(),
            uid: self.world.metadata().uid.as_deref().unwrap_or_default(),
            generation: self.generation,
            created: created.map_or(self.world.now, |at| at.0),
            wanted,
            last,
            status: self.status.job(),
            config,
            flink_version: K::flink_version(self),
            memory: &self.world.periodic,
            known,
            is_target: self.world.is_target,
        }
    }

    fn take_snapshot(
        &mut self,
        kind: SnapshotKind,
        cause: Cause,
        config: &FlinkConfig,
        last: &JobSpec,
        known: &[KnownSnapshot],
    ) -> Result<(), Halt> {
        if self.uses_resources(config) {
            let wanted = self.job();
            let facts = self.job_facts(config, &wanted, last, known);
            if !facts.was_created(kind, cause) {
                // Without a directory, validation has refused it.
                let Some(resource) = facts.resource(kind, cause) else { return Ok(()) };
                self.steps.push(SnapshotStep::Create(Box::new(resource)).into());
            }
            if let Cause::Manual { nonce } = cause {
                self.use_nonce(kind, Some(nonce));
            }
            return Ok(());
        }
        let savepoint = savepoint_format(config);
        let checkpoint = config.get(&options::CHECKPOINT_TYPE)?;
        let what = match kind {
            SnapshotKind::Savepoint => {
                let Some(directory) = savepoint_directory(config) else { return Ok(()) };
                Wanted::Savepoint { directory, format: savepoint }
            }
            SnapshotKind::Checkpoint => Wanted::Checkpoint(checkpoint),
        };
        let (job_id, trigger_id) = (self.job_id()?, self.trigger_id(kind));
        let job = self.status.job_mut();
        legacy::note(job, kind, cause, &trigger_id, (savepoint, checkpoint), self.world.now);
        self.write_intent();
        let step = SnapshotStep::Take(Box::new(TakeSnapshot {
            kind,
            cause,
            request: Request { job_id, trigger_id, what },
        }));
        self.steps.push(step.into());
        Ok(())
    }

    /// Returns a new id for each of the two snapshots that a pass may request.
    pub(super) fn trigger_id(&self, kind: SnapshotKind) -> String {
        match kind {
            SnapshotKind::Savepoint => self.world.fresh.trigger_id.clone(),
            SnapshotKind::Checkpoint => self.world.fresh.job_id.clone(),
        }
    }

    /// Marks the nonce as used up, by storing it with the reconciled spec.
    fn use_nonce(&mut self, kind: SnapshotKind, nonce: Option<i64>) {
        let was_stable = self.is_stable();
        let Some(mut last) = self.last.as_deref().cloned() else { return };
        if let Some(job) = last.spec.job_mut() {
            kind.set_nonce(job, nonce);
        }
        let last = job::store(self.status.reconciliation_mut(), None, last);
        self.last = Some(Arc::new(last));
        if was_stable {
            self.mark_stable();
        }
    }

    /// Returns the nonce that requested the snapshot in progress; after a start of the operator, the desired one is
    /// assumed.
    fn nonce_of(&self, kind: SnapshotKind, pending: &legacy::Pending) -> Option<i64> {
        let asked = self.world.periodic.nonce_of(&pending.trigger_id);
        asked.or_else(|| kind.nonce(&self.job()))
    }

    /// Updates the status from the snapshots of the job's own bookkeeping.
    pub(super) fn observe_triggers(&mut self) -> Result<(), Halt> {
        for kind in SnapshotKind::ALL {
            let Some(pending) = legacy::pending(self.status.job(), kind) else { continue };
            let state = self.status.job().state;
            if !self.is_answering() || state != Some(JobStatusState::Running) {
                if K::is_job_over(self) {
                    self.give_up(kind, &pending, "the job is no longer running");
                }
                continue;
            }
            let answer = match kind {
                SnapshotKind::Savepoint => self.world.savepoint()?,
                SnapshotKind::Checkpoint => self.world.checkpoint()?,
            };
            match answer {
                Err(_) | Ok(Trigger::Pending) => {}
                Ok(Trigger::Completed { path, checkpoint: _ }) => {
                    let nonce = self.nonce_of(kind, &pending);
                    let path = path.clone();
                    let job = self.status.job_mut();
                    legacy::complete(job, kind, &pending, path.as_deref(), nonce);
                    if pending.trigger_type == SnapshotTriggerType::Manual {
                        self.use_nonce(kind, nonce);
                    }
                }
                Ok(Trigger::Failed { message }) => {
                    let message = message.clone();
                    self.end_failed(kind, &pending, &message)?;
                }
                Ok(Trigger::NotFound) => {
                    self.end_failed(kind, &pending, "Flink does not know its trigger")?;
                }
            }
        }
        Ok(())
    }

    /// Ends a failed snapshot. Within its grace period its nonce is tried again; later it is given up.
    fn end_failed(
        &mut self,
        kind: SnapshotKind,
        pending: &legacy::Pending,
        message: &str,
    ) -> Result<(), Halt> {
        let config = self.observe_config()?;
        let grace = config.get(match kind {
            SnapshotKind::Savepoint => &options::SAVEPOINT_TRIGGER_GRACE_PERIOD,
            SnapshotKind::Checkpoint => &options::CHECKPOINT_TRIGGER_GRACE_PERIOD,
        })?;
        let age = self.world.now.duration_since(pending.since);
        if SignedDuration::try_from(grace).is_ok_and(|grace| age < grace) {
            self.report_failed_snapshot(kind, pending, message);
            legacy::forget(self.status.job_mut(), kind);
        } else {
            self.give_up(kind, pending, message);
        }
        Ok(())
    }

    fn give_up(&mut self, kind: SnapshotKind, pending: &legacy::Pending, message: &str) {
        self.report_failed_snapshot(kind, pending, message);
        if pending.trigger_type == SnapshotTriggerType::Manual {
            let nonce = self.nonce_of(kind, pending);
            self.use_nonce(kind, nonce);
        }
        legacy::forget(self.status.job_mut(), kind);
    }

    /// Records a completed savepoint of the job as the next restore point. It is shown as a resource, or in the
    /// deprecated history if that kind is not installed.
    pub(super) fn record_savepoint(&mut self, path: &str) {
        let now = self.world.now;
        // Part of the resource's name: after a crash, the same savepoint is the same resource.
        let since = job::stop_since(self.status.job()).unwrap_or(now);
        let format = job::note_savepoint(self.status.job_mut(), path);
        if let Some(config) = self.observe_config().ok().filter(|c| self.uses_resources(c)) {
            let job = (K::JOB, self.world.namespace(), self.world.name());
            let snapshot = upgrade_resource(job, path, format, &config, since);
            self.steps.push(SnapshotStep::Create(Box::new(snapshot)).into());
        } else {
            job::note_in_history(self.status.job_mut(), path, format, now);
        }
    }

    /// Gives up a savepoint to make room for the trigger of a stop-with-savepoint.
    pub(super) fn give_up_savepoint(&mut self, message: &str) {
        let kind = SnapshotKind::Savepoint;
        if let Some(pending) = legacy::pending(self.status.job(), kind) {
            self.give_up(kind, &pending, message);
        }
    }

    fn report_failed_snapshot(
        &mut self,
        kind: SnapshotKind,
        pending: &legacy::Pending,
        message: &str,
    ) {
        let (reason, what, nonce) = match kind {
            SnapshotKind::Savepoint => ("SavepointError", "Savepoint", "savepointTriggerNonce"),
            SnapshotKind::Checkpoint => ("CheckpointError", "Checkpoint", "checkpointTriggerNonce"),
        };
        let cause = match (pending.trigger_type, self.nonce_of(kind, pending)) {
            (SnapshotTriggerType::Manual, Some(value)) => format!("{nonce}: {value}"),
            (SnapshotTriggerType::Manual, None) => format!("a {nonce}"),
            (
                SnapshotTriggerType::Periodic
                | SnapshotTriggerType::Upgrade
                | SnapshotTriggerType::Unknown,
                _,
            ) => "the periodic trigger".to_owned(),
        };
        let message = format!("{what} failed for {cause}: {message}");
        self.emit(Event::warning(reason, Component::Operator, message));
    }

    /// Delays a change of the spec while a savepoint is being taken.
    pub(super) fn hold_for_savepoint(&mut self, last: &Reconciled<K::Spec>) -> Maybe<K> {
        let config = self.observe_config()?;
        let is_pending = legacy::pending(self.status.job(), SnapshotKind::Savepoint).is_some();
        let is_free = config.get(&options::JOB_UPGRADE_IGNORE_PENDING_SAVEPOINT)?;
        if !is_pending || is_free || self.status.job().state != Some(JobStatusState::Running) {
            return Ok(None);
        }
        let because = "the change waits for the savepoint in progress";
        self.meanwhile(last, Awaited::Savepoint, because).map(Some)
    }

    fn clean_up(&mut self, config: &FlinkConfig, known: &[KnownSnapshot]) -> Result<(), Halt> {
        let is_enabled = config.get(&options::SAVEPOINT_CLEANUP_ENABLED)?;
        self.clean_up_history(config, known, is_enabled)?;
        if !is_enabled {
            return Ok(());
        }
        let mut deletions: Vec<Step<K>> = Vec::new();
        for kind in SnapshotKind::ALL {
            let limits = Limits::of(kind, config, self.world.operator);
            for snapshot in expired(known, kind, limits, self.world.now) {
                if self.may_go(snapshot)? {
                    let KnownSnapshot { name, uid, version, .. } = snapshot.clone();
                    deletions.push(SnapshotStep::Delete { name, uid, version }.into());
                }
            }
        }
        if !deletions.is_empty() {
            self.write_what_is_known();
        }
        self.steps.extend(deletions.into_iter().take(DELETIONS_MAX));
        Ok(())
    }

    /// Writes what was just observed, because it may replace what is removed now. If it were lost in a crash, the
    /// stored status would name a savepoint that no longer exists.
    fn write_what_is_known(&mut self) {
        if self.status != *self.world.status {
            self.write_intent();
        }
    }

    /// Returns true if the snapshot may be removed. If its savepoint is deleted with it, a JobManager has to answer,
    /// and nothing may need the savepoint.
    fn may_go(&self, snapshot: &KnownSnapshot) -> Result<bool, Halt> {
        match &snapshot.path {
            Some(path) if snapshot.is_disposed_of && !path.is_empty() => {
                Ok(self.is_answering() && !self.is_referred_to(path)?)
            }
            Some(_) | None => Ok(true),
        }
    }

    /// Returns true if the job, or a previous version of it, could be started from the savepoint, ignoring its entry in
    /// the history.
    fn is_referred_to(&self, path: &str) -> Result<bool, Halt> {
        let mut status = self.status.job().clone();
        if let Some(info) = &mut status.savepoint_info {
            info.savepoint_history.clear();
        }
        let spec = self.world.spec().job();
        if !in_job(spec, &status, self.status.reconciliation(), path).is_empty() {
            return Ok(true);
        }
        Ok(match self.world.revisions()? {
            Ok(paths) => paths.iter().any(|other| is_same_location(other, path)),
            Err(_) => true,
        })
    }

    /// Returns true if a savepoint of the history can be deleted, and is not needed here or elsewhere.
    fn may_be_disposed_of(&mut self, path: &str) -> Result<bool, Halt> {
        let now = self.world.now;
        let is_held = |at: Timestamp| now.duration_since(at) < HELD;
        if !self.is_answering()
            || self.is_referred_to(path)?
            || self.world.periodic.held.is_some_and(is_held)
            || self.may_be_newest_state(path)?
        {
            return Ok(false);
        }
        let (key, message) = match self.world.references()? {
            Ok(references) => match references.get(path) {
                Some(others) if others.is_empty() => return Ok(true),
                // It was added to the history in this pass.
                None => return Ok(false),
                Some(others) => {
                    let others = others.join(", ");
                    let why = format!("something could start from it: {others}");
                    (path.to_owned(), format!("savepoint `{path}` is kept because {why}"))
                }
            },
            Err(reason) => {
                let what = "old savepoints in the status are kept: could not determine what \
                            refers to them";
                (what.to_owned(), format!("{what}: {reason}"))
            }
        };
        let mut event = Event::warning("SavepointKept", Component::Snapshot, message);
        event.key = Some(key);
        self.emit(event);
        Ok(false)
    }

    /// Returns true if the job might have to restore the savepoint: Flink's statistics name even a deleted one, until
    /// there is newer state.
    fn may_be_newest_state(&self, path: &str) -> Result<bool, Halt> {
        let Ok(checkpoints) = self.world.checkpoints()? else { return Ok(true) };
        let latest = checkpoints.latest.as_ref();
        Ok(latest.is_some_and(|latest| is_same_location(&latest.path, path)))
    }

    /// Reduces the deprecated history by what the resources hold.
    fn clean_up_history(
        &mut self,
        config: &FlinkConfig,
        known: &[KnownSnapshot],
        is_enabled: bool,
    ) -> Result<(), Halt> {
        let history = match &self.status.job().savepoint_info {
            Some(info) if !info.savepoint_history.is_empty() => info.savepoint_history.clone(),
            Some(_) | None => return Ok(()),
        };
        let completed = known.iter().filter(|snapshot| {
            snapshot.kind == SnapshotKind::Savepoint && snapshot.state == SnapshotState::Completed
        });
        let limits = Limits::of(SnapshotKind::Savepoint, config, self.world.operator);
        let old = expired_savepoints(&history, completed.count(), limits, self.world.now);
        let claims = claims(config);
        let (mut gone, mut steps) = (Vec::new(), Vec::new());
        for (savepoint, is_in_order) in old.into_iter().take(DELETIONS_MAX) {
            let path = savepoint.location.clone().unwrap_or_default();
            if is_enabled && claims {
                let message = format!("savepoint `{path}` is kept: {CLAIMED}");
                self.emit(Event::warning("SavepointKept", Component::Snapshot, message));
            } else if is_enabled && !path.is_empty() && !is_checkpoint(&path) {
                if !self.may_be_disposed_of(&path)? {
                    if is_in_order {
                        break;
                    }
                    continue;
                }
                steps.push(SnapshotStep::Dispose { path: path.clone(), is_in_order }.into());
            }
            gone.push(path);
        }
        if !steps.is_empty() {
            self.write_what_is_known();
            self.steps.append(&mut steps);
        }
        if let Some(info) = &mut self.status.job_mut().savepoint_info {
            info.savepoint_history
                .retain(|entry| !gone.contains(&entry.location.clone().unwrap_or_default()));
        }
        Ok(())
    }
}

/// Returns true if something else refers to savepoints of the history, or may.
pub fn are_held(references: &Fact<BTreeMap<String, Vec<String>>>) -> bool {
    match references {
        Fact::NotAsked => false,
        Fact::Unknown(_) => true,
        Fact::Known(references) => references.values().any(|others| !others.is_empty()),
    }
}

/// Reverts that nonces were used up whose snapshots were `refused`, so that they are tried again.
pub fn restore_refused_nonces<S: StoredSpec>(
    end: &mut ReconciliationStatus,
    before: &ReconciliationStatus,
    refused: &[SnapshotKind],
) {
    let stored = |status: &ReconciliationStatus| {
        status.last_reconciled_spec.as_deref().and_then(|text| Reconciled::<S>::parse(text).ok())
    };
    if refused.is_empty() {
        return;
    }
    let (Some(mut last), Some(before)) = (stored(end), stored(before)) else { return };
    let is_stable = end.last_stable_spec == end.last_reconciled_spec;
    if let (Some(job), Some(before)) = (last.spec.job_mut(), before.spec.job()) {
        for kind in refused {
            kind.set_nonce(job, kind.nonce(before));
        }
    }
    end.last_reconciled_spec = Some(last.to_text());
    if is_stable {
        end.last_stable_spec.clone_from(&end.last_reconciled_spec);
    }
}

/// Restores the entries of the history that could not be disposed of.
pub fn restore_undisposed_entries(job: &mut JobStatus, before: &JobStatus, undisposed: &[String]) {
    let entries = before.savepoint_info.iter().flat_map(|info| &info.savepoint_history);
    let mut kept: Vec<_> = entries
        .filter(|entry| entry.location.as_ref().is_some_and(|path| undisposed.contains(path)))
        .cloned()
        .collect();
    if let (false, Some(info)) = (kept.is_empty(), &mut job.savepoint_info) {
        kept.append(&mut info.savepoint_history);
        kept.sort_by_key(|entry| entry.time_stamp);
        info.savepoint_history = kept;
    }
}
