use super::*;

fn check(given: &str, expected: &str) {
    assert_eq!(text(given), expected);
}

#[test]
fn events_of_a_log_in_json_are_read() {
    check(
        r#"{"level":"INFO","message":"no access: s3.secret-key=\"hun ter2\", s3.endpoint=x","n":1}"#,
        r#"{"level":"INFO","message":"no access: s3.secret-key=\"******\", s3.endpoint=x","n":1}"#,
    );
    check(
        r#"{"msg":"login","mdc":{"password":"hunter2","user":"me","pin":{"token":{"value":7}}}}"#,
        r#"{"msg":"login","mdc":{"password":"******","user":"me","pin":{"token":{"value":"******"}}}}"#,
    );
    check(
        r#"{"message":"run","args":["--token","hunter2","--topic","orders"]}"#,
        r#"{"message":"run","args":["--token","******","--topic","orders"]}"#,
    );
    let as_it_was = r#"{ "message": "checkpoint 7", "secretName": "s3", "n": 1.50 }"#;
    check(as_it_was, as_it_was);
}

/// One event for each argument, as in a pattern layout.
#[test]
fn an_argument_after_the_event_of_its_name_is_hidden() {
    let event = |message: &str| format!(r#"{{"message":"{message}"}}"#);
    let log = |secret: &str| {
        let messages = ["   --token", secret, "   --topic", "   orders"];
        messages.map(|message| event(message) + "\n").concat()
    };
    check(&log("   hunter2"), &log(HIDDEN));
    check(&format!("plain\n{}plain", log("hunter2")), &format!("plain\n{}plain", log(HIDDEN)));
}

#[test]
fn json_within_an_event_is_read() {
    let inner = r#"{"message":"x","password":"hunter2"}"#;
    let event = serde_json::json!({ "message": inner }).to_string();
    let shown = text(&event);
    assert!(!shown.contains("hunter2"), "{shown}");
    let read: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(read["message"], r#"{"message":"x","password":"******"}"#);
}

#[test]
fn private_keys_are_hidden() {
    let key =
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE+a/b=\nQUJD\n-----END RSA PRIVATE KEY-----\nnext\n";
    let hidden =
        "-----BEGIN RSA PRIVATE KEY-----\n******\n******\n-----END RSA PRIVATE KEY-----\nnext\n";
    check(key, hidden);
    let event = serde_json::json!({ "message": key }).to_string();
    check(&event, &serde_json::json!({ "message": hidden }).to_string());
    check(
        "-----BEGIN PRIVATE KEY-----\nMIIE\nthe end is missing\n",
        "-----BEGIN PRIVATE KEY-----\n******\nthe end is missing\n",
    );
}
