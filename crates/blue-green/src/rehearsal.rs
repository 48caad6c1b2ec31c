//! Rehearsal of a change: the operator's own decision, pass after pass, assuming that each step succeeds.
//!
//! As in [`lifecycle::rehearsal`], nothing is decided here. It ends when nothing is left to do, when the operator would
//! wait or refuse, or with a change of a child in place, which is up to that child.

use api::blue_green::{BlueGreenStatus, Colour, FlinkBlueGreenDeployment, PROGRESSING};
use api::deployment::FlinkDeployment;
use api::status::{JobStatusState, LifecycleState};
use config::FlinkConfig;
use config::cluster::savepoint_directory;
use jiff::{SignedDuration, Timestamp};
use lifecycle::rehearsal::{Outcome, PASSES_MAX, PLANNED_SAVEPOINT, Scene, StepText};
use state::restore_point::RestorePoint;

use crate::child::Child;
use crate::decide;
use crate::plan::{Plan, Step};
use crate::settings::Settings;
use crate::world::{Facts, Ingress, Question, Savepoint, World};

/// A rehearsal of one resource.
#[derive(Debug)]
pub struct Rehearsal {
    pub resource: FlinkBlueGreenDeployment,
    pub status: BlueGreenStatus,
    pub blue: Option<FlinkDeployment>,
    pub green: Option<FlinkDeployment>,
    pub settings: Settings,
    pub facts: Facts,
    pub now: Timestamp,
    pub outcome: Outcome,
    /// The child as it would be changed in place.
    pub changed: Option<Box<FlinkDeployment>>,
    passes: usize,
}

impl Rehearsal {
    /// Creates a rehearsal of the desired resource, with the stored status, and its children.
    pub fn new(
        resource: FlinkBlueGreenDeployment,
        (blue, green): (Option<FlinkDeployment>, Option<FlinkDeployment>),
        settings: Settings,
        now: Timestamp,
    ) -> Self {
        let status = resource.status.clone().unwrap_or_default();
        let (facts, outcome) = (Facts::default(), Outcome::default());
        Self {
            resource,
            status,
            blue,
            green,
            settings,
            facts,
            now,
            outcome,
            changed: None,
            passes: 0,
        }
    }

    /// Runs the next pass. Returns false if there is none.
    ///
    /// # Errors
    /// The question to answer in [`Rehearsal::facts`] first.
    pub fn go_on(&mut self) -> Result<bool, Question> {
        let plan = decide(&World {
            now: self.now,
            resource: &self.resource,
            status: &self.status,
            settings: self.settings,
            inherits_labels: false,
            violation: None,
            blue: self.blue.as_ref(),
            green: self.green.as_ref(),
            trigger_id: "planned".to_owned(),
            facts: self.facts.clone(),
        })?;
        self.passes += 1;
        Ok(self.take(plan))
    }

    pub fn child(&self, colour: Colour) -> Option<&FlinkDeployment> {
        match colour {
            Colour::Blue => self.blue.as_ref(),
            Colour::Green => self.green.as_ref(),
        }
    }

    fn set_child(&mut self, colour: Colour, child: Option<FlinkDeployment>) {
        match colour {
            Colour::Blue => self.blue = child,
            Colour::Green => self.green = child,
        }
    }

    fn name_of(&self, colour: Colour) -> String {
        colour.child_of(self.resource.metadata.name.as_deref().unwrap_or_default())
    }

    fn take(&mut self, plan: Plan) -> bool {
        let Plan { because, steps, status, look_again, waits: _ } = plan;
        let texts: Vec<StepText> =
            steps.into_iter().filter_map(|step| self.imagine(step)).collect();
        let is_at_rest = texts.is_empty() && is_same(&status, &self.status);
        self.status = *status;
        if is_at_rest {
            let waits = self.status.conditions.iter();
            let mut waits = waits.filter(|it| it.type_.as_deref() == Some(PROGRESSING));
            self.outcome.halt = waits.next().and_then(|it| it.message.clone());
        }
        if !texts.is_empty() {
            self.outcome.scenes.push(Scene { because, steps: texts });
        }
        let pause = look_again.and_then(|it| SignedDuration::try_from(it).ok()).unwrap_or_default();
        self.now = self.now.saturating_add(pause).unwrap_or(self.now);
        !is_at_rest && self.changed.is_none() && self.passes < PASSES_MAX
    }

    /// Updates the world as if the step had succeeded, and returns its description.
    fn imagine(&mut self, step: Step) -> Option<StepText> {
        let name = step.name();
        let text = match step {
            Step::WriteStatus(status) => {
                self.status = *status;
                return None;
            }
            Step::Event(_)
            | Step::RecordRevision(_)
            | Step::KeepSavepoint { .. }
            | Step::CopyAutoscalerState { .. } => return None,
            Step::TriggerSavepoint { colour, trigger_id } => {
                let path = self.planned_savepoint(colour);
                self.facts.savepoint = Some((trigger_id, Savepoint::Completed { path }));
                format!(
                    "take a savepoint of the job of `{}`, which keeps running",
                    self.name_of(colour)
                )
            }
            Step::CreateChild(child) => self.create(*child),
            // This ends its wait for a savepoint, and the plan goes on.
            Step::ChangeChild(child) if Child(&child).is_deleting() => {
                let name = Child(&child).name().to_owned();
                let colour = Colour::ALL.into_iter().find(|colour| self.name_of(*colour) == name);
                if let Some(colour) = colour {
                    self.set_child(colour, Some(*child));
                }
                format!("let FlinkDeployment `{name}` go without a savepoint")
            }
            Step::ChangeChild(child) => {
                let text = format!("change FlinkDeployment `{}` in place", Child(&child).name());
                self.changed = Some(child);
                text
            }
            Step::DeleteChild { name, .. } => {
                let gone = Colour::ALL.into_iter().find(|colour| self.name_of(*colour) == name);
                if let Some(colour) = gone {
                    self.set_child(colour, None);
                }
                format!("delete FlinkDeployment `{name}`")
            }
            Step::PointIngress(colour) => {
                self.facts.ingress = Some((colour, Ingress::InPlace));
                format!("point the web UI to `{}`", self.name_of(colour))
            }
        };
        Some(StepText { step: name, text })
    }

    fn planned_savepoint(&self, colour: Colour) -> String {
        let config =
            self.child(colour).map(|it| FlinkConfig::flatten(&it.spec.flink_configuration));
        let directory = config.as_ref().and_then(savepoint_directory).unwrap_or_default();
        match directory.trim_end_matches('/') {
            "" => PLANNED_SAVEPOINT.to_owned(),
            directory => format!("{directory}/{PLANNED_SAVEPOINT}"),
        }
    }

    /// Imagines that it starts and becomes ready.
    fn create(&mut self, mut child: FlinkDeployment) -> String {
        let name = Child(&child).name().to_owned();
        let job = child.spec.job.as_ref();
        let path = job.and_then(|job| job.initial_savepoint_path.clone());
        let from = match &path {
            Some(path) => format!("from {path}"),
            None => "without state".to_owned(),
        };
        self.outcome.restore = Some(path.map_or(RestorePoint::Empty, RestorePoint::Path));
        child.metadata.generation = Some(1);
        child.metadata.uid = Some(name.clone());
        let status = child.status.get_or_insert_default();
        status.observed_generation = Some(1);
        status.lifecycle_state = Some(LifecycleState::Stable);
        status.job_status.state = Some(JobStatusState::Running);
        if let Some(colour) =
            Colour::of_label(child.metadata.labels.as_ref().unwrap_or(&<_>::default()))
        {
            self.set_child(colour, Some(child));
        }
        format!("create FlinkDeployment `{name}`, which starts {from}")
    }
}

/// Returns true if only times differ.
fn is_same(one: &BlueGreenStatus, other: &BlueGreenStatus) -> bool {
    let timeless = |status: &BlueGreenStatus| {
        let mut status = status.clone();
        status.last_reconciled_timestamp = None;
        for condition in &mut status.conditions {
            condition.last_transition_time = None;
        }
        status
    };
    timeless(one) == timeless(other)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use lifecycle::world::{Fact, Turn};
    use serde_json::{Value, json};

    use super::*;

    fn rehearsed(spec: &Value, ran_by: &Value) -> Rehearsal {
        let resource = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
            "metadata": {"name": "orders", "namespace": "shop", "uid": "u", "generation": 2},
            "spec": {"template": {"spec": spec}},
            "status": {"blueGreenState": "ACTIVE_BLUE", "jobStatus": {"state": "RUNNING"},
                "lastReconciledSpec": json!({"spec": {"template": {"spec": ran_by}}}).to_string()}});
        let blue = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"name": "orders-blue", "namespace": "shop", "uid": "b", "generation": 1,
                "labels": {"flink/blue-green-deployment-type": "BLUE"}, "ownerReferences": [
                {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment", "name": "orders", "uid": "u"}]},
            "spec": ran_by, "status": {"observedGeneration": 1, "lifecycleState": "STABLE", "jobStatus": {"state": "RUNNING"}}});
        let (resource, blue) =
            (serde_json::from_value(resource).unwrap(), serde_json::from_value(blue).unwrap());
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let settings =
            Settings { deletion_delay: std::time::Duration::from_mins(1), ..Settings::default() };
        let mut rehearsal = Rehearsal::new(resource, (Some(blue), None), settings, now);
        loop {
            match rehearsal.go_on() {
                Ok(true) => {}
                Ok(false) => return rehearsal,
                Err(Question::Ingress(colour)) => {
                    rehearsal.facts.ingress = Some((colour, Ingress::InPlace));
                }
                Err(Question::Turn) => rehearsal.facts.turn = Fact::Known(Turn::Taken),
                Err(question @ Question::Savepoint(..)) => panic!("{question:?}"),
            }
        }
    }

    fn described(rehearsal: &Rehearsal) -> String {
        let steps = rehearsal.outcome.scenes.iter().flat_map(|scene| &scene.steps);
        steps.map(|step| step.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    fn spec(parallelism: i32, mode: &str) -> Value {
        json!({"image": "flink:1.20", "flinkConfiguration": {"state.savepoints.dir": "s3://b/sp/"},
            "job": {"parallelism": parallelism, "upgradeMode": mode}})
    }

    #[test]
    fn a_change_of_the_job_is_reported_up_to_the_end_of_the_former_colour() {
        let rehearsal = rehearsed(&spec(4, "savepoint"), &spec(2, "savepoint"));
        expect![[r#"
            take a savepoint of the job of `orders-blue`, which keeps running
            create FlinkDeployment `orders-green`, which starts from s3://b/sp/savepoint-…
            delete FlinkDeployment `orders-blue`"#]]
        .assert_eq(&described(&rehearsal));
        assert!(!rehearsal.outcome.stops_job && rehearsal.outcome.halt.is_none());
        assert_eq!(rehearsal.status.blue_green_state, Some(Colour::Green.active()));
    }

    #[test]
    fn a_change_in_place_ends_with_the_child_as_it_would_be() {
        let mut suspended = spec(2, "savepoint");
        suspended["job"]["state"] = "suspended".into();
        let rehearsal = rehearsed(&suspended, &spec(2, "savepoint"));
        assert_eq!(described(&rehearsal), "change FlinkDeployment `orders-blue` in place");
        assert!(Child(&rehearsal.changed.unwrap()).is_to_stop());
    }

    #[test]
    fn nothing_is_said_where_nothing_would_be_done() {
        let rehearsal = rehearsed(&spec(2, "savepoint"), &spec(2, "savepoint"));
        assert_eq!((described(&rehearsal).as_str(), rehearsal.outcome.halt), ("", None));
    }
}
