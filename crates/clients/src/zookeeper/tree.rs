//! The nodes below a path, and which of them Flink creates.

use state::garbage::job_ids_in;
use zookeeper_client::Stat;

use super::Ensemble;

/// Folders of a cluster that contain a node for each job, in some version of Flink.
const OF_JOBS: [&str; 7] = [
    "jobs",
    "jobgraphs",
    "execution-plans",
    "applications",
    "checkpoints",
    "checkpoint-counter",
    "running_job_registry",
];
/// Folders of a cluster in which its processes elect leaders and publish their addresses.
const OF_LEADERS: [&str; 6] = [
    "leader",
    "leaderlatch",
    "resource_manager_lock",
    "rest_server_lock",
    "dispatcher_lock",
    "job_manager_lock",
];
/// Depth of the lasting nodes in these: `leaderlatch/<job id>/job_manager_lock`. What is below ends with its process.
const OF_LEADERS_DEPTH_MAX: usize = 3;

/// Folders of a cluster in which each of its live JobManagers has a node, in some version of Flink.
pub(super) const OF_JOB_MANAGERS: [&str; 4] =
    ["leader/latch", "leader/dispatcher", "leader/dispatcher/latch", "leaderlatch/dispatcher_lock"];
/// Maximum number of nodes that an error names, and of characters of each.
const NAMES_MAX: usize = 3;
const NAME_CHARS_MAX: usize = 60;

/// A node as it was read.
pub(super) struct Node {
    pub(super) path: String,
    /// `None` if it does not exist, or no longer.
    pub(super) stat: Option<Stat>,
}

impl Node {
    /// Returns whether it exists for as long as the process that registered it.
    pub(super) fn is_ephemeral(&self) -> bool {
        self.stat.is_some_and(|stat| stat.ephemeral_owner != 0)
    }
}

/// Returns whether Flink creates a node at this path, below the node of a cluster.
pub(super) fn is_of_flink(below: &[&str]) -> bool {
    match below {
        [folder, rest @ ..] if OF_JOBS.contains(folder) => rest.first().is_none_or(|id| is_id(id)),
        [folder, ..] => OF_LEADERS.contains(folder) && below.len() <= OF_LEADERS_DEPTH_MAX,
        [] => true,
    }
}

/// Returns whether this child of a cluster's node, or what is in it, names jobs to recover.
pub(super) fn is_of_jobs(folder: &str) -> bool {
    OF_JOBS.contains(&folder)
}

impl Ensemble {
    /// Returns whether the node is one that Flink creates for the cluster. Options name the folders of graphs, and could
    /// name anything: these contain a node for each job, and that nothing but locks.
    pub(super) fn is_of_cluster(&self, node: &Node) -> bool {
        let below = |folder: &str| node.path.strip_prefix(folder)?.strip_prefix('/');
        let Some(path) = below(self.base()) else { return node.path == self.base() };
        let folders = self.job_graphs();
        let leads_to = |folder: &String| {
            *folder == node.path || folder.starts_with(&format!("{}/", node.path))
        };
        if node.is_ephemeral() || folders.iter().any(leads_to) {
            return true;
        }
        let mut in_folders = folders.iter().filter_map(|folder| below(folder)).peekable();
        if in_folders.peek().is_some() {
            return in_folders.any(is_graph);
        }
        is_of_flink(&path.split('/').collect::<Vec<_>>())
    }

    /// Names some of these nodes below the cluster's.
    pub(super) fn names(&self, nodes: &[&Node]) -> String {
        let name = |node: &&Node| -> String {
            let name = node.path.chars().skip(self.base().chars().count() + 1);
            name.filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect()
        };
        let named: Vec<_> = nodes.iter().take(NAMES_MAX).map(name).collect();
        let more = nodes.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", named.join(", "))
    }

    /// Returns whether the node is a graph or belongs to one.
    pub(super) fn is_of_graph(&self, node: &Node) -> bool {
        self.job_graphs().iter().any(|folder| {
            node.path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
        })
    }
}

/// Matches `<job id>`, and the locks in it.
fn is_graph(path: &str) -> bool {
    let (id, rest) = path.split_once('/').unwrap_or((path, "locks"));
    is_id(id) && rest == "locks"
}

fn is_id(name: &str) -> bool {
    job_ids_in(name).eq([name])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "a3f00000000000000000000000000001";

    fn check(ensemble: &Ensemble, path: &str, expected: bool) {
        let node = Node { path: path.replace("ID", ID), stat: None };
        assert_eq!(ensemble.is_of_cluster(&node), expected, "{path}");
    }

    fn ensemble(entries: &[(&str, &str)]) -> Ensemble {
        let mut config: config::FlinkConfig = [
            ("high-availability.zookeeper.quorum", "a:2181"),
            ("high-availability.cluster-id", "orders"),
        ]
        .into_iter()
        .collect();
        config.overlay(&entries.iter().copied().collect());
        Ensemble::from_config(&config, &config::FlinkConfig::default()).unwrap()
    }

    #[test]
    fn flinks_nodes_are_distinguished_from_those_of_others() {
        let orders = ensemble(&[]);
        for path in [
            "",
            "/jobs",
            "/jobs/ID/checkpoints/0000000000000000007",
            "/jobs/ID/checkpoints/0000000000000000007/locks",
            "/jobs/ID/checkpoint_id_counter",
            "/jobgraphs/ID/locks",
            "/execution-plans/ID",
            "/leader/resource_manager",
            "/leader/latch",
            "/leaderlatch/ID/job_manager_lock",
            "/checkpoints/ID/0000000000000000007",
        ] {
            check(&orders, &format!("/flink/orders{path}"), true);
        }
        for path in [
            "/ids",
            "/topics/orders",
            // The tree of a job, which would be removed as that of a cluster.
            "/checkpoints/0000000000000000007",
            "/checkpoint_id_counter",
            // That of clusters.
            "/jobs/jobs",
            "/leader/jobs/ID/checkpoints",
            "/graphs/ID",
        ] {
            check(&orders, &format!("/flink/orders{path}"), false);
        }
        check(&orders, "/flink/orders-2/jobs", false);
    }

    #[test]
    fn a_folder_that_an_option_names_contains_graphs_alone() {
        const GRAPHS: &str = "high-availability.zookeeper.path.jobgraphs";
        let own = ensemble(&[(GRAPHS, "/of/graphs")]);
        for path in ["/of", "/of/graphs", "/of/graphs/ID", "/of/graphs/ID/locks"] {
            check(&own, &format!("/flink/orders{path}"), true);
        }
        for path in ["/off", "/of/others", "/of/graphs/0", "/of/graphs/ID/checkpoints"] {
            check(&own, &format!("/flink/orders{path}"), false);
        }
        // Otherwise a start would remove the checkpoints of a namesake as if they were graphs.
        check(&ensemble(&[(GRAPHS, "jobs")]), "/flink/orders/jobs/ID/checkpoints", false);
    }
}
