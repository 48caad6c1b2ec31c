//! A fake endpoint for tests of callers.

use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, Receiver};

/// Answers each request of this type with the next of `answers`, and passes on what it was sent.
pub(crate) async fn endpoint(
    content_type: &'static str,
    answers: Vec<(u16, Value)>,
) -> (String, Receiver<Value>) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/told", server.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel(16);
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let answer = async move |headers: HeaderMap, Json(body): Json<Value>| {
        assert_eq!(headers["content-type"], content_type);
        let (status, answer) = answers.lock().unwrap().next().unwrap();
        sender.send(body).await.unwrap();
        (StatusCode::from_u16(status).unwrap(), Json(answer))
    };
    let router = Router::new().route("/told", post(answer));
    tokio::spawn(async move { axum::serve(server, router).await });
    (url, receiver)
}
