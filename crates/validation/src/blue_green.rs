//! Rules of a `FlinkBlueGreenDeployment`: those of a `FlinkDeployment` for both children, and its own.

use api::blue_green::{
    Colour, FlinkBlueGreenDeployment, FlinkBlueGreenDeploymentSpec, Recorded, TransitionMode,
};
use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::job::UpgradeMode;
use api::status::DeploymentStatus;
use config::option::ConfigOption;
use config::options::blue_green as own;
use config::{FlinkConfig, OperatorConfig, options};

use super::deployment::check_redeploy;
use super::extension::subject::Subject;
use super::{Finding, Rule, ValidationInput, Violation, ingress, is_blank};

/// Input for the validation of a `FlinkBlueGreenDeployment`.
#[derive(Clone, Copy, Debug)]
pub struct BlueGreenInput<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub spec: &'a FlinkBlueGreenDeploymentSpec,
    pub last: &'a Recorded,
    pub operator: &'a OperatorConfig,
}

/// Returns a child as seen by the rules and validators of an installation.
pub fn subject(resource: &FlinkBlueGreenDeployment) -> Option<Subject> {
    let spec = resource.spec.template.as_ref()?.spec.clone()?;
    let mut metadata = resource.metadata.clone();
    metadata.name = metadata.name.map(|name| Colour::Blue.child_of(&name));
    let child = FlinkDeployment { metadata, spec, status: None };
    Some(Subject::of_deployment(&child, &DeploymentStatus::default()))
}

/// Returns all violations, each with its rule.
pub fn find(input: &BlueGreenInput<'_>) -> Vec<Finding> {
    let mut found = of_options(input.spec);
    let template = input.spec.template.as_ref().and_then(|template| template.spec.as_ref());
    let Some(template) = template else {
        found.push(Rule::BlueGreenTemplate.found("spec.template.spec", "must be set"));
        return found;
    };
    if template.job.is_none() {
        let message = "must be set: the children are application clusters, not session clusters";
        found.push(Rule::BlueGreenTemplate.found("spec.template.spec.job", message));
    }
    if input.spec.transition_mode == Some(TransitionMode::Advanced) {
        let message = "must be `BASIC`: both colours write until the former one ends";
        found.push(Rule::BlueGreenMode.found("spec.transitionMode", message));
    }
    if input.spec.ingress.as_ref().is_some_and(|ingress| ingress.template.is_none()) {
        let message = "must be set, such as `{{name}}.{{namespace}}.flink.example.com`";
        found.push(Rule::IngressTemplate.found("spec.ingress.template", message));
    }
    let (ingress, last) = (input.spec.ingress.as_ref(), input.last.ingress.as_ref());
    found.extend(ingress::check(
        (input.name, input.namespace),
        ingress,
        last,
        &input.operator.base,
    ));
    found.extend(of_redeploy(input, template));
    found.extend(of_state(input, template));
    found.extend(of_children(input, template));
    found
}

fn of_options(spec: &FlinkBlueGreenDeploymentSpec) -> Vec<Finding> {
    let config: FlinkConfig = spec.configuration.iter().flatten().collect();
    let known = [
        &own::ABORT_GRACE_PERIOD,
        &own::RECONCILIATION_RESCHEDULE_INTERVAL,
        &own::DEPLOYMENT_DELETION_DELAY,
    ];
    let place = |key: &str| format!("spec.configuration.{key}");
    let unreadable = known.iter().filter_map(|option| {
        let error = config.find(option).err()?;
        Some(Rule::BlueGreenOption.found(place(option.key()), error.to_string()))
    });
    let is_known = |key: &str| known.iter().any(|option: &&ConfigOption<_>| option.key() == key);
    let unknown = config.iter().filter(|(key, _)| !is_known(key)).map(|(key, _)| {
        let message = "has no effect here: options of the job belong in \
                       `spec.template.spec.flinkConfiguration`";
        Rule::BlueGreenOption.found(place(key), message)
    });
    unreadable.chain(unknown).collect()
}

/// A redeploy requires the path of a state.
fn of_redeploy(input: &BlueGreenInput<'_>, template: &FlinkDeploymentSpec) -> Option<Finding> {
    let last = input.last.template.as_ref()?.job.as_ref()?;
    check_redeploy(last, template.job.as_ref()?).map(in_template)
}

/// Checks how state gets from one colour to the other.
fn of_state(input: &BlueGreenInput<'_>, template: &FlinkDeploymentSpec) -> Vec<Finding> {
    const PLACE: &str = "spec.template.spec.flinkConfiguration";
    let mut config = input.operator.defaults(input.namespace, template.flink_version);
    config.overlay(&FlinkConfig::flatten(&template.flink_configuration));
    let mut found = Vec::new();
    if config.is_set(&options::FIXED_JOB_ID) {
        let path = format!("{PLACE}.{}", options::FIXED_JOB_ID.key());
        let message =
            "must not be set: both colours would run a job with this id, and share its checkpoints";
        found.push(Rule::BlueGreenJobId.found(path, message));
    }
    let mode = template.job.as_ref().map(|job| job.upgrade_mode);
    // The rules of a FlinkDeployment require it in mode `savepoint`.
    let takes_savepoints = mode == Some(UpgradeMode::LastState);
    if takes_savepoints && is_blank(config.text_of(&options::SAVEPOINT_DIRECTORY)) {
        let path = format!("{PLACE}.state.savepoints.dir");
        let message = "must be set: the other colour starts from a savepoint, also in upgrade mode `last-state`";
        found.push(Rule::SavepointDirectory.found(path, message));
    }
    found
}

/// Checks both children as new ones, which the next transition makes them; violations of both are reported once.
fn of_children(input: &BlueGreenInput<'_>, template: &FlinkDeploymentSpec) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for colour in Colour::ALL {
        let child = super::find(&ValidationInput {
            name: &colour.child_of(input.name),
            namespace: input.namespace,
            spec: &colour.spec_of_child(template),
            last_reconciled: None,
            operator: input.operator,
        });
        for finding in child.into_iter().map(in_template) {
            let is_reported = all
                .iter()
                .any(|it| it.rule == finding.rule && it.violation.path == finding.violation.path);
            if !is_reported {
                all.push(finding);
            }
        }
    }
    all
}

/// Moves a child's violation to its place in the template.
fn in_template(finding: Finding) -> Finding {
    let Finding { rule, violation: Violation { path, message } } = finding;
    let path =
        path.strip_prefix("spec.").map(|rest| format!("spec.template.spec.{rest}")).unwrap_or(path);
    Finding { rule, violation: Violation { path, message } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_child_of_the_next_transition_is_a_new_resource() {
        let found = |host: &str, allowed: &str| {
            let ingress = json!({"template": host});
            let spec = json!({"template": {"spec": {
                "image": "flink:1.20", "flinkVersion": "v1_20", "serviceAccount": "flink",
                "jobManager": {"resource": {"memory": "1g", "cpu": 1}},
                "taskManager": {"resource": {"memory": "1g", "cpu": 1}},
                "job": {"jarURI": "local:///opt/a.jar", "parallelism": 1},
                "ingress": ingress,
            }}, "ingress": ingress});
            let spec: FlinkBlueGreenDeploymentSpec = serde_json::from_value(spec).unwrap();
            let template = spec.template.as_ref().unwrap().spec.clone();
            let option = options::INGRESS_ALLOWED_HOSTS.key();
            let found = find(&BlueGreenInput {
                name: "orders",
                namespace: "shop",
                spec: &spec,
                last: &Recorded { template, ingress: spec.ingress.clone() },
                operator: &OperatorConfig::new([(option, allowed)].into_iter().collect()),
            });
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found("{{name}}.shop.test", "shop.test"), [""; 0]);
        // The resource had it before; its next child has not.
        let [refused] = &*found("{{name}}.shop.test", "example.com") else { panic!("one") };
        assert!(refused.starts_with("spec.template.spec.ingress.template: host `"), "{refused}");
        // The host of a child has its colour.
        let [refused] = &*found("shop.test/flink", "shop.test") else { panic!("one") };
        assert!(refused.contains("host `blue-shop.test` is not below"), "{refused}");
    }
}
