//! Manifests of all four kinds, as text: YAML written by people, and JSON written by programs.

use api::deployment::FlinkDeployment;
use api::manifest::{self, Document, Resource};
use config::OperatorConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use testing::acceptance::accepted;
use validation::{Violation, session_job, state_snapshot};

use super::{Target, fuzz_text, kind_of};

const WORDS: &[&str] = &[
    "apiVersion: flink.apache.org/v1beta1\n",
    "kind: FlinkDeployment\n",
    "kind: FlinkSessionJob\n",
    "kind: FlinkBlueGreenDeployment\n",
    "---\n",
    "- ",
    ": ",
    "&a ",
    "*a",
    "<<: ",
    "|\n  ",
    "!!binary ",
    "\"spec\":",
    "podTemplate",
    "flinkConfiguration",
    "resources",
    "jarURI",
    "~",
    "0o17",
    "1_000",
    ".inf",
    "2Gi",
    "v2_0",
    "standalone",
    "last-state",
];

#[test]
fn a_manifest_is_read_or_refused_and_comes_back_as_it_was_written() {
    let target = Target { name: "manifest", words: WORDS, bytes_max: 32 << 10, outcomes_min: 37 };
    fuzz_text(&target, |text| match manifest::parse("file.yaml", text) {
        Ok(documents) => documents.iter().map(of_document).collect::<Vec<_>>().join(","),
        Err(problems) => {
            assert!(problems.iter().all(|problem| !problem.message.is_empty()));
            kind_of(&problems[0].message)
        }
    });
}

fn of_document(document: &Document) -> String {
    let text = document.value.to_string();
    let again = manifest::parse("file.json", &text).unwrap_or_else(|problems| {
        panic!("what was read cannot be read again: {} in {text}", problems[0])
    });
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].resource, document.resource);
    let name = document.resource.name();
    match &document.resource {
        Resource::Deployment(deployment) => {
            comes_back(&**deployment);
            validated(deployment)
        }
        Resource::SessionJob(job) => {
            comes_back(&**job);
            let operator = OperatorConfig::default();
            let input = session_job::SessionJobInput {
                namespace: "shop",
                spec: &job.spec,
                last_reconciled: None,
                cluster: None,
                operator: &operator,
                host: None,
            };
            let _host = session_job::host_to_resolve(&job.spec, &operator);
            refused(&session_job::validate(&input))
        }
        Resource::StateSnapshot(snapshot) => {
            comes_back(&**snapshot);
            let input = state_snapshot::StateSnapshotInput {
                spec: &snapshot.spec,
                state: None,
                has_target: true,
            };
            refused(&state_snapshot::validate(&input))
        }
        Resource::BlueGreenDeployment(deployment) => {
            comes_back(&**deployment);
            "blue/green".to_owned()
        }
        Resource::Foreign { kind, .. } => format!("foreign {}", kind.is_empty() || name.is_empty()),
    }
}

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(object: &T) {
    let text = serde_json::to_string(object).unwrap();
    assert_eq!(serde_json::from_str::<T>(&text).unwrap(), *object, "{text}");
}

/// Validates a deployment, and renders it if it is accepted.
pub(super) fn validated(deployment: &FlinkDeployment) -> String {
    accepted(deployment).map_or_else(
        |violations| refused(&violations),
        |objects| format!("{}", objects.iter().count()),
    )
}

fn refused(violations: &[Violation]) -> String {
    let first = violations.first().map(|violation| kind_of(&violation.message));
    format!("{} {}", violations.len().min(9), first.unwrap_or_default())
}
