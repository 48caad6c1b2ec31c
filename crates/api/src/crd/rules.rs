//! CEL rules: what can be rejected by looking at the object alone.
//!
//! They obey two laws.
//!
//! 1. *Reject only what is rejected anyway.* There is a rule only if validation rejects the object whatever the
//!    operator's configuration says (rules D…, J…, S… of `validation`), so that no resource is rejected that the Java
//!    operator would run. Canary resources are never validated, and a rule cannot see their label. They need no spec,
//!    so a spec that describes neither image, job nor process need not meet any requirement.
//! 2. *Never lock a stored object.* Resources may have been stored before these rules existed, by a cluster without a
//!    webhook or with an older operator. Their status must stay writable and their finalizer removable. Since
//!    Kubernetes 1.30 an update skips a rule if the value it is attached to has not changed, and a change of status or
//!    metadata leaves `spec` and everything below it unchanged. Every rule is therefore attached to `spec` or deeper,
//!    as deep as possible. Only the root, which changes with every write, can see the name; that rule applies to
//!    creation only. On older servers [`super::without_rules`] is used instead.
//!
//! A check that needs the last reconciled spec (a switch of mode, the path of a savepoint redeploy) is not here, not
//! even as a transition rule: before the first deployment such a change is allowed, and a rule on `spec` cannot see
//! whether there was one.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, ValidationRule,
};

use super::schema::{each_child, schema_at};

/// A rule and where it is attached.
struct Rule {
    kind: &'static str,
    /// Field below the root of the object that the rule is attached to.
    at: &'static [&'static str],
    cel: &'static str,
    /// Whether the rule applies to creation only; `oldSelf` is then an optional.
    on_create: bool,
    /// The field to blame, below `at`.
    blame: Option<&'static str>,
    message: &'static str,
}

const fn rule(
    kind: &'static str,
    at: &'static [&'static str],
    cel: &'static str,
    message: &'static str,
) -> Rule {
    Rule { kind, at, cel, on_create: false, blame: None, message }
}

const DEPLOYMENT: &str = "FlinkDeployment";
const SESSION_JOB: &str = "FlinkSessionJob";
const SNAPSHOT: &str = "FlinkStateSnapshot";
const BLUE_GREEN: &str = "FlinkBlueGreenDeployment";

const NAME_MESSAGE: &str = "must start with a lower case letter, end with a letter or digit, and \
     have at most 45 lower case letters, digits and `-`";

const RULES: &[Rule] = &[
    // D1
    Rule {
        on_create: true,
        ..rule(
            DEPLOYMENT,
            &[],
            "oldSelf.hasValue() || !has(self.spec) \
             || self.metadata.name.matches('^[a-z]([-a-z0-9]{0,43}[a-z0-9])?$')",
            "metadata.name must start with a lower case letter, end with a letter or digit, and \
             have at most 45 lower case letters, digits and `-`",
        )
    },
    // D2
    Rule {
        blame: Some(".flinkVersion"),
        ..rule(
            DEPLOYMENT,
            &["spec"],
            "has(self.flinkVersion) || !(has(self.image) || has(self.job) \
             || has(self.jobManager) || has(self.taskManager))",
            "the Flink version of the image must be given, such as `v1_20`",
        )
    },
    // D3
    rule(
        DEPLOYMENT,
        &["spec", "flinkVersion"],
        "!(self in ['v1_13', 'v1_14'])",
        "Flink 1.13 and 1.14 are not supported; the oldest supported version is `v1_15`",
    ),
    // D29
    Rule {
        blame: Some(".serviceAccount"),
        ..rule(
            DEPLOYMENT,
            &["spec"],
            "has(self.serviceAccount) || !(has(self.image) || has(self.job) \
             || has(self.jobManager) || has(self.taskManager))",
            "the service account of the Flink pods must be given; `kubectl flink init` creates one \
             named `flink`",
        )
    },
    // D14
    Rule {
        blame: Some(".job"),
        ..rule(
            DEPLOYMENT,
            &["spec"],
            "!has(self.job) || (has(self.taskManager) && has(self.taskManager.replicas)) \
             || (has(self.job.parallelism) && self.job.parallelism >= 1)",
            "job.parallelism must be 1 or more, unless taskManager.replicas is set",
        )
    },
    // D8
    Rule {
        blame: Some(".template"),
        ..rule(
            DEPLOYMENT,
            &["spec", "ingress"],
            "has(self.template)",
            "an ingress needs a template, such as `{{name}}.{{namespace}}.flink.example.com`",
        )
    },
    // D10
    rule(
        DEPLOYMENT,
        &["spec", "logConfiguration"],
        "self.all(name, name in ['log4j-console.properties', 'logback-console.xml'])",
        "only `log4j-console.properties` and `logback-console.xml` can be set",
    ),
    // D18
    rule(
        DEPLOYMENT,
        &["spec", "jobManager", "replicas"],
        "self >= 1",
        "must be 1, or more with high availability",
    ),
    // D13, D23
    rule(
        DEPLOYMENT,
        &["spec", "taskManager", "replicas"],
        "self >= 1",
        "must be 1 or more; to stop the job set spec.job.state to `suspended`",
    ),
    // J1
    rule(
        SESSION_JOB,
        &["spec", "deploymentName"],
        "self.matches('^[a-z]([-a-z0-9]{0,43}[a-z0-9])?$')",
        NAME_MESSAGE,
    ),
    // J1, for a missing name
    Rule {
        blame: Some(".deploymentName"),
        ..rule(
            SESSION_JOB,
            &["spec"],
            "!has(self.job) || has(self.deploymentName)",
            "the FlinkDeployment of the session cluster must be named",
        )
    },
    // J2
    Rule {
        blame: Some(".job"),
        ..rule(
            SESSION_JOB,
            &["spec"],
            "has(self.job) || !has(self.deploymentName)",
            "a session job needs a job",
        )
    },
    // J11
    Rule {
        blame: Some(".job"),
        ..rule(
            SESSION_JOB,
            &["spec"],
            "!has(self.job) || (has(self.job.parallelism) && self.job.parallelism >= 1)",
            "job.parallelism must be 1 or more",
        )
    },
    // S1
    rule(
        SNAPSHOT,
        &["spec"],
        "has(self.savepoint) != has(self.checkpoint)",
        "exactly one of savepoint and checkpoint must be set",
    ),
    // S2
    Rule {
        blame: Some(".jobReference"),
        ..rule(
            SNAPSHOT,
            &["spec"],
            "has(self.jobReference) || (has(self.savepoint) && has(self.savepoint.alreadyExists) \
             && self.savepoint.alreadyExists)",
            "the job to take a snapshot of must be named",
        )
    },
    // FK0003, for the names of both children
    Rule {
        on_create: true,
        ..rule(
            BLUE_GREEN,
            &[],
            "oldSelf.hasValue() || !has(self.spec) \
             || self.metadata.name.matches('^[a-z]([-a-z0-9]{0,37}[a-z0-9])?$')",
            "metadata.name must start with a lower case letter, end with a letter or digit, and \
             have at most 39 lower case letters, digits and `-`: the children have `-green` after it",
        )
    },
    // FK0043
    Rule {
        blame: Some(".template"),
        ..rule(
            BLUE_GREEN,
            &["spec"],
            "has(self.template) \
             || !(has(self.configuration) || has(self.ingress) || has(self.transitionMode))",
            "a template must be given, with the spec of a FlinkDeployment that has a job",
        )
    },
    Rule {
        blame: Some(".spec"),
        ..rule(
            BLUE_GREEN,
            &["spec", "template"],
            "has(self.spec)",
            "the spec of a FlinkDeployment with a job must be given",
        )
    },
    Rule {
        blame: Some(".job"),
        ..rule(
            BLUE_GREEN,
            &["spec", "template", "spec"],
            "has(self.job)",
            "the children are application clusters, not session clusters: they need a job",
        )
    },
    // FK0046
    rule(
        BLUE_GREEN,
        &["spec", "transitionMode"],
        "self != 'ADVANCED'",
        "only `BASIC` is supported: both colours write until the former one ends",
    ),
    Rule {
        blame: Some(".template"),
        ..rule(
            BLUE_GREEN,
            &["spec", "ingress"],
            "has(self.template)",
            "an ingress needs a template, such as `{{name}}.{{namespace}}.flink.example.com`",
        )
    },
];

/// Path of a deployment's spec within a blue/green deployment.
const TEMPLATE: [&str; 2] = ["spec", "template"];

/// Adds the rules of `kind` to its schema.
pub(super) fn attach(kind: &str, root: &mut JSONSchemaProps) {
    let own = RULES.iter().filter(|rule| rule.kind == kind).map(|rule| (rule.at.to_vec(), rule));
    // Rules at the root are about the object's own name, and a template has none.
    let of_template = RULES
        .iter()
        .filter(|rule| kind == BLUE_GREEN && rule.kind == DEPLOYMENT && !rule.at.is_empty());
    let of_template = of_template.map(|rule| ([&TEMPLATE, rule.at].concat(), rule));
    for (at, rule) in own.chain(of_template) {
        let Rule { kind: _, at: _, cel, on_create, blame, message } = rule;
        if let Some(schema) = schema_at(root, &at) {
            schema.x_kubernetes_validations.get_or_insert_default().push(ValidationRule {
                rule: (*cel).to_owned(),
                message: Some((*message).to_owned()),
                field_path: blame.map(ToOwned::to_owned),
                optional_old_self: on_create.then_some(true),
                ..ValidationRule::default()
            });
        }
    }
}

/// Removes all rules.
pub(super) fn detach(schema: &mut JSONSchemaProps) {
    schema.x_kubernetes_validations = None;
    each_child(schema, &mut detach);
}
