//! `set`: changes one field of a spec, without an editor or a manifest.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::args::{Global, Untried};
use super::complete;
use super::deployment::Deployment;
use super::edit::{self, EditFlags};
use super::failure::Failure;
use super::lookup;
use super::printer::Printer;

/// Arguments of `set`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink set image orders registry/orders:2 --wait
  kubectl flink set config orders taskmanager.numberOfTaskSlots=4 pipeline.max-parallelism-
  kubectl flink set args orders -- --topic orders --rate 100")]
pub struct SetArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Change the image of JobManager and TaskManagers
    Image(ImageArgs),
    /// Set or remove options of Flink or the operator
    Config(ConfigArgs),
    /// Replace the arguments of the job
    Args(ArgsArgs),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink set image orders registry/orders:2 --wait
  kubectl flink set image orders registry/orders:2 --dry-run=client")]
struct ImageArgs {
    /// The FlinkDeployment
    #[arg(add = complete::deployments())]
    name: String,
    /// The image, with a tag or digest
    image: String,
    #[command(flatten)]
    untried: Untried,
    #[command(flatten)]
    flags: EditFlags,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink set config orders taskmanager.numberOfTaskSlots=4
  kubectl flink set config orders pipeline.max-parallelism-     # removes it")]
struct ConfigArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// Options to set, or with a trailing minus to remove
    #[arg(required = true, value_name = "KEY=VALUE|KEY-", value_parser = setting)]
    settings: Vec<Setting>,
    #[command(flatten)]
    untried: Untried,
    #[command(flatten)]
    flags: EditFlags,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink set args orders -- --topic orders --rate 100")]
struct ArgsArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// All arguments of the job, after `--`; without any they are removed
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
    #[command(flatten)]
    flags: EditFlags,
}

/// One option on the command line; `None` removes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) value: Option<String>,
}

fn setting(text: &str) -> Result<Setting, String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (text.strip_suffix('-').unwrap_or_default(), None),
    };
    if key.trim().is_empty() {
        return Err("expected KEY=VALUE, or KEY- to remove an option".to_owned());
    }
    Ok(Setting { key: key.trim().to_owned(), value })
}

/// Writes the field; the operator does the rest.
pub async fn run(args: SetArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let connection = global.connect().await?;
    let (present, patch, verb, flags) = match args.what {
        What::Image(ImageArgs { name, image, untried, flags }) => {
            let present = lookup::fetch_to_change(&connection, &name).await?;
            if let Some(cluster) = present.session_cluster() {
                return Err(Failure::new(format!("`{name}` uses the image of its cluster"))
                    .hint(format!("change that: kubectl flink set image {cluster} {image}"))
                    .into());
            }
            (present, json!({"spec": {"image": image}}), "image updated", flags.or_untried(untried))
        }
        What::Config(ConfigArgs { name, settings, untried, flags }) => {
            let present = lookup::fetch_to_change(&connection, &name).await?;
            let patch = configuration_patch(&present, &settings)?;
            (
                present,
                json!({"spec": {"flinkConfiguration": patch}}),
                "configured",
                flags.or_untried(untried),
            )
        }
        What::Args(ArgsArgs { name, arguments, flags }) => {
            let present = lookup::fetch_to_change(&connection, &name).await?;
            refuse_session(&present)?;
            let arguments = if arguments.is_empty() { Value::Null } else { json!(arguments) };
            (present, json!({"spec": {"job": {"args": arguments}}}), "arguments updated", flags)
        }
    };
    edit::carry_out(&connection, &present, &patch, verb, flags, printer).await
}

fn refuse_session(present: &Deployment) -> Result<(), Failure> {
    if !present.is_session() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "`{}` is a session cluster: it has no job of its own",
        present.name()
    ))
    .hint("change its jobs instead; to list them: kubectl flink list"))
}

/// Returns a merge patch of `spec.flinkConfiguration`. An option keeps the form it has in the spec, flat or nested;
/// otherwise it would be there twice.
pub(super) fn configuration_patch(
    present: &Deployment,
    settings: &[Setting],
) -> Result<Value, Failure> {
    let empty = Map::new();
    let configuration = present.0.pointer("/spec/flinkConfiguration").and_then(Value::as_object);
    let configuration = configuration.unwrap_or(&empty);
    let mut patch = json!({});
    for Setting { key, value } in settings {
        let within =
            |other: &str| other.strip_prefix(key.as_str()).is_some_and(|it| it.starts_with('.'));
        let is_part = settings.iter().any(|setting| within(&setting.key));
        if is_part || has_options_below(configuration, key) {
            return Err(Failure::new(format!(
                "`{key}` cannot be set: the options nested below it would be lost"
            ))
            .hint(format!("set one of those, such as {key}.type, or use: kubectl edit")));
        }
        let found = places(configuration, key);
        let place = match (found.as_slice(), value) {
            ([place], _) => place.clone(),
            ([], Some(_)) => vec![key.clone()],
            ([], None) => {
                let name = present.shown_name();
                return Err(Failure::new(format!("`{name}` does not set `{key}`")).hint(format!(
                    "see what it sets, and what other layers set: kubectl flink config {name} --set-only"
                )));
            }
            (_, _) => {
                return Err(Failure::new(format!(
                    "spec.flinkConfiguration of `{}` has `{key}` more than once",
                    present.shown_name()
                ))
                .hint("merge them with: kubectl edit"));
            }
        };
        let mut at = &mut patch;
        for part in &place {
            at = &mut at[part.as_str()];
        }
        *at = value.clone().map_or(Value::Null, Value::String);
    }
    Ok(patch)
}

/// Returns true if the key holds further options rather than a value.
fn has_options_below(configuration: &Map<String, Value>, key: &str) -> bool {
    configuration.iter().any(|(name, value)| {
        let Value::Object(inner) = value else { return false };
        let below = key.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.'));
        name == key || below.is_some_and(|below| has_options_below(inner, below))
    })
}

/// Returns every path in the configuration that leads to the option.
fn places(configuration: &Map<String, Value>, key: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (name, value) in configuration {
        if name == key && !value.is_object() {
            found.push(vec![name.clone()]);
        }
        let below = key.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.'));
        if let (Some(below), Value::Object(inner)) = (below, value) {
            found.extend(places(inner, below).into_iter().map(|mut place| {
                place.insert(0, name.clone());
                place
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_below_a_key_are_not_lost() {
        let nested = json!({"high-availability": {"type": "kubernetes"}, "state": {"backend": {"type": "x"}}});
        for key in ["high-availability=zookeeper", "state.backend=hashmap"] {
            assert!(patch(nested.clone(), &[key]).unwrap_err().contains("would be lost"), "{key}");
        }
        let both = patch(json!({"a": {"b": "1"}}), &["a=1", "a.b=2"]).unwrap_err();
        assert!(both.contains("would be lost"), "{both}");
        assert!(patch(nested, &["state.backend.type=y"]).is_ok());
    }

    fn patch(configuration: Value, settings: &[&str]) -> Result<Value, String> {
        let present = Deployment(
            json!({"metadata": {"name": "x"}, "spec": {"flinkConfiguration": configuration}}),
        );
        let settings = settings.iter().map(|text| setting(text).unwrap()).collect::<Vec<_>>();
        configuration_patch(&present, &settings).map_err(|failure| failure.to_string())
    }

    #[test]
    fn an_option_stays_in_the_form_in_which_the_spec_has_it() {
        assert_eq!(patch(json!({}), &["a.b=1"]).unwrap(), json!({"a.b": "1"}));
        assert_eq!(patch(json!({"a.b": "0"}), &["a.b=1"]).unwrap(), json!({"a.b": "1"}));
        let nested = json!({"a": {"b": "0", "c.d": 2}});
        assert_eq!(
            patch(nested.clone(), &["a.b=x=y", "a.c.d-", "e=f"]).unwrap(),
            json!({"a": {"b": "x=y", "c.d": null}, "e": "f"})
        );
        assert_eq!(
            patch(json!({"a": {"b": 1}, "a.b": 2}), &["a.b=3"]).unwrap_err(),
            "spec.flinkConfiguration of `x` has `a.b` more than once"
        );
        assert_eq!(patch(nested, &["a.z-"]).unwrap_err(), "`x` does not set `a.z`");
    }

    #[test]
    fn settings_are_read() {
        let of = |key: &str, value: Option<&str>| {
            Ok(Setting { key: key.to_owned(), value: value.map(str::to_owned) })
        };
        assert_eq!(setting("a=b"), of("a", Some("b")));
        assert_eq!(setting("a="), of("a", Some("")));
        assert_eq!(setting("a-"), of("a", None));
        for wrong in ["a", "=b", "-", ""] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
    }
}
