//! The configuration page of a resource, as `kubectl flink config` reports it.

use anyhow::Context;

use super::answers::Console;
use super::live::Page;
use super::resource::{Reader, Subject};
use super::seen::Seen;
use crate::cli::lookup;
use crate::cli::operator::config::{self, InForce};
use ::config::catalogue::Effect;
use ::config::layers::{DEFAULT, Effective};
use ::config::secret;
use console::options::{Filter, Line, Options};
use console::page;
use console::page::resource::{Fragment, Tab};
use console::resource::Part;
use console::row::{Key, Row};

/// State of the page between two refreshes.
#[derive(Default)]
pub(super) struct PageData {
    filter: Filter,
    seen: Seen<Part<Options>>,
}

impl Page for PageData {
    const TAB: Tab = Tab::Config;

    fn of(query: &str) -> Self {
        Self { filter: Filter::parse(query), seen: Seen::default() }
    }

    async fn read(&mut self, console: &Console, key: &Key) -> Vec<Fragment> {
        let reader = &console.reader;
        let read = reader
            .inspect(key, async |subject| subject.within(Box::pin(of(reader, subject))).await);
        self.seen.again(read.await);
        let Self { filter, seen } = self;
        page::resource::config::parts(key, &seen.standing, filter, seen.shown())
    }

    fn row(&self) -> Option<&Row> {
        self.seen.row()
    }

    fn is_there(&self) -> bool {
        self.seen.is_there()
    }
}

async fn of(
    reader: &Reader,
    Subject { object, connection, .. }: &Subject,
) -> anyhow::Result<Options> {
    let present = lookup::serving(connection, object).await?;
    let present = present.context("no colour has been created yet")?;
    let found = config::in_force(connection, &reader.operator_namespace, present).await?;
    Ok(shown(found))
}

fn shown(InForce { options, remarks }: InForce) -> Options {
    let line = |effective: Effective| {
        let Effective { option, value, from, set_as, effect } = effective;
        Line {
            option,
            value: value.map(|value| secret::hide_in(&value)),
            is_default: from == DEFAULT,
            from,
            set_as,
            effect: effect.map(Effect::as_str),
        }
    };
    let remarks = remarks.iter().map(|remark| secret::hide_in(remark)).collect();
    Options { lines: options.into_iter().map(line).collect(), remarks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_within_values_are_hidden() {
        let effective = Effective {
            option: "env.java.opts".to_owned(),
            value: Some("s3.secret-key: hush".to_owned()),
            from: DEFAULT.to_owned(),
            set_as: None,
            effect: Some(Effect::AtDeploy),
        };
        let remarks = vec!["skipped `s3.secret-key: hush`".to_owned()];
        let shown = shown(InForce { options: vec![effective], remarks });
        let [line] = &shown.lines[..] else { panic!("there is one") };
        assert!(line.is_default && line.effect == Some("at deploy"));
        assert!(!format!("{shown:?}").contains("hush"), "{shown:?}");
    }
}
