use super::*;
use crate::page::tests::place;
use crate::resource::Life;
use crate::row::Kind;

fn key() -> Key {
    Key { namespace: "shop".into(), name: "orders".into(), kind: Kind::SessionJob }
}

fn span(ink: Ink, text: &str) -> Span {
    Span { ink, text: text.to_owned() }
}

fn resource() -> Resource {
    let row = Row {
        lifecycle: Some("UPGRADING".into()),
        job_state: Some("FAILING".into()),
        upgrade: Some("stops and starts".into()),
        error: Some("<b>".repeat(2_000).into()),
        created_at: Some(40),
        labels: "stage=test\nteam=a".into(),
        ..Row::default()
    };
    let pod = Branch {
        label: vec![span(Ink::Plain, "orders-1 "), span(Ink::Good, "Running")],
        children: vec![],
    };
    let tree = Branch { label: vec![span(Ink::Plain, "JobManager")], children: vec![pod] };
    let verdict = Ok(verdict(Tone::Bad));
    Resource {
        row,
        more: vec![("Upgrade mode", "savepoint".to_owned())],
        verdict,
        tree: Ok(vec![tree]),
        checkpoints: Some(Ok(Checkpoints {
            summary: "2 completed".to_owned(),
            newest: vec![Checkpoint {
                id: Some(8),
                kind: "checkpoint",
                status: "FAILED".to_owned(),
                text: "expired".to_owned(),
                ..Checkpoint::default()
            }],
        })),
        life: Life::new((0..3).map(moment).collect(), vec![]),
    }
}

fn moment(at: i64) -> Moment {
    Moment {
        at,
        tone: Tone::Quiet,
        source: "event",
        title: format!("Number{at}"),
        text: "<i>".to_owned(),
        next: None,
        is_routine: false,
    }
}

#[test]
fn a_life_is_listed_the_newest_first_and_says_where_it_is_cut() {
    let page = shown(Some(&resource()), &Freshness::Current);
    let list = page.split_once("<ol>").unwrap().1.split_once("</ol>").unwrap().0;
    let first = "<li class=\"quiet\"><time datetime=\"1970-01-01T00:00:02Z\" title=\"1970-01-01T00:00:02Z\">98s</time>\
                 <span class=\"at\">1970-01-01 00:00:02Z</span><i></i><p><b>Number2</b> <small>event</small> &lt;i&gt;</p></li>";
    assert!(list.starts_with(first), "{list}");
    assert!(!page.contains("Only the newest"), "{page}");
    let long = Moment { text: "a".repeat(10_000), ..moment(1_000) };
    let moments = (0..200).map(moment).chain([long]).collect();
    let life = Life::new(moments, vec!["events: forbidden".to_owned()]);
    let page = shown(Some(&Resource { life, ..resource() }), &Freshness::Current);
    for told in ["Only the newest 200 are shown", "Not available: events: forbidden", "Number199<"]
    {
        assert!(page.contains(told), "{told}: {page}");
    }
    assert!(!page.contains("Number0<") && page.len() < 100_000, "{}", page.len());
}

fn verdict(tone: Tone) -> Verdict {
    let text = str::to_owned;
    Verdict {
        tone,
        what: text("No image."),
        evidence: text("manifest <unknown>"),
        remedy: text("Push it."),
        next: text("kubectl describe pod orders-1"),
        unread: vec![text("events: forbidden")],
    }
}

#[test]
fn a_verdict_has_its_evidence_and_what_to_do_and_one_line_where_all_is_well() {
    let page = shown(Some(&resource()), &Freshness::Current);
    for told in [
        "No image.",
        "manifest &lt;unknown&gt;",
        "Push it.",
        "<code>kubectl describe pod orders-1</code>",
        "<li>events: forbidden</li>",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    let well = Resource { verdict: Ok(verdict(Tone::Good)), ..resource() };
    let page = shown(Some(&well), &Freshness::Current);
    assert!(page.contains("No image.") && !page.contains("Push it."), "{page}");
}

fn shown(resource: Option<&Resource>, standing: &Freshness) -> String {
    let key = key();
    let actions = [Action::Suspend, Action::Rollback];
    let view = View { key: &key, resource, standing, actions: &actions };
    let row = resource.map(|it| &it.row);
    let mut fragments = vec![head(place(), &key, Tab::Overview, row, &actions)];
    fragments.extend(overview(place(), view));
    let page = page(place(), &key, Tab::Overview, &fragments);
    for (id, fragment) in fragments {
        assert!(page.contains(&fragment), "{id}");
        assert!(fragment.contains(&format!(" id=\"{id}\"")), "{fragment}");
    }
    page
}

#[test]
fn a_page_has_all_that_is_known() {
    let page = shown(Some(&resource()), &Freshness::Current);
    for told in [
        "data-events=\"/in/shop/sessionjob/orders/events\"",
        "<a href=\"/?namespace=shop\">shop</a><span>FlinkSessionJob</span>",
        "<h1>orders</h1>",
        "upgrade: stops and starts",
        "<dt>Upgrade mode</dt><dd>savepoint</dd>",
        "<time datetime=\"1970-01-01T00:00:40Z\"",
        "<span class=\"label\">stage=test</span><span class=\"label\">team=a</span>",
        "<li><p>JobManager</p><ul><li><p>orders-1 <span class=\"good\">Running</span></p></li></ul></li>",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    assert_eq!(page.matches("&lt;b&gt;").count(), 2_000, "the whole error");
    assert!(!page.contains("<dt>Image</dt>"), "what is not known has no name: {page}");
    for inline in [" style=", " onclick=", "<style", "<script>", "javascript:"] {
        assert!(!page.contains(inline), "{inline}: {page}");
    }
}

#[test]
fn a_part_that_is_not_known_says_why() {
    let tree = Err("pods is forbidden".to_owned());
    let page = shown(Some(&Resource { tree, ..resource() }), &Freshness::Current);
    assert!(
        page.contains("Not available: pods is forbidden") && page.contains("stops and starts"),
        "{page}"
    );
}

#[test]
fn checkpoints_are_a_table_where_there_are_any() {
    let page = shown(Some(&resource()), &Freshness::Current);
    for told in ["2 completed", "<svg", "<th scope=\"row\">8</th>", "FAILED", "expired"] {
        assert!(page.contains(told), "{told}: {page}");
    }
    let checkpoints = Some(Err("the JobManager does not answer".to_owned()));
    let silent = shown(Some(&Resource { checkpoints, ..resource() }), &Freshness::Current);
    assert!(silent.contains("Not available: the JobManager does not answer"), "{silent}");
    let without = shown(Some(&Resource { checkpoints: None, ..resource() }), &Freshness::Current);
    assert!(without.contains("<section id=\"checkpoints\"></section>"), "{without}");
}

#[test]
fn what_is_not_there_is_reported() {
    let absent = shown(None, &Freshness::Absent);
    assert!(
        absent.contains("There is no FlinkSessionJob `orders` in namespace `shop`"),
        "{absent}"
    );
    let gone = shown(Some(&resource()), &Freshness::Gone { since: "10:00:00".to_owned() });
    assert!(gone.contains("Deleted: it no longer existed at 10:00:00"), "{gone}");
    let lost = Freshness::Lost { since: "10:00:00".to_owned(), message: "refused".to_owned() };
    let lost = shown(None, &lost);
    assert!(lost.contains("<p class=\"bad lost\">Showing data from 10:00:00"), "{lost}");
}

#[test]
fn a_moment_leads_to_what_can_be_done_with_it() {
    let next = Some(Next { action: Action::Rollback, value: "3".to_owned() });
    let restore = Some(Next { action: Action::Restore, value: "s3://a/b".to_owned() });
    let moments = vec![Moment { next, ..moment(1) }, Moment { next: restore, ..moment(2) }];
    let life = Life::new(moments, vec![]);
    let page = shown(Some(&Resource { life, ..resource() }), &Freshness::Current);
    let link = "<a class=\"next\" href=\"/in/shop/sessionjob/orders/do/rollback?revision=3\">Roll back to this</a>";
    assert!(page.contains(link), "{page}");
    assert!(!page.contains("Restore from this"), "only what the person may do: {page}");
}

#[test]
fn routine_is_folded_and_downtimes_are_reported() {
    let event = |at, title: &str, text: &str, is_routine| Moment {
        title: title.to_owned(),
        text: text.to_owned(),
        is_routine,
        ..moment(at)
    };
    let created = Moment { source: "resource", ..event(60, "Created", "", false) };
    let moments = vec![
        event(50, "Suspended", "Suspending existing deployment.", false),
        created,
        event(70, "JobStatusChanged", "Job status changed from INITIALIZING to RUNNING", false),
        event(100, "Suspended", "Suspending existing deployment.", false),
        event(110, "Pulled", "", true),
        event(111, "Started", "", true),
        event(142, "JobStatusChanged", "Job status changed from CREATED to RUNNING", false),
        event(200, "JobStatusChanged", "Job status changed from RESTARTING to RUNNING", false),
    ];
    let page = shown(
        Some(&Resource { life: Life::new(moments, vec![]), ..resource() }),
        &Freshness::Current,
    );
    let told = "to RUNNING, down for 42 s</p></li><li class=\"routine\" id=\"routine-110\"><details><summary>2 events of its pods</summary><ol><li";
    assert!(page.contains(told), "{page}");
    assert!(page.contains("from RESTARTING to RUNNING</p>"), "nobody stopped it: {page}");
    assert!(page.contains("from INITIALIZING to RUNNING</p>"), "that was a namesake: {page}");
}
