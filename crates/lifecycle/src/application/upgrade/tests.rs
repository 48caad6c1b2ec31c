//! A redeploy that names no state, bypassing validation.

use serde_json::json;

use super::*;
use crate::diff::{ChangeClass, diff};
use crate::world::World;
use api::deployment::FlinkDeployment;
use api::status::DeploymentStatus;
use config::OperatorConfig;

#[test]
fn a_redeploy_without_a_path_takes_nothing_down() {
    for path in [None, Some("  ")] {
        let resource: FlinkDeployment = serde_json::from_value(json!({
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkDeployment",
            "metadata": {"name": "orders", "namespace": "shop", "uid": "u1", "generation": 2},
            "spec": {
                "flinkVersion": "v1_20",
                "job": {
                    "jarURI": "local:///j.jar",
                    "upgradeMode": "last-state",
                    "savepointRedeployNonce": 1,
                    "initialSavepointPath": path,
                },
            },
        }))
        .unwrap();
        let status = DeploymentStatus::default();
        let operator = OperatorConfig::default();
        let world = World::new(
            "2026-01-01T00:00:00Z".parse().unwrap(),
            (&resource, &status),
            None,
            &operator,
        );
        let mut pass = DeploymentPass::new(&world);
        let mut last = ReconciledSpec::new(resource.spec.clone(), false);
        last.spec.job.as_mut().unwrap().savepoint_redeploy_nonce = None;
        let change = diff(&last.spec, &pass.spec);
        assert_eq!(change.class(), ChangeClass::SavepointRedeploy);
        let Err(Halt::Problem(problem)) = pass.redeploy_from_savepoint(&last, &change) else {
            panic!("{path:?} is no state")
        };
        assert!(problem.message.contains("Nothing is stopped"), "{}", problem.message);
        assert!(pass.steps.is_empty() && pass.status == status, "{path:?}");
    }
}
