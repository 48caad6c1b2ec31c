//! Options whose values cannot be parsed.
//!
//! The Java operator encounters them when it needs them, and then fails again and again. Here, each option that the
//! operator reads for a resource is read once, before anything is done.

use config::FlinkConfig;
use config::option::{ConfigOption, OptionValue};
use config::options as o;

use super::{Finding, Places, Rule};

/// Reads every option that affects the handling of one resource.
pub(super) fn check(config: &FlinkConfig, places: &Places) -> Vec<Finding> {
    let mut form = Form { config, places, violations: Vec::new() };
    for known in o::OF_RESOURCES.iter().chain(o::node_notice::TABLE) {
        if let Err(invalid) = (known.check)(config) {
            form.violations.push(places.invalid(&invalid));
        }
    }
    form.read(&o::CHECKPOINTING_INTERVAL);
    form.read(&o::CHECKPOINTING_TIMEOUT);
    form.read(&o::TOLERABLE_FAILED_CHECKPOINTS);
    form.read(&o::REST_PORT);
    form.read(&o::JOB_MANAGER_RPC_PORT);
    form.read(&o::REST_SERVICE_EXPOSED_TYPE);
    form.read(&o::REST_SERVICE_ANNOTATIONS);
    form.read(&o::INTERNAL_SERVICE_ANNOTATIONS);
    form.read(&o::CONTAINER_IMAGE_PULL_POLICY);
    form.read(&o::CONTAINER_IMAGE_PULL_SECRETS);
    form.read(&o::JOB_MANAGER_CPU);
    form.read(&o::JOB_MANAGER_CPU_LIMIT_FACTOR);
    form.read(&o::JOB_MANAGER_MEMORY_LIMIT_FACTOR);
    form.read(&o::JOB_MANAGER_LABELS);
    form.read(&o::JOB_MANAGER_ANNOTATIONS);
    form.read(&o::JOB_MANAGER_NODE_SELECTOR);
    form.read(&o::JOB_MANAGER_TOLERATIONS);
    form.read(&o::TASK_MANAGER_CPU);
    form.read(&o::TASK_MANAGER_CPU_LIMIT_FACTOR);
    form.read(&o::TASK_MANAGER_MEMORY_LIMIT_FACTOR);
    form.read(&o::TASK_MANAGER_LABELS);
    form.read(&o::TASK_MANAGER_ANNOTATIONS);
    form.read(&o::TASK_MANAGER_NODE_SELECTOR);
    form.read(&o::TASK_MANAGER_TOLERATIONS);
    form.read(&o::ENV_SECRET_KEY_REFS);
    form.read(&o::SECRETS);
    form.read(&o::HOST_NETWORK_ENABLED);
    form.read(&o::PARALLELISM_OVERRIDES);
    form.read(&o::SSL_REST_ENABLED);
    form.slots();
    form.violations
}

struct Form<'a> {
    config: &'a FlinkConfig,
    places: &'a Places,
    violations: Vec<Finding>,
}

impl Form<'_> {
    fn read<T: OptionValue>(&mut self, option: &ConfigOption<T>) -> Option<T> {
        self.config.find(option).unwrap_or_else(|invalid| {
            self.violations.push(self.places.invalid(&invalid));
            None
        })
    }

    /// Checks the slots: a TaskManager without slots runs nothing, and Flink refuses to start it.
    fn slots(&mut self) {
        if let Some(slots) = self.read(&o::TASK_SLOTS).filter(|slots| *slots < 1) {
            self.violations.push(Rule::TaskSlots.found(
                self.places.of(self.config, &o::TASK_SLOTS),
                format!("is `{slots}`: it must be 1 or more"),
            ));
        }
    }
}
