//! What the operator decides in the world of a session cluster, and does to it.

use super::*;

impl Operated for Session {
    operated!(FlinkDeployment, DeploymentStatus);

    fn is_in_conflict(&self, step: &Step, known: &Self::Stored) -> bool {
        is_in_conflict(step, &Operated::stored(self), known)
    }

    fn stored(&self) -> Stored<DeploymentStatus> {
        (self.resource.metadata.generation, self.status.clone())
    }

    fn plan(&mut self) -> Plan {
        self.is_paused = false;
        self.is_deletion_known = self.resource.metadata.deletion_timestamp.is_some();
        let fresh = Fresh { job_id: self.id(), trigger_id: self.id(), uuid: self.id() };
        let mut facts = Facts { stopped_at: self.upheaval.stopped_at.clone(), ..Facts::default() };
        let mut memo = Memo::default();
        for _ in 0..15 {
            let world = World {
                fresh: fresh.clone(),
                waits: self.upheaval.waits,
                facts: facts.clone(),
                memo: std::mem::take(&mut memo),
                ..World::new(
                    self.now + self.upheaval.skew,
                    (&self.resource, &self.status),
                    None,
                    &self.operator,
                )
            };
            let decision = decide(&world);
            memo = world.memo;
            match decision {
                Ok(plan) => {
                    assert_names_its_wait(&self.status, &plan);
                    self.upheaval.waits = plan.waits;
                    return plan;
                }
                Err(question) => self.answer(question, &mut facts),
            }
        }
        panic!("no decision after fifteen questions: {facts:?}");
    }

    /// Carries out a step; returns whether to continue with the next one.
    fn take(&mut self, step: &Step) -> bool {
        if self.upheaval.stops(step) {
            return false;
        }
        match step {
            Step::AddFinalizer => {
                let finalizer = api::DEPLOYMENT_FINALIZER.to_owned();
                self.resource.metadata.finalizers = Some(vec![finalizer]);
            }
            Step::RemoveFinalizer => self.resource.metadata.finalizers = None,
            Step::WriteStatus(status) => store_deployment(&mut self.status, (**status).clone()),
            Step::Event(_) | Step::RecordRevision(_) => {}
            Step::Own(ClusterStep::ApplyIngress(_)) => self.ingresses_moved += 1,
            Step::Own(ClusterStep::MakePreflight(preflight)) => {
                self.trial.make(preflight, self.now, false);
            }
            Step::Own(ClusterStep::RemovePreflight) => self.trial.remove(),
            Step::Own(ClusterStep::StopJobManager { uid, .. }) => {
                self.assert_loses_no_job();
                self.assert_stops_no_stop();
                let found = self.job_manager.as_mut().filter(|jm| jm.uid == *uid);
                if let Some(job_manager) = found {
                    job_manager.is_stopped = true;
                    job_manager.is_deleting = true;
                    job_manager.available_replicas = 0;
                    self.pods_linger = 3;
                    self.pods_ending_since = self.now;
                    self.end_jobs_that_nothing_keeps();
                }
            }
            Step::Own(ClusterStep::DeleteJobManager { uid }) => {
                if self.job_manager.as_ref().is_some_and(|jm| jm.uid == *uid) {
                    self.delete_job_manager();
                }
            }
            Step::Own(ClusterStep::DeleteTaskManagers { uid }) => {
                if self.workers.as_ref().is_some_and(|workers| workers.fact.uid == *uid) {
                    self.assert_ends_no_job();
                }
                if let Some(workers) = self.workers.as_mut().filter(|w| w.fact.uid == *uid) {
                    workers.fact.is_deleting = true;
                }
            }
            Step::Own(ClusterStep::ScaleTaskManagers { uid: _, replicas }) => {
                assert!(self.workers.is_some(), "nothing to scale");
                self.replicas = *replicas;
            }
            Step::Own(ClusterStep::DeleteHaMetadata { .. }) => {
                let is_deleting = self.resource.metadata.deletion_timestamp.is_some();
                let law = Law::SessionClusterJobs;
                assert!(is_deleting, "{law}: HA metadata is what brings the jobs back");
                self.has_ha_metadata = false;
            }
            Step::Own(ClusterStep::FinishCluster(objects)) => self.finish(objects),
            Step::Own(ClusterStep::CreateCluster(objects)) => self.create(objects),
            Step::Snapshot(_)
            | Step::TriggerStop { .. }
            | Step::ScaleJob { .. }
            | Step::CancelJob { .. }
            | Step::Own(
                ClusterStep::ForgetJobGraphs { .. }
                | ClusterStep::HoldLeadership
                | ClusterStep::ReleaseLeadership
                | ClusterStep::RemoveStandby { .. }
                | ClusterStep::DisownStandby
                | ClusterStep::StopTaskManagers { .. },
            ) => {
                panic!("{:?} is about a job", names(std::slice::from_ref(step)))
            }
        }
        true
    }

    fn conclude(&mut self, plan: &Plan) {
        let mut end = (*plan.status).clone();
        self.upheaval.note_unfinished(&mut end);
        if !self.upheaval.stops_at(Refused::Status) {
            store_deployment(&mut self.status, end);
        }
    }

    fn die(&mut self) {
        self.upheaval.forget();
    }

    fn note_pause(&mut self) {
        self.is_paused = true;
    }

    fn note_stale(&mut self) {
        self.is_deletion_known = false;
    }

    fn go_on(&mut self) {
        self.tick();
    }

    fn second(&mut self, choices: &mut Choices) {
        self.tick();
        if choices.below(12) == 0 {
            self.misfortune(choices);
        }
        if choices.below(12) == 0 {
            self.upheave(choices);
        }
        if choices.below(6) == 0 {
            self.stir(choices);
        }
    }
}
