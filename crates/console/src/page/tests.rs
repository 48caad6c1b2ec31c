use expect_test::expect;

use super::*;
use crate::fleet::Fleet;
use crate::rights::Rights;
use crate::row::Kind;

/// For the tests of all pages.
pub(super) fn place() -> Place<'static> {
    let age = |seconds| format!("{seconds}s");
    Place {
        cluster: "lab",
        host: "127.0.0.1",
        namespace: None,
        can_deploy: false,
        now: 100,
        age,
        visitor: None,
    }
}

fn one(row: Row) -> Fleet {
    let mut fleet = Fleet::default();
    let key = Key { namespace: "shop".into(), name: "orders".into(), kind: Kind::BlueGreen };
    fleet.put(key, row);
    fleet
}

fn part(fleet: &Fleet, query: &str, wanted: &str) -> String {
    let fragments = fragments(place(), fleet.whole(), &Query::parse(query));
    fragments.into_iter().find(|(id, _)| *id == wanted).unwrap().1
}

#[test]
fn a_row_has_what_is_known_and_no_more() {
    let row = Row {
        lifecycle: Some("ACTIVE_BLUE".into()),
        job_state: Some("FAILING".into()),
        image: Some("registry:5000/team/jobs:2@sha256:0".into()),
        parallelism: Some(4),
        created_at: Some(40),
        error: Some("<b> & \"more\"".into()),
        ..Row::default()
    };
    let table = part(&one(row), "q=orders", "fleet");
    let line = table.split_once("<tbody>").unwrap().1.replace("<t", "\n<t");
    expect![[r#"

        <tr id="bluegreen/shop/orders">
        <td class="namespace"><a href="/?q=orders&amp;namespace=shop">shop</a></td>
        <th class="name" scope="row"><a href="/in/shop/bluegreen/orders">orders</a> <small>bluegreen</small></th>
        <td class="state"><span class="s good"><i></i>ACTIVE_BLUE</span></td>
        <td class="job"><span class="s bad"><i></i>FAILING</span></td>
        <td class="version"></td>
        <td class="image"><span title="registry:5000/team/jobs:2@sha256:0">jobs:2</span></td>
        <td class="parallelism">4</td>
        <td class="snapshot"></td>
        <td class="upgrade"></td>
        <td class="error"><details><summary>&lt;b&gt; &amp; &quot;more&quot;</summary></details></td>
        <td class="age">
        <time datetime="1970-01-01T00:00:40Z" title="1970-01-01T00:00:40Z">60s</time></td></tr></tbody></table>"#]]
    .assert_eq(&line);
}

#[test]
fn a_page_is_of_its_fragments() {
    let mut known = one(Row::default());
    known.lose(Kind::Deployment, "10:00:00".to_owned(), "refused".to_owned());
    known.close(Kind::SessionJob, "not installed".to_owned());
    let query = Query::parse("labels=%3Da&state=STABLE&sort=age");
    let page = fleet(place(), known.whole(), &query);
    for (id, fragment) in fragments(place(), known.whole(), &query) {
        assert!(page.contains(&fragment), "{id}");
        assert!(fragment.contains(&format!(" id=\"{id}\"")), "{fragment}");
    }
    for told in [
        "`=a` is not a valid label selector",
        "Showing FlinkDeployments from 10:00:00, retrying the API server: refused",
        "FlinkSessionJobs are not shown: not installed",
        "Loading FlinkBlueGreenDeployments",
        "Nothing matches these filters",
        "<option value=\"age\" selected>By age</option>",
        "<option value=\"version\">By Flink version</option>",
        "<option value=\"snapshot\">By last snapshot</option>",
        "<input type=\"hidden\" name=\"state\" value=\"STABLE\">",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
}

#[test]
fn one_note_says_that_the_api_server_does_not_answer() {
    let mut known = one(Row::default());
    known.close(Kind::SessionJob, "not installed".to_owned());
    for (kind, since) in [(Kind::Deployment, "10:00:00"), (Kind::BlueGreen, "10:00:01")] {
        known.lose(kind, since.to_owned(), "refused".to_owned());
    }
    expect![[r#"<div id="notes" role="status"><p class="bad lost">Showing data from 10:00:00, retrying the API server: refused</p><p>FlinkSessionJobs are not shown: not installed</p></div>"#]]
        .assert_eq(&part(&known, "", "notes"));
}

/// A strict policy would refuse both.
#[test]
fn there_is_no_script_and_no_style_in_a_page() {
    let pages = [
        fleet(place(), one(Row::default()).whole(), &Query::default()),
        refusal(Refusal::Token),
        forward("/?q=\"><script>"),
    ];
    for page in pages {
        for inline in [" style=", " onclick=", "<style", "<script>", "javascript:"] {
            assert!(!page.contains(inline), "{inline}: {page}");
        }
    }
}

#[test]
fn a_namespace_alone_is_not_shown_in_each_row() {
    let place = Place { namespace: Some("shop"), ..place() };
    let page = fleet(place, one(Row::default()).whole(), &Query::default());
    assert!(
        !page.contains("class=\"namespace\"") && !page.contains("name=\"namespace\""),
        "{page}"
    );
    assert!(page.contains("<span>shop</span>"), "{page}");
}

#[test]
fn the_largest_page_is_light() {
    let mut many = Fleet::default();
    for number in 0..10_000 {
        let name = format!("a-job-with-a-longer-name-{number}").into();
        let text = || Some("a-text-of-a-common-length".into());
        let row = Row {
            lifecycle: Some("STABLE".into()),
            job_state: Some("RUNNING".into()),
            version: Some("v1_20".into()),
            image: text(),
            upgrade: text(),
            error: Some("e".repeat(200).into()),
            created_at: Some(0),
            snapshot_at: Some(0),
            ..Row::default()
        };
        let namespace = format!("namespace-{}", number % 1000).into();
        many.put(Key { namespace, name, kind: Kind::Deployment }, row);
    }
    let page = fleet(place(), many.whole(), &Query::parse("size=100"));
    let bytes = page.len() + STYLE.text.len() + SCRIPT.text.len() + ICON.text.len();
    assert!(bytes < 150_000, "{bytes}");
}

#[test]
fn thousands_are_parted() {
    let all = [0, 999, 1_000, 10_000, 1_234_567].map(number);
    assert_eq!(all, ["0", "999", "1,000", "10,000", "1,234,567"]);
}

#[test]
fn kinds_that_somebody_may_not_list_are_named_once_they_are_known() {
    let mut known = one(Row::default());
    known.complete(Kind::SessionJob);
    let mut rights = Rights::default();
    rights.answer(Kind::BlueGreen, "shop".into(), true);
    rights.answer(Kind::SessionJob, "shop".into(), false);
    let fragments = fragments(place(), known.seen_by(&rights), &Query::default());
    let notes = &fragments.iter().find(|(id, _)| *id == "notes").unwrap().1;
    expect![[r#"<div id="notes" role="status"><p>Loading FlinkDeployments</p><p>FlinkSessionJobs are not shown: there are none in any namespace where you may list them</p><p>Loading FlinkBlueGreenDeployments</p></div>"#]]
        .assert_eq(notes);
}

#[test]
fn a_visitor_is_named_and_sees_whose_namespaces_these_are() {
    let visitor = Visitor { name: "jane", may_sign_out: true, is_everywhere: false };
    let place = Place { visitor: Some(visitor), ..place() };
    let known = one(Row::default());
    let page = fleet(place, known.whole(), &Query::default());
    let header = page.split_once("<header>").unwrap().1.split_once("</header>").unwrap().0;
    assert!(header.contains("your namespaces") && header.contains("jane"), "{header}");
    assert!(header.contains("action=\"/sign-out\" method=\"post\""), "{header}");
}

#[test]
fn figures_are_shown_where_they_are_asked_for() {
    let mut known = one(Row { image: Some("a:1".into()), ..Row::default() });
    let key = known.whole().select(&Query::default()).rows[0].0.clone();
    let figures = Figures { lag: "1.2M".into(), checkpoint: "340 ms".into(), ..Figures::default() };
    known.measure(&key, Some(figures));
    let with = part(&known, "figures=on", "fleet");
    for told in [
        "<td class=\"figure\" data-title=\"Lag\">1.2M</td>",
        "<td class=\"figure\" data-title=\"Checkpoint\">340 ms</td>",
        "<td class=\"figure\" data-title=\"Busy\"></td>",
        "<th class=\"figure\" scope=\"col\">Backpressure</th>",
    ] {
        assert!(with.contains(told), "{told}: {with}");
    }
    assert!(!with.contains("a:1"), "it makes room: {with}");
    let without = part(&known, "", "fleet");
    assert!(without.contains("a:1") && !without.contains("1.2M"), "{without}");
    // A watch reports the object again.
    known.put(key.clone(), Row::default());
    assert!(part(&known, "figures=on", "fleet").contains("1.2M"));
    known.measure(&key, None);
    assert!(!part(&known, "figures=on", "fleet").contains("1.2M"));
}
