//! `rollback`: writes an earlier spec again and keeps the state.
//!
//! It is an ordinary upgrade to an old spec: the job continues from its present state, as `upgradeMode` says.
//! `state::revision` decides what to write.

use anstyle::Style;
use clap::Args;
use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::args::{ChangeFlags, DryRunMode, Global, Untried};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::history::{is_same_spec, without_nulls};
use super::printer::{GREEN, Printer, RED, styled};
use super::{change, complete, edit, equivalent, lookup};
use ::autoscaler::cycle::ConfigChanges;
use ::autoscaler::state;
use ::state::revision::{self, Autoscaled, Revision};
use clients::cluster::{Error, apply, autoscaler, revisions};
use validation::extension::mutation;

/// Lines of context around a difference.
const CONTEXT_LINES: usize = 2;

/// Arguments of `rollback`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink rollback orders --wait
  kubectl flink rollback orders --to-revision 3 --dry-run=client")]
pub struct RollbackArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// Revision to return to, see `history`; default: the newest that differs from the current spec
    #[arg(long, value_name = "NUMBER", add = complete::revisions())]
    to_revision: Option<i64>,
    #[command(flatten)]
    untried: Untried,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// Shows the difference, asks, and writes the old spec.
pub async fn run(args: RollbackArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let RollbackArgs { name, to_revision, untried, flags } = args;
    let flags = flags.or_untried(untried);
    let (dry_run, yes) = (flags.dry_run.dry_run, flags.yes.yes);
    let connection = global.connect().await?;
    let present = lookup::fetch_to_change(&connection, &name).await?;
    if let Some(expected) = &global.expected {
        expected.check(Some(&present.stored().0))?;
    }
    let name = present.shown_name();
    let history = present.history_name();
    let revisions = revisions::list(&connection.client, &connection.namespace, &history).await?;
    let present_spec = present.0.get("spec").cloned().unwrap_or_else(|| json!({}));
    let autoscaled = autoscaled(&connection, &present, printer).await?;
    let (target, rollback) = choose(&name, &present_spec, &revisions, to_revision, autoscaled)?;
    show(&name, &present_spec, target, &rollback, printer);
    if !present.is_session_job() && present.is_session() != is_session(&rollback) {
        return Err(Failure::new(
            "a session cluster cannot become an application, nor the other way round",
        )
        .into());
    }
    let is_asking = printer.terminals().input && !yes && dry_run == DryRunMode::None;
    if is_asking
        && !printer.confirm(format_args!("Roll `{name}` back to revision {}?", target.number))?
    {
        return Err(Failure::new("nothing was changed").into());
    }
    if dry_run != DryRunMode::None {
        let patch = json!({"spec": mutation::difference(&present_spec, &rollback)});
        printer.note(equivalent::patch(&present.stored(), &edit::as_stored(&present, patch)));
    }
    let mut object = present.stored().0;
    let spec = if present.stands_for_blue_green() { "/spec/template/spec" } else { "/spec" };
    if let Some(spec) = object.pointer_mut(spec) {
        *spec = rollback;
    }
    let written = match dry_run {
        DryRunMode::Client => object,
        // Sends the resource version that was read, so that a concurrent change is not overwritten.
        DryRunMode::None | DryRunMode::Server => {
            apply::replace(&connection.client, &object, change::writer(dry_run)).await?
        }
    };
    let verb = format!("rolled back to revision {}", target.number);
    change::finish(&connection, written, &verb, flags, printer).await
}

fn is_session(spec: &Value) -> bool {
    spec.get("job").is_none_or(Value::is_null)
}

/// Returns what the autoscaler currently sets; the operator's defaults may have enabled it. If its data cannot be
/// parsed, it may have set anything.
async fn autoscaled(
    connection: &Connection,
    present: &Deployment,
    printer: &Printer,
) -> anyhow::Result<Autoscaled> {
    let found = autoscaler::find(&connection.client, present.namespace(), present.name()).await;
    let found = match found {
        Err(error @ Error::Forbidden { .. }) => {
            printer.warning(format_args!(
                "could not read what the autoscaler decided; the difference may include it: {error}"
            ));
            None
        }
        other => other?,
    };
    let Some(kept) = found.filter(|kept| kept.other_owner(&present.owner_uids()).is_none()) else {
        return Ok(Autoscaled::default());
    };
    Ok(match state::read(&kept.data) {
        Ok(stored) => Autoscaled {
            parallelism: !stored.state.overrides.is_empty(),
            memory: stored.state.config != ConfigChanges::default(),
        },
        Err(_) => Autoscaled { parallelism: true, memory: true },
    })
}

/// Returns the requested revision, or the newest one that would change something.
fn choose<'a>(
    name: &str,
    present: &Value,
    revisions: &'a [Revision],
    to_revision: Option<i64>,
    autoscaled: Autoscaled,
) -> Result<(&'a Revision, Value), Failure> {
    let rolled_back = |revision: &'a Revision| {
        let old = without_nulls(&revision.content.spec);
        let rollback = revision::decide_rollback(present, &old, autoscaled);
        let is_change = !is_same_spec(present, &rollback);
        (revision, rollback, is_change)
    };
    let hint = format!("list them: kubectl flink history {name}");
    let Some(number) = to_revision else {
        return revisions
            .iter()
            .rev()
            .map(rolled_back)
            .find(|(_, _, is_change)| *is_change)
            .map(|(revision, rollback, _)| (revision, rollback))
            .ok_or_else(|| {
                Failure::new(format!("`{name}` has no earlier revision to go back to"))
                    .hint("the operator keeps a revision when a spec is superseded or suspended")
            });
    };
    let revision =
        revisions.iter().find(|revision| revision.number == number).ok_or_else(|| {
            Failure::new(format!("`{name}` has no revision {number}")).hint(hint.clone())
        })?;
    match rolled_back(revision) {
        (revision, rollback, true) => Ok((revision, rollback)),
        (_, _, false) => {
            Err(Failure::new(format!("`{name}` already has the spec of revision {number}"))
                .hint(hint))
        }
    }
}

/// Prints on stderr what would change.
fn show(name: &str, present: &Value, target: &Revision, rollback: &Value, printer: &Printer) {
    printer.note(format_args!(
        "`{name}` goes back to revision {}, from {}:",
        target.number, target.content.reconciled_at
    ));
    printer.note(difference(present, rollback).trim_end());
}

/// Returns a line diff of the two specs as YAML, with sorted fields and without secrets.
fn difference(present: &Value, wanted: &Value) -> String {
    let yaml = |spec: &Value| {
        serde_yaml::to_string(&sorted(&equivalent::spec_without_secrets(spec))).unwrap_or_default()
    };
    let (before, after) = (yaml(present), yaml(wanted));
    let diff = TextDiff::from_lines(&before, &after);
    let mut text = String::new();
    for (index, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if index > 0 {
            text.push_str("  …\n");
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ("-", RED),
                ChangeTag::Insert => ("+", GREEN),
                ChangeTag::Equal => (" ", Style::new()),
            };
            let line = change.value().trim_end_matches('\n');
            text.push_str(&styled(style, format_args!("{sign} {line}")));
            text.push('\n');
        }
    }
    if text.is_empty() { "  only secrets, which are not shown".to_owned() } else { text }
}

/// Sorts the keys and drops nulls, so that only real differences show.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries = map.iter().filter(|(_, value)| !value.is_null()).collect::<Vec<_>>();
            entries.sort_by_key(|(key, _)| key.as_str());
            entries
                .into_iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::state::revision::{Content, RestorePoint};
    use expect_test::expect;

    fn revision(number: i64, image: &str) -> Revision {
        Revision {
            number,
            content: Content {
                spec: json!({"image": image, "mode": null, "job": {"parallelism": 1, "upgradeMode": "savepoint"}}),
                restore_point: RestorePoint::default(),
                reconciled_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            },
        }
    }

    fn present(image: &str) -> Value {
        json!({"image": image, "job": {"upgradeMode": "savepoint", "parallelism": 1}})
    }

    #[test]
    fn newest_revision_that_differs_is_chosen() {
        let revisions = [revision(1, "a"), revision(2, "b"), revision(3, "c")];
        let chosen = |image, to| {
            choose("x", &present(image), &revisions, to, Autoscaled::default())
                .map(|(revision, _)| revision.number)
        };
        assert_eq!(chosen("broken", None).unwrap(), 3);
        assert_eq!(chosen("c", None).unwrap(), 2, "the newest is the present spec");
        assert_eq!(chosen("c", Some(1)).unwrap(), 1);
        assert_eq!(chosen("c", Some(9)).unwrap_err().to_string(), "`x` has no revision 9");
        assert_eq!(
            chosen("c", Some(3)).unwrap_err().to_string(),
            "`x` already has the spec of revision 3"
        );
    }

    #[test]
    fn the_patch_that_is_shown_makes_the_same_spec() {
        let before = json!({"image": "broken", "flinkConfiguration": {"a": "1", "b": "2"},
            "job": {"args": ["x", "y"], "parallelism": 2}, "podTemplate": {"spec": {}}});
        let after = json!({"image": "good", "flinkConfiguration": {"a": "1", "c": "3"},
            "job": {"args": ["y"]}, "taskManager": {"replicas": 2}});
        let patch = mutation::difference(&before, &after);
        assert_eq!(patch["flinkConfiguration"], json!({"b": null, "c": "3"}));
        let mut patched = before;
        crate::cli::deploy::merge(&mut patched, &patch);
        assert_eq!(patched, after);
    }

    #[test]
    fn difference_shows_only_what_changes() {
        let shown = difference(
            &present("broken"),
            &json!({"job": {"parallelism": 1, "upgradeMode": "savepoint"}, "image": "good"}),
        );
        expect![[r#"
            - image: broken
            + image: good
              job:
                parallelism: 1
        "#]]
        .assert_eq(&anstream::adapter::strip_str(&shown).to_string());
    }

    #[test]
    fn difference_shows_no_secret() {
        let with = |key: &str| json!({"flinkConfiguration": {"a": "1", "s3.secret-key": key}});
        let shown = difference(&with("old"), &with("new"));
        assert_eq!(shown, "  only secrets, which are not shown");
        let shown = difference(&with("old"), &json!({"flinkConfiguration": {"a": "1"}}));
        let shown = anstream::adapter::strip_str(&shown).to_string();
        assert!(
            shown.contains("- ") && shown.contains("******") && !shown.contains("old"),
            "{shown}"
        );
    }
}
