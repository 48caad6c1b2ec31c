//! Validators in the operator's configuration: they hold back changes, and nothing else.

use lifecycle::error_document::reason_of;
use lifecycle::verdict::{Opinion, Remembered, Verdict, Version};
use lifecycle::world::Question;
use validation::Violation;
use validation::extension::FailurePolicy;

use super::*;

fn judged(mut scene: Scene, answer: Result<&str, &str>) -> Scene {
    let violation =
        |message: &str| Violation { path: "spec.image".to_owned(), message: message.to_owned() };
    let opinion = Opinion {
        validator: "policy".to_owned(),
        on_failure: FailurePolicy::Fail,
        answer: match answer {
            Ok("") => Ok(vec![]),
            Ok(message) => Ok(vec![violation(message)]),
            Err(why) => Err(why.to_owned()),
        },
    };
    scene.facts.verdict = Fact::Known(Verdict::Given(vec![opinion]));
    scene.validators.has_any = true;
    scene
}

fn changed() -> Scene {
    Scene::running("savepoint").edit(|spec| spec.image = Some("flink:new".to_owned()))
}

/// Returns the question that the decision raises; the scene gives no verdict.
fn question(scene: &Scene) -> Option<Question> {
    let mut scene = scene.clone();
    scene.facts.verdict = Fact::NotAsked;
    scene.validators.has_any = true;
    let world = World {
        validators: scene.validators.clone(),
        facts: scene.answers(),
        ..World::new(NOW.parse().unwrap(), (&scene.resource, &scene.status), None, &scene.operator)
    };
    decide(&world).err()
}

#[test]
fn they_are_asked_about_changes_only() {
    assert_eq!(question(&changed()), Some(Question::Verdict));
    assert_eq!(question(&Scene::new("savepoint")), Some(Question::Verdict));
    for scene in [
        Scene::running("savepoint"),
        Scene::running("last-state").silent(),
        Scene::running("savepoint").upgrading(UpgradeMode::Savepoint).path(SAVEPOINT),
        Scene::running("savepoint").suspended(UpgradeMode::Savepoint).path(SAVEPOINT),
        changed().delete(),
    ] {
        assert_eq!(question(&scene), None);
    }
}

#[test]
fn a_change_that_one_refuses_touches_nothing() {
    let plan = judged(changed(), Ok("must come from our registry")).plan();
    assert_eq!(step_names(&plan), Vec::<&str>::new());
    assert!(error(&plan).contains("spec.image: must come from our registry"), "{}", error(&plan));
    assert_eq!(plan.status.observed_generation, Some(1));
    assert_eq!(plan.status.job_status.state, Some(JobStatusState::Running));
}

#[test]
fn what_they_say_comes_together_with_what_is_built_in() {
    let scene = changed().edit_job(|job| job.parallelism = Some(0));
    let plan = judged(scene, Ok("must come from our registry")).plan();
    let error = error(&plan);
    assert!(error.contains("spec.job.parallelism: is `0`"), "{error}");
    assert!(error.contains("spec.image: must come from our registry"), "{error}");
}

#[test]
fn one_that_is_away_holds_the_change_back_and_is_reported_once() {
    let scene = judged(changed(), Err("it answered 503"));
    let plan = scene.plan();
    assert_eq!(step_names(&plan), Vec::<&str>::new());
    let reason = reason_of(plan.status.error.as_deref().unwrap());
    assert_eq!(reason.as_deref(), Some("ValidatorUnavailable"));
    assert_eq!(plan.look_again.map(|pause| pause.as_secs()), Some(5));
    let again = scene.after(&plan).plan();
    assert_eq!(again.status, plan.status, "nothing is written again");
    assert!(!again.steps.iter().any(|step| matches!(step, Step::Event(_))));
}

#[test]
fn an_upgrade_goes_on_to_the_spec_that_was_judged_while_a_newer_one_waits() {
    let scene = Scene::running("savepoint").upgrading(UpgradeMode::Savepoint).path(SAVEPOINT);
    let scene = scene.edit(|spec| spec.image = Some("flink:new".to_owned()));
    let plan = judged(scene, Err("it answered 503")).plan();
    let created =
        plan.steps.iter().map(described_step).find(|step| step.starts_with("create-cluster"));
    assert!(created.unwrap().contains("flink:1.20"), "{:?}", step_names(&plan));
}

#[test]
fn a_first_deployment_waits_for_them() {
    for answer in [Ok("must not be"), Err("it answered 503")] {
        let plan = judged(Scene::new("savepoint"), answer).plan();
        assert_eq!(step_names(&plan), Vec::<&str>::new());
        assert_eq!(plan.status.reconciliation_status.last_reconciled_spec, None);
    }
    assert!(
        step_names(&judged(Scene::new("savepoint"), Ok("")).plan()).contains(&"create-cluster")
    );
}

#[test]
fn a_change_that_they_allow_is_made() {
    let plan = judged(changed(), Ok("")).plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{:?}", step_names(&plan));
    assert_eq!(plan.status.error, None);
}

/// Their verdict on this version is remembered: no validator is called for an idle resource.
#[test]
fn a_change_that_one_refused_is_not_asked_about_again() {
    let mut scene = judged(changed(), Ok("must come from our registry"));
    let Fact::Known(verdict) = scene.facts.verdict.clone() else { unreachable!() };
    scene.facts.verdict = Fact::NotAsked;
    let version = Version { generation: 2, session: None };
    let at = ago(3600);
    scene.validators.remembered = Some(Remembered { version, verdict, at, attempts: 1 });
    assert!(error(&scene.plan()).contains("must come from our registry"));
}
