use super::*;

const SUM: &str = "sha256:2CF24DBA5FB0A30E26E83B2AC5B9E29E1B161E5C1FA7425E73043362938B9824";

fn config(entries: &[(&str, &str)]) -> FlinkConfig {
    entries.iter().copied().collect()
}

#[test]
fn only_administrators_choose_what_may_be_reached() {
    let job = config(&[
        ("kubernetes.operator.user.artifacts.allowed-schemes", "http;file"),
        ("kubernetes.operator.user.artifacts.disallow-restricted-hosts", "false"),
        ("kubernetes.operator.user.artifacts.max-size", "100 gb"),
    ]);
    let request = Request::from_config("shop", "http://h/a.jar", &config(&[]), &job).unwrap();
    assert_eq!(request.allowed_schemes, ["https"]);
    assert!(request.restricted.is_some());
    assert_eq!(request.limits.size_max.to_string(), "1 gb");
    let error = request.scheme().unwrap_err();
    assert_eq!(error.reason(), "ArtifactSchemeNotAllowed");
    assert!(!error.is_transient());
}

#[test]
fn an_unreadable_guard_is_on() {
    let operator =
        config(&[("kubernetes.operator.user.artifacts.disallow-restricted-hosts", "perhaps")]);
    let request = Request::from_config("shop", "https://h/a.jar", &operator, &config(&[])).unwrap();
    assert!(request.restricted.is_some());
}

#[test]
fn schemes_are_compared_without_case() {
    let operator = config(&[("kubernetes.operator.user.artifacts.allowed-schemes", "https;HTTP")]);
    let request = Request::from_config("shop", "http://b/j.jar", &operator, &config(&[])).unwrap();
    assert_eq!(request.scheme().unwrap(), Scheme::Http);
    let request = Request::from_config("shop", "HTTP://b/j.jar", &operator, &config(&[])).unwrap();
    assert_eq!(request.scheme().unwrap(), Scheme::Http);
}

#[test]
fn a_checksum_is_64_digits() {
    let sum = Checksum::parse(SUM).unwrap();
    assert_eq!(sum.sha256, SUM[7..].to_lowercase());
    for bad in ["", "md5:0123", "sha256:", "sha256:xyz", &SUM[..70]] {
        let error = Checksum::parse(bad).unwrap_err().to_string();
        assert!(error.contains("`sha256:` and 64 hexadecimal digits"), "{error}");
    }
}

#[test]
fn a_message_holds_no_secret() {
    let job = config(&[
        ("s3.secret-key", "very-secret"),
        ("kubernetes.operator.user.artifacts.http.header", "Authorization:Bearer-abcdef"),
    ]);
    let uri = "https://me:pw@h/a.jar?sig=query-secret";
    let request = Request::from_config("shop", uri, &config(&[]), &job).unwrap();
    let text = format!("GET {uri} with very-secret, Bearer-abcdef to http://x/y?token=t failed");
    assert_eq!(request.redact(&text), "GET https://h/a.jar with ***, *** to http://x/y failed");
}
