//! The books of the autoscalers in this process, by resource. A resource without an autoscaler has
//! none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::capacity::View;
use crate::context::{Context, lock};
use autoscaler::cycle::ConfigChanges;
use autoscaler::event_limiter::EventLimiter;
use autoscaler::state::Stored;
use autoscaler::topology::VertexId;
use clients::cluster::autoscaler::JobMap;
use clients::flink::scaling::Names;

/// Maximum number of jobs that are measured at the same time.
const MEASURED_MAX: usize = 32;

/// The autoscalers of an operator.
pub(crate) struct Autoscalers {
    books: Mutex<HashMap<String, Book>>,
    /// Generations whose verdict is awaited. Once they are on record, the stored data must be cleared.
    owed: Mutex<HashMap<String, i64>>,
    /// Numbers the books, so that a cycle recognizes its own.
    count: Mutex<u64>,
    /// Not set in a context that only reads.
    context: OnceLock<Weak<Context>>,
    pub(super) room: Arc<Semaphore>,
    /// The room on the cluster's nodes. A cycle decides on a copy, and takes room only if nobody else did meanwhile.
    pub(super) capacity: tokio::sync::Mutex<View>,
    pub(super) tasks: TaskTracker,
    /// Stops new cycles from beginning, and waits for Flink from continuing.
    pub(super) stop: CancellationToken,
    /// Drops all running work.
    pub(super) drop: CancellationToken,
}

impl Default for Autoscalers {
    fn default() -> Self {
        Self {
            books: Mutex::default(),
            owed: Mutex::default(),
            count: Mutex::default(),
            context: OnceLock::new(),
            room: Arc::new(Semaphore::new(MEASURED_MAX)),
            capacity: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            drop: CancellationToken::new(),
        }
    }
}

/// The book of one job.
pub(super) struct Book {
    /// Distinguishes this book from all others.
    pub(super) number: u64,
    pub(super) in_force: Decided,
    /// `None` while a cycle works with it, and if it cannot be parsed.
    pub(super) work: Option<Work>,
    /// When the last cycle began.
    pub(super) begun: Option<Instant>,
    /// Held while the stored data changes.
    pub(super) gate: Arc<tokio::sync::Mutex<()>>,
    pub(super) event_limiter: EventLimiter,
}

/// The decision in force, or the reason that it is unknown.
#[derive(Clone, Debug)]
pub(super) enum Decided {
    Known(Arc<InForce>),
    Unknown {
        reason: String,
    },
    /// It must be read again.
    Unread,
    /// The autoscaler is off, and nothing is stored any more.
    Cleared,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct InForce {
    pub(super) parallelism: BTreeMap<VertexId, u32>,
    /// Vertices that the last cycle could not scale.
    pub(super) unscaled: BTreeSet<VertexId>,
    pub(super) config: ConfigChanges,
}

/// The data that a cycle works with.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) kept: JobMap,
    pub(super) stored: Stored,
    pub(super) names: Names,
    /// The job is new to the autoscaler, and nothing is stored for it yet.
    pub(super) is_new: bool,
    /// When samples were last stored.
    pub(super) stored_at: Option<Timestamp>,
}

impl Book {
    pub(super) fn new(number: u64, in_force: Decided, work: Option<Work>) -> Self {
        let (gate, event_limiter) = (Arc::default(), EventLimiter::default());
        Self { number, in_force, work, begun: None, gate, event_limiter }
    }
}

impl Autoscalers {
    /// Sets the context, which lets cycles begin.
    pub(crate) fn bind(&self, context: &Arc<Context>) {
        drop(self.context.set(Arc::downgrade(context)));
    }

    pub(super) fn context(&self) -> Option<Arc<Context>> {
        self.context.get().and_then(Weak::upgrade)
    }

    /// Reads or changes a book.
    pub(super) fn with<T>(&self, uid: &str, inspect: impl FnOnce(&mut Book) -> T) -> Option<T> {
        lock(&self.books).get_mut(uid).map(inspect)
    }

    /// Like [`Self::with`], if it is still the same book.
    pub(super) fn with_same<T>(
        &self,
        uid: &str,
        number: u64,
        inspect: impl FnOnce(&mut Book) -> T,
    ) -> Option<T> {
        lock(&self.books).get_mut(uid).filter(|book| book.number == number).map(inspect)
    }

    /// Opens a book in place of any other one.
    pub(super) fn open(&self, uid: &str, in_force: Decided, work: Option<Work>) {
        let number = {
            let mut count = lock(&self.count);
            *count += 1;
            *count
        };
        let mut books = lock(&self.books);
        let mut book = Book::new(number, in_force, work);
        if let Some(former) = books.remove(uid) {
            (book.gate, book.event_limiter, book.begun) =
                (former.gate, former.event_limiter, former.begun);
        }
        books.insert(uid.to_owned(), book);
    }

    /// Notes that the stored data must be cleared once this generation is on record.
    pub(super) fn owe(&self, uid: &str, generation: i64) {
        lock(&self.owed).insert(uid.to_owned(), generation);
    }

    /// Returns `true` if the stored data must be cleared now, because the noted generation is on record.
    pub(super) fn is_owed(&self, uid: &str, observed: Option<i64>) -> bool {
        lock(&self.owed).get(uid).is_some_and(|owed| Some(*owed) == observed)
    }

    /// Notes that nothing needs to be cleared any more.
    pub(crate) fn settle(&self, uid: &str) {
        lock(&self.owed).remove(uid);
    }

    /// Forgets the book, so that the stored data is read again before it applies.
    pub(crate) fn forget(&self, uid: &str) {
        lock(&self.books).remove(uid);
    }

    pub(crate) fn forget_all(&self) {
        lock(&self.books).clear();
    }

    /// Lets cycles that write finish.
    pub(crate) async fn finish(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Drops all running work immediately.
    pub(crate) fn abandon(&self) {
        self.stop.cancel();
        self.drop.cancel();
    }
}
