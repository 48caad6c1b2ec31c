//! Label selectors in the words of kubectl: `team=a,stage!=test,tier in (x, y),!old`.

use std::fmt;

use crate::row::Row;

/// Requirements that all have to be met; none are met by everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    /// Also met where there is no such label.
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// A part of a selector that means nothing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidSelector(String);

impl fmt::Display for InvalidSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(part) = self;
        write!(
            formatter,
            "`{part}` is no label selector: expected one such as `team=a,stage!=test`"
        )
    }
}

impl Selector {
    /// Reads one.
    ///
    /// # Errors
    /// With the first part that means nothing.
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        let parts = parts(text).into_iter().filter(|part| !part.is_empty());
        parts.map(requirement).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the labels of a row meet all of it.
    pub fn is_met_by(&self, row: &Row) -> bool {
        self.0.iter().all(|it| match it {
            Requirement::In(name, values) => row.label(name).is_some_and(|it| has(values, it)),
            Requirement::NotIn(name, values) => row.label(name).is_none_or(|it| !has(values, it)),
            Requirement::Exists(name) => row.label(name).is_some(),
            Requirement::Absent(name) => row.label(name).is_none(),
        })
    }
}

fn has(values: &[String], value: &str) -> bool {
    values.iter().any(|it| it == value)
}

/// What commas part, but for those in brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut is_within = false;
    let split = text.split(|letter| {
        is_within = letter == '(' || (is_within && letter != ')');
        letter == ',' && !is_within
    });
    split.map(str::trim).collect()
}

fn requirement(part: &str) -> Result<Requirement, InvalidSelector> {
    let invalid = || InvalidSelector(part.to_owned());
    let name = |text: &str| {
        let text = text.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let is_valid = !text.is_empty() && text.chars().all(is_name);
        is_valid.then(|| text.to_owned()).ok_or_else(invalid)
    };
    let value = |text: &str| if text.trim().is_empty() { Ok(String::new()) } else { name(text) };
    if let Some((left, right)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(name(left)?, vec![value(right)?]));
    }
    if let Some((left, right)) = part.split_once('=') {
        let right = right.strip_prefix('=').unwrap_or(right);
        return Ok(Requirement::In(name(left)?, vec![value(right)?]));
    }
    if let Some((left, right)) = part.split_once('(') {
        let values = right.strip_suffix(')').ok_or_else(invalid)?;
        let values = values.split(',').map(value).collect::<Result<_, _>>()?;
        return match left.split_whitespace().collect::<Vec<_>>()[..] {
            [left, "in"] => Ok(Requirement::In(name(left)?, values)),
            [left, "notin"] => Ok(Requirement::NotIn(name(left)?, values)),
            _ => Err(invalid()),
        };
    }
    match part.strip_prefix('!') {
        Some(absent) => name(absent).map(Requirement::Absent),
        None => name(part).map(Requirement::Exists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_met(selector: &str) -> bool {
        let row = Row { labels: "app/x=1\nstage=test\nteam=a".into(), ..Row::default() };
        Selector::parse(selector).unwrap().is_met_by(&row)
    }

    #[test]
    fn labels_are_chosen_as_by_kubectl() {
        for met in [
            "",
            "team=a",
            "team==a, stage=test",
            "team!=b",
            "none!=b",
            "app/x",
            "!none",
            "team in (b, a),stage",
            "team notin (b,c)",
            "none notin (b)",
        ] {
            assert!(is_met(met), "{met}");
        }
        for unmet in ["team=b", "tea=ma", "team=a,stage=prod", "!team", "none", "team!=a"] {
            assert!(!is_met(unmet), "{unmet}");
        }
        assert!(!is_met("team notin (a)") && !is_met("none in (a)"));
    }

    #[test]
    fn what_means_nothing_is_named() {
        for text in ["=a", "a b", "team=a=b", "team in a", "team in (a", "team on (a)", "!"] {
            let error = Selector::parse(&format!("x=y,{text}")).unwrap_err();
            assert!(error.to_string().starts_with(&format!("`{text}` is no")), "{error}");
        }
    }
}
