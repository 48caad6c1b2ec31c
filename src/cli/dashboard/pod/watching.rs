//! The watches of the console in a pod, which run while people look at it and for a while afterwards.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use operator::run::Watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::cli::dashboard::known::Known;
use crate::cli::dashboard::watch::{self, What};
use crate::cli::table;
use console::fleet::Fleet;

/// Pause before a failed list is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// What the operator manages.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::cli) struct Operated {
    pub(in crate::cli) watch: Watch,
    pub(in crate::cli) selector: Option<String>,
}

impl Operated {
    /// Returns one part for each namespace, or one for all namespaces.
    fn parts(&self) -> Vec<What> {
        let scopes = self.watch.scopes().into_iter();
        scopes.map(|namespace| What { namespace, selector: self.selector.clone() }).collect()
    }
}

/// Watches one part. Does not return.
async fn follow(what: What, client: Client, known: Arc<Known>) {
    let kinds = loop {
        match watch::kinds(&client, what.scope()).await {
            Ok(kinds) => break kinds,
            Err(error) => {
                let since = table::clock(Timestamp::now());
                known.change(|fleet| {
                    for feed in what.feeds() {
                        fleet.lose(feed, since.clone(), error.to_string());
                    }
                });
                sleep(RETRY).await;
            }
        }
    };
    let mut watches = JoinSet::new();
    what.start(kinds, &client, &known, &mut watches);
    drop(watches.join_all().await);
}

/// Watches that start when they are needed.
pub(super) struct Watching {
    client: Client,
    known: Arc<Known>,
    operated: Box<dyn Fn() -> Option<Operated> + Send + Sync>,
    /// What is watched. Dropping the set ends the watches.
    under_way: Mutex<Option<(Operated, JoinSet<()>)>>,
}

impl Watching {
    pub(super) fn new(
        client: Client,
        known: Arc<Known>,
        operated: Box<dyn Fn() -> Option<Operated> + Send + Sync>,
    ) -> Self {
        Self { client, known, operated, under_way: Mutex::default() }
    }

    fn under_way(&self) -> MutexGuard<'_, Option<(Operated, JoinSet<()>)>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the watches unless they are running.
    pub(super) fn begin(&self) {
        let mut under_way = self.under_way();
        if under_way.is_none() {
            *under_way = self.start();
        }
    }

    /// Restarts the watches if what is operated has changed.
    pub(super) fn keep_up(&self) {
        let mut under_way = self.under_way();
        let Some((watched, _)) = &*under_way else { return };
        if (self.operated)().is_some_and(|operated| operated != *watched) {
            *under_way = self.start();
        }
    }

    /// Stops the watches and forgets the fleet.
    pub(super) fn stop(&self) {
        if self.under_way().take().is_some() {
            self.known.change(|fleet| *fleet = Fleet::default());
        }
    }

    fn start(&self) -> Option<(Operated, JoinSet<()>)> {
        // The operator itself reports a configuration that cannot take effect.
        let operated = (self.operated)()?;
        let parts = operated.parts();
        let feeds = parts.iter().flat_map(What::feeds);
        self.known.change(|fleet| *fleet = Fleet::from_feeds(feeds));
        let mut watches = JoinSet::new();
        for part in parts {
            watches.spawn(follow(part, self.client.clone(), Arc::clone(&self.known)));
        }
        Some((operated, watches))
    }
}
