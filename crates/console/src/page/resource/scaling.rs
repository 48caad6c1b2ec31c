//! The autoscaler page of a job: what it would decide now, and what it has decided before.

use maud::{Markup, html};

use super::{Fragment, Place, Tab, exact, fact, jobs, notes, section, text, time};
use crate::resource::{Freshness, Part};
use crate::row::Key;
use crate::scaling::{
    Autoscaler, CHARTS_MAX, DECISIONS_MAX, Decision, Decisions, Now, Outcome, Rate, Shown,
    VERTICES_MAX, Vertex,
};

mod chart;

/// Renders the parts of the page below the head. They are empty while nothing is known.
pub fn parts(
    place: Place<'_>,
    key: &Key,
    standing: &Freshness,
    shown: Option<&Part<Shown>>,
) -> Vec<Fragment> {
    let scaled = match shown {
        Some(Ok(Shown::Scaled(autoscaler))) => Some(&**autoscaler),
        _ => None,
    };
    let autoscaler = section("autoscaler", "Autoscaler", shown, |shown| match shown {
        Shown::Scaled(autoscaler) => now(place, key, autoscaler),
        Shown::Off { is_certain } => off(key, *is_certain),
        Shown::Session(keys) => jobs(keys, Tab::Autoscaler),
    });
    let decisions = html! {
        section #decisions {
            @if let Some(it) = scaled { h2 { "Decisions" } (decisions(place, &it.decisions)) }
        }
    };
    [("notes", notes(key, standing)), ("autoscaler", autoscaler), ("decisions", decisions)]
        .map(|(id, it)| (id, it.into_string()))
        .into()
}

fn off(key: &Key, is_certain: bool) -> Markup {
    let (name, namespace) = (key.argument(), &key.namespace);
    html! {
        p {
            "The autoscaler is off" @if !is_certain { ", unless the operator's own configuration, which could not be read, turns it on" }
            ". Turn it on with " code { "job.autoscaler.enabled" } " (see docs/autoscaler.md):"
        }
        p.next { code { "kubectl flink set config " (name) " job.autoscaler.enabled=true -n " (namespace) } }
    }
}

fn now(place: Place<'_>, key: &Key, autoscaler: &Autoscaler) -> Markup {
    let Autoscaler { facts, remarks, vertices, outcome, .. } = autoscaler;
    html! {
        dl { @for (name, value) in facts { (fact(name, html! { (value) })) } }
        @for remark in remarks { p.unread { (remark) } }
        @match outcome {
            Some(Ok(Outcome { words, at, is_backlog })) => p.outcome {
                "Now: " (words) @if *is_backlog { ". Nothing is scaled down while there is a backlog" }
                span.dim { ", measured at " (at) }
            },
            Some(Err(why)) => p.unread { "Current decision not available: " (why) },
            None => {}
        }
        @if !vertices.is_empty() { (table(place, &vertices[..vertices.len().min(VERTICES_MAX)])) }
        @if vertices.len() > VERTICES_MAX { p.unread { "Only the first " (VERTICES_MAX) " of " (vertices.len()) " vertices are shown." } }
        p.next { span.dim { "all intermediate values: " } code { "kubectl flink autoscaler explain " (key.argument()) " -n " (key.namespace) " -o wide" } }
    }
}

fn table(place: Place<'_>, vertices: &[Vertex]) -> Markup {
    let has_measured = vertices.iter().any(|it| it.now.is_some());
    let has_waiting = vertices.iter().any(|it| it.waits_since.is_some());
    let change = |Now { parallelism, recommended, .. }: &Now| {
        if parallelism == recommended {
            parallelism.to_string()
        } else {
            format!("{parallelism} → {recommended}")
        }
    };
    html! {
        table.cards {
            thead {
                tr {
                    th scope="col" { "Vertex" }
                    th.number scope="col" { "Last decision" }
                    @if has_measured {
                        @for title in ["Decision now", "True rate", "Target rate"] { th.number scope="col" { (title) } }
                        th scope="col" { "Rule" }
                    }
                    @if has_waiting { th.number scope="col" { "Scale-down pending for" } }
                }
            }
            tbody {
                @for Vertex { name, decided, waits_since, now } in vertices {
                    @let now = now.as_ref();
                    tr {
                        th.path scope="row" { (name) }
                        td.number data-name="last decision" { @if let Some(it) = decided { (it) } }
                        @if has_measured {
                            td.number data-name="now" { @if let Some(now) = now { @if now.parallelism == now.recommended { (change(now)) } @else { b { (change(now)) } } } }
                            td.number data-name="true rate" { @if let Some(now) = now { (now.true_rate) } }
                            td.number data-name="target rate" { @if let Some(now) = now { (now.target_rate) } }
                            td.path { (text(now.and_then(|it| it.rule.as_deref()))) }
                        }
                        @if has_waiting { td.number data-name=[waits_since.map(|_| "scale-down pending for")] { (time(place, *waits_since)) } }
                    }
                }
            }
        }
    }
}

fn decisions(place: Place<'_>, decisions: &Decisions) -> Markup {
    let by_vertex = decisions.by_vertex();
    let words = |rate: &Option<Rate>| rate.as_ref().map(|it| it.words.clone()).unwrap_or_default();
    let has_rules = decisions.newest().iter().any(|it| it.rule.is_some());
    html! {
        @if by_vertex.is_empty() { p.unread { "Nothing has been scaled yet." } }
        div.charts {
            @for (index, of_vertex) in by_vertex.iter().take(CHARTS_MAX).enumerate() { (chart::of(place, index, of_vertex)) }
        }
        @if by_vertex.len() > CHARTS_MAX { p.unread { "Only the " (CHARTS_MAX) " most recently scaled vertices have a chart." } }
        @if !by_vertex.is_empty() {
            table.cards {
                thead {
                    tr {
                        th scope="col" { "Vertex" }
                        th scope="col" { "Age" }
                        @for title in ["Parallelism", "True rate", "Target rate", "Expected rate", "Restart"] { th.number scope="col" { (title) } }
                        @if has_rules { th scope="col" { "Rule" } }
                    }
                }
                tbody {
                    @for it in decisions.newest() {
                        @let Decision { at, vertex, from, to, true_rate, target_rate, expected_rate, rule, restart } = it;
                        tr {
                            th.path scope="row" { (vertex) }
                            td { (time(place, Some(*at))) " " span.at { (exact(*at)) } }
                            td.number data-name="parallelism" { (from) " → " (to) }
                            td.number data-name="true rate" { (words(true_rate)) }
                            td.number data-name="target rate" { (words(target_rate)) }
                            td.number data-name="expected rate" { (words(expected_rate)) }
                            td.number data-name=[restart.as_ref().map(|_| "restart")] { (text(restart.as_deref())) }
                            @if has_rules { td.path data-name=[rule.as_ref().map(|_| "rule")] { (text(rule.as_deref())) } }
                        }
                    }
                }
            }
        }
        @if decisions.is_cut() { p.unread { "Only the newest " (DECISIONS_MAX) " are shown." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::place;
    use crate::row::Kind;

    fn shown(kind: Kind, shown: Option<&Part<Shown>>) -> String {
        let key = Key { namespace: "shop".into(), name: "orders".into(), kind };
        let parts = parts(place(), &key, &Freshness::Current, shown);
        parts.into_iter().map(|(_, part)| part).collect()
    }

    fn autoscaler() -> Autoscaler {
        let now = Now {
            parallelism: 4,
            recommended: 6,
            true_rate: "400.00".to_owned(),
            target_rate: "580.00".to_owned(),
            rule: Some("computed parallelism: 6.00".to_owned()),
        };
        let vertex = Vertex {
            name: "Map <x>".to_owned(),
            decided: Some(4),
            waits_since: Some(70),
            now: Some(now),
        };
        let rate = Rate { amount: Some(588), words: "588.24".to_owned() };
        let decision = Decision {
            at: 40,
            vertex: "Map <x>".to_owned(),
            from: 1,
            to: 4,
            true_rate: Some(rate),
            rule: Some("computed parallelism: 4.00".to_owned()),
            restart: Some("12s".to_owned()),
            ..Decision::default()
        };
        let outcome =
            Outcome { words: "scaled".to_owned(), at: "10:00:00".to_owned(), is_backlog: true };
        Autoscaler {
            facts: vec![("Autoscaler", "on".to_owned())],
            remarks: vec!["`scalingHistory` cannot be read".to_owned()],
            vertices: vec![vertex],
            decisions: Decisions::new(vec![decision]),
            outcome: Some(Ok(outcome)),
        }
    }

    fn scaled(autoscaler: Autoscaler) -> String {
        shown(Kind::SessionJob, Some(&Ok(Shown::Scaled(Box::new(autoscaler)))))
    }

    #[test]
    fn decisions_are_reported_with_their_rates_and_the_next_one_with_its_rule() {
        let page = scaled(autoscaler());
        for told in [
            "<dt>Autoscaler</dt><dd>on</dd>",
            "`scalingHistory` cannot be read",
            "Now: scaled. Nothing is scaled down while there is a backlog",
            "<b>4 → 6</b>",
            "<td class=\"path\">computed parallelism: 6.00</td>",
            "data-name=\"scale-down pending for\"><time datetime=\"1970-01-01T00:01:10Z\"",
            "kubectl flink autoscaler explain sessionjob/orders -n shop -o wide",
            "<path class=\"steps\"",
            "<td class=\"number\" data-name=\"parallelism\">1 → 4</td><td class=\"number\" data-name=\"true rate\">588.24</td>",
            "data-name=\"restart\">12s</td>",
            "<td class=\"path\" data-name=\"rule\">computed parallelism: 4.00</td>",
        ] {
            assert!(page.contains(told), "{told}: {page}");
        }
        assert!(!page.contains("<x>") && !page.contains("style="), "{page}");
    }

    #[test]
    fn what_was_not_measured_has_no_columns() {
        let mut quiet = autoscaler();
        quiet.outcome = Some(Err("the job does not run".to_owned()));
        quiet.vertices.iter_mut().for_each(|it| it.now = None);
        quiet.decisions = Decisions::default();
        let page = scaled(quiet);
        assert!(page.contains("Current decision not available: the job does not run"), "{page}");
        assert!(
            !page.contains("Decision now") && page.contains("Nothing has been scaled yet"),
            "{page}"
        );
    }

    #[test]
    fn one_that_is_off_says_how_to_switch_it_on() {
        let off = |kind, is_certain| shown(kind, Some(&Ok(Shown::Off { is_certain })));
        let page = off(Kind::BlueGreen, true);
        let next = "kubectl flink set config bluegreen/orders job.autoscaler.enabled=true -n shop";
        assert!(page.contains(next) && !page.contains("unless"), "{page}");
        assert!(off(Kind::Deployment, false).contains("unless the operator's own configuration"));
        assert!(page.ends_with("<section id=\"decisions\"></section>"), "{page}");
    }
}
