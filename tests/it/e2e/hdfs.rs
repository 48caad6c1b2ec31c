//! State in a real HDFS that requires Kerberos: written by a real job, and read by this program.
//!
//! Its name node gives the folder of the state to the principal of the job only. Whatever is written there was written
//! with the keytab that the operator had mounted.

use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::time::{Duration, Instant};
use std::{fs, thread};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::cluster::{Cluster, project, said};
use super::kerberos::{Kdc, address_for_pods};
use crate::support::patience::PATIENCE;
use crate::support::program::other;

/// Principal of its nodes, as clients see them.
const SERVICE: &str = "hdfs/cluster";
const PRINCIPAL: &str = "orders";
/// Hadoop's client, which Flink's image does not contain.
const JARS: [&str; 3] = ["hadoop-client-api-", "hadoop-client-runtime-", "commons-logging-"];

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn state_in_hdfs_with_kerberos_is_stored_and_read() {
    let mut cluster = Cluster::new("hdfs");
    let kdc = Kdc::start(&cluster, &[PRINCIPAL, SERVICE]);
    let hdfs = Hdfs::start(&cluster, &kdc);
    let mut job = cluster.job();
    hdfs.keep_state_of(&mut job, &cluster, &kdc);
    cluster.start(&job);
    // TaskManagers use delegation tokens that the JobManager gets for them, but also log in themselves.
    for (pods, service) in [
        (cluster.job_managers(), SERVICE),
        (cluster.job_managers(), "krbtgt/EXAMPLE.COM"),
        (cluster.task_managers(), "krbtgt/EXAMPLE.COM"),
    ] {
        let [Pod { status: Some(status), .. }] = &pods[..] else { panic!("one pod: {pods:?}") };
        let served = kdc.served(PRINCIPAL, service);
        let address = status.pod_ip.as_ref().unwrap();
        assert!(served.contains(address), "{address} got a ticket for {service}: {}", kdc.log());
    }

    // By a savepoint, and by the last state of a job whose JobManager is dead.
    job["spec"]["job"]["parallelism"] = json!(2);
    let upgraded = cluster.upgrade(&job);
    let savepoint = upgraded["status"]["jobStatus"]["upgradeSavepointPath"].as_str().unwrap();
    assert!(savepoint.starts_with(&hdfs.address), "{savepoint}");
    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    job["spec"]["job"]["parallelism"] = json!(1);
    cluster.upgrade_the_dead(&job);

    // This program reads it as the keytab's principal, and says what is missing without one.
    let inspect = ["savepoint", "inspect", savepoint, "-o", "json"];
    let refused = hdfs.run(&cluster, None, &inspect);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(said(&refused).contains("KRB5_CLIENT_KTNAME"), "{}", said(&refused));
    let read = hdfs.run(&cluster, Some(&kdc), &inspect);
    assert!(read.status.success(), "{}", said(&read));
    let metadata: Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(metadata["path"], savepoint);
    let gc = ["gc", "--dry-run", "--include-state", "--older-than", "0s"];
    for (kdc, is_seen) in [(None, false), (Some(&kdc), true)] {
        let looked = hdfs.run(&cluster, kdc, &gc);
        println!("{}", said(&looked));
        assert_eq!(!said(&looked).contains("KRB5_CLIENT_KTNAME"), is_seen);
    }
    cluster.delete_and_count();
    let kept = hdfs.run(&cluster, Some(&kdc), &inspect);
    assert!(kept.status.success(), "the savepoint stays: {}", said(&kept));
}

/// An HDFS of two nodes in one process on this machine, where pods can reach it.
struct Hdfs {
    process: Child,
    /// `hdfs://HOST:PORT`
    address: String,
    /// The clients' `HADOOP_CONF_DIR`.
    configuration: PathBuf,
}

impl Hdfs {
    fn start(cluster: &Cluster, kdc: &Kdc) -> Self {
        let output = other(project().join("tests/tools.sh")).arg("hadoop").output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let jars = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        copy_client(&jars, &cluster.data().join("hadoop"));

        let (folder, address) = (cluster.data().join("hdfs"), cluster.data().join("hdfs-address"));
        let said = cluster.data().join("hdfs.log");
        let log = fs::File::create(&said).unwrap();
        let krb5_conf = kdc.file("krb5.conf");
        let mut command = other("java");
        command.arg("-Xmx256m").arg(format!("-Djava.security.krb5.conf={}", krb5_conf.display()));
        command.arg("-cp").arg(jars.join("*")).arg(project().join("tests/stores/SecureHdfs.java"));
        command.arg(folder).arg(address_for_pods(cluster).to_string());
        command.arg(format!("{SERVICE}@EXAMPLE.COM")).arg(kdc.file("hdfs.keytab"));
        command.arg(PRINCIPAL).arg(&address);
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let configuration = cluster.data().join("hadoop-conf");
        let mut hdfs = Self { process, address: String::new(), configuration };
        let start = Instant::now();
        while !address.is_file() {
            let said = || fs::read_to_string(&said).unwrap_or_default();
            assert!(hdfs.process.try_wait().unwrap().is_none(), "HDFS ended: {}", said());
            assert!(start.elapsed() < PATIENCE, "HDFS is not there: {}", said());
            thread::sleep(Duration::from_millis(100));
        }
        hdfs.address = fs::read_to_string(address).unwrap();
        hdfs
    }

    /// Stores all state of the job here; its pods get a keytab and Hadoop's configuration from the user.
    fn keep_state_of(&self, job: &mut Value, cluster: &Cluster, kdc: &Kdc) {
        let core = [
            ("fs.defaultFS", self.address.clone()),
            ("hadoop.security.authentication", "kerberos".to_owned()),
        ];
        let hdfs = [
            ("dfs.namenode.kerberos.principal", format!("{SERVICE}@EXAMPLE.COM")),
            ("dfs.data.transfer.protection", "authentication".to_owned()),
        ];
        let files = [("core-site.xml", site(&core)), ("hdfs-site.xml", site(&hdfs))];
        fs::create_dir(&self.configuration).unwrap();
        for (name, text) in &files {
            fs::write(self.configuration.join(name), text).unwrap();
        }
        let krb5_conf = fs::read_to_string(kdc.file("krb5.conf")).unwrap();
        let data = json!({"krb5.conf": krb5_conf});
        let config_maps = [("realm", data), ("hadoop", files.into_iter().collect())];
        for (name, data) in config_maps {
            cluster.create(&json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": cluster.namespace},
                "data": data,
            }));
        }
        cluster.create(&kdc.secret(cluster, "keytab", &format!("{PRINCIPAL}.keytab")));
        let options = &mut job["spec"]["flinkConfiguration"];
        for (key, value) in [
            ("kubernetes.hadoop.conf.config-map.name", "hadoop"),
            ("kubernetes.operator.kerberos.keytab.secret.name", "keytab"),
            ("kubernetes.operator.kerberos.krb5-conf.config-map.name", "realm"),
            ("security.kerberos.login.principal", "orders@EXAMPLE.COM"),
        ] {
            options[key] = json!(value);
        }
        for (key, folder) in [
            ("high-availability.storageDir", "ha"),
            ("state.checkpoints.dir", "checkpoints"),
            ("state.savepoints.dir", "savepoints"),
        ] {
            options[key] = json!(format!("{}/flink/{folder}", self.address));
        }
        let container = &mut job["spec"]["podTemplate"]["spec"]["containers"][0];
        container["env"] = json!([{"name": "HADOOP_CLASSPATH", "value": "/flink-data/hadoop/*"}]);
    }

    /// Runs this program as if Hadoop were set up, with a keytab if there is a KDC.
    fn run(&self, cluster: &Cluster, kdc: Option<&Kdc>, args: &[&str]) -> Output {
        let mut command = cluster.command(args);
        command.env("HADOOP_CONF_DIR", &self.configuration).env("KRB5CCNAME", "MEMORY:");
        if let Some(kdc) = kdc {
            command.env("KRB5_CONFIG", kdc.file("krb5.conf"));
            command.env("KRB5_CLIENT_KTNAME", kdc.file(&format!("{PRINCIPAL}.keytab")));
        }
        command.output().unwrap()
    }
}

impl Drop for Hdfs {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Formats a Hadoop configuration file.
fn site(options: &[(&str, String)]) -> String {
    let properties = options.iter().map(|(name, value)| {
        format!("<property><name>{name}</name><value>{value}</value></property>\n")
    });
    format!("<configuration>\n{}</configuration>\n", properties.collect::<String>())
}

fn copy_client(jars: &Path, folder: &Path) {
    fs::create_dir(folder).unwrap();
    for jar in fs::read_dir(jars).unwrap().map(Result::unwrap) {
        let name = jar.file_name().to_string_lossy().into_owned();
        if JARS.iter().any(|beginning| name.starts_with(beginning)) {
            fs::copy(jar.path(), folder.join(name)).unwrap();
        }
    }
}
