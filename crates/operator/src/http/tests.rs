use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Serves one path and returns the answer to these bytes.
async fn ask(request: &str) -> String {
    let listener = Listener::open(0).await.unwrap();
    let port = listener.port().unwrap();
    let routes = routes("GET and HEAD", [("/livez", get("alive\n"))]);
    let server = tokio::spawn(listener.serve(routes));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    server.abort();
    answer
}

#[tokio::test]
async fn a_path_is_answered_whatever_its_query() {
    let answer = ask("GET /livez?verbose HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nalive\n"), "{answer}");
}

#[tokio::test]
async fn a_head_alone_can_be_asked_for() {
    let answer = ask("HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn an_unknown_path_is_answered_with_those_there_are() {
    let answer = ask("GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(answer.contains("/livez"), "{answer}");
}

#[tokio::test]
async fn nothing_can_be_written() {
    let answer = ask("POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let head = format!("GET /livez HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(HEAD_BYTES_MAX));
    let answer = ask(&head).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let first = Listener::open(0).await.unwrap();
    let port = first.port().unwrap();
    let error = Listener::open(port).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("port {port} cannot be opened: ")), "{error}");
}

#[tokio::test]
async fn one_connection_too_many_ends_the_oldest_and_none_outlives_the_server() {
    let listener = Listener::open(0).await.unwrap();
    let port = listener.port().unwrap();
    let server = tokio::spawn(listener.each(2, |mut stream| async move {
        stream.write_u8(1).await.unwrap();
        // Until the other end closes.
        let _closed = stream.read_u8().await;
    }));
    let connect = async || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 1);
        stream
    };
    let mut oldest = connect().await;
    drop(connect().await);
    let mut kept = connect().await;
    // The one that ended made room, or the oldest did: from here on two are open.
    let _newer = connect().await;
    assert!(oldest.read_u8().await.is_err());
    let waits = tokio::time::timeout(Duration::from_millis(100), kept.read_u8()).await;
    assert!(waits.is_err(), "{waits:?}");
    server.abort();
    assert!(kept.read_u8().await.is_err());
}

/// The kubelet waits for a second, and restarts the container after three.
#[tokio::test]
async fn idle_connections_do_not_hold_up_a_probe() {
    let listener = Listener::open(0).await.unwrap();
    let port = listener.port().unwrap();
    let server = tokio::spawn(listener.serve(routes("GET", [("/livez", get("alive\n"))])));
    let mut idle = Vec::new();
    for _ in 0..4 * CONNECTIONS_MAX {
        idle.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    }
    let mut probe = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    probe.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    probe.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("\r\n\r\nalive\n"), "{answer}");
    // It did not wait until the others had been served, or had run out of time.
    let newest = idle.last_mut().unwrap().read_u8();
    let newest = tokio::time::timeout(Duration::from_millis(100), newest).await;
    assert!(newest.is_err(), "{newest:?}");
    server.abort();
}
