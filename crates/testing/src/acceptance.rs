//! What happens to a deployment before anything is decided: rejected with reasons, or rendered.

use api::deployment::FlinkDeployment;
use config::OperatorConfig;
use config::cluster::{ResourceId, deploy_config};
use render::{Objects, RenderInput, Submission, render_cluster};
use validation::{ValidationInput, Violation, validate};

/// Returns the objects of an accepted deployment, or why it is rejected. Asserts the laws of both: a rejection names a
/// field, and an accepted deployment can be rendered, always with the same result.
pub fn accepted(deployment: &FlinkDeployment) -> Result<Objects, Vec<Violation>> {
    let operator = OperatorConfig::default();
    let metadata = &deployment.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or("default");
    let spec = &deployment.spec;
    let violations = validate(&ValidationInput {
        name,
        namespace,
        spec,
        last_reconciled: None,
        operator: &operator,
    });
    for Violation { path, message } in &violations {
        let is_named = path.starts_with("spec") || path.starts_with("metadata");
        assert!(is_named && !message.trim().is_empty(), "`{path}`: `{message}`");
    }
    if !violations.is_empty() {
        return Err(violations);
    }
    let id = ResourceId { namespace: namespace.into(), name: name.into(), uid: "u1".into() };
    let mode = spec.job.as_ref().map(|job| job.upgrade_mode);
    let submission = Submission {
        job_id: "a".repeat(32),
        savepoint_path: None,
        job_result_store_id: "run".to_owned(),
    };
    let render = || {
        let config = deploy_config(&operator, &id, spec, mode, 1).expect("it was accepted");
        let (submission, hadoop_conf) = (&submission, None);
        let input = RenderInput { id: &id, spec, config: &config, submission, hadoop_conf };
        render_cluster(&input).expect("it was accepted")
    };
    let objects = render();
    assert_eq!(objects, render());
    Ok(objects)
}
