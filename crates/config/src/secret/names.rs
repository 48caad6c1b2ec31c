//! Which names are those of secrets, as a table. `corpus.yaml` has real names of both kinds.

/// Hidden wherever they occur in a name, no matter what separates their letters: the parts that Flink hides too
/// (`GlobalConfiguration`), and what else means nothing but a secret.
const ANYWHERE: [&str; 12] = [
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "token",
    "credential",
    "authorization",
    "authparams",
    "basicauth",
    "jaasconfig",
    "httpheaders",
];

/// Hidden as a word of their own.
const WORDS: [&str; 12] = [
    "pass",
    "passwort",
    "pw",
    "pwd",
    "psk",
    "cred",
    "creds",
    "cookie",
    "sas",
    "sig",
    "signature",
    "otp",
];

/// Hidden at the end of a word, as in `dbpass`.
const ENDINGS: [&str; 2] = ["pass", "pwd"];

/// Words that only look like one of [`ENDINGS`].
const ORDINARY_WORDS: [&str; 6] =
    ["bypass", "compass", "encompass", "overpass", "surpass", "trespass"];

/// Hidden at the end of a name.
const LAST: [&str; 1] = ["auth"];

/// What a `key` is secret for, as in `account.key`, `ACCOUNT_KEY`, `accountKey` and `accountkey`.
const SECRET_KEYS: [&str; 26] = [
    "access",
    "account",
    "aes",
    "api",
    "app",
    "auth",
    "cipher",
    "client",
    "crypto",
    "decryption",
    "deploy",
    "encryption",
    "functions",
    "hmac",
    "integration",
    "keystore",
    "license",
    "master",
    "private",
    "sas",
    "service",
    "shared",
    "signing",
    "ssh",
    "storage",
    "subscription",
];

/// What a `KEY` at the end of an environment variable is not secret for.
const ORDINARY_KEYS: [&str; 23] = [
    "cache",
    "composite",
    "distribution",
    "event",
    "foreign",
    "group",
    "index",
    "join",
    "label",
    "map",
    "message",
    "natural",
    "object",
    "ordering",
    "partition",
    "primary",
    "public",
    "record",
    "routing",
    "row",
    "shard",
    "sort",
    "topic",
];

/// What may follow `pass` if it is no password.
const AFTER_PASS: [&str; 4] = ["by", "count", "through", "thru"];

/// Ends of names, without what separates their words, that are not secret.
const ORDINARY_ENDS: [&str; 4] = [
    "clientauth",
    // They refer to a Secret or an account, which helps to find a problem.
    "secretref",
    "automountserviceaccounttoken",
    "tokenexpirationseconds",
];

/// Last words of names about a secret whose values are not secret.
const ABOUT: [&str; 16] = [
    "algorithm",
    "class",
    "dir",
    "directory",
    "enabled",
    "endpoint",
    "file",
    "interval",
    "keytab",
    "location",
    "name",
    "path",
    "provider",
    "providers",
    "timeout",
    "type",
];

/// Returns whether the value of `name` must be hidden: of an option, an environment variable, a header or an argument.
pub fn is_secret(name: &str) -> bool {
    let words = words(name);
    let glued = words.concat();
    if glued.contains("artifactshttpheader") || name.to_lowercase().ends_with(".headers") {
        return true;
    }
    let is_ordinary = words.last().is_some_and(|last| ABOUT.contains(&last.as_str()))
        || ORDINARY_ENDS.iter().any(|end| glued.ends_with(end));
    !is_ordinary
        && (ANYWHERE.iter().any(|part| glued.contains(part))
            || words.last().is_some_and(|last| LAST.contains(&last.as_str()))
            || words.iter().enumerate().any(|(index, word)| {
                let next = words.get(index + 1).map(String::as_str).unwrap_or_default();
                is_secret_word(word) && !(word == "pass" && AFTER_PASS.contains(&next))
            })
            || has_secret_key(name, &words))
}

fn is_secret_word(word: &str) -> bool {
    WORDS.contains(&word)
        || ENDINGS.iter().any(|end| word.ends_with(end)) && !ORDINARY_WORDS.contains(&word)
}

/// Returns whether a word is `key`, and the one before it says that it is secret.
fn has_secret_key(name: &str, words: &[String]) -> bool {
    let is_variable = name.contains('_') && !name.contains(|it: char| it.is_ascii_lowercase());
    let mut before = "";
    for (index, word) in words.iter().enumerate() {
        let of = ["keys", "key"].iter().find_map(|key| word.strip_suffix(key));
        let of = of.map(|of| if of.is_empty() { before } else { of });
        if let Some(of) = of.filter(|of| !of.is_empty()) {
            let is_last_of_variable = is_variable && index + 1 == words.len();
            if SECRET_KEYS.iter().any(|it| of.ends_with(it))
                || is_last_of_variable && word == "key" && !ORDINARY_KEYS.contains(&of)
            {
                return true;
            }
        }
        before = word;
    }
    false
}

/// Returns the words of a name in lower case, without the digits at their ends. A capital letter begins a word, too.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut begins = true;
    let mut before = ' ';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_alphanumeric() {
            begins = true;
            before = ' ';
            continue;
        }
        let next_is_small = letters.peek().is_some_and(|next| next.is_lowercase());
        begins |= letter.is_uppercase()
            && (before.is_lowercase() || before.is_uppercase() && next_is_small);
        if std::mem::take(&mut begins) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    for word in &mut words {
        let length = word.trim_end_matches(|it: char| it.is_ascii_digit()).len();
        // A word that is a number is kept.
        if length > 0 {
            word.truncate(length);
        }
    }
    words
}
