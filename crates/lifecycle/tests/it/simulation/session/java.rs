//! The Java operator takes over for a while, as in [`super::super::java`]. What is known to end jobs there is left out:
//! a change under jobs that nothing keeps, or that cannot be read afterwards.

use api::deployment::FlinkDeploymentSpec;
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use config::cluster::{high_availability_of, is_metadata_shared};
use lifecycle::diff::{ChangeClass, diff};

use super::*;
use crate::simulation::java::{count_deeds, error, last, lifecycle, store};

impl Session {
    /// The Java operator makes some passes, then another process of this one continues.
    fn leave_to_java(&mut self, choices: &mut Choices) {
        self.log.push(format!("{} the Java operator", self.now));
        for _ in 0..=choices.below(15) {
            self.tick();
            if choices.below(8) == 0 {
                self.misfortune(choices);
            }
            self.java_pass();
            let status = &self.status;
            let (state, job_manager) =
                (status.reconciliation_status.state, status.job_manager_deployment_status);
            self.log.push(format!("{} Java: {state:?} {job_manager:?}", self.now));
        }
        if choices.below(2) == 0 {
            // Early versions replace unknown fields.
            self.status.cluster_info = [("flink-version".to_owned(), "1.20.1".to_owned())].into();
        }
        self.upheaval = Upheaval::default();
    }

    fn java_pass(&mut self) {
        if self.resource.metadata.deletion_timestamp.is_some() {
            return self.java_delete();
        }
        self.java_observe();
        self.java_reconcile();
        let state = lifecycle::<FlinkDeploymentSpec>(&self.status.reconciliation_status);
        self.status.lifecycle_state = Some(state);
    }

    fn java_observe(&mut self) {
        let is_up = self.is_up();
        let DeploymentStatus {
            reconciliation_status: record,
            job_manager_deployment_status: status,
            observed_generation,
            error: told,
            ..
        } = &mut self.status;
        let Some(stored) = last::<FlinkDeploymentSpec>(record) else { return };
        match record.state {
            ReconciliationState::RollingBack => return,
            ReconciliationState::Upgrading => {
                let made = self.job_manager.as_ref().filter(|jm| !jm.is_deleting);
                let is_made = made.is_some_and(|jm| jm.generation == *observed_generation);
                if !is_made || *status != JobManagerDeploymentStatus::Missing {
                    if stored.is_first_deployment() {
                        record.last_reconciled_spec = None;
                    }
                    return;
                }
                record.state = ReconciliationState::Deployed;
            }
            ReconciliationState::Deployed | ReconciliationState::RolledBack => {}
        }
        *status = match &self.job_manager {
            Some(_) if is_up => JobManagerDeploymentStatus::Ready,
            Some(_) if self.is_image_broken => JobManagerDeploymentStatus::Error,
            Some(_) => JobManagerDeploymentStatus::Deploying,
            None => JobManagerDeploymentStatus::Missing,
        };
        if !is_up {
            *told = Some(error("Missing JobManager deployment"));
        } else if record.state == ReconciliationState::Deployed {
            record.last_stable_spec.clone_from(&record.last_reconciled_spec);
            *told = None;
        }
    }

    fn java_reconcile(&mut self) {
        let spec = self.resource.spec.clone();
        if spec.service_account.is_none() || spec.job.is_some() {
            self.status.error = Some(error("spec.serviceAccount must be defined"));
            return;
        }
        let record = &self.status.reconciliation_status;
        let Some(stored) = last::<FlinkDeploymentSpec>(record) else {
            return self.java_replace(&spec);
        };
        let is_changed = diff(&stored.spec, &spec).class() != ChangeClass::Ignore;
        match record.state {
            ReconciliationState::RollingBack if is_changed => {
                self.status.reconciliation_status.state = ReconciliationState::Upgrading;
                self.java_replace(&spec);
            }
            ReconciliationState::RollingBack => {
                let stable = record.last_stable_spec.clone().unwrap();
                self.java_replace(&ReconciledSpec::parse(&stable).unwrap().spec);
            }
            ReconciliationState::Upgrading => self.java_replace(&spec),
            ReconciliationState::Deployed | ReconciliationState::RolledBack if is_changed => {
                self.java_replace(&spec);
            }
            ReconciliationState::Deployed => {
                self.status.observed_generation = self.resource.metadata.generation;
                self.java_recover(&stored.spec);
            }
            ReconciliationState::RolledBack => {}
        }
    }

    /// Deletes the cluster, and creates the next one when it is gone.
    fn java_replace(&mut self, spec: &FlinkDeploymentSpec) {
        if self.java_would_end_jobs(spec) || self.java_removes() {
            return;
        }
        let now = self.now;
        let is_rolling_back =
            self.status.reconciliation_status.state == ReconciliationState::RollingBack;
        self.java_create(spec, self.resource.metadata.generation);
        let record = &mut self.status.reconciliation_status;
        if is_rolling_back {
            record.state = ReconciliationState::RolledBack;
            record.reconciliation_timestamp = now.as_millisecond();
        } else {
            store(record, spec, JobState::Running, UpgradeMode::Stateless, true, now);
            self.status.observed_generation = self.resource.metadata.generation;
        }
        self.status.error = None;
    }

    fn java_config(&self, spec: &FlinkDeploymentSpec) -> FlinkConfig {
        let mut config = self.operator.base.clone();
        config.overlay(&FlinkConfig::flatten(&spec.flink_configuration));
        let version = json!(spec.flink_version);
        config.set("$internal.flink.version", version.as_str().unwrap_or_default());
        config
    }

    fn java_would_end_jobs(&self, spec: &FlinkDeploymentSpec) -> bool {
        let config = self.java_config(spec);
        let next = high_availability_of(&config);
        let version = config.get_text("$internal.flink.version").map(str::to_owned);
        let is_read = version == self.made_version
            && is_high_availability_on(&next)
            && is_metadata_shared(&self.made_with, &next);
        self.has_running_jobs() && !(self.has_ha_metadata && is_read)
    }

    /// Removes the JobManager; returns whether it still has to wait.
    fn java_removes(&mut self) -> bool {
        if self.job_manager.is_some() {
            self.lose_job_manager();
        }
        if let Some(workers) = &mut self.workers {
            workers.fact.is_deleting = true;
        }
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        self.pods_linger > 0 || self.workers.is_some()
    }

    fn java_create(&mut self, spec: &FlinkDeploymentSpec, generation: Option<i64>) {
        let image = spec.image.clone().unwrap_or_default();
        self.is_image_broken = image == BROKEN_IMAGE;
        self.starts_in = 4;
        self.made += 1;
        self.recover_jobs(&self.java_config(spec));
        self.job_manager = Some(JobManager {
            uid: self.id(),
            owner_uid: Some("u1".to_owned()),
            generation,
            replicas: 1,
            was_never_available: true,
            created: Some(self.now),
            ..JobManager::default()
        });
        if spec.mode == Some(DeploymentMode::Standalone) && self.workers.is_none() {
            let uid = self.id();
            self.workers = Some(Workers::new(uid, image));
        }
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Deploying;
    }

    fn java_recover(&mut self, deployed: &FlinkDeploymentSpec) {
        let is_lost =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing;
        let is_retained = is_high_availability_on(&self.java_config(deployed));
        let is_gone = self.job_manager.is_none() && self.pods_linger == 0;
        if is_lost && is_retained && is_gone && !self.java_would_end_jobs(deployed) {
            self.java_create(deployed, None);
        }
    }

    fn java_delete(&mut self) {
        let is_needed = !self.referring.is_empty() || self.is_up() && self.has_running_jobs();
        if !is_needed && !self.java_removes() {
            self.has_ha_metadata = false;
            self.resource.metadata.finalizers = None;
        }
    }
}

/// Actions that must occur in some run.
const DEEDS: [&str; 3] = ["Deployed Missing", "Deployed Deploying", "Deployed Ready"];

#[test]
fn spells_of_the_java_operator_leave_one_good_session_cluster() {
    let mut done = [0; DEEDS.len()];
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = match seed % 3 {
            0 => Session::new("native"),
            1 => Session::new("standalone"),
            _ => Session::with_rollback(),
        };
        if seed % 4 == 1 && seed % 3 < 2 {
            sim.resource.spec.flink_configuration.0.shift_remove("high-availability.type");
        }
        show_on_failure(seed, &mut sim, |sim| {
            for _ in 0..100 {
                sim.tick();
                if choices.below(9) == 0 {
                    sim.misfortune(&mut choices);
                }
                if choices.below(9) == 0 {
                    sim.stir(&mut choices);
                }
                if choices.below(15) == 0 {
                    sim.leave_to_java(&mut choices);
                }
                let crash_at = choices.crash(5, 7);
                sim.pass(crash_at);
            }
            sim.heal();
            sim.take_version_back();
            sim.end_jobs();
            sim.settle();
            sim.assert_comes_to_rest();
            sim.mark_for_deletion();
            for _ in 0..60 {
                sim.tick();
                if choices.below(3) == 0 {
                    sim.java_pass();
                } else {
                    let crash_at = choices.crash(4, 4);
                    sim.pass(crash_at);
                }
            }
            assert!(sim.is_gone() && sim.job_manager.is_none() && sim.workers.is_none());
        });
        count_deeds(&mut done, &sim.log, DEEDS);
    }
    assert!(done.iter().all(|count| *count > 0), "{DEEDS:?} {done:?}");
}
