//! Which rights each command needs: the one source of the table in `docs/permissions.md`, of what `check`
//! asks the API server, and of the Roles that the commands are tried under.
//!
//! A right that is not needed only makes an answer fuller: without it the command says what it left out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::GROUP;
use crate::cluster::access::Deed;

/// One kind of object with the verbs on it.
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

    /// The command does without, and says so.
    const fn if_given(self) -> Self {
        Self { is_needed: false, ..self }
    }

    /// As RBAC names it, such as `pods/log`.
    fn name(&self) -> String {
        match self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource),
            None => self.resource.to_owned(),
        }
    }
}

const DEPLOYMENTS: &str = "flinkdeployments";
const SESSION_JOBS: &str = "flinksessionjobs";
const SNAPSHOTS: &str = "flinkstatesnapshots";
const DEFINITIONS: &str = "apiextensions.k8s.io";

/// A name on the command line is looked for among both kinds.
const NAMED: [Grant; 2] =
    [grant(&["get"], GROUP, DEPLOYMENTS), grant(&["get"], GROUP, SESSION_JOBS)];
/// Those there are are named where one is not found.
const NAMES: Grant = grant(&["list"], GROUP, DEPLOYMENTS).if_given();
/// What the JobManager says, through the API server.
const ASK_FLINK: Grant = grant(&["get"], "", "services").sub("proxy").if_given();
const TELL_FLINK: Grant = grant(&["get", "create"], "", "services").sub("proxy");
const REVISIONS: Grant = grant(&["list"], "apps", "controllerrevisions");
const PODS: Grant = grant(&["list"], "", "pods");
const EVENTS: Grant = grant(&["list"], "", "events");
const PATCH: [Grant; 2] =
    [grant(&["patch"], GROUP, DEPLOYMENTS), grant(&["patch"], GROUP, SESSION_JOBS)];

/// A command and what it needs.
#[derive(Clone, Debug)]
pub struct Needs {
    /// As in `--help`.
    pub command: &'static str,
    grants: Vec<Grant>,
    /// What is not said by rights.
    pub note: &'static str,
}

fn needs(command: &'static str, grants: &[&[Grant]], note: &'static str) -> Needs {
    Needs { command, grants: grants.concat(), note }
}

/// Every command that asks a cluster anything, in the order of `--help`.
#[allow(clippy::too_many_lines, reason = "a table")]
pub fn all() -> Vec<Needs> {
    let roles = "rbac.authorization.k8s.io";
    let watched = [
        grant(&["get", "list", "watch"], GROUP, DEPLOYMENTS),
        grant(&["get", "list", "watch"], GROUP, SESSION_JOBS),
    ];
    let operator = "the rights that it gives the operator, too: see the Roles that `--dry-run=client -o yaml` prints";
    vec![
        needs(
            "init",
            &[&[
                grant(&["get"], "", "namespaces").cluster_wide(),
                grant(&["get", "create", "patch"], "", "serviceaccounts"),
                grant(&["get", "create", "patch"], roles, "roles"),
                grant(&["get", "create", "patch"], roles, "rolebindings"),
                grant(
                    &["get", "list", "watch", "create", "patch"],
                    DEFINITIONS,
                    "customresourcedefinitions",
                )
                .cluster_wide(),
                grant(&["get", "list", "watch", "create", "update", "patch", "delete"], "", "pods"),
                grant(
                    &["get", "list", "watch", "create", "update", "patch", "delete"],
                    "",
                    "configmaps",
                ),
                grant(
                    &["get", "list", "watch", "create", "update", "patch", "delete"],
                    "apps",
                    "deployments",
                ),
                grant(
                    &["get", "list", "watch", "create", "update", "patch", "delete"],
                    "apps",
                    "deployments",
                )
                .sub("finalizers"),
            ]],
            "a Role may only be given by who has its rights; `--skip-crds` needs nothing of definitions",
        ),
        needs(
            "deploy",
            &[
                &NAMED,
                &PATCH,
                &[
                    grant(&["create"], GROUP, DEPLOYMENTS),
                    grant(&["create"], GROUP, SESSION_JOBS),
                    grant(&["get"], "", "serviceaccounts").if_given(),
                ],
            ],
            "`--wait` also needs `list` and `watch` of the resource",
        ),
        needs(
            "run",
            &[&NAMED, &[NAMES, grant(&["create", "patch"], GROUP, SESSION_JOBS)]],
            "`--wait` also needs `list` and `watch` of session jobs; `--direct` needs `get` and `create` of `services/proxy` \
             instead of writing them",
        ),
        needs(
            "status",
            &[
                &watched,
                &[
                    PODS.if_given(),
                    grant(&["list"], GROUP, SNAPSHOTS).if_given(),
                    EVENTS.if_given(),
                    grant(&["get"], "", "configmaps").if_given(),
                    ASK_FLINK,
                ],
            ],
            "`watch` only for `--watch`; ConfigMaps are read of jobs with an autoscaler",
        ),
        needs(
            "list",
            &[&[
                grant(&["list", "watch"], GROUP, DEPLOYMENTS),
                grant(&["list", "watch"], GROUP, SESSION_JOBS),
            ]],
            "`watch` only for `--watch`",
        ),
        needs(
            "top",
            &[
                &NAMED,
                &[
                    grant(&["list"], GROUP, DEPLOYMENTS),
                    grant(&["list"], GROUP, SESSION_JOBS),
                    ASK_FLINK,
                ],
            ],
            "without `services/proxy` it has states and no figures",
        ),
        needs("events", &[&NAMED, &[NAMES, EVENTS]], "`--watch` also needs `watch` of events"),
        needs(
            "config",
            &[
                &NAMED,
                &[
                    NAMES,
                    grant(&["list"], "apps", "deployments").if_given(),
                    grant(&["get"], "", "configmaps").if_given(),
                ],
            ],
            "the wished ones in the operator's namespace",
        ),
        needs("suspend", &[&NAMED, &[NAMES], &PATCH], "`--wait` also needs `list` and `watch`"),
        needs("resume", &[&NAMED, &[NAMES], &PATCH], "`--wait` also needs `list` and `watch`"),
        needs("restart", &[&NAMED, &[NAMES], &PATCH], "`--wait` also needs `list` and `watch`"),
        needs(
            "scale",
            &[&NAMED, &[NAMES, ASK_FLINK], &PATCH],
            "`--wait` also needs `list` and `watch`",
        ),
        needs("set", &[&NAMED, &[NAMES], &PATCH], "`--wait` also needs `list` and `watch`"),
        needs(
            "why",
            &[
                &NAMED,
                &[
                    NAMES,
                    PODS.if_given(),
                    EVENTS.if_given(),
                    grant(&["get"], "", "pods").sub("log").if_given(),
                    ASK_FLINK,
                    grant(&["list"], "apps", "deployments").cluster_wide().if_given(),
                    grant(&["list"], "coordination.k8s.io", "leases").cluster_wide().if_given(),
                ],
            ],
            "",
        ),
        needs(
            "plan",
            &[
                &NAMED,
                &[
                    NAMES,
                    grant(&["get"], "apps", "deployments"),
                    PODS,
                    grant(&["list"], "", "configmaps"),
                    grant(&["get"], "", "configmaps").if_given(),
                    REVISIONS.if_given(),
                    EVENTS.if_given(),
                    grant(&["get"], "", "serviceaccounts").if_given(),
                    ASK_FLINK,
                    grant(&["patch"], GROUP, DEPLOYMENTS).if_given(),
                    grant(&["patch"], GROUP, SESSION_JOBS).if_given(),
                ],
            ],
            "`patch` only for a server-side dry run of `-f`",
        ),
        needs("history", &[&NAMED, &[NAMES, REVISIONS]], ""),
        needs(
            "rollback",
            &[
                &NAMED,
                &[
                    NAMES,
                    REVISIONS,
                    grant(&["get"], "", "configmaps").if_given(),
                    grant(&["update"], GROUP, DEPLOYMENTS),
                    grant(&["update"], GROUP, SESSION_JOBS),
                ],
            ],
            "`--wait` also needs `list` and `watch`",
        ),
        needs(
            "restore",
            &[
                &NAMED,
                &[
                    NAMES,
                    REVISIONS.if_given(),
                    grant(&["get"], GROUP, SNAPSHOTS).if_given(),
                    ASK_FLINK,
                ],
                &PATCH,
            ],
            "`--wait` also needs `list` and `watch`",
        ),
        needs(
            "savepoint",
            &[
                &NAMED,
                &[NAMES, grant(&["create", "get", "list", "watch", "delete"], GROUP, SNAPSHOTS)],
            ],
            "`--direct` needs `get` and `create` of `services/proxy` instead of the snapshots; `inspect` needs `get` of what it names",
        ),
        needs(
            "snapshots",
            &[&[
                grant(&["list"], GROUP, DEPLOYMENTS),
                grant(&["list"], GROUP, SESSION_JOBS),
                grant(&["list"], GROUP, SNAPSHOTS),
                REVISIONS.if_given(),
            ]],
            "`dispose` and `gc` also need `list` of revisions, and `patch` and `delete` of the snapshots",
        ),
        needs("checkpoints", &[&NAMED, &[NAMES, grant(&["get"], "", "services").sub("proxy")]], ""),
        needs(
            "ui",
            &[&NAMED, &[NAMES, PODS, grant(&["get", "create"], "", "pods").sub("portforward")]],
            "",
        ),
        needs("rest", &[&NAMED, &[NAMES, TELL_FLINK]], "the verb follows the method"),
        needs("logs", &[&NAMED, &[NAMES, PODS, grant(&["get"], "", "pods").sub("log")]], ""),
        needs(
            "exec",
            &[&NAMED, &[NAMES, PODS, grant(&["get", "create"], "", "pods").sub("exec")]],
            "",
        ),
        needs(
            "autoscaler",
            &[
                &NAMED,
                &[NAMES, grant(&["get"], "", "configmaps"), ASK_FLINK],
                &PATCH.map(Grant::if_given),
            ],
            "`patch` only for `reset`; `explain`, `backtest --record` and `simulate NAME` ask the JobManager; \
             `run` asks nothing of Kubernetes",
        ),
        needs(
            "delete",
            &[
                &NAMED,
                &[
                    NAMES,
                    TELL_FLINK,
                    grant(&["list", "watch", "delete"], GROUP, DEPLOYMENTS),
                    grant(&["list", "watch", "delete"], GROUP, SESSION_JOBS),
                    grant(&["get"], "apps", "deployments").if_given(),
                    PODS.if_given(),
                ],
            ],
            "",
        ),
        needs(
            "gc",
            &[&[
                grant(&["list"], GROUP, DEPLOYMENTS),
                grant(&["list"], GROUP, SESSION_JOBS),
                grant(&["list"], GROUP, SNAPSHOTS),
                grant(&["list"], GROUP, "flinkbluegreendeployments"),
                grant(&["list", "delete"], "", "configmaps"),
                grant(&["list", "delete"], "apps", "controllerrevisions"),
                grant(&["list"], "apps", "deployments"),
                PODS,
            ]],
            "with `-A`, and for what is in storage, the same in the whole cluster",
        ),
        needs(
            "report",
            &[
                &NAMED,
                &[
                    NAMES,
                    PODS.if_given(),
                    EVENTS.if_given(),
                    REVISIONS.if_given(),
                    grant(&["get"], "", "pods").sub("log").if_given(),
                    grant(&["list"], "apps", "deployments").if_given(),
                    grant(&["list"], "", "configmaps").if_given(),
                    grant(&["list"], "", "services").if_given(),
                    grant(&["list"], GROUP, SNAPSHOTS).if_given(),
                    ASK_FLINK,
                ],
            ],
            "what may not be read is listed in the archive",
        ),
        needs(
            "check",
            &[&[
                grant(&["get"], DEFINITIONS, "customresourcedefinitions").cluster_wide().if_given(),
                grant(&["list"], "apps", "deployments").cluster_wide().if_given(),
                grant(&["list"], "coordination.k8s.io", "leases").cluster_wide().if_given(),
                grant(&["list"], "admissionregistration.k8s.io", "validatingwebhookconfigurations")
                    .cluster_wide()
                    .if_given(),
                grant(&["list"], "storage.k8s.io", "storageclasses").cluster_wide().if_given(),
                grant(&["get"], "", "serviceaccounts").if_given(),
            ]],
            "",
        ),
        needs("operate", &[], operator),
        needs("operator", &[], operator),
        needs(
            "crds",
            &[&[grant(
                &["get", "list", "watch", "create", "patch"],
                DEFINITIONS,
                "customresourcedefinitions",
            )
            .cluster_wide()]],
            "only with `--apply`",
        ),
        needs(
            "version",
            &[&[
                grant(&["get"], DEFINITIONS, "customresourcedefinitions").cluster_wide(),
                grant(&["list"], "apps", "deployments").cluster_wide().if_given(),
            ]],
            "none with `--client`; Deployments only for `--check`",
        ),
    ]
}

/// Commands that ask no cluster.
pub const OFFLINE: [&str; 5] = ["lint", "explain", "render", "sandbox", "completion"];

/// One right, with the commands that it is for.
#[derive(Clone, Debug)]
pub(super) struct Right {
    pub(super) deed: Deed,
    pub(super) is_cluster_wide: bool,
    pub(super) is_needed: bool,
    pub(super) commands: Vec<&'static str>,
}

/// What working with jobs needs in a namespace.
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

/// What an installation needs.
pub(super) fn to_install() -> Vec<Right> {
    rights(|needs| needs.command == "init")
}

/// Each right once.
fn rights(is_meant: impl Fn(&Needs) -> bool) -> Vec<Right> {
    let mut rights: Vec<Right> = Vec::new();
    for needs in all().iter().filter(|needs| is_meant(needs)) {
        for grant in &needs.grants {
            for verb in grant.verbs.iter().copied() {
                let Grant { group, resource, subresource, is_cluster_wide, is_needed, .. } = *grant;
                let deed = Deed { verb, group, resource, subresource };
                let known = rights
                    .iter_mut()
                    .find(|it| it.deed == deed && it.is_cluster_wide == is_cluster_wide);
                match known {
                    Some(known) => {
                        known.is_needed |= is_needed;
                        if !known.commands.contains(&needs.command) {
                            known.commands.push(needs.command);
                        }
                    }
                    None => rights.push(Right {
                        deed,
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

impl Needs {
    /// Rules of a Role with exactly what the command needs in a namespace, and those of a `ClusterRole`
    /// with what it needs in the whole cluster. `with_wishes`: with what only makes it fuller, too.
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

/// The table in `docs/permissions.md`.
pub fn reference() -> String {
    let mut text = "\
# Permissions of the commands

<!-- Made from src/cli/permissions.rs by a test; UPDATE_EXPECT=1 cargo test --lib permissions -->

What a person, or a pipeline, must be allowed to do so that a command works. *Needed* is what it cannot do without; without what
is *wished* it leaves something out and says so. Rights are for the namespace of the jobs, unless they are marked with \u{2020}: those are for the
whole cluster. A JobManager is reached through the API server by `services/proxy`; where that is not given, `--flink-access port-forward`
takes `pods/portforward`. `kubectl flink check -n NAMESPACE` asks the API server for all of them.

| command | needed | wished | |
|---|---|---|---|
"
    .to_owned();
    for needs in all() {
        let needed = cell(needs.grants.iter().filter(|it| it.is_needed));
        let wished = cell(needs.grants.iter().filter(|it| !it.is_needed));
        text.extend([
            "| `",
            needs.command,
            "` | ",
            &needed,
            " | ",
            &wished,
            " | ",
            needs.note,
            " |\n",
        ]);
    }
    let offline = OFFLINE.map(|command| format!("`{command}`")).join(", ");
    text.extend(["\nNo cluster is asked by ", &offline, ".\n"]);
    text
}

/// `get, list` flinkdeployments · …; verbs of one kind together.
fn cell<'a>(grants: impl Iterator<Item = &'a Grant>) -> String {
    let mut verbs: BTreeMap<(bool, String), Vec<&str>> = BTreeMap::new();
    for grant in grants {
        let name = if grant.group.is_empty() || grant.group == GROUP {
            grant.name()
        } else {
            format!("{} ({})", grant.name(), grant.group)
        };
        let known = verbs.entry((grant.is_cluster_wide, name)).or_default();
        for verb in grant.verbs {
            if !known.contains(verb) {
                known.push(verb);
            }
        }
    }
    let shown = verbs.into_iter().map(|((is_cluster_wide, name), verbs)| {
        let mark = if is_cluster_wide { "\u{2020}" } else { "" };
        format!("{name}{mark}: {}", verbs.join(", "))
    });
    shown.collect::<Vec<_>>().join("<br>")
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
            assert!(is_known, "`{name}` has no row in src/cli/permissions.rs");
        }
    }

    #[test]
    fn a_right_is_asked_for_once_and_names_all_its_commands() {
        let rights = to_use();
        for (index, right) in rights.iter().enumerate() {
            let same = rights
                .iter()
                .skip(index + 1)
                .find(|it| it.deed == right.deed && it.is_cluster_wide == right.is_cluster_wide);
            assert!(same.is_none(), "{}", right.deed.shown());
        }
        let get =
            rights.iter().find(|it| it.deed.shown() == "get flinkdeployments.flink.apache.org");
        assert!(get.unwrap().commands.len() > 5 && get.unwrap().is_needed);
    }
}
