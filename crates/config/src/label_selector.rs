//! Label selectors in the syntax of `kubectl -l`, evaluated without the API server.
//!
//! The watches pass the text on to the API server unchanged, so the result here must be the same.

use std::collections::BTreeMap;
use std::fmt;

/// The requirements on labels. An empty selector has none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LabelSelector(Vec<Requirement>);

/// The requirement on one label.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Requirement {
    Exists(String),
    Absent(String),
    /// The label has one of these values.
    In(String, Vec<String>),
    /// The label has none of these values, or does not exist.
    NotIn(String, Vec<String>),
    GreaterThan(String, i64),
    LessThan(String, i64),
}

/// A text that is not a valid label selector.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "invalid label selector `{text}`: expected `key`, `!key`, `key=value`, `key!=value`, `key in \
     (a,b)` or `key notin (a,b)`, separated by commas"
)]
pub struct InvalidSelector {
    text: String,
    part: String,
}

impl InvalidSelector {
    /// Returns the first invalid part.
    pub fn part(&self) -> &str {
        &self.part
    }
}

impl LabelSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// If the API server would not accept it either.
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        let invalid = |part: &str| InvalidSelector { text: text.to_owned(), part: part.to_owned() };
        let parts = parts(text).map(str::trim).filter(|part| !part.is_empty());
        parts
            .map(|part| Requirement::parse(part).ok_or_else(|| invalid(part)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn matches<S: AsRef<str>>(&self, labels: &BTreeMap<String, S>) -> bool {
        self.is_met_by(|key| labels.get(key).map(AsRef::as_ref))
    }

    /// Returns whether labels meet all requirements; `label` returns the value of a key.
    pub fn is_met_by<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(&label))
    }
}

/// Splits at the commas that are not in parentheses.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

impl Requirement {
    fn parse(text: &str) -> Option<Self> {
        if let Some(key) = text.strip_prefix('!') {
            return Some(Self::Absent(name(key)?));
        }
        // The longer signs first, because each contains the shorter one.
        for (sign, is_equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some((key, value)) = text.split_once(sign) {
                let (key, values) = (name(key)?, vec![label_value(value)?]);
                return Some(if is_equal {
                    Self::In(key, values)
                } else {
                    Self::NotIn(key, values)
                });
            }
        }
        if let Some((key, number)) = text.split_once('>') {
            return Some(Self::GreaterThan(name(key)?, number.trim().parse().ok()?));
        }
        if let Some((key, number)) = text.split_once('<') {
            return Some(Self::LessThan(name(key)?, number.trim().parse().ok()?));
        }
        if let Some((head, values)) = text.split_once('(') {
            let values = values.trim_end().strip_suffix(')')?.split(',');
            let values = values.map(label_value).collect::<Option<Vec<String>>>()?;
            let (key, word) = head.trim_end().rsplit_once(char::is_whitespace)?;
            return match word {
                "in" => Some(Self::In(name(key)?, values)),
                "notin" => Some(Self::NotIn(name(key)?, values)),
                _ => None,
            };
        }
        Some(Self::Exists(name(text)?))
    }

    fn is_met<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let number = |key: &str| label(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists(key) => label(key).is_some(),
            Self::Absent(key) => label(key).is_none(),
            Self::In(key, values) => {
                label(key).is_some_and(|found| values.iter().any(|value| value == found))
            }
            Self::NotIn(key, values) => {
                label(key).is_none_or(|found| values.iter().all(|value| value != found))
            }
            Self::GreaterThan(key, bound) => number(key).is_some_and(|found| found > *bound),
            Self::LessThan(key, bound) => number(key).is_some_and(|found| found < *bound),
        }
    }
}

/// Parses a label's key: a name, optionally prefixed by a domain.
fn name(text: &str) -> Option<String> {
    let text = text.trim();
    let is_name = !text.is_empty() && text.chars().all(|c| is_word(c) || c == '/');
    is_name.then(|| text.to_owned())
}

fn label_value(text: &str) -> Option<String> {
    let text = text.trim();
    text.chars().all(is_word).then(|| text.to_owned())
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match requirement {
                Requirement::Exists(key) => f.write_str(key)?,
                Requirement::Absent(key) => write!(f, "!{key}")?,
                Requirement::In(key, values) => write!(f, "{key} in ({})", values.join(","))?,
                Requirement::NotIn(key, values) => write!(f, "{key} notin ({})", values.join(","))?,
                Requirement::GreaterThan(key, bound) => write!(f, "{key}>{bound}")?,
                Requirement::LessThan(key, bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
