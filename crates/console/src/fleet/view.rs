//! What a person sees of the fleet: the rows that they may list, filtered by a query.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Fleet, Known, Source};
use crate::query::{Column, Query, UNSEEN};
use crate::rights::Rights;
use crate::row::{Key, Kind, Row, Tone};
use config::label_selector::{InvalidSelector, LabelSelector};

/// The rows of a fleet that a person may see.
#[derive(Clone, Copy)]
pub struct View<'f> {
    pub(super) fleet: &'f Fleet,
    pub(super) rights: &'f Rights,
}

/// What a view shows for a query.
#[derive(Debug)]
pub struct Selection<'f> {
    pub rows: Vec<(&'f Key, &'f Row)>,
    /// Number of rows that match the query, on all pages.
    pub matching: usize,
    /// Number of rows in total.
    pub total: usize,
    /// Number of rows in each state that match the rest of the query, those that need attention first.
    pub states: Vec<(&'f str, usize)>,
    /// Counts from 0.
    pub page: usize,
    /// At least one.
    pub pages: usize,
    /// Set if the label selector is invalid, so that no row matches it.
    pub invalid_labels: Option<InvalidSelector>,
}

impl<'f> View<'f> {
    fn rows(self) -> impl Iterator<Item = (&'f Key, &'f Known)> {
        self.fleet.rows.iter().filter(move |(key, _)| self.rights.sees(key))
    }

    /// Returns how current each kind is.
    pub fn sources(self) -> impl Iterator<Item = (Kind, &'f Source)> {
        self.fleet.sources()
    }

    /// Returns whether there was no room for all objects.
    pub fn is_cut(self) -> bool {
        self.fleet.is_cut
    }

    /// Returns the rights of the person.
    pub fn rights(self) -> &'f Rights {
        self.rights
    }

    /// Returns a number that changes with each update of the object; `None` if there is no such object.
    pub fn version(self, key: &Key) -> Option<u64> {
        self.known(key).map(|known| known.version)
    }

    /// Returns the row of the object.
    pub fn row(self, key: &Key) -> Option<&'f Row> {
        self.known(key).map(|known| &known.row)
    }

    fn known(self, key: &Key) -> Option<&'f Known> {
        self.fleet.rows.get(key).filter(|_| self.rights.sees(key))
    }

    /// Returns the namespaces that have objects, at most `max`.
    pub fn namespaces(self, max: usize) -> Vec<&'f str> {
        let mut names: Vec<&str> = Vec::new();
        for (key, _) in self.rows() {
            if names.last() != Some(&&*key.namespace) {
                if names.len() == max {
                    break;
                }
                names.push(&key.namespace);
            }
        }
        names
    }

    /// Returns what the query shows.
    pub fn select(self, query: &'f Query) -> Selection<'f> {
        let labels = LabelSelector::parse(&query.labels);
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        let mut rows = Vec::new();
        let mut total = 0;
        for (key, Known { row, .. }) in self.rows() {
            total += 1;
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
        // A selected state stays, so that it can be deselected.
        for chosen in &query.states {
            states.entry(chosen).or_default();
        }
        let mut states: Vec<_> = states.into_iter().collect();
        states.sort_by_key(|(state, _)| tone(state));
        // Rows come by namespace and name, and keep this order if they are equal otherwise.
        rows.sort_by(|one, other| order(query.sort, *one, *other));
        if query.is_descending {
            rows.reverse();
        }
        let matching = rows.len();
        let pages = matching.div_ceil(query.size()).max(1);
        let page = query.page.min(pages - 1);
        let rows = rows.into_iter().skip(page * query.size()).take(query.size()).collect();
        Selection { rows, matching, total, states, page, pages, invalid_labels: labels.err() }
    }
}

/// Returns the value of `state` in a query that matches a row.
pub fn state(row: &Row) -> &str {
    row.lifecycle.as_deref().unwrap_or(UNSEEN)
}

/// Returns the tone of a value of `state`.
pub fn tone(state: &str) -> Tone {
    Tone::of(Some(state).filter(|it| *it != UNSEEN))
}

fn is_found(key: &Key, row: &Row, search: &str) -> bool {
    let texts = [Some(&key.name), Some(&key.namespace), row.image.as_ref(), row.error.as_ref()];
    search.is_empty() || texts.into_iter().flatten().any(|text| contains(text, search))
}

/// Returns whether the text contains `part`, ignoring the case of ASCII letters.
fn contains(text: &str, part: &str) -> bool {
    text.as_bytes().windows(part.len()).any(|it| it.eq_ignore_ascii_case(part.as_bytes()))
}

fn order(column: Column, one: (&Key, &Row), other: (&Key, &Row)) -> Ordering {
    /// Puts unknown values last.
    fn known_first<T: Ord>(one: Option<T>, other: Option<T>) -> Ordering {
        (one.is_none(), one).cmp(&(other.is_none(), other))
    }
    let ((one_key, one), (other_key, other)) = (one, other);
    match column {
        // This is the order in which they come.
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
        // The largest and the newest come first.
        Column::Parallelism => other.parallelism.cmp(&one.parallelism),
        Column::Snapshot => other.snapshot_at.cmp(&one.snapshot_at),
        Column::Upgrade => known_first(one.upgrade.as_ref(), other.upgrade.as_ref()),
        Column::Error => known_first(one.error.as_ref(), other.error.as_ref()),
        Column::Age => other.created_at.cmp(&one.created_at),
    }
}
