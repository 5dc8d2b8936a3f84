//! T, N and W as they are typed: any of them may be left unsaid.

use std::time::Duration;

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::tuning::{
    INTERVAL_MOST, TIMEOUT_LEAST, TIMEOUT_LEAST_FOR_ONE_MISS, TuningError,
};
use fleetbeat_proto::v1;

use crate::failure::Failure;

const BOUNDS: &str = "bounds: interval 200ms … 1h, misses 1 … 20, timeout 300ms … interval (at least \
                      1s when misses is 1)";

/// What was said of T, N and W.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
#[group(id = "parts", required = true, multiple = true)]
pub(crate) struct Parts {
    /// T: an agent never leaves more than this between two messages (200ms … 1h)
    #[arg(long, short, value_name = "T", value_parser = duration)]
    pub(super) interval: Option<Duration>,
    /// N: how many heartbeats may be missed (1 … 20)
    #[arg(long, short, value_name = "N")]
    pub(super) misses: Option<u32>,
    /// W: how long the last missed one is waited for (300ms … T)
    #[arg(long, short, value_name = "W", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
}

impl Parts {
    /// Refuses what no value of the unsaid parts could make valid; asks nobody.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let interval = self.interval.unwrap_or(INTERVAL_MOST);
        let misses = self.misses.unwrap_or(2);
        let least = if misses == 1 {
            TIMEOUT_LEAST_FOR_ONE_MISS
        } else {
            TIMEOUT_LEAST
        };
        let timeout = self.timeout.unwrap_or(least);
        match Tuning::new(interval, misses, timeout, 1) {
            Ok(_) => Ok(()),
            Err(error) => Err(refused(&error)),
        }
    }

    /// The whole value: what was said, and for the rest what is in force.
    pub(super) fn fill(&self, in_force: &v1::Tuning) -> Result<v1::Tuning, Failure> {
        let kept = |ns: Option<u64>| ns.map(Duration::from_nanos);
        let (Some(interval), Some(misses), Some(timeout)) = (
            self.interval.or_else(|| kept(in_force.interval_ns)),
            self.misses.or(in_force.misses),
            self.timeout.or_else(|| kept(in_force.timeout_ns)),
        ) else {
            return Err(
                Failure::refused("the server does not say which tuning is in force")
                    .next("say all three: --interval, --misses and --timeout"),
            );
        };
        let pong_every = in_force.pong_every.unwrap_or(1);
        let whole =
            Tuning::new(interval, misses, timeout, pong_every).map_err(|error| refused(&error))?;
        Ok(whole.into())
    }
}

fn refused(error: &TuningError) -> Failure {
    Failure::refused(format!("nothing was changed: {error}")).next(BOUNDS)
}

/// A duration as it is typed.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number with a unit, like 500ms, 20s or 1m30s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const UNSAID: Parts = Parts {
        interval: None,
        misses: None,
        timeout: None,
    };

    fn in_force() -> v1::Tuning {
        v1::Tuning {
            interval_ns: Some(20_000 * MS),
            misses: Some(3),
            timeout_ns: Some(2_000 * MS),
            pong_every: Some(1),
        }
    }

    fn interval(ms: u64) -> Parts {
        Parts {
            interval: Some(Duration::from_millis(ms)),
            ..UNSAID
        }
    }

    #[test]
    fn what_cannot_be_valid_is_refused_without_asking() {
        let timeout = |ms| Some(Duration::from_millis(ms));
        let refused = [
            interval(0),
            interval(199),
            interval(3_600_001),
            Parts {
                misses: Some(0),
                ..UNSAID
            },
            Parts {
                misses: Some(21),
                ..UNSAID
            },
            Parts {
                timeout: timeout(299),
                ..UNSAID
            },
            Parts {
                timeout: timeout(3_600_001),
                ..UNSAID
            },
            Parts {
                timeout: timeout(2_000),
                ..interval(1_000)
            },
            Parts {
                timeout: timeout(900),
                misses: Some(1),
                ..UNSAID
            },
        ];
        for parts in refused {
            let failure = parts.check().expect_err(&format!("{parts:?}"));
            assert!(failure.report().unwrap().contains("bounds: "), "{failure}");
        }
    }

    #[test]
    fn what_depends_on_the_value_in_force_is_not_refused_early() {
        let open = [
            interval(500),
            Parts {
                misses: Some(1),
                ..UNSAID
            },
            Parts {
                timeout: Some(Duration::from_mins(1)),
                ..UNSAID
            },
        ];
        for parts in open {
            assert!(parts.check().is_ok(), "{parts:?}");
        }
    }

    #[test]
    fn unsaid_parts_come_from_the_value_in_force() {
        let whole = interval(5_000).fill(&in_force()).unwrap();
        assert_eq!(
            whole,
            v1::Tuning {
                interval_ns: Some(5_000 * MS),
                ..in_force()
            }
        );
    }

    #[test]
    fn a_combination_that_breaks_a_bound_is_refused() {
        let failure = interval(500).fill(&in_force()).unwrap_err();
        assert!(
            failure
                .to_string()
                .contains("timeout 2s is longer than interval 500ms"),
            "{failure}"
        );
    }

    #[test]
    fn nothing_is_invented_where_the_server_is_silent() {
        assert!(interval(500).fill(&v1::Tuning::default()).is_err());
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1m2s"), Ok(Duration::from_secs(62)));
        for bad in ["", "20", "s", "-1s", "1 lightyear", "99999999999999999999s"] {
            assert!(duration(bad).unwrap_err().contains("500ms"), "{bad}");
        }
    }
}
