//! What holds an operator up outside Flink is named in the status, and holds up nothing else.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};

use super::*;

const HOLD: &str = "example.com/hold";

fn error(deployment: &Value) -> &str {
    deployment["status"]["error"].as_str().unwrap_or_default()
}

impl Cluster {
    /// Sets the finalizers of a pod, as a controller that is gone left them.
    fn set_finalizers(&self, pod: &str, finalizers: &[&str]) {
        let pods: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        self.wait_for(pods.patch(pod, &PatchParams::default(), &patch)).unwrap();
    }

    /// From now on no Service can be made in the namespace: its webhook does not answer.
    fn break_services(&self) -> Broken<'_> {
        let name = format!("{}.example.com", self.namespace);
        let webhook = serde_json::from_value(json!({
            "metadata": {"name": name},
            "webhooks": [{
                "name": name,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 2,
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": self.namespace},
                },
                "clientConfig": {"service": {"name": "nobody", "namespace": self.namespace}},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["services"],
                }],
            }],
        }));
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(self.client());
        self.wait_for(webhooks.create(&PostParams::default(), &webhook.unwrap())).unwrap();
        // The API server learns of it by a watch.
        thread::sleep(Duration::from_secs(2));
        Broken { cluster: self, name }
    }
}

/// A webhook that fails, until this is dropped.
struct Broken<'c> {
    cluster: &'c Cluster,
    name: String,
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(self.cluster.client());
        let params = DeleteParams::default();
        let removed = webhooks.delete(&self.name, &params);
        drop(self.cluster.wait_for(removed));
    }
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_pod_that_does_not_end_and_a_webhook_that_fails_are_reported() {
    let mut cluster = Cluster::new("waits");
    let mut job = cluster.job();
    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    cluster.start(&job);

    // A TaskManager that does not end keeps the Deployment, which is deleted in the foreground.
    let held = cluster.task_managers().remove(0).metadata.name.unwrap();
    cluster.set_finalizers(&held, &[HOLD]);
    cluster.edit(json!({"spec": {"restartNonce": 7}}));
    cluster.wait_until("told of the pod", |job| {
        error(job).contains(&held) && error(job).contains(HOLD)
    });
    let why = cluster.flink(&["why", JOB]);
    assert!(why.contains(&held) && why.contains(HOLD), "{why}");
    // A suspend is heard as soon as the pod goes.
    cluster.edit(json!({"spec": {"job": {"state": "suspended"}}}));
    cluster.set_finalizers(&held, &[]);
    let suspended =
        cluster.wait_until("SUSPENDED", |job| job["status"]["lifecycleState"] == "SUSPENDED");
    assert_eq!(suspended["status"]["error"], Value::Null, "the word goes with the pod");
    cluster.resume();

    // An edit whose dry run fails waits alone: a lost JobManager comes back.
    let (before, _) = cluster.job_manager_incarnation();
    let broken = cluster.break_services();
    cluster.edit(json!({"spec": {"restartNonce": 8}}));
    cluster.wait_until("told of the dry run", |job| error(job).contains("failed calling webhook"));
    cluster.delete_deployment(JOB);
    cluster.wait_until("recovered", |_| {
        cluster.job_managers().iter().any(|pod| pod.metadata.uid.as_ref() != Some(&before))
            && !cluster.task_managers().is_empty()
    });
    let described = |job: &Value| {
        error(job).contains("Service `") && error(job).contains("failed calling webhook")
    };
    cluster.wait_until("told of the Service", described);
    drop(broken);
    let stable = cluster.wait_until_stable();
    assert_eq!(stable["status"]["error"], Value::Null);
    cluster.wait_until_writing();

    // A resumed job runs without its Service, and a suspend is carried out all the same.
    cluster.suspend();
    let broken = cluster.break_services();
    cluster.edit(json!({"spec": {"job": {"state": "running"}}}));
    cluster.wait_until("started without its Service", described);
    cluster.edit(json!({"spec": {"job": {"state": "suspended"}}}));
    cluster
        .wait_until("suspended without it", |job| job["status"]["lifecycleState"] == "SUSPENDED");
    drop(broken);
    cluster.resume();
    cluster.delete_and_count();
}
