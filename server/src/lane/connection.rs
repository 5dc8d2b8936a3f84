//! One TCP connection with everything it carries, as a single task.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fleetbeat_liveness::{Expectation, Keepalive};
use fleetbeat_proto::v1::CloseReason;
use hyper::server::conn::http2;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tracing::debug;

use super::bell::{Bell, Tower};
use super::parts::{Executor, Parts};
use super::service::{Porch, Service};
use super::wire::{Io, Waiting};
use crate::registry::Link;

/// A connection opens its first stream within this time.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// After the end of a session its last words may take this long.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
/// h2 ends a connection whose unread small frames, at 256 bytes each, exceed half of this window. After
/// a stall everything that waits is read at once: this takes 270 beats of each of 64 streams.
const CONNECTION_WINDOW: u32 = 8 << 20;
/// Pause before the kernel is asked once more what it holds for a nominated session.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const STREAM_WINDOW: u32 = 1 << 16;
const STREAMS: u32 = 64;
/// Attempts that agents gave up before this server came to accept them; h2 ends a connection beyond
/// it, after 20 unless told otherwise. During a stall each of its agents may try every few seconds.
const GIVEN_UP: usize = 1024;
/// Rounds of polling before other connections have their turn; a beat takes three.
const ROUNDS: u32 = 64;
const HEADER_BYTES: u32 = 8 * 1024;
const SEND_BUFFER: usize = 16 * 1024;

type Http2 = http2::Connection<TokioIo<Shared>, Service, Executor>;

/// Future of one connection; ready when it is closed.
pub(super) struct Connection {
    http2: Http2,
    io: Rc<RefCell<Io>>,
    tower: Arc<Tower>,
    wire_bell: (Arc<Bell>, Waker),
    order_bell: (Arc<Bell>, Waker),
    parts: Parts,
    link: Arc<Link>,
    clock: crate::clock::Clock,
    keepalive: Keepalive,
    phase: Phase,
    /// Bytes wait in the kernel although a session is nominated: when to look again.
    look_again: Option<Pin<Box<Sleep>>>,
}

enum Phase {
    /// No stream has come yet.
    Opening(Pin<Box<Sleep>>),
    Carrying,
    /// Sessions have ended and may say their last words.
    Leaving(Pin<Box<Sleep>>),
}

/// hyper's view of the socket; the connection keeps one of its own, to peek and to set options.
struct Shared(Rc<RefCell<Io>>);

impl Connection {
    pub(super) fn new(
        mut io: Io,
        peer: SocketAddr,
        context: &Arc<super::Context>,
    ) -> io::Result<Self> {
        io.attach()?;
        io.prepare(&context.keepalive)?;
        let io = Rc::new(RefCell::new(io));
        let link = Arc::new(Link::at(io.borrow().local_ip()));
        let (born, porch) = (Executor::default(), Porch::default());
        let service = Service::new(context, peer, &link, &porch);
        let http2 =
            builder(born.clone()).serve_connection(TokioIo::new(Shared(Rc::clone(&io))), service);
        let tower = Arc::new(Tower::default());
        let bell = || {
            let bell = Bell::ringing(&tower);
            (Arc::clone(&bell), Waker::from(bell))
        };
        Ok(Self {
            http2,
            io,
            wire_bell: bell(),
            order_bell: bell(),
            parts: Parts::new(&tower, born, porch),
            tower,
            link,
            clock: context.clock,
            keepalive: context.keepalive,
            phase: Phase::Opening(Box::pin(tokio::time::sleep(OPEN_WITHIN))),
            look_again: None,
        })
    }

    /// Polls whatever rings until nothing does, or for [`ROUNDS`]. Ready when the connection has to go.
    fn run(&mut self) -> Poll<()> {
        for _ in 0..ROUNDS {
            if self.wire_bell.0.take() {
                let mut cx = Context::from_waker(&self.wire_bell.1);
                if Pin::new(&mut self.http2).poll(&mut cx).is_ready() {
                    // What was read before the end still counts.
                    while self.poll_parts() {}
                    return Poll::Ready(());
                }
            }
            self.poll_parts();
            if self.order_bell.0.take() && self.orders() {
                return Poll::Ready(());
            }
            if !self.rings() {
                break;
            }
        }
        Poll::Pending
    }

    fn rings(&self) -> bool {
        self.wire_bell.0.rings() || self.order_bell.0.rings() || self.parts.any_rings()
    }

    fn poll_parts(&mut self) -> bool {
        let round = self.parts.poll();
        if round.adopted && matches!(self.phase, Phase::Opening(_)) {
            self.phase = Phase::Carrying;
        }
        if !round.ended.is_empty() {
            let convicted = round.ended.contains(&Some(CloseReason::MissedHeartbeats));
            if convicted && !self.parts.has_pumps() {
                self.io.borrow().reset_on_drop();
            }
            if !matches!(self.phase, Phase::Leaving(_)) {
                self.leave();
            }
        }
        round.polled
    }

    fn leave(&mut self) {
        self.parts.condemn_orphans();
        self.phase = Phase::Leaving(Box::pin(tokio::time::sleep(LEAVE_WITHIN)));
        self.order_bell.0.ring();
    }

    /// What others asked of this connection, and its deadlines. True when it has to go.
    fn orders(&mut self) -> bool {
        let waker = &self.order_bell.1;
        self.link.register(waker);
        let mut cx = Context::from_waker(waker);
        let due = match &mut self.phase {
            Phase::Opening(deadline) | Phase::Leaving(deadline) => {
                deadline.as_mut().poll(&mut cx).is_ready()
            }
            Phase::Carrying => false,
        };
        let again = self.look_again.as_mut();
        let again = again.is_some_and(|pause| pause.as_mut().poll(&mut cx).is_ready());
        if due && self.drop_what_is_due() {
            return true;
        }
        if self.link.take_retuned() {
            self.apply_socket_options();
        }
        if self.link.take_account() {
            self.hear_kernel();
        }
        if self.link.take_peek() || again {
            self.peek();
        }
        false
    }

    /// A deadline has passed. True when the whole connection has to go.
    fn drop_what_is_due(&mut self) -> bool {
        self.parts.drop_condemned();
        if !self.parts.has_pumps() {
            return true;
        }
        self.phase = Phase::Carrying;
        if self.parts.has_orphans() {
            self.leave();
        }
        false
    }

    /// A shared connection lives as long as the most patient of its sessions.
    fn apply_socket_options(&self) {
        let sessions = self.link.sessions();
        let expectations = sessions.iter().map(|session| session.expectation());
        let Some(patient) = expectations.reduce(Expectation::component_max) else {
            return;
        };
        let options = self.keepalive.under(&patient);
        // Only a backstop: a socket that refuses is already broken, which its next read shows.
        let applied = self.io.borrow().apply(&options).is_ok();
        debug!(
            applied,
            keepalive = %options.keepalive,
            keepalive.adjusted = options.adjusted,
            user_timeout = ?options.user_timeout,
            "Socket options follow the tuning"
        );
    }

    fn hear_kernel(&self) {
        if let Some(kernel) = self.io.borrow().kernel() {
            self.link.tell(self.clock.now(), kernel);
        }
    }

    /// A nominated session wants to know whether the kernel holds something for it.
    fn peek(&mut self) {
        self.look_again = None;
        self.hear_kernel();
        let now = self.clock.now();
        if self.io.borrow().peek() == Waiting::Nothing && !self.wire_bell.0.rings() {
            self.link.quiet(now);
        } else if self
            .link
            .sessions()
            .iter()
            .any(|session| session.nominated().is_some())
        {
            // The reactor brings what waits, unless the peer blocks the connection by not reading.
            self.link.unread();
            self.look_again = Some(Box::pin(tokio::time::sleep(LOOK_AGAIN)));
            self.order_bell.0.ring();
        }
        self.parts.ring_pumps();
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let me = self.get_mut();
        me.tower.rise(cx.waker());
        if me.run().is_ready() {
            return Poll::Ready(());
        }
        me.tower.rest();
        if me.rings() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

fn builder(executor: Executor) -> http2::Builder<Executor> {
    let mut builder = http2::Builder::new(executor);
    builder
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(GIVEN_UP)
        .max_header_list_size(HEADER_BYTES)
        .max_send_buf_size(SEND_BUFFER)
        .auto_date_header(false);
    builder
}

impl AsyncRead for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(cx)
    }
}
