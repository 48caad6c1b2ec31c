use expect_test::expect;

use super::*;
use crate::logs::Pod;
use crate::resource::{Freshness, Ink, Span};
use crate::row::Kind;
use crate::row::Tone;

fn key() -> Key {
    Key { namespace: "shop".into(), name: "orders".into(), kind: Kind::Deployment }
}

fn pods(names: &[&str]) -> Pods {
    let pod = |name: &&str| Pod {
        name: (*name).to_owned(),
        label: vec![Span { ink: Ink::Plain, text: format!("{name} Running") }],
    };
    Pods {
        cluster: "orders".to_owned(),
        all: names.iter().map(pod).collect(),
        read: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Pods::default()
    }
}

fn shown(choice: &Choice, pods: &Pods) -> String {
    let standing = &Freshness::Current;
    let view = View { key: &key(), resource: None, standing, actions: &[] };
    let parts = parts(view, choice, Some(&Ok(pods.clone())));
    for (id, part) in &parts {
        assert!(part.contains(&format!(" id=\"{id}\"")), "{part}");
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

#[test]
fn a_line_has_its_level_and_its_pod_where_there_are_several() {
    let line = |at, tone, text: &str| Line::new("orders-1".into(), at, tone, text.to_owned());
    let read = [
        line(Some(7), Tone::Bad, "<b> & \"so\""),
        line(Some(8), Tone::Moving, "careful"),
        line(None, Tone::Bad, "its log cannot be read"),
    ];
    expect![[r#"<p class="bad" data-pod="orders-1" data-at="00000000000000000007"><b title="orders-1">1</b> &lt;b&gt; &amp; "so"</p><p class="moving" data-pod="orders-1" data-at="00000000000000000008"><b title="orders-1">1</b> careful</p><p class="gap bad" data-pod="orders-1"><b title="orders-1">1</b> its log cannot be read</p>"#]]
    .assert_eq(&lines(&pods(&["orders-1", "orders-2"]), 0, &read).replace("&quot;", "\""));
    let alone = lines(&pods(&["orders-1"]), 1_234, &read[1..2]);
    let gap =
        "<p class=\"gap\">1,234 lines skipped here: they arrived faster than 1,000 per second</p>";
    assert!(alone.starts_with(gap) && alone.ends_with(">careful</p>"), "{alone}");
    assert_eq!(short("orders", "orders-taskmanager-1-1"), "taskmanager-1-1");
    assert_eq!((short("orders", "orders"), short("orders", "others-1")), ("orders", "others-1"));
}

#[test]
fn what_is_chosen_stays_in_every_address() {
    let choice = Choice::parse("pod=orders-1&role=tm&level=warn&q=%3Cx%3E");
    let page = shown(&choice, &pods(&["orders-1", "orders-2"]));
    for told in [
        "href=\"/in/shop/deployment/orders/logs?role=tm&amp;level=warn&amp;q=%3Cx%3E\">All<",
        "logs?pod=orders-1&amp;role=tm&amp;level=warn&amp;q=%3Cx%3E\" aria-current=\"true\">orders-1 Running",
        "logs?pod=orders-2&amp;role=tm&amp;level=warn&amp;q=%3Cx%3E\">orders-2 Running",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    let (_, form) = log(&key(), &choice, &pods(&[]), &[]);
    for told in [
        "<form action=\"/in/shop/deployment/orders/logs\">",
        "name=\"pod\" value=\"orders-1\"",
        "<option value=\"tm\" selected>TaskManagers",
        "<option value=\"warn\" selected>WARN and above",
        "value=\"&lt;x&gt;\"",
        "<code>kubectl flink logs orders -n shop --role tm --level warn --tail -1</code>",
    ] {
        assert!(form.contains(told), "{told}: {form}");
    }
}

#[test]
fn what_is_not_read_is_said() {
    let page = shown(&Choice::parse("pod=gone"), &pods(&["orders-1"]));
    assert!(page.contains("Pod `gone` no longer exists"), "{page}");
    let many = Pods { more: 3, unread: 1_040, ..pods(&["orders-1"]) };
    let page = shown(&Choice::default(), &many);
    for told in ["3 more are not listed", "Showing the logs of 1 pods. 1,040 more are left out"] {
        assert!(page.contains(told), "{told}: {page}");
    }
    let nothing = Nothing {
        phase: "UPGRADING · JobManager DEPLOYING".to_owned(),
        why: "No image.".to_owned(),
        evidence: "manifest <unknown>".to_owned(),
    };
    let page = shown(&Choice::default(), &Pods { nothing: Some(nothing), ..pods(&[]) });
    for told in
        ["`orders` is UPGRADING · JobManager DEPLOYING", "No image.", "manifest &lt;unknown&gt;"]
    {
        assert!(page.contains(told), "{told}: {page}");
    }
}
