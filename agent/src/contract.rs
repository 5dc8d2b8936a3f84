//! Between the wire's messages and the values that decisions are made on.

use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::{Revised, Tuning};
use fleetbeat_proto::v1;

/// Version of the contract that this agent speaks.
pub(crate) const PROTOCOL: u32 = 1;
/// Bound of every free text on the wire, in bytes.
const MAX_TEXT: usize = 255;

/// Takes a tuning from the wire.
///
/// # Errors
/// What is unset or out of bounds, at most 255 bytes.
pub(crate) fn tuning(wire: Option<&v1::Tuning>) -> Result<Tuning, String> {
    let wire = wire.ok_or("tuning is not set")?;
    let interval = wire.interval_ns.ok_or("interval is not set")?;
    let misses = wire.misses.ok_or("misses is not set")?;
    let timeout = wire.timeout_ns.ok_or("timeout is not set")?;
    Tuning::new(
        Duration::from_nanos(interval),
        misses,
        Duration::from_nanos(timeout),
        wire.pong_every.unwrap_or(1),
    )
    .map_err(|error| text(&error.to_string()))
}

/// Takes a tuning with its revision from the wire; the hash must identify the values.
///
/// # Errors
/// What is unset, out of bounds or contradictory, at most 255 bytes.
pub(crate) fn revised(wire: &v1::RevisedTuning) -> Result<Revised, String> {
    let revised = Revised {
        revision: wire.revision,
        tuning: tuning(wire.tuning.as_ref())?,
    };
    if revised.hash() != wire.hash {
        return Err("the hash does not identify these values".to_owned());
    }
    Ok(revised)
}

pub(crate) fn revised_to_wire(revised: &Revised) -> v1::RevisedTuning {
    let tuning = &revised.tuning;
    v1::RevisedTuning {
        revision: revised.revision,
        hash: revised.hash(),
        tuning: Some(v1::Tuning {
            interval_ns: Some(nanos(tuning.interval())),
            misses: Some(tuning.misses()),
            timeout_ns: Some(nanos(tuning.timeout())),
            pong_every: Some(tuning.pong_every()),
        }),
    }
}

pub(crate) fn fence_to_wire(fence: Fence) -> v1::Fence {
    v1::Fence {
        incarnation: fence.incarnation,
        connection: fence.connection,
    }
}

/// Whole nanoseconds, saturating.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// `raw` within the bounds of free text on the wire: control characters become spaces, and what is
/// beyond 255 bytes is cut at a character.
pub(crate) fn text(raw: &str) -> String {
    let mut text: String = raw
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

/// The word of DESIGN's glossary for a close reason, as logs carry it.
pub(crate) fn reason_word(reason: v1::CloseReason) -> &'static str {
    use v1::CloseReason as Reason;
    match reason {
        Reason::Unspecified => "unspecified",
        Reason::Goodbye => "goodbye",
        Reason::MissedHeartbeats => "missed_heartbeats",
        Reason::TransportError => "transport_error",
        Reason::PeerGaveUp => "peer_gave_up",
        Reason::Superseded => "superseded",
        Reason::SlowConsumer => "slow_consumer",
        Reason::ServerDrain => "server_drain",
        Reason::Shed => "shed",
        Reason::ProtocolError => "protocol_error",
        Reason::AuthRevoked => "auth_revoked",
        Reason::DuplicateIdentity => "duplicate_identity",
        Reason::ServerLost => "server_lost",
    }
}

#[cfg(test)]
mod tests {
    use super::{revised, revised_to_wire, text, tuning};
    use fleetbeat_liveness::{Revised, Tuning};
    use fleetbeat_proto::v1;

    /// Field report E11.
    #[test]
    fn a_tuning_that_no_agent_could_keep_is_refused_with_the_reason() {
        let good = v1::Tuning {
            interval_ns: Some(1_000_000_000),
            misses: Some(3),
            timeout_ns: Some(500_000_000),
            pong_every: None,
        };
        assert_eq!(tuning(Some(&good)).unwrap().pong_every(), 1);
        for (bad, word) in [
            (
                v1::Tuning {
                    interval_ns: Some(0),
                    ..good
                },
                "interval",
            ),
            (
                v1::Tuning {
                    interval_ns: Some(u64::MAX),
                    ..good
                },
                "interval",
            ),
            (
                v1::Tuning {
                    interval_ns: None,
                    ..good
                },
                "interval is not set",
            ),
            (
                v1::Tuning {
                    misses: Some(0),
                    ..good
                },
                "misses",
            ),
            (
                v1::Tuning {
                    misses: Some(u32::MAX),
                    ..good
                },
                "misses",
            ),
            (
                v1::Tuning {
                    misses: None,
                    ..good
                },
                "misses is not set",
            ),
            (
                v1::Tuning {
                    timeout_ns: Some(2_000_000_000),
                    ..good
                },
                "timeout",
            ),
            (
                v1::Tuning {
                    timeout_ns: Some(u64::MAX),
                    ..good
                },
                "timeout",
            ),
            (
                v1::Tuning {
                    timeout_ns: None,
                    ..good
                },
                "timeout is not set",
            ),
            (
                v1::Tuning {
                    pong_every: Some(0),
                    ..good
                },
                "pong_every",
            ),
        ] {
            let reason = tuning(Some(&bad)).unwrap_err();
            assert!(reason.contains(word), "{bad:?}: {reason}");
            assert!(reason.len() <= 255, "{reason}");
        }
        assert!(tuning(None).is_err());
    }

    #[test]
    fn a_revision_survives_the_wire_and_a_wrong_hash_does_not() {
        let sent = Revised {
            revision: 7,
            tuning: Tuning::default(),
        };
        let mut wire = revised_to_wire(&sent);
        assert_eq!(revised(&wire).unwrap(), sent);
        wire.hash ^= 1;
        assert!(revised(&wire).unwrap_err().contains("hash"));
    }

    #[test]
    fn text_is_cut_at_a_character_and_holds_no_control() {
        assert_eq!(text("a\nb\0"), "a b ");
        let cut = text(&"é".repeat(200));
        assert_eq!(cut.len(), 254);
    }
}
