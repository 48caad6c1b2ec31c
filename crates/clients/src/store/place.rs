//! The location of a store, as people write it: `memory`, `sqlite:PATH`, `postgres://…` or `mysql://…`.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

/// Characters that would end a path, or that have a special meaning in one.
const IN_PATH: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'?').add(b'`').add(b'<').add(b'>');

/// The location of a store.
#[derive(Clone, Eq, PartialEq)]
pub enum Place {
    Memory,
    /// The URL of a database, with the password if it needs one: must never be shown.
    Sql(Url),
}

/// Why a text is not a valid place. The message does not repeat the text, which may contain a password.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidPlace {
    #[error(
        "expected memory, sqlite:PATH, postgres://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE"
    )]
    Unknown,
    #[error("sqlite: needs the path of a file")]
    NoFile,
    #[error("the path of the file is not UTF-8")]
    NotUtf8,
    #[error("the URL cannot be read: {0}")]
    Url(String),
    #[error("the URL has no {0}")]
    Without(&'static str),
    #[error(
        "the URL must not contain a password: other users of this machine can see the command line"
    )]
    Password,
}

impl Place {
    /// Parses a place.
    ///
    /// # Errors
    /// If it is invalid or contains a password.
    pub fn parse(text: &str) -> Result<Self, InvalidPlace> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(InvalidPlace::NoFile) } else { Self::sqlite(path) };
        }
        let is_server = ["postgres://", "postgresql://", "mysql://", "mariadb://"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        if !is_server {
            return Err(InvalidPlace::Unknown);
        }
        let url = Url::parse(text).map_err(|error| InvalidPlace::Url(error.to_string()))?;
        if url.password().is_some() || url.query_pairs().any(|(key, _)| key == "password") {
            return Err(InvalidPlace::Password);
        }
        if url.path().trim_matches('/').is_empty() {
            return Err(InvalidPlace::Without("database"));
        }
        Ok(Self::Sql(url))
    }

    fn sqlite(path: &str) -> Result<Self, InvalidPlace> {
        // An absolute path, so that the driver does not mistake a part of it for a host.
        let path = std::path::absolute(PathBuf::from(path))
            .map_err(|error| InvalidPlace::Url(error.to_string()))?;
        let path = path.to_str().ok_or(InvalidPlace::NotUtf8)?;
        let path = utf8_percent_encode(path, IN_PATH);
        let url = Url::parse(&format!("sqlite://{path}?mode=rwc"));
        url.map(Self::Sql).map_err(|error| InvalidPlace::Url(error.to_string()))
    }

    /// Returns the place with this password, if it takes one.
    ///
    /// # Errors
    /// If this kind of store has no password.
    pub fn with_password(self, password: &str) -> Result<Self, InvalidPlace> {
        match self {
            Self::Sql(mut url) if url.scheme() != "sqlite" => {
                // The driver decodes it, but the URL alone would leave a `%` as it is.
                let encoded = utf8_percent_encode(password, NON_ALPHANUMERIC).to_string();
                let set = url.set_password(Some(&encoded));
                set.map_err(|()| InvalidPlace::Without("host"))?;
                Ok(Self::Sql(url))
            }
            other => Ok(other),
        }
    }

    /// Returns whether the place takes a password.
    pub fn is_server(&self) -> bool {
        matches!(self, Self::Sql(url) if url.scheme() != "sqlite")
    }
}

/// For people: host, port and database of a server, but not the user.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Sql(url) if url.scheme() == "sqlite" => {
                let path = percent_encoding::percent_decode_str(url.path()).decode_utf8_lossy();
                write!(f, "sqlite:{path}")
            }
            Self::Sql(url) => {
                let (scheme, host) = (url.scheme(), url.host_str().unwrap_or_default());
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                write!(f, "{scheme}://{host}{port}{}", url.path())
            }
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let place = Place::parse("postgres://flink@db.example:5433/autoscaler?sslmode=require");
        let place = place.unwrap().with_password("s3:cr@t/%c8").unwrap();
        assert!(place.is_server());
        assert_eq!(place.to_string(), "postgres://db.example:5433/autoscaler");
        assert_eq!(format!("{place:?}"), "Place(postgres://db.example:5433/autoscaler)");
        let Place::Sql(url) = &place else { panic!("{place}") };
        let password = percent_encoding::percent_decode_str(url.password().unwrap());
        assert_eq!(password.decode_utf8().unwrap(), "s3:cr@t/%c8", "the driver decodes it");
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        for text in [
            "postgres://flink:s3cret@db/autoscaler",
            "mysql://flink@db/autoscaler?password=s3cret",
            "mysql://flink:s3cret@:x/autoscaler",
            "oracle://flink:s3cret@db/autoscaler",
            "postgres://flink:s3cret@db",
        ] {
            let error = Place::parse(text).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn files_may_have_any_name() {
        let place = Place::parse("sqlite:/tmp/a b?c#d%41.db").unwrap();
        assert_eq!(place.to_string(), "sqlite:/tmp/a b?c#d%41.db");
        assert!(!place.is_server());
        let relative = Place::parse("sqlite:state.db").unwrap().to_string();
        assert!(relative.starts_with("sqlite:/") && relative.ends_with("/state.db"), "{relative}");
        assert_eq!(Place::parse("sqlite:///tmp/a.db"), Place::parse("sqlite:/tmp/a.db"));
    }

    #[test]
    fn an_invalid_place_says_what_is_missing() {
        assert_eq!(Place::parse("memory"), Ok(Place::Memory));
        assert_eq!(Place::parse("sqlite:"), Err(InvalidPlace::NoFile));
        assert_eq!(Place::parse("sqlite://"), Err(InvalidPlace::NoFile));
        assert_eq!(Place::parse("mysql://u@h"), Err(InvalidPlace::Without("database")));
        assert_eq!(Place::parse("Memory"), Err(InvalidPlace::Unknown));
    }
}
