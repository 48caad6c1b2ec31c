//! Rules of an installation that influence decisions.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::plugin::Kind;
use crate::vertex_scaler::Rule;

const EVALUATOR: (&str, &str) = ("metrics.custom-evaluators", "mine");
const EXECUTORS: (&str, &str) = ("scaling.custom-executors", "first;second");
const MODE: (&str, &str) = ("scaling.parallelism-alignment.mode", "mine");

fn rules(defined: &[(&str, &str)]) -> Rules {
    let prefix = "kubernetes.operator.plugins.";
    let config = defined.iter().map(|(key, value)| (format!("{prefix}{key}"), *value));
    Rules::read(&config.collect()).unwrap()
}

/// The cycle that would scale the overloaded source from 1 to 3, with these rules.
fn with(defined: &[(&str, &str)], options: &[(&str, &str)]) -> (Job, Cycle) {
    decided(options, |job| job.rules = rules(defined))
}

fn evaluated(expression: &str) -> Cycle {
    with(&[("evaluators.mine.expression", expression)], &[EVALUATOR]).1
}

fn of_source(cycle: &Cycle) -> &VertexDecision {
    &cycle.decisions[&"source".into()]
}

fn steps(cycle: &Cycle) -> Vec<String> {
    let steps = of_source(cycle).steps.iter();
    steps.map(|step| format!("{}: {}", step.rule, step.number)).collect()
}

/// `AutoScalerCustomEvaluatorTest`: a target that is set also applies to vertices that read from the source.
#[test]
fn an_evaluator_sets_figures_and_those_after_it_follow() {
    let mut job = Job::new(&[
        ("stabilization.interval", "0"),
        ("restart.time", "1 s"),
        ("catch-up.duration", "2 s"),
        ("utilization.target", "0.8"),
        ("utilization.max", "0.9"),
        ("utilization.min", "0.7"),
        ("scale-up.max-factor", "2147483647"),
        ("metrics.window", "1 s"),
        EVALUATOR,
        ("metrics.custom-evaluator.mine.rate", "100000"),
    ]);
    let expression = "vertex.isSource ? {'TARGET_DATA_RATE': double(parameters.rate)} : null";
    job.rules = rules(&[("evaluators.mine.expression", expression)]);
    let now = |second: f64| {
        let source = Now {
            id: "source",
            inputs: vec![],
            parallelism: 1,
            max_parallelism: 720,
            records_in: 500.0 * second,
            records_out: 500.0 * second,
            busy: 8.0,
            backpressure: 0.0,
            lag: 0.0,
            in_per_second: 500.0,
        };
        let sink = Now { id: "sink", inputs: vec!["source"], busy: 850.0, ..source.clone() };
        vec![source, sink]
    };
    job.cycle(at(0), &now(0.0));
    let cycle = job.cycle(at(1), &now(1.0));
    assert_eq!(cycle.outcome, Outcome::Scaled);
    assert_eq!(cycle.state.overrides, [("sink".into(), 200), ("source".into(), 3)].into());
    let evaluation = cycle.evaluation.as_ref().unwrap();
    for id in ["source", "sink"] {
        let figures = &evaluation.vertices[&id.into()];
        assert_eq!(figures.average(Metric::TargetDataRate), 100_000.0);
        let up = figures.current(Metric::ScaleUpRateThreshold);
        assert_eq!(up, 111_111.0, "thresholds follow from the rates");
    }
    assert_eq!(steps(&cycle)[0], "TARGET_DATA_RATE by evaluator `mine`: 100000");
    assert_eq!(cycle.decisions[&"sink".into()].steps[0].rule, Rule::Capacity);
}

#[test]
fn an_evaluator_sees_the_vertex_its_figures_and_its_inputs() {
    for condition in [
        "vertex.id == 'source' && vertex.parallelism == 1 && vertex.maxParallelism == 128",
        "vertex.isSource && !vertex.isPartitioned && vertex.inputs == {} && inputs == {}",
        "metrics.TRUE_PROCESSING_RATE.average > 99.0 && has(metrics.LAG.current)",
        "!has(metrics.LAG.average)",
        "job.isBacklog == false && job.now == '2023-11-14T22:14:20Z' && parameters == {}",
    ] {
        let cycle = evaluated(&format!("{condition} ? {{'TRUE_PROCESSING_RATE': 50.0}} : null"));
        let figures = &cycle.evaluation.as_ref().unwrap().vertices[&"source".into()];
        assert_eq!(figures.average(Metric::TrueProcessingRate), 50.0, "{condition}");
    }
}

#[test]
fn thresholds_that_an_evaluator_sets_stay() {
    let cycle = evaluated("{'TARGET_DATA_RATE': 10.0, 'SCALE_UP_RATE_THRESHOLD': {'current': 7}}");
    let figures = &cycle.evaluation.as_ref().unwrap().vertices[&"source".into()];
    assert_eq!(figures.current(Metric::ScaleUpRateThreshold), 7.0);
    assert_eq!(evaluated("{}").outcome, Outcome::Scaled);
    assert_eq!(evaluated("null").evaluation.unwrap().set, BTreeMap::new());
}

#[track_caller]
fn check_unanswered(cycle: &Cycle, why: &str) {
    let Outcome::Unanswered(unanswered) = &cycle.outcome else { panic!("{:?}", cycle.outcome) };
    assert_eq!(unanswered.why, why);
    assert_eq!(cycle.state.overrides, BTreeMap::new());
    assert_eq!(cycle.state.scaling_history, ScalingHistory::new());
    assert_eq!(cycle.state.samples.len(), 2, "what was measured is kept");
    assert!(!cycle.outcome.is_balanced());
}

#[test]
fn figures_that_cannot_be_are_no_answer() {
    let known = "`LOAD`, `TRUE_PROCESSING_RATE`, `TARGET_DATA_RATE`, `CATCH_UP_DATA_RATE`, `LAG`, \
                 `SCALE_UP_RATE_THRESHOLD`, `SCALE_DOWN_RATE_THRESHOLD`";
    let number = "`TARGET_DATA_RATE` is not a number of zero or more";
    for (expression, why) in [
        ("{'TARGET_DATA_RATE': -1.0}", number),
        ("{'TARGET_DATA_RATE': 'many'}", number),
        ("{'TARGET_DATA_RATE': null}", number),
        (
            "{'TARGET_DATA_RATE': {'mean': 1.0}}",
            "`TARGET_DATA_RATE` can only have `current` and `average`",
        ),
        ("{'TARGET_DATA_RATE': 0.0 / 0.0}", "its rule cannot be evaluated: its answer is not JSON"),
        ("{'TARGET_DATA_RATE': 1.0 / 0.0}", "its rule cannot be evaluated: its answer is not JSON"),
        ("true", "its answer is neither an object with figures nor `null`"),
        (
            "{'LAG': metrics.CATCH_UP_DATA_RATE.average}",
            "its rule cannot be evaluated: there is no `average`: check with `has(…)` first",
        ),
    ] {
        check_unanswered(&evaluated(expression), why);
    }
    for name in ["PARALLELISM", "target_data_rate", "GC_PRESSURE"] {
        let cycle = evaluated(&format!("{{'{name}': 1.0}}"));
        check_unanswered(&cycle, &format!("it sets `{name}`: expected one of {known}"));
    }
    let told = evaluated("{'TARGET_DATA_RATE': -1.0}").outcome.to_string();
    let expected = format!(
        "evaluator `mine` gives no answer for vertex `source`: {number}; the job is not scaled \
         without it"
    );
    assert_eq!(told, expected);
}

#[test]
fn an_alignment_mode_fits_the_parallelism_of_each_vertex_that_changes() {
    let aligned = |expression, options: &[(&str, &str)]| {
        let defined = [("alignments.mine.expression", expression)];
        with(&defined, &[&[MODE], options].concat()).1
    };
    let up = "alignment.divisors.filter(of, of >= alignment.target)[0]";
    let cycle = aligned(up, &[]);
    assert_eq!((of_source(&cycle).new, &cycle.outcome), (4, &Outcome::Scaled));
    assert_eq!(steps(&cycle).last().unwrap(), "aligned by alignment mode `mine`: 4");
    assert_eq!(of_source(&cycle).expected_rate, Some(400.0));
    assert_eq!(of_source(&aligned("null", &[])).new, 3);
    assert_eq!(of_source(&aligned("alignment.target", &[])).new, 3);
    // It may keep the present parallelism, and then nothing changes.
    assert_eq!(aligned("alignment.current", &[]).outcome, Outcome::Balanced);
    let parameter = ("scaling.parallelism-alignment.mode.mine.to", "5");
    assert_eq!(of_source(&aligned("int(parameters.to)", &[parameter])).new, 5);
    assert_eq!(
        aligned(
            "alignment == {'current': 1, 'target': 3, 'parts': 128, 'min': 1, 'max': 128, \
                 'divisors': [1, 2, 4, 8, 16, 32, 64, 128]} ? 6 : 0",
            &[]
        )
        .state
        .overrides,
        [("source".into(), 6)].into()
    );
}

#[test]
fn a_parallelism_outside_of_the_limits_is_no_answer() {
    let aligned = |expression| {
        let max = ("vertex.max-parallelism", "8");
        with(&[("alignments.mine.expression", expression)], &[MODE, max]).1
    };
    assert_eq!(of_source(&aligned("8")).new, 8);
    check_unanswered(&aligned("9"), "parallelism 9 is not between 1 and 8");
    check_unanswered(&aligned("0"), "parallelism 0 is not between 1 and 8");
    for none in ["-1", "2.5", "'4'", "true", "{}"] {
        check_unanswered(&aligned(none), "a parallelism is not a whole number");
    }
}

/// If a rule does not answer for one vertex, the cycle discards the delayed scale-downs of the vertices before it.
#[test]
fn a_cycle_without_an_answer_learns_nothing_of_scale_downs() {
    let idle = |second| {
        let mut source = overloaded(second).remove(0);
        (source.parallelism, source.busy, source.lag) = (8, 10.0, 0.0);
        let sink = Now { id: "sink", inputs: vec!["source"], ..source.clone() };
        vec![Now { id: "a", ..source.clone() }, source, sink]
    };
    let of = |expression| {
        let mut job = Job::new(&[AT_ONCE, &[("scale-down.interval", "1 h"), MODE]].concat());
        job.rules = rules(&[("alignments.mine.expression", expression)]);
        job.cycle(at(0), &idle(0));
        job.cycle(at(60), &idle(60))
    };
    let cycle = of("vertex.id == 'sink' ? 0 : null");
    assert!(matches!(cycle.outcome, Outcome::Unanswered(_)), "{:?}", cycle.outcome);
    assert_eq!(cycle.state.delayed, Delayed::default());
    assert_ne!(of("null").state.delayed, Delayed::default());
}

fn executed(first: &str, second: &str, options: &[(&str, &str)]) -> Cycle {
    let defined = [("executors.first.expression", first), ("executors.second.expression", second)];
    with(&defined, &[&[EXECUTORS], options].concat()).1
}

#[test]
fn executors_approve_or_change_a_decision_one_after_the_other() {
    assert_eq!(executed("true", "true", &[]).state.overrides, [("source".into(), 3)].into());
    let parameter = ("scaling.custom-executor.second.most", "5");
    let cycle = executed(
        "scalings == {'source': {'current': 1, 'new': 3}} ? {'source': 8} : false",
        "scalings.source.new == 8 && vertices.source.metrics.TRUE_PROCESSING_RATE.average > 1.0 \
         ? {'source': int(parameters.most)} : false",
        &[parameter],
    );
    assert_eq!(cycle.outcome, Outcome::Scaled);
    assert_eq!(cycle.state.overrides, [("source".into(), 5)].into());
    let steps = steps(&cycle);
    assert!(
        steps.ends_with(&[
            "decided by executor `first`: 8".to_owned(),
            "decided by executor `second`: 5".to_owned()
        ]),
        "{steps:?}"
    );
    // The expected gain is later compared with the actual one.
    let scaling = &cycle.state.scaling_history[&"source".into()][&at(60)];
    assert_eq!(scaling.figures.current(Metric::ExpectedProcessingRate), 500.0);
    assert_eq!(of_source(&cycle).expected_rate, Some(500.0));
    assert!(cycle.events[0].message.contains("Parallelism 1 -> 5"), "{:?}", cycle.events);
}

#[test]
fn an_executor_may_refuse_a_decision() {
    let cycle = executed("'not on Fridays'", "true", &[]);
    let by = Id { kind: Kind::Executor, name: "first".into() };
    assert_eq!(cycle.outcome, Outcome::Vetoed(by, Some("not on Fridays".to_owned())));
    assert!(cycle.outcome.is_balanced());
    assert_eq!(cycle.state.overrides, BTreeMap::new());
    let [event] = cycle.events.as_slice() else { panic!("{:?}", cycle.events) };
    assert_eq!((event.reason, event.key.as_str()), ("ScalingVetoed", "ScalingVetoed:first"));
    assert!(event.message.contains("executor `first` refuses the decision: not on Fridays"));
    for refusal in ["false", "{}", "{'source': 1}"] {
        let cycle = executed("true", refusal, &[]);
        assert!(matches!(cycle.outcome, Outcome::Vetoed(_, None)), "{refusal}");
        assert_eq!(cycle.outcome.to_string(), "executor `second` refuses the decision");
    }
}

#[test]
fn what_an_executor_wants_is_within_limits_and_quotas() {
    let of = |first, options: &[(&str, &str)]| executed(first, "true", options);
    let unknown = "there is no vertex `sink` that can be scaled now";
    check_unanswered(&of("{'source': 3, 'sink': 2}", &[]), unknown);
    let limit = "vertex `source`: parallelism 200 is not between 1 and 128";
    check_unanswered(&of("{'source': 200}", &[]), limit);
    check_unanswered(
        &of("{'source': 3.5}", &[]),
        "vertex `source`: a parallelism is not a whole number",
    );
    let none = "its answer is not `true`, `false`, a text, or an object with the parallelism of \
                vertices";
    for nonsense in ["null", "3", "['source']"] {
        check_unanswered(&of(nonsense, &[]), none);
    }
    let defined = [("executors.first.expression", "{'source': 8}")];
    let options = [("scaling.custom-executors", "first"), ("quota.cpu", "5")];
    let (_, cycle) = decided(&options, |job| {
        job.rules = rules(&defined);
        job.task_manager.cpu = Some(1.0);
    });
    assert_eq!(cycle.outcome, Outcome::Quota(Exceeded::Cpu { needed: 8.0, quota: 5.0 }));
}

#[test]
fn executors_are_asked_only_about_what_is_to_be_carried_out() {
    let disabled = executed("1", "1", &[("scaling.enabled", "false")]);
    assert_eq!(disabled.outcome, Outcome::Disabled(Disabled::Scaling));
    let defined = [("executors.first.expression", "{'source': 4, 'sink': 2}")];
    let options = [("scaling.custom-executors", "first"), ("vertex.exclude.ids", "sink")];
    let mut job = Job::new(&[AT_ONCE, &options].concat());
    job.rules = rules(&defined);
    let both = |second| {
        let source = overloaded(second).remove(0);
        let sink = Now { id: "sink", inputs: vec!["source"], ..source.clone() };
        vec![source, sink]
    };
    job.cycle(at(0), &both(0));
    let cycle = job.cycle(at(60), &both(60));
    check_unanswered(&cycle, "there is no vertex `sink` that can be scaled now");
}

#[test]
fn an_executor_may_scale_others_with_it() {
    let defined = [("executors.first.expression", "{'source': 4, 'sink': 4}")];
    let options = [("scaling.custom-executors", "first")];
    let mut job = Job::new(&[AT_ONCE, &options].concat());
    job.rules = rules(&defined);
    job.cycle(at(0), &both(0));
    let cycle = job.cycle(at(60), &both(60));
    assert_eq!(cycle.outcome, Outcome::Scaled);
    assert_eq!(cycle.state.overrides, [("sink".into(), 4), ("source".into(), 4)].into());
    let scaling = &cycle.scalings[&"sink".into()];
    assert_eq!((scaling.current, scaling.new), (2, 4));
    assert!(scaling.figures.current(Metric::ExpectedProcessingRate) > 0.0);
}

/// The second cycle of a job, whose questions are answered by `answer`.
fn answered(
    options: &[(&str, &str)],
    vertices: impl Fn(i64) -> Vec<Now>,
    mut answer: impl FnMut(&Question) -> Result<Value, String>,
) -> Cycle {
    let job = Job::new(&[AT_ONCE, options].concat());
    let mut cycle = |state: &State, second: i64| {
        let now = vertices(second);
        let topology = Topology::new(now.iter().map(Now::vertex).collect()).unwrap();
        let reading =
            Reading { vertices: now.iter().map(Now::reading).collect(), ..Reading::default() };
        let mut answers = Answers::new();
        loop {
            let facts = Facts {
                now: at(second),
                zone: &TimeZone::UTC,
                settings: &job.settings,
                config: &job.config,
                topology: &topology,
                running_since: at(0),
                reading: &reading,
                task_manager: TaskManager::default(),
                pods: None,
                capacity: None,
                asking: Asking { job: None, answers: Some(&answers) },
            };
            let cycle = run(state.clone(), &facts);
            let Outcome::Asks(question) = &cycle.outcome else { return cycle };
            let answer = answer(question);
            assert_eq!(answers.insert(question.key(), answer), None, "each question once");
        }
    };
    let first = cycle(&State::default(), 0);
    cycle(&first.state, 60)
}

fn both(second: i64) -> Vec<Now> {
    let source = overloaded(second).remove(0);
    let sink = Now { id: "sink", inputs: vec!["source"], busy: 700.0, ..source.clone() };
    vec![source, Now { parallelism: 2, ..sink }]
}

/// Any answer that a rule may give; often a valid one.
fn any_answer() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        4 => (1_u32..140).prop_map(Value::from),
        1 => Just(json!(0)),
        1 => Just(json!(-1)),
        1 => Just(json!(2.5)),
        1 => Just(json!(1e308)),
        1 => Just(json!(u64::MAX)),
        1 => Just(json!("4")),
        1 => Just(Value::Null),
    ];
    let key = prop::sample::select(vec![
        "source",
        "sink",
        "gone",
        "TARGET_DATA_RATE",
        "TRUE_PROCESSING_RATE",
        "CATCH_UP_DATA_RATE",
        "SCALE_UP_RATE_THRESHOLD",
        "SCALE_DOWN_RATE_THRESHOLD",
        "PARALLELISM",
    ]);
    let object = prop::collection::btree_map(key, number.clone(), 0..3);
    let object = object.prop_map(|of| json!(of)).boxed();
    prop_oneof![
        2 => number,
        4 => object,
        2 => Just(Value::Bool(true)),
        1 => Just(Value::Bool(false)),
        1 => Just(json!("no")),
        1 => Just(json!([])),
    ]
}

proptest! {
    #[test]
    fn whatever_rules_answer_limits_hold_or_nothing_is_decided(
        answers in prop::collection::vec(prop_oneof![5 => any_answer().prop_map(Ok), 1 => Just(Err("no".to_owned()))], 12),
    ) {
        let mut answers = answers.into_iter();
        let options = [EVALUATOR, EXECUTORS, MODE, ("vertex.max-parallelism", "100")];
        let cycle = answered(&options, both, |_| answers.next().unwrap_or(Ok(Value::Null)));
        let overrides = &cycle.state.overrides;
        if cycle.outcome == Outcome::Scaled {
            prop_assert_eq!(overrides.len(), 2);
            prop_assert!(overrides.values().all(|of| (1..=100).contains(of)), "{:?}", overrides);
            for scaling in cycle.scalings.values() {
                prop_assert!(scaling.new != scaling.current);
            }
        } else {
            prop_assert_eq!(overrides, &BTreeMap::new());
            prop_assert_eq!(&cycle.scalings, &BTreeMap::new());
        }
    }
}

#[test]
fn what_leaves_the_process_has_no_secrets() {
    let options = [
        EVALUATOR,
        ("metrics.custom-evaluator.mine.api-password", "hush"),
        ("metrics.custom-evaluator.mine.address", "https://me:hush@example.com/x?sig=hush"),
        ("metrics.custom-evaluator.mine.rate", "5"),
        ("metrics.custom-evaluator.other.rate", "6"),
    ];
    let mut request = Value::Null;
    answered(&options, overloaded, |question| {
        request = question.request();
        Ok(Value::Null)
    });
    assert!(!request.to_string().contains("hush"), "{request}");
    assert_eq!(request["parameters"]["rate"], "5");
    assert_eq!(request["parameters"].as_object().unwrap().len(), 3);
    assert_eq!((&request["kind"], &request["name"]), (&json!("evaluator"), &json!("mine")));
    assert_eq!(request["vertex"]["id"], "source");
    assert_eq!(request["metrics"]["TARGET_DATA_RATE"], json!({ "average": 200.0 }));
    assert_eq!(request["job"]["isBacklog"], Value::Bool(false));
}
