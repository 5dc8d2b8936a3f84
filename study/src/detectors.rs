//! Fixed, adaptive and φ accrual detection on the same paths.

use std::time::Duration;

use fleetbeat_liveness::{Moment, Tuning};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::draw::LogNormal;
use crate::path::{Path, Profile, Slow, Spells};
use crate::phi;
use crate::table::{Table, percentile, real, seconds};
use crate::trial::{Seen, Trial};
use crate::watch::Judging;

const SEED: u64 = 1;
/// Agents of each row; each lives for `LIFE` and then dies.
const AGENTS: u64 = 160;
const LIFE: Duration = Duration::from_hours(6);

const QUIET: Profile = Profile {
    name: "quiet",
    delay: LogNormal::new(0.25, 0.3),
    loss: 0.000_01,
    slow: None,
    cut: None,
    pause: None,
};
const MOBILE: Profile = Profile {
    name: "mobile",
    delay: LogNormal::new(25.0, 0.4),
    loss: 0.01,
    slow: Some(Slow {
        spells: Spells {
            every: Duration::from_mins(10),
            lasts: LogNormal::new(60_000.0, 0.7),
            most: Duration::from_mins(10),
        },
        delay: LogNormal::new(1_500.0, 0.6),
        loss: 0.05,
    }),
    cut: Some(Spells {
        every: Duration::from_mins(20),
        lasts: LogNormal::new(8_000.0, 0.7),
        most: Duration::from_mins(5),
    }),
    pause: None,
};
const CONGESTED: Profile = Profile {
    name: "congested",
    delay: LogNormal::new(20.0, 0.3),
    loss: 0.001,
    slow: Some(Slow {
        spells: Spells {
            every: Duration::from_mins(30),
            lasts: LogNormal::new(300_000.0, 0.5),
            most: Duration::from_mins(30),
        },
        delay: LogNormal::new(800.0, 0.8),
        loss: 0.15,
    }),
    cut: None,
    pause: None,
};
const PAUSED: Profile = Profile {
    name: "one long pause",
    pause: Some(Spells {
        every: Duration::from_hours(24),
        lasts: LogNormal::new(20_000.0, 0.8),
        most: Duration::from_mins(5),
    }),
    ..QUIET
};

#[derive(Debug, Clone, Copy)]
struct Detector {
    name: &'static str,
    judging: Judging,
    adaptive: bool,
}

const DETECTORS: [Detector; 4] = [
    Detector {
        name: "fixed",
        judging: Judging::Promise,
        adaptive: false,
    },
    Detector {
        name: "adaptive",
        judging: Judging::Promise,
        adaptive: true,
    },
    Detector {
        name: "φ = 8",
        judging: Judging::Phi(phi::EIGHT),
        adaptive: false,
    },
    Detector {
        name: "φ = 12",
        judging: Judging::Phi(phi::TWELVE),
        adaptive: false,
    },
];

/// The tables of the page.
pub(crate) fn tables() -> Vec<(&'static str, String)> {
    vec![
        ("detectors, T 5 s, N 3, W 1 s", compare(tuning(5, 3, 1))),
        ("detectors, T 20 s, N 3, W 2 s", compare(tuning(20, 3, 2))),
        ("a retune from T 5 s to T 20 s", retuned()),
    ]
}

fn tuning(interval: u64, misses: u32, timeout: u64) -> Tuning {
    let seconds = Duration::from_secs;
    Tuning::new(seconds(interval), misses, seconds(timeout), 1).expect("within the bounds")
}

fn compare(tuning: Tuning) -> String {
    let mut table = Table::new(&[
        "path",
        "detector",
        "false verdicts per agent-day",
        "found after p50",
        "p99",
        "max",
        "messages per agent-minute",
    ]);
    for profile in [QUIET, MOBILE, CONGESTED, PAUSED] {
        for detector in DETECTORS {
            let seen: Vec<_> = (0..AGENTS)
                .map(|agent| live(profile, tuning, detector, agent))
                .collect();
            table.row(row(profile, detector, &seen));
        }
    }
    table.text()
}

/// One agent's life. Every detector sees the same spells of the path.
fn live(profile: Profile, tuning: Tuning, detector: Detector, agent: u64) -> Seen {
    let mut rng = StdRng::seed_from_u64((SEED << 32) | agent);
    let dies = Moment::ZERO + LIFE;
    let path = Path::lay(profile, dies, &mut rng);
    let tuning = tuning
        .with_adaptive(detector.adaptive)
        .expect("within the bounds");
    Trial::new(&path, tuning, detector.judging, dies, rng).run()
}

fn row(profile: Profile, detector: Detector, seen: &[Seen]) -> [String; 7] {
    let lived = LIFE.as_secs_f64() * real(AGENTS);
    let total = |count: fn(&Seen) -> u64| real(seen.iter().map(count).sum());
    let mut found: Vec<_> = seen.iter().filter_map(|seen| seen.found_after).collect();
    found.sort_unstable();
    [
        profile.name.to_owned(),
        detector.name.to_owned(),
        format!(
            "{:.2}",
            total(|seen| seen.false_verdicts) / (lived / 86_400.0)
        ),
        seconds(percentile(&found, 50)),
        seconds(percentile(&found, 99)),
        seconds(percentile(&found, 100)),
        format!("{:.1}", total(|seen| seen.messages) / (lived / 60.0)),
    ]
}

/// After an hour at T = 5 s the interval becomes 20 s.
fn retuned() -> String {
    let mut table = Table::new(&["detector", "agents", "convicted by the retune"]);
    for detector in DETECTORS {
        let agents = 200;
        let convicted: u64 = (0..agents).map(|agent| retune(detector, agent)).sum();
        table.row([
            detector.name.to_owned(),
            agents.to_string(),
            convicted.to_string(),
        ]);
    }
    table.text()
}

fn retune(detector: Detector, agent: u64) -> u64 {
    let mut rng = StdRng::seed_from_u64((SEED << 32) | agent);
    let hour = Moment::ZERO + Duration::from_hours(1);
    let dies = hour + Duration::from_hours(1);
    let path = Path::lay(QUIET, dies, &mut rng);
    let mode = |tuning: Tuning| {
        tuning
            .with_adaptive(detector.adaptive)
            .expect("within the bounds")
    };
    let seen = Trial::new(&path, mode(tuning(5, 3, 1)), detector.judging, dies, rng)
        .retuned(hour, mode(tuning(20, 3, 2)))
        .run();
    seen.false_verdicts.min(1)
}
