//! How an operator carries out its plans for jobs and clusters in a simulated world, as in [`testing::operated`].

use api::{PAUSED_ANNOTATION, is_paused};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lifecycle::conditions::of_type;
use lifecycle::paused::PAUSED;
use lifecycle::plan::{PlanOf, Step};
use lifecycle::resource::{JobResource, StatusOfJob as _};
use testing::laws::Law;
pub(crate) use testing::operated::{Event, Interruption, Next, Operated, interrupted, undisturbed};

/// What the API server has stored of a resource: the generation, and the status.
pub(crate) type Stored<S> = (Option<i64>, S);

/// Whether the API server rejects a step because the resource is no longer what the plan was made for. A status is
/// written although the spec was changed.
pub(crate) fn is_in_conflict<K: JobResource, S: PartialEq>(
    step: &Step<K>,
    stored: &Stored<S>,
    known: &Stored<S>,
) -> bool {
    match step {
        Step::WriteStatus(_) => stored.1 != known.1,
        Step::AddFinalizer | Step::RemoveFinalizer => stored != known,
        _ => false,
    }
}

/// Adds the annotation of a paused resource, or removes it.
pub(crate) fn pause(metadata: &mut ObjectMeta, is_paused: bool) {
    let annotations = metadata.annotations.get_or_insert_default();
    if is_paused {
        annotations.insert(PAUSED_ANNOTATION.to_owned(), "true".to_owned());
    } else {
        annotations.remove(PAUSED_ANNOTATION);
    }
}

/// Checks that a plan for a paused resource only records what is found, and says so.
pub(crate) fn assert_is_left_alone<K: JobResource>(resource: &K, plan: &PlanOf<K>) {
    let (law, told) = (Law::Paused, plan.steps.iter().map(Step::name).collect::<Vec<_>>());
    if is_paused(resource.meta()) {
        assert!(plan.steps.iter().all(Step::is_record), "{law}: {told:?}");
        let conditions = plan.status.conditions().map(|all| of_type(all, PAUSED).is_some());
        let is_gone = resource.meta().deletion_timestamp.is_some()
            && resource.meta().finalizers.as_ref().is_none_or(Vec::is_empty);
        let is_reported = conditions != Some(false) || plan.status.error().is_some() || is_gone;
        assert!(is_reported, "{law}: not told: {:?}", plan.status);
    }
}

/// What the worlds of all kinds do alike.
macro_rules! operated {
    ($kind:ty, $status:ty) => {
        type Plan = lifecycle::plan::PlanOf<$kind>;
        type Step = lifecycle::plan::Step<$kind>;
        type Stored = Stored<$status>;

        fn steps(plan: &Self::Plan) -> &[Self::Step] {
            &plan.steps
        }

        fn described(&self, plan: &Self::Plan) -> String {
            let steps: Vec<&str> = plan.steps.iter().map(lifecycle::plan::Step::name).collect();
            format!("{}: {steps:?}", plan.because)
        }

        fn say(&mut self, line: String) {
            if self.log().last().is_none_or(|last| !last.ends_with(&line)) {
                self.emit(line);
            }
        }

        fn note_stored(&self, step: &Self::Step, known: &mut Self::Stored) {
            use lifecycle::plan::Step;
            if matches!(step, Step::WriteStatus(_) | Step::AddFinalizer | Step::RemoveFinalizer) {
                *known = self.stored();
            }
        }

        fn may_conclude(&self, known: &Self::Stored) -> bool {
            self.stored().1 == known.1
        }

        fn note_unanswered(&mut self) {
            self.upheaval().stopped_at = Some("no answer".to_owned());
        }
    };
}
pub(crate) use operated;
