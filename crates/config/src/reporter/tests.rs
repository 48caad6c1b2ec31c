use super::*;

fn read(entries: &[(&str, &str)]) -> Reporters {
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
    assert_eq!(read(&[class]).all, [prometheus(&[9249])]);
    let read = read(&[
        class,
        ("metrics.reporter.prom.port", "9250, 9260-9262"),
        ("metrics.reporter.prom.filterLabelValueCharacters", "false"),
    ]);
    let expected = Prometheus { ports: vec![9250, 9260, 9261, 9262], filters_label_values: false };
    assert_eq!(
        read,
        Reporters { all: vec![Reporter::Prometheus(expected)], without_effect: vec![] }
    );
}

#[test]
fn without_a_reporter_there_is_none() {
    assert_eq!(read(&[("metrics.histogram.sample.size", "10")]), Reporters::default());
    // The option for jobs is not the operator's.
    let of_jobs: FlinkConfig =
        [("metrics.reporter.prom.factory.class", PROMETHEUS)].into_iter().collect();
    assert_eq!(Reporters::of(&of_jobs), Reporters::default());
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
    assert_eq!(read(&chosen).all, [prometheus(&[9300])]);
    assert_eq!(read(&entries).all.len(), 2);
}

#[test]
fn what_has_no_effect_is_reported() {
    let told: Vec<String> = read(&[
        ("metrics.reporter.jmx.factory.class", "org.apache.flink.metrics.jmx.JMXReporterFactory"),
        (
            "metrics.reporter.dd.factory.class",
            "org.apache.flink.metrics.datadog.DatadogHttpReporterFactory",
        ),
        ("metrics.reporter.dd.apikey", "secret"),
        ("metrics.reporter.prom.factory.class", PROMETHEUS),
        ("metrics.reporter.prom.prot", "1"),
        ("metrics.reporter.nothing.port", "1"),
        ("metrics.reporter.mine.factory.class", "com.example.Mine"),
        ("metrics.reporters", "dd,jmx,prom,nothing,mine,other"),
    ])
    .without_effect
    .iter()
    .map(ToString::to_string)
    .collect();
    assert_eq!(
        told,
        [
            "`kubernetes.operator.metrics.reporter.dd.factory.class` has no effect: Datadog's own \
             API is not supported; use the OpenTelemetry or StatsD reporter with its agent, or let \
             the agent scrape the Prometheus reporter",
            "`kubernetes.operator.metrics.reporter.jmx.factory.class` has no effect: JMX needs a \
             JVM, and there is none here; use the Prometheus reporter",
            "`kubernetes.operator.metrics.reporter.mine.factory.class` has no effect: reporter \
             `com.example.Mine` is not supported: expected one of Flink's \
             prometheus.PrometheusReporterFactory, otel.OpenTelemetryMetricReporterFactory, \
             prometheus.PrometheusPushGatewayReporterFactory, influxdb.InfluxdbReporterFactory, \
             statsd.StatsDReporterFactory, graphite.GraphiteReporterFactory, \
             slf4j.Slf4jReporterFactory",
            "`kubernetes.operator.metrics.reporter.nothing` has no effect: the reporter has no `factory.class`",
            "`kubernetes.operator.metrics.reporter.prom.prot` has no effect: the reporter supports \
             port, filterLabelValueCharacters",
            "`kubernetes.operator.metrics.reporters` has no effect: there are no options for a \
             reporter `other`",
        ]
    );
}

#[test]
fn a_reporter_that_cannot_start_keeps_no_other_from_starting() {
    let read = read(&[
        ("metrics.reporter.a.factory.class", PROMETHEUS),
        ("metrics.reporter.a.port", "none"),
        ("metrics.reporter.a.prot", "1"),
        ("metrics.reporter.b.factory.class", PROMETHEUS),
    ]);
    assert_eq!(read.all, [prometheus(&[9249])]);
    let told: Vec<String> = read.without_effect.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "`kubernetes.operator.metrics.reporter.a` has no effect: invalid value `none` of \
             `kubernetes.operator.metrics.reporter.a.port`: expected a port, or several such as \
             `9249,9260-9270`",
            "`kubernetes.operator.metrics.reporter.a.prot` has no effect: the reporter supports \
             port, filterLabelValueCharacters",
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
        let error = only_remark(&error);
        assert!(error.contains("metrics.reporter.prom.port"), "{text}: {error}");
    }
}

/// A reporter of a class, with more options.
fn read_one(class: &str, options: &[(&str, &str)]) -> Reporters {
    let keys: Vec<String> =
        options.iter().map(|(key, _)| format!("metrics.reporter.it.{key}")).collect();
    let mut entries = vec![("metrics.reporter.it.factory.class", class)];
    entries.extend(keys.iter().map(String::as_str).zip(options.iter().map(|(_, value)| *value)));
    read(&entries)
}

/// Why its only reporter cannot start.
fn only_remark(reporters: &Reporters) -> String {
    let Reporters { all, without_effect } = reporters;
    let ([], [remark]) = (all.as_slice(), without_effect.as_slice()) else {
        panic!("{reporters:?}")
    };
    remark.to_string()
}

/// Returns the settings of a reporter whose options are all valid.
fn push(class: &str, options: &[(&str, &str)]) -> Push {
    let Reporters { all, without_effect } = read_one(class, options);
    assert_eq!(without_effect, []);
    let [Reporter::Push(push)] = all.as_slice() else { panic!("{all:?}") };
    push.clone()
}

#[test]
fn a_collector_gets_grpc_unless_http_is_set() {
    let endpoint = ("exporter.endpoint", "http://collector:4317");
    let expected = Otlp {
        endpoint: "http://collector:4317".parse().unwrap(),
        protocol: Protocol::Grpc,
        is_compressed: false,
        headers: vec![],
        trusted_certificates: None,
        client_certificate: None,
        service: "flink-kubernetes-operator".to_owned(),
        version: None,
    };
    let seconds = Duration::from_secs(10);
    let defaults =
        Push { interval: seconds, timeout: seconds, to: To::Otlp(expected.clone().into()) };
    assert_eq!(push(OTLP, &[endpoint]), defaults);
    assert_eq!(push(OTLP, &[endpoint, ("exporter.protocol", "gRPC")]), defaults);
    let all = push(
        OTLP,
        &[
            ("exporter.endpoint", "https://collector:4318/v1/metrics"),
            ("exporter.protocol", "HTTP"),
            ("exporter.timeout", "3 s"),
            ("exporter.compression", "gzip"),
            ("exporter.http-headers", "Authorization=Basic%20dXNlcjpwYXNz, X-Tenant=a,X-None="),
            ("exporter.ssl.trusted-certificates", "/tls/ca.crt"),
            ("exporter.ssl.client-certificate", "/tls/tls.crt"),
            ("exporter.ssl.client-key", "/tls/tls.key"),
            ("interval", "1 min"),
            ("service.name", "flink"),
            ("service.version", "7"),
        ],
    );
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let to = Otlp {
        endpoint: "https://collector:4318/v1/metrics".parse().unwrap(),
        protocol: Protocol::Http,
        is_compressed: true,
        headers: vec![header("Authorization", "Basic dXNlcjpwYXNz"), header("X-Tenant", "a")],
        trusted_certificates: Some("/tls/ca.crt".into()),
        client_certificate: Some(("/tls/tls.crt".into(), "/tls/tls.key".into())),
        service: "flink".to_owned(),
        version: Some("7".to_owned()),
    };
    let (interval, timeout) = (Duration::from_mins(1), Duration::from_secs(3));
    assert_eq!(all, Push { interval, timeout, to: To::Otlp(to.into()) });
}

#[test]
fn a_protocol_that_flink_does_not_know_is_grpc() {
    let endpoint = ("exporter.endpoint", "http://collector:4317");
    let reporters = read_one(OTLP, &[endpoint, ("exporter.protocol", "htpp")]);
    let [Reporter::Push(Push { to: To::Otlp(otlp), .. })] = reporters.all.as_slice() else {
        panic!("{reporters:?}")
    };
    assert_eq!(otlp.protocol, Protocol::Grpc);
    assert_eq!(
        reporters.without_effect[0].to_string(),
        "`kubernetes.operator.metrics.reporter.it.exporter.protocol` has no effect: `htpp` is \
         neither `gRPC` nor `HTTP`; gRPC is used"
    );
}

#[test]
fn wrong_options_of_a_collector_are_reported_without_their_secrets() {
    let endpoint = ("exporter.endpoint", "http://collector:4317");
    for (options, expected) in [
        (vec![], "such as `http://collector:4317`"),
        (vec![("exporter.protocol", "http")], "such as `http://collector:4318/v1/metrics`"),
        (vec![("exporter.endpoint", "grpc://me:secret@collector")], "`***`"),
        (vec![endpoint, ("exporter.http-headers", "Bearer secret")], "`***`"),
        (vec![endpoint, ("exporter.compression", "zstd")], "`gzip` or `none`"),
        (vec![endpoint, ("exporter.ssl.client-key", "/k")], "`exporter.ssl.client-certificate`"),
        (vec![endpoint, ("exporter.ssl.client-certificate", "/c")], "`exporter.ssl.client-key`"),
        (vec![endpoint, ("interval", "10 ms")], "at least a second"),
    ] {
        let told = only_remark(&read_one(OTLP, &options));
        assert!(told.contains(expected) && !told.contains("secret"), "{told}");
    }
}

#[test]
fn a_push_gateway_has_a_group_that_goes_with_the_operator() {
    let url = ("hostUrl", "http://gateway:9091");
    let expected = PushGateway {
        url: "http://gateway:9091".parse().unwrap(),
        job: String::new(),
        has_suffix: true,
        grouping: vec![],
        is_deleted: true,
        filters_label_values: true,
    };
    assert_eq!(push(PUSH_GATEWAY, &[url]).to, To::PushGateway(expected.clone()));
    let former = [("host", "gateway"), ("port", "9091")];
    assert_eq!(push(PUSH_GATEWAY, &former).to, To::PushGateway(expected));
    let all = push(
        PUSH_GATEWAY,
        &[
            url,
            ("jobName", "flink"),
            ("randomJobNameSuffix", "false"),
            ("deleteOnShutdown", "false"),
            ("filterLabelValueCharacters", "false"),
            ("groupingKey", "k1=v1; k2=v2"),
            ("username", "me"),
            ("password", "p@ss"),
        ],
    );
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = PushGateway {
        url: "http://me:p%40ss@gateway:9091".parse().unwrap(),
        job: "flink".to_owned(),
        has_suffix: false,
        grouping: vec![label("k1", "v1"), label("k2", "v2")],
        is_deleted: false,
        filters_label_values: false,
    };
    assert_eq!(all.to, To::PushGateway(expected));
    let no_suffix = ("randomJobNameSuffix", "false");
    for (options, expected) in [
        (vec![], "`http://pushgateway:9091`"),
        (vec![("hostUrl", "me:secret@gateway")], "`***`"),
        (vec![("host", "gateway")], "a port"),
        (vec![url, no_suffix], "jobName"),
        (vec![url, ("jobName", "a/b")], "jobName"),
        (vec![url, ("groupingKey", "k1")], "groupingKey"),
        (vec![url, ("groupingKey", "k1=")], "groupingKey"),
    ] {
        let told = only_remark(&read_one(PUSH_GATEWAY, &options));
        assert!(told.contains(expected) && !told.contains("secret"), "{told}");
    }
}

#[test]
fn influxdb_is_written_to_by_its_first_version() {
    let required = [("host", "influx"), ("db", "flink")];
    let defaults = push(INFLUX_DB, &required);
    let url = "http://influx:8086/write?db=flink&precision=ms&consistency=one";
    assert_eq!(defaults.to, To::InfluxDb(url.parse().unwrap()));
    assert_eq!(defaults.timeout, Duration::from_secs(20));
    let more = [
        ("scheme", "https"),
        ("port", "443"),
        ("username", "me"),
        ("password", "pass"),
        ("retentionPolicy", "one hour"),
        ("consistency", "ANY"),
        ("connectTimeout", "1000"),
        ("writeTimeout", "500"),
    ];
    let all = push(INFLUX_DB, &[&required[..], &more].concat());
    let url = "https://me:pass@influx/write?db=flink&precision=ms&consistency=any&rp=one+hour";
    assert_eq!(all.to, To::InfluxDb(url.parse().unwrap()));
    assert_eq!(all.timeout, Duration::from_millis(1500));
    for (options, expected) in [
        (vec![("db", "flink")], ".host`"),
        (vec![("host", "influx")], ".db`"),
        (vec![("host", "a b"), ("db", "flink")], ".host`"),
        (vec![("scheme", "udp")], "`http` or `https`"),
        (vec![required[0], required[1], ("port", "0")], "a port"),
        (vec![required[0], required[1], ("consistency", "MOST")], "`QUORUM`"),
        (vec![required[0], required[1], ("writeTimeout", "1 s")], "milliseconds"),
    ] {
        let told = only_remark(&read_one(INFLUX_DB, &options));
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn statsd_and_graphite_have_a_host_and_a_port() {
    let address = [("host", "server"), ("port", "2003")];
    let scopes = Scopes::of(&FlinkConfig::new()).unwrap();
    let (host, port) = ("server".to_owned(), 2003);
    let server = Server { host, port, transport: Transport::Udp, prefix: None, scopes };
    assert_eq!(push(STATSD, &address).to, To::StatsD(server.clone()));
    let server = Server { transport: Transport::Tcp, ..server };
    assert_eq!(push(GRAPHITE, &address).to, To::Graphite(server.clone()));
    let more = [address[0], address[1], ("protocol", "UDP"), ("prefix", "a.b")];
    let prefix = Some("a.b".to_owned());
    let server = Server { transport: Transport::Udp, prefix, ..server };
    assert_eq!(push(GRAPHITE, &more).to, To::Graphite(server));
    let unknown = [address[0], address[1], ("protocol", "SCTP")];
    for (options, expected) in
        [(&address[..1], "a port"), (&address[1..], "a host"), (&unknown, "`TCP` or `UDP`")]
    {
        let told = only_remark(&read_one(GRAPHITE, options));
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn the_log_is_a_reporter_with_formats_of_its_own() {
    let class = ("metrics.reporter.slf4j.factory.class", LOG);
    // As in the chart of the Java operator.
    let interval = ("metrics.reporter.slf4j.interval", "5 MINUTE");
    let scope = ("metrics.scope.k8soperator.resource", "<resourcens>.<resourcename>");
    let reporters = read(&[class, interval, scope]);
    let [Reporter::Push(Push { interval: found, to: To::Log(scopes), .. })] =
        reporters.all.as_slice()
    else {
        panic!("{reporters:?}")
    };
    assert_eq!(*found, Duration::from_mins(5));
    assert_eq!(scopes.resource, "<resourcens>.<resourcename>");
    assert_eq!(scopes.system, "<host>.k8soperator.<namespace>.<name>.system");
    only_remark(&read(&[class, ("metrics.reporter.slf4j.interval", "often")]));
}
