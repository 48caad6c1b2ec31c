//! Gateways and servers as the receivers of reports.

use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;

use super::*;

const PUSH_GATEWAY: &str = "prometheus.PrometheusPushGatewayReporterFactory";
const INFLUX_DB: &str = "influxdb.InfluxdbReporterFactory";
const STATSD: &str = "statsd.StatsDReporterFactory";
const GRAPHITE: &str = "graphite.GraphiteReporterFactory";
/// Beginnings of names: `StatsD` allows points within a host's name, Graphite does not.
const STATSD_SCOPE: &str = "pod.1.k8soperator.ops.op.system.";
const GRAPHITE_SCOPE: &str = "pod-1.k8soperator.ops.op.system.";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns what follows `begin` in the first line that begins with it, up to the line's end or the next word.
fn value<'l>(lines: &'l str, begin: &str) -> &'l str {
    let line = lines.lines().find_map(|line| line.strip_prefix(begin));
    let line = line.unwrap_or_else(|| panic!("no `{begin}` in {lines}"));
    let end = line.find([' ', '|']).unwrap_or(line.len());
    &line[..end]
}

#[tokio::test]
async fn a_push_gateway_has_the_page_until_the_operator_ends() {
    let (address, mut heard) = http_server().await;
    let url = format!("http://me:p%40ss@{address}/prefix/");
    let options = [
        ("hostUrl", url.as_str()),
        ("jobName", "flink operator"),
        ("groupingKey", "zone=a;rack=b"),
    ];
    let end = CancellationToken::new();
    let running = tokio::spawn(run(metrics(), reporter(PUSH_GATEWAY, &options), end.clone()));
    let (request, headers, body) = next(&mut heard).await;
    let path = request.strip_prefix("PUT ").expect(&request).to_owned();
    let suffix = path.strip_prefix("/prefix/metrics/job/flink%20operator").expect(&path);
    let suffix = suffix.strip_suffix("/zone/a/rack/b").expect(&path);
    assert!(suffix.len() == 32 && suffix.chars().all(|digit| digit.is_ascii_hexdigit()), "{path}");
    assert_eq!(headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    // `me:p@ss`
    assert_eq!(headers["authorization"], "Basic bWU6cEBzcw==");
    let body = text(&body);
    assert_ne!(value(&body, "process_threads "), "0.0");
    let of_operator = "{host=\"pod_1\",namespace=\"ops\",name=\"op\"} ";
    let count = format!("flink_k8soperator_KubeClient_HttpRequest_Count{of_operator}");
    assert_eq!(value(&body, &count), "0.0");
    // The next report is of the same group, which is deleted at the end.
    assert_eq!(next(&mut heard).await.0, format!("PUT {path}"));
    end.cancel();
    running.await.unwrap().unwrap();
    let mut last = next(&mut heard).await.0;
    while last.starts_with("PUT") {
        last = next(&mut heard).await.0;
    }
    assert_eq!(last, format!("DELETE {path}"));
}

#[tokio::test]
async fn a_group_stays_where_that_is_asked_for() {
    let (address, mut heard) = http_server().await;
    let url = format!("http://{address}");
    let options = [
        ("hostUrl", url.as_str()),
        ("jobName", "flink"),
        ("randomJobNameSuffix", "false"),
        ("deleteOnShutdown", "false"),
        ("filterLabelValueCharacters", "false"),
    ];
    let end = CancellationToken::new();
    let running = tokio::spawn(run(metrics(), reporter(PUSH_GATEWAY, &options), end.clone()));
    let (request, _, body) = next(&mut heard).await;
    assert_eq!(request, "PUT /metrics/job/flink");
    assert!(text(&body).contains("host=\"pod.1\""));
    end.cancel();
    running.await.unwrap().unwrap();
    while let Ok((request, ..)) = heard.try_recv() {
        assert_eq!(request, "PUT /metrics/job/flink");
    }
}

#[tokio::test]
async fn points_are_written_to_influxdb() {
    let (address, mut heard) = http_server().await;
    let (host, port) = address.split_once(':').unwrap();
    let options = [
        ("host", host),
        ("port", port),
        ("db", "flink"),
        ("retentionPolicy", "one hour"),
        ("username", "me"),
        ("password", "secret"),
    ];
    let running = start(INFLUX_DB, &options);
    let (request, headers, body) = next(&mut heard).await;
    running.abort();
    let query = "db=flink&precision=ms&consistency=one&rp=one+hour";
    assert_eq!(request, format!("POST /write?{query}"));
    assert_eq!(headers["authorization"], "Basic bWU6c2VjcmV0");
    let body = text(&body);
    let tags = "host=pod.1,namespace=ops,name=op";
    let count = format!("k8soperator_KubeClient_HttpRequest_Count,{tags} count=");
    assert_eq!(value(&body, &count), "0i");
    assert_ne!(value(&body, &format!("process_threads,{tags} value=")), "0");
    let time: i64 = body.lines().next().unwrap().rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!((Timestamp::now().as_millisecond() - time).abs() < 60_000, "{time}");
}

#[tokio::test]
async fn statsd_is_sent_gauges() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let running = start(STATSD, &[("host", "localhost"), ("port", &port)]);
    let lines = received(&server, &format!("{STATSD_SCOPE}process_threads")).await;
    running.abort();
    assert!(lines.lines().all(|line| line.ends_with("|g")), "{lines}");
    assert_eq!(value(&lines, &format!("{STATSD_SCOPE}KubeClient.HttpRequest.Count:")), "0");
    assert_ne!(value(&lines, &format!("{STATSD_SCOPE}process_threads:")), "0");
}

/// Returns what arrives in packets, up to the one with `last`.
async fn received(server: &UdpSocket, last: &str) -> String {
    let (mut lines, mut packet) = (String::new(), [0; 2000]);
    while !lines.contains(last) {
        let length = timeout(PATIENCE, server.recv(&mut packet)).await.unwrap().unwrap();
        assert!(length <= 1400, "{length}");
        lines.push_str(&text(&packet[..length]));
    }
    lines
}

#[tokio::test]
async fn graphite_is_sent_lines_over_a_connection() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let options = [("host", "127.0.0.1"), ("port", port.as_str()), ("prefix", "flink")];
    let running = start(GRAPHITE, &options);
    // Each report has its own connection.
    let mut lines = String::new();
    let (mut stream, _) = timeout(PATIENCE, server.accept()).await.unwrap().unwrap();
    timeout(PATIENCE, stream.read_to_string(&mut lines)).await.unwrap().unwrap();
    drop(timeout(PATIENCE, server.accept()).await.unwrap().unwrap());
    running.abort();
    let scope = format!("flink.{GRAPHITE_SCOPE}");
    assert_eq!(value(&lines, &format!("{scope}KubeClient.HttpRequest.Count.count ")), "0");
    assert_ne!(value(&lines, &format!("{scope}process_threads ")), "0");
    let time: i64 = lines.lines().next().unwrap().rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!((Timestamp::now().as_second() - time).abs() < 60, "{time}");
}

#[tokio::test]
async fn graphite_takes_packets_as_well() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    once(GRAPHITE, &[("host", "127.0.0.1"), ("port", &port), ("protocol", "UDP")]).await.unwrap();
    let lines = received(&server, &format!("{GRAPHITE_SCOPE}process_threads")).await;
    assert_ne!(value(&lines, &format!("{GRAPHITE_SCOPE}process_threads ")), "0");
}

#[tokio::test]
async fn one_that_is_away_is_reported_without_secrets() {
    // The listener is gone, so its port is closed.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let port = gone.port().to_string();
    let user = [("username", "me"), ("password", "secret")];
    let server = [("host", "127.0.0.1"), ("port", port.as_str())];
    let url = format!("http://me:secret@{gone}");
    for (class, options) in [
        (GRAPHITE, server.to_vec()),
        (INFLUX_DB, [&server[..], &user, &[("db", "flink")]].concat()),
        (PUSH_GATEWAY, vec![("hostUrl", url.as_str())]),
    ] {
        let error = once(class, &options).await.unwrap_err().to_string();
        assert!(error.starts_with("no answer: ") && !error.contains("secret"), "{error}");
    }
}
