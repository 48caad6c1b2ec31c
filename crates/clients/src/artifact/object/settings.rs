//! Whose options are used for a store.
//!
//! The operator's own credentials, including those of its environment, are sent only where its own configuration
//! points. A job with its own credentials may name its own endpoint, and nothing of the operator's is used for it.

use crate::artifact::error::Error;
use crate::artifact::request::Request;
use crate::artifact::source::Source;
use config::FlinkConfig;

/// Names of the options of one kind of store.
pub(super) struct Names {
    /// Prefixes of keys, by decreasing priority.
    pub(super) prefixes: &'static [&'static str],
    /// The rest of the keys, with dots. Hyphens are treated as dots.
    pub(super) credentials: &'static [&'static str],
    /// The one of them that names the account, and does not change with its secrets.
    pub(super) account: &'static str,
    pub(super) endpoint: &'static str,
}

/// The options of one store.
pub(super) struct Settings<'a> {
    config: &'a FlinkConfig,
    names: &'a Names,
    /// Whether credentials of the operator's environment may be used.
    pub(super) is_operators: bool,
}

impl<'a> Settings<'a> {
    pub(super) fn of(request: &'a Request, names: &'a Names) -> Result<Self, Error> {
        let (job, operator) = (&request.job, &request.operator);
        let is_own = |name: &str| {
            let own = find(job, names, name);
            own.is_some() && own != find(operator, names, name)
        };
        if names.credentials.iter().any(|name| is_own(name)) {
            return Ok(Self { config: job, names, is_operators: false });
        }
        if is_own(names.endpoint) {
            let example = names.prefixes.first().unwrap_or(&"");
            return Err(Error::invalid(
                request,
                format!(
                    "the job sets its own endpoint (`{example}{}`) without credentials, and the \
                     operator's are not sent there; set credentials in the job's configuration, or \
                     the endpoint in the operator's",
                    names.endpoint
                ),
            ));
        }
        Ok(Self { config: operator, names, is_operators: true })
    }

    /// Returns the options that decide which store answers, and with whose credentials.
    pub(super) fn source(&self) -> Source {
        let mut source = Source::of(self.is_operators);
        for prefix in self.names.prefixes {
            for (key, value) in self.config.below(prefix) {
                let is_account = key.replace('-', ".") == self.names.account;
                source.add(format!("{prefix}{key}"), value, is_account);
            }
        }
        source
    }

    /// Returns the value of an option that is set and not empty.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        find(self.config, self.names, name)
    }

    /// Rejects a job with incomplete credentials: a store's client would look for the missing ones, and find those of
    /// the operator's environment.
    pub(super) fn demand(&self, names: &[&str], request: &Request) -> Result<(), Error> {
        let missing = names.iter().find(|name| self.get(name).is_none());
        match missing.filter(|_| !self.is_operators) {
            None => Ok(()),
            Some(name) => {
                let example = self.names.prefixes.first().unwrap_or(&"");
                Err(Error::invalid(request, partial(&format!("`{example}{name}`"))))
            }
        }
    }

    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name).is_some_and(|text| text.trim().eq_ignore_ascii_case(value))
    }
}

/// Returns the message for a job's credentials that lack `missing`.
pub(super) fn partial(missing: &str) -> String {
    format!(
        "the job's credentials are incomplete, and the operator's are not used to complete them; \
         set {missing} too"
    )
}

fn find<'a>(config: &'a FlinkConfig, names: &Names, name: &str) -> Option<&'a str> {
    names.prefixes.iter().find_map(|prefix| {
        config
            .below(prefix)
            .find(|(key, value)| key.replace('-', ".") == name && !value.trim().is_empty())
            .map(|(_, value)| value)
    })
}
