//! The operator's own Roles are deleted and recreated, by RBAC itself; [`super::named`] rejects single requests
//! instead.

use std::sync::Arc;
use std::time::Duration;

use clients::cluster::apply::{self, Writer};
use futures::future::{join, join_all};
use http::Method;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::end_state;
use super::ground::{Ground, ROOM, file};
use super::proxy::{Asked, Side};
use super::scenarios::{JOB, deployment};
use super::stage::{DEPLOYMENT, OPERATOR_CONFIG, Stage, is_stable, lay_out};
use crate::support::program::program;
use crate::support::{api_client, rights};

/// How long the permissions are revoked at least.
const AWAY: Duration = Duration::from_secs(5);

/// A moment of an upgrade, which has come once this request was made.
type Moment = (&'static str, fn(&Asked) -> bool);

const MOMENTS: [Moment; 3] = [
    ("at-the-stop", |asked| asked.is("POST", "/stop")),
    ("at-the-end", |asked| {
        asked.side == Side::Kubernetes
            && asked.method == Method::DELETE
            && asked.path.contains("/deployments/")
    }),
    ("at-the-start", |asked| asked.is("POST", "/configmaps")),
];

/// Revokes all permissions in the middle of an upgrade: once they are back, the end is the same.
pub(super) async fn roles_may_go_and_come_back(ground: &Arc<Ground>) {
    let calm = play(ground, "calm", None);
    let disturbed = join_all(MOMENTS.map(|moment| play(ground, moment.0, Some(moment))));
    let (calm, ends) = join(calm, disturbed).await;
    for ((name, _), end) in MOMENTS.iter().zip(ends) {
        let difference = similar::TextDiff::from_lines(&calm, &end).unified_diff().to_string();
        assert!(end == calm, "roles, {name}: {difference}");
    }
}

async fn play(ground: &Arc<Ground>, name: &str, moment: Option<Moment>) -> String {
    let _place = ROOM.acquire().await.unwrap();
    let namespace = format!("role-{name}");
    lay_out(ground, &namespace).await;
    let bindings = give_rights(ground, &namespace).await;
    let mut config = api_client::config(&file(ground, "kubeconfig")).await;
    let user = format!("system:serviceaccount:{namespace}:{}", rights::ACCOUNT);
    config.auth_info.impersonate = Some(user);
    let client = api_client::client(config);
    let stage =
        Stage::in_namespace(ground, &namespace, (client, OPERATOR_CONFIG), Box::new(|_| None))
            .await;
    stage.create(deployment("savepoint")).await;
    stage.until_stable(JOB).await;
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"parallelism": 2}})).await;
    if let Some((_, has_come)) = moment {
        stage.until_recorded("its moment", |one| has_come(&one.asked)).await;
        take_rights_away(ground, &namespace, &bindings).await;
        sleep(AWAY).await;
        stage.until_recorded("refused", |one| one.status == Some(403)).await;
        for binding in &bindings {
            create(ground, binding).await;
        }
    }
    stage.until(DEPLOYMENT, JOB, "STABLE", is_stable).await;
    stage.until_at_rest().await;
    stage.check_laws();
    end_state::of(&stage, &[JOB]).await
}

/// Grants the permissions of an installation for the namespace, and returns the bindings.
async fn give_rights(ground: &Ground, namespace: &str) -> Vec<Value> {
    let mut install = program();
    install.arg("--kubeconfig").arg(file(ground, "kubeconfig")).args(["-n", namespace]);
    install.args(["operator", "install", "--dry-run=client", "-o", "yaml"]);
    let output = install.args(["--watch-namespaces", namespace]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = rights::of_operator(serde_yaml::from_multiple(&text).unwrap());
    for object in &objects {
        create(ground, object).await;
    }
    objects.into_iter().filter(|object| object["kind"] == "RoleBinding").collect()
}

async fn create(ground: &Ground, object: &Value) {
    apply::create(&ground.client, object, Writer::CLI).await.unwrap();
}

async fn take_rights_away(ground: &Ground, namespace: &str, bindings: &[Value]) {
    let api: Api<RoleBinding> = Api::namespaced(ground.client.clone(), namespace);
    for binding in bindings {
        let name = binding["metadata"]["name"].as_str().unwrap();
        let _deletion = api.delete(name, &DeleteParams::default()).await.unwrap();
    }
}
