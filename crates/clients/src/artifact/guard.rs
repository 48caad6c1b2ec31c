//! Which addresses a user may make the operator connect to.
//!
//! A name is looked up once, all of its addresses are checked, and the connection uses only these: a second response of
//! the name server cannot lead elsewhere.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use url::{Host, Url};

use super::error::Error;
use super::request::Request;

type Lookup = fn(String, u16) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>>;

/// Returns `true` for an address that must not be used.
type Refusal = dyn Fn(IpAddr) -> bool + Send + Sync;

/// Resolves hosts to addresses and checks them.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) lookup: Lookup,
    /// `None` if all addresses may be used.
    pub(super) is_refused: Option<Arc<Refusal>>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    /// Returns a guard with the system's name service and the rule of the request.
    pub(super) fn of(request: &Request) -> Self {
        let is_refused = request.restricted.clone().map(|restricted| {
            Arc::new(move |address| restricted.contains(address)) as Arc<Refusal>
        });
        Self { lookup: resolve_host, is_refused }
    }

    /// Returns the addresses of the URL's host, after checking each of them; `None` if any may be used.
    pub(super) async fn resolve(
        &self,
        url: &Url,
        request: &Request,
    ) -> Result<Option<Vec<SocketAddr>>, Error> {
        let Some(is_refused) = &self.is_refused else { return Ok(None) };
        let Some(host) = url.host() else {
            return Err(Error::invalid(request, "it has no host"));
        };
        let port = url.port_or_known_default().unwrap_or(443);
        let name = host.to_string();
        let addresses = match host {
            Host::Ipv4(address) => vec![SocketAddr::from((address, port))],
            Host::Ipv6(address) => vec![SocketAddr::from((address, port))],
            Host::Domain(domain) => self.resolve_host(domain, port, request).await?,
        };
        match addresses.iter().map(SocketAddr::ip).find(|address| is_refused(*address)) {
            Some(address) => {
                Err(Error::PrivateAddress { uri: request.shown_uri(), host: name, address })
            }
            None => Ok(Some(addresses)),
        }
    }

    async fn resolve_host(
        &self,
        domain: &str,
        port: u16,
        request: &Request,
    ) -> Result<Vec<SocketAddr>, Error> {
        let unresolved = |problem: String| Error::Unresolved {
            uri: request.shown_uri(),
            host: domain.to_owned(),
            problem,
        };
        let found = (self.lookup)(domain.to_owned(), port).await;
        let addresses = found.map_err(|error| unresolved(error.to_string()))?;
        if addresses.is_empty() {
            return Err(unresolved("it has no address".to_owned()));
        }
        Ok(addresses)
    }
}

fn resolve_host(domain: String, port: u16) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> {
    Box::pin(async move { Ok(tokio::net::lookup_host((domain, port)).await?.collect()) })
}
