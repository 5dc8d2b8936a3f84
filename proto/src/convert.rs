//! Between the messages and the values that the rest of the code decides with.

use std::time::Duration;

use fleetbeat_liveness::cause::Cause;
use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::tuning::{Tuning, TuningError};
use fleetbeat_liveness::verdict::Verdict;

use crate::v1;

/// Why a message holds no usable value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// `optional` fields that this place requires.
    #[error("{0} is not set")]
    Missing(&'static str),
    #[error(transparent)]
    Tuning(#[from] TuningError),
    #[error("hash {told:016x} does not belong to {tuning}, whose hash is {computed:016x}")]
    Hash {
        told: u64,
        computed: u64,
        tuning: Tuning,
    },
}

/// Version of the contract that this code speaks.
pub const PROTOCOL: u32 = 1;

/// Longest free text on the wire, bytes.
const FREE_TEXT: usize = 255;

/// `raw` within the bounds of free text: control characters become spaces, and what is beyond 255 bytes
/// is cut at a character.
#[must_use]
pub fn free_text(raw: &str) -> String {
    let mut text: String = raw
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    text.truncate(text.floor_char_boundary(FREE_TEXT));
    text
}

/// Whole nanoseconds; saturates after 584 years.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl From<Tuning> for v1::Tuning {
    fn from(tuning: Tuning) -> Self {
        Self {
            interval_ns: Some(nanos(tuning.interval())),
            misses: Some(tuning.misses()),
            timeout_ns: Some(nanos(tuning.timeout())),
            pong_every: Some(tuning.pong_every()),
            adaptive: Some(tuning.adaptive()),
        }
    }
}

impl TryFrom<v1::Tuning> for Tuning {
    type Error = Unusable;

    /// All of T, N and W have to be set; an unset `pong_every` is 1, an unset `adaptive` is off.
    fn try_from(message: v1::Tuning) -> Result<Self, Unusable> {
        let interval = message
            .interval_ns
            .ok_or(Unusable::Missing("interval_ns"))?;
        let misses = message.misses.ok_or(Unusable::Missing("misses"))?;
        let timeout = message.timeout_ns.ok_or(Unusable::Missing("timeout_ns"))?;
        let pong_every = message.pong_every.unwrap_or(1);
        let (interval, timeout) = (
            Duration::from_nanos(interval),
            Duration::from_nanos(timeout),
        );
        let tuning = Tuning::new(interval, misses, timeout, pong_every)?;
        Ok(tuning.with_adaptive(message.adaptive.unwrap_or(false))?)
    }
}

impl From<Revised> for v1::RevisedTuning {
    fn from(revised: Revised) -> Self {
        Self {
            revision: revised.revision,
            hash: revised.hash(),
            tuning: Some(revised.tuning.into()),
        }
    }
}

impl TryFrom<v1::RevisedTuning> for Revised {
    type Error = Unusable;

    fn try_from(message: v1::RevisedTuning) -> Result<Self, Unusable> {
        let tuning: Tuning = message
            .tuning
            .ok_or(Unusable::Missing("tuning"))?
            .try_into()?;
        let (told, computed) = (message.hash, tuning.hash());
        if told != computed {
            return Err(Unusable::Hash {
                told,
                computed,
                tuning,
            });
        }
        Ok(Self {
            revision: message.revision,
            tuning,
        })
    }
}

impl From<Fence> for v1::Fence {
    fn from(fence: Fence) -> Self {
        Self {
            incarnation: fence.incarnation,
            connection: fence.connection,
        }
    }
}

impl From<v1::Fence> for Fence {
    fn from(fence: v1::Fence) -> Self {
        Self {
            incarnation: fence.incarnation,
            connection: fence.connection,
        }
    }
}

impl From<Verdict> for v1::Verdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Online => Self::Online,
            Verdict::Suspect => Self::Suspect,
            Verdict::Offline => Self::Offline,
            Verdict::Left => Self::Left,
            Verdict::Unknown => Self::Unknown,
        }
    }
}

impl From<v1::Verdict> for Verdict {
    /// A verdict that is not told is one that nobody knows.
    fn from(verdict: v1::Verdict) -> Self {
        match verdict {
            v1::Verdict::Online => Self::Online,
            v1::Verdict::Suspect => Self::Suspect,
            v1::Verdict::Offline => Self::Offline,
            v1::Verdict::Left => Self::Left,
            v1::Verdict::Unknown | v1::Verdict::Unspecified => Self::Unknown,
        }
    }
}

impl From<Cause> for v1::Cause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Crash => Self::Crash,
            Cause::HostRestart => Self::HostRestart,
            Cause::Path => Self::Path,
            Cause::MiddleboxSuspected => Self::MiddleboxSuspected,
            Cause::Suspend => Self::Suspend,
            Cause::Unknown => Self::Unknown,
        }
    }
}

impl v1::CloseReason {
    /// The word of the glossary, as it stands in Postgres, in logs and on screens.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Goodbye => "goodbye",
            Self::MissedHeartbeats => "missed_heartbeats",
            Self::TransportError => "transport_error",
            Self::PeerGaveUp => "peer_gave_up",
            Self::Superseded => "superseded",
            Self::SlowConsumer => "slow_consumer",
            Self::ServerDrain => "server_drain",
            Self::Shed => "shed",
            Self::ProtocolError => "protocol_error",
            Self::AuthRevoked => "auth_revoked",
            Self::DuplicateIdentity => "duplicate_identity",
            Self::ServerLost => "server_lost",
        }
    }

    /// The reason that [`Self::word`] names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let mut all = (0..=Self::ServerLost as i32).filter_map(|n| Self::try_from(n).ok());
        all.find(|reason| reason.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuning_survives_the_wire() {
        for adaptive in [false, true] {
            let tuning = Tuning::default().with_adaptive(adaptive).unwrap();
            let revised = Revised {
                revision: 7,
                tuning,
            };
            assert_eq!(
                Revised::try_from(v1::RevisedTuning::from(revised)),
                Ok(revised)
            );
        }
    }

    /// Field report E11.
    #[test]
    fn a_tuning_that_no_agent_could_keep_is_refused_with_the_reason() {
        let good = v1::Tuning {
            interval_ns: Some(1_000_000_000),
            misses: Some(3),
            timeout_ns: Some(500_000_000),
            pong_every: None,
            adaptive: None,
        };
        assert_eq!(Tuning::try_from(good).unwrap().pong_every(), 1);
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
                "interval_ns is not set",
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
                "timeout_ns is not set",
            ),
            (
                v1::Tuning {
                    pong_every: Some(0),
                    ..good
                },
                "pong_every",
            ),
            (
                v1::Tuning {
                    pong_every: Some(2),
                    adaptive: Some(true),
                    ..good
                },
                "set pong_every to 1",
            ),
        ] {
            let reason = Tuning::try_from(bad).unwrap_err().to_string();
            assert!(reason.contains(word), "{bad:?}: {reason}");
            assert!(reason.len() <= 255, "{reason}");
        }
    }

    #[test]
    fn unset_is_not_zero_and_zero_is_refused() {
        let mut message = v1::Tuning::from(Tuning::default());
        message.misses = None;
        assert_eq!(Tuning::try_from(message), Err(Unusable::Missing("misses")));
        message.misses = Some(0);
        assert!(matches!(
            Tuning::try_from(message),
            Err(Unusable::Tuning(_))
        ));
    }

    #[test]
    fn a_hash_that_belongs_to_other_values_is_refused() {
        let mut message = v1::RevisedTuning::from(Revised {
            revision: 7,
            tuning: Tuning::default(),
        });
        message.hash ^= 1;
        assert!(matches!(
            Revised::try_from(message),
            Err(Unusable::Hash { .. })
        ));
    }

    #[test]
    fn free_text_is_cut_at_a_character_and_holds_no_control_characters() {
        assert_eq!(free_text("a\nb\0"), "a b ");
        assert_eq!(free_text(&"ä".repeat(200)), "ä".repeat(127));
    }

    #[test]
    fn every_close_reason_has_its_own_word() {
        for n in 0..=v1::CloseReason::ServerLost as i32 {
            let reason = v1::CloseReason::try_from(n).unwrap();
            assert_eq!(v1::CloseReason::from_word(reason.word()), Some(reason));
        }
        assert_eq!(v1::CloseReason::from_word("nonsense"), None);
    }
}
