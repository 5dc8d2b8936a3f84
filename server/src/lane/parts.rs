//! The futures that run inside one connection's task.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fleetbeat_proto::v1::CloseReason;

use super::bell::{Bell, Tower};
use super::pump::Pump;
use super::service::Porch;

type Stream = Pin<Box<dyn Future<Output = ()>>>;

/// Hands hyper's stream futures to the connection instead of to the runtime.
#[derive(Clone, Default)]
pub(super) struct Executor(Rc<RefCell<Vec<Stream>>>);

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Executor {
    fn execute(&self, future: F) {
        self.0.borrow_mut().push(Box::pin(future));
    }
}

/// Streams and pumps of one connection.
pub(super) struct Parts {
    tower: Arc<Tower>,
    born: Executor,
    porch: Porch,
    all: Vec<Part>,
    next: u64,
}

struct Part {
    id: u64,
    bell: Arc<Bell>,
    waker: Waker,
    kind: Kind,
}

enum Kind {
    /// hyper's half: calls the service, then sends its body.
    Stream { future: Stream, orphan: Orphan },
    /// Ours: reads what the stream with this id brings.
    Pump { pump: Box<Pump>, stream: u64 },
}

/// A stream whose pump has ended may send its last words for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Orphan {
    No,
    Since,
    Condemned,
}

/// What one round of polling brought.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) polled: bool,
    pub(super) adopted: bool,
    /// Reasons of the pumps that ended.
    pub(super) ended: Vec<Option<CloseReason>>,
}

impl Parts {
    pub(super) fn new(tower: &Arc<Tower>, born: Executor, porch: Porch) -> Self {
        Self {
            tower: Arc::clone(tower),
            born,
            porch,
            all: Vec::new(),
            next: 0,
        }
    }

    /// Polls every part whose bell rang, once.
    pub(super) fn poll(&mut self) -> Round {
        let mut round = Round::default();
        for future in self.born.0.take() {
            self.add(Kind::Stream {
                future,
                orphan: Orphan::No,
            });
        }
        let mut at = 0;
        while at < self.all.len() {
            if !self.all[at].bell.take() {
                at += 1;
                continue;
            }
            round.polled = true;
            if self.poll_part(at, &mut round) {
                self.all.swap_remove(at);
            } else {
                at += 1;
            }
        }
        round
    }

    /// True when the part is done.
    fn poll_part(&mut self, at: usize, round: &mut Round) -> bool {
        let part = &mut self.all[at];
        let id = part.id;
        let mut cx = Context::from_waker(&part.waker);
        match &mut part.kind {
            Kind::Stream { future, .. } => {
                let done = future.as_mut().poll(&mut cx).is_ready();
                while let Some(pump) = self.porch.take() {
                    let pump = Box::new(pump);
                    self.add(Kind::Pump { pump, stream: id });
                    round.adopted = true;
                }
                done
            }
            Kind::Pump { pump, stream } => {
                let stream = *stream;
                let Poll::Ready(reason) = pump.poll(&mut cx) else {
                    return false;
                };
                round.ended.push(reason);
                self.orphan(stream);
                true
            }
        }
    }

    fn add(&mut self, kind: Kind) {
        let bell = Bell::ringing(&self.tower);
        let waker = Waker::from(Arc::clone(&bell));
        self.all.push(Part {
            id: self.next,
            bell,
            waker,
            kind,
        });
        self.next += 1;
    }

    fn orphan(&mut self, stream: u64) {
        for part in &mut self.all {
            if let Kind::Stream { orphan, .. } = &mut part.kind
                && part.id == stream
            {
                *orphan = Orphan::Since;
            }
        }
    }

    /// Whether a stream is left without its pump.
    pub(super) fn has_orphans(&self) -> bool {
        let orphan = |part: &Part| match part.kind {
            Kind::Stream { orphan, .. } => orphan != Orphan::No,
            Kind::Pump { .. } => false,
        };
        self.all.iter().any(orphan)
    }

    /// Marks the orphans of this moment.
    pub(super) fn condemn_orphans(&mut self) {
        for part in &mut self.all {
            if let Kind::Stream { orphan, .. } = &mut part.kind
                && *orphan != Orphan::No
            {
                *orphan = Orphan::Condemned;
            }
        }
    }

    /// Drops the streams marked before, which resets them.
    pub(super) fn drop_condemned(&mut self) {
        self.all.retain(|part| {
            !matches!(
                part.kind,
                Kind::Stream {
                    orphan: Orphan::Condemned,
                    ..
                }
            )
        });
    }

    pub(super) fn any_rings(&self) -> bool {
        !self.born.0.borrow().is_empty() || self.all.iter().any(|part| part.bell.rings())
    }

    pub(super) fn has_pumps(&self) -> bool {
        self.all
            .iter()
            .any(|part| matches!(part.kind, Kind::Pump { .. }))
    }

    pub(super) fn ring_pumps(&self) {
        for part in &self.all {
            if matches!(part.kind, Kind::Pump { .. }) {
                part.bell.ring();
            }
        }
    }
}
