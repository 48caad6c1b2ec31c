//! The namespaces to operate, as the configuration and the environment name them.

use std::collections::BTreeSet;

use super::option::OptionValue;

/// Means the whole cluster.
const ALL: &str = "JOSDK_ALL_NAMESPACES";
const NAME_LENGTH_MAX: usize = 63;

/// All namespaces, or these: at least one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Namespaces {
    All,
    Named(BTreeSet<String>),
}

impl OptionValue for Namespaces {
    const EXPECTED: &str =
        "names of namespaces separated by commas, or `JOSDK_ALL_NAMESPACES` for the whole cluster";

    fn parse(text: &str) -> Option<Self> {
        let names: BTreeSet<String> =
            text.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect();
        if names.contains(ALL) {
            // A name beside it means that the author wanted something else.
            return (names.len() == 1).then_some(Self::All);
        }
        let is_right = !names.is_empty() && names.iter().all(|name| is_name(name));
        is_right.then_some(Self::Named(names))
    }
}

/// Returns whether this is a valid name of a namespace.
fn is_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= NAME_LENGTH_MAX
        && name.chars().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Namespaces {
        Namespaces::Named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn names_are_separated_by_commas() {
        assert_eq!(Namespaces::parse("shop"), Some(named(&["shop"])));
        assert_eq!(Namespaces::parse(" shop, fraud ,shop,"), Some(named(&["fraud", "shop"])));
        assert_eq!(Namespaces::parse("JOSDK_ALL_NAMESPACES"), Some(Namespaces::All));
    }

    #[test]
    fn nothing_is_not_everything() {
        for text in
            ["", " ", ",", "shop,JOSDK_ALL_NAMESPACES", "Shop", "a/b", "..", "-a", "shop;fraud"]
        {
            assert_eq!(Namespaces::parse(text), None, "{text}");
        }
    }
}
