//! Upgrades that cannot start, on real Flink: what a trial can detect of them stops nothing.

use k8s_openapi::api::core::v1::Pod;

use testing::tools;

use super::cluster::silence::Silence;
use super::*;
use crate::support::fake_cluster::merge;

/// Refuses connections at once, whereas a name would be looked up for long.
const NO_REGISTRY: &str = "127.0.0.1:9";
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";
const LIMIT: &str = "kubernetes.operator.deployment.readiness.timeout";

/// A change of the spec that cannot start, and what the error says about it.
struct Broken {
    what: &'static str,
    spec: Value,
    told: &'static str,
}

fn template(of_pod: Value, of_main: Value) -> Value {
    let mut pod = of_pod;
    let mut main = of_main;
    main["name"] = json!("flink-main-container");
    pod["containers"] = json!([main]);
    // Only of JobManagers: TaskManagers are tried as well, and succeed.
    json!({"jobManager": {"podTemplate": {"spec": pod}}})
}

fn broken() -> Vec<Broken> {
    let of_secret = json!({"secretKeyRef": {"name": "credentials", "key": "no-such-key"}});
    let mut private =
        template(json!({"imagePullSecrets": [{"name": "no-such-secret"}]}), json!({}));
    private["image"] = json!(format!("{NO_REGISTRY}/private:1"));
    let password = json!({"name": "PASSWORD", "valueFrom": of_secret});
    vec![
        Broken {
            what: "an image that does not exist",
            spec: json!({"image": format!("{NO_REGISTRY}/no/such-image:1")}),
            told: "ImagePullBackOff",
        },
        Broken {
            what: "a tag that the node does not have",
            spec: json!({"image": "flink:no-such-tag", "imagePullPolicy": "Never"}),
            told: "ErrImageNeverPull",
        },
        Broken { what: "a pull secret that is missing", spec: private, told: "ImagePullBackOff" },
        Broken {
            what: "a key that its Secret does not have",
            spec: template(json!({}), json!({"env": [password]})),
            told: "CreateContainerConfigError",
        },
        Broken {
            what: "an init container that fails",
            spec: template(
                json!({"initContainers": [{
                    "name": "fetch", "image": "flink:1.20",
                    "command": ["bash", "-c", "echo there is no such connector; exit 22"],
                }]}),
                json!({}),
            ),
            told: "[fetch] there is no such connector",
        },
        Broken {
            what: "a jar that is not in the image",
            spec: json!({"job": {"jarURI": "local:///opt/flink/usrlib/no-such.jar"}}),
            told: "the jar /opt/flink/usrlib/no-such.jar is not there",
        },
        Broken {
            what: "a node selector that no node has",
            spec: template(json!({"nodeSelector": {"pool": "none"}}), json!({})),
            told: "Unschedulable",
        },
        Broken {
            what: "a quota that has no room for it",
            spec: template(json!({}), json!({"env": [{"name": "A", "value": "quota"}]})),
            told: "exceeded quota",
        },
        Broken {
            what: "a policy that does not admit it",
            spec: template(json!({}), json!({"env": [{"name": "A", "value": "policy"}]})),
            told: "violates PodSecurity",
        },
    ]
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn an_upgrade_that_cannot_start_never_stops_the_job() {
    let mut cluster = Cluster::new("preflight");
    let mut job = cluster.job();
    let options = &mut job["spec"]["flinkConfiguration"];
    options["kubernetes.operator.deployment.rollback.enabled"] = json!("true");
    options[LIMIT] = json!(BEYOND_PATIENCE);
    cluster.create(&json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"key": "value"},
        "metadata": {"name": "credentials", "namespace": cluster.namespace},
    }));
    cluster.start(&job);
    let incarnation = cluster.job_manager_incarnation();
    let silence = Silence::watch(&cluster);

    for Broken { what, spec, told } in broken() {
        match told {
            "exceeded quota" => cluster.create(&json!({
                "apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "1"}},
                "metadata": {"name": "small", "namespace": cluster.namespace},
            })),
            "violates PodSecurity" => cluster.label_namespace(POD_SECURITY, "restricted"),
            _ => {}
        }
        let mut changed = job.clone();
        merge(&mut changed["spec"], &spec);
        let from = std::time::Instant::now();
        cluster.deploy(&changed);
        cluster.wait_until(what, |deployment| {
            let error = deployment["status"]["error"].as_str().unwrap_or_default();
            error.contains("would not start")
                && error.contains(told)
                && deployment["status"]["jobStatus"]["state"] == "RUNNING"
                && is(deployment, "lifecycleState", "STABLE")
        });
        println!("-- {what}: told after {:?}", from.elapsed());
        if told == "ImagePullBackOff" {
            cluster.assert_tools_know_that_it_is_refused();
        }
        cluster.wait_until_writing();
        assert_eq!(cluster.job_manager_incarnation(), incarnation, "{what}");
        let why = cluster.flink(&["why", JOB]);
        assert!(why.contains("tried the new spec"), "{what}: {why}");
        cluster.remove("v1", "ResourceQuota", "small");
        cluster.label_namespace(POD_SECURITY, "privileged");
    }

    println!("== no record was written for {:.1?} while they were tried", silence.longest());

    // When the change is reverted, nothing is left of it; and a valid change is carried out.
    cluster.deploy(&job);
    cluster.wait_until("as before", |deployment| deployment["status"]["error"].is_null());
    assert_eq!(cluster.job_manager_incarnation(), incarnation);
    assert_eq!(cluster.pods_of_trials(), Vec::<String>::new());
    job["spec"]["flinkConfiguration"]["rest.flamegraph.enabled"] = json!("true");
    cluster.upgrade(&job);
    assert_ne!(cluster.job_manager_incarnation(), incarnation);
    assert_eq!(cluster.pods_of_trials(), Vec::<String>::new());

    // A trial cannot detect a program that fails, so this is rolled back. It rejects a rate of no records.
    let mut broken = job.clone();
    broken["spec"]["job"]["args"][5] = json!("0");
    broken["spec"]["flinkConfiguration"][LIMIT] = json!("45s");
    cluster.deploy(&broken);
    let back = cluster.wait_until("ROLLED_BACK and running", |deployment| {
        is(deployment, "lifecycleState", "ROLLED_BACK")
            && deployment["status"]["jobStatus"]["state"] == "RUNNING"
    });
    let error = back["status"]["error"].as_str().unwrap();
    assert!(error.contains("is rolled back"), "{error}");
    cluster.wait_until_writing();
    cluster.delete_and_count();
}

impl Cluster {
    /// Changes the image of what runs to one that does not exist, and back: nothing is stopped.
    #[track_caller]
    pub(super) fn try_an_image_in_vain(&self, good: &Value) {
        let incarnation = self.job_manager_incarnation();
        let mut bad = good.clone();
        bad["spec"]["image"] = json!(format!("{NO_REGISTRY}/no/such-image:1"));
        self.deploy(&bad);
        self.wait_until("refused", |deployment| {
            let error = deployment["status"]["error"].as_str().unwrap_or_default();
            error.contains("would not start") && error.contains("ImagePullBackOff")
        });
        self.wait_until_writing();
        self.deploy(good);
        self.wait_until("as before", |deployment| deployment["status"]["error"].is_null());
        assert_eq!(self.job_manager_incarnation(), incarnation);
        assert_eq!(self.pods_of_trials(), Vec::<String>::new());
    }

    /// Asserts what `kubectl wait` and tools that read conditions say of a refused edit.
    #[track_caller]
    fn assert_tools_know_that_it_is_refused(&self) {
        let wait = |condition: &str, timeout: &str| {
            let of = format!("flinkdeployment/{JOB}");
            let condition = format!("--for=condition={condition}");
            self.kubectl(&["wait", &of, &condition, "--timeout", timeout])
        };
        let stalled = wait("Stalled", "60s");
        assert!(stalled.status.success(), "{}", said(&stalled));
        assert!(!wait("Ready", "1s").status.success(), "what the spec asks for is not so");
        let seen = self.observed();
        let cells = tools::cells(&seen);
        assert!(cells.starts_with("False, "), "{cells}");
        assert!(cells.ends_with(" | InProgress | waits | met | Failed"), "{cells}");
        assert_eq!(tools::argo_cd(&seen), "Progressing");
        let (health, message) = tools::argo_cd_with_our_script(&seen);
        assert_eq!(health, "Degraded");
        assert!(message.contains("ImagePullBackOff"), "{message}");
        let listed = self.flink(&["list"]);
        assert!(listed.contains("STABLE") && listed.contains("would not start"), "{listed}");
    }

    fn pods_of_trials(&self) -> Vec<String> {
        let pods: Vec<Pod> = self.pods("app.kubernetes.io/name=flink-preflight");
        pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
    }
}
