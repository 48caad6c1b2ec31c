//! Contents of the configuration page: options in force, and where each comes from.

/// Maximum number of options shown. There are a few hundred.
pub const LINES_MAX: usize = 1_000;
/// Maximum length of a value at first, in characters.
const FIRST_LETTERS_MAX: usize = 120;
/// Maximum length of a value that has been expanded, in characters.
const VALUE_LETTERS_MAX: usize = 4_000;
/// Maximum size of a search, in bytes.
const SEARCH_BYTES_MAX: usize = 512;

/// Options in force.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// Sorted by option.
    pub lines: Vec<Line>,
    /// Problems with the operator's own configuration, including what could not be read of it.
    pub remarks: Vec<String>,
}

/// An option.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Line {
    pub option: String,
    /// Without secrets; `None` if the option has no value.
    pub value: Option<String>,
    /// The layer that it comes from.
    pub from: String,
    /// Whether it is not set anywhere.
    pub is_default: bool,
    /// The older name under which it is set.
    pub set_as: Option<String>,
    /// When a change takes effect; `None` for Flink's own options, for which it is unknown.
    pub effect: Option<&'static str>,
}

impl Line {
    /// Returns the beginning of the value, and the whole value if it is longer.
    pub fn value(&self) -> (&str, Option<String>) {
        let value = self.value.as_deref().unwrap_or_default().trim();
        let first = cut(value.lines().next().unwrap_or_default(), FIRST_LETTERS_MAX);
        if first.len() == value.len() {
            return (value, None);
        }
        let whole = cut(value, VALUE_LETTERS_MAX);
        let end = if whole.len() < value.len() { "…" } else { "" };
        (first, Some(format!("{whole}{end}")))
    }
}

fn cut(text: &str, letters: usize) -> &str {
    text.char_indices().nth(letters).map_or(text, |(end, _)| &text[..end])
}

/// Selects the options shown, as the query of the address.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filter {
    /// Part of an option, a value or a layer.
    pub search: String,
    /// Also shows options that are not set anywhere.
    pub is_all: bool,
}

impl Filter {
    /// Parses the query of an address. What is invalid is ignored.
    pub fn parse(query: &str) -> Self {
        let mut filter = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "q" if value.len() <= SEARCH_BYTES_MAX => {
                    value.trim().clone_into(&mut filter.search);
                }
                "set" => filter.is_all = value == "false",
                _ => {}
            }
        }
        filter
    }

    /// Returns the query, which follows the address of the page.
    pub fn query(&self) -> String {
        let Self { search, is_all } = self;
        let fields = [("q", search.as_str()), ("set", if *is_all { "false" } else { "" })];
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(fields.iter().filter(|(_, value)| !value.is_empty()));
        query.finish()
    }

    /// Returns whether the search matches a line.
    pub fn finds(&self, line: &Line) -> bool {
        let search = self.search.to_lowercase();
        let texts =
            [Some(&line.option), line.value.as_ref(), Some(&line.from), line.set_as.as_ref()];
        texts.into_iter().flatten().any(|text| text.to_lowercase().contains(&search))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_the_filter() {
        for query in ["", "q=state.%C3%A4", "set=false", "q=a+b&set=false"] {
            assert_eq!(Filter::parse(query).query(), query);
        }
        let long = format!("q={}", "x".repeat(SEARCH_BYTES_MAX + 1));
        for query in ["set=true", "set=&q=+", "other=1&%FF", &long] {
            assert_eq!(Filter::parse(query), Filter::default(), "{query}");
        }
    }

    #[test]
    fn a_search_finds_parts_of_options_values_and_layers() {
        let line = Line {
            option: "state.savepoints.dir".to_owned(),
            value: Some("S3://bucket".to_owned()),
            from: "orders".to_owned(),
            ..Line::default()
        };
        let finds = |search: &str| Filter { search: search.to_owned(), is_all: true }.finds(&line);
        assert!(finds("Savepoints") && finds("s3:") && finds("ORDERS") && finds(""));
        assert!(!finds("checkpoints"));
    }

    #[test]
    fn a_value_of_many_lines_begins_with_its_first() {
        let line = |value: &str| Line { value: Some(value.to_owned()), ..Line::default() };
        assert_eq!(line(" 5 s ").value(), ("5 s", None));
        assert_eq!(line("a\nb").value(), ("a", Some("a\nb".to_owned())));
        let long = line(&"ä".repeat(5_000));
        let (first, whole) = long.value();
        assert_eq!(first.chars().count(), FIRST_LETTERS_MAX);
        assert_eq!(whole.unwrap().chars().count(), VALUE_LETTERS_MAX + 1);
        assert_eq!(Line::default().value(), ("", None));
    }
}
