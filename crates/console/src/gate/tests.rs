use super::*;

const HOST: &str = "flink.example.com";

fn asked(change: impl FnOnce(&mut Asked<'static>)) -> Asked<'static> {
    let request = guard::Asked { path: "/", host: Some(HOST), ..guard::Asked::default() };
    let mut asked = Asked { method: "GET", request, ..Asked::default() };
    change(&mut asked);
    asked
}

fn judged(change: impl FnOnce(&mut Asked<'static>)) -> Verdict<'static> {
    asked(change).judge()
}

#[test]
fn a_request_is_held_against_the_host_that_it_names() {
    for host in [HOST, "localhost:8880", "127.0.0.1:1", "[::1]:8880", "flink-dashboard.ops.svc"] {
        assert_eq!(judged(|it| it.request.host = Some(host)), Verdict::Ask(None), "{host}");
    }
    for host in [None, Some(""), Some("a/b"), Some("a b"), Some("a\"b")] {
        let verdict = judged(|it| it.request.host = host);
        assert_eq!(verdict, Verdict::Refuse(Refusal::Host), "{host:?}");
    }
}

#[test]
fn pages_of_others_are_refused_and_their_links_lead_on() {
    let refused = Verdict::Refuse(Refusal::Site);
    for (origin, verdict) in [
        ("https://flink.example.com", Verdict::Ask(None)),
        ("http://FLINK.example.com", Verdict::Ask(None)),
        ("https://flink.example.com:8443", refused),
        ("https://evil.example.com", refused),
        ("https://flink.example.com.evil.example", refused),
        ("flink.example.com", refused),
        ("null", refused),
    ] {
        assert_eq!(judged(|it| it.request.origin = Some(origin)), verdict, "{origin}");
        let posted = judged(|it| {
            (it.method, it.request.path, it.request.origin) = ("POST", SIGN_IN, Some(origin));
        });
        assert_eq!(posted == Verdict::SignIn, verdict != refused, "{origin}");
    }
    for (method, site, mode, verdict) in [
        ("GET", "none", "navigate", Verdict::Ask(None)),
        ("GET", "same-origin", "cors", Verdict::Ask(None)),
        ("GET", "cross-site", "navigate", Verdict::Forward),
        ("GET", "same-site", "navigate", Verdict::Forward),
        ("GET", "cross-site", "no-cors", refused),
        ("GET", "same-site", "cors", refused),
        ("POST", "cross-site", "navigate", refused),
        ("POST", "same-site", "navigate", refused),
    ] {
        let verdict_of = judged(|it| {
            it.method = method;
            (it.request.fetch_site, it.request.fetch_mode) = (Some(site), Some(mode));
        });
        assert_eq!(verdict_of, verdict, "{method} {site} {mode}");
    }
}

#[test]
fn nothing_is_posted_but_to_sign_in_and_out() {
    for (method, path, verdict) in [
        ("POST", SIGN_IN, Verdict::SignIn),
        ("POST", SIGN_OUT, Verdict::SignOut(None)),
        ("HEAD", "/", Verdict::Ask(None)),
        ("GET", SIGN_IN, Verdict::Ask(None)),
        ("GET", "/assets/0/console.css", Verdict::Asset),
        ("POST", "/", Verdict::Refuse(Refusal::Method)),
        ("POST", "/assets/0/console.css", Verdict::Refuse(Refusal::Method)),
        ("POST", "/in/shop/deployment/orders/restart", Verdict::Refuse(Refusal::Method)),
        ("PUT", SIGN_IN, Verdict::Refuse(Refusal::Method)),
        ("DELETE", "/", Verdict::Refuse(Refusal::Method)),
        ("OPTIONS", "/", Verdict::Refuse(Refusal::Method)),
    ] {
        let judged = judged(|it| (it.method, it.request.path) = (method, path));
        assert_eq!(judged, verdict, "{method} {path}");
    }
}

#[test]
fn who_somebody_is_follows_from_a_token_or_from_the_cookie_of_this_host() {
    let cookie = "a=b; kubectl-flink-console=one; kubectl-flink-console-8880=two; \
                  __Host-kubectl-flink-console=three";
    let token = |token| Verdict::Ask(Some(Credential::Token(token)));
    let session = |id| Verdict::Ask(Some(Credential::Session(id)));
    let with = |host, proto, authorization| {
        judged(move |it| {
            (it.request.host, it.request.cookie) = (Some(host), Some(cookie));
            (it.forwarded_proto, it.authorization) = (proto, authorization);
        })
    };
    assert_eq!(with(HOST, None, None), session("one"));
    assert_eq!(with("localhost:8880", None, None), session("two"));
    assert_eq!(with("localhost:8881", None, None), Verdict::Ask(None));
    assert_eq!(with(HOST, Some("https"), None), session("three"));
    assert_eq!(with(HOST, Some("http"), None), session("one"));
    assert_eq!(with(HOST, None, Some("Bearer abc")), token("abc"));
    assert_eq!(with(HOST, None, Some("bearer  abc")), token("abc"));
    for other in ["Basic abc", "Bearer", "Bearer ", "Bearer a b", "Bearer a\u{7}"] {
        assert_eq!(with(HOST, None, Some(other)), session("one"), "{other}");
    }
    let out = judged(|it| {
        (it.method, it.request.path, it.request.cookie) = ("POST", SIGN_OUT, Some(cookie));
    });
    assert_eq!(out, Verdict::SignOut(Some("one")));
}

#[test]
fn a_cookie_is_for_this_host_and_no_script() {
    assert_eq!(
        asked(|_| {}).cookie(Some("id")),
        "kubectl-flink-console=id; HttpOnly; SameSite=Strict; Path=/"
    );
    assert_eq!(
        asked(|it| it.forwarded_proto = Some("https")).cookie(Some("id")),
        "__Host-kubectl-flink-console=id; HttpOnly; SameSite=Strict; Path=/; Secure"
    );
    assert_eq!(
        asked(|it| it.request.host = Some("localhost:8880")).cookie(None),
        "kubectl-flink-console-8880=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"
    );
}

#[test]
fn what_is_sent_to_sign_in_leads_to_the_console_and_nowhere_else() {
    let sent = |body: &str| {
        let SignIn { token, to } = SignIn::parse(body.as_bytes());
        (token.unwrap_or_default(), to)
    };
    let own = |token: &str, to: &str| (token.to_owned(), to.to_owned());
    assert_eq!(sent("token=+a.b-c_d%0A&to=%2F%3Fstate%3DFAILED"), own("a.b-c_d", "/?state=FAILED"));
    assert_eq!(sent(""), own("", "/"));
    assert_eq!(sent("token=a+b"), own("", "/"));
    assert_eq!(sent(&format!("token={}", "a".repeat(BODY_MAX + 1))), own("", "/"));
    for to in [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/%0d%0aSet-Cookie:a",
        "/sign-in",
        "/sign-out",
        "",
    ] {
        assert_eq!(sent(&format!("token=a&to={to}")), own("a", "/"), "{to}");
    }
    let long = format!("/?q={}", "a".repeat(ADDRESS_MAX));
    assert_eq!(own_address(&long), "/");
    assert_eq!(own_address("/in/shop/deployment/orders"), "/in/shop/deployment/orders");
}
