//! Edits of any field in the schema, in random lives of a session job.

use api::crd;
use api::manifest::Resource;
use api::session_job::FlinkSessionJobSpec;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use testing::generated::{Field, keep_options, put_anywhere, read, spec_fields};

use super::*;

impl Sim {
    /// Its user writes something into any field, except what this world cannot simulate: other clusters, state that is
    /// dropped or named, and manual checkpoints.
    fn edit_any_field(&mut self, all: &[Field<'_>], choices: &mut Choices) {
        let mut object = serde_json::to_value(&self.resource).unwrap();
        let what = put_anywhere(&mut object, all, choices);
        let Ok(Resource::SessionJob(mut wanted)) = read(&object) else {
            panic!("the schema takes it: {object}")
        };
        let before = &self.resource.spec;
        let (Some(job), Some(former)) = (&mut wanted.spec.job, &before.job) else { return };
        if job.upgrade_mode == UpgradeMode::Stateless {
            job.upgrade_mode = former.upgrade_mode;
        }
        job.initial_savepoint_path.clone_from(&former.initial_savepoint_path);
        job.savepoint_redeploy_nonce = former.savepoint_redeploy_nonce;
        job.checkpoint_trigger_nonce = former.checkpoint_trigger_nonce;
        wanted.spec.deployment_name.clone_from(&before.deployment_name);
        keep_options(&mut wanted.spec.flink_configuration, &before.flink_configuration);
        self.log.push(format!("  field: {what}"));
        self.replace(wanted.spec);
    }

    /// Its user returns to a spec that worked, without fields that trigger something once.
    fn take_back(&mut self, sound: &FlinkSessionJobSpec) {
        let present = self.resource.spec.job.clone().unwrap();
        let sound_job = sound.job.clone().unwrap();
        let job = JobSpec {
            jar_uri: sound_job.jar_uri,
            parallelism: sound_job.parallelism,
            state: sound_job.state,
            ..present
        };
        let restart_nonce = self.resource.spec.restart_nonce;
        self.replace(FlinkSessionJobSpec { job: Some(job), restart_nonce, ..sound.clone() });
    }

    fn replace(&mut self, spec: FlinkSessionJobSpec) {
        if self.resource.spec != spec {
            self.resource.spec = spec;
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
        }
    }
}

/// With the laws of all walks.
#[test]
fn generated_edits_faults_and_crashes_lose_no_record_of_a_session_job() {
    let definitions = crd::all();
    let is_session_job =
        |kind: &&CustomResourceDefinition| kind.spec.names.kind == "FlinkSessionJob";
    let all = spec_fields(definitions.iter().find(is_session_job).unwrap());
    let mut started = 0;
    for seed in seeds(64) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim = Sim::new(mode, seed % 3 == 0);
        sim.has_snapshot_resources = seed % 4 < 2;
        sim.is_slow = seed % 7 < 3;
        let sound = sim.resource.spec.clone();
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..120 {
                sim.tick();
                if choices.below(4) == 0 {
                    sim.checkpoint();
                }
                match choices.below(24) {
                    0..3 => sim.edit_any_field(&all, &mut choices),
                    3 => sim.take_back(&sound),
                    4 => sim.misfortune(&mut choices),
                    _ => {}
                }
                let crash_at = choices.crash(5, 7);
                sim.pass(crash_at);
            }
            sim.take_back(&sound);
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
        started += sim.used.len();
    }
    println!("{started} jobs started");
    assert!(started > 80, "hardly anything was upgraded: {started}");
}
