//! Essay 2 §4.4 once more: 30,000 connections before and after their parameters were changed.

use std::time::Duration;

use fleetbeat_liveness::{Moment, Tuning};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::draw::exponential;
use crate::rhythm::Rhythm;
use crate::table::{Table, percentile, real, seconds, thousands, whole};

const SEED: u64 = 1;
const CONNECTIONS: u64 = 30_000;
const DAYS: u32 = 200;
/// Trains of blips per day; each meets this many connections.
const TRAINS_PER_DAY: u32 = 6;
const MET: u64 = 60;
/// A train lasts for so long; what is sent during one of its blips is lost.
const TRAIN: Duration = Duration::from_secs(40);
const BLIP: Duration = Duration::from_millis(500);
/// Beats are counted over this.
const COUNTED: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy)]
struct Setting {
    name: &'static str,
    interval: u64,
    misses: u32,
    timeout: u64,
    rhythm: fn(Duration) -> Rhythm,
}

const SETTINGS: [Setting; 4] = [
    Setting {
        name: "before: T 5, N 3, W 3, no jitter",
        interval: 5,
        misses: 3,
        timeout: 3,
        rhythm: Rhythm::in_step,
    },
    Setting {
        name: "T 5, N 3, W 3, with jitter",
        interval: 5,
        misses: 3,
        timeout: 3,
        rhythm: Rhythm::both_ways,
    },
    Setting {
        name: "after: T 8, N 2, W 2, ± 10 %",
        interval: 8,
        misses: 2,
        timeout: 2,
        rhythm: Rhythm::both_ways,
    },
    Setting {
        name: "Fleetbeat: T 8, N 2, W 2, gaps in [0.9·T, T]",
        interval: 8,
        misses: 2,
        timeout: 2,
        rhythm: Rhythm::product,
    },
];

/// How the blips of a train follow each other.
#[derive(Debug, Clone, Copy)]
enum Blips {
    /// As from a job that runs every so many seconds.
    Every(Duration),
    /// At random, this far apart on average.
    Random(Duration),
}

const BLIPS: [Blips; 3] = [
    Blips::Every(Duration::from_secs(5)),
    Blips::Every(Duration::from_secs(4)),
    Blips::Random(Duration::from_secs(5)),
];

/// What one setting showed.
#[derive(Debug)]
struct Seen {
    /// By how blips follow each other.
    false_per_day: [f64; 3],
    /// From death to the verdict, in order.
    found: Vec<Duration>,
    beats_per_s: f64,
    peak_in_100_ms: u64,
}

pub(crate) fn tables() -> Vec<(&'static str, String)> {
    let mut table = Table::new(&[
        "30,000 connections",
        "false verdicts per day, blips every 5 s",
        "every 4 s",
        "at random",
        "found after mean",
        "p99",
        "at worst",
        "beats/s",
        "peak beats in 100 ms",
    ]);
    for setting in SETTINGS {
        let seen = study(setting);
        let mean =
            seen.found.iter().sum::<Duration>() / u32::try_from(seen.found.len()).unwrap_or(1);
        table.row([
            setting.name.to_owned(),
            format!("{:.1}", seen.false_per_day[0]),
            format!("{:.1}", seen.false_per_day[1]),
            format!("{:.1}", seen.false_per_day[2]),
            seconds(mean),
            seconds(percentile(&seen.found, 99)),
            seconds(percentile(&seen.found, 100)),
            thousands(whole(seen.beats_per_s)),
            thousands(seen.peak_in_100_ms),
        ]);
    }
    vec![("essay 2 §4.4", table.text())]
}

fn study(setting: Setting) -> Seen {
    let mut rng = StdRng::seed_from_u64(SEED);
    let seconds = Duration::from_secs;
    let tuning = Tuning::new(
        seconds(setting.interval),
        setting.misses,
        seconds(setting.timeout),
        1,
    )
    .expect("within the bounds");
    let (beats_per_s, peak_in_100_ms) = load(setting, &mut rng);
    let mut found: Vec<_> = (0..CONNECTIONS)
        .map(|_| found_after(setting, tuning, &mut rng))
        .collect();
    found.sort_unstable();
    Seen {
        false_per_day: BLIPS.map(|blips| false_per_day(setting, tuning, blips, &mut rng)),
        found,
        beats_per_s,
        peak_in_100_ms,
    }
}

fn rhythm(setting: Setting) -> Rhythm {
    (setting.rhythm)(Duration::from_secs(setting.interval))
}

/// All connected by the same event; counted once every one has beaten a few times.
fn load(setting: Setting, rng: &mut StdRng) -> (f64, u64) {
    let from = Moment::ZERO + COUNTED;
    let mut bins = vec![0_u64; 600];
    for _ in 0..CONNECTIONS {
        let mut rhythm = rhythm(setting);
        loop {
            let at = rhythm.next(rng);
            let Some(bin) = bin(at.as_nanos().checked_sub(from.as_nanos())) else {
                continue;
            };
            match bins.get_mut(bin) {
                Some(count) => *count += 1,
                None => break,
            }
        }
    }
    let beats: u64 = bins.iter().sum();
    let peak = bins.iter().max().copied().unwrap_or(0);
    (real(beats) / COUNTED.as_secs_f64(), peak)
}

fn bin(nanos: Option<u64>) -> Option<usize> {
    usize::try_from(nanos? / 100_000_000).ok()
}

/// A connection dies at a uniform moment of its life; the last beat before it was received.
fn found_after(setting: Setting, tuning: Tuning, rng: &mut StdRng) -> Duration {
    let mut rhythm = rhythm(setting);
    let dies = Moment::ZERO + COUNTED + COUNTED.mul_f64(rng.random());
    let mut last = Moment::ZERO;
    loop {
        let at = rhythm.next(rng);
        if at > dies {
            return (last + tuning.deadline()).since(dies);
        }
        last = at;
    }
}

fn false_per_day(setting: Setting, tuning: Tuning, blips: Blips, rng: &mut StdRng) -> f64 {
    let mut verdicts = 0;
    for _ in 0..DAYS * TRAINS_PER_DAY {
        let begins = Moment::ZERO + COUNTED + COUNTED.mul_f64(rng.random());
        let train = blips.train(begins, rng);
        for _ in 0..MET {
            verdicts += u32::from(convicted(rhythm(setting), tuning, &train, rng));
        }
    }
    f64::from(verdicts) / f64::from(DAYS)
}

impl Blips {
    /// When each blip begins.
    fn train(self, begins: Moment, rng: &mut StdRng) -> Vec<Moment> {
        let mut train = Vec::new();
        let mut at = begins;
        while at.since(begins) < TRAIN {
            train.push(at);
            at = at
                + match self {
                    Self::Every(period) => period,
                    Self::Random(mean) => exponential(mean, rng),
                };
        }
        train
    }
}

/// Whether the beats that a train of blips leaves are ever further apart than D.
fn convicted(mut rhythm: Rhythm, tuning: Tuning, train: &[Moment], rng: &mut StdRng) -> bool {
    let over = train[0] + TRAIN;
    let mut heard = Moment::ZERO;
    while heard < over {
        let at = rhythm.next(rng);
        if at.since(heard) > tuning.deadline() {
            return true;
        }
        let begun = train.partition_point(|blip| *blip <= at);
        let last = train[..begun].last();
        if last.is_none_or(|blip| at.since(*blip) >= BLIP) {
            heard = at;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(found: &[Duration]) -> f64 {
        found.iter().map(Duration::as_secs_f64).sum::<f64>() / real(found.len() as u64)
    }

    /// Vectors V09 and V10: the same worst case; the mean is sooner, and the load is less.
    #[test]
    fn the_numbers_of_the_essay_come_out() {
        let (before, after) = (study(SETTINGS[0]), study(SETTINGS[2]));
        assert!(
            (mean(&before.found) - 15.5).abs() < 0.1,
            "{}",
            mean(&before.found)
        );
        assert!(
            (mean(&after.found) - 14.0).abs() < 0.1,
            "{}",
            mean(&after.found)
        );
        assert!(
            (before.beats_per_s - 6_000.0).abs() < 1.0,
            "{}",
            before.beats_per_s
        );
        assert!(
            (after.beats_per_s - 3_750.0).abs() < 40.0,
            "{}",
            after.beats_per_s
        );
        for seen in [&before, &after] {
            let worst = percentile(&seen.found, 100).as_secs_f64();
            assert!((17.9..=18.0).contains(&worst), "{worst}");
        }
        assert_eq!(before.peak_in_100_ms, CONNECTIONS);
        assert!(
            after.peak_in_100_ms < CONNECTIONS / 50,
            "{}",
            after.peak_in_100_ms
        );
        assert!(
            (24.0..100.0).contains(&before.false_per_day[0]),
            "dozens a day"
        );
        assert!(after.false_per_day[0] < 1.0, "{:?}", after.false_per_day);
    }
}
