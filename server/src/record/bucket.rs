//! Buckets of wall-clock time.

use time::{Duration, OffsetDateTime};

use crate::store::metrics::Bucket;

/// Width of group rollups and histograms, seconds.
pub(super) const GROUPS_S: u32 = 10;

/// The widths that per-session rollups may have, seconds.
const BEATS_S: [u32; 5] = [60, 120, 300, 600, 900];
/// Rows per second that they may cost.
const BUDGET: u64 = 2_000;

/// The smallest width at which so many sessions stay within the budget.
pub(super) fn beats_width(sessions: u64) -> u32 {
    let fits = |width: &&u32| sessions <= BUDGET * u64::from(**width);
    *BEATS_S.iter().find(fits).unwrap_or(&BEATS_S[4])
}

/// How often the bucket that time is in is written: as often as group rollups while the budget
/// allows it, so that a crash loses no more of one than of the other; else when it ends.
pub(super) fn beats_every(sessions: u64) -> std::time::Duration {
    let often = sessions <= BUDGET * u64::from(GROUPS_S);
    let seconds = if often {
        GROUPS_S
    } else {
        beats_width(sessions)
    };
    std::time::Duration::from_secs(seconds.into())
}

/// Cuts time into buckets, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeline {
    start: OffsetDateTime,
    width: u32,
}

impl Timeline {
    pub(super) fn new(at: OffsetDateTime, width: u32) -> Self {
        Self {
            start: floor(at, width),
            width,
        }
    }

    /// The bucket that time is in, as wide as it is meant to be.
    pub(super) fn current(&self) -> Bucket {
        Bucket {
            start: self.start,
            seconds: self.width,
        }
    }

    /// The bucket that has ended by `at`, once. It is wider than meant when nobody looked for a
    /// while: what was counted then can't be told apart any more. `width` is that of the next. When
    /// the clock was set back, buckets repeat and are added up.
    pub(super) fn ended(&mut self, at: OffsetDateTime, width: u32) -> Option<Bucket> {
        let boundary = floor(at, self.width);
        let passed = (boundary - self.start).whole_seconds();
        self.width = width;
        if passed < 0 {
            self.start = boundary;
        }
        let seconds = u32::try_from(passed).ok().filter(|passed| *passed > 0)?;
        let start = std::mem::replace(&mut self.start, boundary);
        Some(Bucket { start, seconds })
    }
}

/// The start of the bucket of `at`, aligned to the Unix epoch.
fn floor(at: OffsetDateTime, width: u32) -> OffsetDateTime {
    let over = at.unix_timestamp().rem_euclid(i64::from(width));
    let within = Duration::seconds(over) + Duration::nanoseconds(i64::from(at.nanosecond()));
    at.saturating_sub(within)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn a_bucket_ends_once_at_its_boundary() {
        let mut line = Timeline::new(datetime!(2026-11-30 12:00:07.5 UTC), 10);
        let first = datetime!(2026-11-30 12:00:00 UTC);
        assert_eq!(
            line.current(),
            Bucket {
                start: first,
                seconds: 10
            }
        );
        assert_eq!(line.ended(datetime!(2026-11-30 12:00:09.999 UTC), 10), None);
        let ended = line.ended(datetime!(2026-11-30 12:00:10.2 UTC), 10);
        assert_eq!(
            ended,
            Some(Bucket {
                start: first,
                seconds: 10
            })
        );
        assert_eq!(line.ended(datetime!(2026-11-30 12:00:19 UTC), 10), None);
    }

    #[test]
    fn a_bucket_that_nobody_ended_in_time_is_wide() {
        let mut line = Timeline::new(datetime!(2026-11-30 23:59:40 UTC), 10);
        let ended = line.ended(datetime!(2026-12-01 00:01:03 UTC), 10);
        let start = datetime!(2026-11-30 23:59:40 UTC);
        assert_eq!(ended, Some(Bucket { start, seconds: 80 }));
        assert_eq!(line.current().start, datetime!(2026-12-01 00:01:00 UTC));
    }

    #[test]
    fn a_clock_that_was_set_back_ends_nothing_twice() {
        let mut line = Timeline::new(datetime!(2026-11-30 12:00:00 UTC), 60);
        assert_eq!(line.ended(datetime!(2026-11-30 11:30:30 UTC), 60), None);
        let ended = line.ended(datetime!(2026-11-30 11:31:00 UTC), 60);
        let start = datetime!(2026-11-30 11:30:00 UTC);
        assert_eq!(ended, Some(Bucket { start, seconds: 60 }));
    }

    #[test]
    fn buckets_touch_when_their_width_changes() {
        let mut line = Timeline::new(datetime!(2026-11-30 12:01:00 UTC), 60);
        let ended = line.ended(datetime!(2026-11-30 12:02:00 UTC), 300).unwrap();
        assert_eq!(ended.seconds, 60);
        let ended = line.ended(datetime!(2026-11-30 12:05:00 UTC), 300).unwrap();
        assert_eq!(ended.start, datetime!(2026-11-30 12:02:00 UTC));
        assert_eq!(ended.seconds, 180);
    }

    #[test]
    fn the_width_keeps_rows_within_their_budget() {
        let table = [
            (0, 60),
            (120_000, 60),
            (120_001, 120),
            (200_000, 120),
            (3_000_000, 900),
        ];
        for (sessions, width) in table {
            assert_eq!(beats_width(sessions), width, "{sessions}");
        }
        assert_eq!(beats_every(20_000).as_secs(), 10);
        assert_eq!(beats_every(20_001).as_secs(), 60);
        assert_eq!(beats_every(200_000).as_secs(), 120);
    }
}
