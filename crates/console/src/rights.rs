//! Which rows a person may see, if the console is not run by that person.
//!
//! The API server is asked whether a person may list a kind: first in all namespaces and, if that is denied, in each
//! namespace that has objects of the kind. A row is shown only after the answer was yes.

use std::collections::BTreeMap;

use strum::IntoEnumIterator;

use crate::fleet::Fleet;
use crate::row::{Key, Kind};

/// Maximum number of namespaces per kind that the API server is asked about for one person.
pub const ASKED_MAX: usize = 300;

/// What the API server has answered about one kind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct OfKind {
    is_everywhere: bool,
    namespaces: BTreeMap<Box<str>, bool>,
    /// Whether there were more namespaces than are asked about.
    is_cut: bool,
}

/// What one person may see.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rights([OfKind; 3]);

impl Rights {
    /// Rights of the person who runs the console for themselves. The API server itself denies what they may not list.
    pub const ALL: Self = {
        const ALL: OfKind =
            OfKind { is_everywhere: true, namespaces: BTreeMap::new(), is_cut: false };
        Self([ALL, ALL, ALL])
    };

    fn of(&self, kind: Kind) -> &OfKind {
        &self.0[kind as usize]
    }

    /// Records the answer for all namespaces.
    pub fn answer_everywhere(&mut self, kind: Kind, may_list: bool) {
        self.0[kind as usize].is_everywhere = may_list;
    }

    /// Records the answer for one namespace.
    pub fn answer(&mut self, kind: Kind, namespace: Box<str>, may_list: bool) {
        self.0[kind as usize].namespaces.insert(namespace, may_list);
    }

    /// Returns whether the kind may be listed in all namespaces.
    pub fn is_everywhere(&self, kind: Kind) -> bool {
        self.of(kind).is_everywhere
    }

    /// Returns whether there are objects of the kind, but none in a namespace where it may be listed.
    pub fn is_refused(&self, kind: Kind) -> bool {
        let OfKind { is_everywhere, namespaces, .. } = self.of(kind);
        !is_everywhere && !namespaces.is_empty() && !namespaces.values().any(|may_list| *may_list)
    }

    /// Returns whether namespaces were left out because there are too many.
    pub fn is_cut(&self) -> bool {
        self.0.iter().any(|of_kind| of_kind.is_cut)
    }

    /// Returns whether the row of this object may be shown.
    pub fn sees(&self, key: &Key) -> bool {
        let of_kind = self.of(key.kind);
        of_kind.is_everywhere || of_kind.namespaces.get(&key.namespace).is_some_and(|it| *it)
    }

    /// Returns the namespaces with objects that have not been asked about, and notes whether there are too many.
    pub fn questions(&mut self, fleet: &Fleet) -> Vec<(Kind, Box<str>)> {
        let mut questions = Vec::new();
        for kind in Kind::iter() {
            let of_kind = &mut self.0[kind as usize];
            if of_kind.is_everywhere {
                continue;
            }
            let unknown: Vec<&str> = fleet
                .namespaces_of(kind)
                .into_iter()
                .filter(|namespace| !of_kind.namespaces.contains_key(*namespace))
                .collect();
            let room = ASKED_MAX.saturating_sub(of_kind.namespaces.len());
            of_kind.is_cut = unknown.len() > room;
            questions.extend(unknown.into_iter().take(room).map(|it| (kind, it.into())));
        }
        questions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;

    fn key(kind: Kind, namespace: &str, name: &str) -> Key {
        Key { namespace: namespace.into(), name: name.into(), kind }
    }

    fn fleet(keys: &[Key]) -> Fleet {
        let mut fleet = Fleet::default();
        for key in keys {
            fleet.put(key.clone(), Row::default());
        }
        fleet
    }

    #[test]
    fn nothing_is_seen_before_the_answer_is_yes() {
        let orders = key(Kind::Deployment, "shop", "orders");
        let clicks = key(Kind::SessionJob, "shop", "clicks");
        let bills = key(Kind::Deployment, "lab", "bills");
        let mut rights = Rights::default();
        assert!(!rights.sees(&orders));
        rights.answer(Kind::Deployment, "shop".into(), true);
        rights.answer(Kind::Deployment, "lab".into(), false);
        assert!(rights.sees(&orders) && !rights.sees(&bills));
        assert!(!rights.sees(&clicks), "each kind has rights of its own");
        assert!(!rights.is_refused(Kind::Deployment));
        assert!(!rights.is_refused(Kind::SessionJob), "there are none");
        rights.answer(Kind::SessionJob, "shop".into(), false);
        assert!(rights.is_refused(Kind::SessionJob));
        rights.answer_everywhere(Kind::Deployment, true);
        assert!(rights.sees(&bills));
        assert!(Rights::ALL.sees(&orders) && Rights::ALL.sees(&clicks));
    }

    #[test]
    fn each_namespace_is_asked_about_once() {
        let known = fleet(&[
            key(Kind::Deployment, "shop", "orders"),
            key(Kind::Deployment, "shop", "bills"),
            key(Kind::Deployment, "lab", "bills"),
            key(Kind::SessionJob, "shop", "clicks"),
        ]);
        let mut rights = Rights::default();
        rights.answer_everywhere(Kind::SessionJob, true);
        let questions = rights.questions(&known);
        assert_eq!(
            questions,
            [(Kind::Deployment, "lab".into()), (Kind::Deployment, "shop".into())]
        );
        rights.answer(Kind::Deployment, "lab".into(), false);
        assert_eq!(rights.questions(&known), [(Kind::Deployment, "shop".into())]);
        assert_eq!(Rights::ALL.clone().questions(&known), []);
    }

    #[test]
    fn namespaces_beyond_the_bound_are_not_asked_about_and_that_is_known() {
        let keys: Vec<Key> = (0..=ASKED_MAX)
            .map(|number| key(Kind::Deployment, &format!("n{number:04}"), "orders"))
            .collect();
        let mut rights = Rights::default();
        let questions = rights.questions(&fleet(&keys));
        assert!(questions.len() == ASKED_MAX && rights.is_cut());
        for (kind, namespace) in questions {
            rights.answer(kind, namespace, true);
        }
        assert_eq!(rights.questions(&fleet(&keys)), []);
        assert!(rights.is_cut() && !rights.sees(&keys[ASKED_MAX]));
        rights.questions(&fleet(&keys[..3]));
        assert!(!rights.is_cut());
    }
}
