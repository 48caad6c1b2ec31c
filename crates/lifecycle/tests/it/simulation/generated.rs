//! Resources generated from their schema, field by field, in the simulated world.
//!
//! Laws: what the schema accepts is accepted by the types, without loss; it is rejected with a field and a reason, or
//! rendered; a decision is not repeated; and an edit does to the cluster what its class says.

use api::crd;
use api::manifest::Resource;
use api::reconciled::ReconciledSpec;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use lifecycle::diff::{ChangeClass, diff};
use serde_json::Value;
use testing::acceptance::accepted;
use testing::generated::{
    DEPTH_MAX, Field, keep_options, put, put_anywhere, read, spec_fields, value, wrong,
};

use super::*;
use api::deployment::FlinkDeploymentSpec;
use api::job::JobSpec;

/// Returns a resource of each kind to start from.
fn base(kind: &str) -> Value {
    let spec = match kind {
        "FlinkDeployment" => serde_json::to_value(resource("savepoint").spec).unwrap(),
        "FlinkSessionJob" => json!({
            "deploymentName": "lab",
            "job": {"jarURI": "https://example.com/a.jar", "parallelism": 2, "upgradeMode": "savepoint"},
        }),
        "FlinkStateSnapshot" => json!({
            "jobReference": {"kind": "FlinkDeployment", "name": "orders"}, "savepoint": {},
        }),
        _ => json!({"template": {"spec": resource("savepoint").spec}}),
    };
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": kind,
        "metadata": {"name": "orders", "namespace": "shop", "uid": "u1", "generation": 1},
        "spec": spec,
    })
}

fn written(resource: &Resource) -> Value {
    match resource {
        Resource::Deployment(resource) => serde_json::to_value(resource),
        Resource::SessionJob(resource) => serde_json::to_value(resource),
        Resource::StateSnapshot(resource) => serde_json::to_value(resource),
        Resource::BlueGreenDeployment(resource) => serde_json::to_value(resource),
        Resource::Foreign { .. } => panic!("it is one of ours"),
    }
    .unwrap()
}

/// Asserts that `after` has everything that `before` has; nulls and empty values are ignored.
fn assert_retained(path: &str, before: &Value, after: &Value) {
    match (before, after) {
        (Value::Null, _) => {}
        (Value::Object(fields), after) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                assert_retained(&path, value, after.get(name).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            assert_eq!(items.len(), others.len(), "{path}");
            for (index, (item, other)) in items.iter().zip(others).enumerate() {
                assert_retained(&format!("{path}[{index}]"), item, other);
            }
        }
        (Value::Array(items), Value::Null) if items.is_empty() => {}
        (Value::Number(one), Value::Number(other)) => {
            assert_eq!(one.as_f64(), other.as_f64(), "{path}");
        }
        (before, after) => assert_eq!(before, after, "{path} is lost"),
    }
}

/// Returns the number of resources and edits, which does not go below the default if the other simulations are reduced.
fn generated() -> u64 {
    const DEFAULT: u64 = 60;
    cases(DEFAULT).max(DEFAULT)
}

/// Returns each kind with its own choices, and again for another seed if there is one.
fn of_each_kind() -> impl Iterator<Item = (Choices, CustomResourceDefinition)> {
    let seeds = std::iter::once(0).chain(another_seed());
    seeds.flat_map(|seed| crd::all().into_iter().map(move |kind| (Choices::new(seed), kind)))
}

/// Each field of each kind, with a few values of its type.
#[test]
fn what_the_schema_accepts_is_read_stored_and_judged() {
    let (mut tried, mut rendered, mut refused) = (0, 0, 0);
    for (mut choices, definition) in of_each_kind() {
        let kind = definition.spec.names.kind.as_str();
        let base = base(kind);
        for field in spec_fields(&definition) {
            // The three pod templates have thousands of fields; a sample is enough.
            let share = if field.is_in_pod_template() { 24 } else { 1 };
            if choices.below(share) != 0 {
                continue;
            }
            for _ in 0..generated().div_ceil(20) {
                let name = field.path.last().unwrap();
                let mut object = base.clone();
                put(&mut object, &field.path, value(name, field.schema, DEPTH_MAX, &mut choices));
                let resource = read(&object).unwrap_or_else(|problems| {
                    panic!("{kind}: {}: {}", problems[0], object["spec"])
                });
                assert_retained("", &object, &written(&resource));
                tried += 1;
                if let Resource::Deployment(deployment) = resource {
                    match accepted(&deployment) {
                        Ok(_) => rendered += 1,
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    println!("generated {tried} resources: {rendered} rendered, {refused} refused");
    assert!(rendered > 100 && refused > 50, "{rendered} {refused}");
}

/// A value of another type is rejected with the name of its field.
#[test]
fn what_the_schema_refuses_is_refused_by_its_field() {
    let mut refused = 0;
    for (mut choices, definition) in of_each_kind() {
        let base = base(&definition.spec.names.kind);
        for field in spec_fields(&definition) {
            let share = if field.is_in_pod_template() { 16 } else { 1 };
            let Some(wrong) = wrong(field.schema, &mut choices) else { continue };
            if choices.below(share) != 0 {
                continue;
            }
            let mut object = base.clone();
            put(&mut object, &field.path, wrong.clone());
            // A fraction is not a whole number; a number accepts anything numeric.
            let place = field.path.join(".").replace(".[]", "[0]").replace("{}", "a");
            match read(&object) {
                Ok(_) => panic!("{place} takes {wrong}"),
                Err(problems) => {
                    assert!(
                        problems.iter().any(|problem| problem.path == place
                            || problem.path.starts_with(&format!("{place}."))
                            || problem.path.starts_with(&format!("{place}["))),
                        "{place}: {}",
                        problems[0]
                    );
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 200, "{refused}");
}

/// Whether the simulated Flink supports it; it does not support other clusters, HA that is switched on or off, and jobs
/// that end.
fn is_playable(deployment: &FlinkDeployment) -> bool {
    let spec = &deployment.spec;
    let version = spec.flink_version.map(|it| it.into_str());
    let plays = |job: &JobSpec| {
        job.state == JobState::Running
            && job.parallelism != Some(FAILING_PARALLELISM)
            && job.initial_savepoint_path.is_none()
            && job.savepoint_redeploy_nonce.is_none()
    };
    version == Some("v1_20")
        && spec.job.as_ref().is_some_and(plays)
        && spec.flink_configuration.0.get("high-availability.type") == Some(&json!("kubernetes"))
}

impl Sim {
    /// Runs until the resource is stable with its spec; returns `false` if it stops changing before that.
    fn settles(&mut self) -> bool {
        let mut quiet = 0;
        for _ in 0..60 {
            self.tick();
            let before = self.status.clone();
            let plan = self.pass(None);
            if self.status.lifecycle_state == Some(LifecycleState::Stable)
                && self.status.observed_generation == self.resource.metadata.generation
                && self.has_slots()
            {
                return true;
            }
            // Longer than anything takes in this world.
            quiet = if plan.steps.is_empty() && self.status == before { quiet + 1 } else { 0 };
            if quiet > 20 {
                return false;
            }
        }
        false
    }
}

/// Users edit a running job field by field.
#[test]
fn an_edit_does_to_the_cluster_what_its_class_says() {
    let definitions = crd::all();
    let all = spec_fields(&definitions[0]);
    let mut count = BTreeMap::new();
    for seed in (0..generated().div_ceil(12)).chain(another_seed()) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new("savepoint");
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..6 {
                let outcome = edited(sim, &all, &mut choices);
                *count.entry(outcome).or_insert(0) += 1;
            }
        });
    }
    println!("edits: {count:?}");
    assert!(["Ignore", "Upgrade", "refused"].iter().all(|outcome| count.contains_key(outcome)));
}

/// Makes one edit and returns its outcome.
fn edited(sim: &mut Sim, all: &[Field<'_>], choices: &mut Choices) -> &'static str {
    let mut object = serde_json::to_value(&sim.resource).unwrap();
    let what = put_anywhere(&mut object, all, choices);
    sim.log.push(format!("  edit: {what}"));
    let Ok(Resource::Deployment(mut wanted)) = read(&object) else {
        panic!("the schema takes it: {object}")
    };
    let depends_on = resource("savepoint").spec.flink_configuration;
    keep_options(&mut wanted.spec.flink_configuration, &depends_on);
    if !is_playable(&wanted) {
        return "not played";
    }
    let (before, starts) = (sim.resource.spec.clone(), sim.starts);
    let last = sim.status.reconciliation_status.last_reconciled_spec.clone().unwrap();
    let last = ReconciledSpec::parse(&last).unwrap();
    sim.edit(|r| r.spec = wanted.spec.clone());
    let class = diff(&last.spec, &wanted.spec).class();
    let is_settled = sim.settles();
    if !is_settled {
        let error = sim.status.error.clone().unwrap_or_default();
        assert!(!error.is_empty(), "neither stable nor a reason: {:?}", sim.status);
        assert_eq!(sim.starts, starts, "a refused edit touches nothing: {error}");
        sim.assert_at_rest();
        sim.edit(|r| r.spec = before);
        assert!(sim.settles(), "the spec that runs is fine: {:?}", sim.status.error);
        assert_eq!(sim.starts, starts, "nothing was changed in the end");
        return "refused";
    }
    sim.assert_at_rest();
    match class {
        ChangeClass::Ignore => {
            assert_eq!(sim.starts, starts, "an ignored edit restarts nothing");
            "Ignore"
        }
        ChangeClass::Upgrade => {
            assert_eq!(sim.starts, starts + 1, "an upgrade is one restart");
            "Upgrade"
        }
        ChangeClass::Scale => "Scale",
        ChangeClass::SavepointRedeploy => "SavepointRedeploy",
    }
}

impl Sim {
    /// Its user writes something into any field, mostly something valid, except what this world cannot simulate: other
    /// clusters, and state that is dropped or named.
    fn edit_any_field(&mut self, all: &[Field<'_>], choices: &mut Choices) {
        let mut object = serde_json::to_value(&self.resource).unwrap();
        let what = put_anywhere(&mut object, all, choices);
        let Ok(Resource::Deployment(mut wanted)) = read(&object) else {
            panic!("the schema takes it: {object}")
        };
        let before = &self.resource.spec;
        let (Some(job), Some(former)) = (&mut wanted.spec.job, &before.job) else { return };
        if job.upgrade_mode == UpgradeMode::Stateless {
            job.upgrade_mode = former.upgrade_mode;
        }
        job.initial_savepoint_path.clone_from(&former.initial_savepoint_path);
        job.savepoint_redeploy_nonce = former.savepoint_redeploy_nonce;
        (wanted.spec.flink_version, wanted.spec.mode) = (before.flink_version, before.mode);
        keep_options(&mut wanted.spec.flink_configuration, &before.flink_configuration);
        if accepted(&wanted).is_err() && choices.below(4) != 0 {
            return;
        }
        self.log.push(format!("  field: {what}"));
        self.edit(|r| r.spec = wanted.spec);
    }

    /// Its user returns to a spec that worked, without fields that trigger something once.
    fn take_back(&mut self, sound: &FlinkDeploymentSpec) {
        self.edit(|r| {
            let present = r.spec.job.take().unwrap();
            let restart_nonce = r.spec.restart_nonce;
            r.spec = FlinkDeploymentSpec { restart_nonce, ..sound.clone() };
            let job = Self::job_mut(r);
            *job = JobSpec {
                jar_uri: job.jar_uri.take(),
                parallelism: job.parallelism,
                state: job.state,
                ..present
            };
        });
    }
}

/// Users edit any field in random lives, with the laws of all walks.
#[test]
fn generated_edits_faults_and_crashes_lose_no_record() {
    let definitions = crd::all();
    let all = spec_fields(&definitions[0]);
    let mut starts = 0;
    for seed in seeds(32) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim =
            if seed % 3 == 0 { Sim::without_high_availability(mode) } else { Sim::new(mode) };
        sim.is_slow = seed % 7 < 3;
        if seed % 5 < 2 {
            sim = sim.standalone();
        }
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
        starts += sim.starts;
    }
    println!("{starts} starts");
    assert!(starts > 40, "hardly anything was upgraded: {starts}");
}
