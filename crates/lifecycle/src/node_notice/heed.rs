//! How a pass responds to the notices of nodes: it requests a snapshot, and reports that.

use std::time::Duration;

use super::{Facts, Heed, Notice, described};
use crate::event::{Component, Event};
use crate::kind::Kind;
use crate::pass::Pass;
use crate::plan::SnapshotStep;
use crate::problem::Halt;
use crate::resource::StatusOfJob;
use crate::snapshots::AFTER_TRIGGER;
use crate::trigger::known::{KnownSnapshot, SnapshotKind};
use api::job::JobSpec;
use api::status::JobStatusState;
use config::FlinkConfig;
use config::options::node_notice::{self as options, NoticeSnapshot};

impl<K: Kind> Pass<'_, K> {
    /// Requests a snapshot if a node is about to go and the job's options require one; returns when to look again.
    /// Nodes are not read before that, and if they cannot be read nothing changes.
    pub(crate) fn snapshot_for_node_notices(
        &mut self,
        config: &FlinkConfig,
        (wanted, last, known): (&JobSpec, &JobSpec, &[KnownSnapshot]),
        is_asking: bool,
    ) -> Result<Option<Duration>, Halt> {
        let kind = match config.get(&options::SNAPSHOT)? {
            NoticeSnapshot::Nothing => return Ok(None),
            NoticeSnapshot::Savepoint => SnapshotKind::Savepoint,
            NoticeSnapshot::Checkpoint => SnapshotKind::Checkpoint,
        };
        // Only a snapshot that is a resource can carry the notices that it answers.
        let is_running = self.status.job().state == Some(JobStatusState::Running);
        if !is_running || !self.uses_resources(config) {
            return Ok(None);
        }
        let Ok(nodes) = self.world.nodes()? else { return Ok(None) };
        let facts = Facts {
            now: self.world.now,
            cooldown: config.get(&options::COOLDOWN)?,
            known,
            answered: &self.world.periodic.notices,
            is_asking,
        };
        let unanswered = facts.unanswered(nodes, &config.get(&options::TAINTS)?);
        if unanswered.is_empty() {
            return Ok(None);
        }
        let Ok(pod_nodes) = self.world.pod_nodes()? else { return Ok(None) };
        match facts.heed(unanswered, pod_nodes) {
            Heed::Nothing => Ok(None),
            Heed::Wait(pause) => Ok(Some(pause)),
            Heed::Take(notices) => {
                self.answer(kind, &notices, config, (wanted, last, known));
                Ok(Some(AFTER_TRIGGER))
            }
        }
    }

    fn answer(
        &mut self,
        kind: SnapshotKind,
        notices: &[Notice],
        config: &FlinkConfig,
        (wanted, last, known): (&JobSpec, &JobSpec, &[KnownSnapshot]),
    ) {
        let facts = self.job_facts(config, wanted, last, known);
        // Without a directory, validation has refused it. Before Flink 1.17, checkpoints cannot be triggered.
        let Some(resource) = facts.can_take(kind).then(|| facts.answer_to(kind, notices)).flatten()
        else {
            return;
        };
        let name = resource.metadata.name.as_deref().unwrap_or_default();
        let message = format!(
            "{}: taking a {} of the job as FlinkStateSnapshot `{name}`",
            described(notices),
            kind.into_str()
        );
        self.steps.push(SnapshotStep::Create(Box::new(resource)).into());
        self.emit(Event::normal("NodeNotice", Component::Operator, message));
    }
}
