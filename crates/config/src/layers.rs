//! Which layer each option comes from.

use std::collections::BTreeMap;

use super::FlinkConfig;
use super::catalogue::{self, Effect, Known};
use super::secret;

/// The layer of options that are not set.
pub const DEFAULT: &str = "default";

/// One layer, with a name for people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Layer {
    pub name: String,
    pub config: FlinkConfig,
}

/// The effective value of one option.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Effective {
    pub option: String,
    /// Without secrets; `None` for an option that is not set and has no default.
    pub value: Option<String>,
    /// Name of the layer.
    pub from: String,
    /// The older name under which it is set.
    pub set_as: Option<String>,
    /// `None` for options that are Flink's, or whose names others choose.
    pub effect: Option<Effect>,
}

/// Returns each option of the operator, and all other set options, by name; a later layer wins.
pub fn effective(layers: &[Layer]) -> Vec<Effective> {
    let mut merged: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for Layer { name, config } in layers {
        merged.extend(config.iter().map(|(key, value)| (key, (value, name.as_str()))));
    }
    let mut all: Vec<Effective> =
        catalogue::all().filter_map(|known| of_known(known, &merged)).collect();
    let others = merged.iter().filter(|(key, _)| catalogue::find(key).is_none());
    all.extend(others.map(|(key, (value, from))| Effective {
        option: (*key).to_owned(),
        value: Some(secret::shown(key, value)),
        from: (*from).to_owned(),
        set_as: None,
        effect: None,
    }));
    all.sort_by(|a, b| a.option.cmp(&b.option));
    all
}

/// Returns the effective value of an option; `None` if it has no effect here and is not set.
fn of_known(known: &Known, merged: &BTreeMap<&str, (&str, &str)>) -> Option<Effective> {
    let set = known.keys().find_map(|key| merged.get(key).map(|found| (key, *found)));
    if set.is_none() && known.effect == Effect::Nowhere {
        return None;
    }
    let (value, from) = match set {
        Some((key, (value, from))) => (Some(secret::shown(key, value)), from),
        None => (known.default.map(str::to_owned), DEFAULT),
    };
    Some(Effective {
        option: known.key.to_owned(),
        value,
        from: from.to_owned(),
        set_as: set.map(|(key, _)| key).filter(|key| *key != known.key).map(str::to_owned),
        effect: Some(known.effect),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse_flink_conf;

    fn layer(name: &str, text: &str) -> Layer {
        Layer { name: name.to_owned(), config: parse_flink_conf(text) }
    }

    fn found(layers: &[Layer], option: &str) -> Option<Effective> {
        effective(layers).into_iter().find(|effective| effective.option == option)
    }

    const INTERVAL: &str = "kubernetes.operator.reconcile.interval";

    #[test]
    fn the_last_layer_that_sets_an_option_wins() {
        let layers = [
            layer("file", "kubernetes.operator.reconcile.interval: 1 s\na: 1\n"),
            layer("namespace", "kubernetes.operator.reconcile.interval: 2 s\n"),
        ];
        let found = found(&layers, INTERVAL).unwrap();
        assert_eq!((found.value.as_deref(), found.from.as_str()), (Some("2 s"), "namespace"));
        assert_eq!(found.effect, Some(Effect::Live));
        assert_eq!(self::found(&layers, "a").unwrap().from, "file");
    }

    #[test]
    fn the_present_name_of_an_option_wins_in_whatever_layer() {
        let old = layer("resource", "kubernetes.operator.reconciler.reschedule.interval: 3 s\n");
        let layers = [layer("file", "kubernetes.operator.reconcile.interval: 1 s\n"), old.clone()];
        let both = found(&layers, INTERVAL).unwrap();
        assert_eq!((both.from.as_str(), both.set_as), ("file", None));
        let alone = found(&[old], INTERVAL).unwrap();
        let old_name = "kubernetes.operator.reconciler.reschedule.interval";
        assert_eq!(alone.set_as.as_deref(), Some(old_name));
        assert_eq!(found(&layers, old_name), None);
    }

    #[test]
    fn what_nobody_sets_is_a_default_and_what_means_nothing_is_left_out() {
        let unset = found(&[], INTERVAL).unwrap();
        assert_eq!((unset.value.as_deref(), unset.from.as_str()), (Some("60 s"), DEFAULT));
        let lease = found(&[], "kubernetes.operator.leader-election.lease-name").unwrap();
        assert_eq!(lease.value, None);
        assert_eq!(found(&[], "kubernetes.operator.retry.max.attempts"), None);
        let set = [layer("file", "kubernetes.operator.retry.max.attempts: 3\n")];
        let told = found(&set, "kubernetes.operator.retry.max.attempts").unwrap();
        assert_eq!(told.effect, Some(Effect::Nowhere));
    }

    #[test]
    fn secrets_are_hidden() {
        let layers = [layer("file", "s3.secret-key: hunter2\n")];
        let found = found(&layers, "s3.secret-key").unwrap();
        assert_eq!(found.value.as_deref(), Some(secret::HIDDEN));
    }
}
