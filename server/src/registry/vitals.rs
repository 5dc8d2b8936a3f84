use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use fleetbeat_liveness::grounds::Heard;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_proto::nanos;

/// What one session last told, beside when. Its own task writes, everybody may read; each value is its
/// own truth, so relaxed ordering is enough.
#[derive(Debug, Default)]
pub struct Vitals {
    kind: AtomicU8,
    lag_ns: AtomicU64,
    queue: AtomicU32,
    /// When the agent was asked for a sign of life; 0 while it was not.
    asked: AtomicU64,
    strained: AtomicBool,
}

impl Vitals {
    pub(super) fn heard(&self, kind: Heard) {
        self.kind.store(code(kind), Ordering::Relaxed);
    }

    /// Kind of the last message; `beats` PINGs have come, and each has the number of its place.
    pub(super) fn last(&self, beats: u64) -> Heard {
        match self.kind.load(Ordering::Relaxed) {
            0 => Heard::Hello,
            1 => Heard::Ping(beats),
            2 => Heard::CheckReply,
            3 => Heard::TuningAck,
            4 => Heard::ProbeReport,
            5 => Heard::Goodbye,
            _ => Heard::Other,
        }
    }

    /// The agent's account of itself in a PING.
    pub fn told(&self, lag: Duration, queue: u32) {
        self.lag_ns.store(nanos(lag), Ordering::Relaxed);
        self.queue.store(queue, Ordering::Relaxed);
    }

    pub(super) fn account(&self) -> (Duration, u32) {
        let lag = Duration::from_nanos(self.lag_ns.load(Ordering::Relaxed));
        (lag, self.queue.load(Ordering::Relaxed))
    }

    pub(super) fn asked_at(&self, now: Moment) {
        self.asked.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// When the agent was asked for a sign of life after `heard`.
    pub(super) fn asked_since(&self, heard: Moment) -> Option<Moment> {
        let asked = Moment::from_nanos(self.asked.load(Ordering::Relaxed));
        (asked > heard).then_some(asked)
    }

    pub(super) fn set_strained(&self, strained: bool) {
        self.strained.store(strained, Ordering::Relaxed);
    }

    pub(super) fn strained(&self) -> bool {
        self.strained.load(Ordering::Relaxed)
    }
}

const fn code(kind: Heard) -> u8 {
    match kind {
        Heard::Hello => 0,
        Heard::Ping(_) => 1,
        Heard::CheckReply => 2,
        Heard::TuningAck => 3,
        Heard::ProbeReport => 4,
        Heard::Goodbye => 5,
        Heard::Other => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_the_last_message_is_kept() {
        let vitals = Vitals::default();
        assert_eq!(vitals.last(0), Heard::Hello);
        for kind in [
            Heard::Ping(9),
            Heard::CheckReply,
            Heard::TuningAck,
            Heard::ProbeReport,
            Heard::Goodbye,
            Heard::Other,
            Heard::Hello,
        ] {
            vitals.heard(kind);
            assert_eq!(vitals.last(9), kind);
        }
    }

    #[test]
    fn a_question_counts_until_the_agent_is_heard_after_it() {
        let vitals = Vitals::default();
        let at = Moment::from_nanos;
        assert_eq!(vitals.asked_since(at(5)), None);
        vitals.asked_at(at(10));
        assert_eq!(vitals.asked_since(at(5)), Some(at(10)));
        assert_eq!(vitals.asked_since(at(11)), None);
    }
}
