//! The index of the fleet: what watches told, and what a view shows of it.
//!
//! What a watch told before stays while it lists anew, so that nobody sees an empty fleet in between. Rows
//! are bounded in number, and their texts in length.

mod view;

use std::collections::{BTreeMap, BTreeSet};

use strum::IntoEnumIterator;

use crate::rights::Rights;
use crate::row::{Figures, Key, Kind, Row};

pub use view::{Selection, View, state, tone};

/// Rows that are kept: ten times the largest fleet that is known of.
pub const ROWS_MAX: usize = 100_000;
/// Letters of an error that are kept; the rest is in the resource.
const ERROR_MAX: usize = 1_000;

/// How what is shown of a kind came to be known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Source {
    /// It is being listed for the first time.
    #[default]
    Loading,
    Current,
    /// The API server does not answer; `since` is a time of the day.
    Lost {
        since: String,
        message: String,
    },
    /// It cannot be shown: not installed, or not permitted.
    Closed {
        message: String,
    },
}

/// What one watch tells of.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Feed {
    pub kind: Kind,
    /// Absent where it is all of them.
    pub namespace: Option<Box<str>>,
}

impl From<Kind> for Feed {
    fn from(kind: Kind) -> Self {
        Self { kind, namespace: None }
    }
}

impl Feed {
    fn tells_of(&self, key: &Key) -> bool {
        self.kind == key.kind && self.namespace.as_ref().is_none_or(|it| *it == key.namespace)
    }
}

#[derive(Default)]
struct Watched {
    source: Source,
    /// Counts lists: what an earlier one showed and the last one did not is gone.
    list: u64,
    is_listing: bool,
}

struct Known {
    list: u64,
    version: u64,
    row: Row,
}

/// All rows, and where they come from.
pub struct Fleet {
    rows: BTreeMap<Key, Known>,
    /// Counts what was told of objects.
    told: u64,
    watched: BTreeMap<Feed, Watched>,
    /// There was no room for all objects.
    is_cut: bool,
}

impl Default for Fleet {
    fn default() -> Self {
        Self::told_by(Kind::iter().map(Feed::from))
    }
}

impl Fleet {
    /// Nothing yet of what these watches will tell.
    pub fn told_by(feeds: impl IntoIterator<Item = Feed>) -> Self {
        let watched = feeds.into_iter().map(|feed| (feed, Watched::default())).collect();
        Self { rows: BTreeMap::new(), told: 0, watched, is_cut: false }
    }

    /// What a person with these rights may see of it.
    pub fn seen_by<'f>(&'f self, rights: &'f Rights) -> View<'f> {
        View { fleet: self, rights }
    }

    /// All of it.
    pub fn whole(&self) -> View<'_> {
        self.seen_by(const { &Rights::ALL })
    }

    fn of(&mut self, feed: impl Into<Feed>) -> &mut Watched {
        self.watched.entry(feed.into()).or_default()
    }

    /// Counts the lists of the watch that tells of this object.
    fn list_with(&self, key: &Key) -> u64 {
        let of_namespace = Feed { kind: key.kind, namespace: Some(key.namespace.clone()) };
        let watched = self.watched.get(&of_namespace);
        watched.or_else(|| self.watched.get(&Feed::from(key.kind))).map_or(0, |it| it.list)
    }

    /// A watch lists all that it tells of from the beginning.
    pub fn begin(&mut self, feed: impl Into<Feed>) {
        let watched = self.of(feed);
        watched.list += 1;
        watched.is_listing = true;
    }

    /// The object exists, as given.
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
        // A watch tells nothing of them.
        row.figures = self.rows.get_mut(&key).and_then(|known| known.row.figures.take());
        self.rows.insert(key, Known { list, version: self.told, row });
    }

    /// What the job of an object does, where it was measured; nothing where it could not be.
    pub fn measure(&mut self, key: &Key, figures: Option<Figures>) {
        if let Some(known) = self.rows.get_mut(key) {
            known.row.figures = figures.map(Box::new);
        }
    }

    /// The object is gone.
    pub fn remove(&mut self, key: &Key) {
        self.rows.remove(key);
    }

    /// All objects that a watch tells of have been told.
    pub fn complete(&mut self, feed: impl Into<Feed>) {
        let feed = feed.into();
        let watched = self.of(feed.clone());
        watched.source = Source::Current;
        watched.is_listing = false;
        let last = watched.list;
        self.rows.retain(|key, known| !feed.tells_of(key) || known.list == last);
    }

    /// The API server does not answer; the first message and time count.
    pub fn lose(&mut self, feed: impl Into<Feed>, since: String, message: String) {
        let watched = self.of(feed);
        if !matches!(watched.source, Source::Lost { .. }) {
            watched.source = Source::Lost { since, message };
        }
    }

    /// It answers again.
    pub fn regain(&mut self, feed: impl Into<Feed>) {
        let watched = self.of(feed);
        if matches!(watched.source, Source::Lost { .. }) {
            watched.source = if watched.is_listing { Source::Loading } else { Source::Current };
        }
    }

    /// What the watch would tell of cannot be shown.
    pub fn close(&mut self, feed: impl Into<Feed>, message: String) {
        self.of(feed).source = Source::Closed { message };
    }

    /// How each kind is known; where several watches tell of one, that which keeps most from being shown.
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

    /// True once all of it was listed, or cannot be.
    pub fn is_listed(&self) -> bool {
        self.watched.values().all(|watched| watched.source != Source::Loading)
    }

    /// Whether there was no room for all objects.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Namespaces that have objects of the kind.
    pub fn namespaces_of(&self, kind: Kind) -> BTreeSet<&str> {
        let of_kind = self.rows.keys().filter(|key| key.kind == kind);
        of_kind.map(|key| &*key.namespace).collect()
    }
}

#[cfg(test)]
mod tests;
