//! Labels of errors: regular expressions, and the label of an error that matches one.

use regex::{Regex, RegexBuilder};

use super::option::OptionValue;
use super::structure::split_map;

/// Maximum number of labels in one text.
const ENTRIES_MAX: usize = 100;
/// Maximum size of one compiled expression in bytes.
const SIZE_MAX: usize = 256 * 1024;

/// A label for each expression, in the order of the expressions.
#[derive(Clone, Debug, Default)]
pub struct LabelMapper(Vec<(Regex, String)>);

impl LabelMapper {
    /// Returns the labels of an error with these messages.
    pub fn labels<'a>(&'a self, messages: &[&str]) -> Vec<&'a str> {
        let is_in = |expression: &Regex| messages.iter().any(|text| expression.is_match(text));
        let found = self.0.iter().filter(|(expression, _)| is_in(expression));
        found.map(|(_, label)| label.as_str()).collect()
    }
}

impl OptionValue for LabelMapper {
    const EXPECTED: &str =
        "`expression:label` pairs, separated by commas; expressions without look-around";
    const IS_MAP: bool = true;

    fn parse(text: &str) -> Option<Self> {
        let entries = split_map(text)?.into_iter().map(|(expression, label)| {
            let expression = RegexBuilder::new(&expression).size_limit(SIZE_MAX).build().ok()?;
            Some((expression, label))
        });
        let entries: Vec<_> = entries.collect::<Option<_>>()?;
        (entries.len() <= ENTRIES_MAX).then_some(Self(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_labels_of_all_that_match() {
        let mapper = LabelMapper::parse("(?i)out of memory:memory,[Qq]uota:quota,x$:end").unwrap();
        assert_eq!(mapper.labels(&["Out of memory", "quota exceeded"]), ["memory", "quota"]);
        assert_eq!(mapper.labels(&[]), [""; 0]);
        assert!(LabelMapper::parse("").unwrap().labels(&["x"]).is_empty());
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in ["(:a", "(?=x):a", "a", "(a{1000}){1000}:a"] {
            assert!(LabelMapper::parse(text).is_none(), "{text}");
        }
    }
}
