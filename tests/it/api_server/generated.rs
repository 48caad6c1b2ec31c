//! Objects generated from the schemas of the definitions, against the API server that has them.

use api::crd;
use api::manifest::Resource;
use config::OperatorConfig;
use serde_json::{Value, json};
use testing::acceptance::accepted;
use testing::choices::{Choices, another_seed};
use testing::generated::{put, put_anywhere, read, spec_fields, wrong};
use validation::{blue_green, session_job, state_snapshot};

use super::Server;
use super::crds::{deployment, object};

/// Number of objects of each kind.
const TRIES: usize = 150;

/// Returns a valid object of the kind.
fn sound(kind: &str) -> Value {
    let reference = json!({ "kind": "FlinkDeployment", "name": "a" });
    let spec = match kind {
        "FlinkDeployment" => return deployment("a"),
        "FlinkSessionJob" => {
            json!({ "deploymentName": "session", "job": { "jarURI": "local:///a.jar", "parallelism": 1 } })
        }
        "FlinkStateSnapshot" => json!({ "savepoint": {}, "jobReference": reference }),
        _ => json!({ "template": { "spec": deployment("a")["spec"] } }),
    };
    object(kind, "a", spec)
}

/// Returns why this program rejects the object, once it has read it.
fn refusal(resource: &Resource) -> Option<String> {
    let operator = OperatorConfig::default();
    let violations = match resource {
        Resource::Deployment(deployment) => accepted(deployment).err().unwrap_or_default(),
        Resource::SessionJob(job) => session_job::validate(&session_job::SessionJobInput {
            namespace: "default",
            spec: &job.spec,
            last_reconciled: None,
            cluster: None,
            operator: &operator,
            host: None,
        }),
        Resource::StateSnapshot(snapshot) => {
            state_snapshot::validate(&state_snapshot::StateSnapshotInput {
                spec: &snapshot.spec,
                state: None,
                has_target: true,
            })
        }
        Resource::BlueGreenDeployment(resource) => {
            let found = blue_green::find(&blue_green::BlueGreenInput {
                name: resource.metadata.name.as_deref().unwrap_or_default(),
                namespace: "default",
                spec: &resource.spec,
                last: &api::blue_green::Recorded::default(),
                operator: &operator,
            });
            found.into_iter().map(|finding| finding.violation).collect()
        }
        Resource::Foreign { .. } => vec![],
    };
    violations.first().map(|violation| format!("{}: {}", violation.path, violation.message))
}

/// What the API server accepts can be read here, and what it rejects is rejected here too: `plan` and `lint` predict
/// what `apply` would say.
#[tokio::test]
#[ignore = "needs kube-apiserver"]
async fn what_is_made_from_the_schema_is_judged_alike() {
    let server = Server::with_namespace("generated").await;
    let mut choices = Choices::new(another_seed().unwrap_or(1));
    let (mut taken, mut refused, mut differ) = (0, 0, vec![]);
    for definition in crd::all() {
        let kind = &definition.spec.names.kind;
        let all = spec_fields(&definition);
        for _ in 0..TRIES {
            let mut object = sound(kind);
            let mut what = put_anywhere(&mut object, &all, &mut choices);
            if choices.below(4) == 0 {
                let at = usize::try_from(choices.below(all.len() as u64)).unwrap();
                if let Some(wrong) = wrong(all[at].schema, &mut choices) {
                    what = format!("{what}, {} = {wrong}", all[at].path.join("."));
                    put(&mut object, &all[at].path, wrong);
                }
            }
            let there = server.refusal(&object).await;
            let here = match read(&object) {
                Ok(resource) => Ok(refusal(&resource)),
                Err(problems) => Err(problems[0].to_string()),
            };
            match (there, here) {
                (None, Ok(_)) => taken += 1,
                (Some(_), Err(_) | Ok(Some(_))) => refused += 1,
                (None, Err(here)) => differ.push(format!("{kind}: {what}: only here: {here}")),
                (Some(there), Ok(None)) => {
                    differ.push(format!("{kind}: {what}: only there: {there}"));
                }
            }
        }
    }
    println!("{taken} taken, {refused} refused");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(taken > 100 && refused > 50, "{taken} taken, {refused} refused");
    server.clean_up().await;
}
