//! A database: SQLite, PostgreSQL or MySQL, all with the same statements.
//!
//! Three tables, created if missing: the version of the tables, a row of each job with its revision, and a row of each
//! of its values. A write is one transaction that begins with the revision, so one of two concurrent writers fails.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use jiff::Timestamp;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::{AnyPool, AssertSqlSafe, ConnectOptions as _, Row as _};
use url::Url;

use super::{DEADLINE, Data, Error, Place, Record, Store, VALUES_MAX, check};

/// Version of the tables that this program creates and understands.
const TABLES: i64 = 1;
/// Version of the format of the values.
const FORM: i64 = 1;
/// Maximum number of connections to a server. SQLite has one, because it has one writer.
const CONNECTIONS_MAX: u32 = 4;
/// Time after which an unused connection is closed.
const IDLE_MAX: Duration = Duration::from_mins(5);
/// Maximum number of jobs removed per call of `trim`.
const TRIMMED_MAX: i64 = 100;
/// Number of attempts: two processes that start at the same time may create the same table.
const TRIES_MAX: u32 = 3;
const TRY_PAUSE: Duration = Duration::from_millis(300);
/// Maximum length in characters of a database message that is passed on.
const PROBLEM_MAX: usize = 500;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Dialect {
    Sqlite,
    Postgres,
    MySql,
}

/// A database, with its connections.
#[derive(Debug)]
pub struct Sql {
    pool: AnyPool,
    dialect: Dialect,
    name: String,
    /// Whether the table of the Java program exists and is readable.
    has_java_table: bool,
}

/// Why a call failed.
enum Failure {
    Sql(sqlx::Error),
    Conflict,
    Newer(i64),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl Sql {
    /// Connects, and creates missing tables.
    ///
    /// # Errors
    /// If the server does not answer or refuses access, or if a newer version created the tables.
    pub async fn open(url: &Url) -> Result<Self, Error> {
        let (dialect, connections) = match url.scheme() {
            "sqlite" => (Dialect::Sqlite, 1),
            "mysql" | "mariadb" => (Dialect::MySql, CONNECTIONS_MAX),
            _ => (Dialect::Postgres, CONNECTIONS_MAX),
        };
        let name = Place::Sql(url.clone()).to_string();
        sqlx::any::install_default_drivers();
        let failed =
            |error: sqlx::Error| Error::Failed { store: name.clone(), problem: problem(&error) };
        let options = AnyConnectOptions::from_url(url).map_err(failed)?;
        let options = options.disable_statement_logging();
        // Connect without the pool first: the pool retries silently and reports only that time ran out.
        let connected = tokio::time::timeout(DEADLINE, options.connect())
            .await
            .map_err(|_| Error::Timeout { store: name.clone() })?
            .map_err(failed)?;
        drop(connected);
        let pool = AnyPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(DEADLINE)
            .idle_timeout(IDLE_MAX)
            .connect_lazy_with(options);
        let mut sql = Self { pool, dialect, name, has_java_table: false };
        let mut tried = 1;
        loop {
            match sql.within("", sql.make_tables()).await {
                Err(Error::Failed { .. }) if tried < TRIES_MAX => tried += 1,
                made => break made?,
            }
            tokio::time::sleep(TRY_PAUSE).await;
        }
        sql.has_java_table = sql.within("", sql.find_java_table()).await?;
        Ok(sql)
    }

    /// Statements are written with `$1`, `$2`, … in this order; MySQL has `?` instead.
    fn text(&self, statement: &'static str) -> AssertSqlSafe<String> {
        if self.dialect != Dialect::MySql {
            return AssertSqlSafe(statement.to_owned());
        }
        let mut parts = statement.split('$');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            text.push('?');
            text.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_digit()));
        }
        AssertSqlSafe(text)
    }

    async fn within<T>(
        &self,
        job: &str,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Error> {
        let store = || self.name.clone();
        match tokio::time::timeout(DEADLINE, work).await {
            Err(_) => Err(Error::Timeout { store: store() }),
            Ok(Ok(done)) => Ok(done),
            Ok(Err(Failure::Conflict)) => Err(Error::Conflict { job: job.to_owned() }),
            Ok(Err(Failure::Newer(found))) => {
                Err(Error::Newer { store: store(), found, known: TABLES })
            }
            Ok(Err(Failure::Sql(error))) => {
                Err(Error::Failed { store: store(), problem: problem(&error) })
            }
        }
    }

    async fn make_tables(&self) -> Result<(), Failure> {
        let made = "CREATE TABLE IF NOT EXISTS kubectl_flink_autoscaler_version \
                    (id BIGINT NOT NULL PRIMARY KEY, version BIGINT NOT NULL)";
        sqlx::query(made).execute(&self.pool).await?;
        let found = if let Some(found) = self.version().await? {
            found
        } else {
            let noted = "INSERT INTO kubectl_flink_autoscaler_version (id, version) VALUES (1, $1)";
            sqlx::query(self.text(noted)).bind(TABLES).execute(&self.pool).await?;
            TABLES
        };
        if found > TABLES {
            return Err(Failure::Newer(found));
        }
        // Keys are compared byte by byte, not by the rules of a language.
        let (key, value) = match self.dialect {
            Dialect::Sqlite => ("TEXT", "BLOB"),
            Dialect::Postgres => ("VARCHAR(191)", "BYTEA"),
            Dialect::MySql => {
                ("VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "LONGBLOB")
            }
        };
        for table in [
            format!(
                "CREATE TABLE IF NOT EXISTS kubectl_flink_autoscaler_job (job_key {key} NOT NULL \
                 PRIMARY KEY, revision BIGINT NOT NULL, updated BIGINT NOT NULL)"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS kubectl_flink_autoscaler_value (job_key {key} NOT \
                 NULL, value_key {key} NOT NULL, form BIGINT NOT NULL, bytes BIGINT NOT NULL, \
                 value {value} NOT NULL, PRIMARY KEY (job_key, value_key))"
            ),
        ] {
            sqlx::query(AssertSqlSafe(table)).execute(&self.pool).await?;
        }
        Ok(())
    }

    async fn find_java_table(&self) -> Result<bool, Failure> {
        let asked = match self.dialect {
            Dialect::Sqlite => {
                "SELECT COUNT(*) FROM sqlite_master WHERE name = 't_flink_autoscaler_state_store'"
            }
            Dialect::Postgres => {
                "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = \
                 't_flink_autoscaler_state_store' AND table_schema = ANY(current_schemas(false))"
            }
            Dialect::MySql => {
                "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = \
                 't_flink_autoscaler_state_store' AND table_schema = DATABASE()"
            }
        };
        let row = sqlx::query(asked).fetch_one(&self.pool).await?;
        Ok(row.try_get::<i64, _>(0)? > 0)
    }

    async fn read_java_now(&self, job_id: &str) -> Result<Data, Failure> {
        if !self.has_java_table {
            return Ok(Data::new());
        }
        let asked = "SELECT state_type, state_value FROM t_flink_autoscaler_state_store \
                     WHERE job_key = $1 LIMIT $2";
        let most = i64::try_from(VALUES_MAX).unwrap_or(i64::MAX);
        let rows = sqlx::query(self.text(asked)).bind(job_id.to_owned()).bind(most);
        let rows = rows.fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Runs statements without values, as another program would.
    #[cfg(test)]
    pub(super) async fn execute(&self, statements: &[String]) {
        for statement in statements {
            sqlx::query(AssertSqlSafe(statement.clone())).execute(&self.pool).await.unwrap();
        }
    }

    /// Runs a statement with one text, as another program would.
    #[cfg(test)]
    pub(super) async fn change(&self, statement: &'static str, text: &str) {
        let change = sqlx::query(self.text(statement)).bind(text.to_owned());
        change.execute(&self.pool).await.unwrap();
    }

    async fn version(&self) -> Result<Option<i64>, Failure> {
        let asked = "SELECT version FROM kubectl_flink_autoscaler_version WHERE id = 1";
        let row = sqlx::query(asked).fetch_optional(&self.pool).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    async fn read_now(&self, job: &str) -> Result<Record, Failure> {
        // Read the revision first: the next write then detects anything written in between.
        let asked = "SELECT revision FROM kubectl_flink_autoscaler_job WHERE job_key = $1";
        let row = sqlx::query(self.text(asked)).bind(job.to_owned());
        let Some(row) = row.fetch_optional(&self.pool).await? else { return Ok(Record::default()) };
        let mut kept = Record { revision: row.try_get(0)?, ..Record::default() };
        let asked = "SELECT value_key, form, bytes, value FROM kubectl_flink_autoscaler_value \
                     WHERE job_key = $1";
        let rows = sqlx::query(self.text(asked)).bind(job.to_owned()).fetch_all(&self.pool).await?;
        for row in &rows {
            let Value { key, text, damage } = value(row)?;
            kept.damaged.extend(damage.map(|damage| (key.clone(), damage)));
            kept.data.insert(key, text);
        }
        Ok(kept)
    }

    async fn write_now(&self, job: &str, kept: &Record, now: Timestamp) -> Result<i64, Failure> {
        let revision = kept.revision.saturating_add(1);
        let mut transaction = self.pool.begin().await?;
        if kept.is_stored() {
            let raise = "UPDATE kubectl_flink_autoscaler_job SET revision = $1, updated = $2 \
                         WHERE job_key = $3 AND revision = $4";
            let raised = sqlx::query(self.text(raise))
                .bind(revision)
                .bind(now.as_millisecond())
                .bind(job.to_owned())
                .bind(kept.revision)
                .execute(&mut *transaction)
                .await?;
            if raised.rows_affected() != 1 {
                return Err(Failure::Conflict);
            }
        } else {
            let begin = "INSERT INTO kubectl_flink_autoscaler_job (job_key, revision, updated) \
                         VALUES ($1, $2, $3)";
            let inserted = sqlx::query(self.text(begin))
                .bind(job.to_owned())
                .bind(revision)
                .bind(now.as_millisecond())
                .execute(&mut *transaction)
                .await;
            if let Err(sqlx::Error::Database(error)) = &inserted
                && error.is_unique_violation()
            {
                return Err(Failure::Conflict);
            }
            inserted?;
        }
        let clear = "DELETE FROM kubectl_flink_autoscaler_value WHERE job_key = $1";
        sqlx::query(self.text(clear)).bind(job.to_owned()).execute(&mut *transaction).await?;
        let put = "INSERT INTO kubectl_flink_autoscaler_value \
                   (job_key, value_key, form, bytes, value) VALUES ($1, $2, $3, $4, $5)";
        for (key, text) in &kept.data {
            let bytes = i64::try_from(text.len()).unwrap_or(i64::MAX);
            sqlx::query(self.text(put))
                .bind(job.to_owned())
                .bind(key.clone())
                .bind(FORM)
                .bind(bytes)
                .bind(text.clone().into_bytes())
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(revision)
    }

    async fn remove_now(&self, job: &str, before: i64) -> Result<bool, Failure> {
        let mut transaction = self.pool.begin().await?;
        let job_row =
            "DELETE FROM kubectl_flink_autoscaler_job WHERE job_key = $1 AND updated < $2";
        let removed = sqlx::query(self.text(job_row))
            .bind(job.to_owned())
            .bind(before)
            .execute(&mut *transaction)
            .await?;
        if removed.rows_affected() == 0 {
            return Ok(false);
        }
        let values = "DELETE FROM kubectl_flink_autoscaler_value WHERE job_key = $1";
        sqlx::query(self.text(values)).bind(job.to_owned()).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn trim_now(&self, before: Timestamp) -> Result<Vec<String>, Failure> {
        let before = before.as_millisecond();
        let asked = "SELECT job_key FROM kubectl_flink_autoscaler_job WHERE updated < $1 \
                     ORDER BY updated LIMIT $2";
        let rows = sqlx::query(self.text(asked)).bind(before).bind(TRIMMED_MAX);
        let rows = rows.fetch_all(&self.pool).await?;
        let mut removed = Vec::new();
        for row in &rows {
            let job: String = row.try_get(0)?;
            if self.remove_now(&job, before).await? {
                removed.push(job);
            }
        }
        Ok(removed)
    }
}

impl Store for Sql {
    fn name(&self) -> &str {
        &self.name
    }

    fn read<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Record, Error>> {
        Box::pin(self.within(job, self.read_now(job)))
    }

    fn read_java<'a>(&'a self, job_id: &'a str) -> BoxFuture<'a, Result<Data, Error>> {
        Box::pin(self.within(job_id, self.read_java_now(job_id)))
    }

    fn write<'a>(
        &'a self,
        job: &'a str,
        kept: &'a Record,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<i64, Error>> {
        Box::pin(async move {
            check(job, &kept.data)?;
            self.within(job, self.write_now(job, kept, now)).await
        })
    }

    fn remove<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.within(job, self.remove_now(job, i64::MAX)).await.map(drop) })
    }

    fn trim(&self, before: Timestamp) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        Box::pin(self.within("", self.trim_now(before)))
    }
}

/// A row of a value.
struct Value {
    key: String,
    text: String,
    damage: Option<String>,
}

fn value(row: &AnyRow) -> Result<Value, sqlx::Error> {
    let key = row.try_get(0)?;
    let (form, bytes): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
    // SQLite returns a value that someone inserted by hand as the text that it is.
    let text = || row.try_get::<String, _>(3).map(String::into_bytes);
    let found: Vec<u8> = row.try_get(3).or_else(|_| text())?;
    let length = found.len();
    let mut damage = None;
    let text = match String::from_utf8(found) {
        Ok(text) => text,
        Err(error) => {
            damage = Some("it is not text, and is shown in base64".to_owned());
            STANDARD.encode(error.as_bytes())
        }
    };
    if i64::try_from(length) != Ok(bytes) {
        damage = Some(format!("it has {length} of its {bytes} bytes"));
    }
    if form > FORM {
        damage =
            Some(format!("a newer kubectl-flink wrote it, in format {form} instead of {FORM}"));
    }
    Ok(Value { key, text, damage })
}

/// Returns the error in one line of bounded length.
fn problem(error: &sqlx::Error) -> String {
    let text = match error {
        sqlx::Error::Database(error) => Cow::Borrowed(error.message()),
        other => Cow::Owned(other.to_string()),
    };
    text.chars().map(|letter| if letter == '\n' { ' ' } else { letter }).take(PROBLEM_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn statements_are_written_once_for_all() {
        let pool = {
            sqlx::any::install_default_drivers();
            AnyPoolOptions::new().connect_lazy("sqlite::memory:").unwrap()
        };
        let name = String::new();
        let sql = |dialect| {
            let (pool, name) = (pool.clone(), name.clone());
            Sql { pool, dialect, name, has_java_table: false }
        };
        let statement = "SELECT a FROM t WHERE b = $1 AND c = $12";
        assert_eq!(sql(Dialect::MySql).text(statement).0, "SELECT a FROM t WHERE b = ? AND c = ?");
        assert_eq!(sql(Dialect::Postgres).text(statement).0, statement);
    }
}
