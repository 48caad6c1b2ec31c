//! Port-forwards to pods as an API server serves them: a WebSocket with two channels for each port, data and
//! errors, whose first frames carry the port number.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use clients::flink::sql_gateway;
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::http::Behind;

/// Size of a frame, in bytes.
const FRAME: usize = 16 << 10;

/// Switches to a WebSocket that is connected to the fake behind the one requested port.
pub(super) fn answer(mut request: Request, behind: &Behind) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let port = query.split('&').find_map(|part| part.strip_prefix("ports="));
    let port: u16 = port.and_then(|port| port.parse().ok()).expect("one port is asked for");
    let address =
        if port == sql_gateway::PORT { &behind.sql_gateway } else { &behind.flink }.clone();
    let key = request.headers()["sec-websocket-key"].as_bytes().to_vec();
    let upgrade = hyper::upgrade::on(&mut request);
    drop(tokio::spawn(async move {
        let stream = TokioIo::new(upgrade.await.unwrap());
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        // The client is the one that disconnects early, as in a real cluster.
        drop(carry(socket, port, &address).await);
    }));
    Response::builder()
        .status(101)
        .header("upgrade", "websocket")
        .header("connection", "Upgrade")
        .header("sec-websocket-protocol", "v4.channel.k8s.io")
        .header("sec-websocket-accept", derive_accept_key(&key))
        .body(Body::empty())
        .unwrap()
}

/// Copies bytes in both directions until either side closes.
async fn carry(
    mut socket: WebSocketStream<TokioIo<Upgraded>>,
    port: u16,
    address: &str,
) -> anyhow::Result<()> {
    let [low, high] = port.to_le_bytes();
    for channel in [0, 1] {
        socket.send(Message::binary(vec![channel, low, high])).await?;
    }
    let (mut from_pod, mut to_pod) = TcpStream::connect(address).await?.into_split();
    let (mut to_client, mut from_client) = socket.split();
    let up = async {
        while let Some(Ok(message)) = from_client.next().await {
            match message {
                Message::Binary(bytes) => to_pod.write_all(&bytes[1..]).await?,
                Message::Close(_) => break,
                _ => {}
            }
        }
        anyhow::Ok(())
    };
    let down = async {
        let mut frame = vec![0; FRAME];
        loop {
            // The bytes are prefixed with their channel.
            let length = from_pod.read(&mut frame[1..]).await?;
            if length == 0 {
                break;
            }
            to_client.send(Message::binary(frame[..=length].to_vec())).await?;
        }
        to_client.send(Message::Close(None)).await?;
        anyhow::Ok(())
    };
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}
