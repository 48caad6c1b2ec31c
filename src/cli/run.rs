//! `run`: runs a jar as a job of a session cluster, without an image of its own.
//!
//! The job is an ordinary `FlinkSessionJob`, which the operator upgrades and restarts. Its jar must be where the
//! operator can fetch it, so a local one is uploaded first, under a name that depends on its content. `--direct`
//! submits a jar to Flink only, and warns about what that loses.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use super::args::{ChangeFlags, DryRunMode, FlinkAccess, Global, ObjectFormat};
use super::connection::Connection;
use super::deploy::flags::Mode;
use super::deploy::{self, Request};
use super::deployment::Deployment;
use super::extension::Extensions;
use super::failure::Failure;
use super::lookup;
use super::printer::Printer;
use super::{complete, job_manager, operator_config};
use api::API_VERSION;
use api::session_job::FlinkSessionJob;
use api::version::FlinkVersion;
use clients::artifact::storage::Storage;
use clients::cluster::apply::ObjectId;
use clients::cluster::read;
use clients::flink::jars::{RunAnswer, RunRequest};
use clients::flink::{Deadlines, new_trigger_id};
use config::OperatorConfig;

/// Maximum size of a local jar in bytes; the upload holds it in memory.
const JAR_BYTES_MAX: u64 = 1 << 30;
/// Maximum length of a name derived from a jar's; leaves room for suffixes.
const NAME_CHARS_MAX: usize = 45;
/// Number of bytes of the checksum that distinguishes the contents of jars.
const SUM_BYTES: usize = 6;

/// Arguments of `run`.
#[derive(Args)]
#[command(after_help = "\
JAR is a URI the operator can fetch from, or a local file that --stage uploads. It runs as a FlinkSessionJob: run again
with the same name and another jar, it is upgraded, and anything not given stays as it is.

Examples:
  kubectl flink run https://repo.example.com/clicks-1.4.jar --on session --parallelism 4 -- --topic clicks
  kubectl flink run target/clicks.jar --on session --stage s3://lake/jars --upgrade-mode savepoint --wait
  kubectl flink run target/try.jar --on session --direct      # immediately, and unmanaged")]
pub struct RunArgs {
    /// The jar
    #[arg(value_name = "JAR")]
    jar: String,
    /// The session cluster (FlinkDeployment) to run it in
    #[arg(long, value_name = "NAME", add = complete::deployments())]
    on: String,
    /// Name of the FlinkSessionJob; default: the jar's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Main class; default: the one named in the jar
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Parallelism of the job
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..))]
    parallelism: Option<i32>,
    /// How state is carried over in an upgrade
    #[arg(long, value_name = "MODE")]
    upgrade_mode: Option<Mode>,
    /// Savepoint or checkpoint to start a new job from
    #[arg(long, value_name = "PATH")]
    from_savepoint: Option<String>,
    /// Upload a local jar to this folder in S3, GCS or Azure, from where the operator fetches it
    #[arg(long, value_name = "URI")]
    stage: Option<String>,
    /// Submit a local jar directly to Flink, without a FlinkSessionJob
    #[arg(long, conflicts_with_all = ["stage", "name", "upgrade_mode", "dry_run", "wait", "force_conflicts"])]
    direct: bool,
    /// The operator's configuration, for its defaults: a file, or a directory with flink-conf.yaml
    /// or config.yaml
    #[arg(long, value_name = "FILE")]
    operator_config: Option<PathBuf>,
    /// Take over fields owned by other field managers
    #[arg(long)]
    force_conflicts: bool,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    change: ChangeFlags,
    /// Arguments of the job, after --
    #[arg(last = true, value_name = "ARGUMENT")]
    args: Vec<String>,
}

/// Runs the jar, through the operator or directly.
pub async fn run(args: RunArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let is_here = !args.jar.contains("://");
    where_from(&args, is_here)?;
    // Read the jar before connecting, because a missing file needs no cluster to be noticed.
    let here = if is_here { Some(read_jar(Path::new(&args.jar)).await?) } else { None };
    let connection = global.connect().await?;
    let cluster = lookup::fetch(&connection, &args.on).await?;
    if !cluster.is_session() {
        let name = cluster.shown_name();
        return Err(Failure::new(format!("`{name}` is not a session cluster: only those run jars"))
            .hint("list them: kubectl flink list")
            .hint("or deploy an application with the jar in its image: kubectl flink deploy NAME --image IMAGE --jar URI")
            .into());
    }
    match here {
        Some(jar) if args.direct => {
            Box::pin(direct(&args, jar, &connection, &cluster, printer)).await
        }
        here => Box::pin(declared(&args, here, connection, &cluster, printer)).await,
    }
}

/// Fails unless the jar is where the operator, or Flink, can read it.
fn where_from(args: &RunArgs, is_here: bool) -> Result<(), Failure> {
    match (is_here, args.direct, &args.stage) {
        (true, false, None) => Err(Failure::usage(format!(
            "`{}` is a local file, which the operator cannot fetch",
            args.jar
        ))
        .hint("upload it to storage that the operator can read: --stage s3://BUCKET/FOLDER")
        .hint("or submit it directly to Flink, which forgets the job when the cluster is gone: --direct")),
        (false, true, _) => Err(Failure::usage("--direct is for local jars")
            .hint("leave it out: the operator fetches the jar by its URI")),
        (false, _, Some(_)) => Err(Failure::usage("--stage is for local jars")
            .hint("leave it out: the operator fetches the jar by its URI")),
        _ => Ok(()),
    }
}

/// A local jar.
struct Jar {
    /// Consists of characters that are safe in every URI and file system, and ends in `.jar`.
    file_name: String,
    content: bytes::Bytes,
}

async fn read_jar(path: &Path) -> anyhow::Result<Jar> {
    let shown = path.display();
    let unread = || format!("while reading `{shown}`");
    let file = tokio::fs::File::open(path).await.with_context(unread)?;
    let mut content = Vec::new();
    file.take(JAR_BYTES_MAX + 1).read_to_end(&mut content).await.with_context(unread)?;
    if content.len() as u64 > JAR_BYTES_MAX {
        return Err(Failure::new(format!("`{shown}` is larger than {JAR_BYTES_MAX} bytes")).into());
    }
    // A jar is a zip archive. Flink would reject anything else much later.
    if !content.starts_with(b"PK") {
        return Err(Failure::new(format!("`{shown}` is not a jar: it is not a zip file")).into());
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let stem: String = stem.unwrap_or_default().chars().map(safe).collect();
    Ok(Jar { file_name: format!("{stem}.jar"), content: content.into() })
}

impl Jar {
    /// Returns its name with a checksum of the content, so that different contents have different names.
    fn staged_name(&self) -> String {
        let sum = Sha256::digest(&self.content);
        let digits = sum.iter().take(SUM_BYTES).map(|byte| format!("{byte:02x}"));
        let stem = self.file_name.strip_suffix(".jar").unwrap_or(&self.file_name);
        format!("{stem}-{}.jar", digits.collect::<Vec<_>>().concat())
    }
}

/// Applies the job as a `FlinkSessionJob`, with the same checks as for a manifest.
async fn declared(
    args: &RunArgs,
    here: Option<Jar>,
    mut connection: Connection,
    cluster: &Deployment,
    printer: &Printer,
) -> anyhow::Result<()> {
    let operator = match &args.operator_config {
        Some(path) => operator_config::load(Some(path), printer)?,
        None => OperatorConfig::default(),
    };
    let extensions = Extensions::online(&operator)?;
    let name = args.name.clone().unwrap_or_else(|| name_of(&args.jar));
    let uri = match (&here, &args.stage) {
        (Some(jar), Some(stage)) => {
            format!("{}/{}", stage.trim_end_matches('/'), jar.staged_name())
        }
        _ => args.jar.clone(),
    };
    let id = ObjectId::of::<FlinkSessionJob>(cluster.namespace(), &name);
    let present = read::get_value(&connection.client, &id).await?;
    if present.is_some() && args.from_savepoint.is_some() {
        return Err(Failure::usage(format!(
            "FlinkSessionJob `{name}` already exists, and --from-savepoint is only for new ones"
        ))
        .hint(format!("restore it: kubectl flink restore sessionjob/{name} --from PATH"))
        .hint("or choose another --name")
        .into());
    }
    let manifest = manifest(args, &name, &uri, cluster, present.as_ref());
    let request = Request::Manifest { manifest, source: None };
    let rules = (&operator, &extensions, printer);
    let (checked, violations) = deploy::check_all(vec![request], &mut connection, rules).await?;
    if !violations.is_empty() {
        return Err(deploy::refusal("nothing was run or changed", &violations).into());
    }
    if let (Some(jar), Some(stage)) = (here, &args.stage) {
        let shown = clients::artifact::storage::shown(&uri);
        if args.change.dry_run.dry_run == DryRunMode::None {
            put(args, jar, stage, (&operator, cluster)).await?;
            printer.note(format_args!("uploaded the jar to `{shown}`"));
        } else {
            printer.note(format_args!(
                "`{}`, of {} bytes, would be uploaded to `{shown}`",
                args.jar,
                jar.content.len()
            ));
        }
    }
    deploy::send_all(&checked, &connection, args.force_conflicts, args.change, printer).await
}

/// Uploads the jar to where the operator fetches it.
async fn put(
    args: &RunArgs,
    jar: Jar,
    stage: &str,
    (operator, cluster): (&OperatorConfig, &Deployment),
) -> Result<(), Failure> {
    let defaults = operator.defaults(cluster.namespace(), None);
    let mut all = defaults.clone();
    all.overlay(&cluster.flink_config());
    let staged = jar.staged_name();
    let put = async {
        let storage = Storage::open(stage, &defaults, &all)?;
        storage.put(&staged, jar.content).await
    };
    put.await.map_err(|error| {
        Failure::new(format!("`{}` was not uploaded, and nothing was run", args.jar))
            .caused_by(error)
            .hint("the credentials come from the cluster's options, --operator-config or this machine")
    })
}

/// Applies the flags on top of the stored object: an upgrade to another jar keeps the rest.
fn manifest(
    args: &RunArgs,
    name: &str,
    uri: &str,
    cluster: &Deployment,
    present: Option<&Value>,
) -> Value {
    let mut job = json!({"jarURI": uri});
    let before =
        |key: &str| present.and_then(|it| it.pointer(&format!("/spec/job/{key}")).cloned());
    let mut set = |key: &str, given: Option<Value>, new: Option<Value>| {
        let new = if present.is_none() { new } else { None };
        if let Some(value) = given.or_else(|| before(key)).or(new) {
            job[key] = value;
        }
    };
    set("entryClass", args.class.clone().map(Value::from), None);
    set("args", (!args.args.is_empty()).then(|| json!(args.args)), None);
    set("parallelism", args.parallelism.map(Value::from), Some(json!(1)));
    let mode = args.upgrade_mode.map(|mode| Value::from(mode.into_str()));
    set("upgradeMode", mode, Some(json!(Mode::Stateless.into_str())));
    set("initialSavepointPath", args.from_savepoint.clone().map(Value::from), None);
    json!({
        "apiVersion": API_VERSION,
        "kind": "FlinkSessionJob",
        "metadata": {"name": name, "namespace": cluster.namespace()},
        "spec": {"deploymentName": cluster.name(), "job": job},
    })
}

/// Derives the resource's name from that of the jar: `target/My_Job-1.4.jar` becomes `my-job-1-4`.
fn name_of(jar: &str) -> String {
    let end = jar.find(['?', '#']).unwrap_or(jar.len());
    let file = jar[..end].trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let stem = file.strip_suffix(".jar").unwrap_or(file).to_ascii_lowercase();
    let words = stem.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("-");
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name = format!("job-{name}");
    }
    name.truncate(NAME_CHARS_MAX);
    name.trim_end_matches('-').to_owned()
}

/// Uploads and runs the jar with Flink only; the operator does not know the job.
async fn direct(
    args: &RunArgs,
    jar: Jar,
    connection: &Connection,
    cluster: &Deployment,
    printer: &Printer,
) -> anyhow::Result<()> {
    let name = cluster.name();
    let version = cluster
        .flink_version()
        .and_then(FlinkVersion::parse)
        .ok_or_else(|| Failure::new(format!("the Flink version of `{name}` is not known")))?;
    printer.warning(format_args!(
        "this job has no FlinkSessionJob: the operator does not upgrade or restart it, and it ends with `{name}`"
    ));
    let deadlines = Deadlines::default();
    let client = job_manager::client(connection, cluster, args.access.flink_access, deadlines)?;
    let progress = printer.progress();
    progress.set(format_args!("{name}: uploading {}", jar.file_name));
    let uploaded = client.upload_jar(&jar.file_name, jar.content).await?;
    progress.set(format_args!("{name}: starting the job"));
    let request = RunRequest {
        job_id: new_trigger_id(),
        entry_class: args.class.clone(),
        args: args.args.clone(),
        parallelism: args.parallelism.and_then(|it| u32::try_from(it).ok()),
        allow_non_restored_state: false,
        savepoint_path: args.from_savepoint.clone(),
        configuration: std::collections::BTreeMap::new(),
    };
    let answer = client.run_jar(&uploaded, version, &request).await;
    // The job has its own copy; a leftover jar only takes space.
    if let Err(error) = client.delete_jar(&uploaded).await {
        tracing::debug!(%error, "could not delete the uploaded jar");
    }
    drop(progress);
    let job_id = match answer? {
        RunAnswer::Submitted { job_id } => job_id,
        RunAnswer::AlreadySubmitted => request.job_id,
        RunAnswer::JarMissing => {
            return Err(Failure::new(format!(
                "the JobManager of `{name}` lost the jar: another JobManager has become leader"
            ))
            .hint("run it again")
            .into());
        }
    };
    printer.note(format_args!(
        "to cancel it: kubectl flink rest {name} PATCH '/jobs/{job_id}?mode=cancel'"
    ));
    match args.change.output.output {
        Some(ObjectFormat::Value(format)) => {
            printer.value(&json!({"jobId": job_id, "cluster": name}), format)
        }
        None | Some(ObjectFormat::Wide | ObjectFormat::Name) => Ok(printer.line(job_id)?),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::{Cli, Command};

    fn args(line: &str) -> RunArgs {
        let words = line.split_whitespace();
        match Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).command {
            Command::Run(args) => *args,
            _ => panic!("`{line}` is another command"),
        }
    }

    fn cluster() -> Deployment {
        Deployment(json!({"kind": "FlinkDeployment",
            "metadata": {"name": "session", "namespace": "shop"}, "spec": {}}))
    }

    #[test]
    fn a_jar_gives_the_job_its_name() {
        for (jar, name) in [
            ("target/My_Job-1.4.jar", "my-job-1-4"),
            ("https://x/repo/clicks.jar?token=a/b", "clicks"),
            ("s3://b/2026.jar", "job-2026"),
            ("___.jar", "job"),
        ] {
            assert_eq!(name_of(jar), name, "{jar}");
        }
        let long = name_of(&format!("{}.jar", "a-".repeat(80)));
        assert!(long.len() <= NAME_CHARS_MAX && !long.ends_with('-'), "{long}");
    }

    #[test]
    fn another_content_is_staged_under_another_name() {
        let jar = |content: &'static [u8]| Jar {
            file_name: "clicks.jar".to_owned(),
            content: bytes::Bytes::from_static(content),
        };
        assert_eq!(jar(b"PK1").staged_name(), jar(b"PK1").staged_name());
        assert_ne!(jar(b"PK1").staged_name(), jar(b"PK2").staged_name());
        assert_eq!(jar(b"").staged_name(), "clicks-e3b0c44298fc.jar");
    }

    #[test]
    fn a_jar_of_this_machine_needs_a_way_to_the_cluster() {
        let judged = |line: &str| {
            let args = args(line);
            where_from(&args, !args.jar.contains("://")).map_err(|failure| failure.to_string())
        };
        let message = judged("kubectl-flink run a.jar --on s").unwrap_err();
        assert_eq!(message, "`a.jar` is a local file, which the operator cannot fetch");
        assert_eq!(judged("kubectl-flink run a.jar --on s --direct"), Ok(()));
        assert_eq!(judged("kubectl-flink run a.jar --on s --stage s3://b/jars"), Ok(()));
        assert_eq!(judged("kubectl-flink run s3://b/a.jar --on s"), Ok(()));
        assert!(judged("kubectl-flink run s3://b/a.jar --on s --direct").is_err());
        assert!(judged("kubectl-flink run s3://b/a.jar --on s --stage s3://b/jars").is_err());
        let both = "kubectl-flink run a.jar --on s --direct --stage s3://b";
        assert!(Cli::try_parse_from(both.split_whitespace()).is_err());
    }

    #[test]
    fn a_new_job_has_defaults_and_one_that_is_there_keeps_what_it_has() {
        let given =
            args("kubectl-flink run https://x/a.jar --on session --class com.A -- --topic clicks");
        let new = manifest(&given, "a", "https://x/a.jar", &cluster(), None);
        assert_eq!(
            new["spec"],
            json!({"deploymentName": "session", "job": {"jarURI": "https://x/a.jar",
                "entryClass": "com.A", "args": ["--topic", "clicks"], "parallelism": 1,
                "upgradeMode": "stateless"}})
        );
        let present = json!({"spec": {"job": {"jarURI": "https://x/old.jar", "parallelism": 8,
            "upgradeMode": "savepoint", "args": ["--old"]}}});
        let again = args("kubectl-flink run https://x/b.jar --on session");
        let again = manifest(&again, "a", "https://x/b.jar", &cluster(), Some(&present));
        assert_eq!(
            again["spec"]["job"],
            json!({"jarURI": "https://x/b.jar", "args": ["--old"], "parallelism": 8,
                "upgradeMode": "savepoint"})
        );
    }
}
