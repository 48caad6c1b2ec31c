//! Serves the fake API server on a port of 127.0.0.1 for the program itself, with JobManagers behind its service proxy
//! and port-forwards. Every permission is granted unless it is denied explicitly.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::{FakeCluster, Recorded, json_response, people, port_forward};

/// Maximum size of a request body, in bytes.
const BODY_MAX: usize = 16 << 20;

/// `host:port` of the fakes behind pods and services, and the permissions that are denied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behind {
    /// Address of every JobManager.
    pub(crate) flink: String,
    /// Address of every SQL gateway.
    pub(crate) sql_gateway: String,
    /// Denied verbs and plural kinds.
    pub(crate) denied: Vec<(&'static str, &'static str)>,
}

impl FakeCluster {
    /// Serves until the runtime ends.
    pub(crate) async fn listen(&self, behind: Behind) -> SocketAddr {
        let server = self.clone();
        let router = Router::new().fallback(move |request: Request| {
            let (server, behind) = (server.clone(), behind.clone());
            async move { server.answer(request, &behind).await }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    async fn answer(&self, request: Request, behind: &Behind) -> Response {
        if request.uri().path().ends_with("/portforward") {
            return port_forward::answer(request, behind);
        }
        let (parts, body) = request.into_parts();
        let bytes = axum::body::to_bytes(body, BODY_MAX).await.unwrap();
        if parts.uri.path().ends_with("/selfsubjectaccessreviews") {
            let mut review: Value = serde_json::from_slice(&bytes).unwrap();
            let asked = &review["spec"]["resourceAttributes"];
            let is_denied = behind
                .denied
                .iter()
                .any(|(verb, resource)| asked["verb"] == *verb && asked["resource"] == *resource);
            review["status"] = json!({"allowed": !is_denied});
            return json_response(201, &review);
        }
        if let Some(answer) = self.review(parts.uri.path(), &bytes) {
            return answer;
        }
        let token = people::token(&parts.headers);
        if let Some(refusal) = self.refusal(token.as_deref(), parts.uri.path()) {
            return refusal;
        }
        if let Some((host, path)) = proxied(&parts.uri) {
            let (method, uri) = (parts.method.clone(), parts.uri.to_string());
            let headers: Vec<_> = parts.headers.keys().map(http::HeaderName::as_str).collect();
            self.state().proxied.push(Recorded { method, uri, body: json!(headers), token });
            let request = reqwest::Client::new()
                .request(parts.method, format!("http://{}{path}", behind.flink))
                .headers(passed_on(parts.headers, host))
                .body(bytes);
            let Ok(answer) = request.send().await else {
                return StatusCode::BAD_GATEWAY.into_response();
            };
            let (status, headers) = (answer.status(), passed_back(answer.headers()));
            return (status, headers, answer.bytes().await.unwrap_or_default()).into_response();
        }
        let request = Request::from_parts(parts, kube::client::Body::from(bytes.to_vec()));
        let Ok(response) = self.serve(request).await;
        response
    }
}

/// Removes the headers that an API server does not pass on, such as its own credentials.
fn passed_on(mut headers: HeaderMap, host: String) -> HeaderMap {
    for own in [header::AUTHORIZATION, header::CONTENT_LENGTH] {
        headers.remove(own);
    }
    headers.insert(header::HOST, host.parse().unwrap());
    headers
}

fn passed_back(headers: &HeaderMap) -> HeaderMap {
    let hop = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION];
    let headers = headers.iter().filter(|(name, _)| !hop.contains(name));
    headers.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns host and path of a request to `/api/v1/namespaces/NS/services/NAME:PORT/proxy/…`.
fn proxied(uri: &Uri) -> Option<(String, String)> {
    let rest = uri.path().strip_prefix("/api/v1/namespaces/")?;
    let (namespace, rest) = rest.split_once("/services/")?;
    let (service, path) = rest.split_once("/proxy")?;
    let name = service.split(':').find(|part| part.contains('-'))?;
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    Some((format!("{name}.{namespace}"), format!("{path}{query}")))
}
