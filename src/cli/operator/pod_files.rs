//! Files in the operator's pod that a fleet relies on and that an installation would not have. Only the first edit of a
//! resource would tell otherwise, after the move.

use std::collections::BTreeMap;
use std::path::Path;

use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use config::{OperatorConfig, options};
use operator::install::values::Values;
use render::kerberos::is_below;
use validation::operator_files::{self, OperatorFile};

/// Maximum number of resources that a remark names.
const NAMES_MAX: usize = 3;

/// A deployment of the fleet.
pub(super) struct Deployed<'a> {
    namespace: &'a str,
    name: &'a str,
    spec: &'a FlinkDeploymentSpec,
}

impl<'a> From<&'a FlinkDeployment> for Deployed<'a> {
    fn from(deployment: &'a FlinkDeployment) -> Self {
        let FlinkDeployment { metadata, spec, .. } = deployment;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Self { namespace, name: metadata.name.as_deref().unwrap_or_default(), spec }
    }
}

/// Returns a remark about each file that would be refused with these values.
pub(super) fn lacking<'a>(
    values: &Values,
    operator: &OperatorConfig,
    fleet: impl Iterator<Item = Deployed<'a>>,
) -> Vec<String> {
    let mut users: BTreeMap<(String, &str), (OperatorFile, Vec<String>)> = BTreeMap::new();
    for Deployed { namespace, name, spec } in fleet {
        for file in operator_files::of_deployment(namespace, spec, operator) {
            let of_file = users.entry((file.path.clone(), file.key));
            of_file.or_insert_with(|| (file, vec![])).1.push(format!("{namespace}/{name}"));
        }
    }
    users.into_values().filter_map(|(file, users)| remark(&file, &users, values)).collect()
}

fn remark(file: &OperatorFile, users: &[String], values: &Values) -> Option<String> {
    let OperatorFile { key, path, is_of_resource: _, refusal, is_secret } = file;
    let mounts = values.operator_volume_mounts.entries().iter();
    let mut mounts = mounts.filter_map(|mount| mount.get("mountPath")?.as_str());
    let mut needs = Vec::new();
    if !mounts.any(|at| is_below(path, at)) {
        needs.push("mount it with `operatorVolumes` and `operatorVolumeMounts`".to_owned());
    }
    let is_template = key.starts_with("kubernetes.pod-template-file");
    match refusal {
        Some(reason) if is_template => needs.push(reason.clone()),
        Some(_) => {
            let above = Path::new(path).parent().unwrap_or(Path::new("/")).display();
            let option = options::KERBEROS_DIRECTORIES.key();
            needs.push(format!("set `{option}: {above}` in the configuration"));
        }
        None => {}
    }
    if *is_secret && !values.rbac.keytabs_rule.create {
        needs.push("set `rbac.keytabsRule.create: true`".to_owned());
    }
    let named = users.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    let named = match users.len().saturating_sub(NAMES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    };
    (!needs.is_empty()).then(|| {
        format!(
            "the file `{path}` in the operator's pod (`{key}`) would be refused, and with it each \
             edit and restart of {named}. To have it: {}",
            needs.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use operator::install::merge::{defaults, merge, typed};
    use serde_json::{Value, json};

    use super::*;

    fn described(values: Value, configuration: &str) -> Vec<String> {
        let mut all = defaults();
        merge(&mut all, values.as_object().unwrap().clone());
        let operator = OperatorConfig::new(config::file::parse_flink_conf(configuration));
        let spec: FlinkDeploymentSpec = serde_json::from_value(json!({"flinkConfiguration": {
            "security.kerberos.login.keytab": "/opt/keytabs/orders.keytab",
            "security.kerberos.login.principal": "orders",
        }}))
        .unwrap();
        let names = ["a", "b", "c", "d"];
        let fleet = names.map(|name| Deployed { namespace: "shop", name, spec: &spec });
        lacking(&typed(all).unwrap(), &operator, fleet.into_iter())
    }

    #[test]
    fn what_a_keytab_needs_is_reported_until_all_of_it_is_there() {
        let [told_once] = &described(json!({}), "")[..] else { panic!() };
        for needed in [
            "`/opt/keytabs/orders.keytab`",
            "shop/a, shop/b, shop/c and 1 more",
            "`operatorVolumeMounts`",
            "`kubernetes.operator.kerberos.directories: /opt/keytabs`",
            "`rbac.keytabsRule.create: true`",
        ] {
            assert!(told_once.contains(needed), "{needed}: {told_once}");
        }
        let mounted = json!({
            "operatorVolumeMounts": {"create": true, "data": [{"name": "k", "mountPath": "/opt/keytabs"}]},
            "rbac": {"keytabsRule": {"create": true}},
        });
        let [directory] = &described(mounted.clone(), "")[..] else { panic!() };
        assert!(!directory.contains("Volume") && !directory.contains("rbac"), "{directory}");
        let allowed = "kubernetes.operator.kerberos.directories: /opt/keytabs\n";
        assert_eq!(described(mounted, allowed), [""; 0]);
    }
}
