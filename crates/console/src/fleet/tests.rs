use config::label_selector::LabelSelector;

use super::*;
use crate::query::{Query, UNSEEN};

fn key(kind: Kind, namespace: &str, name: &str) -> Key {
    Key { namespace: namespace.into(), name: name.into(), kind }
}

fn row(state: &str) -> Row {
    let lifecycle = (!state.is_empty()).then(|| state.into());
    Row { lifecycle, ..Row::default() }
}

fn put(fleet: &mut Fleet, namespace: &str, name: &str, row: Row) {
    fleet.put(key(Kind::Deployment, namespace, name), row);
}

fn shop() -> Fleet {
    let mut fleet = Fleet::default();
    let image = Some("registry/Flink-Jobs:2".into());
    put(&mut fleet, "shop", "orders", Row { image, parallelism: Some(2), ..row("STABLE") });
    let error = Some("no room".into());
    let labels = "team=a".into();
    put(&mut fleet, "shop", "bills", Row { error, labels, created_at: Some(5), ..row("FAILED") });
    put(&mut fleet, "lab", "trial", Row { parallelism: Some(16), created_at: Some(9), ..row("") });
    fleet.put(key(Kind::SessionJob, "shop", "orders"), row("UPGRADING"));
    fleet
}

/// Returns the names of the rows shown, and a summary of the rest.
fn shown(fleet: &Fleet, query: &str) -> String {
    let query = Query::parse(query);
    let Selection { rows, matching, total, states, page, pages, invalid_labels } =
        fleet.whole().select(&query);
    let names = rows.iter().map(|(key, _)| format!("{} ", key.name)).collect::<Vec<_>>();
    let states = states.iter().map(|(state, count)| format!(" {state} {count}"));
    let states = states.collect::<Vec<_>>().concat();
    assert_eq!(total, fleet.len());
    assert!(invalid_labels.is_none() || matching == 0);
    format!("{}of {matching}, page {}/{pages};{states}", names.concat(), page + 1)
}

#[test]
fn all_are_shown_by_namespace_and_name() {
    let fleet = shop();
    assert_eq!(
        shown(&fleet, ""),
        "trial bills orders orders of 4, page 1/1; FAILED 1 UPGRADING 1 none 1 STABLE 1"
    );
    assert_eq!(fleet.whole().namespaces(9), ["lab", "shop"]);
    assert_eq!(fleet.whole().namespaces(1), ["lab"]);
}

#[test]
fn filters_add_up_and_a_state_does_not_hide_the_others() {
    let fleet = shop();
    let bills = "bills of 1, page 1/1; FAILED 1";
    assert_eq!(shown(&fleet, "q=NO+ROOM"), bills);
    assert_eq!(shown(&fleet, "labels=team%3Da"), bills);
    assert_eq!(shown(&fleet, "q=flink-jobs"), "orders of 1, page 1/1; STABLE 1");
    assert_eq!(shown(&fleet, "q=shop&namespace=lab"), "of 0, page 1/1;");
    assert_eq!(
        shown(&fleet, "namespace=shop&state=FAILED&state=STABLE"),
        "bills orders of 2, page 1/1; FAILED 1 UPGRADING 1 STABLE 1"
    );
    assert_eq!(
        shown(&fleet, "state=none"),
        "trial of 1, page 1/1; FAILED 1 UPGRADING 1 none 1 STABLE 1"
    );
    assert_eq!(shown(&fleet, "q=trial&state=STABLE"), "of 0, page 1/1; none 1 STABLE 0");
    assert_eq!(shown(&fleet, "labels=%3D"), "of 0, page 1/1;", "what means nothing meets nothing");
}

#[test]
fn rows_are_in_the_order_that_was_asked_for() {
    let fleet = shop();
    let names = |query: &str| shown(&fleet, query).split(" of").next().unwrap().to_owned();
    assert_eq!(names("sort=state"), "bills orders trial orders");
    assert_eq!(names("sort=parallelism"), "trial orders bills orders");
    assert_eq!(names("sort=age"), "trial bills orders orders");
    assert_eq!(names("sort=error"), "bills trial orders orders");
    assert_eq!(names("sort=name&order=desc"), "trial orders orders bills");
}

#[test]
fn pages_end_with_the_rows() {
    let mut fleet = Fleet::default();
    for number in 0..120 {
        put(&mut fleet, "n", &format!("{number:03}"), row("STABLE"));
    }
    let page = |query: &str| {
        let query = Query::parse(query);
        let it = fleet.whole().select(&query);
        (it.rows[0].0.name.to_string(), it.rows.len(), it.page, it.pages)
    };
    assert_eq!(page("page=2"), ("050".to_owned(), 50, 1, 3));
    assert_eq!(page("page=3"), ("100".to_owned(), 20, 2, 3));
    assert_eq!(page("page=99"), ("100".to_owned(), 20, 2, 3));
    assert_eq!(page("size=100&page=2"), ("100".to_owned(), 20, 1, 2));
}

#[test]
fn a_list_that_comes_anew_removes_what_it_does_not_show() {
    let mut fleet = shop();
    fleet.begin(Kind::Deployment);
    put(&mut fleet, "shop", "orders", row("STABLE"));
    assert_eq!(fleet.len(), 4, "nothing goes before the list has come to its end");
    fleet.complete(Kind::Deployment);
    assert_eq!(fleet.len(), 2, "the session job is of another list");
    fleet.remove(&key(Kind::SessionJob, "shop", "orders"));
    assert_eq!(shown(&fleet, ""), "orders of 1, page 1/1; STABLE 1");
}

#[test]
fn a_lost_watch_is_reported_with_its_first_time_until_it_is_back() {
    let mut fleet = Fleet::default();
    let source = |fleet: &Fleet| fleet.sources().next().unwrap().1.clone();
    fleet.begin(Kind::Deployment);
    assert_eq!(source(&fleet), Source::Loading);
    for since in ["10:00:00", "10:00:09"] {
        fleet.lose(Kind::Deployment, since.to_owned(), "refused".to_owned());
    }
    let lost = Source::Lost { since: "10:00:00".to_owned(), message: "refused".to_owned() };
    assert_eq!(source(&fleet), lost);
    fleet.regain(Kind::Deployment);
    assert_eq!(source(&fleet), Source::Loading, "the list was not told to its end");
    fleet.complete(Kind::Deployment);
    fleet.lose(Kind::Deployment, String::new(), String::new());
    fleet.regain(Kind::Deployment);
    assert_eq!(source(&fleet), Source::Current);
}

#[test]
fn rows_and_their_texts_are_bounded() {
    let mut fleet = Fleet::default();
    let error = Some("ä".repeat(2 * ERROR_MAX).into());
    put(&mut fleet, "n", "a", Row { error, ..row("FAILED") });
    for number in 0..ROWS_MAX {
        put(&mut fleet, "n", &number.to_string(), row("STABLE"));
    }
    assert_eq!(fleet.len(), ROWS_MAX);
    assert!(fleet.is_cut());
    let query = Query::parse("sort=error");
    let selection = fleet.whole().select(&query);
    assert_eq!(selection.rows[0].1.error.as_ref().unwrap().chars().count(), ERROR_MAX + 1);
    assert_eq!(&*selection.rows[0].0.name, "a", "what is known stays");
}

fn is_met(selector: &str) -> bool {
    let row = Row { labels: "app/x=1\nstage=test\nteam=a".into(), ..Row::default() };
    LabelSelector::parse(selector).unwrap().is_met_by(|name| row.label(name))
}

#[test]
fn labels_are_chosen_as_by_kubectl() {
    for met in [
        "",
        "team=a",
        "team==a, stage=test",
        "team!=b",
        "none!=b",
        "app/x",
        "!none",
        "team in (b, a),stage",
        "team notin (b,c)",
        "none notin (b)",
    ] {
        assert!(is_met(met), "{met}");
    }
    for unmet in ["team=b", "tea=ma", "team=a,stage=prod", "!team", "none", "team!=a"] {
        assert!(!is_met(unmet), "{unmet}");
    }
    assert!(!is_met("team notin (a)") && !is_met("none in (a)"));
}

#[test]
fn what_means_nothing_is_named() {
    for text in ["=a", "a b", "team=a=b", "team in a", "team in (a", "team on (a)", "!"] {
        let error = LabelSelector::parse(&format!("x=y,{text}")).unwrap_err();
        assert_eq!(error.part(), text);
    }
}

fn source_of(fleet: &Fleet) -> Source {
    fleet.sources().next().unwrap().1.clone()
}

#[test]
fn a_list_of_one_namespace_leaves_the_others_alone() {
    let feed = |namespace: &str| Feed { kind: Kind::Deployment, namespace: Some(namespace.into()) };
    let mut fleet = Fleet::from_feeds([feed("lab"), feed("shop")]);
    for (namespace, name) in [("lab", "trial"), ("shop", "bills"), ("shop", "orders")] {
        fleet.begin(feed(namespace));
        put(&mut fleet, namespace, name, row("STABLE"));
    }
    assert_eq!(source_of(&fleet), Source::Loading);
    fleet.complete(feed("lab"));
    assert!(
        source_of(&fleet) == Source::Loading && !fleet.is_listed(),
        "the other is not listed yet"
    );
    fleet.complete(feed("shop"));
    assert!(source_of(&fleet) == Source::Current && fleet.is_listed());
    assert_eq!(shown(&fleet, ""), "trial orders of 2, page 1/1; STABLE 2");
    fleet.close(feed("lab"), "forbidden".to_owned());
    assert_eq!(source_of(&fleet), Source::Closed { message: "forbidden".to_owned() });
    fleet.lose(feed("shop"), "10:00:00".to_owned(), "refused".to_owned());
    assert!(matches!(source_of(&fleet), Source::Lost { .. }));
}

#[test]
fn who_may_not_see_a_row_sees_no_trace_of_it() {
    let fleet = shop();
    let mut rights = Rights::default();
    rights.answer(Kind::Deployment, "lab".into(), true);
    rights.answer(Kind::Deployment, "shop".into(), false);
    let view = fleet.seen_by(&rights);
    let query = Query::default();
    let Selection { rows, total, states, matching, .. } = view.select(&query);
    assert_eq!((rows.len(), total, matching, states), (1, 1, 1, vec![(UNSEEN, 1)]));
    assert_eq!(view.namespaces(9), ["lab"]);
    let orders = key(Kind::Deployment, "shop", "orders");
    assert!(view.row(&orders).is_none() && view.version(&orders).is_none());
    assert!(fleet.whole().row(&orders).is_some() && fleet.whole().version(&orders).is_some());
}
