//! An agent that speaks HTTP/2 byte by byte, for what no library would do.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fleetbeat_proto::v1::{FromAgent, Hello, Ping, from_agent};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(20);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const END_HEADERS: u8 = 4;

/// One connection and the streams on it.
pub(crate) struct Peer {
    stream: TcpStream,
    next: u32,
}

impl Peer {
    pub(crate) async fn dial(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut first = PREFACE.to_vec();
        first.extend(frame(SETTINGS, 0, 0, &[]));
        stream.write_all(&first).await.unwrap();
        Self { stream, next: 1 }
    }

    /// Opens a session and reads until the server has answered it.
    pub(crate) async fn join(address: SocketAddr, hello: Hello) -> Self {
        let mut peer = Self::dial(address).await;
        let id = peer.next;
        peer.next += 2;
        let mut bytes = open(id);
        bytes.extend(message(id, from_agent::Message::Hello(hello)));
        bytes.extend(message(id, ping(1)));
        peer.stream.write_all(&bytes).await.unwrap();
        let answered = async { while peer.frame().await.unwrap().0 != DATA {} };
        tokio::time::timeout(PATIENCE, answered)
            .await
            .expect("Welcome");
        peer
    }

    /// Beats on the session that it opened first.
    pub(crate) async fn beat(&mut self, seq: u64) {
        self.stream.write_all(&message(1, ping(seq))).await.unwrap();
    }

    /// Opens `count` streams and resets each at once, in one piece. An error is the end of the connection.
    pub(crate) async fn open_and_reset(&mut self, count: u32) -> io::Result<()> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(open(self.next));
            bytes.extend(frame(RESET, 0, self.next, &8_u32.to_be_bytes()));
            self.next += 2;
        }
        self.stream.write_all(&bytes).await
    }

    async fn frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        self.stream.read_exact(&mut payload).await?;
        Ok((head[3], payload))
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The head of a call of `SessionService.Open`, without Huffman codes and without the dynamic table.
fn open(stream: u32) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let mut literal = |name: &[u8], value: &[u8]| {
        block.extend(name);
        block.push(u8::try_from(value.len()).unwrap());
        block.extend(value);
    };
    literal(&[0x04], b"/fleetbeat.v1.SessionService/Open");
    literal(&[0x01], b"localhost");
    literal(&[0x0f, 0x10], b"application/grpc");
    literal(&[0x00, 2, b't', b'e'], b"trailers");
    frame(HEADERS, END_HEADERS, stream, &block)
}

fn message(stream: u32, message: from_agent::Message) -> Vec<u8> {
    let message = FromAgent {
        message: Some(message),
    };
    let encoded = message.encode_to_vec();
    let mut payload = vec![0];
    payload.extend(u32::try_from(encoded.len()).unwrap().to_be_bytes());
    payload.extend(encoded);
    frame(DATA, 0, stream, &payload)
}

fn ping(seq: u64) -> from_agent::Message {
    from_agent::Message::Ping(Ping {
        seq,
        ..Ping::default()
    })
}
