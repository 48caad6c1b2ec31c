//! Pods of the job, and how tests kill them.

use std::fs;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};
use rustix::process::{Pid, Signal, kill_process};

use super::Cluster;

/// Part of the name of a JobManager's main class.
const JOB_MANAGER: &str = "ClusterEntry";

impl Cluster {
    pub(in crate::e2e) fn pods(&self, selector: &str) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = ListParams::default().labels(selector);
        self.runtime.block_on(pods.list(&params)).unwrap().items
    }

    /// Returns the log of a container so far.
    pub(in crate::e2e) fn log_of(&self, pod: &str, container: &str) -> String {
        self.try_log_of(pod, container).unwrap()
    }

    /// As [`Self::log_of`], of a container that may not have started yet.
    pub(in crate::e2e) fn try_log_of(&self, pod: &str, container: &str) -> kube::Result<String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let container = Some(container.to_owned());
        let params = LogParams { container, ..LogParams::default() };
        self.runtime.block_on(pods.logs(pod, &params))
    }

    pub(in crate::e2e) fn job_manager(&self) -> Pod {
        let mut pods = self.job_managers();
        assert_eq!(pods.len(), 1, "one JobManager pod");
        pods.remove(0)
    }

    /// Returns the JobManager pods that are not being deleted.
    pub(in crate::e2e) fn job_managers(&self) -> Vec<Pod> {
        self.staying("jobmanager")
    }

    /// Returns the uid of the JobManager's pod, and how often its containers were restarted.
    pub(in crate::e2e) fn job_manager_incarnation(&self) -> (String, i32) {
        let pod = self.job_manager();
        let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        (pod.metadata.uid.unwrap(), statuses.iter().map(|container| container.restart_count).sum())
    }

    /// Kills the JobManager's JVM with `kill -9`, from outside its container: inside, process 1 is immune.
    pub(in crate::e2e) fn kill_job_manager(&self) {
        Self::kill_job_manager_in(&self.job_manager());
    }

    /// As [`Self::kill_job_manager`], for one of several.
    pub(in crate::e2e) fn kill_job_manager_in(pod: &Pod) {
        assert!(kill_jvm(pod, JOB_MANAGER), "its JVM runs on this machine");
        println!("-- killed the JobManager");
    }

    /// Kills the JobManager if there is one; returns `false` if it is still starting.
    pub(in crate::e2e) fn try_kill_job_manager(&self) -> bool {
        self.job_managers().iter().any(|pod| kill_jvm(pod, JOB_MANAGER))
    }

    /// Kills the JVM of the only TaskManager.
    pub(in crate::e2e) fn kill_task_manager(&self) {
        let pods = self.task_managers();
        assert_eq!(pods.len(), 1, "one TaskManager pod");
        assert!(kill_jvm(&pods[0], "TaskExecutorRunner"), "its JVM runs on this machine");
        println!("-- killed the TaskManager");
    }

    /// Returns the TaskManager pods that are not being deleted.
    pub(in crate::e2e) fn task_managers(&self) -> Vec<Pod> {
        self.staying("taskmanager")
    }

    fn staying(&self, component: &str) -> Vec<Pod> {
        let mut pods = self.pods(&format!("app={},component={component}", self.name));
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods
    }
}

/// Kills the one process of `pod` whose command line names `class`; returns whether there was one.
fn kill_jvm(pod: &Pod, class: &str) -> bool {
    signal_jvm(pod, class, Signal::KILL)
}

/// Sends a signal to the one process of `pod` whose command line names `class`; returns whether there was one.
pub(crate) fn signal_jvm(pod: &Pod, class: &str, signal: Signal) -> bool {
    let pod = format!("pod{}", pod.metadata.uid.as_ref().unwrap());
    let mut found = 0;
    for process in fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()) {
        let read = |file: &str| fs::read_to_string(process.join(file)).unwrap_or_default();
        if read("cgroup").contains(&pod) && read("cmdline").contains(class) {
            let id = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
            // It may end by itself in the meantime.
            found += usize::from(kill_process(Pid::from_raw(id).unwrap(), signal).is_ok());
        }
    }
    assert!(found < 2, "one JVM of the pod runs on this machine");
    found == 1
}
