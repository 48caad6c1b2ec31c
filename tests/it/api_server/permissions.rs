//! Runs each command with exactly the Role that `docs/permissions.md` lists for it.

use std::path::Path;
use std::time::Duration;

use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use clap::Parser;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use kubectl_flink::cli;
use kubectl_flink::cli::args::{Cli, Global};
use kubectl_flink::cli::connection::Connection;
use kubectl_flink::cli::permissions::{self, Needs};
use kubectl_flink::cli::printer::Printer;
use operator::install::merge::{Scalars, defaults, set, typed};
use operator::install::objects::Release;
use serde_json::{Value, json};

use super::Server;
use crate::support::api_client;
use crate::support::patience::{BEYOND_PATIENCE, PATIENCE};

/// Returns the command lines for a row of the table; empty if a separate test covers it.
fn lines(command: &str, folder: &Path) -> Vec<String> {
    let manifest = folder.join("orders.json").display().to_string();
    let archive = folder.join(format!("{command}.zip")).display().to_string();
    match command {
        "init" => vec!["init --yes".to_owned()],
        "deploy" => vec![format!("deploy -f {manifest}")],
        "status" => vec!["status".to_owned(), "status orders".to_owned()],
        "plan" => {
            vec!["plan orders --set job.parallelism=3".to_owned(), format!("plan -f {manifest}")]
        }
        "rollback" => vec!["rollback orders --yes".to_owned()],
        "savepoint" => vec!["savepoint orders --timeout 1s".to_owned()],
        "delete" => vec!["delete orders --timeout 1s".to_owned()],
        "snapshots" => vec!["snapshots".to_owned(), "snapshots list".to_owned()],
        "gc" | "check" => vec![command.to_owned()],
        "version" => vec!["version".to_owned(), "version --check".to_owned()],
        "crds" => vec!["crds --apply".to_owned()],
        "report" => vec![format!("report orders --file {archive} --timeout {BEYOND_PATIENCE}")],
        "list" => vec!["list".to_owned(), "list -o wide".to_owned()],
        "top" => vec!["top".to_owned(), "top orders".to_owned()],
        "run" => vec!["run https://repo.example.com/clicks.jar --on sessions".to_owned()],
        // Its pod is created, waited for, and removed; nothing is behind the port-forward.
        "sql" => vec!["sql sessions -e SELECT --start-timeout 2s".to_owned()],
        "set" => vec!["set image orders flink:1.20-java17".to_owned()],
        "restore" => {
            let flags = "--unverified --leave-newer-state";
            vec![format!("restore orders --from s3://b/sp {flags}")]
        }
        "rest" => vec!["rest orders GET /overview".to_owned()],
        "autoscaler" => {
            vec!["autoscaler status orders".to_owned(), "autoscaler history orders".to_owned()]
        }
        "scale" => vec!["scale orders --parallelism 3".to_owned()],
        "suspend" | "resume" | "pause" | "unpause" | "why" | "history" | "logs" | "exec"
        | "events" | "config" | "restart" | "checkpoints" | "ui" | "promote" | "abort" => {
            vec![format!("{command} orders")]
        }
        // They run until they are stopped, or install a whole operator: see `e2e::install`. `dashboard` needs the
        // permissions of `list`, and reports in a browser what may not be watched.
        "dashboard" | "operate" | "operator" => vec![],
        other => panic!("no command line tries `{other}`"),
    }
}

/// Makes the session cluster ready for `sql`, with a JobManager whose pods are not needed.
async fn make_ready(server: &Server) {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::ServiceAccount;
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "sessions"}})).unwrap();
    let api: Api<ServiceAccount> = Api::namespaced(server.client.clone(), &server.namespace);
    api.create(&PostParams::default(), &account).await.unwrap();
    let labels = json!({"app": "sessions", "component": "jobmanager"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "sessions", "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"serviceAccountName": "sessions",
                "containers": [{"name": "flink-main-container", "image": "flink:1.20"}]},
        }},
    }))
    .unwrap();
    let api: Api<Deployment> = Api::namespaced(server.client.clone(), &server.namespace);
    api.create(&PostParams::default(), &deployment).await.unwrap();
    let status = json!({"status": {"jobManagerDeploymentStatus": "READY"}});
    let api: Api<FlinkDeployment> = Api::namespaced(server.client.clone(), &server.namespace);
    api.patch_status("sessions", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Creates a blue/green deployment whose other colour starts.
async fn switch(server: &Server) {
    let mut object = orders(&server.namespace);
    let template = json!({"spec": object["spec"].take()});
    object["kind"] = json!("FlinkBlueGreenDeployment");
    object["spec"] = json!({"template": template});
    server.create(&object).await.unwrap();
    let mut green = orders(&server.namespace);
    green["metadata"]["name"] = json!("orders-green");
    server.create(&green).await.unwrap();
    let status = json!({"status": {"blueGreenState": "TRANSITIONING_TO_GREEN", "jobStatus": {}}});
    let api: Api<FlinkBlueGreenDeployment> =
        Api::namespaced(server.client.clone(), &server.namespace);
    api.patch_status("orders", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Returns a session cluster to which `run` submits a jar.
fn sessions(namespace: &str) -> Value {
    let mut sessions = orders(namespace);
    sessions["metadata"]["name"] = json!("sessions");
    sessions["spec"].as_object_mut().unwrap().remove("job");
    sessions
}

fn orders(namespace: &str) -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": namespace},
        "spec": {
            "image": "flink:1.20", "flinkVersion": "v1_20", "serviceAccount": "flink",
            "flinkConfiguration": {"state.savepoints.dir": "s3://b/s", "state.checkpoints.dir": "s3://b/c"},
            "jobManager": {"resource": {"memory": "2g", "cpu": 1}},
            "taskManager": {"resource": {"memory": "2g", "cpu": 1}},
            "job": {"jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": "savepoint"},
        },
    })
}

/// Returns a client that impersonates `user`.
pub(super) async fn client_of(user: &str) -> Client {
    let path = std::env::var("KUBECTL_FLINK_TEST_KUBECONFIG").unwrap();
    let mut config = api_client::config(Path::new(&path)).await;
    config.auth_info.impersonate = Some(user.to_owned());
    api_client::client(config)
}

impl Server {
    pub(super) async fn put(&self, plural: &str, object: &Value) {
        let resource = ApiResource {
            group: "rbac.authorization.k8s.io".to_owned(),
            version: "v1".to_owned(),
            api_version: "rbac.authorization.k8s.io/v1".to_owned(),
            kind: object["kind"].as_str().unwrap().to_owned(),
            plural: plural.to_owned(),
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        let params = PatchParams::apply("kubectl-flink-test").force();
        let api: Api<DynamicObject> = if plural.starts_with("cluster") {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        };
        api.patch(name, &params, &Patch::Apply(object)).await.unwrap();
    }

    /// Grants `user` the rules of `needs` and no others.
    async fn allow(&self, user: &str, needs: &Needs) {
        let api_version = "rbac.authorization.k8s.io/v1";
        let (rules, cluster_rules) = needs.rules(true);
        let subjects =
            json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]);
        let reference = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": user});
        self.put("roles", &json!({"apiVersion": api_version, "kind": "Role", "metadata": {"name": user}, "rules": rules})).await;
        self.put(
            "rolebindings",
            &json!({"apiVersion": api_version, "kind": "RoleBinding", "metadata": {"name": user},
            "roleRef": reference("Role"), "subjects": subjects}),
        )
        .await;
        self.put("clusterroles", &json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": user}, "rules": cluster_rules})).await;
        self.put("clusterrolebindings", &json!({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": user},
            "roleRef": reference("ClusterRole"), "subjects": subjects})).await;
    }

    /// Returns the command's whole output, including its error.
    async fn says(&self, user: &str, line: &str) -> String {
        let words = std::iter::once("kubectl-flink").chain(line.split_whitespace());
        let Cli { command, global } = Cli::try_parse_from(words).unwrap();
        let connection = Connection {
            client: client_of(user).await,
            namespace: self.namespace.clone(),
            config: None,
            rest_address: Some("127.0.0.1:1".to_owned()),
            is_lent: false,
        };
        let global = Global { connection: Some(connection), ..global };
        let (printer, transcript) = Printer::in_memory();
        let result = Box::pin(cli::run_command(command, &global, &printer)).await;
        let failure = result.err().map(|error| format!("{error:#}")).unwrap_or_default();
        format!("{}{}{failure}", transcript.output(), transcript.error())
    }
}

fn is_refused(said: &str) -> bool {
    said.contains("forbidden") || said.contains("` cannot ")
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn permissions_are_enough_for_each_command_and_needed() {
    let server = Server::with_namespace("permissions").await;
    let folder = tempfile::tempdir().unwrap();
    let object = orders(&server.namespace);
    std::fs::write(folder.path().join("orders.json"), object.to_string()).unwrap();
    server.create(&object).await.unwrap();
    server.create(&sessions(&server.namespace)).await.unwrap();
    make_ready(&server).await;
    switch(&server).await;
    revision(&server).await;
    let mut failures = Vec::new();
    for needs in permissions::all() {
        let user = format!("flink-test-{}-{}", needs.command, std::process::id());
        for line in lines(needs.command, folder.path()) {
            let (rules, cluster_rules) = needs.rules(false);
            if !rules.is_empty() || !cluster_rules.is_empty() {
                let said = server.says(&user, &line).await;
                if !is_refused(&said) {
                    failures.push(format!("`{line}` needs no rights at all: {said}"));
                }
            }
        }
        server.allow(&user, &needs).await;
        for line in lines(needs.command, folder.path()) {
            let since = std::time::Instant::now();
            loop {
                let said = server.says(&user, &line).await;
                drop(std::fs::remove_file(folder.path().join(format!("{}.zip", needs.command))));
                // `check` also reports the permissions of other commands, `config` reads the operator's namespace, and
                // `gc` all others; this Role does not cover those.
                let is_elsewhere = match needs.command {
                    "check" | "config" => true,
                    "gc" => said.contains("in the whole cluster"),
                    _ => false,
                };
                if !is_refused(&said) || is_elsewhere {
                    break;
                }
                if since.elapsed() > PATIENCE {
                    failures.push(format!("`{line}` under its Role: {said}"));
                    break;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }
    server.clean_up().await;
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Creates an earlier spec for a rollback.
async fn revision(server: &Server) {
    use k8s_openapi::api::apps::v1::ControllerRevision;
    let mut spec = orders("x")["spec"].clone();
    spec["image"] = json!("flink:1.19");
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1,
        "metadata": {"name": "orders-1", "labels": {"app": "orders", "component": "flink-revision"}},
        "data": {"spec": spec, "reconciledAt": "2026-01-01T00:00:00Z",
            "restorePoint": {"kind": "savepoint", "path": "s3://b/sp", "upgradeMode": "savepoint"}},
    });
    let revision: ControllerRevision = serde_json::from_value(object).unwrap();
    let api: Api<ControllerRevision> = Api::namespaced(server.client.clone(), &server.namespace);
    let created = api.create(&PostParams::default(), &revision).await.unwrap();
    assert_eq!(created.name_any(), "orders-1");
}

/// An operator of named namespaces sees through it what it needs of the others, and nothing else.
#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn the_room_on_nodes_is_seen_by_the_right_of_its_value() {
    let server = Server::with_namespace("room").await;
    let mut values = defaults();
    for text in ["rbac.resourceViewRule.create=true", "watchNamespaces={shop}"] {
        set(&mut values, text, Scalars::Typed).unwrap();
    }
    let (values, version) = (typed(values).unwrap(), env!("CARGO_PKG_VERSION"));
    let release =
        Release { namespace: &server.namespace, version, managed_by: "test", values: &values };
    for object in release.objects() {
        let plural = match object["kind"].as_str() {
            Some("ClusterRole") => "clusterroles",
            Some("ClusterRoleBinding") => "clusterrolebindings",
            _ => continue,
        };
        server.put(plural, &object).await;
    }
    let account = format!("system:serviceaccount:{}:flink-operator", server.namespace);
    let client = client_of(&account).await;
    let of_kube_system: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let start = std::time::Instant::now();
    let seen = async || {
        Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
        Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
        of_kube_system.get_opt("cluster-autoscaler-status").await
    };
    while let Err(error) = seen().await {
        assert!(start.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(of_kube_system.get_opt("another").await.is_err(), "this one ConfigMap alone");
    assert!(of_kube_system.list(&ListParams::default()).await.is_err());
    let pod: Api<Pod> = Api::namespaced(client.clone(), &server.namespace);
    assert!(pod.get_opt("any").await.is_err(), "listing is enough");
    server.clean_up().await;
}
