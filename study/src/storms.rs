//! 50,000 and 100,000 agents cut at once.

use std::time::Duration;

use fleetbeat_liveness::Moment;

use crate::server::Capacity;
use crate::storm::{Return, Storm, play};
use crate::table::{Table, real, seconds, thousands, whole};

const SEED: u64 = 1;
/// The server is away for this long.
const AWAY: Duration = Duration::from_secs(5);
/// Gate threads that do a handshake with mutual TLS each millisecond, four of them.
const HANDSHAKE: Duration = Duration::from_micros(250);
/// Sessions open at the default of the admission rate.
const OPENING: Duration = Duration::from_millis(1);
const DEADLINE: Duration = Duration::from_secs(62);

#[derive(Debug, Clone, Copy)]
struct Variant {
    name: &'static str,
    how: Return,
    admission: bool,
}

const VARIANTS: [Variant; 6] = [
    Variant {
        name: "Fleetbeat: spread, backoff, admission",
        how: Return::Spread { per_s: 60 },
        admission: true,
    },
    Variant {
        name: "spread and backoff, no admission",
        how: Return::Spread { per_s: 60 },
        admission: false,
    },
    Variant {
        name: "backoff ± 30 % and admission, no spread",
        how: Return::Backoff { jitter_percent: 30 },
        admission: true,
    },
    Variant {
        name: "backoff ± 30 % (essay 2)",
        how: Return::Backoff { jitter_percent: 30 },
        admission: false,
    },
    Variant {
        name: "backoff without jitter",
        how: Return::Backoff { jitter_percent: 0 },
        admission: false,
    },
    Variant {
        name: "every 1 s for ever",
        how: Return::EverySecond,
        admission: false,
    },
];

/// Seconds after the cut.
const TIMES: [(usize, usize); 8] = [
    (0, 1),
    (1, 2),
    (2, 5),
    (5, 10),
    (10, 20),
    (20, 40),
    (40, 80),
    (80, 160),
];

pub(crate) fn tables() -> Vec<(&'static str, String)> {
    let (fifty, hundred) = (storms(50_000), storms(100_000));
    vec![
        ("50,000 agents cut at once", summary(&fifty)),
        ("50,000 agents, attempts per second", over_time(&fifty)),
        ("100,000 agents cut at once", summary(&hundred)),
        ("100,000 agents, attempts per second", over_time(&hundred)),
    ]
}

fn storms(agents: usize) -> Vec<(Variant, Storm)> {
    let storm = |variant: Variant| {
        let capacity = Capacity {
            handshake: HANDSHAKE,
            opening: OPENING,
            admission: variant.admission,
            up_at: Moment::ZERO + AWAY,
        };
        (variant, play(agents, variant.how, capacity, SEED))
    };
    VARIANTS.into_iter().map(storm).collect()
}

fn summary(storms: &[(Variant, Storm)]) -> String {
    let mut table = Table::new(&[
        "agents return by",
        "peak attempts/s",
        "peak in 100 ms",
        "peak / mean",
        "attempts per agent",
        "half back",
        "99 %",
        "all",
        "back within D = 62 s",
    ]);
    for (variant, storm) in storms {
        let back = |percent| {
            storm
                .back(percent)
                .map_or_else(|| "not in 200 s".to_owned(), seconds)
        };
        let agents = real(storm.agents() as u64);
        table.row([
            variant.name.to_owned(),
            thousands(storm.peak_per_s()),
            thousands(storm.peak_in_100_ms()),
            format!("{:.1}", storm.peak_to_mean()),
            format!("{:.1}", real(storm.attempts()) / agents),
            back(50),
            back(99),
            back(100),
            format!("{:.0} %", storm.back_by(DEADLINE)),
        ]);
    }
    table.text()
}

fn over_time(storms: &[(Variant, Storm)]) -> String {
    let heads: Vec<_> = TIMES
        .iter()
        .map(|(from, to)| format!("{from}–{to} s"))
        .collect();
    let mut head = vec!["agents return by"];
    head.extend(heads.iter().map(String::as_str));
    let mut table = Table::new(&head);
    for (variant, storm) in storms {
        let mut row = vec![variant.name.to_owned()];
        row.extend(TIMES.map(|(from, to)| thousands(whole(storm.rate(from, to)))));
        table.row(row);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirement S27; vectors J03, J05, J06.
    #[test]
    fn a_spread_fleet_is_back_as_soon_as_the_server_can_and_an_impatient_one_is_not() {
        let storms = storms(50_000);
        let all = |n: usize| storms[n].1.back(100);
        let soonest = AWAY + OPENING * 50_000;
        assert!(all(0) < Some(soonest * 13 / 10), "{:?}", all(0));
        assert!(storms[0].1.peak_per_s() < storms[3].1.peak_per_s() / 4);
        assert!(all(0) < all(3), "{:?}", all(3));
        assert_eq!(all(5), None, "every second for ever");
    }
}
