use super::*;

fn ensemble(entries: &[(&str, &str)]) -> Result<Ensemble, Error> {
    let mut config: FlinkConfig = [
        ("high-availability.zookeeper.quorum", "a:2181, b:2181"),
        ("high-availability.cluster-id", "orders"),
    ]
    .into_iter()
    .collect();
    config.overlay(&entries.iter().copied().collect());
    Ensemble::from_config(&config, &FlinkConfig::default())
}

#[test]
fn paths_are_those_of_flink() {
    let found = ensemble(&[]).unwrap();
    assert_eq!(found.quorum, "a:2181,b:2181");
    assert_eq!(found.base(), "/flink/orders");
    assert_eq!(found.path("jobs"), "/flink/orders/jobs");
    assert_eq!(
        found.job_graphs(),
        ["/flink/orders/jobgraphs", "/flink/orders/execution-plans", "/flink/orders/applications",]
    );
    let inside = ensemble(&[("high-availability.zookeeper.quorum", "a:2181,b:2181/all/of/it")]);
    let inside = inside.unwrap();
    assert_eq!((&*inside.quorum, inside.base()), ("a:2181,b:2181", "/all/of/it/flink/orders"));
    let found = ensemble(&[
        ("high-availability.zookeeper.path.root", "/team/a/"),
        ("high-availability.zookeeper.path.jobgraphs", "graphs"),
        ("high-availability.zookeeper.path.applications", "apps"),
    ]);
    let found = found.unwrap();
    assert_eq!(found.base(), "/team/a/orders");
    assert_eq!(found.job_graphs(), ["/team/a/orders/graphs", "/team/a/orders/apps"]);
}

#[test]
fn a_place_that_would_be_everything_is_refused() {
    for id in ["", "/", "//"] {
        let error = ensemble(&[("high-availability.cluster-id", id)]).unwrap_err();
        assert!(error.to_string().contains("cluster-id` is empty"), "{error}");
    }
    let found = ensemble(&[
        ("high-availability.zookeeper.path.jobgraphs", "/"),
        ("high-availability.zookeeper.path.applications", "/"),
    ]);
    assert!(found.unwrap().job_graphs().is_empty());
    let error = ensemble(&[("high-availability.zookeeper.quorum", " ")]).unwrap_err();
    assert!(error.to_string().contains("names no servers"), "{error}");
}

/// A number of milliseconds until Flink 1.19, and a duration since then.
#[test]
fn the_connection_timeout_has_both_forms_of_flink() {
    for text in ["20000", "20 s"] {
        let timeout = ("high-availability.zookeeper.client.connection-timeout", text);
        assert_eq!(ensemble(&[timeout]).unwrap().connection_timeout, Duration::from_secs(20));
    }
}

#[test]
fn a_login_that_the_operator_does_not_have_is_said() {
    let creator = ("high-availability.zookeeper.client.acl", "creator");
    let error = ensemble(&[creator]).unwrap_err();
    assert_eq!(error.reason(), "ZooKeeperUnsupported");
    for part in ["Kerberos (SASL)", "client.authorization", "1.20"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let digest = ("high-availability.zookeeper.client.authorization", "digest:'me:secret'");
    let old = ("$internal.flink.version", "v1_19");
    let error = ensemble(&[creator, digest, old]).unwrap_err();
    assert_eq!(error.reason(), "ZooKeeperUnsupported", "Flink does not know the password: {error}");
    let new = ("$internal.flink.version", "v1_20");
    assert!(ensemble(&[creator, digest, new]).is_ok());
    let found = ensemble(&[creator, digest]).unwrap();
    assert_eq!(found.authorization, [("digest".to_owned(), "me:secret".to_owned())]);
    assert!(!format!("{found:?}").contains("secret"));
    let unquoted = ("high-availability.zookeeper.client.authorization", "digest:me:secret");
    assert!(!ensemble(&[unquoted]).unwrap_err().to_string().contains("secret"));
    let tls = ("env.java.opts.all", "-Xmx1g -Dzookeeper.client.secure=true");
    assert!(ensemble(&[tls]).unwrap_err().to_string().contains("requires TLS"));
}
