//! Where a standalone autoscaler stores what it knows of its jobs: in memory or in a database.
//!
//! A store knows keys and values, not their meaning. Each job has a revision, so that two processes that share a
//! database never overwrite each other. Each value is stored with its length and the version of its format, which
//! reveals damage ([`Record::damaged`]). Values are bounded, and every call has a deadline.

mod memory;
mod place;
mod sql;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

pub use memory::Memory;
pub use place::{InvalidPlace, Place};
pub use sql::Sql;

/// Maximum length in bytes of a job's key and of the key of a value.
pub const KEY_BYTES_MAX: usize = 191;
/// Maximum size in bytes of all values of a job.
pub const VALUE_BYTES_MAX: usize = 2 << 20;
/// Maximum number of values of a job.
pub const VALUES_MAX: usize = 32;
/// Maximum duration of a call, from requesting a connection to the result.
const DEADLINE: Duration = Duration::from_secs(10);

/// Values by key.
pub type Data = BTreeMap<String, String>;

/// The stored data of one job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Record {
    /// Zero if nothing is stored yet.
    pub revision: i64,
    pub data: Data,
    /// Why a value differs from what was written, by its key; `data` contains it as it was found.
    pub damaged: Data,
}

impl Record {
    pub fn is_stored(&self) -> bool {
        self.revision > 0
    }
}

/// Why a call to a store failed. No message contains a password.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{store}: {problem}")]
    Failed { store: String, problem: String },
    #[error("{store}: no answer within {DEADLINE:?}")]
    Timeout { store: String },
    #[error(
        "{store}: its tables have version {found}, and this program supports {known}: a newer \
         kubectl-flink created them; use that one, or another database"
    )]
    Newer { store: String, found: i64, known: i64 },
    #[error("job `{job}` was stored by another process in the meantime")]
    Conflict { job: String },
    #[error("job `{job}`: {problem}, so nothing was stored")]
    TooLarge { job: String, problem: String },
}

/// A store for the data of jobs.
pub trait Store: Send + Sync + 'static {
    /// A name for people, without secrets.
    fn name(&self) -> &str;

    /// Reads the data of a job. It is empty if nothing is stored.
    fn read<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Record, Error>>;

    /// Reads the values that the Java program stores of a job, by its id, if its table is in the same database. That
    /// table is never written.
    fn read_java<'a>(&'a self, _job_id: &'a str) -> BoxFuture<'a, Result<Data, Error>> {
        Box::pin(async { Ok(Data::new()) })
    }

    /// Stores exactly these values of a job; returns its new revision.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the revision is no longer that of `kept`; nothing is changed then.
    fn write<'a>(
        &'a self,
        job: &'a str,
        kept: &'a Record,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<i64, Error>>;

    /// Removes everything stored of a job.
    fn remove<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<(), Error>>;

    /// Removes a limited number of jobs that were not written since `before`; returns their keys.
    fn trim(&self, before: Timestamp) -> BoxFuture<'_, Result<Vec<String>, Error>>;
}

/// Opens the store at this place and creates missing tables.
///
/// # Errors
/// If the store cannot be reached, or if a newer version created its tables.
pub async fn open(place: &Place) -> Result<Arc<dyn Store>, Error> {
    match place {
        Place::Memory => Ok(Arc::new(Memory::default())),
        Place::Sql(url) => Ok(Arc::new(Sql::open(url).await?)),
    }
}

/// Checks that a job's values may be stored.
fn check(job: &str, data: &Data) -> Result<(), Error> {
    let too_large = |problem: String| Err(Error::TooLarge { job: job.to_owned(), problem });
    let longest = data.keys().map(String::len).max().unwrap_or_default().max(job.len());
    if longest > KEY_BYTES_MAX {
        return too_large(format!("a key has {longest} bytes, more than {KEY_BYTES_MAX}"));
    }
    if data.len() > VALUES_MAX {
        return too_large(format!("there are {} values, more than {VALUES_MAX}", data.len()));
    }
    let bytes: usize = data.values().map(String::len).sum();
    if bytes > VALUE_BYTES_MAX {
        return too_large(format!("its values have {bytes} bytes, more than {VALUE_BYTES_MAX}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
