use super::*;
use crate::status::DeploymentStatus;

/// Statuses written by the Java operator.
const TAKEOVER: [&str; 6] = [
    include_str!("../../../../tests/golden/takeover/native-app-basic.yaml"),
    include_str!("../../../../tests/golden/takeover/native-ha-last-state.yaml"),
    include_str!("../../../../tests/golden/takeover/native-session.yaml"),
    include_str!("../../../../tests/golden/takeover/native-v2-0.yaml"),
    include_str!("../../../../tests/golden/takeover/standalone-app.yaml"),
    include_str!("../../../../tests/golden/takeover/standalone-ha-replicas.yaml"),
];

fn is_same(one: &str, other: &str) -> bool {
    let read = ReconciledSpec::parse;
    matches!((read(one), read(other)), (Ok(one), Ok(other)) if one.says_the_same(&other))
}

fn stored_specs() -> Vec<String> {
    let mut texts = Vec::new();
    for file in TAKEOVER {
        for document in file.split("\n---\n").filter(|text| text.contains("kind: FlinkDeployment"))
        {
            let Ok(value) = serde_yaml::from_str::<Value>(document) else { continue };
            if value["kind"] != "FlinkDeployment" {
                continue;
            }
            let status: DeploymentStatus = serde_json::from_value(value["status"].clone()).unwrap();
            let reconciliation = status.reconciliation_status;
            texts.extend(reconciliation.last_reconciled_spec);
            texts.extend(reconciliation.last_stable_spec);
        }
    }
    texts
}

#[test]
fn what_the_java_operator_stored_is_written_back_to_the_letter() {
    let texts = stored_specs();
    assert!(texts.len() >= 6, "{} stored specs", texts.len());
    for text in texts {
        let spec = ReconciledSpec::parse(&text).unwrap();
        let ours: Value = serde_json::from_str(&spec.to_text()).unwrap();
        let theirs: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(ours, theirs);
        assert!(is_same(&text, &spec.to_text()));
        assert_eq!(ReconciledSpec::parse_any(&text).unwrap(), spec);
    }
}

#[test]
fn fields_stand_in_the_order_of_the_java_operator() {
    let spec = ReconciledSpec::new(FlinkDeploymentSpec::default(), true);
    assert_eq!(
        spec.to_text(),
        r#"{"spec":{"job":null,"restartNonce":null,"flinkConfiguration":{},"image":null,"imagePullPolicy":null,"serviceAccount":null,"flinkVersion":null,"ingress":null,"podTemplate":null,"jobManager":null,"taskManager":null,"logConfiguration":null,"mode":null},"resource_metadata":{"apiVersion":"flink.apache.org/v1beta1","firstDeployment":true}}"#
    );
}

#[test]
fn the_old_form_is_the_bare_spec() {
    let text = r#"{"apiVersion":"flink.apache.org/v1beta1","image":"flink:1.16","job":{"state":"suspended"}}"#;
    let spec = ReconciledSpec::parse(text).unwrap();
    assert_eq!(spec.first_deployment, None);
    assert_eq!(spec.spec.image.as_deref(), Some("flink:1.16"));
    assert_eq!(spec.job_state(), JobState::Suspended);
}

#[test]
fn whatever_is_not_a_spec_is_corrupt() {
    for text in ["", "null", "[]", "{}", "{\"spec\":null}", "{\"spec\":{\"job\":7}}", "{\"spec\":{"]
    {
        assert!(ReconciledSpec::parse(text).is_err(), "{text}");
    }
}

#[test]
fn order_and_nulls_do_not_make_another_spec() {
    let one = r#"{"spec":{"image":"a","job":{"parallelism":1,"args":null}},"resource_metadata":{"firstDeployment":false}}"#;
    let other = r#"{"spec":{"job":{"parallelism":1},"image":"a","mode":null}}"#;
    assert!(is_same(one, other));
    assert!(!is_same(one, &other.replace("\"a\"", "\"b\"")));
    assert!(!is_same(one, "{"));
}

#[test]
fn a_session_job_is_in_the_cluster_that_it_was_deployed_to() {
    let last = r#"{"spec":{"deploymentName":"a","job":{}},"resource_metadata":{}}"#;
    let old = r#"{"apiVersion":"flink.apache.org/v1beta1","deploymentName":"a","job":{}}"#;
    let found = |wanted, last| session_cluster(wanted, last).map(Cow::into_owned);
    for last in [last, old] {
        assert_eq!(found(Some("b"), Some(last)).as_deref(), Some("a"));
        assert_eq!(found(None, Some(last)).as_deref(), Some("a"));
    }
    assert_eq!(found(Some("b"), None).as_deref(), Some("b"));
    assert_eq!(found(Some("b"), Some("{")).as_deref(), Some("b"));
    assert_eq!(found(Some(""), None), None);
}

/// It must equal the name found by reading the whole spec.
#[test]
fn the_cluster_of_a_stored_spec_is_read_without_the_rest_of_it() {
    let whole = |text: &str| ReconciledJob::parse(text).ok()?.spec.deployment_name;
    let named = Reconciled::new(
        FlinkSessionJobSpec {
            deployment_name: Some("a".to_owned()),
            job: Some(JobSpec::default()),
            ..FlinkSessionJobSpec::default()
        },
        true,
    );
    let nameless = Reconciled::new(FlinkSessionJobSpec::default(), false);
    let cut = named.to_text().split_at(40).0.to_owned();
    for text in [
        &*named.to_text(),
        &nameless.to_text(),
        &cut,
        "",
        "null",
        "7",
        "[]",
        "{}",
        r#"{"deploymentName":"a"}"#,
        r#"{"apiVersion":"v1","deploymentName":"a"}"#,
        r#"{"apiVersion":"v1","deploymentName":7}"#,
        r#"{"spec":7,"resource_metadata":{}}"#,
        r#"{"spec":{"deploymentName":7},"resource_metadata":{}}"#,
        r#"{"spec":{"deploymentName":"a"}} {"#,
    ] {
        assert_eq!(stored_cluster(text), whole(text), "{text}");
    }
    assert_eq!(stored_cluster(&named.to_text()).as_deref(), Some("a"));
}
