//! `docs/permissions.md`, generated from the table and from the rules that an installation grants.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Grant, OFFLINE, all};
use api::GROUP;
use operator::install::rules;

/// Returns the text of `docs/permissions.md`.
pub fn reference() -> String {
    let mut text = "\
# Permissions of the commands

<!-- Made from src/cli/permissions/table.rs by a test; UPDATE_EXPECT=1 cargo test --lib permissions -->

The permissions that a person or a pipeline needs for each command. A command fails without those under *needed*; without those under
*optional* it leaves something out and says so. They apply to the namespace of the jobs; those marked with \u{2020} are cluster-wide. JobManagers are
reached through the API server with `services/proxy`, or with `pods/portforward` if you pass `--flink-access port-forward`. `bluegreen/NAME` needs
`get` on flinkbluegreendeployments, and `patch` to change, `update` to roll back and `delete` to delete it. `kubectl flink check -n NAMESPACE` asks the
API server about all of them.

| command | needed | optional | |
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
    text.extend(["\nThese commands need no cluster: ", &offline, ".\n"]);
    text + &operator()
}

/// Returns the part about the operator, with the same rules that `operator install` grants.
fn operator() -> String {
    let webhook = "NAME-webhook";
    let rows = [
        ("its work", "each namespace that it operates, or the cluster", rules::operator()),
        (
            "creating Secrets from keytabs in its own pod (`rbac.keytabsRule.create`)",
            "the same",
            rules::keytabs(),
        ),
        (
            "leader election and sharding (`--lease-name`, `--shards`)",
            "its own namespace",
            rules::leader(&["NAME".to_owned(), "NAME-SHARD-of-SHARDS".to_owned()]),
        ),
        ("`--shards` with `--all-namespaces`", "the cluster", rules::namespaces()),
        ("node notices (`rbac.nodesRule.create`)", "the cluster", rules::nodes()),
        (
            "free capacity of the nodes, for the autoscaler (`rbac.resourceViewRule.create`)",
            "the cluster",
            rules::resource_view(),
        ),
        (
            "a webhook that creates its own certificate",
            "its own namespace",
            rules::webhook_secret(webhook),
        ),
        ("the same", "the cluster", rules::webhook_configurations(webhook)),
        ("the console in its pods (`dashboard.enabled`)", "the cluster", rules::dashboard()),
        ("what the jobs' own pods need (`init`)", "each namespace of jobs", rules::jobs()),
    ];
    let mut text = "
## The operator

`operator install` grants these to the operator in a pod. `kubectl flink operate` in a terminal needs the same. Because it reaches JobManagers through the
API server it also needs `get`, `create`, `update`, `patch` and `delete` on `services/proxy`, and `get` and `create` on `pods/portforward` for jars, which
are too large for the proxy. To install the operator you need all permissions that it is granted.

| for | in | permissions |
|---|---|---|
"
    .to_owned();
    for (what, place, rules) in rows {
        let rights = rules.iter().map(rule).collect::<Vec<_>>().join("<br>");
        text.extend(["| ", what, " | ", place, " | ", &rights, " |\n"]);
    }
    text
}

/// Formats a rule of a Role, such as `leases (coordination.k8s.io): get, list`.
fn rule(rule: &Value) -> String {
    let list = |key: &str| -> Vec<&str> {
        rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let group = match list("apiGroups").as_slice() {
        ["" | GROUP] => String::new(),
        groups => format!(" ({})", groups.join(", ")),
    };
    let named = match list("resourceNames").as_slice() {
        [] => String::new(),
        names => format!(" `{}`", names.join("`, `")),
    };
    format!("{}{named}{group}: {}", list("resources").join(", "), list("verbs").join(", "))
}

/// Formats grants, such as `get, list` flinkdeployments · …, with the verbs of one kind together.
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
