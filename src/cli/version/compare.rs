//! Compares this program, the API server, the definitions and the operators with each other. Pure.

use serde::Serialize;

use crate::cli::check::Result;
use crate::cli::check::judge::KUBERNETES_MIN;
use crate::cli::operators::Installed;
use api::{GROUP, VERSION};
use clients::cluster;
use clients::cluster::crds::Drift;

/// Facts from the cluster; an error for each that could not be read.
pub(super) struct Facts {
    /// The version, such as `v1.34.2`, with its major and minor number.
    pub(super) kubernetes: (String, u32, u32),
    pub(super) definitions: cluster::Result<Vec<Definition>>,
    pub(super) operators: cluster::Result<Vec<Installed>>,
}

/// The definition of one of the project's kinds.
pub(super) struct Definition {
    /// Name, such as `flinkdeployments.flink.apache.org`.
    pub(super) name: String,
    /// Versions of the kind that the API server serves.
    pub(super) served: Vec<String>,
    pub(super) drift: Drift,
}

/// Something that has a version, as `-o json` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Compared {
    pub(super) component: String,
    /// `None` if it does not exist or could not be read.
    pub(super) found: Option<String>,
    /// A version that would fit this program.
    pub(super) expected: String,
    pub(super) result: Result,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

impl Compared {
    fn passed(component: &str, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            component: component.to_owned(),
            found: Some(found.into()),
            expected: expected.into(),
            result: Result::Passed,
            hint: None,
        }
    }

    fn with(self, result: Result, hint: impl Into<String>) -> Self {
        Self { result, hint: Some(hint.into()), ..self }
    }

    fn without(component: &str, expected: &str, result: Result, hint: impl Into<String>) -> Self {
        Self { found: None, ..Self::passed(component, "", expected) }.with(result, hint)
    }
}

/// Returns a line for each component, in the order in which they depend on each other.
pub(super) fn compare(program: &str, facts: &Facts) -> Vec<Compared> {
    let mut compared = vec![kubernetes(&facts.kubernetes)];
    match &facts.definitions {
        Ok(definitions) => compared.extend(definitions.iter().map(definition)),
        Err(error) => compared.push(Compared::without(
            "definitions",
            VERSION,
            Result::Unknown,
            error.to_string(),
        )),
    }
    match &facts.operators {
        Ok(operators) if operators.is_empty() => compared.push(Compared::without(
            "operator",
            program,
            Result::Warning,
            "no operator Deployment was found; install one: kubectl flink operator install",
        )),
        Ok(operators) => compared.extend(operators.iter().map(|one| operator(program, one))),
        Err(error) => compared.push(Compared::without(
            "operator",
            program,
            Result::Unknown,
            error.to_string(),
        )),
    }
    compared
}

fn kubernetes((text, major, minor): &(String, u32, u32)) -> Compared {
    let (least_major, least_minor) = KUBERNETES_MIN;
    let compared =
        Compared::passed("kubernetes", text, format!("{least_major}.{least_minor} or newer"));
    if (*major, *minor) >= KUBERNETES_MIN {
        return compared;
    }
    compared.with(
        Result::Failed,
        "upgrade the cluster: its API server does not support the validation rules of the CRDs",
    )
}

fn definition(of: &Definition) -> Compared {
    let Definition { name, served, drift } = of;
    let name = name.strip_suffix(&format!(".{GROUP}")).unwrap_or(name);
    let is_served = served.iter().any(|version| version == VERSION);
    let versions = served.join(", ");
    let compared = |about: &str| Compared::passed(name, format!("{versions}{about}"), VERSION);
    match drift {
        Drift::Missing => Compared::without(
            name,
            VERSION,
            Result::Failed,
            "install it: kubectl flink crds --apply",
        ),
        Drift::Newer { fields } => {
            const SHOWN: usize = 3;
            let more = if fields.len() > SHOWN { ", …" } else { "" };
            let some = fields.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            compared(", newer").with(
                Result::Failed,
                format!("it has fields that this program does not know ({some}{more}): install a newer kubectl-flink"),
            )
        }
        Drift::Same | Drift::Different if !is_served => compared(", not ours").with(
            Result::Failed,
            format!("{VERSION} is not served: kubectl flink crds --apply"),
        ),
        Drift::Different => compared(", drifted").with(
            Result::Failed,
            "see the differences: kubectl flink crds | kubectl diff -f -; update it: kubectl flink crds --apply",
        ),
        Drift::Same => compared(""),
    }
}

fn operator(program: &str, installed: &Installed) -> Compared {
    let component = format!("operator {}", installed.name);
    let Some(version) = &installed.version else {
        return Compared::without(
            &component,
            program,
            Result::Unknown,
            "its version is unknown: neither a label nor the tag of its image shows it",
        );
    };
    if !installed.is_ours {
        return Compared::passed(&component, format!("{version}, the Java operator"), program).with(
            Result::Warning,
            "the commands work with it; `plan` and `render` show what this program's operator would do",
        );
    }
    let compared = Compared::passed(&component, version, program);
    if version.trim_start_matches('v') == program {
        return compared;
    }
    compared.with(
        Result::Failed,
        "use the same version for both: kubectl flink operator install, or another kubectl-flink",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, drift: Drift) -> Definition {
        Definition { name: format!("{name}.{GROUP}"), served: vec![VERSION.to_owned()], drift }
    }

    fn ours(version: Option<&str>) -> Installed {
        let version = version.map(str::to_owned);
        Installed { name: "ops/operator".to_owned(), ready: 1, wanted: 1, version, is_ours: true }
    }

    fn fitting() -> Facts {
        Facts {
            kubernetes: ("v1.34.1".to_owned(), 1, 34),
            definitions: Ok(vec![definition("flinkdeployments", Drift::Same)]),
            operators: Ok(vec![ours(Some("0.1.0"))]),
        }
    }

    fn results(facts: &Facts) -> Vec<Result> {
        compare("0.1.0", facts).into_iter().map(|it| it.result).collect()
    }

    #[test]
    fn what_fits_passes() {
        assert_eq!(results(&fitting()), [Result::Passed; 3]);
        let label = Facts { operators: Ok(vec![ours(Some("v0.1.0"))]), ..fitting() };
        assert_eq!(results(&label), [Result::Passed; 3]);
    }

    #[test]
    fn an_old_cluster_does_not_fit() {
        let facts = Facts { kubernetes: ("v1.24.0".to_owned(), 1, 24), ..fitting() };
        assert_eq!(results(&facts)[0], Result::Failed);
    }

    #[test]
    fn definitions_fit_only_where_they_are_ours_and_served() {
        let result = |found: Definition| {
            let compared = compare("0.1.0", &Facts { definitions: Ok(vec![found]), ..fitting() });
            (compared[1].result, compared[1].found.clone().unwrap_or_default())
        };
        let newer = Drift::Newer { fields: vec!["spec.new".to_owned()] };
        assert_eq!(result(definition("a", Drift::Missing)), (Result::Failed, String::new()));
        assert_eq!(
            result(definition("a", Drift::Different)),
            (Result::Failed, "v1beta1, drifted".to_owned())
        );
        assert_eq!(result(definition("a", newer)), (Result::Failed, "v1beta1, newer".to_owned()));
        let elsewhere =
            Definition { served: vec!["v1".to_owned()], ..definition("a", Drift::Same) };
        assert_eq!(result(elsewhere), (Result::Failed, "v1, not ours".to_owned()));
    }

    #[test]
    fn an_operator_of_another_version_does_not_fit_and_one_of_java_is_reported() {
        let result = |installed: Installed| {
            results(&Facts { operators: Ok(vec![installed]), ..fitting() })[2]
        };
        assert_eq!(result(ours(Some("0.0.9"))), Result::Failed);
        assert_eq!(result(ours(None)), Result::Unknown);
        let java = Installed { is_ours: false, ..ours(Some("1.14.0")) };
        assert_eq!(result(java), Result::Warning);
        let none = Facts { operators: Ok(Vec::new()), ..fitting() };
        assert_eq!(results(&none)[2], Result::Warning);
    }

    #[test]
    fn what_cannot_be_read_is_never_a_pass() {
        let forbidden = |resource: &str| cluster::Error::Forbidden {
            user: "u".to_owned(),
            verb: "get".to_owned(),
            resource: resource.to_owned(),
            namespace: None,
        };
        let facts = Facts {
            definitions: Err(forbidden("customresourcedefinitions")),
            operators: Err(forbidden("deployments")),
            ..fitting()
        };
        assert_eq!(results(&facts), [Result::Passed, Result::Unknown, Result::Unknown]);
    }
}
