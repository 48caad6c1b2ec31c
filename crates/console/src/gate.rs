//! Access to the console of a pod: the outer gate, before anyone asks who a person is.
//!
//! The host name of such a console depends on the Service, the ingress or the forwarded port, so a request is checked
//! against the host that it names itself. A page of another site can neither read a response nor use a person's
//! session: its requests are recognized by `Origin` and `Sec-Fetch-Site`, and browsers do not send the cookie with
//! them. If a foreign DNS name leads here, the browser has no cookie for it. Only the paths to sign in and out accept
//! `POST`.

use strum::EnumIter;

use crate::assets;
use crate::guard;

/// Path to which a token is sent.
pub const SIGN_IN: &str = "/sign-in";
/// Path that ends a session.
pub const SIGN_OUT: &str = "/sign-out";
/// Maximum size in bytes of a form to sign in. Tokens of identity providers have a few thousand bytes.
pub const BODY_MAX: usize = 16 * 1024;
/// Maximum length of the address to return to after signing in.
const ADDRESS_MAX: usize = 2_000;
/// Maximum length of a host name with a port.
const HOST_MAX: usize = 260;

/// What is checked of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    pub method: &'a str,
    pub request: guard::Asked<'a>,
    pub authorization: Option<&'a str>,
    /// The scheme that the browser used, as reported by a proxy.
    pub forwarded_proto: Option<&'a str>,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict<'a> {
    /// An embedded file, which needs no access.
    Asset,
    /// The owner of this credential gets an answer.
    Ask(Option<Credential<'a>>),
    /// The body contains a token.
    SignIn,
    /// Ends the session, if there is one.
    SignOut(Option<&'a str>),
    /// A link of another site led here, so the browser withholds the cookie. A page of the console itself then leads
    /// on.
    Forward,
    Refuse(Refusal),
}

/// What identifies a person.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Credential<'a> {
    /// The token itself, which a proxy or a program sends each time.
    Token(&'a str),
    /// The id of a session.
    Session(&'a str),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, EnumIter, Eq, PartialEq)]
pub enum Refusal {
    /// It names no host.
    Host,
    /// It comes from a page of another site.
    Site,
    /// It would change something.
    Method,
}

impl Refusal {
    /// Returns the status code of the response.
    pub fn status(self) -> u16 {
        match self {
            Self::Host => 400,
            Self::Site => 403,
            Self::Method => 405,
        }
    }
}

impl<'a> Asked<'a> {
    /// Decides what happens to the request.
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

    /// Returns whether the browser uses TLS to reach whatever is in front of the pod.
    fn is_secure(&self) -> bool {
        self.forwarded_proto.is_some_and(|proto| proto.eq_ignore_ascii_case("https"))
    }

    /// Returns the `Set-Cookie` header for a session, or one that deletes the cookie.
    pub fn cookie(&self, session: Option<&str>) -> String {
        let is_secure = self.is_secure();
        let name = cookie_name(self.request.host.unwrap_or_default(), is_secure);
        let secure = if is_secure { "; Secure" } else { "" };
        let age = if session.is_none() { "; Max-Age=0" } else { "" };
        let value = session.unwrap_or_default();
        format!("{name}={value}; HttpOnly; SameSite=Strict; Path=/{secure}{age}")
    }
}

/// Returns the name of the cookie. Browsers share cookies among all ports of a host, so the name contains the port: two
/// forwarded ports of one machine have different cookies. With TLS, the prefix makes the browser ensure that no other
/// host of the domain has set the cookie.
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

/// Returns whether the origin is this host. A proxy in front may use TLS, so the scheme is ignored.
fn is_of_host(origin: &str, host: &str) -> bool {
    let name = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    name.is_some_and(|name| name.eq_ignore_ascii_case(host))
}

/// Returns whether the text could be a token. Only the API server knows whether it is a valid one.
fn is_token(text: &str) -> bool {
    (1..=BODY_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What a person has sent to sign in. It has no `Debug`, so that it is never printed.
pub struct SignIn {
    /// `None` if the text that was sent cannot be a token.
    pub token: Option<String>,
    /// The address of the console to return to.
    pub to: String,
}

impl SignIn {
    /// Parses the body of a form.
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

/// Returns the address if it is one of the console's own pages, and otherwise that of the fleet.
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
