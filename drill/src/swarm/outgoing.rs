use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use fleetbeat_proto::v1::FromAgent;
use fleetbeat_proto::v1::from_agent::Message;
use futures_util::Stream;
use tokio::sync::mpsc;

use super::counts::Live;
use crate::clock;

/// What one session handed to its transport.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pings: AtomicU64,
    messages: AtomicU64,
    last_ns: AtomicU64,
    longest_gap_ns: AtomicU64,
}

impl Sent {
    pub(super) fn pings(&self) -> u64 {
        self.pings.load(Relaxed)
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Relaxed)
    }

    pub(super) fn longest_gap_ns(&self) -> u64 {
        self.longest_gap_ns.load(Relaxed)
    }

    // One task writes these, so a load and a store lose nothing.
    fn note(&self, now_ns: u64) {
        let before = self.last_ns.swap(now_ns, Relaxed);
        if before > 0 {
            self.longest_gap_ns
                .fetch_max(now_ns.saturating_sub(before), Relaxed);
        }
        self.messages.fetch_add(1, Relaxed);
    }
}

/// The agent's half of the stream. It counts and stamps each message when the transport takes it:
/// what still waits here when a session breaks was never sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) queue: mpsc::Receiver<FromAgent>,
    pub(super) sent: Arc<Sent>,
    pub(super) live: Arc<Live>,
}

impl Stream for Outgoing {
    type Item = FromAgent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<FromAgent>> {
        let Some(mut outer) = ready!(self.queue.poll_recv(context)) else {
            return Poll::Ready(None);
        };
        let now_ns = clock::moment().as_nanos();
        self.sent.note(now_ns);
        if let Some(Message::Ping(ping)) = &mut outer.message {
            ping.sent_ns = now_ns;
            self.sent.pings.fetch_add(1, Relaxed);
            self.live.pings.fetch_add(1, Relaxed);
        }
        Poll::Ready(Some(outer))
    }
}
