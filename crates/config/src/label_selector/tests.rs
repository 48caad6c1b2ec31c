use super::*;

#[track_caller]
fn check(selector: &str, labels: &[(&str, &str)], expected: bool) {
    let labels: BTreeMap<String, &str> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
    let selector = LabelSelector::parse(selector).unwrap();
    assert_eq!(selector.matches(&labels), expected, "{selector} on {labels:?}");
}

#[test]
fn each_form_means_what_the_api_server_takes_it_for() {
    let labels = [("team", "data"), ("example.com/tier", "2")];
    for (selector, expected) in [
        ("", true),
        ("team", true),
        ("!team", false),
        ("owner", false),
        ("!owner", true),
        ("team=data", true),
        ("team == data", true),
        ("team!=data", false),
        ("owner!=data", true),
        ("team in (ops, data)", true),
        ("team notin (ops,data)", false),
        ("owner notin (ops)", true),
        ("owner in (ops)", false),
        ("example.com/tier>1,example.com/tier<3", true),
        ("example.com/tier>2", false),
        ("team>1", false),
        ("team in (data), example.com/tier", true),
        ("team=data,owner", false),
    ] {
        check(selector, &labels, expected);
    }
    check("empty=", &[("empty", "")], true);
    check("empty=", &[], false);
}

#[test]
fn what_is_no_selector_is_reported() {
    for text in ["=a", "a=b c", "a in b", "a in (b", "a near (b)", "a>b", "a,b$", "!", "a(b)"] {
        let told = LabelSelector::parse(text).unwrap_err().to_string();
        assert!(told.starts_with(&format!("invalid label selector `{text}`")), "{told}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_odd_and_what_is_shown_reads_back(text in "[ab=!,<>() in0-9]{0,24}") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            proptest::prop_assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
