//! Pages of one resource.

use maud::{Markup, PreEscaped, html};
use strum::{EnumIter, IntoEnumIterator};

mod chart;
pub mod config;
mod graph;
pub mod job;
pub mod logs;
pub mod scaling;

use super::{Place, act, document, state, text, time};
use crate::action::Action;
use crate::assets::{self, Asset, LOGS_SCRIPT};
use crate::resource::{
    Branch, Checkpoint, Checkpoints, Freshness, Ink, MOMENTS_MAX, Measure, Moment, Next, Part,
    Resource, Span, Verdict,
};
use crate::row::{Key, Row, Tone};

/// Suffix of a page's address for its events.
pub const EVENTS: &str = "/events";

/// Suffix of a resource's address that opens Flink's own UI.
pub const FLINK_UI: &str = "/flink-ui";

/// The pages of a resource.
#[derive(Clone, Copy, Debug, EnumIter, Eq, PartialEq)]
pub enum Tab {
    Overview,
    Job,
    Config,
    Autoscaler,
    Logs,
}

impl Tab {
    /// Returns the suffix of the resource's address.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Overview => "",
            Self::Job => "/job",
            Self::Config => "/config",
            Self::Autoscaler => "/autoscaler",
            Self::Logs => "/logs",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Job => "Job",
            Self::Config => "Configuration",
            Self::Autoscaler => "Autoscaler",
            Self::Logs => "Logs",
        }
    }

    /// Returns the script that only this page needs.
    fn script(self) -> Option<Asset> {
        match self {
            Self::Overview | Self::Job | Self::Config | Self::Autoscaler => None,
            Self::Logs => Some(LOGS_SCRIPT),
        }
    }
}

/// A part of a page that may change, with its id.
pub type Fragment = (&'static str, String);

/// Renders a page of a resource from its fragments.
pub fn page(place: Place<'_>, key: &Key, tab: Tab, fragments: &[Fragment]) -> String {
    let body = html! {
        @for (_, fragment) in fragments { (PreEscaped(fragment)) }
        @if let Some(script) = tab.script() { script src=(assets::address(script)) defer {} }
    };
    let events = format!("{}{}{EVENTS}", key.address(), tab.path());
    document(&key.name, place, "resource", Some(&events), body).into_string()
}

/// Renders the head of all pages of a resource; `row` is what is known of it.
pub fn head(
    place: Place<'_>,
    key: &Key,
    tab: Tab,
    row: Option<&Row>,
    actions: &[Action],
) -> Fragment {
    let head = html! {
        section #head {
            (path(place, key))
            h1 { (key.name) }
            @if let Some(row) = row { (states(row)) }
            @if !actions.is_empty() {
                nav.actions aria-label="Actions" {
                    @for action in actions.iter().filter(|it| it.is_offered_above()) {
                        a href=(action.address(key)) { (action.title()) }
                    }
                    a href=(act::edit(key)) { "Edit" }
                }
            }
            nav.tabs aria-label="Pages of this resource" {
                @for it in Tab::iter() {
                    a href={ (key.address()) (it.path()) } aria-current=[(it == tab).then_some("page")] { (it.title()) }
                }
                // It has another origin, and no access to the console.
                @if place.visitor.is_none() {
                    a href={ (key.address()) (FLINK_UI) } target="_blank" rel="noopener" {
                        "Flink UI" span aria-hidden="true" { " ↗" } span.unseen { " (opens in a new tab)" }
                    }
                }
            }
        }
    };
    ("head", head.into_string())
}

/// Renders the breadcrumb from the fleet.
pub(super) fn path(place: Place<'_>, Key { namespace, kind, .. }: &Key) -> Markup {
    html! {
        nav aria-label="Breadcrumb" {
            a href="/" { "Fleet" }
            @if place.namespace.is_none() { a href={ "/?namespace=" (namespace) } { (namespace) } }
            span { (kind) }
        }
    }
}

fn states(row: &Row) -> Markup {
    html! {
        p.states {
            (state(row.lifecycle.as_deref()))
            @if row.job_state.is_some() { span.job { "job " (state(row.job_state.as_deref())) } }
            @if row.is_session { small { "session cluster" } }
            @if row.is_being_deleted { small.bad { "deleting" } }
            @if let Some(upgrade) = &row.upgrade { small.moving { "upgrade: " (upgrade) } }
        }
    }
}

/// The resource shown, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub key: &'a Key,
    pub resource: Option<&'a Resource>,
    pub standing: &'a Freshness,
    /// The actions that the person may run on it.
    pub actions: &'a [Action],
}

/// Renders the parts of the overview below the head.
pub fn overview(place: Place<'_>, view: View<'_>) -> Vec<Fragment> {
    let resource = view.resource;
    let checkpoint = resource.and_then(|it| it.checkpoints.as_ref());
    let parts = [
        ("notes", notes(view.key, view.standing)),
        ("facts", facts(place, resource)),
        ("why", section("why", "Why", resource.map(|it| &it.verdict), verdict)),
        ("parts", section("parts", "Components", resource.map(|it| &it.tree), |it| branches(it))),
        (
            "checkpoints",
            section("checkpoints", "Checkpoints", checkpoint, |it| checkpoints(place, it)),
        ),
        ("life", life(place, view)),
    ];
    parts.map(|(id, part)| (id, part.into_string())).into()
}

fn facts(place: Place<'_>, resource: Option<&Resource>) -> Markup {
    html! {
        section #facts {
            @if let Some(Resource { row, more, .. }) = resource {
                @if let Some(error) = &row.error { pre.error tabindex="0" aria-label="Error" { (error) } }
                dl {
                    (fact("Flink", html! { (text(row.version.as_deref())) }))
                    (fact("Image", html! { (text(row.image.as_deref())) }))
                    (fact("Parallelism", html! { @if let Some(it) = row.parallelism { (it) } }))
                    @for (name, value) in more { (fact(name, html! { (value) })) }
                    (fact("Saved", time(place, row.snapshot_at)))
                    (fact("Age", time(place, row.created_at)))
                    (fact("Labels", html! { @for label in row.labels.lines() { span.label { (label) } } }))
                }
            }
        }
    }
}

/// Renders a fact, or nothing if it has no value.
fn fact(name: &str, value: Markup) -> Markup {
    html! {
        @if !value.0.is_empty() { div { dt { (name) } dd { (value) } } }
    }
}

fn notes(key: &Key, standing: &Freshness) -> Markup {
    let Key { namespace, name, kind } = key;
    html! {
        div #notes role="status" {
            @match standing {
                Freshness::Current => {}
                Freshness::Absent => p {
                    "There is no " (kind) " `" (name) "` in namespace `" (namespace) "`. If it is created, it appears here."
                },
                Freshness::Gone { since } => p.bad {
                    "Deleted: it no longer existed at " (since) ". Showing its last known state."
                },
                Freshness::Lost { since, message } => p.bad.lost {
                    "Showing data from " (since) ", retrying the API server: " (message)
                },
            }
        }
    }
}

/// Renders a section, which is empty while nothing is known.
fn section<T>(
    id: &str,
    title: &str,
    part: Option<&Part<T>>,
    show: impl FnOnce(&T) -> Markup,
) -> Markup {
    html! {
        section id=(id) {
            @if let Some(part) = part {
                h2 { (title) }
                @match part {
                    Ok(part) => (show(part)),
                    Err(why) => p.unread { "Not available: " (why) },
                }
            }
        }
    }
}

/// Renders the jobs of a session cluster, which has no job of its own.
fn jobs(jobs: &[Key], tab: Tab) -> Markup {
    html! {
        p.unread { "A session cluster has no job of its own. See the pages of its session jobs." }
        @if jobs.is_empty() { p.unread { "It has no session jobs yet." } }
        ul.links {
            @for job in jobs { li { a href={ (job.address()) (tab.path()) } { (job.name) } } }
        }
    }
}

fn verdict(Verdict { tone, what, evidence, remedy, next, unread }: &Verdict) -> Markup {
    html! {
        p.what { span class={ "s " (tone) } { i {} span { (act::coded(what)) } } }
        @if *tone != Tone::Good {
            p.evidence { (evidence) }
            p { (act::coded(remedy)) }
            p.next { span.dim { "run next: " } code { (next) } }
        }
        @if !unread.is_empty() {
            details {
                summary { "Some of it could not be read" }
                ul { @for it in unread { li { (it) } } }
            }
        }
    }
}

fn checkpoints(place: Place<'_>, Checkpoints { summary, newest }: &Checkpoints) -> Markup {
    let bars = |measure: fn(&Checkpoint) -> Option<&Measure>| {
        newest.iter().rev().map(|it| (it.status == "FAILED", measure(it))).collect::<Vec<_>>()
    };
    html! {
        p.unread { (summary) }
        @if !newest.is_empty() {
            div.charts {
                (chart::of("durations", "Duration", &bars(|it| it.duration.as_ref())))
                (chart::of("sizes", "Size", &bars(|it| it.size.as_ref())))
            }
            table {
                thead {
                    tr { @for title in ["Id", "Kind", "Status", "Age", "Duration", "Size", "Path or error"] { th scope="col" { (title) } } }
                }
                tbody {
                    @for it in newest {
                        @let tone = match it.status.as_str() {
                            "COMPLETED" => Tone::Good,
                            "FAILED" => Tone::Bad,
                            _ => Tone::Moving,
                        };
                        tr {
                            th scope="row" { @if let Some(id) = it.id { (id) } }
                            td { (it.kind) }
                            td { span class={ "s " (tone) } { i {} (it.status) } }
                            td { (time(place, it.at)) }
                            td { @if let Some(it) = &it.duration { (it.words) } }
                            td { @if let Some(it) = &it.size { (it.words) } }
                            td.path { (it.text) }
                        }
                    }
                }
            }
        }
    }
}

fn life(place: Place<'_>, View { key, resource, actions, .. }: View<'_>) -> Markup {
    html! {
        section #life {
            @if let Some(Resource { life, .. }) = resource {
                h2 { "Timeline" }
                @for why in &life.unread { p.unread { "Not available: " (why) } }
                @if life.moments().is_empty() { p.unread { "Nothing recorded yet" } }
                ol {
                    @for stretch in life.stretches() {
                        @if stretch.len() > 1 && stretch.iter().all(|it| it.is_routine) {
                            // The id is that of the oldest event, so that the group stays open when newer ones come.
                            li.routine id={ "routine-" (stretch.last().map_or(0, |it| it.at)) } {
                                details {
                                    summary { (stretch.len()) " events of its pods" }
                                    ol { @for it in stretch { (moment(place, key, it, actions)) } }
                                }
                            }
                        } @else {
                            @for it in stretch { (moment(place, key, it, actions)) }
                        }
                    }
                }
                @if life.is_cut() { p.unread { "Only the newest " (MOMENTS_MAX) " are shown" } }
            }
        }
    }
}

fn moment(place: Place<'_>, key: &Key, moment: &Moment, actions: &[Action]) -> Markup {
    let Moment { at, tone, source, title, text, next, is_routine: _ } = moment;
    html! {
        li class=(tone) {
            (time(place, Some(*at)))
            span.at { (exact(*at)) }
            i {}
            p {
                b { (title) } " " small { (source) } " " (text)
                @if let Some(Next { action, value }) = next && actions.contains(action) {
                    " " a.next href=(action.address_with(key, value)) { (action.title_of_moment()) }
                }
            }
        }
    }
}

fn exact(at: i64) -> String {
    let at = jiff::Timestamp::from_second(at);
    at.map(|at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()).unwrap_or_default()
}

fn branches(branches: &[Branch]) -> Markup {
    html! {
        @if !branches.is_empty() {
            ul {
                @for Branch { label, children } in branches {
                    li {
                        p { @for span in label { (inked(span)) } }
                        (self::branches(children))
                    }
                }
            }
        }
    }
}

pub(super) fn inked(Span { ink, text }: &Span) -> Markup {
    html! {
        @if *ink == Ink::Plain { (text) } @else { span class=(ink) { (text) } }
    }
}

#[cfg(test)]
mod tests;
