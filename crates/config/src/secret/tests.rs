use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "hunter2hunter2hunter2";

#[derive(Deserialize)]
struct Corpus {
    secret_names: Vec<String>,
    plain_names: BTreeMap<String, String>,
    secret_texts: Vec<Text>,
    plain_texts: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Plain(String),
    Shown { text: String, shown: Option<String> },
}

impl Text {
    /// Returns the text with the secret in it, and the text that is shown.
    fn pair(&self) -> (String, String) {
        let (text, shown) = match self {
            Self::Plain(text) => (text, None),
            Self::Shown { text, shown } => (text, shown.clone()),
        };
        (text.replace("{}", SECRET), shown.unwrap_or_else(|| text.replace("{}", HIDDEN)))
    }
}

fn corpus() -> Corpus {
    serde_yaml::from_str(include_str!("corpus.yaml")).unwrap()
}

#[test]
fn the_names_of_the_corpus_are_distinguished() {
    let Corpus { secret_names, plain_names, .. } = corpus();
    let unseen: Vec<_> = secret_names.iter().filter(|name| !is_secret(name)).collect();
    assert!(unseen.is_empty(), "not seen as secrets: {unseen:?}");
    for (name, value) in plain_names {
        assert_eq!(shown(&name, &value), value, "{name}");
        let pair = format!("{name}: {value}");
        assert_eq!(hide_in(&pair), pair);
        let mut object = json!({ &name: value });
        hide_in_value(&mut object, Some(""));
        assert_eq!(object, json!({ &name: value }));
    }
}

#[test]
fn the_texts_of_the_corpus_are_shown_without_their_secrets() {
    let Corpus { secret_texts, plain_texts, .. } = corpus();
    let mut wrong = Vec::new();
    let plain = plain_texts.into_iter().map(|text| (text.clone(), text));
    for (text, expected) in secret_texts.iter().map(Text::pair).chain(plain) {
        let shown = hide_in(&text);
        if shown != expected {
            wrong.push(format!("{text:?}\n  became {shown:?}\n  not    {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A log line has the message of an error as a string of JSON, and that may have one in it.
#[test]
fn the_texts_of_the_corpus_lose_their_secrets_within_strings() {
    let mut wrong = Vec::new();
    for text in corpus().secret_texts.iter().map(|text| text.pair().0) {
        let lines = json!({ "error": format!("403\n{text}\nnothing else") }).to_string();
        for text in [json!({ "message": &lines }).to_string(), lines] {
            let shown = hide_in(&text);
            if shown.contains("hunter2") {
                wrong.push(format!("{text}\n  became {shown}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let two =
        json!({ "error": "Authorization: Basic hunter2\nAuthorization: SharedKey a:hunter2" });
    assert!(!hide_in(&two.to_string()).contains("hunter2"), "{}", hide_in(&two.to_string()));
}

#[test]
fn each_secret_name_hides_its_value_in_every_form() {
    for name in corpus().secret_names {
        for text in [
            format!("no access: {name}={SECRET}, a=b"),
            format!("no access: {name} = '{SECRET} x'"),
            format!("{name}: {SECRET} x\nb: c"),
            json!({ "a": { &name: SECRET } }).to_string(),
            json!(json!({ &name: format!("\"{SECRET}\\") }).to_string()).to_string(),
            format!("EnvVar(name={name}, value={SECRET})"),
        ] {
            let shown = hide_in(&text);
            assert!(!shown.contains("hunter2"), "{text} became {shown}");
        }
        for mut value in [
            json!({ "flinkConfiguration": { &name: SECRET } }),
            json!({ "env": [{ "name": &name, "value": SECRET }] }),
            json!({ "options": [{ "key": &name, "value": SECRET }] }),
            json!({ "args": [format!("--{name}"), SECRET, format!("--{name}={SECRET}")] }),
            json!({ "spec": json!({ "flinkConfiguration": { &name: SECRET } }).to_string() }),
            json!({ &name: [SECRET, 7] }),
        ] {
            hide_in_value(&mut value, None);
            assert!(!value.to_string().contains("hunter2"), "{name}: {value}");
        }
        assert_eq!(shown(&name, SECRET), HIDDEN);
    }
}

#[test]
fn a_value_with_a_secret_in_it_is_hidden_as_a_whole() {
    for (key, value) in [
        ("env.java.opts.all", "-Xmx1g -Djavax.net.ssl.keyStorePassword=hunter2"),
        ("kubernetes.operator.plugins.listeners.a.url", "https://me:hunter2@example.com/x"),
        ("connection", "AccountName=me;AccountKey=hunter2"),
    ] {
        assert_eq!(shown(key, value), HIDDEN, "{key}");
    }
}

#[test]
fn documents_in_texts_stay_documents() {
    let inner = json!({"spec": {"job": {"args": ["--token", SECRET]}, "n": 1}, "token": 7});
    let text = json!({ "message": inner.to_string(), "b": "password=x \"y\"" }).to_string();
    let shown = hide_in_document(&text);
    let read: Value = serde_json::from_str(&shown).unwrap();
    let read: Value = serde_json::from_str(read["message"].as_str().unwrap()).unwrap();
    let wanted = json!({"spec": {"job": {"args": ["--token", HIDDEN]}, "n": 1}, "token": HIDDEN});
    assert_eq!(read, wanted);
    let plain = r#"{ "a" : 1.50 }"#;
    assert_eq!(hide_in_document(plain), plain);
}

/// Beginnings of everything that is looked for.
fn traps() -> impl Strategy<Value = String> {
    let parts = [
        "password",
        "s3.secret-key",
        "Authorization",
        "Bearer ",
        "name",
        "key",
        "value",
        "--token",
        "https",
        "://",
        "@",
        ":",
        "=",
        "\"",
        "'",
        "\\",
        "\\n",
        "\n",
        " ",
        "  ",
        ",",
        "|",
        "[",
        "{",
        "}",
        "]",
        "/",
        "?",
        "&",
        "<",
        ">",
        "jdbc",
        ":oracle:",
        "-----BEGIN",
        " PRIVATE KEY-----",
        "-----END",
        "x",
        "ä",
        "8081",
        "hooks.slack.com/services/",
        "Digest ",
        "******",
        "- ",
    ];
    prop::collection::vec(prop::sample::select(parts.to_vec()), 0..24)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_hidden_once_stays_as_it_is(text in traps()) {
        let shown = hide_in(&text);
        prop_assert_eq!(hide_in(&shown), shown);
    }

    /// A name of the corpus in front of a value, in the middle of anything.
    #[test]
    fn a_secret_is_found_among_anything(before in traps(), name in prop::sample::select(corpus().secret_names)) {
        let text = format!("{before}\n{name}={SECRET}\n");
        let shown = hide_in(&text);
        prop_assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn what_stands_for_a_secret_makes_none_of_its_neighbours() {
    let shown = hide_in(r"-----BEGINpassword \hooks.slack.com/services/:oracle::");
    assert_eq!(hide_in(&shown), shown);
}

/// Texts for which a search that looks at what follows again and again would take the square of their length.
#[test]
#[allow(clippy::disallowed_methods, reason = "measures")]
fn the_time_is_proportional_to_the_length() {
    let time = |text: &str| {
        let begin = Instant::now();
        assert!(hide_in(text).len() <= 8 * text.len() + HIDDEN.len());
        begin.elapsed()
    };
    for part in [
        "x=",
        "x:",
        "password",
        "password=",
        "password=\"",
        "password='",
        "password: |\n",
        "a://",
        "a://b:c",
        "a://b:c/",
        "name=",
        "key=x",
        "value=",
        "--token ",
        "--token,'",
        "<password>",
        "</name>",
        "\\",
        "\"",
        "jdbc:oracle:",
        "-----BEGIN",
        "-----BEGIN PRIVATE KEY-----\\n",
        "Bearer ",
        "Authorization: x ",
        "Authorization:,",
        "Authorization:\\",
        "/hooks/",
        "a/hooks/",
        "[",
        "password=[",
        " ",
    ] {
        let (short, long) = (part.repeat(10_000 / part.len()), part.repeat(320_000 / part.len()));
        // Of the square it would be a thousandfold each time; a busy machine is not slow each time.
        let is_proportional = (0..20).any(|_| {
            let (short, long) = (time(&short), time(&long));
            long < short.max(Duration::from_micros(50)) * 250
        });
        assert!(is_proportional, "{part:?}");
    }
}
