//! Files in the operator's pod that a resource relies on. Whether they exist only that pod knows; whether a resource may
//! name them, and whether an installation mounts something there, is known before.

use api::deployment::FlinkDeploymentSpec;
use config::option::ConfigOption;
use config::template_file;
use config::{FlinkConfig, OperatorConfig, options};
use render::kerberos::{Kerberos, Source, is_in};

/// One such file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OperatorFile {
    /// The option that names it.
    pub key: &'static str,
    pub path: String,
    /// Whether the resource names it, and not the operator's own configuration.
    pub is_of_resource: bool,
    /// Why a resource may not name it, and what to do instead.
    pub refusal: Option<String>,
    /// Whether its content goes into a Secret.
    pub is_secret: bool,
}

/// Returns the keytab, the `krb5.conf` and the pod templates that a deployment has from the operator's pod. Options that
/// cannot be read are for other rules.
pub fn of_deployment(
    namespace: &str,
    spec: &FlinkDeploymentSpec,
    operator: &OperatorConfig,
) -> Vec<OperatorFile> {
    let defaults = operator.defaults(namespace, spec.flink_version);
    let mut config = defaults.clone();
    config.overlay(&FlinkConfig::flatten(&spec.flink_configuration));
    let mut found = Vec::new();
    if let Ok(Kerberos { keytab, krb5_conf }) = Kerberos::of(spec, &config) {
        let allowed = operator.base.get(&options::KERBEROS_DIRECTORIES).unwrap_or_default();
        for (option, instead, source) in [
            (&options::KERBEROS_KEYTAB, &options::KERBEROS_KEYTAB_SECRET, keytab),
            (&options::KERBEROS_KRB5_CONF, &options::KERBEROS_KRB5_CONF_CONFIG_MAP, krb5_conf),
        ] {
            let Some(Source::File(path)) = source else { continue };
            let is_of_resource = defaults.text_of(option).map(str::trim) != Some(&*path);
            let is_refused = is_of_resource && !is_in(&path, &allowed);
            let refusal = is_refused.then(|| {
                format!(
                    "`{}` in the operator's configuration allows no directory above it: name an \
                     object of the namespace in `{}`, or have the directory allowed",
                    options::KERBEROS_DIRECTORIES.key(),
                    instead.key()
                )
            });
            let key = option.key();
            let is_secret = key == options::KERBEROS_KEYTAB.key();
            found.push(OperatorFile { key, path, is_of_resource, refusal, is_secret });
        }
    }
    found.extend(pod_templates(spec, &config, &defaults));
    found
}

fn pod_templates(
    spec: &FlinkDeploymentSpec,
    config: &FlinkConfig,
    defaults: &FlinkConfig,
) -> Vec<OperatorFile> {
    let has_probe = config.get(&options::JM_DEPLOYMENT_STARTUP_PROBE_ENABLED) != Ok(false);
    let job_manager = spec.job_manager.as_ref().is_some_and(|it| it.pod_template.is_some());
    let task_manager = spec.task_manager.as_ref().is_some_and(|it| it.pod_template.is_some());
    let has_both = spec.pod_template.is_some();
    let roles: [(&ConfigOption<String>, bool); 2] = [
        (&options::JOB_MANAGER_POD_TEMPLATE, has_both || job_manager || has_probe),
        (&options::TASK_MANAGER_POD_TEMPLATE, has_both || task_manager),
    ];
    let mut found: Vec<OperatorFile> = Vec::new();
    for (option, is_overridden) in roles {
        let path = config.text_of(option).unwrap_or_default().trim().to_owned();
        if is_overridden || path.is_empty() || found.iter().any(|file| file.path == path) {
            continue;
        }
        // The operator reads what its own configuration names, also if a resource names it, too.
        let is_read = defaults.contains(&template_file::entry(&path));
        let is_of_resource = defaults.text_of(option).map(str::trim) != Some(&*path);
        let refusal = (is_of_resource && !is_read).then(|| {
            "the operator reads only pod templates that its own configuration names: set \
             `spec.podTemplate` instead"
                .to_owned()
        });
        let key = option.key();
        found.push(OperatorFile { key, path, is_of_resource, refusal, is_secret: false });
    }
    found
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(operator: &[(&str, &str)], options: serde_json::Value, expected: Expect) {
        let operator = OperatorConfig::new(operator.iter().copied().collect());
        let spec = json!({
            "flinkVersion": "v1_20", "flinkConfiguration": options,
            "job": {"jarURI": "local:///job.jar"},
        });
        let spec = serde_json::from_value(spec).unwrap();
        let found = of_deployment("shop", &spec, &operator).into_iter();
        let lines = found.map(|OperatorFile { key, path, is_of_resource, refusal, is_secret }| {
            let of = if is_of_resource { "resource" } else { "defaults" };
            let secret = if is_secret { ", secret" } else { "" };
            let refusal = refusal.map(|why| format!(" {why}")).unwrap_or_default();
            format!("{key} {path} ({of}{secret}){refusal}\n")
        });
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn a_resource_may_name_only_what_the_operator_allows() {
        let options = json!({
            "security.kerberos.login.keytab": "/opt/keytabs/orders.keytab",
            "security.kerberos.login.principal": "orders",
            "security.kerberos.krb5-conf.path": "/opt/keytabs/krb5.conf",
            "kubernetes.pod-template-file.default": "/opt/team.yaml",
        });
        check(
            &[],
            options.clone(),
            expect![[r#"
            security.kerberos.login.keytab /opt/keytabs/orders.keytab (resource, secret) `kubernetes.operator.kerberos.directories` in the operator's configuration allows no directory above it: name an object of the namespace in `kubernetes.operator.kerberos.keytab.secret.name`, or have the directory allowed
            security.kerberos.krb5-conf.path /opt/keytabs/krb5.conf (resource) `kubernetes.operator.kerberos.directories` in the operator's configuration allows no directory above it: name an object of the namespace in `kubernetes.operator.kerberos.krb5-conf.config-map.name`, or have the directory allowed
            kubernetes.pod-template-file.taskmanager /opt/team.yaml (resource) the operator reads only pod templates that its own configuration names: set `spec.podTemplate` instead
        "#]],
        );
        let allowing = [
            ("kubernetes.operator.kerberos.directories", "/opt/keytabs"),
            ("kubernetes.pod-template-file.default", "/opt/team.yaml"),
        ];
        check(
            &allowing,
            options,
            expect![[r#"
            security.kerberos.login.keytab /opt/keytabs/orders.keytab (resource, secret)
            security.kerberos.krb5-conf.path /opt/keytabs/krb5.conf (resource)
            kubernetes.pod-template-file.taskmanager /opt/team.yaml (defaults)
        "#]],
        );
    }

    #[test]
    fn what_comes_from_the_namespace_is_no_file_of_the_operator() {
        let options = json!({
            "security.kerberos.login.keytab": "/opt/keytabs/orders.keytab",
            "kubernetes.operator.kerberos.keytab.secret.name": "orders",
        });
        check(&[], options, expect![[""]]);
        let ours = [("security.kerberos.login.keytab", "/opt/all.keytab")];
        check(
            &ours,
            json!({}),
            expect![[r#"
            security.kerberos.login.keytab /opt/all.keytab (defaults, secret)
        "#]],
        );
    }
}
