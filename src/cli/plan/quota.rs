//! Whether the quotas of a namespace have room for a second colour beside the active one. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use config::quantity;

/// Returns a sentence for each quota whose free amount is less than what the pods of the active colour use.
pub(super) fn shortages(quotas: &[ResourceQuota], serving: &[Pod]) -> Vec<String> {
    let of = |quantities: &Option<BTreeMap<String, Quantity>>, key: &str| {
        quantities.as_ref().and_then(|all| quantity::parse(&all.get(key)?.0))
    };
    let mut shortages = Vec::new();
    for quota in quotas {
        // A quota with scopes covers only some pods, which may not be these.
        let scopes = quota.spec.as_ref().map(|spec| (&spec.scopes, &spec.scope_selector));
        let is_of_all = scopes.is_none_or(|(scopes, selector)| {
            selector.is_none() && scopes.as_ref().is_none_or(Vec::is_empty)
        });
        let Some(status) = quota.status.as_ref().filter(|_| is_of_all) else { continue };
        for key in status.hard.iter().flat_map(BTreeMap::keys) {
            let (hard, used) = (of(&status.hard, key), of(&status.used, key).unwrap_or_default());
            let Some(free) = hard.map(|hard| (hard - used).max(0.0)) else { continue };
            let needed = needed(serving, key);
            if needed > free {
                let name = quota.metadata.name.as_deref().unwrap_or_default();
                shortages.push(format!(
                    "both colours run for a while, but ResourceQuota `{name}` leaves {} of {key} and the other colour needs about {}",
                    shown(free),
                    shown(needed)
                ));
            }
        }
    }
    shortages
}

/// Returns how much of a quota's resource these pods use; 0 if the resource does not apply to pods.
fn needed(pods: &[Pod], key: &str) -> f64 {
    let (is_limit, resource) = match key.split_once('.') {
        Some(("requests", resource)) => (false, resource),
        Some(("limits", resource)) => (true, resource),
        _ => (false, key),
    };
    let of_pod = |pod: &Pod| match resource {
        "pods" => 1.0,
        "cpu" | "memory" => {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let of_container = |container: &k8s_openapi::api::core::v1::Container| {
                let resources = container.resources.as_ref()?;
                let quantities = if is_limit { &resources.limits } else { &resources.requests };
                quantity::parse(&quantities.as_ref()?.get(resource)?.0)
            };
            containers.filter_map(of_container).sum()
        }
        _ => 0.0,
    };
    pods.iter().map(of_pod).sum()
}

/// Formats amounts from 1 MiB up as MiB, smaller ones unchanged.
fn shown(amount: f64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    if amount >= MIB { format!("{:.0}Mi", amount / MIB) } else { format!("{amount}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_quota_that_has_no_room_for_two_is_reported() {
        let quota: ResourceQuota =
            serde_json::from_value(json!({"metadata": {"name": "team"}, "status": {
            "hard": {"requests.memory": "4Gi", "limits.cpu": "8", "pods": "3", "secrets": "1"},
            "used": {"requests.memory": "3Gi", "limits.cpu": "1", "pods": "2", "secrets": "1"}}}))
            .unwrap();
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "resources": {
            "requests": {"memory": "1536Mi"}, "limits": {"cpu": "2"}}}]}}))
            .unwrap();
        let mut scoped = quota.clone();
        scoped.spec = serde_json::from_value(json!({"scopes": ["BestEffort"]})).unwrap();
        let told = shortages(&[quota, scoped], &[pod.clone(), pod]);
        expect_test::expect![[r#"
            both colours run for a while, but ResourceQuota `team` leaves 1 of pods and the other colour needs about 2
            both colours run for a while, but ResourceQuota `team` leaves 1024Mi of requests.memory and the other colour needs about 3072Mi"#]]
        .assert_eq(&told.join("\n"));
        assert_eq!(shortages(&[ResourceQuota::default()], &[]), [""; 0]);
    }
}
