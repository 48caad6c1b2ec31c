//! Requests to the admission webhook, from the API server or anyone else.

use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use config::OperatorConfig;
use lifecycle::world::Fact;
use operator::webhook::admit::{Facts, Jurisdiction, Review, judge, mutated};

use super::{Target, fuzz, kind_of};

const WORDS: &[&str] = &[
    "\"request\":",
    "\"uid\":",
    "\"operation\":\"UPDATE\"",
    "\"operation\":\"CREATE\"",
    "\"object\":",
    "\"oldObject\":",
    "\"subResource\":\"status\"",
    "FlinkDeployment",
    "FlinkSessionJob",
    "FlinkStateSnapshot",
    "FlinkBlueGreenDeployment",
    "deletionTimestamp",
    "generateName",
    "\"labels\":",
    "deploymentName",
    "flinkConfiguration",
    "lastReconciledSpec",
    "null",
];

#[test]
fn a_review_is_answered_or_refused() {
    let target = Target { name: "review", words: WORDS, bytes_max: 32 << 10, outcomes_min: 11 };
    let operator = OperatorConfig::default();
    fuzz(&target, |input| {
        let review = match Review::parse(&input.bytes) {
            Ok(review) => review,
            Err(error) => return kind_of(&error.to_string()),
        };
        let patched = patched(&review);
        let (has_job, uid) = (review.job().is_some(), review.uid().to_owned());
        assert!(Jurisdiction::default().has(&review) || review.mutable().is_none());
        let change = match review.change() {
            Ok(Some(change)) => change,
            Ok(None) => return format!("let pass {patched}"),
            Err(refusal) => return kind_of(&refusal.to_review(&uid).to_string()),
        };
        let facts = Facts {
            session: Fact::Known(Some(FlinkDeployment::new(
                "session",
                FlinkDeploymentSpec::default(),
            ))),
            has_job: Fact::Known(has_job),
            is_foreign: false,
            opinions: vec![],
        };
        let _subject = change.subject(None);
        let answer = judge(&change, &facts, &operator);
        let told = answer.to_review(&uid);
        assert_eq!(told["response"]["uid"], uid);
        assert_eq!(told["response"]["allowed"], answer.violations.is_empty());
        let first = answer.violations.first().map(|violation| kind_of(&violation.message));
        format!("{} {patched} {}", answer.violations.len().min(9), first.unwrap_or_default())
    });
}

/// Returns the number of operations in the patch, which must apply to its object.
fn patched(review: &Review) -> usize {
    let patch = mutated(review, None).patch;
    if let Some((_, object)) = review.mutable() {
        let mut object = object.clone();
        json_patch::patch(&mut object, &patch).unwrap();
    }
    patch.len()
}
