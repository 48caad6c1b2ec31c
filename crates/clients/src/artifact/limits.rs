//! How many jars are fetched and uploaded at a time, and how much of the disk they take.
//!
//! One namespace gets at most a share, so that a store or a JobManager that does not answer holds up no other
//! namespace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::request::Request;

/// Jars that are fetched or uploaded at the same time.
const TRANSFERS_MAX: u32 = 64;
/// Those of one namespace.
const TRANSFERS_OF_NAMESPACE_MAX: u32 = 8;
/// Disk space of all of them, in jars of the maximum size.
const JARS_MAX: u32 = 4;
const JARS_OF_NAMESPACE_MAX: u32 = 2;
/// Units of disk space in a jar of the maximum size.
const UNITS_PER_JAR: u32 = 1024;

/// What a transfer holds until it ends.
pub(super) type Permit = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Permits of which one namespace has at most a share.
struct Pool {
    all: Arc<Semaphore>,
    share: u32,
    of_namespaces: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Pool {
    fn new(all: u32, share: u32) -> Self {
        let all = Arc::new(Semaphore::new(all as usize));
        Self { all, share, of_namespaces: Mutex::default() }
    }

    async fn take(&self, namespace: &str, count: u32) -> Permit {
        let own = self.of_namespace(namespace).acquire_many_owned(count).await;
        let all = Arc::clone(&self.all).acquire_many_owned(count).await;
        let expected = "the semaphores are never closed";
        (own.expect(expected), all.expect(expected))
    }

    fn of_namespace(&self, namespace: &str) -> Arc<Semaphore> {
        let mut known = self.of_namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = known.get(namespace).and_then(Weak::upgrade) {
            return semaphore;
        }
        known.retain(|_, semaphore| semaphore.strong_count() > 0);
        let semaphore = Arc::new(Semaphore::new(self.share as usize));
        known.insert(namespace.to_owned(), Arc::downgrade(&semaphore));
        semaphore
    }
}

/// The limits of all transfers of a process.
pub(super) struct Limits {
    transfers: Pool,
    room: Pool,
}

impl Default for Limits {
    fn default() -> Self {
        let room = Pool::new(JARS_MAX * UNITS_PER_JAR, JARS_OF_NAMESPACE_MAX * UNITS_PER_JAR);
        Self { transfers: Pool::new(TRANSFERS_MAX, TRANSFERS_OF_NAMESPACE_MAX), room }
    }
}

impl Limits {
    /// Waits until another jar may be fetched and uploaded.
    pub(super) async fn transfer(&self, request: &Request) -> Permit {
        self.transfers.take(&request.namespace, 1).await
    }

    /// Waits for room on the disk. A jar of unknown size needs that of the largest.
    pub(super) async fn room(&self, size_bytes: Option<u64>, request: &Request) -> Permit {
        let size_max = request.limits.size_max.bytes().max(1);
        let size = size_bytes.unwrap_or(size_max).min(size_max);
        let units = u128::from(size) * u128::from(UNITS_PER_JAR);
        let units = units.div_ceil(u128::from(size_max)).max(1);
        let units = u32::try_from(units).unwrap_or(UNITS_PER_JAR);
        self.room.take(&request.namespace, units).await
    }
}
