use super::*;

const MIRROR: &str = "http://mirror.example/debian";

fn found(components: &[&str]) -> Mirror {
    Mirror {
        address: MIRROR.to_owned(),
        components: components.iter().map(|name| (*name).to_owned()).collect(),
    }
}

#[test]
fn mirror_is_read_from_paragraphs() {
    let text = "\
Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm
Components: main

Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/x.gpg
";
    assert_eq!(mirror_in_paragraphs(text, "bookworm"), Some(found(&["main", "contrib"])));
    assert_eq!(mirror_in_paragraphs(text, "trixie"), None);
    let switched_off = format!("{text}Enabled: no\n");
    assert_eq!(mirror_in_paragraphs(&switched_off, "bookworm"), None);
}

#[test]
fn mirror_is_read_from_lines() {
    let text = "\
# deb http://commented.example/debian bookworm main
deb cdrom:[Debian 12]/ bookworm main
deb-src http://sources.example/debian bookworm main
deb http://security.example/debian bookworm-security main
deb [arch=amd64 signed-by=/x.gpg] http://mirror.example/debian bookworm main universe
";
    assert_eq!(mirror_in_lines(text, "bookworm"), Some(found(&["main", "universe"])));
    assert_eq!(mirror_in_lines(text, "jammy"), None);
}

#[test]
fn code_name_is_read_with_and_without_quotes() {
    assert_eq!(code_name("ID=debian\nVERSION_CODENAME=bookworm\n").as_deref(), Some("bookworm"));
    assert_eq!(code_name("VERSION_CODENAME=\"jammy\"").as_deref(), Some("jammy"));
    assert_eq!(code_name("ID=arch\n"), None);
}
