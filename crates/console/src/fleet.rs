//! Index of the fleet: what the watches report, and what a view shows of it.
//!
//! Rows stay while a watch lists again, so that no one sees an empty fleet in between. The number of rows and the
//! length of their texts are limited.

mod view;

use std::collections::{BTreeMap, BTreeSet};

use strum::IntoEnumIterator;

use crate::rights::Rights;
use crate::row::{Figures, Key, Kind, Row};

pub use view::{Selection, View, state, tone};

/// Maximum number of rows: ten times the largest known fleet.
pub const ROWS_MAX: usize = 100_000;
/// Maximum length of an error, in characters. The resource has the rest.
const ERROR_MAX: usize = 1_000;

/// How current the rows of a kind are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Source {
    /// It is being listed for the first time.
    #[default]
    Loading,
    Current,
    /// The API server does not answer; `since` is a time of day.
    Lost {
        since: String,
        message: String,
    },
    /// It cannot be shown, because it is not installed or not permitted.
    Closed {
        message: String,
    },
}

/// What one watch covers.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Feed {
    pub kind: Kind,
    /// `None` for all namespaces.
    pub namespace: Option<Box<str>>,
}

impl From<Kind> for Feed {
    fn from(kind: Kind) -> Self {
        Self { kind, namespace: None }
    }
}

impl Feed {
    fn reports_on(&self, key: &Key) -> bool {
        self.kind == key.kind && self.namespace.as_ref().is_none_or(|it| *it == key.namespace)
    }
}

#[derive(Default)]
struct Watched {
    source: Source,
    /// Number of lists so far. A row that an earlier list had and the last one did not is gone.
    list: u64,
    is_listing: bool,
}

struct Known {
    list: u64,
    version: u64,
    row: Row,
}

/// All rows, and the watches that they come from.
pub struct Fleet {
    rows: BTreeMap<Key, Known>,
    /// Number of updates of objects so far.
    told: u64,
    watched: BTreeMap<Feed, Watched>,
    /// Whether there was no room for all objects.
    is_cut: bool,
}

impl Default for Fleet {
    fn default() -> Self {
        Self::from_feeds(Kind::iter().map(Feed::from))
    }
}

impl Fleet {
    /// Creates an empty fleet that these watches will fill.
    pub fn from_feeds(feeds: impl IntoIterator<Item = Feed>) -> Self {
        let watched = feeds.into_iter().map(|feed| (feed, Watched::default())).collect();
        Self { rows: BTreeMap::new(), told: 0, watched, is_cut: false }
    }

    /// Returns what a person with these rights may see of the fleet.
    pub fn seen_by<'f>(&'f self, rights: &'f Rights) -> View<'f> {
        View { fleet: self, rights }
    }

    /// Returns the view of the whole fleet.
    pub fn whole(&self) -> View<'_> {
        self.seen_by(const { &Rights::ALL })
    }

    fn of(&mut self, feed: impl Into<Feed>) -> &mut Watched {
        self.watched.entry(feed.into()).or_default()
    }

    /// Returns the number of lists of the watch that covers this object.
    fn list_with(&self, key: &Key) -> u64 {
        let of_namespace = Feed { kind: key.kind, namespace: Some(key.namespace.clone()) };
        let watched = self.watched.get(&of_namespace);
        watched.or_else(|| self.watched.get(&Feed::from(key.kind))).map_or(0, |it| it.list)
    }

    /// Starts a new list of everything that a watch covers.
    pub fn begin(&mut self, feed: impl Into<Feed>) {
        let watched = self.of(feed);
        watched.list += 1;
        watched.is_listing = true;
    }

    /// Adds or replaces an object.
    pub fn put(&mut self, key: Key, mut row: Row) {
        if let Some(error) = &mut row.error
            && let Some((end, _)) = error.char_indices().nth(ERROR_MAX)
        {
            *error = format!("{}…", &error[..end]).into();
        }
        let list = self.list_with(&key);
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            self.is_cut = true;
            return;
        }
        self.told += 1;
        // Watches do not report what JobManagers say: keep it.
        if let Some(Known { row: known, .. }) = self.rows.get_mut(&key) {
            row.figures = known.figures.take();
            row.snapshot_at = row.snapshot_at.max(known.snapshot_at);
        }
        self.rows.insert(key, Known { list, version: self.told, row });
    }

    /// Sets the figures of an object's job; `None` if it could not be measured.
    pub fn measure(&mut self, key: &Key, figures: Option<Figures>) {
        if let Some(known) = self.rows.get_mut(key) {
            known.row.figures = figures.map(Box::new);
        }
    }

    /// Sets when the newest checkpoint of an object's job was taken, in seconds since the epoch.
    pub fn save(&mut self, key: &Key, at: i64) {
        if let Some(known) = self.rows.get_mut(key) {
            known.row.snapshot_at = known.row.snapshot_at.max(Some(at));
        }
    }

    /// Removes an object.
    pub fn remove(&mut self, key: &Key) {
        self.rows.remove(key);
    }

    /// Completes the list of a watch: objects that it did not contain are gone.
    pub fn complete(&mut self, feed: impl Into<Feed>) {
        let feed = feed.into();
        let watched = self.of(feed.clone());
        watched.source = Source::Current;
        watched.is_listing = false;
        let last = watched.list;
        self.rows.retain(|key, known| !feed.reports_on(key) || known.list == last);
    }

    /// Records that the API server does not answer. The first message and time are kept.
    pub fn lose(&mut self, feed: impl Into<Feed>, since: String, message: String) {
        let watched = self.of(feed);
        if !matches!(watched.source, Source::Lost { .. }) {
            watched.source = Source::Lost { since, message };
        }
    }

    /// Records that the API server answers again.
    pub fn regain(&mut self, feed: impl Into<Feed>) {
        let watched = self.of(feed);
        if matches!(watched.source, Source::Lost { .. }) {
            watched.source = if watched.is_listing { Source::Loading } else { Source::Current };
        }
    }

    /// Records that what the watch covers cannot be shown.
    pub fn close(&mut self, feed: impl Into<Feed>, message: String) {
        self.of(feed).source = Source::Closed { message };
    }

    /// Returns how current each kind is. If several watches cover a kind, the one that hides most determines it.
    pub fn sources(&self) -> impl Iterator<Item = (Kind, &Source)> {
        let rank = |source: &Source| match source {
            Source::Lost { .. } => 0,
            Source::Loading => 1,
            Source::Closed { .. } => 2,
            Source::Current => 3,
        };
        Kind::iter().filter_map(move |kind| {
            let of_kind = self.watched.iter().filter(move |(feed, _)| feed.kind == kind);
            let source = of_kind.map(|(_, watched)| &watched.source).min_by_key(|it| rank(it))?;
            Some((kind, source))
        })
    }

    /// Returns whether everything has been listed, or cannot be.
    pub fn is_listed(&self) -> bool {
        self.watched.values().all(|watched| watched.source != Source::Loading)
    }

    /// Returns whether there was no room for all objects.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the namespaces that have objects of the kind.
    pub fn namespaces_of(&self, kind: Kind) -> BTreeSet<&str> {
        let of_kind = self.rows.keys().filter(|key| key.kind == kind);
        of_kind.map(|key| &*key.namespace).collect()
    }
}

#[cfg(test)]
mod tests;
