use std::fs;

use rcgen::{CertificateParams, KeyPair};

use super::*;

/// A certificate and its key.
fn made() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["operator".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn put(folder: &Path, (certificate, key): &(String, String)) {
    fs::write(folder.join("tls.crt"), certificate).unwrap();
    fs::write(folder.join("tls.key"), key).unwrap();
}

fn of(folder: &Path) -> Result<Secure, String> {
    let options = Options { tls_folder: Some(folder.to_owned()), ..Options::default() };
    Secure::of(&options, HeaderMap::new()).map_err(|error| error.to_string())
}

#[test]
fn host_names_are_ignored_only_of_authorities_that_are_named() {
    let options = Options { ignores_host_name: true, ..Options::default() };
    let described = Secure::of(&options, HeaderMap::new()).err().unwrap().to_string();
    assert!(described.contains("no authority is set"), "{described}");
}

/// The certificate of the client, once it is time to check again.
fn used(secure: &Secure) -> String {
    if let Some(stored) = secure.kept.lock().unwrap().as_mut() {
        stored.looked = stored.looked.checked_sub(POLL).unwrap();
    }
    assert!(secure.client().is_ok());
    let stored = secure.kept.lock().unwrap();
    let files = stored.as_ref().unwrap().files.clone().unwrap();
    String::from_utf8(files.certificate).unwrap()
}

#[test]
fn what_cannot_be_used_is_reported_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let described = |folder: &Path| of(folder).err().unwrap();
    assert!(
        described(folder.path()).contains("contains none of `ca.crt`, `tls.crt` and `tls.key`")
    );
    let (certificate, key) = made();
    fs::write(folder.path().join("tls.crt"), &certificate).unwrap();
    assert_eq!(described(folder.path()), "there is `tls.crt` without `tls.key`");
    put(folder.path(), &(key, "nothing".to_owned()));
    let described = described(folder.path());
    assert!(
        described.starts_with("`tls.crt` with `tls.key`: ") && !described.contains("BEGIN"),
        "{described}"
    );
    put(folder.path(), &made());
    assert!(of(folder.path()).is_ok());
}

#[test]
fn a_renewed_certificate_counts_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (made(), made());
    put(folder.path(), &first);
    let secure = of(folder.path()).unwrap();
    assert_eq!(used(&secure), first.0);
    put(folder.path(), &second);
    assert!(secure.client().is_ok());
    let stored = |secure: &Secure| secure.kept.lock().unwrap().as_ref().unwrap().files.clone();
    assert_eq!(stored(&secure).unwrap().certificate, first.0.as_bytes(), "not yet looked at");
    assert_eq!(used(&secure), second.0);
}

#[test]
fn what_cannot_be_used_replaces_nothing_that_can() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), &made());
    let secure = of(folder.path()).unwrap();
    assert!(secure.client().is_ok());
    put(folder.path(), &("nothing".to_owned(), "nothing".to_owned()));
    assert_eq!(used(&secure), "nothing", "it was looked at");
    assert!(secure.client().is_ok(), "and the former one is used");
}
