//! A person's view of the fleet, as the query of an address, so that it can be shared.
//!
//! Parsing never fails: what is unknown or too long is ignored. An address that was written is read back as the same
//! view.

use std::collections::BTreeSet;

use strum::{Display, EnumIter, EnumString};

/// Maximum size of a value, in bytes. Names and labels of Kubernetes have at most 253.
const VALUE_BYTES_MAX: usize = 512;
/// Maximum number of states read. There are fewer.
const STATES_MAX: usize = 32;
/// Page sizes that can be selected; the first one is the default.
pub const SIZES: [usize; 2] = [50, 100];
/// Value of `state` for resources that no operator has seen yet.
pub const UNSEEN: &str = "none";

/// Columns in the order of the table.
#[derive(Clone, Copy, Debug, Default, Display, EnumIter, EnumString, Eq, PartialEq)]
#[strum(serialize_all = "kebab-case")]
pub enum Column {
    /// Then by name.
    #[default]
    Namespace,
    Name,
    State,
    Job,
    Version,
    Image,
    Parallelism,
    Snapshot,
    Upgrade,
    Error,
    Age,
}

/// A view of the fleet.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Query {
    /// Part of a name, namespace, image or error.
    pub search: String,
    pub namespace: String,
    /// Lifecycle states; empty for all.
    pub states: BTreeSet<String>,
    /// A label selector, as typed.
    pub labels: String,
    pub sort: Column,
    pub is_descending: bool,
    /// Index into [`SIZES`].
    size: usize,
    /// Counts from 0.
    pub page: usize,
    /// Whether JobManagers are asked for live figures.
    pub figures: bool,
}

impl Query {
    /// Parses the query of an address.
    pub fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let value = value.trim();
            if value.is_empty() || value.len() > VALUE_BYTES_MAX {
                continue;
            }
            match &*name {
                "q" => value.clone_into(&mut query.search),
                "namespace" => value.clone_into(&mut query.namespace),
                "state" if query.states.len() < STATES_MAX => {
                    query.states.insert(value.to_owned());
                }
                "labels" => value.clone_into(&mut query.labels),
                "figures" => query.figures = value == "on",
                "sort" => query.sort = value.parse().unwrap_or_default(),
                "order" => query.is_descending = value == "desc",
                "size" => {
                    let wanted = value.parse().ok();
                    query.size = SIZES.iter().position(|it| Some(*it) == wanted).unwrap_or(0);
                }
                "page" => query.page = value.parse().unwrap_or(1_usize).saturating_sub(1),
                _ => {}
            }
        }
        query
    }

    /// Returns the number of rows per page.
    pub fn size(&self) -> usize {
        SIZES.get(self.size).copied().unwrap_or(SIZES[0])
    }

    /// Returns whether rows may be hidden.
    pub fn is_filtered(&self) -> bool {
        let Self { search, namespace, states, labels, .. } = self;
        !(search.is_empty() && namespace.is_empty() && states.is_empty() && labels.is_empty())
    }

    /// Returns names and values, without defaults.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let Self { search, namespace, states, labels, sort, is_descending, size: _, page, figures } =
            self;
        let mut fields = Vec::new();
        let texts = [("q", search), ("namespace", namespace), ("labels", labels)];
        fields.extend(texts.map(|(name, text)| (name, text.clone())));
        fields.extend(states.iter().map(|state| ("state", state.clone())));
        if *sort != Column::default() {
            fields.push(("sort", sort.to_string()));
        }
        if *is_descending {
            fields.push(("order", "desc".to_owned()));
        }
        if *figures {
            fields.push(("figures", "on".to_owned()));
        }
        if self.size() != SIZES[0] {
            fields.push(("size", self.size().to_string()));
        }
        if *page > 0 {
            fields.push(("page", (page + 1).to_string()));
        }
        fields.retain(|(_, value)| !value.is_empty());
        fields
    }

    /// Returns the address of the view.
    pub fn address(&self) -> String {
        let fields = self.fields();
        if fields.is_empty() {
            return "/".to_owned();
        }
        let mut text = form_urlencoded::Serializer::for_suffix("/?".to_owned(), 2);
        text.extend_pairs(fields).finish()
    }

    /// Returns the same view from its first page, because rows change places.
    #[must_use]
    fn first(&self) -> Self {
        Self { page: 0, ..self.clone() }
    }

    /// Returns the same view at this page.
    #[must_use]
    pub fn at(&self, page: usize) -> Self {
        Self { page, ..self.clone() }
    }

    /// Returns the view in this order, or reversed if it already is.
    #[must_use]
    pub fn sorted(&self, sort: Column) -> Self {
        let is_descending = self.sort == sort && !self.is_descending;
        Self { sort, is_descending, ..self.first() }
    }

    /// Returns the view with this state added to the filter, or removed if it is there.
    #[must_use]
    pub fn toggled(&self, state: &str) -> Self {
        let mut query = self.first();
        if !query.states.remove(state) {
            query.states.insert(state.to_owned());
        }
        query
    }

    /// Returns the view without a filter by state.
    #[must_use]
    pub fn in_any_state(&self) -> Self {
        Self { states: BTreeSet::new(), ..self.first() }
    }

    /// Returns the view of this namespace only.
    #[must_use]
    pub fn within(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.first() }
    }

    /// Returns the view with live figures turned on or off.
    #[must_use]
    pub fn with_figures_toggled(&self) -> Self {
        Self { figures: !self.figures, ..self.clone() }
    }

    /// Returns the view with pages of this size.
    #[must_use]
    pub fn sized(&self, size: usize) -> Self {
        let size = SIZES.iter().position(|it| *it == size).unwrap_or(0);
        Self { size, ..self.first() }
    }

    /// Returns the view of everything, in the same order.
    #[must_use]
    pub fn unfiltered(&self) -> Self {
        Self {
            sort: self.sort,
            is_descending: self.is_descending,
            size: self.size,
            figures: self.figures,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_the_view() {
        for address in [
            "/",
            "/?q=a+b%26c&namespace=shop&labels=team%3Da%2Cstage%21%3Dtest&state=FAILED&state=none",
            "/?sort=age&order=desc&figures=on&size=100&page=7",
        ] {
            let query = Query::parse(address.trim_start_matches("/?"));
            assert_eq!(query.address(), address);
            assert_eq!(Query::parse(query.address().trim_start_matches("/?")), query);
        }
    }

    #[test]
    fn what_means_nothing_is_left_out() {
        let long = format!("q={}", "x".repeat(VALUE_BYTES_MAX + 1));
        for text in ["page=0&page=x&size=7&sort=nothing&order=up&other=1&q=+&%FF", "token=", &long]
        {
            assert_eq!(Query::parse(text).address(), "/", "{text}");
        }
        let many = (0..100).map(|state| format!("state={state}&")).collect::<Vec<_>>();
        assert_eq!(Query::parse(&many.concat()).states.len(), STATES_MAX);
    }

    #[test]
    fn a_step_leads_to_the_first_page() {
        let query = Query::parse("q=x&page=4&state=FAILED");
        assert_eq!(query.toggled("STABLE").address(), "/?q=x&state=FAILED&state=STABLE");
        assert_eq!(query.toggled("FAILED").address(), "/?q=x");
        assert_eq!(query.sorted(Column::Age).address(), "/?q=x&state=FAILED&sort=age");
        let descending = query.sorted(Column::Age).sorted(Column::Age);
        assert_eq!(descending.address(), "/?q=x&state=FAILED&sort=age&order=desc");
        assert_eq!(query.sized(100).address(), "/?q=x&state=FAILED&size=100");
        assert_eq!(query.within("a").address(), "/?q=x&namespace=a&state=FAILED");
        assert_eq!(query.at(1).address(), "/?q=x&state=FAILED&page=2");
        assert_eq!(descending.unfiltered().address(), "/?sort=age&order=desc");
        assert!(query.is_filtered() && !query.unfiltered().is_filtered());
    }
}
