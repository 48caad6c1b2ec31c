use expect_test::expect;

use super::*;

#[test]
fn version_of_go_is_read() {
    assert_eq!(go_minor("go version go1.26.8 linux/amd64"), Some(26));
    assert_eq!(go_minor("go version go1.19 linux/amd64"), Some(19));
    assert_eq!(go_minor("go version go1.27rc1 linux/amd64"), Some(27));
    assert_eq!(go_minor("gccgo (Debian 12.2.0-14) 12.2.0"), None);
}

#[test]
fn all_that_is_missing_is_reported_at_once_with_one_command() {
    let lack = Lack {
        packages: [("containerd", "containerd"), ("containerd", "ctr"), ("runc", "runc")]
            .map(|(package, wanted)| (package.to_owned(), wanted.to_owned()))
            .to_vec(),
        go: true,
        ..Lack::default()
    };
    let error = Error::Missing(explained(&lack));
    expect![[r#"this machine lacks what a sandbox needs: containerd, ctr, runc, Go 1.21 or later, which builds the control plane once"#]].assert_eq(&error.to_string());
    assert_eq!(error.hints().len(), 2);
    assert!(error.hints()[0].contains("--no-install-recommends containerd runc;"));
}
