//! The fake API server of the tests, and a real one.

use std::collections::BTreeSet;

use expect_test::expect_file;
use regex::Regex;

use super::script::{Script, parse, run};
use crate::support::fake_cluster::FakeCluster;

fn scripts() -> Vec<Script> {
    parse(include_str!("api-server.yaml"))
}

#[tokio::test]
async fn the_fake_api_server_answers_as_a_real_one() {
    let mut text = String::new();
    for script in scripts() {
        text += &run(&FakeCluster::new().client(), "default", &script).await;
    }
    expect_file!["api-server.txt"].assert_eq(&text);
}

/// What the fake reads from a request is in a script, or nobody knows whether a real API server reads it so.
#[test]
fn each_option_that_the_fake_knows_is_in_a_script() {
    let asked = include_str!("api-server.yaml");
    let store = concat!(
        include_str!("../support/fake_cluster/store.rs"),
        include_str!("../support/fake_cluster/rules.rs")
    );
    let names = |pattern: &str| -> BTreeSet<String> {
        let found = Regex::new(pattern).unwrap();
        found.captures_iter(store).map(|found| found[1].to_owned()).collect()
    };
    let options = names(r#"\.query\("(\w+)"\)"#);
    let fields = names(r#"body\["(\w+)"\]"#);
    let values = names(r#"Some\("([A-Z]\w+)"\)"#);
    assert!(options.len() > 5 && fields.len() > 2 && values.len() > 1);
    for option in options {
        assert!(Regex::new(&format!("[?&]{option}=")).unwrap().is_match(asked), "{option}");
    }
    for field in fields {
        assert!(asked.contains(&format!("{field}: ")), "{field}");
    }
    for value in values {
        assert!(asked.contains(&format!(": {value}")), "{value}");
    }
    for verb in ["GET", "POST", "PUT", "MERGE", "APPLY", "DELETE", "WATCH", "METADATA"] {
        assert!(asked.contains(&format!("- {verb} ")), "{verb}");
    }
}

#[tokio::test]
#[ignore = "needs an API server"]
async fn a_real_api_server_answers_as_the_scripts_say() {
    let server = crate::api_server::Server::with_namespace("conformance").await;
    let mut text = String::new();
    for script in scripts() {
        text += &run(&server.client, &server.namespace, &script).await;
    }
    expect_file!["api-server.txt"].assert_eq(&text);
    server.clean_up().await;
}
