//! Pods of a real job log in to a real KDC, and with its tickets to a ZooKeeper that holds Flink's HA metadata.
//!
//! The KDC logs who got a ticket, and from which address: that shows that a pod had its keytab and its `krb5.conf`. A
//! ticket for a service is requested with the keytab's key.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};
use std::{fs, thread};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::cluster::{Cluster, JOB, project, said};
use super::zookeeper;
use crate::support::patience::PATIENCE;
use crate::support::program::other;

/// ZooKeeper's principal, as clients see it.
const SERVICE: &str = "zookeeper/quorum";
/// Options that name files where the operator runs.
const FILES: [&str; 2] = ["security.kerberos.login.keytab", "security.kerberos.krb5-conf.path"];

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn all_pods_log_in_by_keytabs_of_the_operator_and_of_users() {
    let mut cluster = Cluster::new("kerberos");
    let kdc = Kdc::start(&cluster, &["orders", "billing", "lab", SERVICE]);
    let mut job = cluster.job();
    let quorum = cluster.start_zookeeper(kdc.zookeeper(&cluster, &job));
    let options = &mut job["spec"]["flinkConfiguration"];
    options["high-availability.type"] = json!("zookeeper");
    options["high-availability.zookeeper.quorum"] = json!(quorum);
    options["security.kerberos.login.contexts"] = json!("Client");
    // Closed without a login. The operator has no Kerberos login, but a password that Flink has too.
    options["high-availability.zookeeper.client.acl"] = json!("creator");
    options["high-availability.zookeeper.client.authorization"] = json!("digest:'flink:secret'");
    // It has no name, and its address is known only once it runs.
    let server = format!("-Dzookeeper.server.principal={SERVICE}@EXAMPLE.COM");
    options["env.java.opts.all"] = json!(server);
    kdc.take_files_of_operator(&mut job, "orders");

    // Files where the operator runs.
    cluster.give_rights(&["--set", "rbac.keytabsRule.create=true"]);
    let directories = kdc.folder.to_str().unwrap();
    cluster.configure_operator(&[("kubernetes.operator.kerberos.directories", directories)]);
    cluster.start(&job);
    kdc.wait_until_pods_log_in(&cluster, "orders");
    let secret = format!("kerberos-keytab-{JOB}");
    let config_map = format!("kerberos-krb5conf-{JOB}");
    let deployment = cluster.read("apps/v1", "Deployment", JOB);
    for (kind, name) in [("Secret", &secret), ("ConfigMap", &config_map)] {
        let owner = cluster.read("v1", kind, name)["metadata"]["ownerReferences"][0].clone();
        assert_eq!(owner["kind"], "Deployment");
        assert_eq!(owner["uid"], deployment["metadata"]["uid"], "{kind} {name}");
    }

    zookeeper::assert_closed(&cluster, &quorum, &format!("/flink/{JOB}/jobs"));

    // The keytab must not appear anywhere for users who may not read Secrets.
    let keytab = fs::read(kdc.file("orders.keytab")).unwrap();
    assert!(shows_text(cluster.read("v1", "Secret", &secret).to_string().as_bytes(), &keytab));
    let mut changed = job.clone();
    changed["spec"]["job"]["parallelism"] = json!(2);
    let manifest = cluster.write(&changed).display().to_string();
    let config = cluster.data().join("operator.yaml").display().to_string();
    for (command, what) in [("plan", "delete the JobManager"), ("render", &secret)] {
        let args = [command, "-f", &manifest, "--operator-config", &config];
        let shown = said(&cluster.try_flink(&args));
        assert!(shown.contains(what), "{shown}");
        assert!(!shows_text(shown.as_bytes(), &keytab), "`{command}` tells the keytab: {shown}");
    }
    let report = cluster.data().join("report.zip");
    cluster.flink(&["report", JOB, "--file", report.to_str().unwrap()]);
    for (name, text) in unpacked(&report) {
        assert!(!shows_text(&text, &keytab), "{name} of the report tells the keytab");
    }
    assert!(!shows_text(&fs::read(cluster.operator_log()).unwrap(), &keytab));
    assert!(!shows_text(cluster.observed().to_string().as_bytes(), &keytab));

    // Objects of the user. Those of the previous JobManager are deleted with it.
    cluster.create(&kdc.secret(&cluster, "billing-keytab", "billing.keytab"));
    let options = &mut job["spec"]["flinkConfiguration"];
    options["security.kerberos.login.principal"] = json!("billing@EXAMPLE.COM");
    options["kubernetes.operator.kerberos.keytab.secret.name"] = json!("billing-keytab");
    options["kubernetes.operator.kerberos.krb5-conf.config-map.name"] = json!(zookeeper::NAME);
    for files in FILES {
        options.as_object_mut().unwrap().remove(files);
    }
    cluster.upgrade(&job);
    kdc.wait_until_pods_log_in(&cluster, "billing");
    cluster.wait_until("without the operator's objects", |_| {
        cluster.find("v1", "Secret", &secret).is_none()
            && cluster.find("v1", "ConfigMap", &config_map).is_none()
    });
    cluster.delete_and_count();
    assert!(cluster.find("v1", "Secret", "billing-keytab").is_some(), "the user's stays");

    // Standalone, where the operator creates both kinds of pods.
    cluster.name = "lab".to_owned();
    job["metadata"]["name"] = json!("lab");
    job["spec"]["mode"] = json!("standalone");
    job["spec"]["taskManager"]["replicas"] = json!(1);
    job["spec"].as_object_mut().unwrap().remove("job");
    kdc.take_files_of_operator(&mut job, "lab");
    cluster.deploy(&job);
    cluster.wait_until_ready();
    kdc.wait_until_pods_log_in(&cluster, "lab");
    let log = cluster.log_of(zookeeper::NAME, zookeeper::NAME);
    for principal in ["orders", "billing", "lab"] {
        let taken = format!("Successfully authenticated client: authenticationID={principal}@");
        assert!(log.contains(&taken), "ZooKeeper takes the ticket of {principal}: {log}");
    }
    cluster.flink(&["delete", "lab", "--yes"]);
    cluster.wait_until("deleted with its keytab", |lab| {
        lab.is_null() && cluster.find("v1", "Secret", "kerberos-keytab-lab").is_none()
    });
}

/// The KDC of the realm EXAMPLE.COM on this machine, where pods can reach it.
pub(super) struct Kdc {
    folder: PathBuf,
    process: Child,
}

impl Kdc {
    pub(super) fn start(cluster: &Cluster, principals: &[&str]) -> Self {
        let folder = cluster.data().join("kerberos");
        fs::create_dir(&folder).unwrap();
        let free = TcpListener::bind((address_for_pods(cluster), 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let said = folder.join("said.log");
        let log = fs::File::create(&said).unwrap();
        let mut command = other(project().join("tests/kdc.sh"));
        command.arg(&folder).arg(address.to_string()).args(principals);
        let process = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut kdc = Self { folder, process };
        let start = Instant::now();
        while !kdc.log().contains("commencing operation") {
            let said = || fs::read_to_string(&said).unwrap_or_default();
            assert!(kdc.process.try_wait().unwrap().is_none(), "the KDC ended: {}", said());
            assert!(start.elapsed() < PATIENCE, "the KDC is not there: {}", said());
            thread::sleep(Duration::from_millis(100));
        }
        kdc
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.file("kdc.log")).unwrap_or_default()
    }

    /// Sets the operator's paths of this principal's keytab and of the `krb5.conf`.
    fn take_files_of_operator(&self, job: &mut Value, principal: &str) {
        let options = job["spec"]["flinkConfiguration"].as_object_mut().unwrap();
        options.retain(|key, _| !key.starts_with("kubernetes.operator.kerberos."));
        let files = [format!("{principal}.keytab"), "krb5.conf".to_owned()];
        for (key, file) in FILES.into_iter().zip(files) {
            options.insert(key.to_owned(), json!(self.file(&file)));
        }
        let principal = json!(format!("{principal}@EXAMPLE.COM"));
        options.insert("security.kerberos.login.principal".to_owned(), principal);
    }

    /// Waits until a JobManager and a TaskManager have logged in, each from its own address.
    #[track_caller]
    fn wait_until_pods_log_in(&self, cluster: &Cluster, principal: &str) {
        cluster.wait_until("logged in", |_| {
            let served = self.served(principal, SERVICE);
            let pods = [cluster.job_managers(), cluster.task_managers()];
            pods.iter().all(|pods| {
                let [Pod { status: Some(status), .. }] = &pods[..] else { return false };
                status.pod_ip.as_ref().is_some_and(|address| served.contains(address))
            })
        });
    }

    /// Returns the addresses that got a ticket for the service.
    pub(super) fn served(&self, principal: &str, service: &str) -> BTreeSet<String> {
        let ticket = format!("{principal}@EXAMPLE.COM for {service}@EXAMPLE.COM");
        let log = self.log();
        let lines = log.lines().filter(|line| line.contains(&ticket));
        let client = |line: &str| {
            let (before, _) = line.split_once(": ISSUE:")?;
            before.split_whitespace().last().map(str::to_owned)
        };
        lines.filter_map(client).collect()
    }

    /// Returns the pod of a ZooKeeper that only accepts clients with a login, with its Secret and `ConfigMap`.
    fn zookeeper(&self, cluster: &Cluster, job: &Value) -> Value {
        let jaas = format!(
            "Server {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true \
             keyTab=\"/kerberos/keytab\" principal=\"{SERVICE}\"; }};"
        );
        let krb5_conf = fs::read_to_string(self.file("krb5.conf")).unwrap();
        let name = zookeeper::NAME;
        cluster.create(&json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": cluster.namespace},
            "data": {"krb5.conf": krb5_conf, "jaas.conf": jaas},
        }));
        cluster.create(&self.secret(cluster, name, "zookeeper.keytab"));
        let provider = "org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.auth.\
                        SASLAuthenticationProvider";
        let properties = format!(
            "-Djava.security.auth.login.config=/kerberos/jaas.conf \
             -Djava.security.krb5.conf=/kerberos/krb5.conf -Dzookeeper.authProvider.1={provider} \
             -Dzookeeper.enforce.auth.enabled=true -Dzookeeper.enforce.auth.schemes=sasl,digest \
             -Dorg.apache.logging.log4j.level=INFO"
        );
        let mut pod = zookeeper::server(job);
        let sources = json!([{"configMap": {"name": name}}, {"secret": {"name": name}}]);
        pod["spec"]["volumes"] = json!([{"name": "kerberos", "projected": {"sources": sources}}]);
        let container = &mut pod["spec"]["containers"][0];
        container["volumeMounts"] = json!([{"name": "kerberos", "mountPath": "/kerberos"}]);
        container["env"] = json!([{"name": "JAVA_TOOL_OPTIONS", "value": properties}]);
        pod
    }

    pub(super) fn secret(&self, cluster: &Cluster, name: &str, keytab: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": cluster.namespace},
            "data": {"keytab": STANDARD.encode(fs::read(self.file(keytab)).unwrap())},
        })
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Returns this machine's address on the route to the cluster.
pub(crate) fn address_for_pods(cluster: &Cluster) -> IpAddr {
    let server = cluster.kube_config().cluster_url;
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((server.host().unwrap(), 443)).unwrap();
    socket.local_addr().unwrap().ip()
}

/// Whether the text contains a part of the keytab, raw or encoded as in a Secret.
fn shows_text(text: &[u8], keytab: &[u8]) -> bool {
    let has = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
    let encoded = STANDARD.encode(keytab);
    encoded.as_bytes().chunks_exact(24).chain(keytab.chunks_exact(12)).any(has)
}

/// Returns names and contents of the files in a report.
fn unpacked(report: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = zip::ZipArchive::new(fs::File::open(report).unwrap()).unwrap();
    let files = (0..archive.len()).map(|index| {
        let mut file = archive.by_index(index).unwrap();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        (file.name().unwrap().into_owned(), content)
    });
    files.collect()
}
