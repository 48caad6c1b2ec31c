use expect_test::expect;

use super::*;
use crate::metric::{Evaluated, Figures};
use crate::settings::tests::settings;

fn scalings() -> BTreeMap<VertexId, Scaling> {
    let scaling = |current, new, rate, expected, target| {
        let mut figures = Figures::default();
        figures.set(Metric::TrueProcessingRate, Evaluated::average(rate));
        figures.set(Metric::ExpectedProcessingRate, Evaluated::of(expected));
        figures.set(Metric::TargetDataRate, Evaluated::average(target));
        Scaling { current, new, figures }
    };
    [
        ("ea632d67b7d595e5b851708ae9ad79d6".into(), scaling(1, 4, 588.235, 2352.94, 500.0)),
        ("20ba6b65f97481d5570070de90e4e791".into(), scaling(5, 2, f64::INFINITY, 9.995, 0.0)),
    ]
    .into()
}

#[test]
fn section_11_the_report_is_read_by_tools() {
    let event = Event::report(&scalings(), None, None, &settings(&[]));
    expect![[r#"Scaling execution enabled, begin scaling vertices:{ Vertex ID 20ba6b65f97481d5570070de90e4e791 | Parallelism 5 -> 2 | Processing capacity Infinity -> 10.00 | Target data rate 0.00}{ Vertex ID ea632d67b7d595e5b851708ae9ad79d6 | Parallelism 1 -> 4 | Processing capacity 588.24 -> 2352.94 | Target data rate 500.00}"#]]
        .assert_eq(&event.message);
    assert_eq!((event.reason, event.key.as_str()), ("ScalingReport", "ScalingExecutor"));
    assert_eq!((event.interval, event.parallelism), (None, None), "it is always told");
}

#[test]
fn section_11_a_report_names_what_disables_scaling() {
    let settings = settings(&[("excluded.periods", "9:00-10:00;* * 12 * * ?")]);
    let event = Event::report(&scalings(), Some(&Disabled::Scaling), None, &settings);
    let start = "Scaling execution disabled by config job.autoscaler.scaling.enabled:false, \
                 recommended parallelism change:{ Vertex ID ";
    assert!(event.message.starts_with(start), "{}", event.message);
    assert_eq!(event.interval, Some(Duration::from_mins(30)));
    assert_eq!(event.parallelism, Some(parallelism_hash(&scalings())));
    let period = Disabled::Period("9:00-10:00".to_owned());
    let event = Event::report(&scalings(), Some(&period), None, &settings);
    let start = "Scaling execution disabled by config job.autoscaler.excluded.periods:\
                 [9:00-10:00, * * 12 * * ?], recommended";
    assert!(event.message.starts_with(start), "{}", event.message);
}

#[test]
fn the_hash_is_that_of_a_java_map() {
    assert_eq!(java_hash(""), 0);
    assert_eq!(java_hash("a"), 97);
    assert_eq!(java_hash("Parallelism 1 -> 2"), {
        let text = "Parallelism 1 -> 2";
        text.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
    });
    // "polygenelubricants".hashCode() is Integer.MIN_VALUE.
    assert_eq!(java_hash("polygenelubricants"), 1 << 31);
    let all = parallelism_hash(&scalings());
    assert!(all < 1 << 31);
    let mut other = scalings();
    for scaling in other.values_mut() {
        scaling.figures = Figures::default();
    }
    assert_eq!(parallelism_hash(&other), all, "only parallelism counts");
    other.pop_first();
    assert_ne!(parallelism_hash(&other), all);
}

#[test]
fn section_11_reasons_and_keys() {
    let settings = settings(&[("scaling.effectiveness.detection.enabled", "true")]);
    let id = VertexId::from("ab");
    let limited = Limited { expected: 20, actual: 15, parts: 15, upper: 200, lower: 1 };
    let ineffective = Ineffective { expected: 100.0, actual: 2.5 };
    let events = [
        Event::limited(&id, limited, &settings),
        Event::ineffective(&id, ineffective, &settings),
        Event::gc_pressure(0.5, &settings),
        Event::heap_usage(0.9, &settings),
        Event::quota(Exceeded::UnknownCpu, &settings),
    ];
    let lines = events.iter().map(|event| {
        let Event { is_warning, reason, message, key, .. } = event;
        format!("{is_warning} {reason} [{key}] {message}\n")
    });
    let text = lines.collect::<Vec<_>>().concat();
    expect![[r"
        true ScalingLimited [ScalingLimitedab] vertex ab gets parallelism 15 instead of 20, to fit 15 key groups or partitions from 1 to 200
        false IneffectiveScaling [ineffectiveab100] the last scale-up of vertex ab should have added 100.00 records per second, but added 2.50: it is not scaled up further
        false MemoryPressure [gcPressure] garbage collection takes 0.50 of the time, more than `job.autoscaler.memory.gc-pressure.threshold`: the job is not scaled; give it more memory
        false MemoryPressure [heapUsage] 0.90 of the heap is in use, more than `job.autoscaler.memory.heap-usage.threshold`: the job is not scaled; give it more memory
        true ResourceQuotaReached [ResourceQuotaReached] the job is not scaled up: there is a CPU quota, but the resource does not say how many CPUs a TaskManager has
    "]]
    .assert_eq(&text);
}

#[test]
fn what_a_report_advises_can_be_read_again() {
    let advice = Event::report(&scalings(), Some(&Disabled::Scaling), None, &settings(&[]));
    let read = advised(&advice.message).unwrap();
    assert_eq!(
        read,
        [
            ("20ba6b65f97481d5570070de90e4e791".to_owned(), 5, 2),
            ("ea632d67b7d595e5b851708ae9ad79d6".to_owned(), 1, 4),
        ]
    );
    let done = Event::report(&scalings(), None, None, &settings(&[]));
    assert_eq!(advised(&done.message), None);
    assert_eq!(advised("nothing of the kind"), None);
}
