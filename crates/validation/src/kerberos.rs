//! Kerberos settings that cannot work, whatever files exist, and options that switch such mounts on and off.
//!
//! Only the operator itself knows whether it has the files that the options name. It checks that before it stops or
//! starts anything; these rules do not.

use api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use api::job::JobState;
use api::version::FlinkVersion;
use config::{FlinkConfig, options};
use render::kerberos::Kerberos;

use super::{Finding, Places, Rule, is_blank};

/// The first version that can be configured to mount nothing of Kerberos in its TaskManagers.
const MOUNTS_ON_DEMAND: FlinkVersion = FlinkVersion::V1_17;

pub(super) fn check(
    spec: &FlinkDeploymentSpec,
    config: &FlinkConfig,
    places: &Places,
) -> Vec<Finding> {
    let mut violations = Vec::new();
    // A suspended job starts no pods, and a running job can be stopped with its state.
    if spec.job.as_ref().is_some_and(|job| job.state == JobState::Suspended) {
        return violations;
    }
    let has_secret = !is_blank(config.text_of(&options::KERBEROS_KEYTAB_SECRET));
    let place = if has_secret {
        places.of(config, &options::KERBEROS_KEYTAB_SECRET)
    } else {
        places.of(config, &options::KERBEROS_KEYTAB)
    };
    let has_keytab = has_secret || !is_blank(config.text_of(&options::KERBEROS_KEYTAB));
    if has_keytab && is_blank(config.text_of(&options::KERBEROS_PRINCIPAL)) {
        violations.push(Rule::KerberosFile.found(
            &place,
            format!(
                "is a keytab without a principal, and Flink does not start with it: set `{}`",
                options::KERBEROS_PRINCIPAL.key()
            ),
        ));
    }
    match Kerberos::of(spec, config) {
        Ok(kerberos) if kerberos.has_secret_of_user() && !can_mount_secret_of_user(spec) => {
            violations.push(Rule::KerberosFile.found(
                &place,
                "before Flink 1.17 a native JobManager starts TaskManagers that wait for a \
                 different Secret: use Flink 1.17, or `spec.mode: standalone`",
            ));
        }
        Ok(_) => {}
        Err(invalid) => violations.push(places.invalid(&invalid)),
    }
    let of_hadoop = config.get(&options::HADOOP_CONF_MOUNT_ENABLED).err();
    violations.extend(of_hadoop.map(|invalid| places.invalid(&invalid)));
    violations
}

fn can_mount_secret_of_user(spec: &FlinkDeploymentSpec) -> bool {
    spec.mode.unwrap_or_default() == DeploymentMode::Standalone
        || spec.flink_version.is_none_or(|version| version >= MOUNTS_ON_DEMAND)
}
