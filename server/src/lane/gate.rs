//! TLS handshakes, on threads of their own: a handshake costs a millisecond that no beat should wait.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::wire::{Io, Wire};
use super::{Arrival, Lane, accept};

/// Handshakes under way at once.
const AT_ONCE: usize = 64;
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// A running gate.
#[derive(Debug)]
pub struct Gate {
    thread: JoinHandle<()>,
}

impl Gate {
    /// Accepts on `listener`, completes handshakes and hands the streams to `lanes` in turn.
    ///
    /// # Errors
    ///
    /// When the thread or its runtime cannot be made.
    pub fn start(
        listener: std::net::TcpListener,
        tls: Arc<ServerConfig>,
        lanes: &[Lane],
        soft: CancellationToken,
    ) -> io::Result<Self> {
        let lanes: Vec<_> = lanes.iter().map(Lane::arrivals).collect();
        let runtime = || {
            Builder::new_current_thread()
                .enable_all()
                .build_local(LocalOptions::default())
        };
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("gate".to_owned())
            .spawn(move || {
                let runtime = match runtime() {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                runtime.block_on(async move {
                    let listener = match TcpListener::from_std(listener) {
                        Ok(listener) => listener,
                        Err(error) => return drop(ready.send(Err(error))),
                    };
                    let _ = ready.send(Ok(()));
                    run(&listener, &TlsAcceptor::from(tls), lanes, soft).await;
                });
            })?;
        started.recv().map_err(io::Error::other)??;
        Ok(Self { thread })
    }

    /// True once the gate's thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

async fn run(
    listener: &TcpListener,
    acceptor: &TlsAcceptor,
    lanes: Vec<mpsc::Sender<Arrival>>,
    soft: CancellationToken,
) {
    let handshakes = TaskTracker::new();
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let (lanes, turn) = (Arc::new(lanes), Arc::new(AtomicUsize::new(0)));
    loop {
        // Without a permit nothing is accepted: the kernel's backlog holds what cannot be served yet.
        let admitted = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, accept(Some(listener)).await)
        };
        let admitted = tokio::select! {
            () = soft.cancelled() => return,
            admitted = admitted => admitted,
        };
        let (Ok(permit), Some((stream, peer))) = admitted else {
            continue;
        };
        let (acceptor, lanes, turn) = (acceptor.clone(), Arc::clone(&lanes), Arc::clone(&turn));
        handshakes.spawn_local(async move {
            let _permit = permit;
            let shaken = tokio::time::timeout(HANDSHAKE_WITHIN, handshake(&acceptor, stream)).await;
            match shaken {
                Ok(Ok(io)) => {
                    let lane = turn.fetch_add(1, Ordering::Relaxed) % lanes.len();
                    // A lane that has ended takes nothing any more; the stream is dropped with it.
                    let _ = lanes[lane].send(Arrival { io, peer }).await;
                }
                Ok(Err(error)) => refused(peer, &error.to_string()),
                Err(_) => refused(peer, "no TLS handshake within 10 s"),
            }
        });
    }
}

async fn handshake(acceptor: &TlsAcceptor, stream: TcpStream) -> io::Result<Io> {
    stream.set_nodelay(true)?;
    let mut tls = acceptor.accept(Wire::Attached(stream)).await?;
    tls.get_mut().0.detach()?;
    Ok(Io::Tls(Box::new(tls)))
}

fn refused(peer: SocketAddr, detail: &str) {
    debug!(peer = %peer, detail, "Handshake failed");
}
