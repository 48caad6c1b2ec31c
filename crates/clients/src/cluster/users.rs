//! Which cluster uses which storage, and every name that any Kubernetes object mentions.
//!
//! All namespaces are read: clusters of two namespaces can share a storage, and what one does not name the other may.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use serde_json::{Map, Value};

use super::Result;
use super::leftovers::{self, AUTOSCALER_MAPS, MAPS, name_of, optional, text};
use super::read::{self, Scope};
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::{FlinkConfiguration, FlinkDeployment};
use api::reconciled::session_cluster_in;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::FlinkStateSnapshot;
use config::FlinkConfig;
use config::file::{parse_config_yaml, parse_flink_conf};
use state::garbage::ClusterName;
use state::garbage::storage::{References, names_in};
use state::references::claims;

/// Prefix of the name of the ConfigMap from which a JobManager reads its configuration.
const CONFIG_MAP: &str = "flink-config-";
/// Flink versions that restore in mode LEGACY.
const WITHOUT_MODES: [&str; 2] = ["v1_13", "v1_14"];

/// One cluster, with everything that belongs to it.
#[derive(Clone, Debug, Default)]
pub struct User {
    /// Configurations of its specs, present and stored, of its session jobs, and the one in force.
    pub configurations: Vec<FlinkConfig>,
    /// The text of all of its objects.
    text: String,
}

impl User {
    /// Returns whether any of its objects names the place; `true` if in doubt.
    pub fn names_place(&self, uri: &str) -> bool {
        let path = uri.split_once(':').map_or(uri, |(_, path)| path);
        self.mentions(path.trim_matches('/'))
    }

    /// Returns whether any of its objects contains this text; may report too many.
    pub fn mentions(&self, text: &str) -> bool {
        self.text.contains(text)
    }
}

/// Everything that was read.
#[derive(Clone, Debug, Default)]
pub struct Users {
    pub users: BTreeMap<ClusterName, User>,
    pub references: References,
}

/// Reads everything.
///
/// # Errors
/// If anything cannot be read: nothing can be decided on half of the objects.
pub async fn users(client: &Client) -> Result<Users> {
    let scope = Scope::AllNamespaces;
    let mut users = Users::default();
    for deployment in read::list_values::<FlinkDeployment>(client, scope, None).await? {
        users.add_deployment(&deployment);
    }
    for job in optional::<FlinkSessionJob>(client, scope).await? {
        let mut cluster = name_of(&job);
        cluster.name = session_cluster_in(&job).unwrap_or_default().into_owned();
        users.add(cluster, &job);
    }
    for resource in optional::<FlinkBlueGreenDeployment>(client, scope).await? {
        users.mention(&resource);
    }
    for snapshot in optional::<FlinkStateSnapshot>(client, scope).await? {
        users.mention(&snapshot);
    }
    for revision in read::list_values::<ControllerRevision>(client, scope, None).await? {
        users.add_revision(&revision);
    }
    for deployment in read::list_values::<Deployment>(client, scope, Some("app")).await? {
        users.mention(&deployment);
    }
    for selector in [MAPS, AUTOSCALER_MAPS] {
        for map in read::list_values::<ConfigMap>(client, scope, Some(selector)).await? {
            users.add_config_map(&map);
        }
    }
    let inventory = leftovers::inventory(client, scope).await?;
    let all = inventory.named.iter().chain(&inventory.running);
    let all = all.chain(inventory.maps.iter().map(|map| &map.cluster));
    let mut restless = BTreeSet::new();
    for cluster in all {
        users.references.clusters.insert(cluster.name.clone());
        // A cluster that does not run here may run elsewhere, on the same storage.
        let is_at_rest = inventory.settled_applications.contains(cluster);
        if !is_at_rest || !inventory.running.contains(cluster) {
            restless.insert(cluster.name.clone());
        }
    }
    users.references.settled = users
        .references
        .clusters
        .iter()
        .filter(|name| !restless.contains(*name))
        .cloned()
        .collect();
    Ok(users)
}

impl Users {
    /// Adds what this FlinkDeployment refers to, as stored by the API server.
    pub fn add_deployment(&mut self, deployment: &Value) {
        let cluster = name_of(deployment);
        let references = &mut self.references;
        if !deployment.pointer("/spec/job").is_some_and(Value::is_object) {
            references.session_clusters.insert(cluster.clone());
        }
        if WITHOUT_MODES.contains(&text(deployment, "/spec/flinkVersion")) {
            references.claimers.insert(cluster.clone());
        }
        self.add(cluster, deployment);
    }

    /// Adds a resource and the specs in it.
    fn add(&mut self, cluster: ClusterName, resource: &Value) {
        self.mention(resource);
        self.user(&cluster).text.push_str(&resource.to_string());
        self.add_configuration(&cluster, resource.pointer("/spec/flinkConfiguration"));
        for field in ["lastReconciledSpec", "lastStableSpec"] {
            let stored = resource.pointer(&format!("/status/reconciliationStatus/{field}"));
            let Some(stored) = stored.and_then(Value::as_str) else { continue };
            match serde_json::from_str::<Value>(stored) {
                Ok(stored) => {
                    let spec = stored.get("spec").unwrap_or(&stored);
                    self.add_configuration(&cluster, spec.get("flinkConfiguration"));
                }
                Err(_) => self.references.unread.push(format!(
                    "`status.reconciliationStatus.{field}` of `{}` in namespace `{}` is not JSON",
                    text(resource, "/metadata/name"),
                    cluster.namespace
                )),
            }
        }
    }

    fn add_revision(&mut self, revision: &Value) {
        self.mention(revision);
        let mut cluster = name_of(revision);
        let owner = revision.pointer("/metadata/ownerReferences/0/name").and_then(Value::as_str);
        let Some(owner) = owner else { return };
        // Revisions of a session job do not say where its cluster stores state.
        owner.clone_into(&mut cluster.name);
        if !self.users.contains_key(&cluster) {
            return;
        }
        self.user(&cluster).text.push_str(&revision.to_string());
        self.add_configuration(&cluster, revision.pointer("/data/spec/flinkConfiguration"));
    }

    fn add_config_map(&mut self, map: &Value) {
        self.mention(map);
        let mut cluster = name_of(map);
        text(map, "/metadata/labels/app").clone_into(&mut cluster.name);
        if !self.users.contains_key(&cluster) {
            return;
        }
        self.user(&cluster).text.push_str(&map.to_string());
        if text(map, "/metadata/name") != format!("{CONFIG_MAP}{}", cluster.name) {
            return;
        }
        let file = |name: &str| map.pointer("/data").and_then(|data| data.get(name)?.as_str());
        if let Some(lines) = file("flink-conf.yaml") {
            self.note_configuration(&cluster, parse_flink_conf(lines));
        }
        match file("config.yaml").map(parse_config_yaml) {
            None => {}
            Some(Ok(config)) => self.note_configuration(&cluster, config),
            Some(Err(error)) => self.references.unread.push(format!(
                "ConfigMap `{CONFIG_MAP}{}` in namespace `{}`: {error}",
                cluster.name, cluster.namespace
            )),
        }
    }

    fn add_configuration(&mut self, cluster: &ClusterName, configuration: Option<&Value>) {
        let empty = Map::new();
        let entries = configuration.and_then(Value::as_object).unwrap_or(&empty);
        let config = FlinkConfig::flatten(&FlinkConfiguration(entries.clone()));
        self.note_configuration(cluster, config);
    }

    fn note_configuration(&mut self, cluster: &ClusterName, config: FlinkConfig) {
        if claims(&config) {
            self.references.claimers.insert(cluster.clone());
        }
        let user = self.user(cluster);
        if !user.configurations.contains(&config) {
            user.configurations.push(config);
        }
    }

    fn user(&mut self, cluster: &ClusterName) -> &mut User {
        self.users.entry(cluster.clone()).or_default()
    }

    fn mention(&mut self, object: &Value) {
        self.references.names.extend(names_in(&object.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "00000000000000000000000000000001";

    fn deployment(name: &str, configuration: Value, stored: &str) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"job": {"jarURI": "local:///job.jar"}, "flinkConfiguration": configuration},
            "status": {
                "jobStatus": {"jobId": ID, "upgradeSavepointPath": "s3://lake/sp/savepoint-1-2"},
                "reconciliationStatus": {"lastReconciledSpec": stored},
            },
        })
    }

    fn cluster(name: &str) -> ClusterName {
        ClusterName { namespace: "shop".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn all_configurations_of_a_cluster_count() {
        let mut users = Users::default();
        let stored =
            r#"{"spec":{"flinkConfiguration":{"state":{"savepoints.dir":"s3://old/sp"}}}}"#;
        let now = json!({"state.savepoints.dir": "s3://lake/sp"});
        users.add_deployment(&deployment("orders", now, stored));
        users.add_config_map(&json!({
            "metadata": {"namespace": "shop", "name": "flink-config-orders", "labels": {"app": "orders"}},
            "data": {"flink-conf.yaml": "high-availability.storageDir: s3://lake/ha\n"},
        }));
        let user = &users.users[&cluster("orders")];
        assert_eq!(user.configurations.len(), 3);
        for place in ["s3://old/sp", "s3a://lake/sp/", "s3://lake/ha"] {
            assert!(user.names_place(place), "{place}");
        }
        assert!(!user.names_place("s3://lake/checkpoints"));
        let names: Vec<&str> = users.references.names.iter().map(String::as_str).collect();
        assert_eq!(names, [ID, "savepoint-1-2"]);
        assert!(users.references.unread.is_empty() && users.references.claimers.is_empty());
    }

    #[test]
    fn a_stored_spec_that_cannot_be_read_is_reported() {
        let mut users = Users::default();
        users.add_deployment(&deployment("orders", json!({}), "{"));
        assert_eq!(users.references.unread.len(), 1);
    }

    #[test]
    fn a_version_without_restore_modes_claims() {
        let mut users = Users::default();
        let mut old = deployment("old", json!({}), "{}");
        old["spec"]["flinkVersion"] = json!("v1_14");
        users.add_deployment(&old);
        assert!(users.references.claimers.contains(&cluster("old")));
    }
}
