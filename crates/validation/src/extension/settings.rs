//! Configuration of validators and mutators.

use std::str::FromStr;

use super::FailurePolicy;
use super::cel::Rule;
use super::judge::RuleJudge;
use super::subject::Kind;
use config::FlinkConfig;
use config::option::OptionValue;
use config::plugin::{Endpoint, InvalidPlugin, Options};

/// Default kinds of a rule. Snapshots are left out, because they are numerous and there is little to validate.
const KINDS: [Kind; 2] = [Kind::FlinkDeployment, Kind::FlinkSessionJob];
const MESSAGE_MAX: usize = 1000;

/// A validator or mutator whose rule is an `R`.
#[derive(Debug)]
pub struct Plugin<R> {
    pub name: String,
    pub kinds: Vec<Kind>,
    pub on_failure: FailurePolicy,
    pub source: Source<R>,
}

/// Where the answers come from.
#[derive(Debug)]
pub enum Source<R> {
    Rule(R),
    Http(Endpoint),
}

/// Its rule decides whether a resource is valid.
pub type Validator = Plugin<RuleJudge>;

/// Its rule returns the change: a list is a JSON Patch, an object a merge patch, `null` no change.
pub type Mutator = Plugin<Rule>;

/// Reads the validators of the operator's configuration, sorted by name.
///
/// # Errors
/// Everything that is wrong with them.
pub fn validators(config: &FlinkConfig) -> Result<Vec<Validator>, Vec<InvalidPlugin>> {
    Options::read_all(config, "validators", |options| {
        options.expect_only(&[
            "expression",
            "message",
            "field",
            "url",
            "headers",
            "timeout",
            "failure-policy",
            "kinds",
        ])?;
        let source = match source(options, Rule::compile)? {
            Source::Rule(rule) => {
                let (field, message) = (field(options), message(options)?);
                Source::Rule(RuleJudge { rule, field, message })
            }
            Source::Http(endpoint) => Source::Http(endpoint),
        };
        plugin(options, source)
    })
}

/// Reads the mutators of the operator's configuration, sorted by name.
///
/// # Errors
/// Everything that is wrong with them.
pub fn mutators(config: &FlinkConfig) -> Result<Vec<Mutator>, Vec<InvalidPlugin>> {
    Options::read_all(config, "mutators", |options| {
        options.expect_only(&[
            "expression",
            "url",
            "headers",
            "timeout",
            "failure-policy",
            "kinds",
        ])?;
        plugin(options, source(options, Rule::compile)?)
    })
}

fn plugin<R>(options: Options<'_>, source: Source<R>) -> Result<Plugin<R>, InvalidPlugin> {
    let (kinds, on_failure) = (kinds(options)?, on_failure(options)?);
    Ok(Plugin { name: options.name.to_owned(), kinds, on_failure, source })
}

/// Returns the rule or the address of a plugin, which has one of the two.
///
/// # Errors
/// If it has none or both, or one that is not usable.
pub fn source(
    options: Options<'_>,
    compile: impl FnOnce(&str) -> Result<Rule, String>,
) -> Result<Source<Rule>, InvalidPlugin> {
    match (options.text("expression"), options.text("url")) {
        (Some(text), None) => {
            for option in ["headers", "timeout"] {
                if options.text(option).is_some() {
                    return Err(options.invalid(option, "is only allowed with `url`"));
                }
            }
            let rule = compile(text).map_err(|why| options.invalid("expression", why))?;
            Ok(Source::Rule(rule))
        }
        (None, Some(url)) => {
            for option in ["message", "field"] {
                if options.text(option).is_some() {
                    return Err(options.invalid(option, "is only allowed with `expression`"));
                }
            }
            Ok(Source::Http(options.endpoint(url)?))
        }
        (Some(_), Some(_)) => Err(options.invalid("url", "set `expression` or `url`, not both")),
        (None, None) => Err(options.invalid("expression", "set `expression` or `url`")),
    }
}

fn field(options: Options<'_>) -> String {
    options.text("field").filter(|text| !text.is_empty()).unwrap_or("spec").to_owned()
}

fn message(options: Options<'_>) -> Result<String, InvalidPlugin> {
    match options.text("message").filter(|text| !text.is_empty()) {
        Some(text) if text.chars().count() > MESSAGE_MAX => {
            Err(options.invalid("message", format!("is longer than {MESSAGE_MAX} characters")))
        }
        Some(text) => Ok(text.to_owned()),
        None => Err(options.invalid("message", "must be set: it tells users what to do")),
    }
}

fn kinds(options: Options<'_>) -> Result<Vec<Kind>, InvalidPlugin> {
    let Some(text) = options.text("kinds") else { return Ok(KINDS.to_vec()) };
    let expected = || {
        let known = Kind::ALL.map(|it| it.into_str()).join("`, `");
        options.invalid("kinds", format!("expected a list, separated by `;`, of `{known}`"))
    };
    let names = <Vec<String> as OptionValue>::parse(text).ok_or_else(expected)?;
    let kinds: Option<Vec<Kind>> = names.iter().map(|name| Kind::parse(name.trim())).collect();
    kinds.filter(|kinds| !kinds.is_empty()).ok_or_else(expected)
}

fn on_failure(options: Options<'_>) -> Result<FailurePolicy, InvalidPlugin> {
    let Some(text) = options.text("failure-policy") else { return Ok(FailurePolicy::default()) };
    FailurePolicy::from_str(text)
        .map_err(|()| options.invalid("failure-policy", "expected `Fail` or `Ignore`"))
}

#[cfg(test)]
mod tests;
