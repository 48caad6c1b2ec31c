//! The result of each check for given facts.

use expect_test::{Expect, expect};

use super::*;
use clients::cluster::access::Operation;

fn installed(ready: i32) -> Installed {
    let name = "ops/operator".to_owned();
    Installed { name, ready, wanted: 1, version: None, is_ours: true }
}

fn facts() -> Facts {
    Facts {
        is_pre: false,
        namespace: "shop".to_owned(),
        version: ("v1.34.2".to_owned(), 1, 34),
        crds: Ok(vec![crd(Drift::Same)]),
        rights: vec![(right(true), Ok(true))],
        operators: Ok(vec![installed(1)]),
        leading: Ok(vec![leading("pod-1", 3)]),
        handled: Ok(Handled::default()),
        webhooks: Ok(vec![]),
        storage: Ok(vec![("standard".to_owned(), true)]),
        service_account: Ok(true),
    }
}

fn crd(state: Drift) -> Crd {
    Crd { name: "flinkdeployments.flink.apache.org".to_owned(), state }
}

fn leading(holder: &str, age: i64) -> Leading {
    let lease = "ops/operator".to_owned();
    Leading { lease, holder: holder.to_owned(), age_seconds: Some(age) }
}

fn right(is_needed: bool) -> Right {
    let operation = Operation {
        verb: "patch",
        group: api::GROUP,
        resource: "flinkdeployments",
        subresource: None,
    };
    Right { operation, is_cluster_wide: false, is_needed, commands: vec!["deploy", "suspend"] }
}

fn forbidden<T>() -> cluster::Result<T> {
    Err(cluster::Error::Forbidden {
        user: "me".to_owned(),
        verb: "list".to_owned(),
        resource: "leases".to_owned(),
        namespace: None,
    })
}

#[track_caller]
fn check_all(facts: &Facts, expected: Expect) {
    let table = super::super::table(&judge(facts));
    expected.assert_eq(&anstream::adapter::strip_str(&table).to_string());
}

#[test]
fn a_cluster_that_is_ready_passes() {
    check_all(
        &facts(),
        expect![[r#"
            ok       kubernetes-version  v1.34.2
            ok       definitions         1 installed, none drifted
            ok       rights              all 1 permissions that were checked are granted
            ok       operator            ops/operator 1/1 ready
            ok       leader              ops/operator is held by `pod-1`, renewed 3 s ago
            ok       webhook             none is registered: specs are validated when they are reconciled
            ok       service-account     `flink` is in namespace `shop`
            ok       storage-class       `standard` is the default
        "#]],
    );
}

#[test]
fn an_operator_in_a_terminal_shows_by_what_it_wrote() {
    let judged = |deployments, current, age_seconds| {
        let handled = Ok(Handled { deployments, current, age_seconds });
        let none = Facts { operators: Ok(vec![]), leading: Ok(vec![]), handled, ..facts() };
        let Check { result, message, .. } = operator(&none);
        format!("{result:?}: {message}")
    };
    assert_eq!(judged(0, 0, None), "Failed: no operator is installed, and none holds a Lease");
    assert_eq!(judged(2, 1, Some(5)), judged(0, 0, None), "an edit waits");
    assert_eq!(
        judged(2, 2, Some(40)),
        "Passed: all 2 deployments of namespace `shop` were last handled 40s ago by an operator in the foreground"
    );
    assert!(judged(2, 2, Some(4000)).starts_with("Warning: none is installed"));
}

#[test]
fn everything_that_fails_has_a_hint() {
    let facts = Facts {
        version: ("v1.20.1".to_owned(), 1, 20),
        crds: Ok(vec![crd(Drift::Missing)]),
        rights: vec![(right(true), Ok(false)), (right(false), Ok(false))],
        operators: Ok(vec![]),
        leading: Ok(vec![leading("", 5)]),
        webhooks: Ok(vec![Webhook {
            name: "hook".to_owned(),
            service: None,
            has_authority: false,
        }]),
        storage: Ok(vec![]),
        service_account: Ok(false),
        ..facts()
    };
    check_all(
        &facts,
        expect![[r#"
            failed   kubernetes-version  v1.20.1 is older than 1.25
                     hint: upgrade the cluster: its API server does not support the validation rules of the CRDs
            failed   definitions         not installed: flinkdeployments.flink.apache.org
                     hint: install them: kubectl flink crds --apply
            failed   rights              not allowed to patch flinkdeployments.flink.apache.org in namespace `shop`
                     hint: needed by: deploy, suspend; docs/permissions.md lists the rules to ask for
            warning  rights              not allowed to patch flinkdeployments.flink.apache.org in namespace `shop`
                     hint: needed by: deploy, suspend; docs/permissions.md lists the rules to ask for
            failed   operator            no operator is installed, and none holds a Lease
                     hint: install one: kubectl flink operator install; or run it here: kubectl flink operate
            failed   leader              ops/operator has no holder
                     hint: there is no leader: see the logs of the operator's pods
            failed   webhook             the API server has no CA certificate to verify with: hook
                     hint: the operator or cert-manager sets the CA certificate: see the operator's log
            warning  service-account     there is no `flink` in namespace `shop`
                     hint: jobs need a service account, of any name: kubectl flink init -n shop
            warning  storage-class       there is none: volume claims of pod templates would stay pending
                     hint: jobs that keep their state in an object store need none
        "#]],
    );
    let checks = judge(&facts);
    for check in checks.iter().filter(|check| check.result == Result::Failed) {
        assert!(check.hint.is_some(), "{check:?}");
    }
}

#[test]
fn what_cannot_be_checked_is_no_pass() {
    let facts = Facts {
        crds: forbidden(),
        rights: vec![(right(true), forbidden())],
        operators: forbidden(),
        leading: forbidden(),
        webhooks: forbidden(),
        storage: forbidden(),
        service_account: forbidden(),
        ..facts()
    };
    let checks = judge(&facts);
    let passed: Vec<_> = checks.iter().filter(|it| it.result == Result::Passed).collect();
    assert_eq!(passed.len(), 1, "the version: {passed:?}");
}

#[test]
fn before_an_installation_nothing_of_it_is_missed() {
    let facts = Facts {
        is_pre: true,
        crds: Ok(vec![crd(Drift::Missing)]),
        operators: Ok(vec![]),
        leading: Ok(vec![]),
        ..facts()
    };
    check_all(
        &facts,
        expect![[r#"
            ok       kubernetes-version  v1.34.2
            ok       definitions         none yet: `init` installs them
            ok       rights              all 1 permissions that were checked are granted
            ok       storage-class       `standard` is the default
        "#]],
    );
}

#[test]
fn definitions_that_drifted_are_reported() {
    let of = |state| definitions(&Facts { crds: Ok(vec![crd(state)]), ..facts() });
    assert_eq!(of(Drift::Different).result, Result::Warning);
    assert_eq!(of(Drift::Newer { fields: vec![".spec.x".to_owned()] }).result, Result::Warning);
    assert_eq!(of(Drift::Missing).result, Result::Failed);
}

#[test]
fn a_webhook_that_nobody_answers_fails() {
    let facts = Facts {
        operators: Ok(vec![installed(0)]),
        webhooks: Ok(vec![Webhook { name: "hook".to_owned(), service: None, has_authority: true }]),
        ..facts()
    };
    assert_eq!(webhook(&facts.webhooks, &facts.operators).result, Result::Failed);
    // An operator outside of the cluster may answer it.
    assert_eq!(webhook(&facts.webhooks, &forbidden()).result, Result::Passed);
}

#[test]
fn the_chart_and_the_page_name_the_oldest_kubernetes() {
    let (major, minor) = KUBERNETES_MIN;
    let chart = include_str!("../../../../helm/kubectl-flink-operator/Chart.yaml");
    let line = format!("kubeVersion: \">={major}.{minor}.0-0\"");
    assert!(chart.lines().any(|it| it == line), "the chart lacks {line}");
    let page = include_str!("../../../../docs/support.md");
    assert!(page.contains(&format!("| supported | {major}.{minor} and later |")));
}
