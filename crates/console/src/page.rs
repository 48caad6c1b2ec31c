//! Pages as HTML. The templates escape every text.
//!
//! Pages are complete without their script, which only replaces fragments by newer ones with the same id.

pub mod act;
pub mod resource;
pub mod run;
pub mod sign_in;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets::{self, ICON, SCRIPT, STYLE};
use crate::fleet::{self, ROWS_MAX, Selection, Source, View};
use crate::guard::Refusal;
use crate::query::{Column, Query, SIZES, UNSEEN};
use crate::rights::ASKED_MAX;
use crate::row::{Figures, Key, Row, Tone};

/// Maximum number of namespaces suggested while one is typed.
const NAMESPACES_MAX: usize = 200;
/// Path of the events of the fleet.
pub const EVENTS: &str = "/fleet/events";

/// Which part of which cluster is shown, and when.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Name of the cluster for people, which is the context of the kubeconfig.
    pub cluster: &'a str,
    /// Host of its API server.
    pub host: &'a str,
    /// `None` for all namespaces.
    pub namespace: Option<&'a str>,
    /// Whether the person may deploy new resources.
    pub can_deploy: bool,
    /// Seconds since the epoch.
    pub now: i64,
    /// Formats seconds as the commands do.
    pub age: fn(i64) -> String,
    /// The person who has signed in; `None` if the console is seen only by the person who runs it.
    pub visitor: Option<Visitor<'a>>,
}

/// A person who sees a console that others run.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// Name that the API server knows them by.
    pub name: &'a str,
    /// Whether they signed in here, and not through a proxy.
    pub may_sign_out: bool,
    /// Whether they may list deployments in all namespaces.
    pub is_everywhere: bool,
}

/// Renders the page of the fleet.
pub fn fleet(place: Place<'_>, fleet: View<'_>, query: &Query) -> String {
    let selection = fleet.select(query);
    let body = html! {
        h1.unseen { "Fleet" }
        (filters(place, fleet, query))
        (counts(place, query, &selection))
        (notes(fleet, &selection))
        section.table tabindex="0" aria-label="Deployments and jobs" {
            (table(place, query, &selection))
        }
        (pager(query, &selection))
    };
    document("Fleet", place, "fleet", Some(EVENTS), body).into_string()
}

/// Renders the parts of that page that change, with their ids.
pub fn fragments(place: Place<'_>, fleet: View<'_>, query: &Query) -> [(&'static str, String); 4] {
    let selection = fleet.select(query);
    [
        ("counts", counts(place, query, &selection)),
        ("notes", notes(fleet, &selection)),
        ("fleet", table(place, query, &selection)),
        ("pager", pager(query, &selection)),
    ]
    .map(|(id, markup)| (id, markup.into_string()))
}

/// Renders the page for a person without access.
pub fn refusal(refusal: Refusal) -> String {
    let (title, text) = match refusal {
        Refusal::Token => (
            "Access denied",
            "Open the address that `kubectl flink dashboard` printed. If you no longer have it, stop the command \
             and run it again: each run has its own address.",
        ),
        Refusal::Site => (
            "Request from another site",
            "The console only answers its own pages. To open this one, copy its address into the address bar.",
        ),
        Refusal::Host => (
            "Wrong host name",
            "Open the address that the command printed, which begins with http://127.0.0.1. Through a proxy or \
             a forwarded port, use the same port on both ends.",
        ),
    };
    message(title, text)
}

/// Renders a page with a single message.
pub fn message(title: &str, text: &str) -> String {
    let body = html! { main.message { h1 { (title) } p { (text) } } };
    bare(title, html! {}, body).into_string()
}

/// Renders a page that leads on to another address of the console. The next request then comes from the console itself,
/// unlike one that follows a redirect from another site.
pub fn forward(address: &str) -> String {
    let refresh = html! { meta http-equiv="refresh" content={ "0;url=" (address) }; };
    let body = html! { main.message { p { a href=(address) { "Continue" } } } };
    bare("Console", refresh, body).into_string()
}

fn document(
    title: &str,
    place: Place<'_>,
    class: &str,
    events: Option<&str>,
    body: Markup,
) -> Markup {
    let script = html! { script src=(assets::address(SCRIPT)) defer {} };
    let scope = match place.visitor {
        Some(Visitor { is_everywhere: false, .. }) => "your namespaces",
        _ => place.namespace.unwrap_or("all namespaces"),
    };
    let body = html! {
        header {
            a.brand href="/" { (icon()) "Flink" }
            p.place { span title=(place.host) { (place.cluster) } span { (scope) } }
            @if place.can_deploy {
                nav.acts aria-label="Deploy and commands" { a href=(act::DEPLOY) { "Deploy" } a href=(run::RUNS) { "Commands" } }
            }
            p #link role="status" { noscript { "Reload to see changes" } }
            @if let Some(visitor) = place.visitor { (sign_in::visitor(visitor)) }
        }
        main class=(class) data-events=[events] { (body) }
    };
    bare(&format!("{title} · {}", place.cluster), script, body)
}

fn bare(title: &str, head: Markup, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href=(assets::address(ICON));
                link rel="stylesheet" href=(assets::address(STYLE));
                (head)
            }
            body { (body) }
        }
    }
}

fn icon() -> Markup {
    PreEscaped(ICON.text.to_owned())
}

fn filters(place: Place<'_>, fleet: View<'_>, query: &Query) -> Markup {
    let typed = ["q", "namespace", "labels", "sort", "page"];
    let others = query.fields().into_iter().filter(|(name, _)| !typed.contains(name));
    html! {
        form #filters action="/" role="search" {
            input type="search" name="q" value=(query.search) placeholder="Name, image or error" aria-label="Search"
                aria-keyshortcuts="/" autocomplete="off" spellcheck="false";
            @if place.namespace.is_none() {
                input name="namespace" value=(query.namespace) list="namespaces" placeholder="Namespace" aria-label="Namespace"
                    autocomplete="off" spellcheck="false";
                datalist #namespaces {
                    @for namespace in fleet.namespaces(NAMESPACES_MAX) { option value=(namespace) {} }
                }
            }
            input name="labels" value=(query.labels) placeholder="Labels: team=a,stage!=test" aria-label="Labels"
                autocomplete="off" spellcheck="false";
            // The table's header does this if there is one.
            select name="sort" aria-label="Sort order" {
                @for (column, title) in columns(place, query) {
                    // Default values stay out of the address.
                    @let value = if column == Column::default() { String::new() } else { column.to_string() };
                    option value=(value) selected[column == query.sort] { "By " (sorted_by(column, title)) }
                }
            }
            @for (name, value) in others { input type="hidden" name=(name) value=(value); }
            button { "Filter" }
        }
    }
}

/// Renders the number of rows in each state, each as a filter.
fn counts(place: Place<'_>, query: &Query, selection: &Selection<'_>) -> Markup {
    let all: usize = selection.states.iter().map(|(_, count)| count).sum();
    let without = query.in_any_state();
    html! {
        nav #counts aria-label="States" {
            a href=(without.address()) aria-current=[query.states.is_empty().then_some("true")] { "All " b { (number(all)) } }
            @for (name, count) in &selection.states {
                a class=(fleet::tone(name)) href=(query.toggled(name).address())
                    aria-current=[query.states.contains(*name).then_some("true")] {
                    i {} (state_words(name)) " " b { (number(*count)) }
                }
            }
            @if place.visitor.is_none() {
                a.switch href=(query.with_figures_toggled().address()) aria-current=[query.figures.then_some("true")] { "Live figures" }
            }
            @if query.is_filtered() { a.clear href=(query.unfiltered().address()) { "Clear filters" } }
        }
    }
}

fn state_words(state: &str) -> &str {
    if state == UNSEEN { "not seen yet" } else { state }
}

/// Renders why the table is not complete or not current.
fn notes(fleet: View<'_>, selection: &Selection<'_>) -> Markup {
    let open = || fleet.sources().filter(|(_, it)| !matches!(it, Source::Closed { .. }));
    // One note is enough for all watches, which mostly fail at the same moment.
    let is_gone = open().all(|(_, source)| matches!(source, Source::Lost { .. }));
    html! {
        div #notes role="status" {
            @if let Some(error) = &selection.invalid_labels {
                p.bad { "`" (error.part()) "` is not a valid label selector; expected something like `team=a,stage!=test`" }
            }
            @if is_gone && let Some((_, Source::Lost { since, message })) = open().next() {
                p.bad.lost {
                    "Showing data from " (since) ", retrying the API server: " (message)
                }
            }
            @for (kind, source) in fleet.sources() {
                @match source {
                    Source::Lost { .. } if is_gone => {}
                    Source::Current if fleet.rights().is_refused(kind) => p {
                        (kind) "s are not shown: there are none in any namespace where you may list them"
                    },
                    Source::Current => {}
                    Source::Loading => p { "Loading " (kind) "s" },
                    Source::Lost { since, message } => p.bad.lost {
                        "Showing " (kind) "s from " (since) ", retrying the API server: " (message)
                    },
                    Source::Closed { message } => p { (kind) "s are not shown: " (message) },
                }
            }
            @if fleet.rights().is_cut() {
                p.bad {
                    "Your permissions were only checked in the first " (ASKED_MAX) " namespaces; the others are not shown"
                }
            }
            @if fleet.is_cut() {
                p.bad { "Only " (number(ROWS_MAX)) " objects are shown, which is the maximum" }
            }
        }
    }
}

fn columns(place: Place<'_>, query: &Query) -> impl Iterator<Item = (Column, &'static str)> {
    let all = [
        (Column::Namespace, "Namespace"),
        (Column::Name, "Name"),
        (Column::State, "State"),
        (Column::Job, "Job"),
        (Column::Version, "Flink"),
        (Column::Image, "Image"),
        (Column::Parallelism, "Parallelism"),
        (Column::Snapshot, "Saved"),
        (Column::Upgrade, "Upgrade"),
        (Column::Error, "Error"),
        (Column::Age, "Age"),
    ];
    let has_figures = query.figures;
    // They make room for the figures.
    let gone =
        move |it| has_figures && matches!(it, Column::Image | Column::Version | Column::Upgrade);
    let is_reported = move |it| it != Column::Namespace || place.namespace.is_none();
    all.into_iter().filter(move |(it, _)| is_reported(*it) && !gone(*it))
}

/// Name of a column in the sort menu. Some titles would not be understood on their own.
fn sorted_by(column: Column, title: &str) -> String {
    match column {
        Column::Version => "Flink version".to_owned(),
        Column::Job => "job status".to_owned(),
        Column::Snapshot => "last snapshot".to_owned(),
        Column::Upgrade => "upgrade progress".to_owned(),
        Column::Namespace
        | Column::Name
        | Column::State
        | Column::Image
        | Column::Parallelism
        | Column::Error
        | Column::Age => title.to_lowercase(),
    }
}

/// Columns of the live figures. They cannot be sorted by, because only the jobs on the page are measured.
const FIGURES: [&str; 5] = ["In/s", "Lag", "Busy", "Backpressure", "Checkpoint"];

fn table(place: Place<'_>, query: &Query, selection: &Selection<'_>) -> Markup {
    html! {
        table #fleet {
            thead {
                tr {
                    @for (column, title) in columns(place, query) {
                        th class=(column) scope="col" aria-sort=[sorted(query, column)] {
                            a href=(query.sorted(column).address()) { (title) }
                        }
                        @if column == Column::Parallelism && query.figures {
                            @for title in FIGURES { th.figure scope="col" { (title) } }
                        }
                    }
                }
            }
            tbody {
                @for (key, row) in &selection.rows { (line(place, query, key, row)) }
                @if selection.rows.is_empty() {
                    tr.none { td colspan=(columns(place, query).count() + if query.figures { FIGURES.len() } else { 0 }) { (nothing(query, selection)) } }
                }
            }
        }
    }
}

fn sorted(query: &Query, column: Column) -> Option<&'static str> {
    let order = if query.is_descending { "descending" } else { "ascending" };
    (query.sort == column).then_some(order)
}

fn nothing(query: &Query, selection: &Selection<'_>) -> &'static str {
    match (query.is_filtered(), selection.total) {
        (true, 1..) => "Nothing matches these filters",
        _ => "No Flink resources yet. Deploy one with: kubectl flink deploy",
    }
}

fn line(place: Place<'_>, query: &Query, key: &Key, row: &Row) -> Markup {
    let Key { namespace, name, kind } = key;
    let badge = kind.prefix().or(row.is_session.then_some("session"));
    html! {
        tr id={ (kind.word()) "/" (namespace) "/" (name) } {
            @if place.namespace.is_none() {
                td.namespace { a href=(query.within(namespace).address()) { (namespace) } }
            }
            th.name scope="row" {
                a href=(key.address()) { (name) }
                @if let Some(badge) = badge { " " small { (badge) } }
                @if row.is_being_deleted { " " small.bad { "deleting" } }
            }
            td.state { (state(row.lifecycle.as_deref())) }
            td.job { @if row.job_state.is_some() { (state(row.job_state.as_deref())) } }
            @if !query.figures {
                td.version { (text(row.version.as_deref())) }
                td.image { @if let Some(image) = &row.image { span title=(image) { (short(image)) } } }
            }
            td.parallelism { @if let Some(parallelism) = row.parallelism { (parallelism) } }
            @if query.figures { (figures(row)) }
            td.snapshot { (time(place, row.snapshot_at)) }
            @if !query.figures { td.upgrade { (text(row.upgrade.as_deref())) } }
            td.error {
                // The style cuts this to one line unless it is expanded.
                @if let Some(error) = &row.error { details { summary { (error) } } }
            }
            td.age { (time(place, row.created_at)) }
        }
    }
}

fn figures(row: &Row) -> Markup {
    let Figures { records_in, lag, busy, backpressure, checkpoint } =
        row.figures.as_deref().cloned().unwrap_or_default();
    let all = [records_in, lag, busy, backpressure, checkpoint];
    html! { @for (title, figure) in FIGURES.iter().zip(&all) { td.figure data-title=(title) { (figure) } } }
}

fn text(text: Option<&str>) -> &str {
    text.unwrap_or_default()
}

fn state(state: Option<&str>) -> Markup {
    html! { span class={ "s " (Tone::of(state)) } { i {} (state.unwrap_or("not seen yet")) } }
}

fn time(place: Place<'_>, at: Option<i64>) -> Markup {
    let Some(at) = at else { return html! {} };
    let date = jiff::Timestamp::from_second(at).map(|at| at.to_string()).unwrap_or_default();
    html! { time datetime=(date) title=(date) { ((place.age)(place.now - at)) } }
}

/// Returns an image without its registry.
fn short(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    image.rsplit('/').next().unwrap_or(image)
}

fn pager(query: &Query, selection: &Selection<'_>) -> Markup {
    let Selection { rows, matching, page, pages, .. } = selection;
    let first = page * query.size();
    html! {
        nav #pager aria-label="Pages" {
            p { @if *matching > 0 { (number(first + 1)) "–" (number(first + rows.len())) " of " (number(*matching)) } }
            @if *page > 0 { a rel="prev" href=(query.at(page - 1).address()) { "Previous" } }
            @if page + 1 < *pages { a rel="next" href=(query.at(page + 1).address()) { "Next" } }
            p.sizes {
                "Rows"
                @for size in SIZES {
                    a href=(query.sized(size).address()) aria-current=[(size == query.size()).then_some("true")] { (size) }
                }
            }
        }
    }
}

/// Formats a number with commas between thousands.
fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
