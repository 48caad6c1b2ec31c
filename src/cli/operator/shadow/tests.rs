use expect_test::expect;

use super::*;

fn preview(steps: Vec<&'static str>, error: Option<&str>) -> Preview {
    let because = "the spec changed".to_owned();
    Preview { because, steps, error: error.map(str::to_owned), blocker: None }
}

#[test]
fn what_is_left_as_it_is_is_no_finding() {
    assert_eq!(finding(Ok(preview(vec![], None))), None);
}

#[test]
fn a_step_an_error_and_a_failure_to_decide_are_findings() {
    let deed = finding(Ok(preview(vec!["trigger-stop"], None)));
    assert_eq!(deed, Some((vec!["trigger-stop".into()], "the spec changed".into(), None)));
    let refusal = finding(Ok(preview(vec![], Some("no state"))));
    assert_eq!(refusal, Some((vec![], "the spec changed".into(), Some("no state".into()))));
    let failure = finding(Err("forbidden".to_owned()));
    assert_eq!(failure, Some((vec![], "not decided".into(), Some("forbidden".into()))));
}

#[test]
fn findings_are_a_table() {
    let of = |name: &str, steps: &[&str], error: Option<&str>| Finding {
        kind: "FlinkDeployment".to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        because: "the spec changed".to_owned(),
        error: error.map(str::to_owned),
    };
    let findings = [
        of("orders", &["write-status", "trigger-stop"], None),
        of("carts", &[], Some("`lastReconciledSpec` cannot be read")),
    ];
    expect![[r#"
        NAMESPACE   NAME                     WOULD                        BECAUSE
        shop        FlinkDeployment/orders   write-status, trigger-stop   the spec changed
        shop        FlinkDeployment/carts    <none>                       the spec changed: `lastReconciledSpec` cannot be read"#]].assert_eq(&shown(&findings));
}
