//! The rights that each command needs. This is the single source of the table in `docs/permissions.md`, of what `check`
//! asks the API server, and of the Roles that the commands are tested with.
//!
//! An optional right makes the output more complete; without it the command says what it left out.

mod reference;
mod table;

use serde_json::{Value, json};

use clients::cluster::access::Operation;

pub use reference::reference;
pub use table::{OFFLINE, all};

/// One kind of object and the verbs on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Grant {
    verbs: &'static [&'static str],
    group: &'static str,
    resource: &'static str,
    subresource: Option<&'static str>,
    is_cluster_wide: bool,
    is_needed: bool,
}

const fn grant(
    verbs: &'static [&'static str],
    group: &'static str,
    resource: &'static str,
) -> Grant {
    Grant { verbs, group, resource, subresource: None, is_cluster_wide: false, is_needed: true }
}

impl Grant {
    const fn sub(self, subresource: &'static str) -> Self {
        Self { subresource: Some(subresource), ..self }
    }

    const fn cluster_wide(self) -> Self {
        Self { is_cluster_wide: true, ..self }
    }

    /// Marks the right as optional: without it the command works and says what is missing.
    const fn if_given(self) -> Self {
        Self { is_needed: false, ..self }
    }

    /// Returns the resource's name in RBAC, such as `pods/log`.
    fn name(&self) -> String {
        match self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.to_owned(),
        }
    }
}

/// A command and the rights it needs.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Name of the command in `--help`.
    pub command: &'static str,
    grants: Vec<Grant>,
    /// Conditions that rights cannot express.
    pub note: &'static str,
}

/// One right, and the commands that need it.
#[derive(Clone, Debug)]
pub(super) struct Right {
    pub(super) operation: Operation,
    pub(super) is_cluster_wide: bool,
    pub(super) is_needed: bool,
    pub(super) commands: Vec<&'static str>,
}

/// Returns the rights needed to work with jobs in a namespace.
pub(super) fn to_use() -> Vec<Right> {
    const USES: [&str; 12] = [
        "deploy",
        "status",
        "suspend",
        "resume",
        "why",
        "plan",
        "history",
        "rollback",
        "savepoint",
        "snapshots",
        "logs",
        "delete",
    ];
    rights(|needs| USES.contains(&needs.command))
}

/// Returns the rights needed for an installation.
pub(super) fn to_install() -> Vec<Right> {
    rights(|needs| needs.command == "init")
}

/// Collects the rights of the matching commands, without duplicates.
fn rights(is_meant: impl Fn(&Needs) -> bool) -> Vec<Right> {
    let mut rights: Vec<Right> = Vec::new();
    for needs in all().iter().filter(|needs| is_meant(needs)) {
        for grant in &needs.grants {
            for verb in grant.verbs.iter().copied() {
                let Grant { group, resource, subresource, is_cluster_wide, is_needed, .. } = *grant;
                let operation = Operation { verb, group, resource, subresource };
                let known = rights
                    .iter_mut()
                    .find(|it| it.operation == operation && it.is_cluster_wide == is_cluster_wide);
                match known {
                    Some(known) => {
                        known.is_needed |= is_needed;
                        if !known.commands.contains(&needs.command) {
                            known.commands.push(needs.command);
                        }
                    }
                    None => rights.push(Right {
                        operation,
                        is_cluster_wide,
                        is_needed,
                        commands: vec![needs.command],
                    }),
                }
            }
        }
    }
    rights
}

/// Returns what a command needs for one of our kinds, `plural`. The table lists all kinds that the command accepts.
pub(super) fn to_run(command: &str, plural: &'static str) -> Vec<Operation> {
    let kinds = table::KINDS;
    let needs = all().into_iter().filter(|needs| needs.command == command);
    let grants = needs.flat_map(|needs| needs.grants).filter(|it| it.is_needed);
    let mut operations = Vec::new();
    for Grant { verbs, group, resource, subresource, .. } in grants {
        // Blue/green deployments need the same verbs as the two other kinds.
        let resource = if kinds.contains(&resource) { plural } else { resource };
        for verb in verbs.iter().copied() {
            let operation = Operation { verb, group, resource, subresource };
            if !operations.contains(&operation) {
                operations.push(operation);
            }
        }
    }
    operations
}

impl Needs {
    /// Returns the rules of a Role and of a `ClusterRole` with exactly what the command needs in a namespace and in the
    /// whole cluster. `with_wishes` includes optional rights.
    pub fn rules(&self, with_wishes: bool) -> (Vec<Value>, Vec<Value>) {
        let of = |is_cluster_wide: bool| {
            self.grants
                .iter()
                .filter(|it| it.is_cluster_wide == is_cluster_wide && (it.is_needed || with_wishes))
                .map(|it| {
                    json!({"apiGroups": [it.group], "resources": [it.name()], "verbs": it.verbs})
                })
                .collect()
        };
        (of(false), of(true))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use expect_test::expect_file;

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn the_table_is_up_to_date() {
        expect_file!["../../docs/permissions.md"].assert_eq(&reference());
    }

    #[test]
    fn every_command_is_in_the_table() {
        let known = all();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let is_known =
                known.iter().any(|needs| needs.command == name) || OFFLINE.contains(&name);
            assert!(is_known, "`{name}` has no row in src/cli/permissions/table.rs");
        }
    }

    #[test]
    fn a_right_is_asked_for_once_and_names_all_its_commands() {
        let rights = to_use();
        for (index, right) in rights.iter().enumerate() {
            let same = rights.iter().skip(index + 1).find(|it| {
                it.operation == right.operation && it.is_cluster_wide == right.is_cluster_wide
            });
            assert!(same.is_none(), "{}", right.operation.shown());
        }
        let get = rights
            .iter()
            .find(|it| it.operation.shown() == "get flinkdeployments.flink.apache.org");
        assert!(get.unwrap().commands.len() > 5 && get.unwrap().is_needed);
    }
}
