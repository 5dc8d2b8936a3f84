//! The fast path: what carries heartbeats, and nothing else.
//!
//! A lane is one thread with a runtime of its own that accepts connections, serves HTTP/2 on them and
//! runs every session they carry. Nothing here waits for Postgres, for a lock that is held across a
//! send, for the console or for an alert.
//!
//! One beat: socket → the connection's task → HTTP/2 → the session's [`pump`] → its [`Attendance`], which
//! stores when it was heard and places the PONG → the session's [`Mail`] hands it to HTTP/2 → socket.
//! One wake-up of one task.

mod attendance;
mod bell;
mod breakage;
mod connection;
mod gate;
mod greeting;
mod mail;
mod parts;
mod pump;
mod service;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fleetbeat_liveness::Keepalive;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::clock::Clock;
use crate::registry::{LaneGauge, Registry};
use connection::Connection;
use wire::{Io, Wire};

pub use attendance::Attendance;
pub use gate::Gate;
pub use mail::Mail;

/// How often a lane measures its own lag.
const TICK: Duration = Duration::from_millis(100);
/// Events the reactor takes per turn: one turn reads every socket of a lane, so that no beat waits
/// behind a tick.
const EVENTS_PER_TURN: usize = 65_536;
/// Connections that passed the gate and wait for their lane.
const HANDED_OVER: usize = 1_024;
/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 4_096;
/// Pause after accept failed, mostly for want of file descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// What all lanes of a server are told.
#[derive(Debug, Clone)]
pub struct Options {
    /// Names this server in Welcome.
    pub server: String,
    /// Of every agent's socket, until a tuning asks for more.
    pub keepalive: Keepalive,
}

/// What the sessions of a lane share.
#[derive(Debug)]
pub struct Context {
    registry: Arc<Registry>,
    clock: Clock,
    lane: usize,
    gauge: Arc<LaneGauge>,
    /// Names this server in Welcome.
    server: String,
    keepalive: Keepalive,
}

impl Context {
    /// Of lane `index` of `registry`; `server` names the server in Welcome.
    #[must_use]
    pub fn new(registry: &Arc<Registry>, index: usize, server: &str) -> Self {
        Self {
            registry: Arc::clone(registry),
            clock: registry.clock(),
            lane: index,
            gauge: Arc::clone(&registry.lanes()[index]),
            server: server.to_owned(),
            keepalive: Keepalive::default(),
        }
    }
}

/// A connection that a gate has authenticated.
#[derive(Debug)]
pub(crate) struct Arrival {
    io: Io,
    peer: SocketAddr,
}

/// A running lane.
#[derive(Debug)]
pub struct Lane {
    arrivals: mpsc::Sender<Arrival>,
    thread: JoinHandle<()>,
}

impl Lane {
    /// Starts lane `index` of `registry`. It accepts on `listener` itself, or takes what a gate hands
    /// over. `soft` stops intake, `hard` drops what is left.
    ///
    /// # Errors
    ///
    /// When the thread or its runtime cannot be made.
    pub fn start(
        index: usize,
        registry: &Arc<Registry>,
        options: &Options,
        listener: Option<std::net::TcpListener>,
        soft: CancellationToken,
        hard: CancellationToken,
    ) -> io::Result<Self> {
        let mut context = Context::new(registry, index, &options.server);
        context.keepalive = options.keepalive;
        let context = Arc::new(context);
        let (arrivals, inbox) = mpsc::channel(HANDED_OVER);
        let runtime = || {
            let mut builder = Builder::new_current_thread();
            builder.enable_all().max_io_events_per_tick(EVENTS_PER_TURN);
            builder.build_local(LocalOptions::default())
        };
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name(format!("lane-{index}"))
            .spawn(move || {
                let runtime = match runtime() {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                runtime.block_on(async move {
                    let listener = match listener.map(TcpListener::from_std).transpose() {
                        Ok(listener) => listener,
                        Err(error) => return drop(ready.send(Err(error))),
                    };
                    let now = context.clock.now();
                    context.gauge.ticked(now, now);
                    let _ = ready.send(Ok(()));
                    run(context, listener, inbox, soft, hard).await;
                });
            })?;
        started.recv().map_err(io::Error::other)??;
        Ok(Self { arrivals, thread })
    }

    pub(crate) fn arrivals(&self) -> mpsc::Sender<Arrival> {
        self.arrivals.clone()
    }

    /// True once the lane's thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Binds `address` so that several lanes can accept on it.
///
/// # Errors
///
/// When the address is taken or not ours.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

async fn run(
    context: Arc<Context>,
    listener: Option<TcpListener>,
    mut inbox: mpsc::Receiver<Arrival>,
    soft: CancellationToken,
    hard: CancellationToken,
) {
    let connections = TaskTracker::new();
    let ticking = tokio::task::spawn_local(tick(Arc::clone(&context)));
    let serve = |io: Io, peer: SocketAddr| match Connection::new(io, peer, &context) {
        Ok(connection) => drop(connections.spawn_local(connection)),
        Err(error) => warn!(peer = %peer, %error, "Connection could not be prepared"),
    };
    loop {
        tokio::select! {
            () = soft.cancelled() => break,
            accepted = accept(listener.as_ref()) => {
                if let Some((stream, peer)) = accepted {
                    serve(Io::Plain(Wire::Attached(stream)), peer);
                }
            }
            Some(Arrival { io, peer }) = inbox.recv() => serve(io, peer),
        }
    }
    drop(listener);
    connections.close();
    tokio::select! {
        () = connections.wait() => {}
        () = hard.cancelled() => {}
    }
    ticking.abort();
}

async fn accept(listener: Option<&TcpListener>) -> Option<(tokio::net::TcpStream, SocketAddr)> {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            warn!(%error, "Connection not accepted");
            tokio::time::sleep(BREATH).await;
            None
        }
    }
}

/// Shows that the lane runs, and how late it does.
async fn tick(context: Arc<Context>) {
    let mut due = context.clock.now();
    loop {
        let now = context.clock.now();
        if let Some(length) = context.gauge.ticked(now, due) {
            warn!(
                lane = context.lane,
                stall_ms = length.as_millis(),
                "Lane was stalled"
            );
        }
        due = context.clock.now() + TICK;
        tokio::time::sleep(TICK).await;
    }
}
