//! The configuration page of a resource: a filter, and a table of options.

use maud::{Markup, html};

use super::{Fragment, notes, section};
use crate::options::{Filter, LINES_MAX, Line, Options};
use crate::page::number;
use crate::page::resource::Tab;
use crate::resource::{Freshness, Part};
use crate::row::Key;

/// Renders the parts of the page below the head. They are empty while nothing is known.
pub fn parts(
    key: &Key,
    standing: &Freshness,
    filter: &Filter,
    options: Option<&Part<Options>>,
) -> Vec<Fragment> {
    let address = format!("{}{}", key.address(), Tab::Config.path());
    let shown =
        section("config", "Configuration", options, |options| of(&address, filter, options));
    let parts =
        [("notes", notes(key, standing)), ("filter", form(&address, filter)), ("config", shown)];
    parts.map(|(id, it)| (id, it.into_string())).into()
}

/// Renders the form separately, so that updates do not affect what is being typed.
fn form(address: &str, Filter { search, is_all }: &Filter) -> Markup {
    html! {
        form #filter action=(address) role="search" {
            input type="search" name="q" value=(search) placeholder="Option, value or layer" aria-label="Search"
                autocomplete="off" spellcheck="false";
            @if *is_all { input type="hidden" name="set" value="false"; }
            button { "Filter" }
        }
    }
}

fn of(address: &str, filter: &Filter, Options { lines, remarks }: &Options) -> Markup {
    let found: Vec<&Line> = lines.iter().filter(|line| filter.finds(line)).collect();
    let set = found.iter().filter(|line| !line.is_default).count();
    let link = |is_all: bool| {
        let query = Filter { is_all, ..filter.clone() }.query();
        if query.is_empty() { address.to_owned() } else { format!("{address}?{query}") }
    };
    let shown = found.iter().filter(|line| filter.is_all || !line.is_default);
    let count = if filter.is_all { found.len() } else { set };
    html! {
        nav.switch aria-label="Which options" {
            a href=(link(false)) aria-current=[(!filter.is_all).then_some("true")] { "Set " b { (number(set)) } }
            a href=(link(true)) aria-current=[filter.is_all.then_some("true")] { "All " b { (number(found.len())) } }
        }
        @for remark in remarks { p.unread { (remark) } }
        @if count == 0 {
            p.unread { @if filter.search.is_empty() { "No options are set." } @else { "No option matches this search." } }
        } @else {
            table.cards {
                thead { tr { @for title in ["Option", "Value", "From", "Takes effect"] { th scope="col" { (title) } } } }
                tbody { @for line in shown.take(LINES_MAX) { (row(line)) } }
            }
        }
        @if count > LINES_MAX { p.unread { "Only the first " (number(LINES_MAX)) " are shown." } }
    }
}

fn row(line: &Line) -> Markup {
    let (first, whole) = line.value();
    html! {
        tr {
            th.path scope="row" {
                code { (line.option) }
                @if let Some(old) = &line.set_as { " " span.dim { "set as " code { (old) } } }
            }
            td.path.value {
                @if let Some(whole) = whole {
                    details { summary { code { (first) } " …" } pre { (whole) } }
                } @else if !first.is_empty() {
                    code { (first) }
                }
            }
            td.path.from { @if line.is_default { span.dim { (line.from) } } @else { (line.from) } }
            td.dim data-name=[line.effect.map(|_| "takes effect")] { @if let Some(effect) = line.effect { (effect) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Kind;

    fn shown(query: &str, options: Option<&Part<Options>>) -> String {
        let key = Key { namespace: "shop".into(), name: "orders".into(), kind: Kind::Deployment };
        let parts = parts(&key, &Freshness::Current, &Filter::parse(query), options);
        parts.into_iter().map(|(_, part)| part).collect()
    }

    fn line(option: &str, value: &str, from: &str) -> Line {
        Line {
            option: option.to_owned(),
            value: Some(value.to_owned()),
            from: from.to_owned(),
            is_default: from == "default",
            effect: Some("live"),
            ..Line::default()
        }
    }

    fn options() -> Options {
        let old = Line { set_as: Some("b.old".to_owned()), ..line("b.new", "<1>", "orders") };
        let lines = vec![line("a.interval", "5 s", "default"), old, line("log", "x\ny", "file")];
        Options { lines, remarks: vec!["no configuration".to_owned()] }
    }

    #[test]
    fn what_somebody_sets_is_shown_with_where_it_comes_from() {
        let page = shown("", Some(&Ok(options())));
        for told in [
            "<form id=\"filter\" action=\"/in/shop/deployment/orders/config\" role=\"search\">",
            "<a href=\"/in/shop/deployment/orders/config\" aria-current=\"true\">Set <b>2</b></a>",
            "<a href=\"/in/shop/deployment/orders/config?set=false\">All <b>3</b></a>",
            "<code>b.new</code> <span class=\"dim\">set as <code>b.old</code></span>",
            "<code>&lt;1&gt;</code>",
            "<details><summary><code>x</code> …</summary><pre>x\ny</pre></details>",
            "no configuration",
        ] {
            assert!(page.contains(told), "{told}: {page}");
        }
        assert!(!page.contains("a.interval"), "{page}");
    }

    #[test]
    fn a_search_and_all_options_are_in_the_address() {
        let page = shown("q=INTERVAL&set=false", Some(&Ok(options())));
        assert!(page.contains("<code>a.interval</code>") && !page.contains("b.new"), "{page}");
        assert!(page.contains("<input type=\"hidden\" name=\"set\" value=\"false\">"), "{page}");
        assert!(page.contains("config?q=INTERVAL\">Set <b>0</b>"), "{page}");
        let nothing = shown("q=INTERVAL", Some(&Ok(options())));
        assert!(nothing.contains("No option matches this search"), "{nothing}");
        assert!(shown("", Some(&Ok(Options::default()))).contains("No options are set."));
    }

    #[test]
    fn what_cannot_be_read_is_reported_and_the_list_is_bounded() {
        let page = shown("", Some(&Err("forbidden".to_owned())));
        assert!(page.contains("Not available: forbidden"), "{page}");
        let lines = (0..1_200).map(|it| line(&format!("o{it}"), "1", "file")).collect();
        let page = shown("", Some(&Ok(Options { lines, remarks: vec![] })));
        assert!(page.contains("Only the first 1,000 are shown") && !page.contains("o1000<"));
    }
}
