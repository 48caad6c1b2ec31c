use std::fmt::Write;

use expect_test::{expect, expect_file};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};

use super::schema::each_child;
use super::{all, fields, root_mut, without_rules};

/// Returns whether the field is below one of the pod templates.
fn is_in_pod_template(path: &str) -> bool {
    path.contains(".podTemplate.")
}

/// A changed line here is a change of what the API server accepts or preserves: no field may be removed, no type
/// changed, and no value removed from an enumeration.
#[test]
fn fields_are_as_agreed() {
    let mut text = String::new();
    for definition in all() {
        for field in fields(&definition).iter().filter(|field| !is_in_pod_template(&field.path)) {
            writeln!(text, "{field}").unwrap();
        }
    }
    expect_file!["../../../../tests/golden/crds/fields.txt"].assert_eq(&text);
}

#[test]
fn pod_template_fields_are_as_agreed() {
    let deployment = &all()[0];
    let prefix = "FlinkDeployment.spec.podTemplate.";
    let text: String = fields(deployment)
        .iter()
        .map(ToString::to_string)
        .filter_map(|line| line.strip_prefix(prefix).map(|line| format!("{line}\n")))
        .collect();
    expect_file!["../../../../tests/golden/crds/pod_template_fields.txt"].assert_eq(&text);
}

#[test]
fn all_pod_templates_are_alike() {
    let templates: Vec<Vec<String>> = all()
        .iter()
        .flat_map(|definition| {
            let lines: Vec<String> = fields(definition).iter().map(ToString::to_string).collect();
            ["spec", "spec.jobManager", "spec.taskManager"].map(|place| {
                let place = match definition.spec.names.kind.as_str() {
                    "FlinkBlueGreenDeployment" => format!("spec.template.{place}"),
                    _ => place.to_owned(),
                };
                let prefix = format!("{}.{place}.podTemplate.", definition.spec.names.kind);
                lines
                    .iter()
                    .filter_map(|line| line.strip_prefix(&prefix))
                    .map(ToOwned::to_owned)
                    .collect()
            })
        })
        .filter(|template: &Vec<String>| !template.is_empty())
        .collect();
    assert_eq!(templates.len(), 6);
    assert!(templates.iter().all(|template| template == &templates[0]));
}

/// Returns the parts of a definition other than its schema, as one line each.
fn outline(definition: &CustomResourceDefinition) -> String {
    let names = &definition.spec.names;
    let version = &definition.spec.versions[0];
    let scale = version.subresources.as_ref().and_then(|subresources| subresources.scale.as_ref());
    let mut text = format!(
        "{} {}/{} {} {} {:?} {}\n",
        definition.metadata.name.as_deref().unwrap(),
        definition.spec.group,
        version.name,
        names.kind,
        names.singular.as_deref().unwrap(),
        names.short_names.as_ref().unwrap(),
        definition.spec.scope,
    );
    for column in version.additional_printer_columns.as_ref().unwrap() {
        writeln!(text, "  {} {} {}", column.name, column.type_, column.json_path).unwrap();
    }
    if let Some(scale) = scale {
        writeln!(
            text,
            "  scale {} {} {}",
            scale.spec_replicas_path,
            scale.status_replicas_path,
            scale.label_selector_path.as_deref().unwrap()
        )
        .unwrap();
    }
    text
}

#[test]
fn names_columns_and_subresources() {
    let text: String = all().iter().map(outline).collect();
    expect![[r#"
        flinkdeployments.flink.apache.org flink.apache.org/v1beta1 FlinkDeployment flinkdeployment ["flinkdep"] Namespaced
          Job Status string .status.jobStatus.state
          Lifecycle State string .status.lifecycleState
          Age date .metadata.creationTimestamp
          scale .spec.taskManager.replicas .status.taskManager.replicas .status.taskManager.labelSelector
        flinksessionjobs.flink.apache.org flink.apache.org/v1beta1 FlinkSessionJob flinksessionjob ["sessionjob"] Namespaced
          Job Status string .status.jobStatus.state
          Lifecycle State string .status.lifecycleState
          Age date .metadata.creationTimestamp
        flinkstatesnapshots.flink.apache.org flink.apache.org/v1beta1 FlinkStateSnapshot flinkstatesnapshot ["flinksnp"] Namespaced
          Path string .status.path
          Result Timestamp string .status.resultTimestamp
          Snapshot State string .status.state
          Age date .metadata.creationTimestamp
        flinkbluegreendeployments.flink.apache.org flink.apache.org/v1beta1 FlinkBlueGreenDeployment flinkbluegreendeployment ["flinkbgdep"] Namespaced
          Job Status string .status.jobStatus.state
          Age date .metadata.creationTimestamp
    "#]].assert_eq(&text);
}

/// Calls `check` on `schema` and everything below.
fn everywhere(schema: &mut JSONSchemaProps, check: &mut impl FnMut(&JSONSchemaProps)) {
    check(schema);
    each_child(schema, &mut |child| everywhere(child, check));
}

#[test]
fn nothing_is_required_defaulted_or_bounded() {
    for mut definition in all() {
        everywhere(root_mut(&mut definition).unwrap(), &mut |schema| {
            let JSONSchemaProps {
                description: _,
                type_: _,
                any_of: _,
                enum_: _,
                properties: _,
                items: _,
                additional_properties: _,
                x_kubernetes_int_or_string: _,
                x_kubernetes_preserve_unknown_fields: _,
                x_kubernetes_validations: _,
                ..
            } = schema;
            let rest = JSONSchemaProps {
                description: None,
                type_: None,
                any_of: None,
                enum_: None,
                properties: None,
                items: None,
                additional_properties: None,
                x_kubernetes_int_or_string: None,
                x_kubernetes_preserve_unknown_fields: None,
                x_kubernetes_validations: None,
                ..schema.clone()
            };
            assert_eq!(rest, JSONSchemaProps::default());
        });
    }
}

/// Maximum size of a definition, below the limits of etcd (1.5 MiB) and of a request (3 MiB); two described copies of a
/// Pod would exceed it.
const BYTES_MAX: usize = 800_000;

#[test]
fn definitions_fit_into_etcd() {
    for definition in all() {
        let size = serde_json::to_string(&definition).unwrap().len();
        assert!(size < BYTES_MAX, "{}: {size} bytes", definition.spec.names.kind);
    }
}

#[test]
fn pod_template_fields_are_described_once() {
    let text = serde_json::to_string(&all()[0]).unwrap();
    assert_eq!(text.matches("List of initialization containers").count(), 1);
}

/// Lists every rule, with the field it is attached to.
#[test]
fn rules() {
    let mut text = String::new();
    for definition in all() {
        let mut definition = definition;
        let kind = definition.spec.names.kind.clone();
        everywhere(root_mut(&mut definition).unwrap(), &mut |schema| {
            for rule in schema.x_kubernetes_validations.iter().flatten() {
                writeln!(text, "{kind}: {}", rule.message.as_deref().unwrap()).unwrap();
            }
        });
    }
    expect![[r#"
        FlinkDeployment: metadata.name must start with a lower case letter, end with a letter or digit, and have at most 45 lower case letters, digits and `-`
        FlinkDeployment: the Flink version of the image must be given, such as `v1_20`
        FlinkDeployment: the service account of the Flink pods must be given; `kubectl flink init` creates one named `flink`
        FlinkDeployment: job.parallelism must be 1 or more, unless taskManager.replicas is set
        FlinkDeployment: Flink 1.13 and 1.14 are not supported; the oldest supported version is `v1_15`
        FlinkDeployment: an ingress needs a template, such as `{{name}}.{{namespace}}.flink.example.com`
        FlinkDeployment: must be 1, or more with high availability
        FlinkDeployment: only `log4j-console.properties` and `logback-console.xml` can be set
        FlinkDeployment: must be 1 or more; to stop the job set spec.job.state to `suspended`
        FlinkSessionJob: the FlinkDeployment of the session cluster must be named
        FlinkSessionJob: a session job needs a job
        FlinkSessionJob: job.parallelism must be 1 or more
        FlinkSessionJob: must start with a lower case letter, end with a letter or digit, and have at most 45 lower case letters, digits and `-`
        FlinkStateSnapshot: exactly one of savepoint and checkpoint must be set
        FlinkStateSnapshot: the job to take a snapshot of must be named
        FlinkBlueGreenDeployment: metadata.name must start with a lower case letter, end with a letter or digit, and have at most 39 lower case letters, digits and `-`: the children have `-green` after it
        FlinkBlueGreenDeployment: a template must be given, with the spec of a FlinkDeployment that has a job
        FlinkBlueGreenDeployment: an ingress needs a template, such as `{{name}}.{{namespace}}.flink.example.com`
        FlinkBlueGreenDeployment: the spec of a FlinkDeployment with a job must be given
        FlinkBlueGreenDeployment: the children are application clusters, not session clusters: they need a job
        FlinkBlueGreenDeployment: the Flink version of the image must be given, such as `v1_20`
        FlinkBlueGreenDeployment: the service account of the Flink pods must be given; `kubectl flink init` creates one named `flink`
        FlinkBlueGreenDeployment: job.parallelism must be 1 or more, unless taskManager.replicas is set
        FlinkBlueGreenDeployment: Flink 1.13 and 1.14 are not supported; the oldest supported version is `v1_15`
        FlinkBlueGreenDeployment: an ingress needs a template, such as `{{name}}.{{namespace}}.flink.example.com`
        FlinkBlueGreenDeployment: must be 1, or more with high availability
        FlinkBlueGreenDeployment: only `log4j-console.properties` and `logback-console.xml` can be set
        FlinkBlueGreenDeployment: must be 1 or more; to stop the job set spec.job.state to `suspended`
        FlinkBlueGreenDeployment: only `BASIC` is supported: both colours write until the former one ends
    "#]].assert_eq(&text);
}

#[test]
fn without_rules_leaves_no_rule_and_all_fields() {
    for definition in all() {
        let bare = without_rules(definition.clone());
        assert_eq!(fields(&bare), fields(&definition));
        assert!(!serde_json::to_string(&bare).unwrap().contains("x-kubernetes-validations"));
    }
}
