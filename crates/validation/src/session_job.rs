//! Rules J1 to J13 and D28, for a `FlinkSessionJob`.

use core::net::IpAddr;

use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::session_job::FlinkSessionJobSpec;
use config::cluster::is_of_high_availability;
use config::option::InvalidValue;
use config::{FlinkConfig, OperatorConfig, options};

use super::addresses::Restricted;
use super::{
    Finding, NAME_RULE, Places, Rule, Violation, autoscaler, deployment, is_valid_name, jar_uri,
};

/// The session cluster that a job names.
#[derive(Clone, Copy, Debug)]
pub struct SessionCluster<'a> {
    pub name: &'a str,
    pub spec: &'a FlinkDeploymentSpec,
}

impl<'a> SessionCluster<'a> {
    /// Returns the cluster of this resource.
    pub fn of(cluster: &'a FlinkDeployment) -> Self {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        Self { name, spec: &cluster.spec }
    }
}

/// Result of the DNS lookup for a jar's host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HostLookup {
    Unknown,
    /// The first address.
    Address(IpAddr),
}

/// Input for the validation of a `FlinkSessionJob`.
#[derive(Clone, Copy, Debug)]
pub struct SessionJobInput<'a> {
    pub namespace: &'a str,
    pub spec: &'a FlinkSessionJobSpec,
    /// The spec in `status.reconciliationStatus.lastReconciledSpec`, once there is one.
    pub last_reconciled: Option<&'a FlinkSessionJobSpec>,
    /// `None` while the cluster does not exist; its rules then wait.
    pub cluster: Option<SessionCluster<'a>>,
    pub operator: &'a OperatorConfig,
    /// The result for [`host_to_resolve`]; `None` if there was no lookup.
    pub host: Option<HostLookup>,
}

/// Returns the host that has to be looked up before a jar may be fetched from it (J7 and J8).
pub fn host_to_resolve<'a>(
    spec: &'a FlinkSessionJobSpec,
    operator: &OperatorConfig,
) -> Option<&'a str> {
    // A wrong range is found when the jar is.
    if matches!(Restricted::of(&operator.base), Ok(None)) {
        return None;
    }
    let uri = jar_uri::parse(spec.job.as_ref()?.jar_uri.as_deref()?).ok()?;
    uri.scheme.filter(|scheme| is_http(scheme)).and(uri.host)
}

/// Returns all violations of a `FlinkSessionJob`.
pub fn validate(input: &SessionJobInput<'_>) -> Vec<Violation> {
    find(input).into_iter().map(|finding| finding.violation).collect()
}

/// Like [`validate`], each with its rule.
pub fn find(input: &SessionJobInput<'_>) -> Vec<Finding> {
    let SessionJobInput { namespace, spec, last_reconciled, cluster, operator, host } = input;
    let mut violations = Vec::new();
    let cluster_name = spec.deployment_name.as_deref().unwrap_or_default();
    if !is_valid_name(cluster_name) {
        violations.push(
            Rule::DeploymentName.found(
                "spec.deploymentName",
                format!("invalid name `{cluster_name}`: {NAME_RULE}"),
            ),
        );
    }
    if spec.job.is_none() {
        violations.push(Rule::SessionJobWithoutJob.found(
            "spec.job",
            "must be set: it describes the job to run in the session cluster, such as its `jarURI`",
        ));
    }
    if let Some(last) = last_reconciled
        && last.deployment_name != spec.deployment_name
    {
        let before = last.deployment_name.as_deref().unwrap_or_default();
        violations.push(Rule::ClusterChange.found(
            "spec.deploymentName",
            format!(
                "cannot change from `{before}`: delete the job and create it in the other cluster"
            ),
        ));
    }
    if let (Some(job), Some(last)) = (&spec.job, last_reconciled.and_then(|last| last.job.as_ref()))
    {
        violations.extend(deployment::check_redeploy(last, job));
    }
    let jar = spec.job.as_ref().and_then(|job| job.jar_uri.as_deref());
    violations.extend(jar.and_then(|jar| check_jar(jar, operator, *host)));
    violations.extend(check_high_availability(spec, *last_reconciled));
    if let Some(cluster) = cluster {
        violations.extend(check_in_cluster(namespace, spec, cluster, operator));
    } else if let Some(job) = &spec.job {
        // It is invalid in any cluster, and the API server refuses it.
        violations.extend(deployment::check_parallelism(job));
    }
    violations
}

/// J9 to J13.
fn check_in_cluster(
    namespace: &str,
    spec: &FlinkSessionJobSpec,
    cluster: &SessionCluster<'_>,
    operator: &OperatorConfig,
) -> Vec<Finding> {
    let mut violations = Vec::new();
    let name = cluster.name;
    if cluster.spec.job.is_some() {
        violations.push(Rule::NotASessionCluster.found(
            "spec.deploymentName",
            format!("`{name}` is an application cluster, which only runs its own job"),
        ));
    }
    if spec.deployment_name.as_deref() != Some(name) {
        violations.push(
            Rule::DeploymentName.found(
                "spec.deploymentName",
                format!("does not name the session cluster `{name}`"),
            ),
        );
    }
    let own = FlinkConfig::flatten(&spec.flink_configuration);
    let mut config = operator.defaults(namespace, cluster.spec.flink_version);
    config.overlay(&FlinkConfig::flatten(&cluster.spec.flink_configuration));
    config.overlay(&own);
    let places = Places { own };
    if let Some(job) = &spec.job {
        violations.extend(deployment::check_job(job, false, &config, &places));
    }
    violations.extend(autoscaler::check(&config, &places));
    violations
}

/// Refuses options of high availability, since those of the cluster apply. A job that has been running with such
/// options is left alone.
fn check_high_availability(
    spec: &FlinkSessionJobSpec,
    last: Option<&FlinkSessionJobSpec>,
) -> Vec<Finding> {
    let own = FlinkConfig::flatten(&spec.flink_configuration);
    let before = last.map(|last| FlinkConfig::flatten(&last.flink_configuration));
    let before = before.unwrap_or_default();
    let keys = own.iter().map(|(key, _)| key);
    keys.filter(|key| is_of_high_availability(key) && !before.contains(key))
        .map(|key| {
            Rule::HighAvailabilityOfJob.found(
                format!("spec.flinkConfiguration.{key}"),
                "a session job uses the high availability of its cluster: remove the option, or \
                 set it there",
            )
        })
        .collect()
}

/// J4 to J8. The operator fetches the jar itself, so it must not be sent to places that only it can reach.
fn check_jar(jar: &str, operator: &OperatorConfig, host: Option<HostLookup>) -> Option<Finding> {
    let broken = |rule: Rule, message: String| Some(rule.found("spec.job.jarURI", message));
    let uri = match jar_uri::parse(jar) {
        Ok(uri) => uri,
        Err(problem) => return broken(Rule::JarUri, format!("`{jar}` is not a URI: {problem}")),
    };
    let Some(scheme) = uri.scheme else {
        return broken(Rule::JarUri, format!("`{jar}` has no scheme, such as `https://`"));
    };
    let key = options::USER_ARTIFACTS_ALLOWED_SCHEMES.key();
    let allowed = match operator.base.get(&options::USER_ARTIFACTS_ALLOWED_SCHEMES) {
        Ok(allowed) => allowed,
        Err(invalid) => return Some(invalid_option(&invalid)),
    };
    if !allowed.iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
        return broken(
            Rule::JarScheme,
            format!(
                "scheme `{scheme}` is not one of {}: the operator allows more with `{key}`",
                allowed.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ")
            ),
        );
    }
    let restricted = match Restricted::of(&operator.base) {
        Ok(restricted) => restricted?,
        Err(invalid) => return Some(invalid_option(&invalid)),
    };
    if !is_http(scheme) {
        return None;
    }
    let Some(name) = uri.host else {
        return broken(Rule::JarHost, format!("`{jar}` has no host"));
    };
    match host? {
        HostLookup::Unknown => broken(
            Rule::JarHost,
            format!("host `{name}` cannot be resolved: correct it, or add it to DNS"),
        ),
        HostLookup::Address(address) if restricted.contains(address) => broken(
            Rule::JarHost,
            format!(
                "host `{name}` is `{address}`, which is not a public address: the operator allows \
                 such hosts with `{}: false`",
                options::USER_ARTIFACTS_DISALLOW_RESTRICTED_HOSTS.key()
            ),
        ),
        HostLookup::Address(_) => None,
    }
}

fn invalid_option(invalid: &InvalidValue) -> Finding {
    Rule::OptionValue
        .found(format!("operator configuration `{}`", invalid.key), invalid.to_string())
}

fn is_http(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

#[cfg(test)]
mod tests;
