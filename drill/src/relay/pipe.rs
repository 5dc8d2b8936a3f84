use std::collections::VecDeque;
use std::time::Duration;

use rand::{Rng, RngExt as _};
use tokio::time::Instant;

use super::faults::Direction;

/// Bytes that one way of a flow holds; beyond it the sender is not read.
const MOST: usize = 256 << 10;
/// A limited rate comes in so many pieces per second.
const PIECES: usize = 20;

/// One way of a flow: what was read and when it may be written. Decides, moves nothing itself.
#[derive(Debug)]
pub(super) struct Pipe {
    origin: Instant,
    held: VecDeque<Held>,
    bytes: usize,
    /// Nothing overtakes: no later byte is due before this.
    last_due: Instant,
    /// When the rate allows the next piece.
    free_at: Instant,
    end: Option<(Instant, End)>,
    ended: bool,
}

#[derive(Debug)]
struct Held {
    due: Instant,
    bytes: Vec<u8>,
    written: usize,
}

/// How the side that sends ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Fin,
    Rst,
}

/// What a pipe wants.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<'a> {
    /// Nothing, until something is read or faults change.
    Nothing,
    At(Instant),
    Write(&'a [u8]),
    End(End),
}

impl Pipe {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            origin: now,
            held: VecDeque::new(),
            bytes: 0,
            last_due: now,
            free_at: now,
            end: None,
            ended: false,
        }
    }

    /// Whether more may be read for it.
    pub(super) fn takes(&self) -> bool {
        !self.has_end() && self.bytes < MOST
    }

    /// Whether the side that sends has ended.
    pub(super) fn has_end(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn put(
        &mut self,
        now: Instant,
        bytes: &[u8],
        faults: &Direction,
        rng: &mut impl Rng,
    ) {
        let due = self.due(now, faults, rng);
        self.bytes += bytes.len();
        self.held.push_back(Held {
            due,
            bytes: bytes.to_vec(),
            written: 0,
        });
    }

    pub(super) fn put_end(
        &mut self,
        now: Instant,
        end: End,
        faults: &Direction,
        rng: &mut impl Rng,
    ) {
        self.end = Some((self.due(now, faults, rng), end));
    }

    fn due(&mut self, now: Instant, faults: &Direction, rng: &mut impl Rng) -> Instant {
        let jitter = faults.jitter.mul_f64(rng.random());
        let due = (now + faults.delay + jitter).max(self.last_due);
        self.last_due = self.gathered(due, faults.gather);
        self.last_due
    }

    /// The first multiple of `gather` that is not before `due`.
    fn gathered(&self, due: Instant, gather: Duration) -> Instant {
        if gather.is_zero() {
            return due;
        }
        let past = due.duration_since(self.origin).as_nanos() % gather.as_nanos();
        if past == 0 {
            return due;
        }
        due + gather.saturating_sub(Duration::from_nanos(
            u64::try_from(past).unwrap_or(u64::MAX),
        ))
    }

    /// What comes next under these faults.
    pub(super) fn next(&self, now: Instant, faults: &Direction) -> Next<'_> {
        if faults.stopped || self.ended {
            return Next::Nothing;
        }
        match (self.held.front(), self.end) {
            (Some(held), _) => {
                let due = held.due.max(self.free_at);
                if now < due {
                    return Next::At(due);
                }
                let waiting = &held.bytes[held.written..];
                Next::Write(&waiting[..waiting.len().min(piece(faults))])
            }
            (None, Some((due, end))) if !faults.ends_held => {
                if now < due {
                    Next::At(due)
                } else {
                    Next::End(end)
                }
            }
            (None, _) => Next::Nothing,
        }
    }

    /// So many of the bytes that were next have been written.
    pub(super) fn written(&mut self, now: Instant, bytes: usize, faults: &Direction) {
        if let Some(rate) = faults.rate {
            let takes = Duration::from_secs(bytes as u64) / rate;
            self.free_at = self.free_at.max(now) + takes;
        }
        let Some(held) = self.held.front_mut() else {
            return;
        };
        held.written += bytes;
        if held.written == held.bytes.len() {
            self.bytes -= held.bytes.len();
            self.held.pop_front();
        }
    }

    /// Its end has been handed on.
    pub(super) fn finish(&mut self) {
        self.ended = true;
        self.held = VecDeque::new();
        self.bytes = 0;
    }

    pub(super) fn finished(&self) -> bool {
        self.ended
    }
}

/// The most to write at once: at least one byte, or nothing would ever pass.
fn piece(faults: &Direction) -> usize {
    faults.rate.map_or(usize::MAX, |rate| {
        usize::try_from(rate).map_or(usize::MAX, |rate| (rate / PIECES).max(1))
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    struct Trial {
        pipe: Pipe,
        start: Instant,
        rng: StdRng,
    }

    impl Trial {
        fn new() -> Self {
            let start = Instant::now();
            Self {
                pipe: Pipe::new(start),
                start,
                rng: StdRng::seed_from_u64(7),
            }
        }

        fn put(&mut self, at: Duration, bytes: &[u8], faults: &Direction) {
            self.pipe.put(self.start + at, bytes, faults, &mut self.rng);
        }

        /// When each byte leaves and which it is, if whoever waits always comes on time.
        fn departures(&mut self, faults: &Direction) -> Vec<(Duration, u8)> {
            let mut now = self.start;
            let mut seen = Vec::new();
            loop {
                let bytes = match self.pipe.next(now, faults) {
                    Next::At(due) => {
                        now = due;
                        continue;
                    }
                    Next::Write(bytes) => bytes.to_vec(),
                    Next::Nothing | Next::End(_) => return seen,
                };
                seen.extend(
                    bytes
                        .iter()
                        .map(|byte| (now.duration_since(self.start), *byte)),
                );
                self.pipe.written(now, bytes.len(), faults);
            }
        }
    }

    #[test]
    fn a_delay_shifts_and_jitter_never_reorders() {
        let faults = Direction {
            delay: MS * 100,
            jitter: MS * 50,
            ..Direction::default()
        };
        let mut trial = Trial::new();
        for number in 0..100 {
            trial.put(MS * number.into(), &[number], &faults);
        }
        let seen = trial.departures(&faults);
        assert!(seen.is_sorted(), "{seen:?}");
        assert_eq!(seen.len(), 100);
        for (at, number) in seen {
            let late = at.saturating_sub(MS * number.into());
            assert!(
                (MS * 100..=MS * 151).contains(&late),
                "{number} took {late:?}"
            );
        }
    }

    #[test]
    fn gathered_bytes_come_late_and_together() {
        let faults = Direction {
            gather: MS * 100,
            ..Direction::default()
        };
        let mut trial = Trial::new();
        for (at, byte) in [(10, 1), (60, 2), (100, 3), (101, 4)] {
            trial.put(MS * at, &[byte], &faults);
        }
        let seen = trial.departures(&faults);
        let expected = [(100, 1), (100, 2), (100, 3), (200, 4)].map(|(at, byte)| (MS * at, byte));
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_rate_is_kept_over_time() {
        let faults = Direction {
            rate: Some(1_000),
            ..Direction::default()
        };
        let mut trial = Trial::new();
        trial.put(Duration::ZERO, &[1; 1_000], &faults);
        trial.put(Duration::ZERO, &[2; 1_000], &faults);
        let seen = trial.departures(&faults);
        assert_eq!(seen.len(), 2_000);
        let (last, _) = seen[1_999];
        assert!((MS * 1_900..=MS * 2_000).contains(&last), "{last:?}");
    }

    #[test]
    fn a_stopped_way_holds_everything_and_then_lets_it_follow() {
        let stopped = Direction {
            stopped: true,
            ..Direction::default()
        };
        let mut trial = Trial::new();
        trial.put(Duration::ZERO, &[1], &stopped);
        assert_eq!(trial.departures(&stopped), []);
        assert_eq!(trial.departures(&Direction::default()).len(), 1);
    }

    #[test]
    fn an_end_follows_the_bytes_before_it_unless_it_is_held() {
        let clean = Direction::default();
        let holds = Direction {
            ends_held: true,
            ..Direction::default()
        };
        let mut trial = Trial::new();
        trial.put(Duration::ZERO, &[1], &clean);
        let start = trial.start;
        trial.pipe.put_end(start, End::Fin, &clean, &mut trial.rng);
        assert!(!trial.pipe.takes());
        assert_eq!(trial.pipe.next(start, &clean), Next::Write(&[1]));
        assert_eq!(trial.departures(&holds).len(), 1);
        assert_eq!(trial.pipe.next(start, &holds), Next::Nothing);
        assert_eq!(trial.pipe.next(start, &clean), Next::End(End::Fin));
    }

    #[test]
    fn a_full_pipe_takes_no_more_until_it_has_written() {
        let stopped = Direction {
            stopped: true,
            ..Direction::default()
        };
        let mut trial = Trial::new();
        trial.put(Duration::ZERO, &vec![0; MOST], &stopped);
        assert!(!trial.pipe.takes());
        trial.departures(&Direction::default());
        assert!(trial.pipe.takes());
    }
}
