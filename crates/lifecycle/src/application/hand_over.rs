//! The hand-over of a hot upgrade: standby pods take over from a cluster that is being stopped, or are removed.
//!
//! Nothing leads from the moment in which the old JobManager is stopped until nothing of the old cluster is left: the
//! operator holds the lock of the JobManagers, and renews that in each pass. Contenders wait for as long as they are
//! configured to, counted from the last renewal. Then HA metadata is read again, the lock is released, and the
//! Deployments are created once the lock's holder has turned out to be the standby JobManager. If that one has taken
//! the lock while no operator renewed it, and nothing of the old cluster is left, this counts as the release.
//!
//! Standby pods that are not to take over, because the spec was changed, the job suspended or the resource deleted, are
//! removed at once. Nothing is started, and the lock is not released, before they are gone. As long as they may exist,
//! the status says so.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::kind::Maybe;
use crate::notes::{HANDED_OVER, PREFLIGHT, Standby, Trial, standby_of};
use crate::pass::DeploymentPass;
use crate::pauses::{HANDOVER, SOON};
use crate::phase::Phase;
use crate::plan::{ClusterStep, Plan, Step};
use crate::problem::{Halt, NOT_CARRIED_OUT, Problem};
use crate::verdict::outcome::Outcome;
use crate::wait::Awaited;
use crate::world::{Leader, StandbyPod};
use api::job::JobState;
use api::status::{JobManagerDeploymentStatus, ReconciliationState};
use config::options;
use state::restore_point::RestorePoint;

/// Longest pause until the lock is renewed.
const RENEWAL: Duration = Duration::from_secs(3);
/// A lock is renewed this often before those who wait for it may take it.
const RENEWALS: u32 = 5;
/// How long after the release of the lock a new leader is waited for. The Deployments are then created all the same,
/// and show what is wrong with the pods.
const LEAD_PATIENCE: SignedDuration = SignedDuration::from_mins(1);

impl DeploymentPass<'_> {
    /// Returns true if pods stand by to take over from what is now stopped.
    pub(crate) fn stands_by(&self) -> bool {
        standby_of(&self.status.cluster_info).is_some()
    }

    /// Returns true if they are about to take over, and must not be removed.
    pub(crate) fn is_taking_over(&self) -> bool {
        self.stands_by()
            && self.status.reconciliation_status.state == ReconciliationState::Upgrading
            && self.desired_state() == JobState::Running
            && self.world.metadata().deletion_timestamp.is_none()
    }

    /// Returns the run whose pods stand by, if they are of exactly the desired spec.
    fn wanted_run(&self) -> Result<Option<String>, Halt> {
        let Some(Standby { digest, run, .. }) = standby_of(&self.status.cluster_info) else {
            return Ok(None);
        };
        if !self.is_taking_over() {
            return Ok(None);
        }
        let standby = self.standby(&self.spec, &self.spec, &run)?;
        let is_it = matches!(standby, Some(Ok(standby)) if standby.digest == digest);
        Ok(is_it.then_some(run))
    }

    /// Returns true if there may be pods that contend for the lock of the JobManagers, or that no Deployment owns.
    fn may_have_standby(&self) -> bool {
        let info = &self.status.cluster_info;
        HANDED_OVER.get(info).is_some() || PREFLIGHT.get(info).is_some_and(|it| it.may_contend())
    }

    /// Holds the lock while nothing may lead, and removes standby pods that are not to take over. Called early in a
    /// pass, because these pods would lead as soon as the lock expires.
    pub(crate) fn keep_standby_in_check(&mut self) -> Result<(), Halt> {
        let Some(last) = self.last.clone().filter(|_| self.may_have_standby()) else {
            return Ok(());
        };
        match Phase::of_record(&self.status, last.job_state()) {
            Phase::Starting | Phase::RollingBack => {
                let Outcome { violations, hold } = self.judge()?;
                if !violations.is_empty() || hold.is_some() {
                    // The spec on record is still the one to start.
                    self.keep_in_force(&last.spec);
                }
                self.hold_or_remove()
            }
            Phase::New
            | Phase::Unreadable
            | Phase::Running
            | Phase::Stopping
            | Phase::Cancelling
            | Phase::Suspended
            | Phase::RolledBack
            | Phase::Deleting => self.settle_handed_over(),
        }
    }

    fn hold_or_remove(&mut self) -> Result<(), Halt> {
        self.wake_for_renewal();
        let run = self.wanted_run()?;
        self.hold_unless_it_leads(run.is_some())?;
        if run.is_some() {
            self.hold_if_led_by_another()?;
        } else if PREFLIGHT.get(&self.status.cluster_info).is_some_and(|it| it.may_contend()) {
            PREFLIGHT.set(&mut self.status.cluster_info, &Trial::LeftOver);
        }
        let pods = self.standby_pods()?;
        let is_left = pods.iter().any(|pod| Some(&pod.run) != run.as_ref());
        if is_left {
            self.remove_standby_pods(run.clone());
        }
        self.own.standby_is_left = Some(is_left);
        if run.is_none() && !is_left {
            self.forget_standby();
        }
        Ok(())
    }

    /// Holds the lock until it is released for the standby JobManager. That one may lead before, if nobody has renewed
    /// the lock for as long as it waits. It keeps the lead if it is to take over, and nothing of the old cluster is left.
    /// With old TaskManagers left, its job may run on them, and would fail when they end.
    fn hold_unless_it_leads(&mut self, is_wanted: bool) -> Result<(), Halt> {
        let Some(standby) = standby_of(&self.status.cluster_info) else { return Ok(()) };
        if standby.leads.is_some() {
            return Ok(());
        }
        // If one of these cannot be read, the operator holds the lock.
        let keeps = is_wanted
            && self.world.pods()?.is_ok_and(Vec::is_empty)
            && self.world.task_manager_pods()?.is_ok_and(Vec::is_empty)
            && self.world.leader()?.is_ok_and(|it| *it == Leader::Standby);
        if keeps {
            self.note_lead(standby, Some(self.world.now));
        } else {
            self.hold_leadership();
        }
        Ok(())
    }

    /// Notes since when the standby JobManager may lead.
    fn note_lead(&mut self, standby: Standby, leads: Option<Timestamp>) {
        let trial = Trial::StandingBy(Standby { leads, ..standby });
        PREFLIGHT.set(&mut self.status.cluster_info, &trial);
    }

    /// Holds the lock again if it was released for the standby JobManager, and another one has taken it.
    fn hold_if_led_by_another(&mut self) -> Result<(), Halt> {
        let Some(standby) = standby_of(&self.status.cluster_info) else { return Ok(()) };
        if standby.leads.is_none() || self.leader()? != Leader::Other {
            return Ok(());
        }
        self.note_lead(standby, None);
        self.hold_leadership();
        Ok(())
    }

    /// A cluster is there: what was handed over to it is left to it, once its Deployments have adopted all of that.
    fn settle_handed_over(&mut self) -> Result<(), Halt> {
        // Without its Deployment, what was handed over and not adopted is left over, too.
        let is_lost =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing;
        let pods = self.standby_pods()?;
        let is_left = pods.iter().any(|pod| !pod.is_handed_over || is_lost && !pod.is_adopted);
        let has_adopted = pods.iter().any(|pod| pod.is_handed_over && pod.is_adopted);
        let is_handed_over = pods.iter().any(|pod| pod.is_handed_over);
        self.own.standby_is_left = Some(is_left);
        if has_adopted {
            self.steps.push(Step::Own(ClusterStep::DisownStandby));
        }
        if !is_handed_over {
            HANDED_OVER.clear(&mut self.status.cluster_info);
        }
        if is_left || is_handed_over {
            self.wake_within(SOON);
        }
        Ok(())
    }

    pub(crate) fn standby_pods(&self) -> Result<&[StandbyPod], Halt> {
        self.world
            .standby_pods()?
            .map(Vec::as_slice)
            .map_err(|reason| Halt::cannot(format!("the standby pods cannot be read: {reason}")))
    }

    fn leader(&self) -> Result<Leader, Halt> {
        self.world.leader()?.copied().map_err(|reason| {
            Halt::cannot(format!("it cannot be read who leads the JobManagers: {reason}"))
        })
    }

    /// Schedules the next pass in time to renew the lock.
    fn wake_for_renewal(&mut self) {
        let configs = [self.observe_config(), self.deploy_config(&self.spec, self.generation)];
        let leases = configs.iter().flatten();
        let leases = leases.filter_map(|it| it.get(&options::HA_LEADER_LEASE_DURATION).ok());
        let renewals = leases.map(|lease| lease / RENEWALS);
        self.wake_within(renewals.fold(RENEWAL, Duration::min));
    }

    pub(crate) fn hold_leadership(&mut self) {
        let step = Step::Own(ClusterStep::HoldLeadership);
        if !self.steps.contains(&step) {
            self.steps.push(step);
        }
    }

    /// Holds the lock if standby pods may exist and none leads that should, because what leads is about to be stopped.
    pub(crate) fn hold_before_stop(&mut self) {
        let standby = standby_of(&self.status.cluster_info);
        let leads = self.is_taking_over() && standby.is_some_and(|it| it.leads.is_some());
        if self.may_have_standby() && !leads {
            self.hold_leadership();
        }
    }

    fn remove_standby_pods(&mut self, except: Option<String>) {
        self.hold_before_stop();
        self.steps.push(Step::Own(ClusterStep::RemoveStandby { except }));
    }

    fn forget_standby(&mut self) {
        let info = &mut self.status.cluster_info;
        HANDED_OVER.clear(info);
        if PREFLIGHT.get(info) == Some(Trial::LeftOver) {
            PREFLIGHT.clear(info);
        }
    }

    /// Returns the plan that waits for standby pods that are being removed, before anything else starts.
    pub(crate) fn await_standby_left(&mut self) -> Maybe {
        if self.own.standby_is_left != Some(true) {
            return Ok(None);
        }
        let is_removal = |step: &Step| matches!(step, Step::Own(ClusterStep::RemoveStandby { .. }));
        if !self.steps.iter().any(is_removal) {
            self.wake_for_renewal();
            self.remove_standby_pods(None);
        }
        let is_overdue = |pod: &&StandbyPod| self.is_overdue_since(pod.ending_since);
        let stuck = self.standby_pods()?.iter().filter(is_overdue);
        let names = stuck.map(|pod| pod.name.as_str()).collect::<Vec<_>>().join(", ");
        if !names.is_empty() {
            let message = format!(
                "pods [{names}], which stood by for a spec that is no longer wanted, do not end. \
                 Nothing is started, because they could run the job, too. If their node is gone for \
                 good, delete them with `--force --grace-period=0`"
            );
            self.problem.get_or_insert(Problem {
                detail: Some(NOT_CARRIED_OUT.to_owned()),
                ..Problem::upgrade("PodsLeft", message)
            });
        }
        let pause = self.going();
        let because = "waiting for the pods that stood by to end";
        Ok(Some(self.wait_for(Awaited::StandbyGone, because, pause)))
    }

    /// Removes standby pods in a deletion. They are left alone for as long as the JobManager is needed, which leads.
    /// Returns true if there are any.
    pub(crate) fn remove_standby_in_deletion(
        &mut self,
        is_job_manager_ending: bool,
    ) -> Result<bool, Halt> {
        if !self.may_have_standby() {
            return Ok(false);
        }
        if PREFLIGHT.get(&self.status.cluster_info).is_some_and(|it| it.may_contend()) {
            PREFLIGHT.set(&mut self.status.cluster_info, &Trial::LeftOver);
        }
        let is_left = !self.standby_pods()?.is_empty();
        self.own.standby_is_left = Some(is_left);
        if is_left && is_job_manager_ending {
            self.wake_within(RENEWAL);
            self.remove_standby_pods(None);
        } else if !is_left {
            self.forget_standby();
        }
        Ok(is_left)
    }

    /// Ends the old TaskManagers once no JobManager is left that leads them: one that saw them go while it still takes
    /// itself for the leader would fail a job that has used up its restarts, and delete its HA metadata.
    fn await_old_task_managers(&mut self) -> Maybe {
        let pods = self.task_manager_pods()?;
        if pods.is_empty() {
            return Ok(None);
        }
        if pods.iter().any(|pod| pod.ending_since.is_none()) {
            self.stop_task_managers()?;
        }
        self.report_all_pods_left()?;
        let pause = self.going();
        let because = "waiting for the old TaskManagers to end";
        Ok(Some(self.wait_for(Awaited::TaskManagerPodsGone, because, pause)))
    }

    /// Lets the standby JobManager lead, once the old JobManager has ended and then the old TaskManagers. On these, the
    /// new job would start only to lose them. HA metadata must still name the checkpoint that it named when the old
    /// cluster was stopped, or a newer one.
    pub(crate) fn let_standby_lead(&mut self) -> Maybe {
        let Some(last) = self.last.clone() else { return Ok(None) };
        if self.wanted_run()?.is_none() {
            return Ok(None);
        }
        if let Some(plan) = self.await_old_task_managers()? {
            return Ok(Some(plan));
        }
        match self.next_restore_point(&last) {
            Ok(RestorePoint::HaMetadata) => {}
            // The ordinary start uses another restore point, or none.
            Ok(_) => return Ok(None),
            Err(Halt::Problem(problem)) => return Ok(Some(self.remove_standby(*problem))),
            Err(halt) => return Err(halt),
        }
        self.release_leadership();
        Ok(None)
    }

    /// Releases the lock, and records that first. From now on, whoever gets it runs the new program.
    fn release_leadership(&mut self) {
        let Some(standby) = standby_of(&self.status.cluster_info) else { return };
        if standby.leads.is_none() {
            self.note_lead(standby, Some(self.world.now));
            self.write_intent();
        }
        self.steps.push(Step::Own(ClusterStep::ReleaseLeadership));
    }

    /// Removes the standby pods because nothing may start.
    pub(crate) fn remove_standby(&mut self, problem: Problem) -> Plan {
        let because = problem.message.clone();
        self.problem = Some(problem);
        self.discard_standby(because)
    }

    fn discard_standby(&mut self, because: impl Into<String>) -> Plan {
        PREFLIGHT.set(&mut self.status.cluster_info, &Trial::LeftOver);
        self.remove_standby_pods(None);
        self.go_on(because, SOON)
    }

    /// Has the standby pods take over, which [`Self::let_standby_lead`] may have begun: nothing of the old cluster is
    /// left. Returns the plan that waits; `None` once their Deployments may be created, or if there are none.
    pub(crate) fn settle_standby(&mut self, restore: &RestorePoint) -> Maybe {
        if let Some(plan) = self.await_standby_left()? {
            return Ok(Some(plan));
        }
        if !self.stands_by() {
            return Ok(None);
        }
        let run = self.wanted_run()?.filter(|_| *restore == RestorePoint::HaMetadata);
        let (Some(run), Some(standby)) = (run, standby_of(&self.status.cluster_info)) else {
            let because =
                "removing the standby pods, because the job starts from another restore point";
            return Ok(Some(self.discard_standby(because)));
        };
        if let Some(plan) = self.await_old_task_managers()? {
            return Ok(Some(plan));
        }
        if !self.has_new_leader(&standby)? {
            self.release_leadership();
            let because = "waiting for the new JobManager to lead";
            return Ok(Some(self.wait_for(Awaited::Lead, because, HANDOVER)));
        }
        HANDED_OVER.set(&mut self.status.cluster_info, &run);
        // Some pods may not have been handed over: that is looked up again.
        self.own.standby_is_left = None;
        self.own.run = Some(run);
        Ok(None)
    }

    /// Returns true if the standby JobManager leads, or will not, so that its Deployment has to start another one.
    fn has_new_leader(&self, standby: &Standby) -> Result<bool, Halt> {
        let Some(released) = standby.leads else { return Ok(false) };
        let may_lead = |pod: &StandbyPod| {
            pod.run == standby.run && pod.is_job_manager && pod.ending_since.is_none()
        };
        if !self.standby_pods()?.iter().any(may_lead) {
            return Ok(true);
        }
        Ok(match self.leader()? {
            Leader::Standby => true,
            Leader::Nobody | Leader::Operator | Leader::Unproven | Leader::Other => {
                self.world.now.duration_since(released) > LEAD_PATIENCE
            }
        })
    }
}
