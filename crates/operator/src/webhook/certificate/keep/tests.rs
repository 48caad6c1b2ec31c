use super::*;

fn names() -> Vec<String> {
    vec!["webhook.flink-operator.svc".to_owned()]
}

fn none() -> Pair {
    Pair { certificate: vec![], key: vec![], authority: vec![] }
}

fn now() -> Timestamp {
    "2026-05-04T12:00:00Z".parse().unwrap()
}

fn days_later(days: u64) -> Timestamp {
    now() + Duration::from_hours(days * 24)
}

fn put(folder: &Path, pair: &Pair) {
    std::fs::write(folder.join("tls.crt"), &pair.certificate).unwrap();
    std::fs::write(folder.join("tls.key"), &pair.key).unwrap();
}

/// A client that must not be used.
fn client() -> Client {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("there is no cluster"))
    });
    Client::new(service, "default")
}

#[test]
fn an_own_certificate_is_renewed_at_two_thirds_of_its_life() {
    let pair = make(&names(), now(), &none()).unwrap();
    assert_eq!(renewal(&pair, &names(), now()), None);
    assert_eq!(renewal(&pair, &names(), days_later(240)), None);
    let late = renewal(&pair, &names(), days_later(245)).unwrap();
    assert_eq!(late, "the existing one expires at 2027-05-04T00:00:00Z");
    let moved = renewal(&pair, &["hook.other.svc".to_owned()], now()).unwrap();
    assert!(moved.contains("it is not for `hook.other.svc`"), "{moved}");
    assert_eq!(renewal(&none(), &names(), now()).unwrap(), "there is none yet");
    assert!(renewal(&Pair { authority: vec![], ..pair }, &names(), now()).is_some());
}

#[tokio::test]
async fn a_folder_is_read_again_and_a_bad_certificate_replaces_no_good_one() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::Folder(folder.path().to_owned());
    let (mut keeper, tls) = Keeper::new(client(), source, names());
    let missing = keeper.inspect(now()).await.unwrap_err().to_string();
    assert!(missing.contains("tls.crt") && missing.contains("cannot be read"), "{missing}");
    assert!(tls.borrow().is_none());

    let first = make(&names(), now(), &none()).unwrap();
    put(folder.path(), &first);
    keeper.inspect(now()).await.unwrap();
    let in_use = tls.borrow().clone().unwrap();
    keeper.inspect(now()).await.unwrap();
    assert!(Arc::ptr_eq(&in_use, tls.borrow().as_ref().unwrap()), "nothing changed");

    let second = make(&names(), now(), &none()).unwrap();
    put(folder.path(), &Pair { key: first.key.clone(), ..second.clone() });
    let crossed = keeper.inspect(now()).await.unwrap_err().to_string();
    assert!(crossed.contains("belongs to another certificate"), "{crossed}");
    assert!(Arc::ptr_eq(&in_use, tls.borrow().as_ref().unwrap()), "the good one stays");

    put(folder.path(), &second);
    keeper.inspect(now()).await.unwrap();
    assert!(!Arc::ptr_eq(&in_use, tls.borrow().as_ref().unwrap()));
    let ended = keeper.inspect(days_later(400)).await.unwrap_err().to_string();
    assert!(ended.contains("it expired at"), "{ended}");
}

#[tokio::test]
async fn a_certificate_that_nobody_renews_is_reported_before_its_end() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &make(&names(), now(), &none()).unwrap());
    let source = Source::Folder(folder.path().to_owned());
    let (mut keeper, _tls) = Keeper::new(client(), source, names());
    keeper.inspect(now()).await.unwrap();
    keeper.report_if_late(days_later(300));
    assert!(keeper.reported.is_none());
    keeper.report_if_late(days_later(310));
    let (reported, _) = keeper.reported.as_ref().unwrap();
    assert!(reported.contains("expires at 2027-05-04T00:00:00Z"), "{reported}");
}
