//! The table of all commands and the permissions they need.

use super::{Grant, Needs, grant};
use api::GROUP;

const DEPLOYMENTS: &str = "flinkdeployments";
const SESSION_JOBS: &str = "flinksessionjobs";
const BLUE_GREENS: &str = "flinkbluegreendeployments";
const SNAPSHOTS: &str = "flinkstatesnapshots";
const DEFINITIONS: &str = "apiextensions.k8s.io";

/// Kinds that a name on the command line can refer to.
pub(super) const KINDS: [&str; 3] = [DEPLOYMENTS, SESSION_JOBS, BLUE_GREENS];

/// A name on the command line is looked up among both kinds.
const NAMED: [Grant; 2] =
    [grant(&["get"], GROUP, DEPLOYMENTS), grant(&["get"], GROUP, SESSION_JOBS)];
/// Existing deployments are listed in the error if one is not found.
const NAMES: Grant = grant(&["list"], GROUP, DEPLOYMENTS).if_given();
/// Permissions to see whether both colours of a blue/green deployment have room.
const ROOM: [Grant; 2] = [grant(&["list"], "", "resourcequotas").if_given(), PODS.if_given()];
/// The permission to query the JobManager through the API server.
const ASK_FLINK: Grant = grant(&["get"], "", "services").sub("proxy").if_given();
const QUERY_FLINK: Grant = grant(&["get", "create"], "", "services").sub("proxy");
/// About `ui`, which sends everything that people do in a browser.
const FORWARDED: &str = "the verb depends on what you do there; or `list` of pods, and `get` and `create` of \
                         `pods/portforward`, by which jars are uploaded if it is allowed";
/// About a name that only `pause`, `unpause` and `delete --explain` take.
const OF_SNAPSHOTS: &str = "`snapshot/NAME` needs `get` and `patch` of flinkstatesnapshots";
const REVISIONS: Grant = grant(&["list"], "apps", "controllerrevisions");
const PODS: Grant = grant(&["list"], "", "pods");
const EVENTS: Grant = grant(&["list"], "", "events");
const PATCH: [Grant; 2] =
    [grant(&["patch"], GROUP, DEPLOYMENTS), grant(&["patch"], GROUP, SESSION_JOBS)];
/// Permissions to see the transition of a blue/green deployment and to decide about it.
const SWITCH: [Grant; 2] =
    [grant(&["get", "patch"], GROUP, BLUE_GREENS), grant(&["get"], GROUP, DEPLOYMENTS)];

fn needs(command: &'static str, grants: &[&[Grant]], note: &'static str) -> Needs {
    Needs { command, grants: grants.concat(), note }
}

/// Returns every command that uses a cluster, in the order of `--help`.
#[allow(clippy::too_many_lines, reason = "a table")]
pub fn all() -> Vec<Needs> {
    let roles = "rbac.authorization.k8s.io";
    let watched = [
        grant(&["get", "list", "watch"], GROUP, DEPLOYMENTS),
        grant(&["get", "list", "watch"], GROUP, SESSION_JOBS),
    ];
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
            "you can only create a Role with permissions that you have yourself; `--skip-crds` needs none on CRDs",
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
                &ROOM,
            ],
            "`--wait` also needs `list` and `watch` on the resource",
        ),
        needs(
            "run",
            &[&NAMED, &[NAMES, grant(&["create", "patch"], GROUP, SESSION_JOBS)]],
            "`--wait` also needs `list` and `watch` of session jobs; `--direct` needs `get` and `create` of \
             `services/proxy` instead of write permissions on them",
        ),
        needs(
            "sql",
            &[
                &NAMED,
                &[
                    NAMES,
                    grant(&["get"], "apps", "deployments"),
                    grant(&["list", "watch", "create", "delete"], "", "pods"),
                    grant(&["get", "create"], "", "pods").sub("portforward"),
                    grant(&["get"], "", "pods").sub("log").if_given(),
                ],
            ],
            "the gateway's pod has the JobManager's service account and mounts; anyone who can create pods there can use them",
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
            "`watch` only for `--watch`; ConfigMaps are read for jobs with an autoscaler",
        ),
        needs(
            "list",
            &[&[
                grant(&["list", "watch"], GROUP, DEPLOYMENTS),
                grant(&["list", "watch"], GROUP, SESSION_JOBS),
                grant(&["list", "watch"], GROUP, BLUE_GREENS).if_given(),
                grant(&["get"], GROUP, DEPLOYMENTS).if_given(),
                grant(&["get"], GROUP, SESSION_JOBS).if_given(),
                ASK_FLINK,
            ]],
            "`watch` only for `--watch`; `-o wide` asks Flink for the newest checkpoints",
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
            "without `services/proxy` it shows states but no metrics",
        ),
        needs(
            "dashboard",
            &[&[
                grant(&["list", "watch"], GROUP, DEPLOYMENTS),
                grant(&["get"], GROUP, DEPLOYMENTS).if_given(),
                grant(&["get", "list", "watch"], GROUP, SESSION_JOBS).if_given(),
                grant(&["get", "list", "watch"], GROUP, BLUE_GREENS).if_given(),
                PODS.if_given(),
                grant(&["list"], GROUP, SNAPSHOTS).if_given(),
                EVENTS.if_given(),
                REVISIONS.if_given(),
                grant(&["get"], "", "pods").sub("log").if_given(),
                grant(&["get"], "", "configmaps").if_given(),
                ASK_FLINK,
                grant(&["list"], "apps", "deployments").cluster_wide().if_given(),
                grant(&["list"], "coordination.k8s.io", "leases").cluster_wide().if_given(),
            ]],
            "the page names the kinds that you are not allowed to list; everything but `list` and `watch` \
             is for the page of a resource, whose configuration also needs `configmaps` in the operator's \
             namespace. An action needs the permissions of its command, and is only offered if you have \
             them",
        ),
        needs("events", &[&NAMED, &[NAMES, EVENTS]], ""),
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
            "the optional ones in the operator's namespace",
        ),
        needs("suspend", &[&NAMED, &[NAMES], &PATCH], "`--wait` also needs `list` and `watch`"),
        needs("resume", &[&NAMED, &[NAMES], &PATCH], "`--wait` also needs `list` and `watch`"),
        needs("pause", &[&NAMED, &[NAMES], &PATCH], OF_SNAPSHOTS),
        needs("unpause", &[&NAMED, &[NAMES], &PATCH], OF_SNAPSHOTS),
        needs("restart", &[&NAMED, &[NAMES], &PATCH], "`--wait` also needs `list` and `watch`"),
        needs(
            "scale",
            &[&NAMED, &[NAMES, ASK_FLINK], &PATCH, &ROOM],
            "`--wait` also needs `list` and `watch`",
        ),
        needs("set", &[&NAMED, &[NAMES], &PATCH, &ROOM], "`--wait` also needs `list` and `watch`"),
        needs("promote", &[&SWITCH], ""),
        needs("abort", &[&SWITCH], ""),
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
                    grant(&["list"], "", "resourcequotas").if_given(),
                    ASK_FLINK,
                    grant(&["patch"], GROUP, DEPLOYMENTS).if_given(),
                    grant(&["patch"], GROUP, SESSION_JOBS).if_given(),
                ],
            ],
            "`patch` only for a server-side dry run of `-f`; quotas are read for blue/green deployments",
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
            "`--direct` needs `get` and `create` of `services/proxy` instead of the snapshots; `inspect` \
             needs `get` of the objects that you name",
        ),
        needs(
            "snapshots",
            &[&[
                grant(&["list"], GROUP, DEPLOYMENTS),
                grant(&["list"], GROUP, SESSION_JOBS),
                grant(&["list"], GROUP, SNAPSHOTS),
                REVISIONS.if_given(),
            ]],
            "for `list`, which is the default; `list NAME` also needs `get` of the job. `trigger` needs the \
             same as `savepoint`, and `restore` the same as the command `restore`. `dispose` and `gc` also \
             need `list` of revisions, and `patch` and `delete` of the snapshots",
        ),
        needs("checkpoints", &[&NAMED, &[NAMES, grant(&["get"], "", "services").sub("proxy")]], ""),
        needs("ui", &[&NAMED, &[NAMES, QUERY_FLINK]], FORWARDED),
        needs("rest", &[&NAMED, &[NAMES, QUERY_FLINK]], "the verb depends on the HTTP method"),
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
            "`patch` only for `reset`; `explain`, `history --rescales`, `backtest --record` and `simulate \
             NAME` ask the JobManager; `run` does not use Kubernetes",
        ),
        needs(
            "delete",
            &[
                &NAMED,
                &[
                    NAMES,
                    QUERY_FLINK,
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
                grant(&["list"], GROUP, BLUE_GREENS),
                grant(&["list", "delete"], "", "configmaps"),
                grant(&["list", "delete"], "apps", "controllerrevisions"),
                grant(&["list"], "apps", "deployments"),
                PODS,
            ]],
            "with `-A`, and for leftovers in storage, the same cluster-wide",
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
            "the archive lists what you are not allowed to read",
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
        needs("operate", &[], "see [below](#the-operator)"),
        needs(
            "operator",
            &[],
            "all permissions on what it creates, and those that it grants: see [below](#the-operator), and \
             the output of `operator install --dry-run=client -o yaml`; `operator continue` needs `list` \
             and `patch` of FlinkDeployments, FlinkSessionJobs and FlinkBlueGreenDeployments",
        ),
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

/// Commands that use no cluster.
pub const OFFLINE: [&str; 5] = ["lint", "explain", "render", "sandbox", "completion"];
