//! Whom the console lets in that a pod serves: the outer gate, before anybody is asked who somebody is.
//!
//! The name of such a console is what a Service, an ingress or a forwarded port makes of it, so that a request is held
//! against the name that it has itself. A page of another site can neither read an answer nor use somebody's session: its
//! requests are told by `Origin` and `Sec-Fetch-Site`, and the cookie is not sent with them. A name that a stranger's DNS
//! leads here has no cookie. And nothing but signing in and out is ever posted.

use strum::EnumIter;

use crate::assets;
use crate::guard;

/// Where a token is sent.
pub const SIGN_IN: &str = "/sign-in";
/// Where a session is ended.
pub const SIGN_OUT: &str = "/sign-out";
/// Most bytes of what is sent to sign in: tokens of identity providers have a few thousand.
pub const BODY_MAX: usize = 16 * 1024;
/// The longest address that is returned to after signing in.
const ADDRESS_MAX: usize = 2_000;
/// The longest name of a host, and a port.
const HOST_MAX: usize = 260;

/// What is looked at of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    pub method: &'a str,
    pub request: guard::Asked<'a>,
    pub authorization: Option<&'a str>,
    /// The scheme that the browser used, as a proxy tells it.
    pub forwarded_proto: Option<&'a str>,
}

/// What is done with a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict<'a> {
    /// A file of the program, which everybody may have.
    Asset,
    /// It is answered to whom this belongs.
    Ask(Option<Credential<'a>>),
    /// Its body has a token.
    SignIn,
    /// The session is ended, if there is one.
    SignOut(Option<&'a str>),
    /// A link of another site led here, so that the browser keeps the cookie back: a page of the console's own leads on.
    Forward,
    Refuse(Refusal),
}

/// By what somebody is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Credential<'a> {
    /// The token itself, which a proxy or a program sends each time.
    Token(&'a str),
    /// The id of a session.
    Session(&'a str),
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, EnumIter, Eq, PartialEq)]
pub enum Refusal {
    /// It names no host.
    Host,
    /// A page of another site makes it.
    Site,
    /// It would change something.
    Method,
}

impl Refusal {
    /// Status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Host => 400,
            Self::Site => 403,
            Self::Method => 405,
        }
    }
}

impl<'a> Asked<'a> {
    /// Judges the request.
    pub fn judge(&self) -> Verdict<'a> {
        let guard::Asked { path, host, origin, fetch_site, fetch_mode, .. } = self.request;
        let is_read = matches!(self.method, "GET" | "HEAD");
        let Some(host) = host.filter(|host| is_host(host)) else {
            return Verdict::Refuse(Refusal::Host);
        };
        if origin.is_some_and(|origin| !is_of_host(origin, host)) {
            return Verdict::Refuse(Refusal::Site);
        }
        if !matches!(fetch_site, None | Some("same-origin" | "none")) {
            let is_link = is_read && fetch_mode == Some("navigate");
            return if is_link { Verdict::Forward } else { Verdict::Refuse(Refusal::Site) };
        }
        match path {
            SIGN_IN if self.method == "POST" => Verdict::SignIn,
            SIGN_OUT if self.method == "POST" => Verdict::SignOut(self.session(host)),
            _ if !is_read => Verdict::Refuse(Refusal::Method),
            _ if path.starts_with(assets::PLACE) => Verdict::Asset,
            _ => Verdict::Ask(self.credential(host)),
        }
    }

    fn credential(&self, host: &str) -> Option<Credential<'a>> {
        let token = self.authorization.and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        match token.filter(|token| is_token(token)) {
            Some(token) => Some(Credential::Token(token)),
            None => self.session(host).map(Credential::Session),
        }
    }

    fn session(&self, host: &str) -> Option<&'a str> {
        let name = cookie_name(host, self.is_secure());
        let pairs = self.request.cookie?.split(';').filter_map(|it| it.trim().split_once('='));
        let mut own = pairs.filter(|(other, _)| *other == name);
        own.next().map(|(_, value)| value).filter(|value| !value.is_empty())
    }

    /// The browser speaks TLS with whatever stands before the pod.
    fn is_secure(&self) -> bool {
        self.forwarded_proto.is_some_and(|proto| proto.eq_ignore_ascii_case("https"))
    }

    /// The cookie of a session; without one, it is taken back.
    pub fn cookie(&self, session: Option<&str>) -> String {
        let is_secure = self.is_secure();
        let name = cookie_name(self.request.host.unwrap_or_default(), is_secure);
        let secure = if is_secure { "; Secure" } else { "" };
        let age = if session.is_none() { "; Max-Age=0" } else { "" };
        let value = session.unwrap_or_default();
        format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/{secure}{age}")
    }
}

/// Cookies know no ports: two forwarded ports of one machine have names of their own for theirs. With TLS the browser sees
/// to it that no other host of the domain has set it.
fn cookie_name(host: &str, is_secure: bool) -> String {
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| is_port(port));
    let port = port.map(|port| format!("-{port}")).unwrap_or_default();
    let prefix = if is_secure { "__Host-" } else { "" };
    format!("{prefix}kubectl-flink-console{port}")
}

fn is_port(text: &str) -> bool {
    (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_host(host: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    (1..=HOST_MAX).contains(&host.len()) && host.bytes().all(is_letter)
}

/// What is before a proxy may have TLS, so that the scheme counts for nothing.
fn is_of_host(origin: &str, host: &str) -> bool {
    let name = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    name.is_some_and(|name| name.eq_ignore_ascii_case(host))
}

/// Something that may be sent as a token: whether it is one the API server knows.
fn is_token(text: &str) -> bool {
    (1..=BODY_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What somebody sent to sign in. It is not printed.
pub struct SignIn {
    /// Absent where what was sent is no token.
    pub token: Option<String>,
    /// An address of the console.
    pub to: String,
}

impl SignIn {
    /// Reads the body of a form.
    pub fn parse(body: &[u8]) -> Self {
        let (mut token, mut to) = (None, None);
        for (name, value) in form_urlencoded::parse(body) {
            match &*name {
                "token" => token = Some(value.trim().to_owned()),
                "to" => to = Some(value.into_owned()),
                _ => {}
            }
        }
        let to = own_address(to.as_deref().unwrap_or_default()).to_owned();
        Self { token: token.filter(|token| is_token(token)), to }
    }
}

/// The address if it is one of the console's own pages, and else that of the fleet.
pub fn own_address(address: &str) -> &str {
    let is_own = address.starts_with('/')
        && !address.starts_with("//")
        && address.len() <= ADDRESS_MAX
        && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !address.starts_with(SIGN_IN)
        && !address.starts_with(SIGN_OUT);
    if is_own { address } else { "/" }
}

#[cfg(test)]
mod tests;
