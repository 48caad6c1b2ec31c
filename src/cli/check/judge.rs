//! Evaluates the observed facts. Pure.

use super::facts::{Crd, Facts, Handled, Webhook};
use super::{Check, Result};
use crate::cli::operators::{Installed, Leading};
use crate::cli::permissions::Right;
use crate::cli::table;
use clients::cluster;
use clients::cluster::crds::Drift;

/// The oldest Kubernetes version whose API servers accept the definitions unchanged.
pub(in crate::cli) const KUBERNETES_MIN: (u32, u32) = (1, 25);

/// Maximum time since the last write of an operator that is assumed to be running, in seconds.
const RECENT_SECONDS: i64 = 300;

/// Returns all checks, in the order in which they depend on each other.
pub(super) fn judge(facts: &Facts) -> Vec<Check> {
    let mut checks = vec![version(&facts.version), definitions(facts)];
    checks.extend(rights(facts));
    if !facts.is_pre {
        checks.push(operator(facts));
        checks.push(leader(&facts.leading));
        checks.push(webhook(&facts.webhooks, &facts.operators));
        checks.push(service_account(facts));
    }
    checks.push(storage(&facts.storage));
    checks
}

fn check(name: &'static str, result: Result, message: impl Into<String>) -> Check {
    Check { name, result, message: message.into(), hint: None }
}

impl Check {
    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

fn unknown(name: &'static str, error: &cluster::Error) -> Check {
    check(name, Result::Unknown, error.to_string())
}

fn version((text, major, minor): &(String, u32, u32)) -> Check {
    const NAME: &str = "kubernetes-version";
    let (least_major, least_minor) = KUBERNETES_MIN;
    if (*major, *minor) >= KUBERNETES_MIN {
        return check(NAME, Result::Passed, text);
    }
    check(NAME, Result::Failed, format!("{text} is older than {least_major}.{least_minor}")).hint(
        "upgrade the cluster: its API server does not support the validation rules of the CRDs",
    )
}

fn definitions(facts: &Facts) -> Check {
    const NAME: &str = "definitions";
    let crds = match &facts.crds {
        Ok(crds) => crds,
        Err(error) => return unknown(NAME, error),
    };
    let of = |state: &dyn Fn(&Drift) -> bool| {
        let names =
            crds.iter().filter(|crd| state(&crd.state)).map(|Crd { name, .. }| name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let missing = of(&|state| *state == Drift::Missing);
    let newer = of(&|state| matches!(state, Drift::Newer { .. }));
    let older = of(&|state| *state == Drift::Different);
    let is_none = crds.iter().all(|crd| crd.state == Drift::Missing);
    if is_none && facts.is_pre {
        return check(NAME, Result::Passed, "none yet: `init` installs them");
    }
    if !missing.is_empty() {
        return check(NAME, Result::Failed, format!("not installed: {missing}"))
            .hint("install them: kubectl flink crds --apply");
    }
    if !newer.is_empty() {
        return check(NAME, Result::Warning, format!("newer than this program: {newer}"))
            .hint("install a newer kubectl-flink");
    }
    if !older.is_empty() {
        return check(NAME, Result::Warning, format!("differ from those of this program: {older}"))
            .hint("see the differences: kubectl flink crds | kubectl diff -f -; update them: kubectl flink crds --apply");
    }
    check(NAME, Result::Passed, format!("{} installed, none drifted", crds.len()))
}

/// Returns one check for each action and kind of object, so that the table of checks stays readable.
fn rights(facts: &Facts) -> Vec<Check> {
    const NAME: &str = "rights";
    let place = |right: &Right| {
        if right.is_cluster_wide {
            "the whole cluster".to_owned()
        } else {
            format!("namespace `{}`", facts.namespace)
        }
    };
    let mut checks = Vec::new();
    let mut unread = None;
    for (right, may) in &facts.rights {
        match may {
            Ok(true) => {}
            Ok(false) => {
                let result = if right.is_needed { Result::Failed } else { Result::Warning };
                let message =
                    format!("not allowed to {} in {}", right.operation.shown(), place(right));
                checks.push(check(NAME, result, message).hint(format!(
                    "needed by: {}; docs/permissions.md lists the rules to ask for",
                    right.commands.join(", ")
                )));
            }
            Err(error) => unread = Some(error),
        }
    }
    if let Some(error) = unread {
        checks.push(unknown(NAME, error));
    }
    if checks.is_empty() {
        let count = facts.rights.len();
        checks.push(check(
            NAME,
            Result::Passed,
            format!("all {count} permissions that were checked are granted"),
        ));
    }
    checks
}

type Listed<'a, T> = &'a cluster::Result<Vec<T>>;

fn operator(facts: &Facts) -> Check {
    const NAME: &str = "operator";
    let has_leader = facts.leading.as_ref().is_ok_and(|all| all.iter().any(Leading::is_held));
    let in_foreground =
        facts.handled.as_ref().ok().and_then(|it| in_foreground(it, &facts.namespace));
    match &facts.operators {
        Ok(all) if all.is_empty() && has_leader => {
            check(NAME, Result::Passed, "runs outside the cluster, and holds its Lease")
        }
        Ok(all) if all.is_empty() => in_foreground.unwrap_or_else(|| {
            check(NAME, Result::Failed, "no operator is installed, and none holds a Lease").hint(
                "install one: kubectl flink operator install; or run it here: kubectl flink operate",
            )
        }),
        Ok(all) => {
            let shown =
                |one: &Installed| format!("{} {}/{} ready", one.name, one.ready, one.wanted);
            let text = all.iter().map(shown).collect::<Vec<_>>().join(", ");
            if all.iter().any(|one| one.ready > 0) {
                check(NAME, Result::Passed, text)
            } else {
                check(NAME, Result::Failed, text).hint("see why: kubectl describe pods -A -l app.kubernetes.io/name=kubectl-flink-operator")
            }
        }
        Err(_) if has_leader => check(NAME, Result::Passed, "holds its Lease"),
        Err(error) => unknown(NAME, error),
    }
}

/// Detects an operator running in a terminal: it has neither a Deployment nor a Lease, only what it wrote.
fn in_foreground(handled: &Handled, namespace: &str) -> Option<Check> {
    const NAME: &str = "operator";
    let Handled { deployments, current, age_seconds } = *handled;
    let age = age_seconds.filter(|_| deployments > 0 && current == deployments)?;
    let told = format!(
        "all {deployments} deployments of namespace `{namespace}` were last handled {} ago by an operator in the foreground",
        table::age(age)
    );
    if age <= RECENT_SECONDS {
        return Some(check(NAME, Result::Passed, told));
    }
    let text = format!("none is installed or holds a Lease; {told}");
    Some(check(NAME, Result::Warning, text).hint(
        "this is fine if one runs in a terminal, where it is only seen when it writes: kubectl flink operate",
    ))
}

fn leader(leading: Listed<'_, Leading>) -> Check {
    const NAME: &str = "leader";
    let all = match leading {
        Ok(all) => all,
        Err(error) => return unknown(NAME, error),
    };
    let age = |one: &Leading| {
        one.age_seconds.map_or("never renewed".to_owned(), |age| format!("renewed {age} s ago"))
    };
    let shown = |one: &Leading| match one.holder.as_str() {
        "" => format!("{} has no holder", one.lease),
        holder => format!("{} is held by `{holder}`, {}", one.lease, age(one)),
    };
    let text = all.iter().map(shown).collect::<Vec<_>>().join("; ");
    if all.iter().any(Leading::is_held) {
        check(NAME, Result::Passed, text)
    } else if all.is_empty() {
        let message = "there is no Lease: an operator without leader election must be the only one";
        check(NAME, Result::Warning, message)
    } else {
        check(NAME, Result::Failed, text)
            .hint("there is no leader: see the logs of the operator's pods")
    }
}

fn webhook(webhooks: Listed<'_, Webhook>, operators: Listed<'_, Installed>) -> Check {
    const NAME: &str = "webhook";
    let all = match webhooks {
        Ok(all) if all.is_empty() => {
            return check(
                NAME,
                Result::Passed,
                "none is registered: specs are validated when they are reconciled",
            );
        }
        Ok(all) => all,
        Err(error) => return unknown(NAME, error),
    };
    let without = all.iter().filter(|it| !it.has_authority).map(|it| it.name.as_str());
    let without = without.collect::<Vec<_>>().join(", ");
    if !without.is_empty() {
        return check(
            NAME,
            Result::Failed,
            format!("the API server has no CA certificate to verify with: {without}"),
        )
        .hint("the operator or cert-manager sets the CA certificate: see the operator's log");
    }
    let is_served = operators.as_ref().map_or(true, |all| all.iter().any(|one| one.ready > 0));
    let names = all.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
    if is_served {
        check(NAME, Result::Passed, names)
    } else {
        check(NAME, Result::Failed, format!("{names}: registered, but no operator pod is ready"))
            .hint("every change of a Flink resource may be rejected: start the operator, or remove the registration")
    }
}

fn service_account(facts: &Facts) -> Check {
    const NAME: &str = "service-account";
    let namespace = &facts.namespace;
    match &facts.service_account {
        Ok(true) => check(NAME, Result::Passed, format!("`flink` is in namespace `{namespace}`")),
        Ok(false) => {
            check(NAME, Result::Warning, format!("there is no `flink` in namespace `{namespace}`"))
                .hint(format!(
                    "jobs need a service account, of any name: kubectl flink init -n {namespace}"
                ))
        }
        Err(error) => unknown(NAME, error),
    }
}

/// Checks the storage classes. Flink keeps its state in object stores, so volumes are optional.
fn storage(storage: &cluster::Result<Vec<(String, bool)>>) -> Check {
    const NAME: &str = "storage-class";
    match storage {
        Ok(all) => match all.iter().find(|(_, is_default)| *is_default) {
            Some((name, _)) => check(NAME, Result::Passed, format!("`{name}` is the default")),
            None if all.is_empty() => check(
                NAME,
                Result::Warning,
                "there is none: volume claims of pod templates would stay pending",
            )
            .hint("jobs that keep their state in an object store need none"),
            None => {
                check(NAME, Result::Warning, "none is the default: volume claims must name one")
                    .hint("jobs that keep their state in an object store need none")
            }
        },
        Err(error) => unknown(NAME, error),
    }
}

#[cfg(test)]
mod tests;
