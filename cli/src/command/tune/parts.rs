//! A tuning as it is typed: any part of it may be left unsaid.

use std::time::Duration;

use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::preset::{self, Preset};
use fleetbeat_liveness::tuning::{
    INTERVAL_LEAST, INTERVAL_MOST, TIMEOUT_LEAST, TIMEOUT_LEAST_FOR_ONE_MISS, TuningError,
};
use fleetbeat_proto::{nanos, v1};

use crate::failure::Failure;

const BOUNDS: &str = "bounds: interval 200ms … 1h, misses 1 … 20, timeout 300ms … interval (at least \
                      1s when misses is 1), pong-every 1 … 10, adaptive only with pong-every 1";

/// What was said of a tuning. What is said by itself holds before what a preset says, and both before what
/// is in force.
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
    /// T, N and W of this kind of fleet, see `fleetbeat tune presets`; parts said beside it hold instead
    #[arg(long, value_name = "NAME", value_parser = preset)]
    pub(super) preset: Option<&'static Preset>,
    /// Answer every K-th heartbeat only: above 1 agents just renew a lease (1 … 10)
    #[arg(long, value_name = "K")]
    pub(super) pong_every: Option<u32>,
    /// Let deadlines follow the round trips, from D up to 2·D; needs a pong for every heartbeat
    #[arg(long, value_enum, value_name = "MODE")]
    pub(super) adaptive: Option<Switch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

impl Parts {
    /// Refuses what no value of the unsaid parts could make valid; asks nobody.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let said = self.with_preset();
        let misses = said.misses.unwrap_or(2);
        let least = if misses == 1 {
            TIMEOUT_LEAST_FOR_ONE_MISS
        } else {
            TIMEOUT_LEAST
        };
        let timeout = said.timeout.unwrap_or(least);
        // The shortest that the timeout fits into leaves room for everything else.
        let shortest = timeout.clamp(INTERVAL_LEAST, INTERVAL_MOST);
        let interval = said.interval.unwrap_or(shortest);
        Tuning::new(interval, misses, timeout, said.pong_every.unwrap_or(1))
            .and_then(|tuning| tuning.with_adaptive(said.adaptive == Some(Switch::On)))
            .map(|_| ())
            .map_err(|error| refused(&error))
    }

    /// The preset's parts where none was said.
    fn with_preset(&self) -> Self {
        let Some(preset) = self.preset else {
            return *self;
        };
        let tuning = preset.tuning();
        Self {
            interval: self.interval.or(Some(tuning.interval())),
            misses: self.misses.or(Some(tuning.misses())),
            timeout: self.timeout.or(Some(tuning.timeout())),
            ..*self
        }
    }

    /// What was said, with the preset's parts where none was.
    pub(super) fn said(&self) -> v1::Tuning {
        let said = self.with_preset();
        v1::Tuning {
            interval_ns: said.interval.map(nanos),
            misses: said.misses,
            timeout_ns: said.timeout.map(nanos),
            pong_every: said.pong_every,
            adaptive: said.adaptive.map(|switch| switch == Switch::On),
        }
    }
}

fn refused(error: &TuningError) -> Failure {
    Failure::refused(format!("nothing was changed: {error}")).next(BOUNDS)
}

/// A preset by its name.
pub(super) fn preset(name: &str) -> Result<&'static Preset, String> {
    Preset::named(name).ok_or_else(|| {
        let names = preset::ALL.map(|preset| preset.name).join(", ");
        format!("there is no such preset; there are {names}")
    })
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
        preset: None,
        pong_every: None,
        adaptive: None,
    };

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
            Parts {
                pong_every: Some(0),
                ..UNSAID
            },
            Parts {
                pong_every: Some(11),
                ..UNSAID
            },
            Parts {
                pong_every: Some(2),
                ..interval(3_600_000)
            },
            Parts {
                pong_every: Some(2),
                adaptive: Some(Switch::On),
                ..UNSAID
            },
            Parts {
                preset: Preset::named("web"),
                ..interval(1_000)
            },
        ];
        for parts in refused {
            let failure = parts.check().expect_err(&format!("{parts:?}"));
            assert!(failure.report().unwrap().contains("bounds: "), "{failure}");
        }
    }

    #[test]
    fn a_refusal_names_the_part_that_was_said() {
        let parts = Parts {
            timeout: Some(Duration::from_hours(2)),
            ..UNSAID
        };
        let failure = parts.check().unwrap_err().to_string();
        assert!(failure.contains("timeout 7200s is longer"), "{failure}");
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
            Parts {
                pong_every: Some(10),
                ..UNSAID
            },
            Parts {
                adaptive: Some(Switch::On),
                ..UNSAID
            },
        ];
        for parts in open {
            assert!(parts.check().is_ok(), "{parts:?}");
        }
    }

    /// S8: what is said beside a preset holds, the rest of the preset too, and modes stay unsaid.
    #[test]
    fn parts_said_beside_a_preset_hold_instead_of_its_own() {
        let parts = Parts {
            preset: Preset::named("device-gateway"),
            misses: Some(5),
            ..UNSAID
        };
        let said = v1::Tuning {
            interval_ns: Some(60_000 * MS),
            misses: Some(5),
            timeout_ns: Some(10_000 * MS),
            ..v1::Tuning::default()
        };
        assert_eq!(parts.said(), said);
        assert!(
            preset("nonsense")
                .unwrap_err()
                .contains("mobile-messaging, web")
        );
    }

    #[test]
    fn what_is_unsaid_is_left_to_the_server() {
        let said = v1::Tuning {
            interval_ns: Some(5_000 * MS),
            ..v1::Tuning::default()
        };
        assert_eq!(interval(5_000).said(), said);
        let adaptive = Parts {
            adaptive: Some(Switch::Off),
            ..UNSAID
        };
        assert_eq!(adaptive.said().adaptive, Some(false));
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1m2s"), Ok(Duration::from_secs(62)));
        for bad in ["", "20", "s", "-1s", "1 lightyear", "99999999999999999999s"] {
            assert!(duration(bad).unwrap_err().contains("500ms"), "{bad}");
        }
    }
}
