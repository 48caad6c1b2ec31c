//! Flink's SQL gateway: sessions, the statements in them, and their results page by page.
//!
//! ```text
//! Gateway::connect(Client) -> Gateway                    requests the versions of the protocol
//! Gateway::open(name) -> Session
//! Session::execute(statement) -> Operation               the gateway runs it by itself
//! Session::fetch(&Operation, token, RowFormat) -> Fetched    NotReady | Page { rows, next, .. }
//! Session::cancel(&Operation), close_operation(&Operation), heartbeat(), options(), close()
//! ```
//!
//! The gateway keeps the last requested page: requesting it again with the same token, after a lost response, returns
//! the same rows. A statement is sent only once. If it fails, the error is [`Error::Refused`] with a Java stack trace,
//! in which [`cause`] finds the meaningful line.

pub mod cause;

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{self, Call, Client};
use super::error::Error;
use super::wire;

/// Default port of a gateway.
pub const PORT: u16 = 8083;

/// The version of the protocol. Additions of later versions are not used, so the oldest complete one is enough.
const VERSION: &str = "V2";

/// A gateway that speaks a protocol this client knows.
#[derive(Clone, Debug)]
pub struct Gateway {
    client: Client,
}

/// A session: its options, catalogs and temporary tables. The gateway ends unused sessions.
#[derive(Clone, Debug)]
pub struct Session {
    client: Client,
    id: String,
}

/// A running statement.
#[derive(Clone, Debug)]
pub struct Operation {
    id: String,
}

/// Format of values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RowFormat {
    /// As in JSON: numbers are numbers, rows are objects.
    Json,
    /// Each as the text that Flink's own client shows.
    PlainText,
}

/// Response to a request for results.
#[derive(Clone, Debug, PartialEq)]
pub enum Fetched {
    /// There are no results yet; request them again with the same token.
    NotReady,
    /// Rows, possibly none yet.
    Page(Page),
}

/// Some of the rows of a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Whether these are rows of a query, which change the result by their kind, rather than what a statement reports.
    pub is_query: bool,
    /// Whether the statement succeeded without anything to show.
    pub is_plain_success: bool,
    /// The job that the statement started in the cluster.
    pub job_id: Option<String>,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    /// Token of the next page; `None` after the last one.
    pub next: Option<u64>,
}

/// A column of a result.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Column {
    pub name: String,
    /// The root of its type, such as `VARCHAR`.
    pub kind: String,
}

/// One row, or one change of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub change: Change,
    /// One per column.
    pub fields: Vec<Value>,
}

/// The effect of a row on the result before it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Change {
    #[default]
    Insert,
    UpdateBefore,
    UpdateAfter,
    Delete,
}

impl Change {
    /// Returns Flink's two letters for the change.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Insert => "+I",
            Self::UpdateBefore => "-U",
            Self::UpdateAfter => "+U",
            Self::Delete => "-D",
        }
    }
}

impl Gateway {
    /// Connects and requests the gateway's protocol versions.
    ///
    /// # Errors
    /// If it does not respond, or is older than Flink 1.17, whose results do not contain enough.
    pub async fn connect(client: Client) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Versions {
            versions: Vec<String>,
        }
        let Versions { versions } = client.get("/api_versions".to_owned()).await?;
        if versions.iter().any(|version| version.eq_ignore_ascii_case(VERSION)) {
            return Ok(Self { client });
        }
        Err(Error::Invalid {
            problem: format!(
                "the SQL gateway only supports {}: use one of Flink 1.17 or later",
                versions.join(", ")
            ),
        })
    }

    /// Opens a session with a name that appears in the gateway's log.
    pub async fn open(&self, name: &str) -> Result<Session, Error> {
        #[derive(Deserialize)]
        struct Opened {
            #[serde(rename = "sessionHandle")]
            id: String,
        }
        let body = json!({"sessionName": name, "properties": {}});
        let call = Call::json(Method::POST, "/v2/sessions".to_owned(), &body)?;
        let Opened { id } = self.client.call(call, self.client.deadlines().request).await?;
        Ok(Session { client: self.client.clone(), id })
    }
}

impl Session {
    /// Submits a statement, without its semicolon; the gateway runs it by itself.
    pub async fn execute(&self, statement: &str) -> Result<Operation, Error> {
        #[derive(Deserialize)]
        struct Started {
            #[serde(rename = "operationHandle")]
            id: String,
        }
        let body = json!({"statement": statement});
        let call = Call::json(Method::POST, self.path(&["statements"])?, &body)?;
        let Started { id } = self.client.call(call, self.client.deadlines().request).await?;
        Ok(Operation { id })
    }

    /// Requests a page of a statement's results so far. The first token is 0.
    pub async fn fetch(
        &self,
        operation: &Operation,
        token: u64,
        format: RowFormat,
    ) -> Result<Fetched, Error> {
        let path = self.path(&["operations", &operation.id, "result", &token.to_string()])?;
        let format = match format {
            RowFormat::Json => "JSON",
            RowFormat::PlainText => "PLAIN_TEXT",
        };
        let answer: wired::Answer = self.client.get(format!("{path}?rowFormat={format}")).await?;
        Ok(answer.into())
    }

    /// Stops a running statement, including the job of a query.
    pub async fn cancel(&self, operation: &Operation) -> Result<(), Error> {
        let path = self.path(&["operations", &operation.id, "cancel"])?;
        self.client.raw(Method::POST, path, None).await.map(drop)
    }

    /// Makes the gateway forget a statement and its result.
    pub async fn close_operation(&self, operation: &Operation) -> Result<(), Error> {
        let path = self.path(&["operations", &operation.id, "close"])?;
        self.client.raw(Method::DELETE, path, None).await.map(drop)
    }

    /// Keeps the session alive.
    pub async fn heartbeat(&self) -> Result<(), Error> {
        self.client.raw(Method::POST, self.path(&["heartbeat"])?, None).await.map(drop)
    }

    /// Returns the options that are in effect in the session.
    pub async fn options(&self) -> Result<BTreeMap<String, String>, Error> {
        #[derive(Deserialize)]
        struct Options {
            #[serde(default, deserialize_with = "wire::null_as_default")]
            properties: BTreeMap<String, String>,
        }
        let Options { properties } = self.client.get(self.path(&[])?).await?;
        Ok(properties)
    }

    /// Ends the session, with the queries in it. Jobs that write tables continue.
    pub async fn close(&self) -> Result<(), Error> {
        self.client.raw(Method::DELETE, self.path(&[])?, None).await.map(drop)
    }

    fn path(&self, below: &[&str]) -> Result<String, Error> {
        let mut segments = vec!["v2", "sessions", self.id.as_str()];
        segments.extend(below);
        client::path(&segments)
    }
}

/// Returns whether the gateway no longer knows the session: it was idle for too long, or another gateway responds now.
pub fn is_session_lost(error: &Error) -> bool {
    error.says(|line| line.contains("Session '") && line.contains("' does not exist"))
}

/// Results in the protocol's format.
mod wired {
    use serde::Deserialize;
    use serde_json::Value;

    use super::{Change, Column, Fetched, Page, Row};
    use crate::flink::wire::null_as_default;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Answer {
        result_type: String,
        #[serde(default, deserialize_with = "null_as_default")]
        is_query_result: bool,
        #[serde(default, rename = "jobID")]
        job_id: Option<String>,
        #[serde(default)]
        result_kind: Option<String>,
        #[serde(default)]
        results: Option<Results>,
        #[serde(default)]
        next_result_uri: Option<String>,
    }

    #[derive(Deserialize)]
    struct Results {
        #[serde(default, deserialize_with = "null_as_default")]
        columns: Vec<ColumnInfo>,
        #[serde(default, deserialize_with = "null_as_default")]
        data: Vec<Data>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ColumnInfo {
        name: String,
        #[serde(default)]
        logical_type: Option<LogicalType>,
    }

    #[derive(Deserialize)]
    struct LogicalType {
        #[serde(rename = "type", default)]
        root: String,
    }

    #[derive(Deserialize)]
    struct Data {
        #[serde(default)]
        kind: Change,
        #[serde(default, deserialize_with = "null_as_default")]
        fields: Vec<Value>,
    }

    impl From<Answer> for Fetched {
        fn from(answer: Answer) -> Self {
            let Answer { result_type, is_query_result, job_id, result_kind, .. } = &answer;
            if result_type == "NOT_READY" {
                return Self::NotReady;
            }
            let (is_query, job_id) = (*is_query_result, job_id.clone());
            let is_plain_success = result_kind.as_deref() == Some("SUCCESS");
            let next = match result_type.as_str() {
                "EOS" => None,
                _ => answer.next_result_uri.as_deref().and_then(token),
            };
            let Results { columns, data } =
                answer.results.unwrap_or(Results { columns: Vec::new(), data: Vec::new() });
            let columns = columns.into_iter().map(|ColumnInfo { name, logical_type }| Column {
                name,
                kind: logical_type.map(|it| it.root).unwrap_or_default(),
            });
            let rows = data.into_iter().map(|Data { kind, fields }| Row { change: kind, fields });
            Self::Page(Page {
                is_query,
                is_plain_success,
                job_id,
                columns: columns.collect(),
                rows: rows.collect(),
                next,
            })
        }
    }

    /// Parses the token in `/v2/sessions/…/result/3?rowFormat=JSON`.
    fn token(uri: &str) -> Option<u64> {
        let path = uri.split('?').next().unwrap_or_default();
        path.trim_end_matches('/').rsplit('/').next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests;
