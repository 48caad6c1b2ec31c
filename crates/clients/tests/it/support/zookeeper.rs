//! A server that speaks as much of ZooKeeper's protocol as its clients here use.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const NO_NODE: i32 = -101;
const NOT_EMPTY: i32 = -111;
const UNIMPLEMENTED: i32 = -6;

#[derive(Clone, Copy, Default)]
struct Node {
    is_ephemeral: bool,
    has_data: bool,
}

#[derive(Clone)]
pub(crate) struct ZooKeeper {
    nodes: Arc<Mutex<BTreeMap<String, Node>>>,
    connections: Arc<AtomicUsize>,
    pub(crate) address: String,
}

impl ZooKeeper {
    /// Serves these nodes and all above them; see [`Self::add`].
    pub(crate) async fn serve(nodes: &[String]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = Self { nodes: Arc::default(), connections: Arc::default(), address };
        for node in nodes {
            server.add(node);
        }
        let shared = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let shared = shared.clone();
                tokio::spawn(async move { shared.converse(stream).await });
            }
        });
        server
    }

    /// Adds a node and all above it. With `*` at its end it is ephemeral, with `=` it has data.
    pub(crate) fn add(&self, node: &str) {
        let path = node.trim_end_matches(['*', '=']);
        let mut nodes = self.nodes.lock().unwrap();
        nodes.entry("/".to_owned()).or_default();
        for (at, _) in path.match_indices('/').skip(1) {
            nodes.entry(path[..at].to_owned()).or_default();
        }
        let node = Node { is_ephemeral: node.ends_with('*'), has_data: node.ends_with('=') };
        nodes.insert(path.to_owned(), node);
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        self.nodes.lock().unwrap().keys().cloned().collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    async fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        frame(&mut stream).await?;
        let mut hello = Vec::new();
        hello.extend(0_i32.to_be_bytes());
        hello.extend(30_000_i32.to_be_bytes());
        hello.extend(1_i64.to_be_bytes());
        hello.extend(16_i32.to_be_bytes());
        hello.extend([1; 16]);
        hello.push(0);
        send(&mut stream, &hello).await?;
        loop {
            let request = frame(&mut stream).await?;
            let number = |at: usize| i32::from_be_bytes(request[at..at + 4].try_into().unwrap());
            let (xid, operation) = (number(0), number(4));
            let path = match operation {
                2 | 3 | 8 | 9 | 12 => {
                    let length = usize::try_from(number(8)).unwrap();
                    std::str::from_utf8(&request[12..12 + length]).unwrap()
                }
                _ => "",
            };
            let (code, body) = match self.answer(operation, path) {
                Ok(body) => (0, body),
                Err(code) => (code, Vec::new()),
            };
            let mut answer = xid.to_be_bytes().to_vec();
            answer.extend(1_i64.to_be_bytes());
            answer.extend(code.to_be_bytes());
            answer.extend(body);
            send(&mut stream, &answer).await?;
        }
    }

    fn answer(&self, operation: i32, path: &str) -> Result<Vec<u8>, i32> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let below = format!("{}/", path.trim_end_matches('/'));
        let children: Vec<String> = nodes
            .keys()
            .filter_map(|node| node.strip_prefix(&below))
            .filter(|name| !name.is_empty() && !name.contains('/'))
            .map(str::to_owned)
            .collect();
        let node = || nodes.get(path).copied().ok_or(NO_NODE);
        match operation {
            // Delete, exists, list, list with the node, sync, ping and the end of the session.
            2 => {
                node()?;
                if !children.is_empty() {
                    return Err(NOT_EMPTY);
                }
                nodes.remove(path);
                Ok(Vec::new())
            }
            3 => Ok(stat(node()?)),
            8 => {
                node()?;
                Ok(names(&children))
            }
            12 => Ok([names(&children), stat(node()?)].concat()),
            9 => Ok(sized(path.as_bytes())),
            11 | -11 => Ok(Vec::new()),
            _ => Err(UNIMPLEMENTED),
        }
    }
}

/// Puts the length before the bytes.
fn sized(bytes: &[u8]) -> Vec<u8> {
    let length = i32::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}

fn names(names: &[String]) -> Vec<u8> {
    let mut bytes = i32::try_from(names.len()).unwrap().to_be_bytes().to_vec();
    for name in names {
        bytes.extend(sized(name.as_bytes()));
    }
    bytes
}

fn stat(node: Node) -> Vec<u8> {
    let mut bytes = vec![0; 44];
    bytes.extend(i64::from(node.is_ephemeral).to_be_bytes());
    bytes.extend(i32::from(node.has_data).to_be_bytes());
    bytes.extend([0; 12]);
    bytes
}

async fn frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_i32().await?;
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(&sized(bytes)).await
}
