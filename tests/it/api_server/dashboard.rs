//! The console of a pod against a real API server: real tokens, and the permissions of a Role.

use std::time::{Duration, Instant};

use clients::cluster::access::{Operation, may};
use clients::cluster::apply::{self, Writer};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::config::{AuthInfo, Kubeconfig};
use operator::install::merge::{defaults, merge, typed};
use operator::install::objects::Release;
use reqwest::header::COOKIE;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::Server;
use super::permissions::client_of;
use crate::support::patience::PATIENCE;
use crate::support::rights::ACCOUNT;
use crate::support::serving::{Serving, lease};

fn deployment(name: &str) -> Value {
    let text = include_str!("../../reviews/deployment.json");
    let mut deployment: Value = serde_json::from_str(text).unwrap();
    deployment["metadata"] = json!({"name": name});
    deployment
}

/// Creates an account and returns a token for it.
async fn account(server: &Server, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client.clone(), &server.namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let request =
        accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    request.status.unwrap().token.unwrap()
}

/// Binds a role to accounts of the namespace; `role` is `ClusterRole` for all namespaces.
async fn allow(server: &Server, name: &str, role: &str, account: &str, rules: Value) {
    let api_version = "rbac.authorization.k8s.io/v1";
    let prefix = if role == "ClusterRole" { "cluster" } else { "" };
    let object = json!({"apiVersion": api_version, "kind": role, "metadata": {"name": name}, "rules": rules});
    server.put(&format!("{prefix}roles"), &object).await;
    let binding = json!({"apiVersion": api_version, "kind": format!("{role}Binding"), "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": server.namespace}]});
    server.put(&format!("{prefix}rolebindings"), &binding).await;
}

/// Gives an operator of both namespaces exactly the permissions of its installation, and returns its kubeconfig.
async fn install(server: &Server, other: &Server) -> NamedTempFile {
    let mut values = defaults();
    let given = json!({"watchNamespaces": [server.namespace, other.namespace], "dashboard": {"enabled": true}});
    merge(&mut values, given.as_object().unwrap().clone());
    let (values, version) = (typed(values).unwrap(), env!("CARGO_PKG_VERSION"));
    let release =
        Release { namespace: &server.namespace, version, managed_by: "test", values: &values };
    for object in release.objects() {
        let plural = match object["kind"].as_str().unwrap() {
            "Role" => "roles",
            "RoleBinding" => "rolebindings",
            "ClusterRole" => "clusterroles",
            "ClusterRoleBinding" => "clusterrolebindings",
            _ => continue,
        };
        let is_elsewhere = object["metadata"]["namespace"] == json!(other.namespace);
        if is_elsewhere { other } else { server }.put(plural, &object).await;
    }
    let token = account(server, ACCOUNT).await;
    let name = format!("system:serviceaccount:{}:{ACCOUNT}", server.namespace);
    let client = client_of(&name).await;
    let list =
        |resource| Operation { verb: "list", group: api::GROUP, resource, subresource: None };
    let create = |group, resource| Operation { verb: "create", group, resource, subresource: None };
    let start = Instant::now();
    for (namespace, operation) in [
        (&server.namespace, list("flinkdeployments")),
        (&other.namespace, list("flinkdeployments")),
        (&server.namespace, create("authorization.k8s.io", "subjectaccessreviews")),
        (&server.namespace, create("coordination.k8s.io", "leases")),
    ] {
        while !may(&client, namespace, operation).await.unwrap() {
            assert!(start.elapsed() < PATIENCE, "{operation:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let path = std::env::var("KUBECTL_FLINK_TEST_KUBECONFIG").unwrap();
    let mut kubeconfig = Kubeconfig::read_from(path).unwrap();
    for user in &mut kubeconfig.auth_infos {
        let token = Some(token.clone().into());
        user.auth_info = Some(AuthInfo { token, ..AuthInfo::default() });
    }
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), serde_json::to_string(&kubeconfig).unwrap()).unwrap();
    file
}

async fn page(serving: &Serving, path: &str, cookie: &str) -> (u16, String) {
    let client = reqwest::Client::new();
    let page = client.get(format!("{}{path}", serving.base)).header(COOKIE, cookie).send();
    let page = page.await.unwrap();
    (page.status().as_u16(), page.text().await.unwrap())
}

/// Waits until a page contains all of `wanted` and nothing of `unwanted`.
async fn shows(serving: &Serving, path: &str, cookie: &str, wanted: &[&str], unwanted: &[&str]) {
    let start = Instant::now();
    loop {
        let (status, page) = page(serving, path, cookie).await;
        let is_right = wanted.iter().all(|it| page.contains(it));
        if status == 200 && is_right && !unwanted.iter().any(|it| page.contains(it)) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{path}: {status} {wanted:?}: {page}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn an_account_sees_in_the_console_what_its_role_lets_it_list() {
    let server = Server::with_namespace("console").await;
    let other = Server::with_namespace("console-other").await;
    server.create(&deployment("orders")).await.unwrap();
    other.create(&deployment("bills")).await.unwrap();
    let (jane, root) = (account(&server, "jane").await, account(&server, "root").await);
    let group = "flink.apache.org";
    let read = json!([{"apiGroups": [group], "resources": ["flinkdeployments"], "verbs": ["get", "list"]}]);
    allow(&server, "console-jane", "Role", "jane", read.clone()).await;
    let of_all = format!("{}-root", server.namespace);
    allow(&server, &of_all, "ClusterRole", "root", read).await;
    apply::apply(&server.client, &lease(&server.namespace), Writer::CLI).await.unwrap();
    let kubeconfig = install(&server, &other).await;
    let namespaces = format!("{},{}", server.namespace, other.namespace);
    let flags = ["--watch-namespaces", &namespaces, "--dashboard-review-interval", "0s"];
    let serving = Serving::start(kubeconfig.path(), &server.namespace, &flags).await;

    // The API server itself caches token reviews for ten seconds.
    let of_joe = serving.sign_in(&account(&server, "joe").await).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client.clone(), &server.namespace);
    accounts.delete("joe", &DeleteParams::default()).await.unwrap();
    let of_jane = serving.sign_in(&jane).await;
    let of_root = serving.sign_in(&root).await;
    let own = format!("system:serviceaccount:{}:jane", server.namespace);
    shows(&serving, "/?q=orders", &of_jane, &["orders", &own, "your namespaces"], &[]).await;
    shows(&serving, "/?size=100", &of_jane, &["All <b>1</b>"], &["bills"]).await;
    shows(&serving, "/?q=bills", &of_root, &["bills", "all namespaces"], &[]).await;

    let address = format!("/in/{}/deployment/orders", server.namespace);
    // Pods need another permission, whose absence is reported in the section about them.
    let wanted = ["<h1>orders</h1>", "Upgrade mode", "forbidden"];
    shows(&serving, &address, &of_jane, &wanted, &[]).await;
    let address = format!("/in/{}/deployment/bills", other.namespace);
    let wanted = ["forbidden", "jane"];
    shows(&serving, &address, &of_jane, &wanted, &["Upgrade mode"]).await;

    server
        .put(
            "roles",
            &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "console-jane"}, "rules": []}),
        )
        .await;
    shows(&serving, "/", &of_jane, &["FlinkDeployments are not shown"], &["orders"]).await;
    let start = Instant::now();
    loop {
        let (status, page) = page(&serving, "/", &of_joe).await;
        if status == 401 {
            assert!(page.contains("Your session has ended"), "{page}");
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{page}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    server.clean_up().await;
    other.clean_up().await;
}
