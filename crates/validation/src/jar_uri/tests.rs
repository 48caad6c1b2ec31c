use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn check(text: &str, expected: Expect) {
    let answer = match parse(text) {
        Ok(Uri { scheme, host }) => format!("{scheme:?} {host:?}"),
        Err(problem) => problem,
    };
    expected.assert_eq(&answer);
}

#[test]
fn scheme_and_host() {
    check("local:///opt/flink/usrlib/job.jar", expect![[r#"Some("local") None"#]]);
    check(
        "https://repo.example.com:8443/a/b.jar?c=d#e",
        expect![[r#"Some("https") Some("repo.example.com")"#]],
    );
    check("https://user@10.0.0.1/job.jar", expect![[r#"Some("https") Some("10.0.0.1")"#]]);
    check("https://[::1]:80/job.jar", expect![[r#"Some("https") Some("::1")"#]]);
    check("/opt/flink/job.jar", expect!["None None"]);
    check("s3://bucket/job%20one.jar", expect![[r#"Some("s3") Some("bucket")"#]]);
    check("./a:b.jar", expect!["None None"]);
}

/// Java finds an authority there, but no host.
#[test]
fn authorities_that_are_no_host() {
    check("https://my_host/job.jar", expect![[r#"Some("https") None"#]]);
    check("https:///job.jar", expect![[r#"Some("https") None"#]]);
    check("https://-a-/job.jar", expect![[r#"Some("https") None"#]]);
    check("https://host:port/job.jar", expect![[r#"Some("https") None"#]]);
}

#[test]
fn what_is_no_uri() {
    check("local:///opt/my job.jar", expect!["character ` ` must be escaped"]);
    check("https://example.com/{version}.jar", expect!["character `{` must be escaped"]);
    check("https://example.com/100%.jar", expect!["`%` must be followed by two hex digits"]);
    check("1http://example.com", expect!["`1http` is not a scheme"]);
    check(":job.jar", expect!["`` is not a scheme"]);
    check("local:", expect!["nothing follows the scheme"]);
    check("https://", expect!["nothing follows `//`"]);
    check("a#b#c", expect!["there can be only one `#`"]);
}

#[test]
fn addresses() {
    for url in [
        "http://a.b",
        "http://a.b:80/x",
        "http:///x(/|$)(.*)",
        "http://[::1]:80",
        "http://",
        "http://a:",
    ] {
        assert_eq!(url_problem(url), None, "{url}");
    }
    expect![[r#"Some("`port` is not a port")"#]]
        .assert_eq(&format!("{:?}", url_problem("http://example.com:port/x")));
    expect![[r#"Some("`[` is not closed")"#]]
        .assert_eq(&format!("{:?}", url_problem("http://[::1/x")));
}
