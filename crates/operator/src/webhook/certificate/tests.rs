use super::*;

const NAME: &str = "webhook.flink-operator.svc";

fn names() -> Vec<String> {
    vec![NAME.to_owned(), "127.0.0.1".to_owned()]
}

fn none() -> Pair {
    Pair { certificate: vec![], key: vec![], authority: vec![] }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-05-04T12:00:00Z")
}

#[track_caller]
fn refused(pair: &Pair, names: &[String], now: Timestamp) -> String {
    check(pair, names, now).unwrap_err().to_string()
}

#[test]
fn one_of_its_own_making_is_sound_for_a_year() {
    let pair = make(&names(), now(), &none()).unwrap();
    let sound = check(&pair, &names(), now()).unwrap();
    assert_eq!(sound.begins, at("2026-05-03T00:00:00Z"));
    assert_eq!(sound.ends, at("2027-05-04T00:00:00Z"));
    assert_eq!(
        refused(&pair, &names(), at("2027-05-05T00:00:00Z")),
        "it expired at 2027-05-04T00:00:00Z"
    );
    assert_eq!(
        refused(&pair, &names(), at("2026-05-01T00:00:00Z")),
        "it is not valid before 2026-05-03T00:00:00Z"
    );
}

#[test]
fn what_the_api_server_would_have_against_it_is_reported() {
    let pair = make(&names(), now(), &none()).unwrap();
    let other = make(&names(), now(), &none()).unwrap();
    let another_name = vec!["hook.other.svc".to_owned()];
    assert_eq!(
        refused(&pair, &another_name, now()),
        "it is not for `hook.other.svc`, the name that the API server calls"
    );
    let crossed = Pair { key: other.key.clone(), ..pair.clone() };
    assert_eq!(
        refused(&crossed, &names(), now()),
        "its key, `tls.key`, belongs to another certificate"
    );
    let untrusted = Pair { authority: other.authority, ..pair.clone() };
    assert_eq!(
        refused(&untrusted, &names(), now()),
        "it is not signed by the authority in `ca.crt`"
    );
    assert_eq!(refused(&none(), &names(), now()), "there is no certificate in PEM in `tls.crt`");
    let keyless = Pair { key: b"a key".to_vec(), ..pair.clone() };
    assert_eq!(refused(&keyless, &names(), now()), "there is no private key in PEM in `tls.key`");
    // Not every issuer provides the authority.
    let alone = Pair { authority: vec![], ..pair };
    assert!(check(&alone, &names(), now()).is_ok());
}

#[test]
fn a_renewed_one_leaves_the_former_trusted_and_none_before_it() {
    let first = make(&names(), now(), &none()).unwrap();
    let second = make(&names(), now(), &first).unwrap();
    let third = make(&names(), now(), &second).unwrap();
    let trusting = |pair: &Pair, authority: &Pair| {
        let pair = Pair { authority: authority.authority.clone(), ..pair.clone() };
        check(&pair, &names(), now()).is_ok()
    };
    assert!(trusting(&second, &second) && trusting(&first, &second));
    assert!(trusting(&third, &third) && trusting(&second, &third) && !trusting(&first, &third));
    let garbage = Pair { authority: b"-----BEGIN CERTIFICATE-----".to_vec(), ..none() };
    let text = make(&names(), now(), &garbage).unwrap().authority;
    assert_eq!(certificates(&text).len(), 1);
}

#[test]
fn nobody_sees_the_key() {
    let pair = make(&names(), now(), &none()).unwrap();
    assert!(!format!("{pair:?}").contains("PRIVATE"));
}
