//! The job page of a resource: a graph, and a table of its vertices.

use maud::{Markup, html};

use super::{Fragment, Place, Tab, fact, graph, jobs, notes, section, text, time};
use crate::job::{Job, Shown, VERTICES_MAX, Vertex};
use crate::resource::{Freshness, Part};
use crate::row::Key;

/// Renders the parts of the page below the head. They are empty while nothing is known.
pub fn parts(
    place: Place<'_>,
    key: &Key,
    standing: &Freshness,
    shown: Option<&Part<Shown>>,
) -> Vec<Fragment> {
    let job = section("job", "Job", shown, |shown| match shown {
        Shown::Job(job) => of(place, job),
        Shown::Session(keys) => jobs(keys, Tab::Job),
    });
    [("notes", notes(key, standing)), ("job", job)].map(|(id, it)| (id, it.into_string())).into()
}

fn of(place: Place<'_>, job: &Job) -> Markup {
    html! {
        dl {
            (fact("Name", html! { (job.name) }))
            (fact("State", html! { (job.state) }))
            (fact("Running for", time(place, job.started_at)))
            (fact("Id", html! { (job.id) }))
        }
        @if let Some(why) = &job.unmeasured { p.unread { "Not measured: " (why) } }
        @if job.vertices.is_empty() {
            p.unread { "No vertices yet." }
        } @else {
            div.graph tabindex="0" role="region" aria-label="Graph" { (graph::of(job)) }
            (table(&job.vertices))
        }
        @if job.count > job.vertices.len() {
            p.unread { "Only the first " (job.vertices.len()) " of " (job.count) " vertices are shown: at most " (VERTICES_MAX) " are measured." }
        }
    }
}

fn table(vertices: &[Vertex]) -> Markup {
    let percent = |part: Option<u8>| part.map(|part| format!("{part}%")).unwrap_or_default();
    html! {
        table.cards {
            thead {
                tr {
                    th scope="col" { "Vertex" }
                    th scope="col" { "Status" }
                    @for title in ["Tasks", "Busy", "Backpressure", "In/s", "Out/s", "Lag"] { th.number scope="col" { (title) } }
                }
            }
            tbody {
                @for it in vertices {
                    tr {
                        th.path scope="row" { (it.name) }
                        td { span class={ "s " (it.tone()) } { i {} (it.word()) } }
                        td.number data-name="tasks" { (it.running) "/" (it.parallelism) }
                        td.number data-name="busy" { (percent(it.busy)) }
                        td.number data-name="backpressure" { (percent(it.backpressure)) }
                        td.number data-name="in/s" { (text(it.records_in.as_deref())) }
                        td.number data-name="out/s" { (text(it.records_out.as_deref())) }
                        td.number data-name="lag" { (text(it.lag.as_deref())) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::place;
    use crate::row::Kind;

    fn key(name: &str, kind: Kind) -> Key {
        Key { namespace: "shop".into(), name: name.into(), kind }
    }

    fn shown(shown: Option<&Part<Shown>>) -> String {
        let key = key("orders", Kind::Deployment);
        let parts = parts(place(), &key, &Freshness::Current, shown);
        parts.into_iter().map(|(_, part)| part).collect()
    }

    fn job(count: usize) -> Shown {
        let vertex = |index| Vertex {
            name: format!("Map <{index}>"),
            status: "RUNNING".to_owned(),
            parallelism: 2,
            running: 1,
            busy: Some(97),
            records_in: Some("1.5k".to_owned()),
            ..Vertex::default()
        };
        Shown::Job(Box::new(Job {
            id: "abc".to_owned(),
            state: "RUNNING".to_owned(),
            started_at: Some(40),
            vertices: (0..count.min(VERTICES_MAX)).map(vertex).collect(),
            count,
            unmeasured: Some("refused".to_owned()),
            ..Job::default()
        }))
    }

    #[test]
    fn a_job_is_a_graph_and_a_table() {
        let page = shown(Some(&Ok(job(2))));
        for told in [
            "<svg",
            "<th class=\"path\" scope=\"row\">Map &lt;1&gt;</th><td><span class=\"s bad\"><i></i>busy</span></td>",
            "<td class=\"number\" data-name=\"tasks\">1/2</td><td class=\"number\" data-name=\"busy\">97%</td>",
            "<td class=\"number\" data-name=\"backpressure\"></td>",
            "Not measured: refused",
            ">60s</time>",
        ] {
            assert!(page.contains(told), "{told}: {page}");
        }
        assert!(!page.contains("Only the first") && !page.contains("style="), "{page}");
        let large = shown(Some(&Ok(job(83))));
        assert!(large.contains("Only the first 60 of 83 vertices are shown"), "{large}");
        assert!(shown(Some(&Ok(job(0)))).contains("No vertices yet"));
    }

    #[test]
    fn a_session_cluster_leads_to_its_jobs() {
        let jobs = Ok(Shown::Session(vec![key("clicks", Kind::SessionJob)]));
        let page = shown(Some(&jobs));
        assert!(page.contains("<a href=\"/in/shop/sessionjob/clicks/job\">clicks</a>"), "{page}");
    }

    #[test]
    fn why_there_is_no_job_is_said() {
        let page = shown(Some(&Err("the JobManager does not answer".to_owned())));
        assert!(page.contains("Not available: the JobManager does not answer"), "{page}");
        assert!(shown(None).ends_with("<section id=\"job\"></section>"));
    }
}
