use super::*;

fn read(entries: &[(&str, &str)]) -> Result<Reporters, InvalidValue> {
    let mut config = FlinkConfig::new();
    for (key, value) in entries {
        config.set(format!("kubernetes.operator.{key}"), *value);
    }
    Reporters::of(&config)
}

fn prometheus(ports: &[u16]) -> Reporter {
    Reporter::Prometheus(Prometheus { ports: ports.to_vec(), filters_label_values: true })
}

#[test]
fn flinks_names_choose_a_reporter() {
    let class = ("metrics.reporter.prom.factory.class", PROMETHEUS);
    assert_eq!(read(&[class]).unwrap().all, [prometheus(&[9249])]);
    let read = read(&[
        class,
        ("metrics.reporter.prom.port", "9250, 9260-9262"),
        ("metrics.reporter.prom.filterLabelValueCharacters", "false"),
    ]);
    let expected = Prometheus { ports: vec![9250, 9260, 9261, 9262], filters_label_values: false };
    assert_eq!(
        read.unwrap(),
        Reporters { all: vec![Reporter::Prometheus(expected)], without_effect: vec![] }
    );
}

#[test]
fn without_a_reporter_there_is_none() {
    assert_eq!(read(&[("metrics.histogram.sample.size", "10")]).unwrap(), Reporters::default());
    // That of jobs is not the operator's.
    let of_jobs: FlinkConfig =
        [("metrics.reporter.prom.factory.class", PROMETHEUS)].into_iter().collect();
    assert_eq!(Reporters::of(&of_jobs).unwrap(), Reporters::default());
}

#[test]
fn a_list_of_reporters_leaves_out_the_others() {
    let entries = [
        ("metrics.reporter.a.factory.class", PROMETHEUS),
        ("metrics.reporter.b.factory.class", PROMETHEUS),
        ("metrics.reporter.b.port", "9300"),
    ];
    let mut chosen = entries.to_vec();
    chosen.push(("metrics.reporters", "b"));
    assert_eq!(read(&chosen).unwrap().all, [prometheus(&[9300])]);
    assert_eq!(read(&entries).unwrap().all.len(), 2);
}

#[test]
fn what_has_no_effect_is_told() {
    let told: Vec<String> = read(&[
        ("metrics.reporter.jmx.factory.class", "org.apache.flink.metrics.jmx.JMXReporterFactory"),
        ("metrics.reporter.prom.factory.class", PROMETHEUS),
        ("metrics.reporter.prom.prot", "1"),
        ("metrics.reporter.nothing.port", "1"),
        ("metrics.reporters", "jmx,prom,nothing,other"),
    ])
    .unwrap()
    .without_effect
    .iter()
    .map(ToString::to_string)
    .collect();
    assert_eq!(
        told,
        [
            "`kubernetes.operator.metrics.reporter.jmx.factory.class` has no effect: there is no reporter \
             `org.apache.flink.metrics.jmx.JMXReporterFactory` here, but \
             `org.apache.flink.metrics.prometheus.PrometheusReporterFactory`, \
             `org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory` and \
             `org.apache.flink.metrics.slf4j.Slf4jReporterFactory`",
            "`kubernetes.operator.metrics.reporter.nothing` has no effect: its reporter has no `factory.class`",
            "`kubernetes.operator.metrics.reporter.prom.prot` has no effect: its reporter knows port, \
             filterLabelValueCharacters",
            "`kubernetes.operator.metrics.reporters` has no effect: there are no options of a reporter `other`",
        ]
    );
}

#[test]
fn ports_are_read_or_refused() {
    for text in ["", "x", "1-", "70000", "5-4", "1,,2", "1-2000"] {
        let error = read(&[
            ("metrics.reporter.prom.factory.class", PROMETHEUS),
            ("metrics.reporter.prom.port", text),
        ]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("metrics.reporter.prom.port"), "{text}: {error}");
    }
}

#[test]
fn a_collector_is_told_over_http() {
    let class = ("metrics.reporter.otel.factory.class", OTLP);
    let http = ("metrics.reporter.otel.exporter.protocol", "HTTP");
    let endpoint = ("metrics.reporter.otel.exporter.endpoint", "http://collector:4318/v1/metrics");
    let read_all = read(&[class, http, endpoint, ("metrics.reporter.otel.interval", "1 min")]);
    let expected = Otlp {
        endpoint: "http://collector:4318/v1/metrics".parse().unwrap(),
        interval: Duration::from_mins(1),
        timeout: Duration::from_secs(10),
        service: "flink-kubernetes-operator".to_owned(),
        version: None,
    };
    assert_eq!(read_all.unwrap().all, [Reporter::Otlp(expected)]);
    let error = |entries: &[(&str, &str)]| read(entries).unwrap_err().to_string();
    let mistyped = ("metrics.reporter.otel.exporter.protocol", "htpp");
    assert!(error(&[class, endpoint, mistyped]).contains("expected `HTTP`"));
    let secret = ("metrics.reporter.otel.exporter.endpoint", "grpc://me:secret@collector");
    let told = error(&[class, http, secret]);
    assert!(told.contains("exporter.endpoint") && !told.contains("secret@"), "{told}");
    let often = ("metrics.reporter.otel.interval", "10 ms");
    assert!(error(&[class, http, endpoint, often]).contains("at least a second"));
}

#[test]
fn a_collector_that_takes_grpc_is_pointed_out_and_left_out() {
    let class = ("metrics.reporter.otel.factory.class", OTLP);
    let endpoint = ("metrics.reporter.otel.exporter.endpoint", "http://collector:4317");
    let grpc = ("metrics.reporter.otel.exporter.protocol", "gRPC");
    for entries in [&[class, endpoint][..], &[class, endpoint, grpc], &[class]] {
        let Reporters { all, without_effect } = read(entries).unwrap();
        assert!(all.is_empty(), "{all:?}");
        let told: Vec<String> = without_effect.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "`kubernetes.operator.metrics.reporter.otel` has no effect: gRPC is not spoken here, which is \
                 Flink's protocol where none is set; set \
                 `kubernetes.operator.metrics.reporter.otel.exporter.protocol: HTTP`, and `exporter.endpoint` \
                 to where the collector takes HTTP, such as `http://collector:4318/v1/metrics`"
            ]
        );
    }
}

#[test]
fn the_log_is_a_reporter_with_formats_of_its_own() {
    let class = ("metrics.reporter.slf4j.factory.class", LOG);
    // As the chart of the Java operator has it.
    let interval = ("metrics.reporter.slf4j.interval", "5 MINUTE");
    let scope = ("metrics.scope.k8soperator.resource", "<resourcens>.<resourcename>");
    let reporters = read(&[class, interval, scope]).unwrap();
    let Reporter::Log(Log { interval: found, scopes }) = &reporters.all[0] else {
        panic!("{reporters:?}")
    };
    assert_eq!(*found, Duration::from_mins(5));
    assert_eq!(scopes.resource, "<resourcens>.<resourcename>");
    assert_eq!(scopes.system, "<host>.k8soperator.<namespace>.<name>.system");
    assert!(read(&[class, ("metrics.reporter.slf4j.interval", "often")]).is_err());
}
