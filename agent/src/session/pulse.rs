use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_proto::v1;

use fleetbeat_proto::nanos;

/// Below this the agent's own lag is noise and not worth its bytes.
const LAG_LEAST: Duration = Duration::from_millis(50);

/// What a PONG tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It answers nothing that was sent on this stream.
    Stranger,
    /// It proves life and tells no round trip that is new and sound.
    Life,
    /// A round trip without the server's hold time.
    Trip(Duration),
}

/// PINGs sent and what their PONGs tell, all on this host's monotonic clock.
#[derive(Debug)]
pub(super) struct Pulse {
    since: Moment,
    sent: u64,
    /// Newest PING whose round trip is known or can no longer be.
    settled: u64,
    /// A round trip that no PING has carried yet, with its sequence number.
    sample: Option<(u64, Duration)>,
    lag: Duration,
}

impl Pulse {
    pub(super) fn new(since: Moment) -> Self {
        Self {
            since,
            sent: 0,
            settled: 0,
            sample: None,
            lag: Duration::ZERO,
        }
    }

    /// The next PING, sent at `now`; it carries every measurement once.
    pub(super) fn ping(&mut self, now: Moment, waiting: usize) -> v1::Ping {
        self.sent += 1;
        let sample = self.sample.take();
        let lag = std::mem::take(&mut self.lag);
        v1::Ping {
            seq: self.sent,
            sent_ns: now.as_nanos(),
            rtt_ns: sample.map(|(_, rtt)| nanos(rtt)),
            rtt_seq: sample.map(|(seq, _)| seq),
            lag_ns: (lag > LAG_LEAST).then(|| nanos(lag)),
            queue_depth: (waiting > 0).then(|| u32::try_from(waiting).unwrap_or(u32::MAX)),
        }
    }

    /// Keeps a new round trip for the next PING.
    pub(super) fn answered(&mut self, now: Moment, pong: &v1::Pong) -> Answer {
        let sent = Moment::from_nanos(pong.sent_ns);
        if pong.seq == 0 || pong.seq > self.sent || sent < self.since || sent > now {
            return Answer::Stranger;
        }
        if pong.seq <= self.settled {
            return Answer::Life;
        }
        self.settled = pong.seq;
        let hold = Duration::from_nanos(pong.hold_ns);
        // A hold longer than the whole trip is a clock at fault: no sample, never a negative one.
        let trip = now.since(sent).checked_sub(hold);
        self.sample = trip.map(|trip| (pong.seq, trip));
        trip.map_or(Answer::Life, Answer::Trip)
    }

    /// Round trips under way are worth nothing any more, because the host slept.
    pub(super) fn forget(&mut self) {
        self.settled = self.sent;
        self.sample = None;
    }

    pub(super) fn lagged(&mut self, late: Duration) {
        self.lag = self.lag.max(late);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetbeat_liveness::Moment;
    use fleetbeat_proto::v1;

    use super::{Answer, Pulse};

    const START: Moment = Moment::from_nanos(1_000_000);

    fn ms(ms: u64) -> Moment {
        START + Duration::from_millis(ms)
    }

    fn pong(ping: &v1::Ping, hold_ms: u64) -> v1::Pong {
        v1::Pong {
            seq: ping.seq,
            sent_ns: ping.sent_ns,
            hold_ns: hold_ms * 1_000_000,
            ..v1::Pong::default()
        }
    }

    #[test]
    fn a_round_trip_excludes_the_hold_and_is_reported_once() {
        let mut pulse = Pulse::new(START);
        let first = pulse.ping(ms(10), 0);
        assert_eq!((first.seq, first.rtt_ns, first.rtt_seq), (1, None, None));
        assert_eq!(
            pulse.answered(ms(40), &pong(&first, 5)),
            Answer::Trip(Duration::from_millis(25))
        );
        let second = pulse.ping(ms(100), 0);
        assert_eq!((second.rtt_ns, second.rtt_seq), (Some(25_000_000), Some(1)));
        assert_eq!(pulse.ping(ms(200), 0).rtt_ns, None);
    }

    #[test]
    fn a_late_answer_is_still_a_sample_and_a_repeated_one_is_not() {
        let mut pulse = Pulse::new(START);
        let first = pulse.ping(ms(0), 0);
        pulse.ping(ms(2_000), 0);
        assert_eq!(
            pulse.answered(ms(3_000), &pong(&first, 0)),
            Answer::Trip(Duration::from_secs(3))
        );
        assert_eq!(pulse.ping(ms(4_000), 0).rtt_ns, Some(3_000_000_000));
        assert_eq!(pulse.answered(ms(5_000), &pong(&first, 0)), Answer::Life);
        assert_eq!(pulse.ping(ms(6_000), 0).rtt_ns, None);
    }

    #[test]
    fn an_answer_to_nothing_of_this_stream_is_ignored() {
        let mut pulse = Pulse::new(START);
        let ping = pulse.ping(ms(10), 0);
        let answer = pong(&ping, 0);
        for stranger in [
            v1::Pong { seq: 0, ..answer },
            v1::Pong { seq: 2, ..answer },
            v1::Pong {
                seq: u64::MAX,
                ..answer
            },
            v1::Pong {
                sent_ns: 0,
                ..answer
            },
            v1::Pong {
                sent_ns: u64::MAX,
                ..answer
            },
        ] {
            let answer = pulse.answered(ms(20), &stranger);
            assert_eq!(answer, Answer::Stranger, "{stranger:?}");
        }
        assert_eq!(pulse.ping(ms(30), 0).rtt_ns, None);
    }

    /// Field report B09.
    #[test]
    fn a_hold_beyond_the_whole_trip_gives_no_sample() {
        let mut pulse = Pulse::new(START);
        let ping = pulse.ping(ms(10), 0);
        assert_eq!(pulse.answered(ms(20), &pong(&ping, 11)), Answer::Life);
        assert_eq!(pulse.ping(ms(30), 0).rtt_ns, None);
    }

    /// Field report B06.
    #[test]
    fn a_trip_that_spans_a_sleep_gives_no_sample() {
        let mut pulse = Pulse::new(START);
        let ping = pulse.ping(ms(10), 0);
        pulse.forget();
        assert_eq!(pulse.answered(ms(30), &pong(&ping, 0)), Answer::Life);
        assert_eq!(pulse.ping(ms(40), 0).rtt_ns, None);
    }

    #[test]
    fn lag_is_reported_once_and_only_when_it_matters() {
        let mut pulse = Pulse::new(START);
        pulse.lagged(Duration::from_millis(50));
        assert_eq!(pulse.ping(ms(10), 0).lag_ns, None);
        pulse.lagged(Duration::from_millis(80));
        pulse.lagged(Duration::from_millis(60));
        assert_eq!(pulse.ping(ms(20), 0).lag_ns, Some(80_000_000));
        assert_eq!(pulse.ping(ms(30), 2).lag_ns, None);
    }
}
