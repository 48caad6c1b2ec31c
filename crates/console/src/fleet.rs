//! The index of the fleet: what watches told, and what a view shows of it.
//!
//! What a watch told before stays while it lists anew, so that nobody sees an empty fleet in between. Rows
//! are bounded in number, and their texts in length.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use strum::IntoEnumIterator;

use crate::query::{Column, Query, UNSEEN};
use crate::row::{Key, Kind, Row, Tone};
use config::label_selector::{InvalidSelector, LabelSelector};

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
#[derive(Default)]
pub struct Fleet {
    rows: BTreeMap<Key, Known>,
    /// Counts what was told of objects.
    told: u64,
    watched: [Watched; 3],
    /// There was no room for all objects.
    is_cut: bool,
}

/// What a view shows.
#[derive(Debug)]
pub struct Selection<'f> {
    pub rows: Vec<(&'f Key, &'f Row)>,
    /// How many rows meet the query, on all pages.
    pub matching: usize,
    /// How many there are at all.
    pub total: usize,
    /// How many rows in each state meet the rest of the query, what wants attention first.
    pub states: Vec<(&'f str, usize)>,
    /// Counts from 0.
    pub page: usize,
    /// At least one.
    pub pages: usize,
    /// The labels that were asked for mean nothing, so that nothing meets them.
    pub invalid_labels: Option<InvalidSelector>,
}

impl Fleet {
    fn of(&mut self, kind: Kind) -> &mut Watched {
        &mut self.watched[kind as usize]
    }

    /// A watch lists all objects of the kind from the beginning.
    pub fn begin(&mut self, kind: Kind) {
        let watched = self.of(kind);
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
        let list = self.of(key.kind).list;
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            self.is_cut = true;
            return;
        }
        self.told += 1;
        self.rows.insert(key, Known { list, version: self.told, row });
    }

    /// The object is gone.
    pub fn remove(&mut self, key: &Key) {
        self.rows.remove(key);
    }

    /// All objects of the kind have been told.
    pub fn complete(&mut self, kind: Kind) {
        let watched = self.of(kind);
        watched.source = Source::Current;
        watched.is_listing = false;
        let last = watched.list;
        self.rows.retain(|key, known| key.kind != kind || known.list == last);
    }

    /// The API server does not answer; the first message and time count.
    pub fn lose(&mut self, kind: Kind, since: String, message: String) {
        let watched = self.of(kind);
        if !matches!(watched.source, Source::Lost { .. }) {
            watched.source = Source::Lost { since, message };
        }
    }

    /// It answers again.
    pub fn regain(&mut self, kind: Kind) {
        let watched = self.of(kind);
        if matches!(watched.source, Source::Lost { .. }) {
            watched.source = if watched.is_listing { Source::Loading } else { Source::Current };
        }
    }

    /// The kind cannot be shown.
    pub fn close(&mut self, kind: Kind, message: String) {
        self.of(kind).source = Source::Closed { message };
    }

    /// How each kind is known.
    pub fn sources(&self) -> impl Iterator<Item = (Kind, &Source)> {
        Kind::iter().zip(self.watched.iter().map(|watched| &watched.source))
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

    /// Another one each time that something was told of the object; absent where there is none.
    pub fn version(&self, key: &Key) -> Option<u64> {
        self.rows.get(key).map(|known| known.version)
    }

    /// What is known of the object.
    pub fn row(&self, key: &Key) -> Option<&Row> {
        self.rows.get(key).map(|known| &known.row)
    }

    /// Namespaces that have objects, at most so many.
    pub fn namespaces(&self, max: usize) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for key in self.rows.keys() {
            if names.last() != Some(&&*key.namespace) {
                if names.len() == max {
                    break;
                }
                names.push(&key.namespace);
            }
        }
        names
    }

    /// What the query shows.
    pub fn select<'f>(&'f self, query: &'f Query) -> Selection<'f> {
        let labels = LabelSelector::parse(&query.labels);
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        let mut rows = Vec::new();
        for (key, Known { row, .. }) in &self.rows {
            let is_in = query.namespace.is_empty() || *query.namespace == *key.namespace;
            let has_labels =
                labels.as_ref().is_ok_and(|labels| labels.is_met_by(|name| row.label(name)));
            if !(is_in && has_labels && is_found(key, row, &query.search)) {
                continue;
            }
            let state = state(row);
            *states.entry(state).or_default() += 1;
            if query.states.is_empty() || query.states.contains(state) {
                rows.push((key, row));
            }
        }
        // One that was chosen stays to be taken back.
        for chosen in &query.states {
            states.entry(chosen).or_default();
        }
        let mut states: Vec<_> = states.into_iter().collect();
        states.sort_by_key(|(state, _)| tone(state));
        // Rows come by namespace and name, and stay so where nothing else tells them apart.
        rows.sort_by(|one, other| order(query.sort, *one, *other));
        if query.is_descending {
            rows.reverse();
        }
        let matching = rows.len();
        let pages = matching.div_ceil(query.size()).max(1);
        let page = query.page.min(pages - 1);
        let rows = rows.into_iter().skip(page * query.size()).take(query.size()).collect();
        Selection {
            rows,
            matching,
            total: self.rows.len(),
            states,
            page,
            pages,
            invalid_labels: labels.err(),
        }
    }
}

/// The value of `state` in a query that a row has.
pub fn state(row: &Row) -> &str {
    row.lifecycle.as_deref().unwrap_or(UNSEEN)
}

/// That of a value of `state`.
pub fn tone(state: &str) -> Tone {
    Tone::of(Some(state).filter(|it| *it != UNSEEN))
}

fn is_found(key: &Key, row: &Row, search: &str) -> bool {
    let texts = [Some(&key.name), Some(&key.namespace), row.image.as_ref(), row.error.as_ref()];
    search.is_empty() || texts.into_iter().flatten().any(|text| contains(text, search))
}

/// Whether the text has the other in it, whatever the case of its letters; of those beyond ASCII it counts.
fn contains(text: &str, part: &str) -> bool {
    text.as_bytes().windows(part.len()).any(|it| it.eq_ignore_ascii_case(part.as_bytes()))
}

fn order(column: Column, one: (&Key, &Row), other: (&Key, &Row)) -> Ordering {
    /// What is not known comes last.
    fn known_first<T: Ord>(one: Option<T>, other: Option<T>) -> Ordering {
        (one.is_none(), one).cmp(&(other.is_none(), other))
    }
    let ((one_key, one), (other_key, other)) = (one, other);
    match column {
        // The order that they come in.
        Column::Namespace => Ordering::Equal,
        Column::Name => one_key.name.cmp(&other_key.name),
        Column::State => {
            let key = |row: &Row| Tone::of(row.lifecycle.as_deref());
            key(one).cmp(&key(other)).then_with(|| one.lifecycle.cmp(&other.lifecycle))
        }
        Column::Job => {
            let key = |row: &Row| Tone::of(row.job_state.as_deref());
            key(one).cmp(&key(other)).then_with(|| one.job_state.cmp(&other.job_state))
        }
        Column::Version => known_first(one.version.as_ref(), other.version.as_ref()),
        Column::Image => known_first(one.image.as_ref(), other.image.as_ref()),
        // The greatest and the newest are asked for first.
        Column::Parallelism => other.parallelism.cmp(&one.parallelism),
        Column::Snapshot => other.snapshot_at.cmp(&one.snapshot_at),
        Column::Upgrade => known_first(one.upgrade.as_ref(), other.upgrade.as_ref()),
        Column::Error => known_first(one.error.as_ref(), other.error.as_ref()),
        Column::Age => other.created_at.cmp(&one.created_at),
    }
}

#[cfg(test)]
mod tests;
