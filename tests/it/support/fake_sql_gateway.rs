//! A SQL gateway in memory that answers like that of Flink 1.20: sessions, statements that take a while, paged results
//! with tokens, stack traces, and lost sessions.
//!
//! The first words of a statement determine what it does; see [`Statement::of`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode, Uri};
use serde_json::{Value, json};

/// The job that an `INSERT` starts.
pub(crate) const JOB: &str = "5b63b69330b185d02c16aeb2c07b7a36";

#[derive(Default)]
struct State {
    sessions: BTreeMap<String, BTreeMap<String, String>>,
    operations: BTreeMap<String, Operation>,
    statements: Vec<String>,
    cancelled: BTreeSet<String>,
    closed: usize,
    heartbeats: usize,
    made: usize,
    /// Number of result answers still to be lost in transit.
    lost_answers: usize,
}

struct Operation {
    statement: Statement,
    /// Number of answers saying that no result is ready yet.
    unready: usize,
    /// The next expected token; the one before it may be repeated.
    token: u64,
}

/// What a statement does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Statement {
    Ok,
    /// Three rows on two pages, after an empty page.
    Rows,
    /// One row per page, without end.
    Endless,
    Job,
    /// Fails on an unknown object in line 2 of the statement.
    Unknown,
    /// The session is lost while the statement runs.
    Lost,
}

impl Statement {
    fn of(text: &str) -> Self {
        let is = |word: &str| text.to_uppercase().contains(word);
        if is("ENDLESS") {
            Self::Endless
        } else if is("UNKNOWN") {
            Self::Unknown
        } else if is("LOSE") {
            Self::Lost
        } else if is("INSERT") {
            Self::Job
        } else if is("SELECT") || is("SHOW") {
            Self::Rows
        } else {
            Self::Ok
        }
    }

    /// Returns the page with this token, and whether it is the last.
    fn page(self, token: u64) -> (Vec<Value>, bool) {
        let row = |kind: &str, fields: Value| json!({"kind": kind, "fields": fields});
        match (self, token) {
            (Self::Ok, 0) => (vec![row("INSERT", json!(["OK"]))], false),
            (Self::Job, 0) => (vec![row("INSERT", json!([JOB]))], false),
            (Self::Rows, 0) => (vec![], false),
            (Self::Rows, 1) => {
                let rows = [json!([1, "a"]), json!([2, null])];
                (rows.into_iter().map(|fields| row("INSERT", fields)).collect(), false)
            }
            (Self::Rows, 2) => (vec![row("UPDATE_AFTER", json!([1, "b,\"c\""]))], false),
            (Self::Endless, number) => (vec![row("INSERT", json!([number, "x"]))], false),
            _ => (vec![], true),
        }
    }
}

/// The gateway; clones share its state.
#[derive(Clone)]
pub(crate) struct FakeSqlGateway {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
}

impl FakeSqlGateway {
    /// Starts a gateway on its own port.
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let fake = Self { state: Arc::default(), address };
        let answering = fake.clone();
        let router = Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
            let fake = answering.clone();
            async move {
                let is_lost = {
                    let mut state = fake.state.lock().unwrap();
                    let is_lost = state.lost_answers > 0 && uri.path().contains("/result/");
                    state.lost_answers -= usize::from(is_lost);
                    is_lost
                };
                let (status, body) = fake.answer(&method, &uri, &body);
                if is_lost {
                    return (StatusCode::BAD_GATEWAY, "lost".to_owned());
                }
                (status, body.to_string())
            }
        });
        drop(tokio::spawn(async move { axum::serve(listener, router).await }));
        fake
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Loses the next `count` answers to requests for results, after they are produced.
    pub(crate) fn lose_answers(&self, count: usize) {
        self.state.lock().unwrap().lost_answers = count;
    }

    pub(crate) fn statements(&self) -> Vec<String> {
        self.state.lock().unwrap().statements.clone()
    }

    /// Returns the number of open sessions.
    pub(crate) fn sessions(&self) -> usize {
        self.state.lock().unwrap().sessions.len()
    }

    /// Returns the number of cancelled statements.
    pub(crate) fn cancelled(&self) -> usize {
        self.state.lock().unwrap().cancelled.len()
    }

    /// Returns the number of closed statements and of those still open.
    pub(crate) fn closed(&self) -> (usize, usize) {
        let state = self.state.lock().unwrap();
        (state.closed, state.operations.len())
    }

    pub(crate) fn heartbeats(&self) -> usize {
        self.state.lock().unwrap().heartbeats
    }

    fn answer(&self, method: &Method, uri: &Uri, body: &[u8]) -> (StatusCode, Value) {
        let mut state = self.state.lock().unwrap();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let segments = uri.path().trim_matches('/').split('/').collect::<Vec<_>>();
        match (method.as_str(), segments.as_slice()) {
            ("GET", ["api_versions"]) => ok(json!({"versions": ["V1", "V2", "V3"]})),
            ("POST", ["v2", "sessions"]) => {
                state.made += 1;
                let id = format!("session-{}", state.made);
                state.sessions.insert(id.clone(), BTreeMap::new());
                ok(json!({ "sessionHandle": id }))
            }
            (_, ["v2", "sessions", session, ..]) if !state.sessions.contains_key(*session) => {
                thrown(&format!(
                    "org.apache.flink.table.gateway.api.utils.SqlGatewayException: Session '{session}' does not exist."
                ))
            }
            ("GET", ["v2", "sessions", session]) => {
                ok(json!({"properties": state.sessions[*session]}))
            }
            ("DELETE", ["v2", "sessions", session]) => {
                state.sessions.remove(*session);
                ok(json!({"status": "CLOSED"}))
            }
            ("POST", ["v2", "sessions", _, "heartbeat"]) => {
                state.heartbeats += 1;
                ok(json!({}))
            }
            ("POST", ["v2", "sessions", session, "statements"]) => state.execute(session, &body),
            (_, ["v2", "sessions", session, "operations", operation, rest @ ..]) => {
                let query = uri.query().unwrap_or_default();
                state.operation(method, session, operation, rest, query)
            }
            _ => (StatusCode::NOT_FOUND, json!({"errors": [format!("Not found: {}", uri.path())]})),
        }
    }
}

impl State {
    fn execute(&mut self, session: &str, body: &Value) -> (StatusCode, Value) {
        let text = body["statement"].as_str().unwrap_or_default().to_owned();
        let statement = Statement::of(&text);
        if let Some((key, value)) = setting(&text) {
            self.sessions.get_mut(session).unwrap().insert(key, value);
        }
        self.statements.push(text);
        self.made += 1;
        let id = format!("operation-{}", self.made);
        self.operations.insert(id.clone(), Operation { statement, unready: 1, token: 0 });
        ok(json!({ "operationHandle": id }))
    }

    fn operation(
        &mut self,
        method: &Method,
        session: &str,
        id: &str,
        rest: &[&str],
        query: &str,
    ) -> (StatusCode, Value) {
        match (method.as_str(), rest) {
            ("POST", ["cancel"]) => {
                self.cancelled.insert(id.to_owned());
                ok(json!({"status": "CANCELED"}))
            }
            ("DELETE", ["close"]) => {
                self.operations.remove(id);
                self.closed += 1;
                ok(json!({"status": "CLOSED"}))
            }
            ("GET", ["result", token]) => self.result(session, id, token.parse().unwrap(), query),
            _ => (StatusCode::NOT_FOUND, json!({"errors": ["Not found"]})),
        }
    }

    fn result(&mut self, session: &str, id: &str, token: u64, query: &str) -> (StatusCode, Value) {
        let uri =
            |token: u64| format!("/v2/sessions/{session}/operations/{id}/result/{token}?{query}");
        let Some(operation) = self.operations.get_mut(id) else {
            return thrown("org.apache.flink.X: Can not find the submitted operation");
        };
        if operation.unready > 0 {
            operation.unready -= 1;
            return ok(json!({"resultType": "NOT_READY", "nextResultUri": uri(token)}));
        }
        match operation.statement {
            Statement::Unknown => {
                return thrown(
                    "org.apache.flink.table.gateway.api.utils.SqlGatewayException: Failed to fetchResults.\n\tat a.B(C.java:1)\n\
                     Caused by: org.apache.flink.table.api.ValidationException: SQL validation failed. From line 2, column 15 to line 2, column 17: Object 'foo' not found\n\tat a.B(C.java:1)\n\
                     Caused by: org.apache.calcite.sql.validate.SqlValidatorException: Object 'foo' not found",
                );
            }
            Statement::Lost => {
                self.sessions.clear();
                return thrown(&format!(
                    "org.x.SqlGatewayException: Session '{session}' does not exist."
                ));
            }
            Statement::Ok | Statement::Rows | Statement::Endless | Statement::Job => {}
        }
        // Only the previous page may be requested again.
        if token == operation.token {
            operation.token += 1;
        } else if token + 1 != operation.token {
            return thrown(&format!(
                "org.x.SqlExecutionException: Expecting token to be {}",
                operation.token
            ));
        }
        let statement = operation.statement;
        let (rows, is_last) = statement.page(token);
        let is_text = query.contains("PLAIN_TEXT");
        let rows = rows.into_iter().map(|mut row| {
            for field in row["fields"].as_array_mut().unwrap() {
                if is_text && field.is_number() {
                    *field = json!(field.to_string());
                }
            }
            row
        });
        let column = |name: &str, kind: &str| json!({"name": name, "logicalType": {"type": kind, "nullable": true}, "comment": null});
        let columns = match statement {
            Statement::Job => vec![column("job id", "VARCHAR")],
            Statement::Rows | Statement::Endless => {
                vec![column("id", "INTEGER"), column("name", "VARCHAR")]
            }
            Statement::Ok | Statement::Unknown | Statement::Lost => {
                vec![column("result", "VARCHAR")]
            }
        };
        let is_query = matches!(statement, Statement::Rows | Statement::Endless);
        let mut answer = json!({
            "resultType": if is_last { "EOS" } else { "PAYLOAD" },
            "isQueryResult": is_query,
            "resultKind": if statement == Statement::Ok { "SUCCESS" } else { "SUCCESS_WITH_CONTENT" },
            "results": {"columns": columns, "rowFormat": "JSON", "data": rows.collect::<Vec<_>>()},
        });
        if !is_last {
            answer["nextResultUri"] = json!(uri(token + 1));
        }
        if is_query || statement == Statement::Job {
            answer["jobID"] = json!(JOB);
        }
        ok(answer)
    }
}

/// Parses `SET 'a' = 'b'`.
fn setting(text: &str) -> Option<(String, String)> {
    let mut parts = text.strip_prefix("SET ")?.split('\'');
    Some((parts.nth(1)?.to_owned(), parts.nth(1)?.to_owned()))
}

fn ok(body: Value) -> (StatusCode, Value) {
    (StatusCode::OK, body)
}

fn thrown(text: &str) -> (StatusCode, Value) {
    let text = format!(
        "<Exception on server side:\n{text}\n\tat a.B(C.java:1)\n\nEnd of exception on server side>"
    );
    (StatusCode::INTERNAL_SERVER_ERROR, json!({"errors": ["Internal server error.", text]}))
}
