//! Where an autoscaler that runs by itself keeps what it knows of its jobs: in memory, or in a
//! database.
//!
//! A store knows keys and values and nothing of their meaning. Each job has a revision, so that two
//! processes that share a database never write over each other, and each value is stored with its
//! length and the version of its form: what is not as it was written is told apart from what is
//! ([`Kept::damaged`]). Values are bounded, and every call has a deadline.

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

/// Longest key of a job, and of one of its values, in bytes.
pub const KEY_BYTES_MAX: usize = 191;
/// Most bytes of a job's values together.
pub const VALUE_BYTES_MAX: usize = 2 << 20;
/// Most values of a job.
pub const VALUES_MAX: usize = 32;
/// How long one call may take, from asking for a connection to the answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Values by key.
pub type Data = BTreeMap<String, String>;

/// The stored data of one job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Kept {
    /// Zero where nothing is stored yet.
    pub revision: i64,
    pub data: Data,
    /// Why a value is not as it was written, by its key; it stands in `data` as it was found.
    pub damaged: Data,
}

impl Kept {
    pub fn is_stored(&self) -> bool {
        self.revision > 0
    }
}

/// Why a store did not do what it was asked to. No message names a password.
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

/// A store of what is known of jobs.
pub trait Store: Send + Sync + 'static {
    /// For people; without secrets.
    fn name(&self) -> &str;

    /// Reads the data of a job. It is empty if nothing is stored.
    fn read<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Kept, Error>>;

    /// The values that the Java program keeps of a job, by its id, where its table is in the same
    /// database. It is only ever read.
    fn read_java<'a>(&'a self, _job_id: &'a str) -> BoxFuture<'a, Result<Data, Error>> {
        Box::pin(async { Ok(Data::new()) })
    }

    /// Keeps exactly these values of a job; answers its new revision.
    ///
    /// # Errors
    /// [`Error::Conflict`] where the revision is not that of `kept` any more; nothing is changed then.
    fn write<'a>(
        &'a self,
        job: &'a str,
        kept: &'a Kept,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<i64, Error>>;

    /// Keeps nothing of a job any more.
    fn remove<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<(), Error>>;

    /// Removes the jobs that were not written since `before`, some at a time; answers their keys.
    fn trim(&self, before: Timestamp) -> BoxFuture<'_, Result<Vec<String>, Error>>;
}

/// Opens the store at this place, and makes its tables where there are none.
///
/// # Errors
/// Where it cannot be reached, and where a newer version made its tables.
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
