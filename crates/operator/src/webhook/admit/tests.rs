use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::run::Watch;
use api::deployment::FlinkDeploymentSpec;
use api::reconciled::Reconciled;
use api::state_snapshot::JobKind;
use config::label_selector::LabelSelector;

fn deployment() -> Value {
    serde_json::from_str(include_str!("../../../../../tests/reviews/deployment.json")).unwrap()
}

fn session_job() -> Value {
    serde_json::from_str(include_str!("../../../../../tests/reviews/session-job.json")).unwrap()
}

fn snapshot() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkStateSnapshot",
        "metadata": {"name": "before-release", "namespace": "shop"},
        "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "wordcount"}, "savepoint": {}},
    })
}

fn with(mut object: Value, path: &str, value: Value) -> Value {
    let (parent, field) = path.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

fn review(operation: &str, object: &Value, old: &Value) -> Review {
    let kind = object["kind"].as_str().or(old["kind"].as_str()).unwrap();
    let body = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7",
            "kind": {"group": "flink.apache.org", "version": "v1beta1", "kind": kind},
            "namespace": "shop",
            "operation": operation,
            "object": object,
            "oldObject": old,
            "options": null,
        },
    });
    Review::parse(body.to_string().as_bytes()).unwrap()
}

fn created(object: &Value) -> Review {
    review("CREATE", object, &Value::Null)
}

fn judged(review: &Review, facts: &Facts) -> Answer {
    match review.clone().change() {
        Ok(Some(change)) => judge(&change, facts, &OperatorConfig::default()),
        Ok(None) => Answer::allowed(),
        Err(refusal) => refusal,
    }
}

#[track_caller]
fn check(answer: &Answer, expected: Expect) {
    let described = answer.violations.iter().map(|violation| format!("{violation}\n"));
    let warned = answer.warnings.iter().map(|warning| format!("warning: {warning}\n"));
    expected.assert_eq(&described.chain(warned).collect::<String>());
}

#[test]
fn what_is_right_is_let_pass() {
    check(&judged(&created(&deployment()), &Facts::default()), expect![[""]]);
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let mut object = with(deployment(), "/spec/job/parallelism", json!(0));
    object = with(object, "/spec/serviceAccount", Value::Null);
    let answer = judged(&created(&object), &Facts::default());
    assert_eq!(answer.violations.len(), 2, "{answer:?}");
    let response = answer.to_review("7")["response"].clone();
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("7"), &json!(false)));
    assert_eq!(response["status"]["code"], 403);
    let message = response["status"]["message"].as_str().unwrap();
    for violation in &answer.violations {
        assert!(message.contains(&violation.to_string()), "{message}");
    }
    let fields: Vec<&Value> = response["status"]["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["field"])
        .collect();
    assert!(fields.contains(&&json!("spec.job.parallelism")), "{fields:?}");
}

#[test]
fn an_object_of_another_form_is_refused_by_field() {
    let object = with(deployment(), "/spec/job/parallelism", json!("many"));
    let answer = judged(&created(&object), &Facts::default());
    assert_eq!(answer.violations.len(), 1);
    assert!(answer.violations[0].to_string().contains("many"), "{answer:?}");
}

/// A resource that a newer rule makes invalid can still be deleted, and labelled.
#[test]
fn what_leaves_the_spec_as_it_is_is_never_refused() {
    let stored = with(deployment(), "/spec/job/parallelism", json!(0));
    let without_finalizer = with(stored.clone(), "/metadata/finalizers", json!([]));
    assert!(review("UPDATE", &without_finalizer, &stored).change().unwrap().is_none());
    // A status has no case: the API server does not call the webhook for its subresource.
    let going = with(deployment(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let edited = with(going.clone(), "/spec/job/parallelism", json!(0));
    assert!(review("UPDATE", &edited, &going).change().unwrap().is_none());
    assert!(review("DELETE", &Value::Null, &stored).change().unwrap().is_none());
    let canary = with(stored, "/metadata/labels", json!({"flink.apache.org/canary": "True"}));
    assert!(created(&canary).change().unwrap().is_none());
}

#[test]
fn a_part_of_an_object_is_nobodys_to_judge() {
    let mut body = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "7",
            "kind": {"group": "flink.apache.org", "version": "v1beta1", "kind": "FlinkDeployment"},
            "operation": "UPDATE",
            "object": {"metadata": {}, "spec": {}},
        },
    });
    let of = |body: &Value| Review::parse(body.to_string().as_bytes()).unwrap();
    assert!(judged(&of(&body), &Facts::default()).violations.len() > 1);
    body["request"]["subResource"] = json!("status");
    assert!(of(&body).change().unwrap().is_none());
}

#[test]
fn a_kind_that_is_not_operated_is_nobodys_to_judge() {
    let review = created(&with(deployment(), "/kind", json!("FlinkCatalog")));
    assert!(!Jurisdiction::default().has(&review));
    assert!(review.clone().change().unwrap().is_none());
    assert_eq!(mutated(&review, None), Answer::allowed());
}

fn blue_green(spec: &Value) -> Value {
    json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {"transitionMode": "BASIC", "template": {"spec": spec}}})
}

#[test]
fn a_blue_green_deployment_is_judged_as_its_children_are() {
    let fine = created(&blue_green(&deployment()["spec"]));
    assert!(judged(&fine, &Facts::default()).is_allowed());
    let subject = fine.change().unwrap().unwrap().subject(None).unwrap();
    assert_eq!(subject.object["metadata"]["name"], "orders-blue");
    let mut broken = deployment();
    broken["spec"]["job"]["parallelism"] = json!(0);
    broken["spec"]["flinkConfiguration"]["kubernetes.operator.no-such-option"] = json!("1");
    let mut broken = blue_green(&broken["spec"]);
    broken["spec"]["transitionMode"] = json!("ADVANCED");
    let answer = judged(&created(&broken), &Facts::default());
    let paths: Vec<&str> = answer.violations.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["spec.transitionMode", "spec.template.spec.job.parallelism"]);
    assert!(answer.warnings[0].contains("no-such-option"), "{:?}", answer.warnings);
    // Both would start without state.
    let mut redeployed = blue_green(&deployment()["spec"]);
    redeployed["spec"]["template"]["spec"]["job"]["savepointRedeployNonce"] = json!(1);
    let mut stored = blue_green(&deployment()["spec"]);
    stored["status"] = json!({"lastReconciledSpec": json!({"spec": stored["spec"]}).to_string()});
    let answer = judged(&review("UPDATE", &redeployed, &stored), &Facts::default());
    assert_eq!(answer.violations[0].path, "spec.template.spec.job.initialSavepointPath");
    let metadata = with(broken.clone(), "/metadata/labels", json!({"a": "b"}));
    assert!(review("UPDATE", &metadata, &broken).change().unwrap().is_none());
}

#[test]
fn what_another_installation_operates_is_nobodys_to_judge() {
    let here = |namespaces: &[&str], selector: Option<&str>| Jurisdiction {
        watch: Watch::Namespaces(namespaces.iter().map(|name| (*name).to_owned()).collect()),
        selector: selector.map(|text| LabelSelector::parse(text).unwrap()),
    };
    let ours = created(&with(deployment(), "/metadata/labels", json!({"team": "data"})));
    assert!(Jurisdiction::default().has(&ours));
    assert!(here(&["fraud", "shop"], None).has(&ours));
    assert!(!here(&["fraud"], None).has(&ours));
    assert!(here(&["shop"], Some("team=data")).has(&ours));
    assert!(!here(&["shop"], Some("team=ops")).has(&ours));
    assert!(!here(&["shop"], Some("team=data")).has(&created(&deployment())));
    // The labels after the change decide.
    let given_up = review("UPDATE", &deployment(), ours.object());
    assert!(!here(&["shop"], Some("team=data")).has(&given_up));
    assert!(here(&["shop"], Some("team=data")).has(&created(&snapshot())), "its job says that");
    let foreign = Facts { is_foreign: true, ..Facts::default() };
    assert!(judged(&created(&snapshot()), &foreign).is_allowed());
}

/// As in the loop: the rules of a change compare with what was reconciled, not with what was stored.
#[test]
fn a_change_is_compared_with_what_was_reconciled_last() {
    let spec: FlinkDeploymentSpec = serde_json::from_value(deployment()["spec"].clone()).unwrap();
    let last = Reconciled::new(spec, false).to_text();
    let mut session = deployment();
    session["spec"].as_object_mut().unwrap().remove("job");
    let before_the_first = review("UPDATE", &session, &deployment());
    assert!(judged(&before_the_first, &Facts::default()).is_allowed());
    let status = json!({"reconciliationStatus": {"lastReconciledSpec": last}});
    let stored = with(deployment(), "/status", status);
    let answer = judged(&review("UPDATE", &session, &stored), &Facts::default());
    assert_eq!(answer.violations.len(), 1, "{answer:?}");
    assert_eq!(answer.violations[0].path, "spec.job");
    let corrupt = with(deployment(), "/status", json!({"reconciliationStatus": "of tomorrow"}));
    assert!(judged(&review("UPDATE", &session, &corrupt), &Facts::default()).is_allowed());
}

#[test]
fn a_cluster_of_an_old_version_is_maintained_while_it_runs() {
    let old = with(deployment(), "/spec/flinkVersion", json!("v1_14"));
    let spec: FlinkDeploymentSpec = serde_json::from_value(old["spec"].clone()).unwrap();
    let last = Reconciled::new(spec, false).to_text();
    let status = json!({"reconciliationStatus": {"lastReconciledSpec": last}});
    let stored = with(old.clone(), "/status", status);
    let suspended = with(old.clone(), "/spec/job/state", json!("suspended"));
    check(&judged(&review("UPDATE", &suspended, &stored), &Facts::default()), expect![[""]]);
    assert!(!judged(&created(&old), &Facts::default()).is_allowed());
}

#[test]
fn a_session_job_is_judged_with_its_cluster() {
    let review = created(&session_job());
    assert_eq!(review.clone().change().unwrap().unwrap().session(), Some("session"));
    let application: FlinkDeployment = serde_json::from_value(deployment()).unwrap();
    let session = Fact::Known(Some(application));
    check(
        &judged(&review, &Facts { session, ..Facts::default() }),
        expect![[r#"
            spec.deploymentName: `session` is an application cluster, which only runs its own job
        "#]],
    );
    let nobody = Facts { session: Fact::Known(None), ..Facts::default() };
    check(&judged(&review, &nobody), expect![[""]]);
    let unknown = Facts { session: Fact::Unknown("it is away".to_owned()), ..Facts::default() };
    check(
        &judged(&review, &unknown),
        expect![[r#"
            warning: the session cluster could not be looked up, so the operator will check what depends on it: it is away
        "#]],
    );
}

#[test]
fn a_snapshot_needs_its_job_as_far_as_anybody_knows() {
    let review = created(&snapshot());
    assert_eq!(review.job(), Some((JobKind::FlinkDeployment, "wordcount")));
    let has_job = |has_job| Facts { has_job, ..Facts::default() };
    assert!(judged(&review, &has_job(Fact::Known(true))).is_allowed());
    check(
        &judged(&review, &has_job(Fact::Known(false))),
        expect![[r#"
            spec.jobReference: there is no FlinkDeployment `wordcount` in this namespace: create it first, or correct the name
        "#]],
    );
    let unknown = judged(&review, &has_job(Fact::Unknown("it is away".to_owned())));
    assert!(unknown.is_allowed() && unknown.warnings.len() == 1);
    let neither = created(&with(snapshot(), "/spec/savepoint", Value::Null));
    assert!(!judged(&neither, &has_job(Fact::Known(true))).is_allowed());
}

#[test]
fn an_option_without_effect_is_pointed_out_and_let_pass() {
    let options = json!({"kubernetes.operator.job.restart.faild": "true"});
    let object = with(deployment(), "/spec/flinkConfiguration", options);
    let answer = judged(&created(&object), &Facts::default());
    assert!(answer.is_allowed());
    assert!(answer.warnings[0].contains("`kubernetes.operator.job.restart.failed`"));
    let warnings = answer.to_review("7")["response"]["warnings"].clone();
    assert_eq!(warnings.as_array().unwrap().len(), 1);
}

#[test]
fn validators_have_their_say() {
    let opinion =
        |name: &str, on_failure, answer| Opinion { validator: name.to_owned(), on_failure, answer };
    let too_many = Violation { path: "spec.job".to_owned(), message: "is too much".to_owned() };
    let opinions = vec![
        opinion("a", FailurePolicy::Fail, Ok(vec![too_many])),
        opinion("b", FailurePolicy::Fail, Err("it is away".to_owned())),
        opinion("c", FailurePolicy::Ignore, Err("it is away".to_owned())),
    ];
    check(
        &judged(&created(&deployment()), &Facts { opinions, ..Facts::default() }),
        expect![[r#"
            spec.job: is too much
            spec: validator `b` gives no answer: it is away
            warning: validator `c` is skipped: it is away
        "#]],
    );
}

/// Returns the object after the answer's patch, as the API server applies it.
fn patched(object: &Value, answer: &Answer) -> Value {
    let mut object = object.clone();
    json_patch::patch(&mut object, &answer.patch).unwrap();
    object
}

#[test]
fn a_session_job_is_labelled_once() {
    let job = session_job();
    let answer = mutated(&created(&job), None);
    let labelled = patched(&job, &answer);
    let expected = with(job.clone(), "/metadata/labels", json!({"target.session": "session"}));
    assert_eq!(labelled, expected, "nothing else is changed");
    assert!(mutated(&created(&labelled), None).patch.is_empty(), "once is enough");
    let moved = with(labelled, "/spec/deploymentName", json!("other"));
    let again = patched(&moved, &mutated(&review("UPDATE", &moved, &job), None));
    assert_eq!(again["metadata"]["labels"]["target.session"], "other");
    let last = r#"{"spec":{"deploymentName":"session","job":{}},"resource_metadata":{}}"#;
    let status = json!({"reconciliationStatus": {"lastReconciledSpec": last}});
    let deployed = with(job.clone(), "/status", status);
    // A client that replaces a resource may leave out its status.
    let stays = patched(&moved, &mutated(&review("UPDATE", &moved, &deployed), None));
    assert_eq!(stays["metadata"]["labels"]["target.session"], "session", "it was deployed there");
    let nameless = with(job, "/spec/deploymentName", json!("no name!"));
    assert!(mutated(&created(&nameless), None).patch.is_empty(), "validation tells that");
    assert!(mutated(&created(&deployment()), None).patch.is_empty());
}

#[test]
fn a_label_that_was_taken_away_comes_back_without_any_mutator() {
    let stored =
        with(session_job(), "/metadata/labels", json!({"target.session": "session", "a": "b"}));
    let edited = with(session_job(), "/metadata/labels", json!({"a": "b"}));
    let review = review("UPDATE", &edited, &stored);
    assert!(review.mutable().is_none(), "a new mutator restarts nothing that nobody edited");
    assert_eq!(patched(&edited, &mutated(&review, None)), stored);
}

#[test]
fn what_mutators_made_becomes_a_patch() {
    // The API server has yet to generate the name.
    let mut object = deployment();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("name");
    metadata.insert("generateName".to_owned(), json!("wordcount-"));
    let review = created(&object);
    let (kind, given) = review.mutable().unwrap();
    assert_eq!(kind, Kind::FlinkDeployment);
    let without = vec!["mutator `b` is skipped: it is away".to_owned()];
    let made = with(given.clone(), "/spec/job/parallelism", json!(4));
    let outcome = Mutated { object: made, by: vec!["a".to_owned()], without };
    let answer = mutated(&review, Some(Ok(outcome)));
    assert_eq!(patched(&object, &answer), with(object, "/spec/job/parallelism", json!(4)));
    assert_eq!(answer.warnings.len(), 1);
    let response = answer.to_review("7")["response"].clone();
    assert_eq!(response["patchType"], "JSONPatch");
    let refused = mutated(&review, Some(Err("mutator `a` gives no answer".to_owned())));
    assert!(!refused.is_allowed());
}

#[test]
fn what_is_reported_has_a_bounded_length() {
    let long = |length: usize| "ä".repeat(length);
    let violation = Violation { path: long(5000), message: long(1_000_000) };
    let answer = Answer { violations: vec![violation; 200], ..Answer::allowed() };
    let described = answer.to_review("7").to_string();
    assert!(described.len() < 400_000, "{}", described.len());
    assert!(described.contains('…'));
    assert!(described.contains("and 150 more"));
    let short = Violation { path: long(300), message: long(1000) };
    let answer = Answer { violations: vec![short], ..Answer::allowed() };
    assert!(!answer.to_review("7").to_string().contains('…'), "nothing is left out");
}

#[test]
fn a_body_that_would_take_much_memory_is_no_review() {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"});
    let with = |object: &str| {
        let text = review.to_string();
        format!("{},\"request\":{object}}}", text.strip_suffix('}').unwrap())
    };
    let dense = with(&format!("[{}0]", "[],".repeat(150_000)));
    let described = Review::parse(dense.as_bytes()).unwrap_err().to_string();
    assert!(described.contains("more than 250000 values"), "{described}");
    // Commas in a string do not separate values.
    let request = json!({
        "uid": "7", "operation": "CREATE",
        "kind": {"group": "flink.apache.org", "kind": "FlinkDeployment"},
        "object": {"metadata": {}, "spec": {"job": {"args": [r#",\",["#.repeat(200_000)]}}},
    });
    assert!(Review::parse(with(&request.to_string()).as_bytes()).is_ok());
}

#[test]
fn a_body_that_is_no_review_is_reported() {
    let described = |body: &str| Review::parse(body.as_bytes()).unwrap_err().to_string();
    for body in ["", "[]", "{}", r#"{"apiVersion": "v1", "kind": "Pod"}"#] {
        assert!(described(body).starts_with("no AdmissionReview"), "{body}");
    }
    assert!(
        described(r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#)
            .ends_with("`request`")
    );
}

#[test]
fn an_edit_of_a_paused_resource_is_stored_and_warned_of() {
    let mut paused = deployment();
    paused["metadata"]["annotations"] = json!({"flink.apache.org/paused": "true"});
    let mut edited = paused.clone();
    edited["spec"]["job"]["parallelism"] = json!(7);
    let answer = judged(&review("UPDATE", &edited, &paused), &Facts::default());
    assert!(answer.is_allowed());
    assert!(answer.warnings[0].contains("kubectl flink unpause"), "{:?}", answer.warnings);
    let answer = judged(&review("UPDATE", &paused, &deployment()), &Facts::default());
    assert_eq!(answer.warnings, [""; 0], "a pause itself is no edit");
}
