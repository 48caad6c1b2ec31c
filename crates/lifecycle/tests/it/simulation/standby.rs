//! Pods of a changed spec that stand by in the world of a standalone deployment, and the lock for which the JobManagers
//! contend.

use api::{PREFLIGHT_ANNOTATION, STANDBY_ANNOTATION};
use lifecycle::notes::standby_of;
use lifecycle::world::{Leader, PreflightPod, PreflightState, StandbyPod};
use render::preflight::{Preflight, ROLE_LABEL};

use super::*;

/// Who holds the lock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Holder {
    /// The JobManager of the Deployment.
    #[default]
    Deployed,
    Operator,
    /// The JobManager that stands by.
    Standby,
    Nobody,
}

#[derive(Clone, Debug)]
struct SimulatedPod {
    known: StandbyPod,
    digest: String,
    created: Timestamp,
    /// Seconds until it is ready.
    ready_in: u64,
    /// Seconds until it is gone, once its deletion is requested.
    ends_in: Option<u64>,
    is_broken: bool,
}

impl SimulatedPod {
    fn is_ready(&self) -> bool {
        self.ready_in == 0 && !self.is_broken && self.known.ending_since.is_none()
    }

    fn seen(&self) -> PreflightPod {
        let state = match () {
            () if self.known.ending_since.is_some() => PreflightState::Over,
            () if self.is_broken => PreflightState::Troubled(no_such_image()),
            () if self.is_ready() => PreflightState::Passed,
            () => PreflightState::Pending,
        };
        PreflightPod {
            name: self.known.name.clone(),
            digest: self.digest.clone(),
            created: Some(self.created),
            state,
        }
    }
}

#[derive(Clone)]
pub(super) struct Standby {
    pods: Vec<SimulatedPod>,
    /// What their JobManager starts once it leads.
    launch: Option<Launch>,
    /// Whether there are ConfigMaps with a lock.
    has_lock: bool,
    holder: Holder,
    renewed: Timestamp,
    /// Seconds after which a lock that is not renewed may be taken.
    pub(super) lease: i64,
    /// Whether the job is that of the JobManager which stands by, or stood by until its Deployment was created.
    pub(super) runs_job: bool,
    /// Whether that job started when there were TaskManagers of the old cluster.
    is_on_old: bool,
    /// Seconds until the TaskManagers of a Deployment without replicas are gone.
    pub(super) workers_end_in: Option<u64>,
    /// Number of times that a JobManager which stood by has taken the lead.
    pub(super) taken_over: usize,
}

impl Default for Standby {
    fn default() -> Self {
        Self {
            pods: vec![],
            launch: None,
            has_lock: false,
            holder: Holder::default(),
            renewed: Timestamp::UNIX_EPOCH,
            lease: 15,
            runs_job: false,
            is_on_old: false,
            workers_end_in: None,
            taken_over: 0,
        }
    }
}

impl Standby {
    pub(super) fn known(&self) -> Vec<StandbyPod> {
        self.pods.iter().map(|pod| pod.known.clone()).collect()
    }

    /// Returns those that try the spec still.
    pub(super) fn trial(&self) -> impl Iterator<Item = PreflightPod> {
        self.pods.iter().filter(|pod| !pod.known.is_handed_over).map(SimulatedPod::seen)
    }

    /// Returns those of a role that have the labels of the cluster's pods, and no Deployment.
    pub(super) fn handed_over(&self, is_job_manager: bool) -> impl Iterator<Item = Pod> {
        let is_it = move |pod: &&SimulatedPod| {
            let known = &pod.known;
            known.is_handed_over && !known.is_adopted && known.is_job_manager == is_job_manager
        };
        self.pods.iter().filter(is_it).map(|pod| Pod {
            name: pod.known.name.clone(),
            created: Some(pod.created),
            has_started: pod.ready_in == 0,
            ending_since: pod.known.ending_since,
            ..Pod::default()
        })
    }

    fn has_job_manager(&self, is_it: impl Fn(&SimulatedPod) -> bool) -> bool {
        self.pods.iter().any(|pod| pod.known.is_job_manager && is_it(pod))
    }

    fn has_task_manager(&self, is_it: impl Fn(&SimulatedPod) -> bool) -> bool {
        self.pods.iter().any(|pod| !pod.known.is_job_manager && is_it(pod))
    }

    /// Whether its job runs and has slots.
    pub(super) fn has_slots(&self) -> bool {
        self.runs_job && self.has_task_manager(SimulatedPod::is_ready)
    }

    /// Whether the JobManager of the Deployment may run its job and keep its checkpoints.
    pub(super) fn is_deployed_leading(&self) -> bool {
        matches!(self.holder, Holder::Deployed | Holder::Nobody)
    }

    /// Whether the job's JobManager leads.
    pub(super) fn may_checkpoint(&self) -> bool {
        match self.holder {
            Holder::Standby => self.runs_job,
            Holder::Deployed => !self.runs_job,
            Holder::Operator | Holder::Nobody => false,
        }
    }

    /// Asks pods to end: JobManagers first.
    fn end(&mut self, now: Timestamp, is_meant: impl Fn(&StandbyPod) -> bool) {
        let waits = self.has_job_manager(|pod| is_meant(&pod.known));
        for pod in self.pods.iter_mut().filter(|pod| is_meant(&pod.known)) {
            if !waits || pod.known.is_job_manager {
                pod.known.ending_since.get_or_insert(now);
                pod.ends_in.get_or_insert(3);
            }
        }
    }

    fn remove(&mut self, now: Timestamp, except: Option<&String>) {
        self.end(now, |pod| Some(&pod.run) != except);
    }

    pub(super) fn remove_trial(&mut self, now: Timestamp) {
        self.end(now, |pod| !pod.is_handed_over);
    }

    fn release(&mut self) {
        if self.holder == Holder::Operator {
            self.holder = Holder::Nobody;
        }
    }

    /// Its ConfigMaps are gone.
    pub(super) fn forget_lock(&mut self) {
        self.has_lock = self.runs_job;
        self.holder = if self.runs_job { self.holder } else { Holder::Deployed };
    }

    pub(super) fn hurry(&mut self) {
        for pod in &mut self.pods {
            pod.ready_in = pod.ready_in.min(1);
            pod.ends_in = pod.ends_in.map(|seconds| seconds.min(1));
        }
        self.workers_end_in = self.workers_end_in.map(|seconds| seconds.min(1));
    }

    /// Serializes it, without times that make no difference.
    pub(super) fn text(&self, now: Timestamp) -> String {
        let Self { pods, holder, renewed, lease, runs_job, is_on_old, workers_end_in, .. } = self;
        let age = now.duration_since(*renewed).as_secs().min(lease + 1);
        format!("{pods:?}{holder:?}{age}{runs_job}{is_on_old}{workers_end_in:?}")
    }
}

impl Sim {
    /// Returns a job with hot upgrades.
    pub(super) fn hot() -> Self {
        let mut sim = Self::new("last-state").standalone();
        sim.set("kubernetes.operator.job.upgrade.hot.enabled", "true");
        sim
    }

    /// Carries out a step of a hand-over.
    pub(super) fn take_in_hand_over(&mut self, step: &ClusterStep) {
        match step {
            ClusterStep::StopTaskManagers { uid } => {
                if self.workers.as_ref().is_some_and(|workers| workers.fact.uid == *uid) {
                    self.standby.workers_end_in.get_or_insert(3);
                }
            }
            ClusterStep::HoldLeadership => self.hold_leadership(),
            ClusterStep::ReleaseLeadership => self.standby.release(),
            ClusterStep::RemoveStandby { except } => self.standby.remove(self.now, except.as_ref()),
            // Those that a Deployment has adopted are that Deployment's only.
            ClusterStep::DisownStandby => {
                self.standby.pods.retain(|pod| !pod.known.is_adopted);
            }
            other => unreachable!("{other:?} is no step of a hand-over"),
        }
    }

    pub(super) fn make_standby(&mut self, preflight: &Preflight) {
        let map = &preflight.config_maps[0];
        let image = image_of(&preflight.pods[0]);
        for pod in &preflight.pods {
            let of = |key: &str| {
                pod["metadata"]["annotations"][key].as_str().unwrap_or_default().to_owned()
            };
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            if self.standby.pods.iter().any(|known| known.known.name == name) {
                continue;
            }
            let is_job_manager = pod["metadata"]["labels"][ROLE_LABEL] == "jobmanager";
            self.standby.pods.push(SimulatedPod {
                known: StandbyPod {
                    name,
                    run: of(STANDBY_ANNOTATION),
                    is_job_manager,
                    ..StandbyPod::default()
                },
                digest: of(PREFLIGHT_ANNOTATION),
                created: self.now,
                ready_in: 3,
                ends_in: None,
                is_broken: image == BROKEN_IMAGE,
            });
            if is_job_manager {
                self.standby.launch = Some(Launch::of(map, image.clone(), None));
            }
        }
    }

    /// Returns who leads, as the operator sees it.
    pub(super) fn leader(&self) -> Leader {
        let run = standby_of(&self.status.cluster_info).map(|standby| standby.run);
        let is_of_run = self.standby.has_job_manager(|pod| Some(&pod.known.run) == run.as_ref());
        match self.standby.holder {
            Holder::Nobody => Leader::Nobody,
            Holder::Operator => Leader::Operator,
            Holder::Standby if is_of_run => Leader::Standby,
            Holder::Standby | Holder::Deployed => Leader::Other,
        }
    }

    /// The operator takes the lock, or renews it. Who led is deposed.
    fn hold_leadership(&mut self) {
        if !self.standby.has_lock {
            return;
        }
        if self.standby.holder == Holder::Standby {
            self.end_standby_job();
        }
        self.standby.holder = Holder::Operator;
        self.standby.renewed = self.now;
    }

    fn end_standby_job(&mut self) {
        if std::mem::take(&mut self.standby.runs_job) {
            self.go_back_to_checkpoints();
            self.job = None;
        }
    }

    /// Its TaskManagers end, and a job that is not restarted fails.
    pub(super) fn end_workers(&mut self) {
        if !self.standby.runs_job && self.is_up() || self.standby.is_on_old {
            self.fail_job();
        }
    }

    /// Hands standby pods over to the Deployments that are created next.
    pub(super) fn hand_over(&mut self) {
        let Some(standby) = standby_of(&self.status.cluster_info) else { return };
        for pod in self.standby.pods.iter_mut().filter(|pod| pod.digest == standby.digest) {
            pod.known.is_handed_over = true;
        }
    }

    /// The new Deployment of this role finds pods with its labels. Returns whether one of them is a JobManager that
    /// runs the job.
    pub(super) fn adopt(&mut self, is_job_manager: bool) -> bool {
        for pod in &mut self.standby.pods {
            let known = &mut pod.known;
            known.is_adopted |= known.is_handed_over && known.is_job_manager == is_job_manager;
        }
        let runs = is_job_manager
            && self.standby.runs_job
            && self.standby.has_job_manager(|pod| pod.known.is_adopted && pod.is_ready());
        if runs {
            self.standby.runs_job = false;
            self.standby.holder = Holder::Deployed;
        }
        runs
    }

    /// The pods of a Deployment that ends go with it.
    pub(super) fn end_adopted(&mut self, is_job_manager: bool) {
        self.standby
            .pods
            .retain(|pod| !pod.known.is_adopted || pod.known.is_job_manager != is_job_manager);
    }

    /// Advances the pods and the lock by a second.
    pub(super) fn contend(&mut self) {
        self.tick_standby_pods();
        let standby = self.standby.has_job_manager(|pod| pod.is_ready() && !pod.known.is_adopted);
        let is_renewed = match self.standby.holder {
            Holder::Deployed => self.is_up() || !standby,
            Holder::Standby => standby,
            Holder::Operator | Holder::Nobody => false,
        };
        if is_renewed {
            self.standby.has_lock |= self.is_high_availability_on && (standby || self.is_up());
            self.standby.renewed = self.now;
        }
        // Who was deposed finds out, and stops its job.
        if self.standby.holder != Holder::Deployed && !self.standby.runs_job {
            self.go_back_to_checkpoints();
            self.job.take_if(|job| !job.state.is_globally_terminal());
        }
        let age = self.now.duration_since(self.standby.renewed).as_secs();
        let (is_released, has_expired) =
            (self.standby.holder == Holder::Nobody, age > self.standby.lease);
        if has_expired && !is_released {
            // What its new holder does is not what the operator recorded.
            self.doubt.hide();
        }
        if is_released || has_expired {
            let is_first = self.now.as_second() % 2 == 0;
            match (self.is_up(), standby) {
                (true, true) if is_first => self.lead_as_deployed(),
                (true, false) => self.lead_as_deployed(),
                (_, true) => self.lead_as_standby(),
                (false, false) => {}
            }
        }
        if self.standby.holder == Holder::Deployed && self.is_up() && self.job.is_none() {
            self.flink_start();
        }
    }

    fn lead_as_deployed(&mut self) {
        self.end_standby_job();
        self.standby.holder = Holder::Deployed;
        self.standby.renewed = self.now;
    }

    fn lead_as_standby(&mut self) {
        self.log.push("  the JobManager that stood by leads".to_owned());
        self.go_back_to_checkpoints();
        self.job = None;
        self.standby.holder = Holder::Standby;
        self.standby.renewed = self.now;
        self.standby.runs_job = true;
        self.standby.is_on_old = self.workers.is_some() && self.standby.workers_end_in != Some(0);
        self.standby.taken_over += 1;
        let launch = self.standby.launch.clone().unwrap();
        self.starts += 1;
        self.submit(&launch);
        self.flink_start();
    }

    fn tick_standby_pods(&mut self) {
        let (starts, ends) = (!self.upheaval.starts_no_pods(), !self.upheaval.keeps_pods());
        for pod in &mut self.standby.pods {
            pod.ready_in -= u64::from(starts).min(pod.ready_in);
            if ends {
                pod.ends_in = pod.ends_in.map(|seconds| seconds.saturating_sub(1));
            }
        }
        let any = |_: &SimulatedPod| true;
        let had_job_manager = self.standby.has_job_manager(any);
        let had_task_manager = self.standby.has_task_manager(any);
        self.standby.pods.retain(|pod| pod.ends_in != Some(0));
        if had_job_manager && !self.standby.has_job_manager(any) {
            self.end_standby_job();
        }
        if had_task_manager && !self.standby.has_task_manager(any) && self.standby.runs_job {
            self.fail_job();
        }
    }

    /// A node takes the pods that stand by with it.
    pub(super) fn lose_standby(&mut self) {
        self.standby.remove_trial(self.now);
    }
}

/// What stands by may end, the operator may be away for longer than the lock is held, and its user may change their mind.
#[test]
fn users_faults_and_crashes_lose_no_record_in_hot_upgrades() {
    let mut taken_over = 0;
    for seed in seeds(32) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::hot();
        sim.sees_broken_images = seed % 2 == 0;
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..180 {
                sim.tick();
                if choices.below(2) == 0 {
                    sim.checkpoint();
                }
                match choices.below(80) {
                    0..4 => sim.edit(|r| {
                        r.spec.restart_nonce = Some(asked_again(r.spec.restart_nonce));
                    }),
                    4..6 => sim.misfortune(&mut choices),
                    6 => sim.upheave(&mut choices),
                    7 => sim.lose_standby(),
                    8 => (0..20).for_each(|_| sim.second(&mut choices)),
                    _ => {}
                }
                sim.unsteady_pass(&mut choices);
            }
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
        taken_over += sim.standby.taken_over;
    }
    println!("{taken_over} hot upgrades");
    assert!(taken_over > 3);
}
