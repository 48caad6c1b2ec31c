//! Servers that accept lines over TCP or UDP.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio::time::timeout;

use super::super::endpoint::Error;
use config::reporter::{Server, Transport};

/// Sends the packets one after the other, over a new connection.
pub(super) async fn send(
    server: &Server,
    within: Duration,
    packets: impl Iterator<Item = String>,
) -> Result<(), Error> {
    let sent = async {
        let address = (server.host.as_str(), server.port);
        match server.transport {
            Transport::Tcp => {
                let mut stream = TcpStream::connect(address).await?;
                for packet in packets {
                    stream.write_all(packet.as_bytes()).await?;
                }
                stream.shutdown().await
            }
            Transport::Udp => {
                let first = lookup_host(address).await?.next();
                let address = first.ok_or_else(|| io::Error::other("its host has no address"))?;
                let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any).await?;
                socket.connect(address).await?;
                for packet in packets {
                    socket.send(packet.as_bytes()).await?;
                }
                Ok(())
            }
        }
    };
    match timeout(within, sent).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::Unreachable(error.to_string())),
        Err(_) => Err(Error::TimedOut(within)),
    }
}
