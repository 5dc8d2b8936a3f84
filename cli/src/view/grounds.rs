use fleetbeat_proto::v1;
use serde::Serialize;

/// The facts behind a verdict, as they were when it was reached.
#[derive(Debug, Serialize)]
pub(crate) struct Grounds {
    pub(crate) trigger: String,
    pub(crate) last_message: Option<String>,
    pub(crate) last_ping_seq: Option<u64>,
    pub(crate) silence_ns: Option<u64>,
    pub(crate) limit_ns: Option<u64>,
    pub(crate) beats_missed: Option<u64>,
    pub(crate) session_beats_expected: Option<u64>,
    pub(crate) session_beats: Option<u64>,
    pub(crate) rtt_median_ns: Option<u64>,
    pub(crate) rtt_p95_ns: Option<u64>,
    pub(crate) rtt_last_ns: Option<u64>,
    pub(crate) agent_lag_ns: Option<u64>,
    pub(crate) agent_queue_depth: Option<u32>,
    /// What the kernel's acknowledgements say of the path: works, gone, untried.
    pub(crate) path: Option<String>,
    pub(crate) ack_age_ns: Option<u64>,
    pub(crate) unacked: Option<u32>,
    pub(crate) retransmits: Option<u32>,
    pub(crate) lane_lag_ns: u64,
    pub(crate) judged_late_ns: Option<u64>,
    pub(crate) held_ns: u64,
}

impl Grounds {
    pub(super) fn from_wire(wire: v1::Grounds) -> Self {
        Self {
            trigger: wire.trigger,
            last_message: super::told(wire.last_message),
            last_ping_seq: wire.last_ping_seq,
            silence_ns: wire.silence_ns,
            limit_ns: wire.limit_ns,
            beats_missed: wire.beats_missed,
            session_beats_expected: wire.session_beats_expected,
            session_beats: wire.session_beats,
            rtt_median_ns: wire.rtt_median_ns,
            rtt_p95_ns: wire.rtt_p95_ns,
            rtt_last_ns: wire.rtt_last_ns,
            agent_lag_ns: wire.agent_lag_ns,
            agent_queue_depth: wire.agent_queue_depth,
            path: super::told(wire.path),
            ack_age_ns: wire.ack_age_ns,
            unacked: wire.unacked,
            retransmits: wire.retransmits,
            lane_lag_ns: wire.lane_lag_ns,
            judged_late_ns: wire.judged_late_ns,
            held_ns: wire.held_ns,
        }
    }
}
