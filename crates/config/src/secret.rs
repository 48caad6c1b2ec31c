//! Which options are secret: their values must not appear in any message, log or request.

/// Parts of keys that Flink hides too (`GlobalConfiguration`), and those of storage accounts.
const PARTS: [&str; 19] = [
    "secret",
    "password",
    "passwd",
    "token",
    "credential",
    "access-key",
    "access.key",
    "account.key",
    "accesskey",
    "apikey",
    "api-key",
    "private-key",
    "private.key",
    "auth-params",
    "authorization",
    "service-key",
    "basic-auth",
    "jaas.config",
    "http-headers",
];

/// The text shown instead of a secret.
pub const HIDDEN: &str = "******";

/// Returns whether the value of `key` must be hidden.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    let is_headers = key.ends_with("artifacts.http.header")
        || key.contains("artifacts.http.header.")
        || key.ends_with(".headers");
    let has_part = |word: &str| key.split(['.', '-', '_']).any(|part| part == word);
    is_headers
        || has_part("sas")
        || has_part("sig")
        || PARTS.iter().any(|part| key.contains(part))
        || {
            // Environment variables are written with underscores.
            let dashed = key.replace('_', "-");
            PARTS.iter().any(|part| dashed.contains(part))
        }
}

/// Returns the text to show of a value. A value that is or contains a secret is hidden.
pub fn shown(key: &str, value: &str) -> String {
    let lower = value.to_lowercase();
    // `-Djavax.net.ssl.keyStorePassword=…` and the like, in options for programs.
    let has_secret = ["password=", "secret=", "token=", "key="].iter().any(|it| lower.contains(it));
    let hides = is_secret(key) || has_secret || has_login(value);
    if hides { HIDDEN.to_owned() } else { value.to_owned() }
}

/// Returns whether a name and a password precede a host.
fn has_login(value: &str) -> bool {
    value.split("://").skip(1).any(|after| {
        let authority = after.split(['/', '?', ' ', ',', ';']).next().unwrap_or_default();
        authority.split_once('@').is_some_and(|(login, _)| login.contains(':'))
    })
}

/// Hides secrets in a text: values such as `password: x`, `"password":"x"` or `password=x`, and the part before the `@`
/// of a URL. For foreign texts, such as the message of an exception.
pub fn hide_in(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let word = rest.find(|letter| !is_of_key(letter)).unwrap_or(rest.len());
        if word == 0 {
            shown.push(letter);
            rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            continue;
        }
        let (key, after) = rest.split_at(word);
        shown.push_str(key);
        rest = after;
        if let Some(userinfo) = userinfo_of(rest) {
            shown.push_str("://");
            shown.push_str(HIDDEN);
            rest = rest.get(userinfo..).unwrap_or_default();
        } else if let Some((value, end)) = value_of(rest).filter(|_| is_secret(key)) {
            shown.push_str(rest.get(..value).unwrap_or_default());
            shown.push_str(HIDDEN);
            rest = rest.get(end..).unwrap_or_default();
        }
    }
    shown
}

fn is_of_key(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_')
}

/// Returns the position of the `@` after the scheme of a URL with user and password.
fn userinfo_of(text: &str) -> Option<usize> {
    let authority = text.strip_prefix("://")?;
    let end = authority.find(|letter: char| letter == '/' || letter.is_whitespace());
    let at = authority.get(..end.unwrap_or(authority.len()))?.rfind('@')?;
    authority.get(..at)?.contains(':').then_some("://".len() + at)
}

/// Returns beginning and end of the value in the text after a key.
fn value_of(text: &str) -> Option<(usize, usize)> {
    let at = |rest: &str| text.len() - rest.len();
    let rest = text.trim_start_matches(['"', '\'', '`', '\\']).trim_start_matches(' ');
    let rest = rest.strip_prefix([':', '='])?.trim_start_matches([' ', '\\']);
    let mut value = at(rest);
    if let Some(quote @ ('"' | '\'' | '`')) = rest.chars().next() {
        let inside = rest.get(1..)?;
        let end = inside.find(quote).unwrap_or(inside.len());
        return (end > 0).then_some((at(inside), at(inside) + end));
    }
    // `Bearer x`: the scheme is not secret, what follows is.
    for scheme in ["Bearer ", "Basic "] {
        if let Some(credentials) = rest.strip_prefix(scheme) {
            value = at(credentials);
        }
    }
    let ends = |letter: char| {
        letter.is_whitespace() || matches!(letter, ',' | ';' | ')' | '}' | ']' | '"')
    };
    let end = text.get(value..)?.find(ends).map_or(text.len(), |length| value + length);
    (end > value).then_some((value, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_of_texts() {
        for (text, shown) in [
            (
                "no access: s3.secret-key=abc, s3.endpoint=x",
                "no access: s3.secret-key=******, s3.endpoint=x",
            ),
            (r#"{"password":"a b","user":"me"}"#, r#"{"password":"******","user":"me"}"#),
            (r#"{\"password\":\"a\"}"#, r#"{\"password\":\"******"}"#),
            ("Authorization: Bearer abc.def failed", "Authorization: Bearer ****** failed"),
            ("AWS_SECRET_ACCESS_KEY: 'x y'", "AWS_SECRET_ACCESS_KEY: '******'"),
            ("GET https://me:pass@host/path", "GET https://******@host/path"),
            ("GET https://host/a@b:c", "GET https://host/a@b:c"),
            ("the password is wrong", "the password is wrong"),
            ("token=", "token="),
            ("größer: 10 €", "größer: 10 €"),
            ("", ""),
        ] {
            assert_eq!(hide_in(text), shown);
        }
    }

    #[test]
    fn secrets_are_known_by_their_keys() {
        for key in [
            "s3.secret-key",
            "s3.access-key",
            "fs.azure.account.key.me.blob.core.windows.net",
            "security.ssl.rest.keystore-password",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "API_KEY",
            "fs.azure.sas.me",
            "fs.gs.auth.service.account.private.key",
            "kubernetes.operator.user.artifacts.http.header",
            "kubernetes.operator.plugins.listeners.audit.headers",
            "kubernetes.operator.user.artifacts.http.header.X-Shop",
            "high-availability.zookeeper.client.authorization",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for (key, value) in [
            ("env.java.opts.all", "-Xmx1g -Djavax.net.ssl.keyStorePassword=hunter2"),
            ("kubernetes.operator.plugins.listeners.a.url", "https://me:hunter2@example.com/x"),
            ("s3.secret-key", "hunter2"),
        ] {
            assert_eq!(shown(key, value), HIDDEN, "{key}");
        }
        for value in
            ["s3://bucket/a@b:c", "https://example.com", "abfss://c@a.dfs.core.windows.net"]
        {
            assert_eq!(shown("state.savepoints.dir", value), value);
        }
        for key in ["taskmanager.numberOfTaskSlots", "s3.endpoint", "state.savepoints.dir"] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
