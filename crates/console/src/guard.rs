//! Access to the console.
//!
//! Three checks keep others out. Other programs on this machine, and anyone else who reaches the port, do not know the
//! token. Requests of other sites' pages, with which the browser would send the cookie, are recognized by the headers
//! `Origin` and `Sec-Fetch-Site`. Foreign DNS names that lead to 127.0.0.1 are recognized by `Host`.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Query parameter that contains the token.
const PARAMETER: &str = "token";

/// The secrets of one run of the console. Its `Debug` output leaves them out.
pub struct Guard {
    port: u16,
    token: String,
    /// A token that is valid once, for the browser that the command starts: every user of the machine can read the
    /// arguments of a program.
    once: Mutex<Option<String>>,
    /// The value of the cookie. It differs from the token, so that reading one does not reveal the other.
    session: String,
    /// The secret in the console's own forms, which a page of another site cannot know.
    form: String,
    /// Whether people without access get nothing at all, not even assets.
    is_closed: bool,
    /// Whether a program may show the token with each request.
    admits_programs: bool,
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Guard").field("port", &self.port).finish_non_exhaustive()
    }
}

/// What is checked of a request. Headers that are missing or not text are `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub host: Option<&'a str>,
    pub origin: Option<&'a str>,
    pub fetch_site: Option<&'a str>,
    pub fetch_mode: Option<&'a str>,
    pub cookie: Option<&'a str>,
    pub authorization: Option<&'a str>,
    /// Whether it may change something.
    pub is_write: bool,
    /// Whether it is a GET. Browsers then do not name the origin if it is the page's own.
    pub is_get: bool,
}

/// What happens to a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    Answer,
    /// The request has shown the token. It gets this cookie and is redirected to this address, which has no token.
    Enter {
        cookie: String,
        address: String,
        /// Whether the browser comes from another site. It then withholds the cookie while it follows a redirect.
        is_from_elsewhere: bool,
    },
    Refuse(Refusal),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It is for a name other than this machine's own.
    Host,
    /// It comes from a page of another site.
    Site,
    /// Neither token nor cookie is valid.
    Token,
}

impl Refusal {
    /// Returns the status code of the response.
    pub fn status(self) -> u16 {
        match self {
            Self::Host | Self::Site => 403,
            Self::Token => 401,
        }
    }
}

impl Guard {
    /// Guards the port with a token that cannot be guessed, and a second one that is valid once.
    pub fn new(port: u16, token: String, once: String) -> Self {
        let derived = |of: &str| {
            let digest = Sha256::digest(format!("{of} of {token}"));
            digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
        };
        let (session, form) = (derived("session"), derived("forms"));
        let once = Mutex::new(Some(once));
        Self { port, token, once, session, form, is_closed: false, admits_programs: false }
    }

    /// Gives nothing to those without access. For content that is not the program's own.
    #[must_use]
    pub fn closed(self) -> Self {
        Self { is_closed: true, ..self }
    }

    /// Lets in a program that sends the token as `Authorization: Bearer TOKEN`. A page of another site does not know it.
    #[must_use]
    pub fn for_programs(self) -> Self {
        Self { admits_programs: true, ..self }
    }

    /// Returns the secret for the console's own forms.
    pub fn form(&self) -> &str {
        &self.form
    }

    /// Returns whether a form belongs to the console itself, by the secret in it.
    pub fn is_own_form(&self, given: &str) -> bool {
        is_same(given, &self.form)
    }

    /// Returns the address that gives access to anyone who opens it.
    pub fn address(&self) -> String {
        self.address_with(&self.token)
    }

    /// Returns the address that gives access to the first one who opens it.
    pub fn address_once(&self) -> Option<String> {
        let once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        once.as_ref().map(|once| self.address_with(once))
    }

    fn address_with(&self, token: &str) -> String {
        format!("http://127.0.0.1:{}/?{PARAMETER}={token}", self.port)
    }

    /// Returns whether the token is valid, and uses up the one that is valid once.
    fn lets_in(&self, token: &str) -> bool {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        is_same(token, &self.token) || once.take_if(|once| is_same(token, once)).is_some()
    }

    /// Decides what happens to a request.
    pub fn judge(&self, asked: &Asked<'_>) -> Verdict {
        let Asked { path, query, host, origin, fetch_site, fetch_mode, .. } = *asked;
        let Asked { cookie, authorization, is_write, is_get, .. } = *asked;
        let port = self.port;
        let Some(host) = host.filter(|host| {
            *host == format!("127.0.0.1:{port}") || *host == format!("localhost:{port}")
        }) else {
            return Verdict::Refuse(Refusal::Host);
        };
        let bearer = authorization.and_then(|given| given.strip_prefix("Bearer "));
        let is_program =
            self.admits_programs && bearer.is_some_and(|given| is_same(given, &self.token));
        // Browsers send the origin of everything but a GET.
        let may_omit = !is_write || is_program || (is_get && fetch_site == Some("same-origin"));
        let is_own = origin.map_or(may_omit, |origin| origin == format!("http://{host}"));
        if !is_own {
            return Verdict::Refuse(Refusal::Site);
        }
        let (token, rest) = without_token(query.unwrap_or_default());
        // All ports of a host are one site, so a page of another port is `same-site`.
        let is_from_elsewhere = !matches!(fetch_site, None | Some("same-origin" | "none"));
        let may_enter =
            path == "/" && !is_write && (!is_from_elsewhere || fetch_mode == Some("navigate"));
        let enters = may_enter && token.is_some_and(|token| self.lets_in(&token));
        if is_from_elsewhere && !enters {
            return Verdict::Refuse(Refusal::Site);
        }
        if enters {
            let address = if rest.is_empty() { path.to_owned() } else { format!("{path}?{rest}") };
            return Verdict::Enter { cookie: self.cookie(), address, is_from_elsewhere };
        }
        // Style, script and icon are part of the program, and the page that denies access needs them.
        let is_open = !self.is_closed && path.starts_with(crate::assets::PLACE);
        if is_open || is_program || self.is_known(cookie.unwrap_or_default()) {
            return Verdict::Answer;
        }
        Verdict::Refuse(Refusal::Token)
    }

    /// Returns the name of the cookie. Browsers share cookies among all ports of a host, so each console has its own
    /// name.
    fn cookie_name(&self) -> String {
        format!("kubectl-flink-{}", self.port)
    }

    fn cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name(), self.session)
    }

    fn is_known(&self, cookies: &str) -> bool {
        let name = self.cookie_name();
        let pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        let mut own = pairs.filter(|(other, _)| *other == name);
        own.any(|(_, value)| is_same(value, &self.session))
    }
}

/// Compares in constant time, however much of `given` is right.
fn is_same(given: &str, secret: &str) -> bool {
    given.as_bytes().ct_eq(secret.as_bytes()).into()
}

/// Returns the token of a query, and the query without it.
fn without_token(query: &str) -> (Option<String>, String) {
    let mut token = None;
    let mut rest = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name == PARAMETER {
            token = Some(value.into_owned());
        } else {
            rest.append_pair(&name, &value);
        }
    }
    (token, rest.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn guard() -> Guard {
        Guard::new(8880, TOKEN.to_owned(), "once".to_owned())
    }

    fn cookie() -> String {
        guard().cookie().split(';').next().unwrap().to_owned()
    }

    /// Judges a request that has the right cookie and host before `change`.
    fn judged(change: impl FnOnce(&mut Asked<'_>)) -> Verdict {
        let cookie = cookie();
        let mut asked = Asked { path: "/", host: Some("127.0.0.1:8880"), ..Asked::default() };
        // Cookies of another console and of another program are next to it.
        let cookies = format!("a=b; {cookie}; kubectl-flink-1=x");
        asked.cookie = Some(&cookies);
        // The closure cannot name the lifetime of the cookie.
        let mut own = Asked { cookie: None, ..asked };
        change(&mut own);
        guard().judge(&Asked { cookie: own.cookie.or(asked.cookie), ..own })
    }

    #[test]
    fn the_cookie_lets_in_by_both_names_of_this_machine() {
        assert_eq!(judged(|_| {}), Verdict::Answer);
        assert_eq!(judged(|it| it.host = Some("localhost:8880")), Verdict::Answer);
        assert_eq!(judged(|it| it.origin = Some("http://127.0.0.1:8880")), Verdict::Answer);
        assert_eq!(judged(|it| it.fetch_site = Some("same-origin")), Verdict::Answer);
        assert_eq!(judged(|it| it.fetch_site = Some("none")), Verdict::Answer);
    }

    #[test]
    fn other_names_are_refused() {
        for host in [None, Some("evil.example:8880"), Some("127.0.0.1"), Some("127.0.0.1:8881")] {
            assert_eq!(judged(|it| it.host = host), Verdict::Refuse(Refusal::Host), "{host:?}");
        }
    }

    #[test]
    fn pages_of_others_are_refused() {
        let refused = Verdict::Refuse(Refusal::Site);
        for origin in
            ["null", "https://127.0.0.1:8880", "http://127.0.0.1:3000", "http://localhost:8880"]
        {
            assert_eq!(judged(|it| it.origin = Some(origin)), refused, "{origin}");
        }
        for site in ["cross-site", "same-site", "other"] {
            for mode in [None, Some("navigate"), Some("no-cors")] {
                let asked = judged(|it| (it.fetch_site, it.fetch_mode) = (Some(site), mode));
                assert_eq!(asked, refused, "{site} {mode:?}");
            }
            let asset = judged(|it| (it.path, it.fetch_site) = ("/assets/x/y", Some(site)));
            assert_eq!(asset, refused, "{site}");
        }
    }

    #[test]
    fn what_changes_something_names_its_origin() {
        let own = Some("http://127.0.0.1:8880");
        assert_eq!(judged(|it| (it.is_write, it.origin) = (true, own)), Verdict::Answer);
        for origin in [None, Some("null"), Some("http://127.0.0.1:3000")] {
            let judged = judged(|it| (it.is_write, it.origin) = (true, origin));
            assert_eq!(judged, Verdict::Refuse(Refusal::Site), "{origin:?}");
        }
        let guard = guard();
        assert!(guard.is_own_form(guard.form()) && !guard.is_own_form(""));
        assert!(!guard.is_own_form(&guard.session), "who reads a cookie cannot make a form");
    }

    #[test]
    fn what_changes_something_by_get_comes_from_an_own_page() {
        let own = |it: &mut Asked<'_>| (it.is_write, it.is_get) = (true, true);
        for site in [None, Some("none"), Some("same-site"), Some("cross-site")] {
            let judged = judged(|it| {
                own(it);
                it.fetch_site = site;
            });
            assert_eq!(judged, Verdict::Refuse(Refusal::Site), "{site:?}");
        }
        let asked = |is_get| {
            judged(|it| {
                own(it);
                (it.is_get, it.fetch_site) = (is_get, Some("same-origin"));
            })
        };
        assert_eq!(asked(true), Verdict::Answer);
        assert_eq!(asked(false), Verdict::Refuse(Refusal::Site), "browsers name this one's origin");
    }

    #[test]
    fn a_program_shows_the_token_where_programs_are_let_in() {
        let bearer = format!("Bearer {TOKEN}");
        let host = Some("127.0.0.1:8880");
        let authorization = Some(&*bearer);
        let asked = Asked { path: "/x", host, authorization, is_write: true, ..Asked::default() };
        let open = || guard().closed().for_programs();
        assert_eq!(open().judge(&asked), Verdict::Answer);
        assert_eq!(guard().judge(&asked), Verdict::Refuse(Refusal::Site));
        let read = Asked { is_write: false, ..asked };
        assert_eq!(guard().judge(&read), Verdict::Refuse(Refusal::Token));
        for origin in ["null", "http://127.0.0.1:3000"] {
            let foreign = Asked { origin: Some(origin), ..asked };
            assert_eq!(open().judge(&foreign), Verdict::Refuse(Refusal::Site));
        }
        let foreign = Asked { fetch_site: Some("cross-site"), ..asked };
        assert_eq!(open().judge(&foreign), Verdict::Refuse(Refusal::Site));
        for wrong in [TOKEN, "Bearer ", "Bearer once", "Basic x"] {
            let read = Asked { authorization: Some(wrong), ..read };
            assert_eq!(open().judge(&read), Verdict::Refuse(Refusal::Token), "{wrong}");
        }
    }

    #[test]
    fn the_token_is_taken_out_of_the_address() {
        let query = format!("state=FAILED&token={TOKEN}&q=a+b");
        let enter = |is_from_elsewhere| Verdict::Enter {
            cookie: guard().cookie(),
            address: "/?state=FAILED&q=a+b".to_owned(),
            is_from_elsewhere,
        };
        let host = Some("127.0.0.1:8880");
        let asked = Asked { path: "/", query: Some(&query), host, ..Asked::default() };
        assert_eq!(guard().judge(&asked), enter(false));
        let (fetch_site, fetch_mode) = (Some("cross-site"), Some("navigate"));
        let clicked = Asked { fetch_site, fetch_mode, ..asked };
        assert_eq!(guard().judge(&clicked), enter(true));
        let embedded = Asked { fetch_mode: Some("no-cors"), ..clicked };
        assert_eq!(guard().judge(&embedded), Verdict::Refuse(Refusal::Site));
        let elsewhere = Asked { path: "/fleet/events", ..asked };
        assert_eq!(guard().judge(&elsewhere), Verdict::Refuse(Refusal::Token));
    }

    #[test]
    fn what_a_program_was_started_with_counts_once() {
        let guard = guard();
        let address = guard.address_once().unwrap();
        let query = address.split_once('?').unwrap().1;
        let host = Some("127.0.0.1:8880");
        let asked = Asked { path: "/", query: Some(query), host, ..Asked::default() };
        let foreign = Asked { fetch_site: Some("cross-site"), ..asked };
        assert_eq!(guard.judge(&foreign), Verdict::Refuse(Refusal::Site), "which does not count");
        assert!(matches!(guard.judge(&asked), Verdict::Enter { .. }));
        assert_eq!(guard.judge(&asked), Verdict::Refuse(Refusal::Token));
        assert_eq!(guard.address_once(), None);
    }

    #[test]
    fn wrong_secrets_let_nobody_in() {
        let host = Some("127.0.0.1:8880");
        let other = Guard::new(8880, "f".repeat(32), String::new()).cookie();
        let short = format!("token={}", &TOKEN[1..]);
        for query in [None, Some("token="), Some("token=x"), Some(&*short)] {
            for cookie in [None, Some("kubectl-flink-8880="), Some(&*other), Some(TOKEN)] {
                let asked = Asked { path: "/", query, host, cookie, ..Asked::default() };
                assert_eq!(
                    guard().judge(&asked),
                    Verdict::Refuse(Refusal::Token),
                    "{query:?} {cookie:?}"
                );
            }
        }
        let asked = Asked { path: "/assets/x/console.css", host, ..Asked::default() };
        assert_eq!(guard().judge(&asked), Verdict::Answer);
        assert_eq!(guard().closed().judge(&asked), Verdict::Refuse(Refusal::Token));
    }

    #[test]
    fn secrets_are_not_printed_with_it() {
        let guard = guard();
        assert!(guard.address().ends_with(TOKEN));
        let cookie = guard.cookie();
        assert!(!cookie.contains(TOKEN) && cookie.contains("; HttpOnly; SameSite=Strict; Path=/"));
        assert_eq!(format!("{guard:?}"), "Guard { port: 8880, .. }");
    }
}
