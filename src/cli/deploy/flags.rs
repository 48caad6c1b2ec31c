//! A deployment from flags: a complete new one, or a change to an existing one.

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::cli::complete;
use crate::cli::failure::Failure;
use api::API_VERSION;
use api::version::FlinkVersion;

/// Memory of the processes in Flink's default configuration.
const JOB_MANAGER_MEMORY: &str = "1600Mi";
const TASK_MANAGER_MEMORY: &str = "1728Mi";
/// Service account that `init` creates.
const SERVICE_ACCOUNT: &str = "flink";

/// What the flags say; all absent means that there are none.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Instead of a manifest")]
pub(super) struct Flags {
    /// Name of the deployment; if it exists, only what the flags say is changed
    #[arg(add = complete::deployments(), conflicts_with = "filename")]
    pub name: Option<String>,
    /// Image of JobManager and TaskManagers
    #[arg(long, requires = "name")]
    pub image: Option<String>,
    /// Jar inside the image, such as `local:///opt/flink/usrlib/job.jar`
    #[arg(long, value_name = "URI", requires = "name")]
    pub jar: Option<String>,
    /// Main class; default: the one named in the jar
    #[arg(long, value_name = "NAME", requires = "name")]
    pub class: Option<String>,
    /// Argument of the job; may be repeated
    #[arg(long = "args", value_name = "ARGUMENT", requires = "name", allow_hyphen_values = true)]
    pub args: Vec<String>,
    #[arg(long, value_name = "NUMBER", requires = "name", value_parser = clap::value_parser!(i32).range(1..))]
    /// Parallelism of the job
    pub parallelism: Option<i32>,
    /// Flink version of the image, such as `v1_20`; default: from the tag of a flink image
    #[arg(long, value_name = "VERSION", requires = "name", value_parser = flink_version)]
    pub flink_version: Option<FlinkVersion>,
    /// How state is carried over in an upgrade
    #[arg(long, value_name = "MODE", requires = "name")]
    pub upgrade_mode: Option<Mode>,
    /// Option of Flink or of the operator; may be repeated
    #[arg(long = "config", value_name = "KEY=VALUE", requires = "name", value_parser = key_value)]
    pub config: Vec<(String, String)>,
    /// Service account of the pods; default for a new deployment: flink
    #[arg(long, value_name = "NAME", requires = "name")]
    pub service_account: Option<String>,
    /// Memory of the JobManager; default for a new deployment: 1600Mi
    #[arg(long, value_name = "SIZE", requires = "name")]
    pub job_manager_memory: Option<String>,
    /// Memory of each TaskManager; default for a new deployment: 1728Mi
    #[arg(long, value_name = "SIZE", requires = "name")]
    pub task_manager_memory: Option<String>,
    /// Savepoint or checkpoint to start a new deployment from
    #[arg(long, value_name = "PATH", requires = "name")]
    pub from_savepoint: Option<String>,
}

/// Upgrade modes as the resource spells them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(in crate::cli) enum Mode {
    /// Start empty
    Stateless,
    /// Stop with a savepoint and start from it
    Savepoint,
    /// Start from the latest checkpoint
    LastState,
}

impl Flags {
    /// Returns whether no flag was given.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn name(&self) -> Result<&str, Failure> {
        self.name.as_deref().ok_or_else(|| {
            Failure::usage("the deployment has no name: kubectl flink deploy NAME …")
        })
    }

    /// Returns a complete manifest; a missing mandatory flag is a usage error.
    pub(super) fn manifest(&self, namespace: &str) -> Result<Value, Failure> {
        let name = self.name()?;
        let Some(image) = self.image.as_deref() else {
            return Err(Failure::usage(format!(
                "`{name}` does not exist yet, and a new deployment needs --image"
            )));
        };
        if self.jar.is_none() && self.class.is_none() {
            return Err(Failure::usage(format!(
                "`{name}` does not exist yet, and a new deployment needs --jar, or --class if the image has the job on its class path"
            )));
        }
        let Some(version) = self.flink_version.or_else(|| version_of_image(image)) else {
            return Err(Failure::usage(format!(
                "the tag of image `{image}` does not show its Flink version; set it with --flink-version, such as v1_20"
            )));
        };
        let complete = Self {
            flink_version: Some(version),
            parallelism: self.parallelism.or(Some(1)),
            upgrade_mode: self.upgrade_mode.or(Some(Mode::Stateless)),
            service_account: self
                .service_account
                .clone()
                .or_else(|| Some(SERVICE_ACCOUNT.to_owned())),
            job_manager_memory: self
                .job_manager_memory
                .clone()
                .or_else(|| Some(JOB_MANAGER_MEMORY.to_owned())),
            task_manager_memory: self
                .task_manager_memory
                .clone()
                .or_else(|| Some(TASK_MANAGER_MEMORY.to_owned())),
            ..self.clone()
        };
        let mut manifest = json!({
            "apiVersion": API_VERSION,
            "kind": super::KIND,
            "metadata": {"name": name, "namespace": namespace},
        });
        if let (Some(manifest), Value::Object(patch)) = (manifest.as_object_mut(), complete.patch())
        {
            manifest.extend(patch);
        }
        Ok(manifest)
    }

    /// Returns a patch with only what the flags set.
    pub(super) fn patch(&self) -> Value {
        let mut spec = Map::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                spec.insert(key.to_owned(), value);
            }
        };
        let text = |text: &Option<String>| text.clone().map(Value::from);
        set("image", text(&self.image));
        set("flinkVersion", self.flink_version.map(|version| Value::from(version.into_str())));
        set("serviceAccount", text(&self.service_account));
        let config: Map<String, Value> = self
            .config
            .iter()
            .map(|(key, value)| (key.clone(), Value::from(value.as_str())))
            .collect();
        set("flinkConfiguration", (!config.is_empty()).then_some(Value::Object(config)));
        let memory = |size: &Option<String>| {
            size.as_ref().map(|size| json!({"resources": {"requests": {"memory": size}}}))
        };
        set("jobManager", memory(&self.job_manager_memory));
        set("taskManager", memory(&self.task_manager_memory));
        let mut job = Map::new();
        let mut set_job = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                job.insert(key.to_owned(), value);
            }
        };
        set_job("jarURI", text(&self.jar));
        set_job("entryClass", text(&self.class));
        set_job("args", (!self.args.is_empty()).then(|| json!(self.args)));
        set_job("parallelism", self.parallelism.map(Value::from));
        set_job("upgradeMode", self.upgrade_mode.map(|mode| Value::from(mode.into_str())));
        set_job("initialSavepointPath", text(&self.from_savepoint));
        if !job.is_empty() {
            spec.insert("job".to_owned(), Value::Object(job));
        }
        json!({"spec": spec})
    }
}

/// Returns the Flink version in an image's tag, such as 1.20 for `flink:1.20.1-java17`. Only images named `flink` are
/// trusted to be tagged this way.
pub(super) fn version_of_image(image: &str) -> Option<FlinkVersion> {
    let (repository, tag) = image.rsplit_once(':')?;
    if repository.rsplit('/').next() != Some("flink") {
        return None;
    }
    let mut numbers = tag.split(['.', '-']);
    let (major, minor) = (numbers.next()?, numbers.next()?);
    FlinkVersion::parse(&format!("v{major}_{minor}"))
}

pub(in crate::cli) fn flink_version(text: &str) -> Result<FlinkVersion, String> {
    let known =
        || FlinkVersion::ALL.iter().map(FlinkVersion::into_str).collect::<Vec<_>>().join(", ");
    // Also accept `1.20`, which is what people type.
    let spelled = if text.starts_with('v') {
        text.to_owned()
    } else {
        format!("v{}", text.replace('.', "_"))
    };
    FlinkVersion::parse(&spelled).ok_or_else(|| format!("expected one of {}", known()))
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}
