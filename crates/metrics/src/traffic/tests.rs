use config::FlinkConfig;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn traffic() -> Traffic {
    let settings = Settings::of(&FlinkConfig::new()).unwrap();
    Traffic::new(&Settings { code_groups: true, ..settings })
}

/// Returns the values that are not zero.
fn described(traffic: &Traffic, now: Duration) -> Vec<String> {
    let families = traffic.families("Client", now);
    let value = |family: &Family| match &family.points[0].value {
        Value::Gauge(number) | Value::Count(number) => (*number != 0.0).then(|| number.to_string()),
        Value::Summary(summary) => Some(format!("{} of {}", summary.quantiles()[0], summary.count)),
    };
    families.iter().filter_map(|f| Some(format!("{} {}", f.name, value(f)?))).collect()
}

#[test]
fn requests_and_answers_are_counted() {
    let traffic = traffic();
    for (method, code) in [("GET", Some(200)), ("GET", Some(404)), ("PATCH", None)] {
        traffic.asked(method, SECOND);
        traffic.answered(code, SECOND * 5, SECOND);
    }
    assert_eq!(
        described(&traffic, SECOND),
        [
            "Client.HttpRequest.Count 3",
            "Client.HttpRequest.NumPerSecond 0.05",
            "Client.HttpRequest.Failed.Count 2",
            "Client.HttpRequest.Failed.NumPerSecond 0.03333333333333333",
            "Client.HttpResponse.Count 2",
            "Client.HttpResponse.NumPerSecond 0.03333333333333333",
            "Client.HttpResponse.200.Count 1",
            "Client.HttpResponse.200.NumPerSecond 0.016666666666666666",
            "Client.HttpResponse.404.Count 1",
            "Client.HttpResponse.404.NumPerSecond 0.016666666666666666",
            "Client.HttpResponse.2xx.Count 1",
            "Client.HttpResponse.2xx.NumPerSecond 0.016666666666666666",
            "Client.HttpResponse.4xx.Count 1",
            "Client.HttpResponse.4xx.NumPerSecond 0.016666666666666666",
            "Client.HttpRequest.GET.Count 2",
            "Client.HttpRequest.PATCH.Count 1",
            "Client.HttpRequest.Slow.Count 3",
            "Client.HttpResponse.TimeNanos 5000000000 of 2",
        ]
    );
}

#[test]
fn a_rate_is_that_of_the_last_minute() {
    let mut meter = Meter::default();
    // A clock that starts late.
    let start = Duration::from_secs(1_000_000);
    for second in 0..120 {
        meter.mark(start + SECOND * second);
    }
    assert_eq!(meter.count, 120);
    let rate = |after: u32| meter.per_second(start + SECOND * after);
    assert!((rate(119) - 1.0).abs() < 1e-9, "{}", rate(119));
    assert!((rate(149) - 0.5).abs() < 1e-9, "{}", rate(149));
    assert!(rate(180) < 1e-9, "{}", rate(180));
}

#[test]
fn what_is_off_counts_nothing() {
    let traffic = Traffic::default();
    traffic.asked("GET", SECOND);
    assert!(traffic.families("Client", SECOND).is_empty());
}
