//! How object stores are connected to.
//!
//! The stores of a job are reached as jars over HTTP are: at addresses that have been checked, without redirects. The
//! answers of all stores are bounded, because their client reads an error to its end before it looks at it.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};
use tokio::sync::Mutex;
use url::{Origin, Url};

use crate::artifact::guard::Guard;
use crate::artifact::http;
use crate::artifact::request::Request;

/// Bytes of an error that are read: more than any store's error has.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Bytes of an answer beyond the maximum size of a jar, whose end the download sees first.
const ANSWER_BYTES_MORE: usize = 1 << 20;

/// Makes the clients of one store.
#[derive(Debug)]
pub(super) struct Connector {
    request: Request,
    /// For a store of a job.
    guard: Option<Guard>,
}

impl Connector {
    pub(super) fn of(request: &Request, is_operators: bool) -> Self {
        let guard = (!is_operators).then(|| Guard::of(request));
        Self { request: request.clone(), guard }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = match &self.guard {
            None => ReqwestConnector::default().connect(options)?,
            Some(guard) => HttpClient::new(Guarded {
                request: self.request.clone(),
                guard: guard.clone(),
                clients: Mutex::default(),
            }),
        };
        let size_max = usize::try_from(self.request.limits.size_max.bytes());
        let bytes_max = size_max.unwrap_or(usize::MAX).saturating_add(ANSWER_BYTES_MORE);
        Ok(HttpClient::new(Bounded { client, bytes_max }))
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

/// Connects only to the addresses of hosts that have been checked.
struct Guarded {
    request: Request,
    guard: Guard,
    /// A client for each host: that of the store, and perhaps one that issues its tokens.
    clients: Mutex<HashMap<Origin, reqwest::Client>>,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}

impl Guarded {
    async fn client(&self, asked: &HttpRequest) -> Result<reqwest::Client, HttpError> {
        let refused = |error| HttpError::new_boxed(HttpErrorKind::Unknown, error);
        let url = Url::parse(&asked.uri().to_string()).map_err(|error| refused(error.into()))?;
        let mut clients = self.clients.lock().await;
        if let Some(client) = clients.get(&url.origin()) {
            return Ok(client.clone());
        }
        let client = http::client(&url, &self.request, &self.guard).await;
        let client = client.map_err(|error| refused(error.into()))?;
        clients.insert(url.origin(), client.clone());
        Ok(client)
    }
}

impl HttpService for Guarded {
    fn call<'a, 'b>(&'a self, asked: HttpRequest) -> Answer<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move { self.client(&asked).await?.call(asked).await })
    }
}

/// Ends the bodies of answers that are too long.
#[derive(Debug)]
struct Bounded {
    client: HttpClient,
    bytes_max: usize,
}

impl HttpService for Bounded {
    fn call<'a, 'b>(&'a self, asked: HttpRequest) -> Answer<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let (head, body) = self.client.execute(asked).await?.into_parts();
            let body = if head.status.is_success() {
                let body = Limited::new(body, self.bytes_max).map_err(|error| {
                    let other = |error| HttpError::new_boxed(HttpErrorKind::Decode, error);
                    error.downcast().map_or_else(other, |error| *error)
                });
                HttpResponseBody::new(body)
            } else {
                beginning(body).await?.into()
            };
            Ok(HttpResponse::from_parts(head, body))
        })
    }
}

/// Returns the beginning of an error.
async fn beginning(mut body: HttpResponseBody) -> Result<Bytes, HttpError> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let missing = ERROR_BYTES_MAX - read.len();
        read.extend_from_slice(data.get(..missing.min(data.len())).unwrap_or_default());
        if read.len() == ERROR_BYTES_MAX {
            break;
        }
    }
    Ok(read.freeze())
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    use object_store::client::HttpRequestBody;

    use super::*;
    use crate::artifact::Error;
    use config::FlinkConfig;

    #[tokio::test]
    async fn every_host_of_a_jobs_store_is_checked() {
        drop(rustls::crypto::ring::default_provider().install_default());
        let guard = Guard {
            lookup: |_, port| {
                let address = SocketAddr::from(([127, 0, 0, 2], port));
                Box::pin(async move { Ok(vec![address]) })
            },
            is_refused: Some(Arc::new(|address| {
                address == IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))
            })),
        };
        let none = FlinkConfig::new();
        let request = Request::from_config("shop", "s3://bucket/a.jar", &none, &none).unwrap();
        assert!(Connector::of(&request, true).guard.is_none());
        assert!(Connector::of(&request, false).guard.is_some());
        let connector = Connector { request, guard: Some(guard) };
        let client = connector.connect(&ClientOptions::new()).unwrap();
        for uri in ["https://s3.us-east-1.amazonaws.com/bucket/a.jar", "http://127.0.0.2:1/token"] {
            let asked = HttpRequest::new(HttpRequestBody::empty());
            let (mut head, body) = asked.into_parts();
            head.uri = uri.parse().unwrap();
            let error = client.execute(HttpRequest::from_parts(head, body)).await.unwrap_err();
            let error = std::error::Error::source(&error).unwrap().downcast_ref::<Error>().unwrap();
            assert_eq!(error.reason(), "ArtifactPrivateAddress", "{uri}");
        }
    }
}
