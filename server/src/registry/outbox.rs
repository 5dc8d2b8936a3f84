use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_proto::nanos;
use fleetbeat_proto::v1::{
    Bye, Check, CloseReason, FromServer, Pong, TuningPush, Welcome, from_server::Message,
};
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

const PONG: u32 = 1;
const WELCOME: u32 = 1 << 1;
const TUNING: u32 = 1 << 2;
const CHECK: u32 = 1 << 3;
const BYE: u32 = 1 << 4;
const DONE: u32 = 1 << 5;

/// What waits to be sent on one stream: one latest-wins place for each kind of message.
///
/// A reader that does not read costs these places and no more. Any thread may put a message; PONG is
/// put and taken by the session's own task alone and therefore needs no lock.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: AtomicU32,
    pong: PongPlace,
    rare: Mutex<Rare>,
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct PongPlace {
    seq: AtomicU64,
    sent_ns: AtomicU64,
    received: AtomicU64,
    /// When the place was first overwritten without being taken; 0 when it was not.
    overwritten: AtomicU64,
}

#[derive(Debug, Default)]
struct Rare {
    welcome: Option<Welcome>,
    tuning: Option<TuningPush>,
    check: Option<u64>,
    bye: Option<Bye>,
}

/// What the peer is told before a deliberate end.
#[derive(Clone, Debug, PartialEq)]
pub struct Farewell {
    pub reason: CloseReason,
    /// Window for the next attempt, from receipt.
    pub window: Option<(Duration, Duration)>,
    pub stale_floor: Option<Fence>,
    pub detail: String,
}

impl Farewell {
    #[must_use]
    pub fn new(reason: CloseReason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            window: None,
            stale_floor: None,
            detail: detail.into(),
        }
    }

    #[must_use]
    pub fn within(mut self, min: Duration, max: Duration) -> Self {
        self.window = Some((min, max));
        self
    }

    fn into_bye(self) -> Bye {
        let window = self.window.map(|(min, max)| (nanos(min), nanos(max)));
        Bye {
            reason: self.reason.into(),
            retry_after_min_ns: window.map(|w| w.0),
            retry_after_max_ns: window.map(|w| w.1),
            stale_floor: self.stale_floor.map(Into::into),
            detail: self.detail,
        }
    }
}

impl Outbox {
    /// When the agent sent its last PING, on its own clock, and when that was received; `None` before the
    /// first. Called by the session's own task only.
    pub fn last_ping(&self) -> Option<(u64, Moment)> {
        let place = &self.pong;
        let known = place.seq.load(Ordering::Relaxed) > 0;
        let received = Moment::from_nanos(place.received.load(Ordering::Relaxed));
        known.then(|| (place.sent_ns.load(Ordering::Relaxed), received))
    }

    /// Places the answer to a PING. Called by the session's own task only.
    ///
    /// Returns for how long this place has been overwritten without being taken.
    pub fn pong(&self, seq: u64, sent_ns: u64, received: Moment) -> Duration {
        let place = &self.pong;
        place.seq.store(seq, Ordering::Relaxed);
        place.sent_ns.store(sent_ns, Ordering::Relaxed);
        place.received.store(received.as_nanos(), Ordering::Relaxed);
        if self.waiting.fetch_or(PONG, Ordering::AcqRel) & PONG == 0 {
            place.overwritten.store(0, Ordering::Relaxed);
            self.waker.wake();
            return Duration::ZERO;
        }
        match place.overwritten.load(Ordering::Relaxed) {
            0 => {
                place
                    .overwritten
                    .store(received.as_nanos(), Ordering::Relaxed);
                Duration::ZERO
            }
            since => received.since(Moment::from_nanos(since)),
        }
    }

    pub fn welcome(&self, welcome: Welcome) {
        self.put(WELCOME, |rare| rare.welcome = Some(welcome));
    }

    pub fn tuning(&self, push: TuningPush) {
        self.put(TUNING, |rare| rare.tuning = Some(push));
    }

    pub fn check(&self, nonce: u64) {
        self.put(CHECK, |rare| rare.check = Some(nonce));
    }

    /// Places the last message; the stream ends after it.
    pub fn bye(&self, farewell: Farewell) {
        self.put(BYE, |rare| rare.bye = Some(farewell.into_bye()));
    }

    /// Ends the stream without a word.
    pub fn finish(&self) {
        self.put(DONE, |_| ());
    }

    fn put(&self, kind: u32, place: impl FnOnce(&mut Rare)) {
        place(&mut self.rare.lock());
        self.waiting.fetch_or(kind, Ordering::AcqRel);
        self.waker.wake();
    }

    /// Yields the next message, `None` after the last.
    pub fn poll_next(
        &self,
        cx: &mut Context<'_>,
        now: impl Fn() -> Moment,
        fill: impl Fn(&mut Pong),
    ) -> Poll<Option<FromServer>> {
        match self.take(&now, &fill) {
            Poll::Ready(message) => Poll::Ready(message),
            Poll::Pending => {
                self.waker.register(cx.waker());
                self.take(&now, &fill)
            }
        }
    }

    fn take(
        &self,
        now: &impl Fn() -> Moment,
        fill: &impl Fn(&mut Pong),
    ) -> Poll<Option<FromServer>> {
        let waiting = self.waiting.load(Ordering::Acquire);
        if waiting == 0 {
            return Poll::Pending;
        }
        let first = waiting & waiting.wrapping_neg();
        let kind = if waiting & (WELCOME | TUNING | CHECK) != 0 {
            let rare = waiting & (WELCOME | TUNING | CHECK);
            rare & rare.wrapping_neg()
        } else {
            first
        };
        if kind == DONE {
            return Poll::Ready(None);
        }
        self.waiting.fetch_and(!kind, Ordering::AcqRel);
        let message = if kind == PONG {
            Some(Message::Pong(self.take_pong(now, fill)))
        } else {
            self.take_rare(kind)
        };
        match message {
            Some(_) => Poll::Ready(Some(FromServer { message })),
            // Its place was taken together with an earlier mark.
            None => self.take(now, fill),
        }
    }

    fn take_pong(&self, now: &impl Fn() -> Moment, fill: &impl Fn(&mut Pong)) -> Pong {
        let received = Moment::from_nanos(self.pong.received.load(Ordering::Relaxed));
        let mut pong = Pong {
            seq: self.pong.seq.load(Ordering::Relaxed),
            sent_ns: self.pong.sent_ns.load(Ordering::Relaxed),
            hold_ns: nanos(now().since(received)),
            lag_ns: None,
            queue_depth: None,
            reconnect_spread_ns: None,
        };
        fill(&mut pong);
        pong
    }

    fn take_rare(&self, kind: u32) -> Option<Message> {
        let mut rare = self.rare.lock();
        match kind {
            WELCOME => rare.welcome.take().map(Message::Welcome),
            TUNING => rare.tuning.take().map(Message::Tuning),
            CHECK => rare
                .check
                .take()
                .map(|nonce| Message::Check(Check { nonce })),
            _ => {
                let bye = rare.bye.take();
                self.waiting.fetch_or(DONE, Ordering::AcqRel);
                bye.map(Message::Bye)
            }
        }
    }
}
