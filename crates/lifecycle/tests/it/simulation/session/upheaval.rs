//! Changes around a session cluster with session jobs, and of its Flink version.

use config::cluster::{high_availability_of, is_metadata_shared};
use lifecycle::session_job::leaving::lets_stop;

use super::*;

impl Upheaved for Session {
    const REFUSABLE: &'static [Refused] =
        &[Refused::JobManager, Refused::Beside, Refused::Status, Refused::Removals, Refused::All];

    fn upheaval(&mut self) -> &mut Upheaval {
        &mut self.upheaval
    }

    fn set_defaults(&mut self, defaults: FlinkConfig) {
        self.operator = OperatorConfig::new(defaults);
    }

    fn emit(&mut self, line: String) {
        self.log.push(line);
    }
}

impl Session {
    /// Creates the objects beside the JobManager.
    pub(super) fn finish(&mut self, objects: &Objects) {
        let Some(job_manager) = &self.job_manager else { return };
        if !self.upheaval.leaves_unfinished(job_manager) {
            self.create_workers(objects);
        }
    }

    pub(super) fn has_running_jobs(&self) -> bool {
        self.jobs.iter().any(|state| !state.is_globally_terminal())
    }

    /// The law: a JobManager with high availability finds the jobs that have not ended, and can read them. Without it
    /// they end, which other laws cover.
    pub(super) fn recover_jobs(&mut self, config: &FlinkConfig) {
        let version = config.get_text("$internal.flink.version").map(str::to_owned);
        let before = std::mem::replace(&mut self.made_with, high_availability_of(config));
        let former = std::mem::replace(&mut self.made_version, version);
        if !is_high_availability_on(&self.made_with) {
            self.jobs.clear();
            self.has_ha_metadata = false;
        } else if self.has_ha_metadata && self.has_running_jobs() {
            let law = Law::SessionClusterJobs;
            assert_eq!(former, self.made_version, "{law}: jobs of another version");
            assert!(is_metadata_shared(&before, &self.made_with), "{law}: jobs in another place");
        }
    }

    /// The law: without high availability no JobManager is stopped under jobs, unless its user says so.
    pub(super) fn assert_loses_no_job(&self) {
        let keeps_jobs = is_high_availability_on(&self.made_with);
        let is_deleting = self.resource.metadata.deletion_timestamp.is_some();
        let options = &self.resource.spec.flink_configuration.0;
        let may_lose = options.contains_key("kubernetes.operator.session.upgrade.wait-for-jobs");
        let loses = !keeps_jobs && self.is_up() && self.has_running_jobs();
        let law = Law::SessionClusterJobs;
        assert!(!loses || is_deleting || may_lose, "{law}: jobs end that nobody saved");
    }

    /// The law: jobs that high availability keeps do not end because TaskManagers go first.
    pub(super) fn assert_ends_no_job(&self) {
        let keeps_jobs = is_high_availability_on(&self.made_with) && self.has_running_jobs();
        let is_deleting = self.resource.metadata.deletion_timestamp.is_some();
        let law = Law::SessionClusterTaskManagers;
        assert!(!keeps_jobs || !self.is_up() || is_deleting, "{law}: jobs end that are kept");
    }

    /// Its user changes the Flink version, and others run jobs in it.
    pub(super) fn stir(&mut self, choices: &mut Choices) {
        let versions = [FlinkVersion::V1_19, FlinkVersion::V1_20, FlinkVersion::V2_1];
        match choices.below(5) {
            0 => {
                let version = versions[usize::try_from(choices.below(3)).unwrap()];
                self.edit(|r| r.spec.flink_version = Some(version));
            }
            1 | 2 if self.is_up() && !self.is_paused && !self.is_replaced() => {
                self.jobs.push(JobStatusState::Running);
            }
            3 if self.is_up() => self.end_jobs(),
            4 => self.begin_stop(choices.below(3)),
            _ => {}
        }
    }

    /// Whether its end is on record.
    pub(super) fn is_replaced(&self) -> bool {
        self.status.reconciliation_status.state == ReconciliationState::Upgrading
    }

    /// A session job records that it stops.
    pub(super) fn begin_stop(&mut self, index: u64) {
        let name = format!("job-{index}");
        if !self.stopping.contains(&name) {
            self.referring.push(name.clone());
            self.stopping.push(name);
        }
    }

    /// Those that stop ask the JobManager, if their cluster lets them, until it has taken their savepoints.
    pub(super) fn go_on_stopping(&mut self) {
        let mut cluster = self.resource.clone();
        cluster.status = Some(self.status.clone());
        match self.saved_at {
            _ if !self.is_up() => self.saved_at = None,
            Some(at) if at > self.now => {}
            Some(_) => {
                self.referring.retain(|name| !self.stopping.contains(name));
                self.stopping.clear();
                self.saved_at = None;
            }
            None if !self.stopping.is_empty() && lets_stop(&cluster) => {
                self.saved_at = Some(self.now + SignedDuration::from_secs(4));
            }
            None => {}
        }
    }

    /// The law: a JobManager does not end with what only it knows of a stop.
    pub(super) fn assert_stops_no_stop(&self) {
        let is_deleting = self.resource.metadata.deletion_timestamp.is_some();
        let law = Law::SessionClusterStops;
        assert!(self.saved_at.is_none() || is_deleting, "{law}: a savepoint that nobody knows");
    }

    pub(super) fn end_jobs(&mut self) {
        for state in &mut self.jobs {
            *state = JobStatusState::Finished;
        }
    }

    /// A person reverts the version that is rejected while jobs run.
    pub(super) fn take_version_back(&mut self) {
        let runs = self.made_version.as_deref();
        let runs = runs.and_then(|version| serde_json::from_value(json!(version)).ok());
        self.edit(|r| r.spec.flink_version = runs.or(r.spec.flink_version));
    }
}

#[test]
fn versions_refusals_defaults_and_another_clock_leave_one_good_session_cluster() {
    let (mut refused, mut made) = (0, 0);
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Session::new(if seed % 2 == 0 { "native" } else { "standalone" });
        if seed % 3 == 0 {
            sim.resource.spec.flink_configuration.0.remove("high-availability.type");
        }
        show_on_failure(seed, &mut sim, |sim| {
            for _ in 0..150 {
                sim.second(&mut choices);
                sim.unsteady_pass(&mut choices);
                refused += usize::from(sim.message().contains("have not ended"));
            }
            sim.heal();
            sim.take_version_back();
            for _ in 0..30 {
                sim.tick();
                sim.pass(None);
            }
            if sim.message().contains("belong to no FlinkSessionJob") {
                sim.end_jobs();
            }
            if sim.message().contains("the status that describes it is lost") {
                sim.lose_job_manager();
            }
            sim.settle();
            sim.assert_comes_to_rest();
        });
        made += sim.made;
    }
    assert!(refused > 0 && made > 12, "{refused} passes refused a version, {made} clusters");
}
