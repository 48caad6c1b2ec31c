//! Changes around a session job: rejected writes, other defaults, a wrong clock, a session cluster that is replaced by
//! one with another Flink version or other high availability, and job options that contradict it.

use api::reconciled::ReconciledSpec;
use api::version::FlinkVersion;
use config::FlinkConfig;

use super::*;

/// Options that a user may set on the job, and that would have an effect in an application.
const OPTIONS: [(&str, &str); 13] = [
    ("high-availability.type", "kubernetes"),
    ("high-availability.type", "NONE"),
    ("high-availability.storageDir", "s3://elsewhere/ha"),
    ("execution.checkpointing.dir", "s3://elsewhere/chk"),
    ("state.checkpoints.dir", "s3://elsewhere/old"),
    ("execution.checkpointing.savepoint-dir", "s3://elsewhere/sp"),
    ("execution.checkpointing.interval", "10 min"),
    (RETENTION, "DELETE_ON_CANCELLATION"),
    (RETENTION, "RETAIN_ON_CANCELLATION"),
    ("execution.savepoint.path", "s3://lake/sp/elsewhere"),
    ("$internal.pipeline.job-id", "ffffffffffffffffffffffffffffffff"),
    ("jobmanager.scheduler", "default"),
    ("kubernetes.operator.job.upgrade.last-state-fallback.enabled", "false"),
];
const RETENTION: &str = "execution.checkpointing.externalized-checkpoint-retention";
const HIGH_AVAILABILITY: &str = "high-availability.type";

impl Upheaved for Sim {
    const REFUSABLE: &'static [Refused] = &[Refused::Status, Refused::Records, Refused::All];

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

impl Sim {
    /// The session cluster's status records what runs, and high availability may come from the operator's defaults.
    pub(super) fn with_recorded_cluster(mut self, is_default: bool) -> Self {
        let options = &mut self.cluster.spec.flink_configuration.0;
        if is_default {
            options.shift_remove(HIGH_AVAILABILITY);
        }
        // Longer than the clock may be off, like the default.
        options.insert("kubernetes.operator.job.submission.timeout".to_owned(), "250 s".into());
        self.record_cluster();
        self
    }

    fn record_cluster(&mut self) {
        let last = ReconciledSpec::new(self.cluster.spec.clone(), true).to_text();
        let kind = if self.is_high_availability_on { "kubernetes" } else { "NONE" };
        let status = self.cluster.status.as_mut().unwrap();
        status.reconciliation_status.state = ReconciliationState::Deployed;
        status.reconciliation_status.last_reconciled_spec = Some(last);
        status.reconciliation_status.reconciliation_timestamp = self.now.as_millisecond();
        STARTED_WITH.set(
            &mut status.cluster_info,
            &[(HIGH_AVAILABILITY.to_owned(), kind.to_owned())].into(),
        );
    }

    fn running_cluster(&self) -> Option<ReconciledSpec> {
        let status = &self.cluster.status.as_ref()?.reconciliation_status;
        ReconciledSpec::parse(status.last_reconciled_spec.as_deref()?).ok()
    }

    /// The controller of the session cluster replaces it as its spec says, if its jobs allow that.
    pub(super) fn follow_cluster(&mut self) {
        let Some(running) = self.running_cluster().map(|last| last.spec) else { return };
        let wanted = &self.cluster.spec;
        let is_same =
            running.image == wanted.image && running.flink_version == wanted.flink_version;
        if is_same || self.away > 0 {
            return;
        }
        let is_supported = wanted.flink_version.is_some_and(FlinkVersion::is_supported);
        let has_jobs = self.jobs.iter().any(|job| !job.state.is_globally_terminal());
        let is_other_version = running.flink_version != wanted.flink_version;
        let is_retained = self.is_high_availability_on && has_jobs && is_other_version;
        if !is_supported || is_retained {
            return;
        }
        self.log.push(format!("  the cluster is replaced: {:?}", wanted.flink_version));
        let mut config = self.operator.base.clone();
        config.overlay(&FlinkConfig::flatten(&wanted.flink_configuration));
        let is_next_on =
            config.get_text(HIGH_AVAILABILITY).is_some_and(|kind| kind == "kubernetes");
        self.is_high_availability_on &= is_next_on;
        self.lose_cluster();
        self.is_high_availability_on = is_next_on;
        self.record_cluster();
    }

    /// The job's user or that of its cluster changes what the two must agree on.
    pub(super) fn stir(&mut self, choices: &mut Choices) {
        match choices.below(4) {
            0 => {
                let versions = [
                    FlinkVersion::V1_14,
                    FlinkVersion::V1_19,
                    FlinkVersion::V1_20,
                    FlinkVersion::V2_1,
                ];
                let version = versions[usize::try_from(choices.below(4)).unwrap()];
                self.cluster.spec.flink_version = Some(version);
                self.log.push(format!("  the cluster is to be of {version}"));
            }
            1 => {
                let image = format!("flink:{}", choices.below(3));
                self.log.push(format!("  the cluster is to be {image}"));
                self.cluster.spec.image = Some(image);
            }
            2 => {
                let (key, value) = OPTIONS[usize::try_from(choices.below(13)).unwrap()];
                self.configure(key, value);
            }
            _ => self.leave_out_options(),
        }
    }

    /// Removes the options that were added to the job.
    pub(super) fn leave_out_options(&mut self) {
        let options = &mut self.resource.spec.flink_configuration.0;
        let before = options.len();
        options.retain(|key, _| !OPTIONS.iter().any(|(option, _)| option == key));
        if options.len() != before {
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
            self.log.push("  user: without options".to_owned());
        }
    }
}

#[test]
fn versions_options_refusals_defaults_and_another_clock_lose_no_record_of_a_session_job() {
    for seed in seeds(32) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim = Sim::new(mode, seed % 3 == 0).with_recorded_cluster(seed % 4 == 1);
        sim.has_snapshot_resources = seed % 5 < 3;
        sim.is_slow = seed % 7 < 3;
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..150 {
                sim.second(&mut choices);
                sim.unsteady_pass(&mut choices);
            }
            sim.leave_out_options();
            sim.cluster.spec = sim.running_cluster().unwrap().spec;
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
    }
}
