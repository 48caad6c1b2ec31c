//! Two tenants of one operator: what one of them does in its namespace, nobody in the other one notices.

mod long {
    use std::net::TcpStream;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use std::{fs, thread};

    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::jiff::Timestamp;
    use kube::api::{Api, Patch, PatchParams, PostParams};
    use serde_json::{Value, json};

    use crate::e2e::cluster::silence::Silence;
    use crate::e2e::cluster::{Cluster, JOB, jar, project, run};
    use crate::e2e::zookeeper;
    use crate::support::patience::{BEYOND_PATIENCE, PATIENCE};
    use crate::support::program::other;

    const OPERATOR: &str = "app.kubernetes.io/name=kubectl-flink-operator";
    const LEASE: &str = "kubectl-flink-operator";
    /// A session cluster, in both namespaces.
    const LAB: &str = "lab";
    /// The jar of one tenant, which the other one names too.
    const JAR: &str = "s3://jars/job.jar";
    /// Ports of a store: with the jar, with none for anybody, and with something else instead.
    const GOOD: u16 = 9000;
    const CLOSED: u16 = 9001;
    const POISONED: u16 = 9002;
    /// More connections than the operator's port for probes admits.
    const CONNECTIONS: usize = 300;
    /// Time in which a kubelet that gets no answers restarts a container several times.
    const STARVATION: Duration = Duration::from_mins(2);
    const CHECKPOINTS: Duration = Duration::from_secs(10);

    /// A Lease: how often it was taken over, its last renewal, and how long that counts.
    struct Held {
        transitions: i32,
        renewed: Timestamp,
        duration: Duration,
    }

    #[test]
    #[ignore = "needs a sandbox with real Flink, and some minutes"]
    fn what_one_tenant_does_no_other_notices() {
        let platform = Cluster::bare("platform");
        let (attacker, victim) = (Cluster::bare("attacker"), Cluster::bare("victim"));
        platform.install_for(&[&attacker, &victim]);
        let quorum = victim.start_zookeeper(zookeeper::server(&victim.job()));
        let (his, mine) = (victim.start_store(), attacker.start_store());

        // The victim: an application with its metadata in ZooKeeper, and a session job with a jar from its store.
        let job = in_zookeeper(&victim.job(), &quorum);
        victim.post(&job);
        victim.post(&lab(&victim));
        victim.post(&session_job("orders", &his, GOOD));
        let orders = victim.wait_until_runs("FlinkSessionJob", "orders");
        victim.wait_until_stable();
        for output in ["output", "orders"] {
            victim.wait_until_writing_to(output);
        }
        let incarnation = victim.job_managers().into_iter().map(|pod| pod.metadata.uid);
        let incarnation: Vec<_> = incarnation.collect();
        let lease = platform.lease();
        attacker.post(&lab(&attacker));

        let silences = ["output", "orders"].map(|output| Silence::watch_folder(&victim, output));
        let is_over = AtomicBool::new(false);
        let late = thread::scope(|scope| {
            let late = scope.spawn(|| platform.longest_without_renewal(&is_over));
            let attacks = scope.spawn(|| {
                attacker.steal_and_poison_the_jar(&mine);
                attacker.answer_as_a_job_manager();
                attacker.lead_the_service_to(&victim, &mine);
                attacker.delete_from_the_same_zookeeper(&quorum);
                platform.starve_the_probes();
            });
            let outcome = attacks.join();
            is_over.store(true, Ordering::Relaxed);
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            late.join().unwrap()
        });
        let silences = silences.map(Silence::longest);
        println!(
            "-- silences {silences:?}, checkpoints every {CHECKPOINTS:?}; Lease renewed after {late:?}"
        );
        platform.print_memory();
        assert!(silences.iter().all(|silence| *silence < 2 * CHECKPOINTS), "{silences:?}");
        assert!(late < platform.lease().duration, "the Lease was not renewed for {late:?}");

        // The operator went on, and the victim's jobs were never restarted.
        assert_eq!(platform.lease().transitions, lease.transitions, "the same leader");
        assert_eq!(platform.restarts(), 0);
        let after: Vec<_> = victim.job_managers().into_iter().map(|pod| pod.metadata.uid).collect();
        assert_eq!(after, incarnation);
        let status = |resource: &Value| resource["status"]["jobStatus"]["jobId"].clone();
        let now = victim.inspect("FlinkSessionJob", "orders");
        assert_eq!(status(&now), status(&orders));
        assert_eq!(victim.answer_of(LAB, "/jobs/overview")["jobs"].as_array().unwrap().len(), 1);

        // It still gets its own jar.
        victim.edit_resource("FlinkSessionJob", "orders", json!({"spec": {"restartNonce": 1}}));
        victim.wait_until_runs("FlinkSessionJob", "orders");
        victim.wait_until_writing_to("orders");
        victim.save_and_delete("sessionjob/orders");
        victim.wait_until_one("FlinkSessionJob", "orders", "deleted", Value::is_null);
        victim.assert_nothing_lost_or_doubled_in("orders");
        victim.delete_and_count();
        for one in [&attacker, &victim] {
            one.delete("FlinkDeployment", LAB);
        }
    }

    /// Returns the job with its metadata in ZooKeeper, where every namesake finds them.
    fn in_zookeeper(job: &Value, quorum: &str) -> Value {
        let mut job = job.clone();
        let options = job["spec"]["flinkConfiguration"].as_object_mut().unwrap();
        for (key, value) in [
            ("high-availability.type", "zookeeper"),
            ("high-availability.zookeeper.quorum", quorum),
            ("high-availability.zookeeper.path.root", "/team"),
            ("execution.checkpointing.interval", &*format!("{CHECKPOINTS:?}")),
        ] {
            options.insert(key.to_owned(), json!(value));
        }
        job
    }

    fn lab(cluster: &Cluster) -> Value {
        let mut lab = cluster.job();
        lab["metadata"]["name"] = json!(LAB);
        lab["spec"].as_object_mut().unwrap().remove("job");
        lab["spec"]["flinkConfiguration"]["execution.checkpointing.interval"] =
            json!(format!("{CHECKPOINTS:?}"));
        lab
    }

    fn session_job(name: &str, store: &str, port: u16) -> Value {
        json!({
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkSessionJob",
            "metadata": {"name": name},
            "spec": {
                "deploymentName": LAB,
                "flinkConfiguration": {
                    "s3.endpoint": format!("http://{store}:{port}"),
                    "s3.access-key": name,
                    "s3.secret-key": "a-secret-key",
                },
                "job": {
                    "jarURI": JAR,
                    "args": ["--output", format!("file:///flink-data/{name}")],
                    "parallelism": 1,
                    "upgradeMode": "savepoint",
                },
            },
        })
    }

    impl Cluster {
        /// Creates a resource as anybody can who may, without the program's own checks.
        fn post(&self, manifest: &Value) {
            let mut manifest = manifest.clone();
            manifest["metadata"]["namespace"] = json!(self.namespace);
            self.create(&manifest);
        }

        /// Installs an operator in this namespace for those of the tenants.
        fn install_for(&self, tenants: &[&Self]) {
            let names: Vec<&str> = tenants.iter().map(|one| &*one.namespace).collect();
            let values = json!({
                "watchNamespaces": names,
                "replicas": 2,
                "defaultConfiguration": {"config.yaml": "\
                    kubernetes.operator.reconcile.interval: 3 s\n\
                    kubernetes.operator.user.artifacts.allowed-schemes: s3\n\
                    kubernetes.operator.user.artifacts.disallow-restricted-hosts: false\n"},
            });
            let file = self.data().join("values.yaml");
            fs::write(&file, values.to_string()).unwrap();
            let file = file.to_str().unwrap();
            let wait = ["--yes", "--wait", "--timeout", BEYOND_PATIENCE];
            self.flink(&[&["operator", "install", "--values", file][..], &wait].concat());
        }

        /// Starts a store of jars in a pod; returns its address.
        fn start_store(&self) -> String {
            let program = project().join("tests/hostile/Hostile.java");
            run(other("javac").args(["--release", "11", "-d"]).arg(self.data()).arg(program));
            fs::copy(jar(), self.data().join("job.jar")).unwrap();
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": "store"},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{
                        "name": "store",
                        "image": self.job()["spec"]["image"],
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["java", "-Xmx64m", "-cp", "/flink-data", "Hostile", "store", "/flink-data/job.jar"],
                        "resources": {"requests": {"cpu": "0.1", "memory": "128Mi"}},
                        "volumeMounts": [{"name": "data", "mountPath": "/flink-data"}],
                    }],
                    "volumes": [{"name": "data", "hostPath": {"path": self.data()}}],
                },
            }))
            .unwrap();
            let pods: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
            self.wait_for(pods.create(&PostParams::default(), &pod)).unwrap();
            let started = Instant::now();
            loop {
                assert!(started.elapsed() < PATIENCE, "the store listens");
                thread::sleep(Duration::from_secs(1));
                let pod = self.wait_for(pods.get("store")).unwrap();
                let Some(address) = pod.status.and_then(|status| status.pod_ip) else { continue };
                if TcpStream::connect((&*address, GOOD)).is_ok() {
                    return address;
                }
            }
        }

        /// Names the jar of the others, which is in the operator's cache, with a store that refuses it to anybody, and
        /// with one that gives something else.
        fn steal_and_poison_the_jar(&self, store: &str) {
            self.wait_until_one("FlinkDeployment", LAB, "READY", |lab| {
                lab["status"]["jobManagerDeploymentStatus"] == "READY"
            });
            for (name, port) in [("thief", CLOSED), ("poisoner", POISONED)] {
                self.post(&session_job(name, store, port));
                let told = self.wait_until_one("FlinkSessionJob", name, "told", |job| {
                    job["status"]["error"].is_string()
                });
                println!("-- {name}: {}", told["status"]["error"]);
                assert!(told["status"]["jobStatus"]["state"] != "RUNNING", "{told:#}");
            }
            let jobs = self.answer_of(LAB, "/jobs/overview");
            assert_eq!(jobs["jobs"], json!([]), "the jar of the others runs");
        }

        /// Lets a pod answer as a JobManager, with all that an answer may hold.
        fn answer_as_a_job_manager(&self) {
            let entry = self.data().join("entry.sh");
            let script = "#!/bin/sh\nexec java -Xmx512m -cp /flink-data Hostile jobmanager\n";
            fs::write(&entry, script).unwrap();
            run(other("chmod").arg("755").arg(&entry));
            let mut job = self.job();
            job["metadata"]["name"] = json!("hostile");
            job["spec"]["job"]["upgradeMode"] = json!("stateless");
            let options = job["spec"]["flinkConfiguration"].as_object_mut().unwrap();
            for (key, value) in [
                ("kubernetes.entry.path", "/flink-data/entry.sh"),
                ("job.autoscaler.enabled", "true"),
                ("job.autoscaler.stabilization.interval", "0s"),
                ("job.autoscaler.metrics.window", "15s"),
            ] {
                options.insert(key.to_owned(), json!(value));
            }
            self.post(&job);
            self.wait_until_one("FlinkDeployment", "hostile", "RUNNING", |job| {
                job["status"]["jobStatus"]["state"] == "RUNNING"
            });
            // The autoscaler looks at the graph.
            let started = Instant::now();
            loop {
                let pods = self.pods("app=hostile,component=jobmanager");
                let name = pods[0].metadata.name.as_ref().unwrap();
                let log = self.log_of(name, "flink-main-container");
                let asked = |line: &str| {
                    let path = line.split(' ').nth(1).unwrap_or_default();
                    path.strip_prefix("/jobs/").is_some_and(|id| id.len() == 32)
                };
                if log.lines().any(asked) {
                    println!(
                        "-- hostile: {}",
                        self.inspect("FlinkDeployment", "hostile")["status"]["error"]
                    );
                    return;
                }
                assert!(started.elapsed() < PATIENCE, "nobody asks for the graph: {log}");
                thread::sleep(Duration::from_secs(1));
            }
        }

        /// Lets the Service of a session cluster lead to that of another tenant, and deploys a job there.
        fn lead_the_service_to(&self, other: &Self, store: &str) {
            let name = format!("{LAB}-rest");
            let host = format!("{name}.{}.svc.cluster.local", other.namespace);
            let services: Api<k8s_openapi::api::core::v1::Service> =
                Api::namespaced(self.client(), &self.namespace);
            let patch = json!({"spec": {
                "type": "ExternalName", "externalName": host, "selector": null, "clusterIP": null,
                "clusterIPs": null, "ports": null,
            }});
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            self.wait_for(services.patch(&name, &params, &patch)).unwrap();
            self.post(&session_job("mover", store, GOOD));
            let told = self.wait_until_one("FlinkSessionJob", "mover", "refused", |job| {
                job["status"]["error"].as_str().is_some_and(|error| error.contains("externalName"))
            });
            println!("-- mover: {}", told["status"]["error"]);
            let jars = other.answer_of(LAB, "/jars")["files"].as_array().unwrap().len();
            assert!(jars <= 1, "{jars} jars are in the other cluster");
        }

        /// Names the place of another job's metadata, and deletes the resource.
        fn delete_from_the_same_zookeeper(&self, quorum: &str) {
            let nodes = || zookeeper::children(self, quorum, &format!("/team/{JOB}"));
            let before = nodes();
            assert!(before.contains(&"jobs".to_owned()), "{before:?}");
            let mut job = in_zookeeper(&self.job(), quorum);
            job["spec"]["job"]["upgradeMode"] = json!("stateless");
            job["spec"]["flinkConfiguration"]["kubernetes.operator.resource.cleanup.timeout"] =
                json!("20s");
            self.post(&job);
            let told = self.wait_until("refused", |job| job["status"]["error"].is_string());
            println!("-- {JOB}: {}", told["status"]["error"]);
            self.delete("FlinkDeployment", JOB);
            self.wait_until("deleted", Value::is_null);
            assert_eq!(nodes(), before);
        }

        /// Keeps connections to the operator's port for probes open, without a request.
        fn starve_the_probes(&self) {
            let addresses: Vec<String> = self
                .pods(OPERATOR)
                .into_iter()
                .map(|pod| format!("{}:8085", pod.status.unwrap().pod_ip.unwrap()))
                .collect();
            let started = Instant::now();
            let mut open = Vec::new();
            while started.elapsed() < STARVATION {
                open.clear();
                for address in &addresses {
                    let connections = (0..CONNECTIONS).map(|_| TcpStream::connect(address));
                    open.extend(connections.filter_map(Result::ok));
                }
                thread::sleep(Duration::from_secs(3));
            }
            println!("-- {} connections", open.len());
        }

        fn lease(&self) -> Held {
            let leases: Api<Lease> = Api::namespaced(self.client(), &self.namespace);
            let spec = self.wait_for(leases.get(LEASE)).unwrap().spec.unwrap();
            let seconds = spec.lease_duration_seconds.unwrap();
            Held {
                transitions: spec.lease_transitions.unwrap_or_default(),
                renewed: spec.renew_time.unwrap().0,
                duration: Duration::from_secs(seconds.try_into().unwrap()),
            }
        }

        /// Returns the longest time in which the leader did not renew its Lease.
        fn longest_without_renewal(&self, is_over: &AtomicBool) -> Duration {
            let (mut longest, mut last) = (Duration::ZERO, self.lease().renewed);
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(500));
                let now = self.lease().renewed;
                longest = longest.max(now.duration_since(last).unsigned_abs());
                last = now;
            }
            longest
        }

        /// Returns how often containers of the operator were restarted.
        fn restarts(&self) -> i32 {
            let statuses = self.pods(OPERATOR).into_iter().filter_map(|pod| pod.status);
            let containers = statuses.filter_map(|status| status.container_statuses).flatten();
            containers.map(|container| container.restart_count).sum()
        }

        /// Prints the peak memory of the operator's processes.
        fn print_memory(&self) {
            for pod in self.pods(OPERATOR) {
                let id = format!("pod{}", pod.metadata.uid.unwrap());
                for process in fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()) {
                    if !read(&process, "cgroup").contains(&id) {
                        continue;
                    }
                    let status = read(&process, "status");
                    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
                    println!("-- operator {}: {}", process.display(), peak.unwrap_or_default());
                }
            }
        }
    }

    fn read(process: &Path, file: &str) -> String {
        fs::read_to_string(process.join(file)).unwrap_or_default()
    }
}
