//! A store in memory, which lasts as long as the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use jiff::Timestamp;

use super::{Error, Record, Store, check};

/// Jobs by key, with the time of their last write.
#[derive(Debug, Default)]
pub struct Memory {
    jobs: Mutex<BTreeMap<String, (Timestamp, Record)>>,
}

impl Memory {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, (Timestamp, Record)>> {
        // A thread that panicked left a complete map behind.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, job: &str, kept: &Record, now: Timestamp) -> Result<i64, Error> {
        check(job, &kept.data)?;
        let mut jobs = self.jobs();
        let present = jobs.get(job).map_or(0, |(_, present)| present.revision);
        if present != kept.revision {
            return Err(Error::Conflict { job: job.to_owned() });
        }
        let revision = present.saturating_add(1);
        let kept = Record { revision, data: kept.data.clone(), ..Record::default() };
        jobs.insert(job.to_owned(), (now, kept));
        Ok(revision)
    }
}

impl Store for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn read<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Record, Error>> {
        let kept = self.jobs().get(job).map(|(_, kept)| kept.clone()).unwrap_or_default();
        Box::pin(std::future::ready(Ok(kept)))
    }

    fn write<'a>(
        &'a self,
        job: &'a str,
        kept: &'a Record,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<i64, Error>> {
        Box::pin(std::future::ready(self.put(job, kept, now)))
    }

    fn remove<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.jobs().remove(job);
        Box::pin(std::future::ready(Ok(())))
    }

    fn trim(&self, before: Timestamp) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        let mut jobs = self.jobs();
        let old = jobs.iter().filter(|(_, (at, _))| *at < before).map(|(job, _)| job.clone());
        let old: Vec<String> = old.collect();
        jobs.retain(|_, (at, _)| *at >= before);
        Box::pin(std::future::ready(Ok(old)))
    }
}
