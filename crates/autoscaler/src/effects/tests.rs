use serde_json::{Value, json};

use super::*;

fn configuration(value: Value) -> FlinkConfiguration {
    serde_json::from_value(value).unwrap()
}

fn decided(pairs: &[(&str, u32)]) -> BTreeMap<VertexId, u32> {
    pairs.iter().map(|(id, parallelism)| ((*id).into(), *parallelism)).collect()
}

#[track_caller]
fn check(
    own: Value,
    running: Option<Value>,
    of: &[(&str, u32)],
    excluded: &[&str],
    expected: Value,
) {
    let own = configuration(own);
    let excluded = excluded.iter().map(|id| (*id).into()).collect();
    let config = ConfigChanges::default();
    let in_force = InForce::Known { decided: &decided(of), excluded: &excluded, config: &config };
    let running = running.map(configuration);
    let effective = FlinkConfig::flatten(&own);
    let wanted = with_parallelism(&own, &effective, running.as_ref(), in_force).unwrap();
    assert_eq!(Value::Object(wanted.0), expected);
}

const KEY: &str = "pipeline.jobvertex-parallelism-overrides";

#[test]
fn section_1_decided_parallelism_replaces_the_users() {
    check(json!({"a": "b"}), None, &[], &[], json!({"a": "b"}));
    check(json!({KEY: "x:1"}), None, &[], &[], json!({KEY: "x:1"}));
    check(json!({KEY: "x:1,z:9"}), None, &[("x", 2), ("y", 3)], &[], json!({KEY: "x:2,y:3,z:9"}));
}

#[test]
fn section_1_of_an_excluded_vertex_the_users_wins_where_there_is_one() {
    let own = json!({KEY: "x:1"});
    check(own, None, &[("x", 2), ("y", 3)], &["x", "y"], json!({KEY: "x:1,y:3"}));
}

/// A difference: in Java a source that has finished, or whose busy time is briefly unknown, restarts the job with the
/// user's parallelism, and then again with the decided one.
#[test]
fn a_vertex_that_cannot_be_scaled_for_now_goes_on_as_was_decided() {
    let set = |ids: &[&str]| ids.iter().map(|id| (*id).into()).collect::<BTreeSet<VertexId>>();
    let of = |named: &[&str], running: Value| {
        let (decided, running) = (decided(&[("x", 2), ("y", 3)]), configuration(running));
        excluded(set(named), &set(&["x"]), &decided, &running)
    };
    assert_eq!(of(&[], json!({KEY: "x:2,y:3"})), set(&[]));
    assert_eq!(of(&[], json!({KEY: "x:1,y:3"})), set(&["x"]), "it runs as the user has it");
    assert_eq!(of(&[], json!({})), set(&["x"]));
    assert_eq!(of(&["x"], json!({KEY: "x:2,y:3"})), set(&["x"]), "for good");
    let [own, edited] = [json!({KEY: "x:1"}), json!({KEY: "x:9"})];
    let running = json!({KEY: "x:2,y:3"});
    for own in [own, edited] {
        let excluded = of(&[], running.clone());
        let excluded: Vec<&str> = excluded.iter().map(VertexId::as_str).collect();
        check(own, Some(running.clone()), &[("x", 2), ("y", 3)], &excluded, running.clone());
    }
}

#[test]
fn section_2_the_text_of_what_runs_stays_while_it_says_the_same() {
    let running = json!({KEY: "{y: '3', x: '2'}"});
    let decided = [("x", 2), ("y", 3)];
    check(json!({}), Some(running.clone()), &decided, &[], json!({KEY: "{y: '3', x: '2'}"}));
    check(json!({}), Some(running), &[("x", 2), ("y", 4)], &[], json!({KEY: "x:2,y:4"}));
}

#[test]
fn an_option_that_is_written_nested_is_replaced_too() {
    let own = json!({"pipeline": {"jobvertex-parallelism-overrides": "x:1", "name": "n"}});
    check(own, None, &[("x", 2)], &[], json!({"pipeline": {"name": "n"}, KEY: "x:2"}));
    let own = json!({"pipeline": {"jobvertex-parallelism-overrides": "x:1"}});
    check(own, None, &[("x", 2)], &[], json!({KEY: "x:2"}));
}

#[test]
fn what_runs_stays_where_nobody_knows_what_is_in_force() {
    let (own, running) = (configuration(json!({})), configuration(json!({KEY: "x:7"})));
    let wanted =
        |running| with_parallelism(&own, &FlinkConfig::new(), running, InForce::Unknown).unwrap().0;
    assert_eq!(Value::Object(wanted(Some(&running))), json!({KEY: "x:7"}));
    assert!(wanted(None).is_empty());
}

fn spec(task_manager: Value) -> FlinkDeploymentSpec {
    serde_json::from_value(json!({
        "flinkConfiguration": {"taskmanager": {"memory": {"flink.size": "1g"}}, "a": "b"},
        "taskManager": task_manager,
    }))
    .unwrap()
}

#[track_caller]
fn tuned(task_manager: Value) -> Value {
    let mut spec = spec(task_manager);
    let config = ConfigChanges {
        overrides: [("taskmanager.memory.process.size".to_owned(), "1000 bytes".to_owned())].into(),
        removals: ["taskmanager.memory.flink.size".to_owned()].into(),
    };
    let (decided, excluded) = (BTreeMap::new(), BTreeSet::new());
    let in_force = InForce::Known { decided: &decided, excluded: &excluded, config: &config };
    tune_memory(&mut spec, None, in_force);
    let own = json!({"a": "b", "taskmanager.memory.process.size": "1000 bytes"});
    assert_eq!(Value::Object(spec.flink_configuration.0), own);
    serde_json::to_value(spec.task_manager).unwrap()
}

#[test]
fn section_2_tuned_memory_goes_where_the_resource_states_it() {
    let stated = json!({"resource": {"cpu": 1.0, "memory": "2g"}});
    assert_eq!(tuned(stated), json!({"resource": {"cpu": 1.0, "memory": "1000"}}));
    let both = json!({"resources": {"requests": {"memory": "2000"}, "limits": {"memory": "3001"}}});
    let expected =
        json!({"resources": {"requests": {"memory": "1000"}, "limits": {"memory": "1501"}}});
    assert_eq!(tuned(both), expected);
    let limit = json!({"resources": {"limits": {"memory": "3Gi"}}});
    assert_eq!(tuned(limit), json!({"resources": {"limits": {"memory": "1000"}}}));
    assert_eq!(tuned(json!({"resource": {"cpu": 1.0}})), json!({"resource": {"cpu": 1.0}}));
}

#[test]
fn memory_of_what_runs_stays_where_nobody_knows_what_is_in_force() {
    let mut wanted = spec(json!({"resource": {"memory": "2g"}}));
    let mut running = spec(json!({"resource": {"memory": "1000"}}));
    running.flink_configuration =
        configuration(json!({"taskmanager.memory.process.size": "1000 bytes"}));
    tune_memory(&mut wanted, Some(&running), InForce::Unknown);
    let own = json!({"a": "b", "taskmanager.memory.process.size": "1000 bytes"});
    assert_eq!(Value::Object(wanted.flink_configuration.0), own);
    assert_eq!(wanted.task_manager, running.task_manager);
}
