//! Which options hold secrets: their values are in no message, log or request.

/// Parts of keys that Flink hides too (`GlobalConfiguration`), and those of storage accounts.
const PARTS: [&str; 17] = [
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
    "auth-params",
    "service-key",
    "basic-auth",
    "jaas.config",
    "http-headers",
];

/// What stands for a secret.
pub const HIDDEN: &str = "******";

/// Whether the value under `key` is to be hidden.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    let is_headers = key.ends_with("artifacts.http.header");
    let has_part = |word: &str| key.split(['.', '-', '_']).any(|part| part == word);
    is_headers || has_part("sas") || PARTS.iter().any(|part| key.contains(part)) || {
        // Environment variables are written with underscores.
        let dashed = key.replace('_', "-");
        PARTS.iter().any(|part| dashed.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "kubernetes.operator.user.artifacts.http.header",
        ] {
            assert!(is_secret(key), "{key}");
        }
        for key in ["taskmanager.numberOfTaskSlots", "s3.endpoint", "state.savepoints.dir"] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
