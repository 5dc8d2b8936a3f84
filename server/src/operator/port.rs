//! The listening socket of operators: few connections, each bounded in everything.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::door::Peer;
use super::impatient::Impatient;

const CONNECTIONS: usize = 256;
const STREAMS: u32 = 64;
const HEADERS: u32 = 16 * 1024;
/// For the TLS handshake, for the first byte after it, and for each request head.
const PATIENCE: Duration = Duration::from_secs(10);
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Longest wait for open calls when the port closes.
const DRAIN: Duration = Duration::from_secs(5);
/// Pause after `accept` failed, most likely for want of file descriptors.
const RELIEF: Duration = Duration::from_millis(200);

/// A bound socket.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    keepalive: Duration,
}

impl Port {
    /// Binds; with `tls` every connection begins with a handshake.
    pub async fn bind(address: SocketAddr, tls: Option<Arc<ServerConfig>>) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address).await?,
            tls,
            keepalive: KEEPALIVE,
        })
    }

    /// The bound address, with the port that was chosen for port 0.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop`, then at most 5 s longer for what is under way.
    pub async fn run(self, pages: Router, stop: CancellationToken) {
        let connections = TaskTracker::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let tls = self.tls.map(TlsAcceptor::from);
        loop {
            // At the bound further connections wait in the kernel's queue.
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (self.listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let service = Connection {
                        pages: pages.clone().layer(Extension(Peer(peer))),
                        stop: stop.clone(),
                        streams: connections.clone(),
                        keepalive: self.keepalive,
                    };
                    let tls = tls.clone();
                    connections.spawn(async move {
                        service.serve(stream, tls).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "Operator connection cannot be accepted");
                    sleep(RELIEF).await;
                }
            }
        }
        connections.close();
        if timeout(DRAIN, connections.wait()).await.is_err() {
            tracing::debug!(open = connections.len(), "Operator connections are cut");
        }
    }
}

struct Connection {
    pages: Router,
    stop: CancellationToken,
    /// HTTP/2 runs each stream as a task.
    streams: TaskTracker,
    keepalive: Duration,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        // Answers are small; failing to set this only costs time.
        let _ = stream.set_nodelay(true);
        match tls {
            None => self.http(stream).await,
            Some(tls) => match timeout(PATIENCE, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.http(stream).await,
                Ok(Err(error)) => tracing::debug!(%error, "Operator's TLS handshake failed"),
                Err(_) => tracing::debug!("Operator's TLS handshake took too long"),
            },
        }
    }

    async fn http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let mut builder = Builder::new(Streams(self.streams));
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(self.keepalive)
            .keep_alive_timeout(self.keepalive)
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEADERS);
        let stream = TokioIo::new(Impatient::new(stream, PATIENCE));
        let connection = builder.serve_connection(stream, TowerToHyperService::new(self.pages));
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "Operator connection failed");
        }
    }
}

#[derive(Clone)]
struct Streams(TaskTracker);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        self.0.spawn(stream);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::Router;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::timeout;
    use tokio_util::sync::CancellationToken;

    use super::Port;

    const EVERY: Duration = Duration::from_millis(200);
    const PING: u8 = 6;

    /// Type and payload of the next frame.
    async fn frame(stream: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
        stream.read_exact(&mut payload).await?;
        Ok((head[3], payload))
    }

    async fn ping(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
        loop {
            if let (PING, payload) = frame(stream).await? {
                return Ok(payload);
            }
        }
    }

    /// Field report A02: keepalive needs a timer and repeats; a peer that stops answering is left.
    #[tokio::test]
    async fn keepalive_repeats_while_it_is_answered_and_ends_who_stops_answering() {
        let mut port = Port::bind("127.0.0.1:0".parse().unwrap(), None)
            .await
            .unwrap();
        port.keepalive = EVERY;
        let address = port.address().unwrap();
        let stop = CancellationToken::new();
        let _stopped = stop.clone().drop_guard();
        let operator = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            hello.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
            // Pings keep a connection that has an open stream: GET / with nothing after the head.
            hello.extend([0, 0, 14, 1, 4, 0, 0, 0, 1, 0x82, 0x86, 0x84, 0x41, 9]);
            hello.extend(b"localhost");
            stream.write_all(&hello).await.unwrap();
            for _ in 0..4 {
                let payload = ping(&mut stream).await.unwrap();
                let mut answer = vec![0, 0, 8, PING, 1, 0, 0, 0, 0];
                answer.extend(payload);
                stream.write_all(&answer).await.unwrap();
            }
            ping(&mut stream).await.unwrap();
            while frame(&mut stream).await.is_ok() {}
        };
        let pending = Router::new().fallback(std::future::pending::<()>);
        let within = timeout(Duration::from_secs(20), async {
            tokio::select! {
                () = port.run(pending, stop) => panic!("the port closed"),
                () = operator => {}
            }
        });
        within
            .await
            .expect("five pings and the end of the connection");
    }
}
