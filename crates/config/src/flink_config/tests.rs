use std::time::Duration;

use serde_json::json;

use super::*;
use crate::options;

fn flatten(value: Value) -> Vec<(String, String)> {
    let configuration = serde_json::from_value(value).unwrap();
    let flat = FlinkConfig::flatten(&configuration);
    flat.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

#[test]
fn flat_and_nested_forms_meet() {
    let expected = vec![("state.checkpoints.dir".to_owned(), "x".to_owned())];
    assert_eq!(flatten(json!({"state.checkpoints.dir": "x"})), expected);
    assert_eq!(flatten(json!({"state": {"checkpoints.dir": "x"}})), expected);
    assert_eq!(flatten(json!({"state": {"checkpoints": {"dir": "x"}}})), expected);
    assert_eq!(
        flatten(json!({"state.checkpoints.dir": "y", "state": {"checkpoints.dir": "x"}})),
        expected
    );
}

#[test]
fn scalars_become_their_text_and_lists_are_joined() {
    let flat = flatten(json!({"a": [1, "b", true], "b": [], "c": null, "d": 1.0, "e": false}));
    let texts: Vec<_> = flat.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(texts, ["a=1;b;true", "c=null", "d=1.0", "e=false"]);
}

#[test]
fn older_names_count_and_the_new_name_wins() {
    let mut config = FlinkConfig::new();
    assert_eq!(config.get(&options::RECONCILE_INTERVAL), Ok(Duration::from_mins(1)));
    config.set("kubernetes.operator.reconciler.reschedule.interval", "7 s");
    assert_eq!(config.get(&options::RECONCILE_INTERVAL), Ok(Duration::from_secs(7)));
    config.set("kubernetes.operator.reconcile.interval", "8 s");
    assert_eq!(config.get(&options::RECONCILE_INTERVAL), Ok(Duration::from_secs(8)));
    config.force(&options::RECONCILE_INTERVAL, "9 s");
    assert_eq!(config.len(), 1);
}

#[test]
fn a_wrong_value_names_the_key_that_was_written() {
    let config: FlinkConfig =
        [("kubernetes.operator.reconciler.reschedule.interval", "soon")].into_iter().collect();
    let error = config.get(&options::RECONCILE_INTERVAL).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid value `soon` of `kubernetes.operator.reconciler.reschedule.interval`: expected a \
         whole number and one of d, h, min, s, ms, us or ns, such as `30 s`"
    );
}

#[test]
fn an_option_without_default_must_be_set_to_be_got() {
    let config = FlinkConfig::new();
    assert_eq!(config.find(&options::LEADER_ELECTION_LEASE_NAME), Ok(None));
    assert!(config.get(&options::LEADER_ELECTION_LEASE_NAME).is_err());
}

#[test]
fn an_empty_text_counts_as_set() {
    let config: FlinkConfig = [("web.cancel.enable", "")].into_iter().collect();
    assert!(config.is_set(&options::WEB_CANCEL_ENABLE));
}

#[test]
fn a_map_may_be_written_as_keys_below_its_own() {
    let option = &options::JOB_MANAGER_LABELS;
    let nested = json!({"kubernetes.jobmanager.labels": {"app.kubernetes.io/name": "a,b", "x": 1}});
    let mut config = FlinkConfig::flatten(&serde_json::from_value(nested).unwrap());
    let read = config.find(option).unwrap().unwrap();
    let read: Vec<_> = read.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(read, ["app.kubernetes.io/name=a,b", "x=1"]);
    assert!(config.is_set(option));
    config.set(option.key(), "y:2");
    assert_eq!(config.find(option).unwrap().unwrap().len(), 1, "the whole map wins");
    config.force(option, "z:3");
    assert_eq!(config.iter().collect::<Vec<_>>(), [("kubernetes.jobmanager.labels", "z:3")]);
}
