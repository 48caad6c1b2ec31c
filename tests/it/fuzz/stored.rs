//! What the operator stored earlier, and others may have changed since: specs as text in a status, error documents, and
//! whole objects with their statuses.

use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::reconciled::{Reconciled, ReconciledSpec, StoredSpec, running_spec};
use api::session_job::FlinkSessionJobSpec;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::diff::diff;
use lifecycle::error_document::{ErrorType, error_document, message_of, reason_of};
use lifecycle::memo::Memo;
use lifecycle::world::HaMetadata;
use operator::high_availability::metadata_in;
use std::fmt::Debug;

use super::{Target, fuzz_text, kind_of};

const WORDS: &[&str] = &[
    "\"spec\":",
    "\"resource_metadata\":",
    "firstDeployment",
    "apiVersion",
    "job",
    "upgradeMode",
    "last-state",
    "podTemplate",
    "flinkConfiguration",
    "parallelism",
    "cpu",
    "memory",
    "args",
    "null",
    "claims",
    "requests",
    "limits",
    "0.1234567890123456789",
    "-0.0",
    "5e-324",
];

#[test]
fn a_stored_spec_comes_back_as_it_was_written() {
    let target = Target {
        name: "last-reconciled-spec",
        words: WORDS,
        bytes_max: 32 << 10,
        outcomes_min: 16,
    };
    fuzz_text(&target, |text| {
        let of_job = comes_back::<FlinkSessionJobSpec>(text);
        match ReconciledSpec::parse(text) {
            Ok(stored) => {
                let again = ReconciledSpec::parse(&stored.to_text()).unwrap();
                let changes = diff(&stored.spec, &again.spec).changes;
                assert!(changes.is_empty(), "storing a spec changes it: {changes:?}");
            }
            Err(_) => return of_job,
        }
        format!("{} {of_job}", comes_back::<FlinkDeploymentSpec>(text))
    });
}

fn comes_back<S: StoredSpec + PartialEq + Debug>(text: &str) -> String {
    let read = Reconciled::<S>::parse(text);
    // Text that does not begin like either operator's is read by the careful path, unknown fields included.
    if let Ok(careful) = Reconciled::parse(&format!(" {text}")) {
        assert_eq!(read, Ok(careful));
    }
    let stored = match read {
        Ok(stored) => stored,
        Err(error) => return kind_of(&error.reason),
    };
    let written = stored.to_text();
    let again = Reconciled::<S>::parse(&written).unwrap();
    assert_eq!(again.to_text(), written);
    assert_eq!(again.spec.to_value(), stored.spec.to_value());
    assert_eq!(again.is_first_deployment(), stored.is_first_deployment());
    assert!(Memo::<(), S>::default().is_same(text, &written));
    format!("read {}", stored.is_first_deployment())
}

/// Flink's record of a job in ConfigMaps, which its leaders write while it is being read.
#[test]
fn what_config_maps_say_of_a_job_is_read_from_any_of_them() {
    const JOB: &str = "00000000000000000000000000000001";
    let words = &[
        "\"items\":",
        "\"data\":",
        "\"binaryData\":",
        "metadata",
        "deletionTimestamp",
        "checkpointID-",
        "jobGraph-",
        "application-",
        "counter",
        "orders-00000000000000000000000000000001-config-map",
        "orders-cluster-config-map",
        "-jobmanager-leader",
        "null",
    ];
    let target = Target { name: "ha-config-maps", words, bytes_max: 32 << 10, outcomes_min: 33 };
    fuzz_text(&target, |text| {
        let list: List<ConfigMap> = match serde_json::from_str(text) {
            Ok(list) => list,
            Err(error) => return kind_of(&error.to_string()),
        };
        let of_job = metadata_in(&list.items, "orders", Some(JOB));
        let of_any = metadata_in(&list.items, "orders", None);
        assert!(of_job.has_job || of_job.checkpoint.is_none(), "a checkpoint of no job");
        assert!(of_any.has_job || !of_job.has_job, "a job that is none of any");
        assert!(of_any.checkpoint >= of_job.checkpoint);
        let going = |map: &mut ConfigMap| {
            map.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        };
        let mut gone = list.items;
        gone.iter_mut().for_each(going);
        assert_eq!(metadata_in(&gone, "orders", None), HaMetadata::default());
        format!("{of_job:?} {of_any:?}")
    });
}

/// A list from the API server must never fail because of one object's status.
#[test]
fn an_object_with_its_status_comes_back_as_it_was_written() {
    let words = &[
        "status",
        "jobStatus",
        "savepointInfo",
        "conditions",
        "lastReconciledSpec",
        "RUNNING",
        "STABLE",
        "null",
    ];
    let target = Target { name: "object", words, bytes_max: 32 << 10, outcomes_min: 28 };
    fuzz_text(&target, |text| {
        let object: FlinkDeployment = match serde_json::from_str(text) {
            Ok(object) => object,
            Err(error) => return kind_of(&error.to_string()),
        };
        let written = serde_json::to_string(&object).unwrap();
        assert_eq!(serde_json::from_str::<FlinkDeployment>(&written).unwrap(), object);
        running_spec(&object).map_or_else(|error| kind_of(&error.reason), |_| "read".to_owned())
    });
}

#[test]
fn an_error_says_what_was_put_into_it() {
    let words = &["{\"message\":", "additionalMetadata", "reason", "throwableList", "\u{1f600}"];
    let target = Target { name: "error-document", words, bytes_max: 32 << 10, outcomes_min: 4 };
    fuzz_text(&target, |text| {
        let (message, reason) = text.split_once('|').unwrap_or((text, ""));
        let causes = [reason.to_owned(), message.to_owned(), text.to_owned()];
        for kind in
            [ErrorType::Reconciliation, ErrorType::DeploymentFailed, ErrorType::UpgradeFailure]
        {
            let document = error_document(kind, message, Some(reason), &causes);
            assert_eq!(reason_of(&document).as_deref(), Some(reason));
            let told = message_of(&document);
            assert!(
                message.starts_with(&told) && (told == message || told.chars().count() == 2048)
            );
            assert_eq!(message_of(&error_document(kind, &told, None, &[])), told);
        }
        format!("{} {}", message_of(text) == text, reason_of(text).is_some())
    });
}
