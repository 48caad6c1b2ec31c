//! A JobManager and a TaskManager of Flink's packages, as processes of this machine.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use clients::flink::Client;
use futures::future::LocalBoxFuture;
use tokio::time::sleep;

use super::application::Application;
use super::metadata::Maps;
use super::script::{AGAIN, World};
use crate::support::patience::DEADLINES;
use crate::support::program::other;

/// What every process of Flink is started with; `taskmanager.memory` would otherwise come from Flink's start scripts.
const OPTIONS: [(&str, &str); 25] = [
    ("blob.server.port", "0"),
    ("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"),
    // Checkpoints are taken when a script says so.
    ("execution.checkpointing.interval", "100 d"),
    ("execution.checkpointing.min-pause", "50 d"),
    ("jobmanager.bind-host", "127.0.0.1"),
    ("jobmanager.rpc.address", "127.0.0.1"),
    ("rest.address", "127.0.0.1"),
    ("rest.bind-address", "127.0.0.1"),
    ("restart-strategy.type", "none"),
    ("slot.request.timeout", "5 s"),
    ("taskmanager.bind-host", "127.0.0.1"),
    ("taskmanager.cpu.cores", "1"),
    ("taskmanager.host", "127.0.0.1"),
    ("taskmanager.memory.framework.heap.size", "64m"),
    ("taskmanager.memory.framework.off-heap.size", "64m"),
    ("taskmanager.memory.jvm-metaspace.size", "128m"),
    ("taskmanager.memory.jvm-overhead.max", "64m"),
    ("taskmanager.memory.jvm-overhead.min", "64m"),
    ("taskmanager.memory.managed.size", "16m"),
    ("taskmanager.memory.network.max", "32m"),
    ("taskmanager.memory.network.min", "32m"),
    ("taskmanager.memory.task.heap.size", "128m"),
    ("taskmanager.memory.task.off-heap.size", "0m"),
    ("taskmanager.numberOfTaskSlots", "2"),
    ("web.refresh-interval", "100"),
];

/// What a cluster is started with in which jobs are rescaled. Flink 1.20 and Flink 2.3 have other names for some of it.
const ADAPTIVE: [(&str, &str); 6] = [
    ("jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout", "0 s"),
    // Until a checkpoint completes, otherwise.
    ("jobmanager.adaptive-scheduler.rescale-trigger.max-delay", "0 s"),
    ("jobmanager.adaptive-scheduler.resource-stabilization-timeout", "0 s"),
    ("jobmanager.adaptive-scheduler.resource-wait-timeout", "5 s"),
    ("jobmanager.adaptive-scheduler.scaling-interval.min", "0 s"),
    ("jobmanager.scheduler", "adaptive"),
];

/// Packages that Flink opens by reflection.
const OPENED: [&str; 7] = [
    "java.io",
    "java.lang",
    "java.net",
    "java.nio",
    "java.time",
    "java.util",
    "java.util.concurrent",
];

const JOB_MANAGER: usize = 0;
const TASK_MANAGER: usize = 1;

/// A cluster; its processes end when it is dropped.
pub(super) struct Real {
    /// Holds all that it writes.
    folder: PathBuf,
    distribution: PathBuf,
    port: u16,
    /// The JobManager, and the TaskManager.
    processes: Mutex<[Option<Child>; 2]>,
    maps: Option<Maps>,
    /// The options of all its processes.
    options: Vec<(&'static str, String)>,
    is_for_applications: bool,
    /// Of an application, the arguments of its job, and the number of its deployment.
    deployed: Mutex<(Vec<String>, usize)>,
}

impl Real {
    /// Starts the session cluster of a version such as `1.20`. With `maps`, it keeps HA metadata there.
    pub(super) fn start(version: &str, maps: Option<Maps>) -> Self {
        let kind = if maps.is_some() { "-available" } else { "" };
        let real = Self::lay_out(version, kind, maps);
        for role in [JOB_MANAGER, TASK_MANAGER] {
            real.run(role);
        }
        real
    }

    /// Starts a TaskManager for applications, each of which has a JobManager of its own.
    pub(super) fn start_for_applications(version: &str, maps: Maps) -> Self {
        let mut real = Self::lay_out(version, "-applications", Some(maps));
        real.is_for_applications = true;
        drop(real.jar());
        real.run(TASK_MANAGER);
        real
    }

    /// Starts a session cluster whose jobs can be rescaled at once.
    pub(super) fn start_adaptive(version: &str) -> Self {
        let mut real = Self::lay_out(version, "-adaptive", None);
        real.options.extend(ADAPTIVE.map(|(key, value)| (key, value.to_owned())));
        real.configure(&[]);
        for role in [JOB_MANAGER, TASK_MANAGER] {
            real.run(role);
        }
        real
    }

    fn lay_out(version: &str, kind: &str, maps: Option<Maps>) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("flink-{version}{kind}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        for part in ["conf", "gate", "tmp", "upload"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let [rpc, port] = free_ports();
        let mut real = Self {
            folder,
            distribution: distribution(version),
            port,
            processes: Mutex::default(),
            maps,
            options: OPTIONS.map(|(key, value)| (key, value.to_owned())).into(),
            is_for_applications: false,
            deployed: Mutex::default(),
        };
        real.options.extend([
            ("execution.checkpointing.dir", real.url("checkpoints")),
            ("state.checkpoints.dir", real.url("checkpoints")),
            ("io.tmp.dirs", real.folder.join("tmp").display().to_string()),
            ("web.upload.dir", real.folder.join("upload").display().to_string()),
            ("jobmanager.rpc.port", rpc.to_string()),
            ("rest.port", port.to_string()),
        ]);
        if let Some(maps) = &real.maps {
            let kubeconfig = std::env::var("KUBECTL_FLINK_TEST_KUBECONFIG").unwrap();
            real.options.extend([
                // The folder in which results of jobs are looked for.
                ("high-availability.cluster-id", "available".to_owned()),
                ("high-availability.type", "kubernetes".to_owned()),
                ("high-availability.storageDir", real.url("ha")),
                ("kubernetes.cluster-id", maps.cluster.clone()),
                ("kubernetes.namespace", maps.namespace.clone()),
                ("kubernetes.config.file", kubeconfig),
                // A JobManager that has just become the leader may refuse its own job at first.
                ("cluster.registration.refused-registration-delay", "1 s".to_owned()),
                ("slot.request.timeout", "5 min".to_owned()),
            ]);
        }
        real.configure(&[]);
        let log = "rootLogger.level=INFO\nrootLogger.appenderRef.c.ref=C\nappender.c.name=C\nappender.c.type=CONSOLE\n\
                   appender.c.layout.type=PatternLayout\nappender.c.layout.pattern=%d %-5p %c{1} - %m%n\n";
        fs::write(real.folder.join("conf/log4j.properties"), log).unwrap();
        real
    }

    /// Writes the options with which the next processes start.
    fn configure(&self, more: &[(&'static str, String)]) {
        // The last of several values counts.
        let all: BTreeMap<_, _> = self.options.iter().chain(more).cloned().collect();
        let lines = all.iter().map(|(key, value)| format!("{key}: \"{value}\"\n"));
        fs::write(self.folder.join("conf/config.yaml"), lines.collect::<String>()).unwrap();
    }

    fn run(&self, role: usize) {
        let text = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
        let (name, main, args) = match (role, self.is_for_applications) {
            (TASK_MANAGER, _) => {
                ("taskmanager", "runtime.taskexecutor.TaskManagerRunner", Vec::new())
            }
            (_, false) => {
                let args = text(&["--executionMode", "cluster"]);
                ("jobmanager", "runtime.entrypoint.StandaloneSessionClusterEntrypoint", args)
            }
            (_, true) => {
                let of_job = self.deployed.lock().unwrap().0.clone();
                let args = [text(&["--job-classname", "Scripted"]), of_job].concat();
                ("jobmanager", "container.entrypoint.StandaloneApplicationClusterEntryPoint", args)
            }
        };
        let mut log = File::options();
        let log =
            log.create(true).append(true).open(self.folder.join(format!("{name}.log"))).unwrap();
        let conf = self.folder.join("conf");
        let mut java = other("java");
        // Without what only makes the start take longer.
        java.args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
        java.args(["-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"]);
        java.arg(format!("-Dlog4j.configurationFile={}", conf.join("log4j.properties").display()));
        for package in OPENED {
            java.args(["--add-opens".to_owned(), format!("java.base/{package}=ALL-UNNAMED")]);
        }
        let classes = self.distribution.join("lib/*").display().to_string();
        let jar = self.is_for_applications.then(|| self.folder.join("scripted.jar"));
        let jar = jar.map_or_else(String::new, |jar| format!(":{}", jar.display()));
        java.arg("-cp").arg(format!("{classes}{jar}"));
        java.arg(format!("org.apache.flink.{main}")).arg("-c").arg(conf).args(args);
        java.current_dir(&self.folder).stdin(Stdio::null());
        java.stdout(log.try_clone().unwrap()).stderr(log);
        self.processes.lock().unwrap()[role] = Some(java.spawn().unwrap());
    }

    fn has_ended(&self, role: usize) -> bool {
        let process = &mut self.processes.lock().unwrap()[role];
        process.as_mut().is_some_and(|process| process.try_wait().unwrap().is_some())
    }

    fn kill(&self, role: usize) {
        if let Some(mut process) = self.processes.lock().unwrap()[role].take() {
            drop(process.kill());
            drop(process.wait());
        }
    }

    /// Asks a process to end, as a kubelet does, and waits until it has.
    fn end(&self, role: usize) {
        if let Some(mut process) = self.processes.lock().unwrap()[role].take() {
            let asked = other("kill").arg(process.id().to_string()).status().unwrap();
            assert!(asked.success());
            drop(process.wait());
        }
    }

    /// Whether the results of jobs that have ended are still there.
    fn is_cleaning_up(&self) -> bool {
        let mut results = self.folder.join("ha/job-result-store/available");
        if self.is_for_applications {
            results.push(self.deployed.lock().unwrap().1.to_string());
        }
        let results = fs::read_dir(results).into_iter().flatten().flatten();
        results.map(|it| it.file_name()).any(|it| it.to_string_lossy().contains("_DIRTY"))
    }

    fn url(&self, folder: &str) -> String {
        format!("file:{}", self.folder.join(folder).display())
    }
}

impl World for Real {
    fn client(&self) -> Client {
        Client::at(&format!("http://127.0.0.1:{}", self.port), DEADLINES).unwrap()
    }

    fn jar(&self) -> Vec<u8> {
        let classes = self.folder.join("classes");
        let source =
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/conformance/flink/Scripted.java");
        let mut javac = other("javac");
        javac.args(["--release", "11", "-cp"]).arg(self.distribution.join("lib/*"));
        assert!(javac.arg("-d").arg(&classes).arg(source).status().unwrap().success());
        let jar = self.folder.join("scripted.jar");
        let mut pack = other("jar");
        pack.args(["--create", "--main-class", "Scripted", "--file"]).arg(&jar);
        assert!(pack.arg("-C").arg(&classes).arg(".").status().unwrap().success());
        fs::read(jar).unwrap()
    }

    fn gate(&self) -> String {
        self.folder.join("gate").display().to_string()
    }

    fn set(&self, gate: &str, is_set: bool) {
        let file = self.folder.join("gate").join(gate);
        if is_set {
            fs::write(file, "").unwrap();
        } else {
            fs::remove_file(file).unwrap();
        }
    }

    fn is_held(&self, place: &str) -> bool {
        self.folder.join("gate").join(format!("held-{place}")).exists()
    }

    fn savepoints(&self) -> String {
        self.url("savepoints")
    }

    fn checkpoints(&self) -> String {
        self.url("checkpoints")
    }

    fn is_for_applications(&self) -> bool {
        self.is_for_applications
    }

    fn deploy(&self, application: Application) -> LocalBoxFuture<'_, ()> {
        self.end(JOB_MANAGER);
        let run = {
            let mut deployed = self.deployed.lock().unwrap();
            *deployed = (vec![self.gate(), application.records.clone()], deployed.1 + 1);
            deployed.1
        };
        self.configure(&application.options(run, &self.url("ha")));
        self.run(JOB_MANAGER);
        Box::pin(std::future::ready(()))
    }

    fn undeploy(&self) -> LocalBoxFuture<'_, ()> {
        self.end(JOB_MANAGER);
        Box::pin(std::future::ready(()))
    }

    fn maps(&self) -> Option<&Maps> {
        self.maps.as_ref()
    }

    fn tend(&self) -> LocalBoxFuture<'_, Infallible> {
        Box::pin(async {
            loop {
                if self.has_ended(JOB_MANAGER) {
                    self.run(JOB_MANAGER);
                }
                sleep(AGAIN).await;
            }
        })
    }

    fn crash(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(async {
            // The next process would not accept an id again of which the clean-up is not done.
            while self.is_cleaning_up() {
                sleep(AGAIN).await;
            }
            self.kill(JOB_MANAGER);
            self.run(JOB_MANAGER);
        })
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for role in [JOB_MANAGER, TASK_MANAGER] {
            self.kill(role);
        }
        if std::thread::panicking() {
            println!("the logs of Flink are in {}", self.folder.display());
        } else {
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}

/// Returns the folder into which the sandbox unpacked Flink's packages.
fn distribution(version: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").expect("tests/alone.sh names the cache");
    let all = Path::new(&cache).join("kubectl-flink/flink");
    let found = fs::read_dir(&all).into_iter().flatten().flatten();
    let found =
        found.filter(|it| it.file_name().to_str().unwrap().starts_with(&format!("{version}.")));
    let inside = found.filter_map(|it| fs::read_dir(it.path()).ok()).flatten().flatten();
    let mut inside =
        inside.filter(|it| it.file_name().to_str().unwrap().starts_with("distribution"));
    let folder = inside.next().map(|it| it.path());
    folder.unwrap_or_else(|| {
        panic!("no Flink {version} in {}: run tests/tools.sh flink", all.display())
    })
}

/// Returns ports that no other process takes by chance meanwhile: they lie below those that the kernel gives out. Another
/// cluster of this process gets others.
fn free_ports<const N: usize>() -> [u16; N] {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    // Those of processes that start one after the other do not overlap either.
    let first = 20_000 + u16::try_from(std::process::id() % 1_250).unwrap() * 8;
    std::array::from_fn(|_| {
        loop {
            let port = first + GIVEN.fetch_add(1, Ordering::Relaxed);
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    })
}
