//! What an event rests on, as the JSON of `session_events.facts`.

use std::time::Duration;

use fleetbeat_liveness::grounds::{self, Heard, Silence};
use fleetbeat_proto::{nanos, v1};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The facts of one event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grounds: Option<Grounds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// The facts behind a verdict, named as in the contract.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Grounds {
    trigger: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_ns: Option<u64>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    silence: Option<Silent>,
    lane_lag_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    judged_late_ns: Option<u64>,
    held_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Silent {
    last_message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_ping_seq: Option<u64>,
    silence_ns: u64,
    beats_missed: u64,
    session_beats_expected: u64,
    session_beats: u64,
    rtt_median_ns: Option<u64>,
    rtt_p95_ns: Option<u64>,
    rtt_last_ns: Option<u64>,
    agent_lag_ns: u64,
    agent_queue_depth: u32,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    kernel: Option<Kernel>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kernel {
    path: String,
    ack_age_ns: u64,
    unacked: u32,
    retransmits: u32,
}

impl Facts {
    /// As it stands in Postgres. What cannot be understood, because a later version wrote it, is nothing.
    pub(super) fn read(json: Option<Value>) -> Self {
        let facts = json.and_then(|json| serde_json::from_value(json).ok());
        facts.unwrap_or_default()
    }
}

impl From<&grounds::Grounds> for Grounds {
    fn from(told: &grounds::Grounds) -> Self {
        Self {
            trigger: told.trigger.as_str().to_owned(),
            limit_ns: told.trigger.limit().map(nanos),
            silence: told.silence.as_ref().map(Silent::from),
            lane_lag_ns: nanos(told.lane_lag),
            judged_late_ns: told.judged_late().map(nanos),
            held_ns: nanos(told.held),
        }
    }
}

impl From<&Silence> for Silent {
    fn from(told: &Silence) -> Self {
        let rtt = |value: Option<Duration>| value.map(nanos);
        Self {
            last_message: told.last.as_str().to_owned(),
            last_ping_seq: match told.last {
                Heard::Ping(seq) => Some(seq),
                Heard::Hello
                | Heard::CheckReply
                | Heard::TuningAck
                | Heard::ProbeReport
                | Heard::Goodbye
                | Heard::Other => None,
            },
            silence_ns: nanos(told.age),
            beats_missed: told.missed,
            session_beats_expected: told.owed,
            session_beats: told.beats,
            rtt_median_ns: rtt(told.rtt.median),
            rtt_p95_ns: rtt(told.rtt.p95),
            rtt_last_ns: rtt(told.rtt.last),
            agent_lag_ns: nanos(told.agent_lag),
            agent_queue_depth: told.agent_queue,
            kernel: told.evidence.map(|evidence| Kernel {
                path: evidence.path.as_str().to_owned(),
                ack_age_ns: nanos(evidence.kernel.ack_age),
                unacked: evidence.kernel.unacked,
                retransmits: evidence.kernel.retransmits,
            }),
        }
    }
}

impl From<Grounds> for v1::Grounds {
    fn from(facts: Grounds) -> Self {
        let mut message = Self {
            trigger: facts.trigger,
            limit_ns: facts.limit_ns,
            lane_lag_ns: facts.lane_lag_ns,
            judged_late_ns: facts.judged_late_ns,
            held_ns: facts.held_ns,
            ..Self::default()
        };
        let Some(silence) = facts.silence else {
            return message;
        };
        message.last_message = silence.last_message;
        message.last_ping_seq = silence.last_ping_seq;
        message.silence_ns = Some(silence.silence_ns);
        message.beats_missed = Some(silence.beats_missed);
        message.session_beats_expected = Some(silence.session_beats_expected);
        message.session_beats = Some(silence.session_beats);
        message.rtt_median_ns = silence.rtt_median_ns;
        message.rtt_p95_ns = silence.rtt_p95_ns;
        message.rtt_last_ns = silence.rtt_last_ns;
        message.agent_lag_ns = Some(silence.agent_lag_ns);
        message.agent_queue_depth = Some(silence.agent_queue_depth);
        if let Some(kernel) = silence.kernel {
            message.path = kernel.path;
            message.ack_age_ns = Some(kernel.ack_age_ns);
            message.unacked = Some(kernel.unacked);
            message.retransmits = Some(kernel.retransmits);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use fleetbeat_liveness::grounds::Trigger;
    use fleetbeat_liveness::path;
    use fleetbeat_liveness::rtt::Window;

    use super::*;

    fn silence() -> Silence {
        let mut rtt = Window::new();
        rtt.push(Duration::from_millis(3));
        let kernel = path::Kernel {
            ack_age: Duration::from_secs(61),
            unacked: 1,
            retransmits: 6,
        };
        Silence {
            last: Heard::Ping(7),
            age: Duration::from_secs(63),
            missed: 3,
            owed: 11,
            beats: 7,
            rtt: rtt.summary(),
            agent_lag: Duration::ZERO,
            agent_queue: 2,
            evidence: Some(path::Evidence {
                kernel,
                path: path::Path::Gone,
            }),
        }
    }

    #[test]
    fn grounds_come_back_from_their_json_as_they_were() {
        let limit = Duration::from_secs(62);
        let silent = grounds::Grounds {
            trigger: Trigger::Silent { limit },
            silence: Some(silence()),
            lane_lag: Duration::from_millis(2),
            held: Duration::ZERO,
        };
        let without_kernel = grounds::Grounds {
            silence: Some(Silence {
                evidence: None,
                last: Heard::Hello,
                ..silence()
            }),
            ..silent.clone()
        };
        for told in [
            silent,
            without_kernel,
            grounds::Grounds::bare(Trigger::ServerAway),
        ] {
            let facts = Facts {
                grounds: Some((&told).into()),
                ..Facts::default()
            };
            let json = serde_json::to_value(&facts).unwrap();
            assert_eq!(Facts::read(Some(json.clone())), facts, "{json}");
        }
    }

    #[test]
    fn the_message_carries_every_fact() {
        let limit = Duration::from_secs(62);
        let told = grounds::Grounds {
            trigger: Trigger::Silent { limit },
            silence: Some(silence()),
            lane_lag: Duration::from_millis(2),
            held: Duration::ZERO,
        };
        let message = v1::Grounds::from(Grounds::from(&told));
        assert_eq!(message.last_ping_seq, Some(7));
        assert_eq!(message.judged_late_ns, Some(1_000_000_000));
        assert_eq!((message.path.as_str(), message.unacked), ("gone", Some(1)));
        assert_eq!(message.rtt_last_ns, Some(3_000_000));
    }

    #[test]
    fn facts_of_a_later_version_are_no_reason_to_show_no_events() {
        let later = serde_json::json!({ "grounds": "told otherwise" });
        assert_eq!(Facts::read(Some(later)), Facts::default());
        assert_eq!(Facts::read(None), Facts::default());
    }
}
