//! Pods that try what a changed spec starts from, while the current pods keep running.
//!
//! There is one pod for each role, created from the template of the future pods: their images, init containers,
//! volumes, accounts and nodes. Instead of running Flink, it checks that the jar exists, that Java starts, and that
//! Flink's scripts accept the configuration. It has no label that Flink, a Service or the operator selects by, and
//! never becomes ready, so that no Service of a user leads to it.

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, PodReadinessGate, PodSpec, ResourceRequirements,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use api::{PREFLIGHT_ANNOTATION, STANDBY_ANNOTATION};
use config::cluster::ResourceId;
use config::options;

use super::files::FileObject;
use super::names::{JOB_MANAGER, MAIN_CONTAINER, TASK_MANAGER};
use super::pod::{array, fields, quantities};
use super::submission::port;
use super::{Draft, RenderError, RenderInput, extra_labels, extra_owner, extra_selector};

/// Label of a pod: the role that it has, or tries.
pub const ROLE_LABEL: &str = "app.kubernetes.io/component";
const NAME: &str = "flink-preflight";
/// Labels by which Flink, Services and the operator find the pods of a cluster.
const SELECTED_BY: [&str; 3] = ["app", "component", "type"];
/// A condition that is never set.
const NEVER_READY: &str = "flink.apache.org/preflight";

/// How often standby JobManagers ask for the lock. Flink's 5 s would be most of the time without a leader.
const LEADER_RETRY_PERIOD: &str = "500 ms";
const CPU_REQUEST: &str = "10m";
const CPU_LIMIT: &str = "1";
/// Memory for two small JVMs, which run one after the other.
const MEMORY: &str = "256Mi";
/// Lifetime of a pod that was not removed; it is recreated if it is still needed.
const SECONDS_MAX: i64 = 3600;
/// Fields of a container that are specific to Flink's process.
const OF_FLINK: [&str; 5] =
    ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];
/// The entry point of Flink's images.
const ENTRY_POINT: &str = "/docker-entrypoint.sh";

/// What is tried before anything is stopped for a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Preflight {
    /// A pod of each role as in the new cluster: the API server reports whether it would accept it.
    pub as_deployed: Vec<Value>,
    /// Configuration that the pods mount.
    pub config_maps: Vec<Value>,
    /// The same from files of the operator, except for keytabs.
    pub files: Vec<FileObject>,
    /// Annotated with the [digest](Self::digest), which differs if a pod was created from anything else.
    pub pods: Vec<Value>,
    pub digest: String,
    /// For standby pods: the Deployments that they will belong to, without replicas and under other names.
    pub deployments: Vec<Value>,
}

impl Preflight {
    /// Renders the pods and what they mount. They are owned by the custom resource, and the submission is not that of a
    /// start, so that the same spec is tried by the same pods.
    pub fn of(input: &RenderInput) -> Result<Self, RenderError> {
        let draft = Draft::new(input)?;
        let cluster = &draft.cluster;
        let alongside = |manifest| alongside(manifest, cluster.id, renamed);
        let config_maps: Vec<Value> = draft.config_maps()?.into_iter().map(alongside).collect();
        let of_files = cluster.file_objects().into_iter();
        let of_files = of_files.filter(|object| object.manifest["kind"] == "ConfigMap");
        let files: Vec<FileObject> = of_files
            .map(|object| FileObject { manifest: alongside(object.manifest), files: object.files })
            .collect();
        let mounted = config_maps.iter().chain(files.iter().map(|object| &object.manifest));
        let mounted: Vec<&str> =
            mounted.filter_map(|map| map["metadata"]["name"].as_str()).collect();
        let roles = [
            (JOB_MANAGER, draft.job_manager()?, jars(&draft)),
            (TASK_MANAGER, draft.task_managers()?, Vec::new()),
        ];
        let mut as_deployed = Vec::new();
        let mut pods = Vec::new();
        for (role, deployment, jars) in roles {
            let pod = pod_of(&draft, role, &deployment);
            pods.push(Probe { draft: &draft, role, jars, mounted: &mounted }.pod(pod.clone())?);
            as_deployed.push(pod);
        }
        let paths = files.iter().map(|object| &object.files).collect::<Vec<_>>();
        let digest = digest_of(&json!([pods, config_maps, paths]));
        for pod in &mut pods {
            pod["metadata"]["annotations"][PREFLIGHT_ANNOTATION] = digest.as_str().into();
        }
        let deployments = Vec::new();
        Ok(Self { as_deployed, config_maps, files, pods, digest, deployments })
    }

    /// Returns true if the pods are those of the new cluster, and stand by to take over.
    pub fn is_standby(&self) -> bool {
        !self.deployments.is_empty()
    }

    /// Renders the actual pods of a standalone cluster, which wait next to the running ones until they become leader.
    /// They get the labels by which Services and the operator find a cluster's pods when they take over. `None` for a
    /// cluster that mounts files of the operator.
    pub fn standby_of(input: &RenderInput) -> Result<Option<Self>, RenderError> {
        let mut draft = Draft::new(input)?;
        if !draft.cluster.file_objects().is_empty() {
            return Ok(None);
        }
        // A leader renews its lock as often as others ask for it.
        draft.config.set_default(&options::HA_LEADER_RETRY_PERIOD, LEADER_RETRY_PERIOD);
        let id = draft.cluster.id;
        let run = &input.submission.job_result_store_id;
        // Pods that took over mount it until they end, and the next trial has its own.
        let renamed = |name: &str| format!("{name}-{run}");
        let config_maps = draft.config_maps()?;
        let mounted = config_maps.iter().filter_map(|map| map["metadata"]["name"].as_str());
        let mounted: Vec<String> = mounted.map(str::to_owned).collect();
        let config_maps: Vec<Value> =
            config_maps.into_iter().map(|map| alongside(map, id, renamed)).collect();
        let rest_port: u16 = draft.config.get(&options::REST_PORT)?;
        let rpc_port = port(&draft.config, &options::TASK_MANAGER_RPC_PORT)?;
        let roles = [
            (JOB_MANAGER, draft.job_manager()?, Some(rest_port), 1),
            (TASK_MANAGER, draft.task_managers()?, rpc_port, i64::MAX),
        ];
        let (mut as_deployed, mut pods, mut deployments) = (Vec::new(), Vec::new(), Vec::new());
        for (role, mut deployment, port, most) in roles {
            let mut pod = pod_of(&draft, role, &deployment);
            as_deployed.push(pod.clone());
            lay_aside(&mut pod, id, role);
            pod["metadata"]["annotations"][STANDBY_ANNOTATION] = run.as_str().into();
            for volume in pod["spec"]["volumes"].as_array_mut().into_iter().flatten() {
                let name = volume["configMap"]["name"].as_str().unwrap_or_default().to_owned();
                if mounted.contains(&name) {
                    volume["configMap"]["name"] = renamed(&name).into();
                }
            }
            let mut containers = pod["spec"]["containers"].as_array_mut().into_iter().flatten();
            if let Some(main) = containers.find(|it| it["name"] == MAIN_CONTAINER)
                && main["readinessProbe"].is_null()
                && let Some(port) = port
            {
                main["readinessProbe"] = json!({"tcpSocket": {"port": port}, "periodSeconds": 1});
            }
            let replicas = deployment["spec"]["replicas"].as_i64().unwrap_or(1).min(most);
            for number in 1..=replicas {
                let mut one = pod.clone();
                one["metadata"]["name"] = format!("{}-{run}-{role}-{number}", id.name).into();
                pods.push(one);
            }
            deployment["spec"]["replicas"] = 0.into();
            let renamed = |_: &str| format!("{}-{run}-{role}", id.name);
            deployments.push(alongside(deployment, id, renamed));
        }
        let digest = digest_of(&json!([pods, config_maps]));
        for pod in &mut pods {
            pod["metadata"]["annotations"][PREFLIGHT_ANNOTATION] = digest.as_str().into();
        }
        let files = Vec::new();
        Ok(Some(Self { as_deployed, config_maps, files, pods, digest, deployments }))
    }

    /// Returns the selector of what was created for a cluster.
    pub fn selector(cluster: &str) -> String {
        extra_selector(NAME, cluster)
    }
}

/// The pod of one role.
struct Probe<'a> {
    draft: &'a Draft<'a>,
    role: &'static str,
    /// Files that the job is run from.
    jars: Vec<String>,
    /// Names of the ConfigMaps that are created for it.
    mounted: &'a [&'a str],
}

impl Probe<'_> {
    fn pod(&self, mut pod: Value) -> Result<Value, RenderError> {
        lay_aside(&mut pod, self.draft.cluster.id, self.role);
        let mut spec = pod["spec"].as_object().cloned().unwrap_or_default();
        let containers = self.containers(&mut spec)?;
        self.lay_volumes(&mut spec)?;
        // Only node affinity is kept. The other rules depend on where the pods of the running cluster are.
        let placed = ["affinity", "topologySpreadConstraints"].map(|field| spec.remove(field));
        if let Some(of_nodes) = placed[0].as_ref().and_then(|it| it.get("nodeAffinity")) {
            let _removed = spec.insert("affinity".to_owned(), json!({ "nodeAffinity": of_nodes }));
        }
        let gate = PodReadinessGate { condition_type: NEVER_READY.to_owned() };
        spec.extend(fields(json!(PodSpec {
            // Failures are retried with increasing pauses, like a pull.
            restart_policy: Some("OnFailure".to_owned()),
            active_deadline_seconds: Some(SECONDS_MAX),
            termination_grace_period_seconds: Some(0),
            readiness_gates: Some(vec![gate]),
            ..PodSpec::default()
        })));
        let _empty = spec.insert("containers".to_owned(), containers.into());
        pod["spec"] = spec.into();
        Ok(pod)
    }

    /// Returns the main container with the check, and sidecars that only have to exist.
    fn containers(&self, spec: &mut Map<String, Value>) -> Result<Vec<Value>, RenderError> {
        let alongside = array(spec, "initContainers", "spec.initContainers")?;
        for container in alongside.iter_mut().filter(|it| it.is_object()) {
            container["terminationMessagePolicy"] = LAST_WORDS.into();
        }
        let is_sidecar = |container: &Value| container["restartPolicy"] == "Always";
        let (sidecars, before): (Vec<_>, Vec<_>) = alongside.drain(..).partition(is_sidecar);
        *alongside = before;
        let containers = array(spec, "containers", "spec.containers")?;
        let (mut main, alongside): (Vec<_>, Vec<_>) = std::mem::take(containers)
            .into_iter()
            .partition(|container| container["name"] == MAIN_CONTAINER);
        for container in &mut main {
            self.lay_check(container)?;
        }
        for mut container in sidecars.into_iter().chain(alongside) {
            let Some(fields) = container.as_object_mut() else { continue };
            let _always = fields.remove("restartPolicy");
            lay(fields, vec!["true".to_owned()], Vec::new());
            main.push(container);
        }
        Ok(main)
    }

    fn lay_check(&self, container: &mut Value) -> Result<(), RenderError> {
        let Some(main) = container.as_object_mut() else { return Ok(()) };
        let entry: String = self.draft.config.get(&options::ENTRY_PATH)?;
        let resource = if self.role == JOB_MANAGER { "JM" } else { "TM" };
        let check = CHECK.replace("ROLE", resource);
        let check = format!("set -- {}\n{check}", quoted(&self.jars));
        let bash = ["bash", "-c", START, NAME, &check].map(str::to_owned);
        // Another entry point may not pass on a command that it does not know.
        let (command, args) = if entry == ENTRY_POINT {
            (vec![entry], bash.to_vec())
        } else {
            (bash.to_vec(), Vec::new())
        };
        lay(main, command, args);
        let _of_template = main.insert("terminationMessagePolicy".to_owned(), LAST_WORDS.into());
        Ok(())
    }

    /// Replaces volumes of the new cluster that do not exist yet, and those that a pod gets for itself, which are not
    /// needed here.
    fn lay_volumes(&self, spec: &mut Map<String, Value>) -> Result<(), RenderError> {
        let keytabs: Vec<Value> = self.draft.cluster.file_objects().into_iter().map(name).collect();
        for volume in array(spec, "volumes", "spec.volumes")? {
            let Some(volume) = volume.as_object_mut() else { continue };
            if let Some(map) = volume.get_mut("configMap") {
                let own = renamed(map["name"].as_str().unwrap_or_default());
                if self.mounted.contains(&own.as_str()) {
                    map["name"] = own.into();
                }
            }
            if let Some(secret) = volume.get_mut("secret")
                && keytabs.contains(&secret["secretName"])
            {
                secret["optional"] = true.into();
            }
            if volume.remove("ephemeral").is_some() {
                let empty = json!(EmptyDirVolumeSource::default());
                let _none = volume.insert("emptyDir".to_owned(), empty);
            }
        }
        Ok(())
    }
}

/// A failed container reports the end of its log in the pod's status.
const LAST_WORDS: &str = "FallbackToLogsOnError";

/// Flink's scripts find Flink by the path of the called script.
const START: &str = "exec bash -c \"$1\" \"${FLINK_HOME:-/opt/flink}/bin/jobmanager.sh\"";

/// Its arguments are the jars.
const CHECK: &str = r#"for jar in "$@"; do
  if [ ! -r "$jar" ]; then echo "the jar $jar is not there, or cannot be read"; exit 1; fi
done
set --
if [ ! -r "$(dirname "$0")/config.sh" ]; then echo "there is no Flink in $(dirname "$0")"; exit 1; fi
. "$(dirname "$0")/config.sh"
if command -v runBashJavaUtilsCmd >/dev/null; then
  runBashJavaUtilsCmd GET_ROLE_RESOURCE_PARAMS "$FLINK_CONF_DIR" \
    "$FLINK_BIN_DIR/bash-java-utils.jar:$(findFlinkDistJar)"
else
  "${JAVA_RUN:-java}" -version
fi
"#;

fn lay(container: &mut Map<String, Value>, command: Vec<String>, args: Vec<String>) {
    for field in OF_FLINK {
        let _of_flink = container.remove(field);
    }
    container.extend(fields(json!(Container {
        command: Some(command),
        args: Some(args),
        resources: Some(ResourceRequirements {
            requests: Some(quantities(CPU_REQUEST, MEMORY)),
            limits: Some(quantities(CPU_LIMIT, MEMORY)),
            claims: None,
        }),
        name: container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        ..Container::default()
    })));
}

/// Returns a pod as the Deployment would create it.
fn pod_of(draft: &Draft<'_>, role: &str, deployment: &Value) -> Value {
    let ResourceId { namespace, name, .. } = draft.cluster.id;
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = format!("{name}-preflight-{role}").into();
    pod["metadata"]["namespace"] = namespace.as_str().into();
    pod
}

/// Renames the object, to put it next to the cluster.
fn alongside(mut manifest: Value, id: &ResourceId, renamed: impl Fn(&str) -> String) -> Value {
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
    manifest["metadata"]["name"] = renamed(name).into();
    manifest["metadata"]["labels"] = json!(extra_labels(NAME, &id.name));
    manifest["metadata"]["ownerReferences"] = json!([extra_owner(&id.name, &id.uid)]);
    manifest
}

/// Replaces the labels by which a pod of the cluster is found by those of a trial.
fn lay_aside(pod: &mut Value, id: &ResourceId, role: &str) {
    let mut labels = pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.retain(|label, _| !SELECTED_BY.contains(&label.as_str()));
    labels.extend(fields(json!(extra_labels(NAME, &id.name))));
    let _none = labels.insert(ROLE_LABEL.to_owned(), role.into());
    pod["metadata"]["labels"] = labels.into();
    pod["metadata"]["ownerReferences"] = json!([extra_owner(&id.name, &id.uid)]);
}

/// Returns the jars that the image, or a volume, must contain.
fn jars(draft: &Draft<'_>) -> Vec<String> {
    let uri = draft.cluster.spec.job.as_ref().and_then(|job| job.jar_uri.as_deref());
    let path = uri.and_then(|uri| uri.trim().strip_prefix("local://"));
    path.map(str::to_owned).into_iter().collect()
}

/// Quotes the words for a shell.
fn quoted(words: &[String]) -> String {
    let words = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns enough of a digest to distinguish specs.
fn digest_of(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string());
    let first = digest.iter().take(8).fold(0, |first: u64, byte| first << 8 | u64::from(*byte));
    format!("{first:016x}")
}

fn renamed(name: &str) -> String {
    format!("preflight-{name}")
}

fn name(object: FileObject) -> Value {
    object.manifest["metadata"]["name"].clone()
}

#[cfg(test)]
mod tests;
