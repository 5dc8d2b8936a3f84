//! How single values read. Nothing here knows about the server or the terminal.

use std::borrow::Cow;
use std::time::Duration;

use time::OffsetDateTime;
use time::macros::format_description;

/// What stands where there is no value.
pub(crate) const NONE: &str = "-";

/// A duration that was set, to the last digit: `20s`, `500ms`, `1m2s`.
pub(crate) fn exact(ns: u64) -> String {
    humantime::format_duration(Duration::from_nanos(ns))
        .to_string()
        .replace(' ', "")
}

/// A duration that was measured, to two or three digits: `80µs`, `1.2s`, `3h2m`.
pub(crate) fn rough(ns: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "µs"),
        (1, "ns"),
    ];
    if ns == 0 {
        return "0s".to_owned();
    }
    let seconds = ns / 1_000_000_000;
    if seconds >= 60 {
        return pair(seconds);
    }
    let (unit, name) = UNITS
        .into_iter()
        .find(|(unit, _)| ns >= *unit)
        .unwrap_or((1, "ns"));
    let tenths = ns / (unit / 10).max(1);
    if unit == 1 || tenths >= 100 || tenths.is_multiple_of(10) {
        format!("{}{name}", ns / unit)
    } else {
        format!("{}.{}{name}", tenths / 10, tenths % 10)
    }
}

/// The two largest units of a whole number of seconds.
fn pair(seconds: u64) -> String {
    const STEPS: [(u64, &str, u64, &str); 3] = [
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ];
    let (large, large_name, small, small_name) = STEPS
        .into_iter()
        .find(|step| seconds >= step.0)
        .unwrap_or(STEPS[2]);
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    }
}

/// A count that grows without bound: `999`, `12.3k`, `4.0M`.
pub(crate) fn count(n: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")];
    match UNITS.into_iter().find(|(unit, _)| n >= *unit) {
        None => n.to_string(),
        Some((from, name)) => {
            let unit = if name == "k" { 1_000 } else { from };
            format!("{}.{}{name}", n / unit, n % unit * 10 / unit)
        }
    }
}

/// `1 agent`, `2 agents`.
pub(crate) fn plural(n: u64, word: &str) -> String {
    if n == 1 {
        format!("{n} {word}")
    } else {
        format!("{n} {word}s")
    }
}

/// A time stored as microseconds since the epoch, for people: `2026-11-30 15:42:35Z`.
pub(crate) fn second(unix_us: i64) -> String {
    let form = format_description!("[year]-[month]-[day] [hour]:[minute]:[second]Z");
    moment(unix_us)
        .and_then(|at| at.format(form).ok())
        .unwrap_or_else(|| format!("{unix_us}us"))
}

/// The same with milliseconds.
pub(crate) fn millisecond(unix_us: i64) -> String {
    let form =
        format_description!("[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:3]Z");
    moment(unix_us)
        .and_then(|at| at.format(form).ok())
        .unwrap_or_else(|| format!("{unix_us}us"))
}

/// The same for programs, RFC 3339 with microseconds.
pub(crate) fn rfc3339(unix_us: i64) -> Option<String> {
    let form =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    moment(unix_us)?.format(form).ok()
}

fn moment(unix_us: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_us) * 1_000).ok()
}

/// Text from elsewhere without what a terminal would obey; the text itself stays readable.
pub(crate) fn clean(text: &str) -> String {
    let unsafe_for_terminals = |c: char| c.is_control() || is_direction_mark(c);
    text.chars()
        .map(|c| {
            if unsafe_for_terminals(c) {
                Cow::from(c.escape_unicode().to_string())
            } else {
                c.to_string().into()
            }
        })
        .collect()
}

/// Marks that reorder what is shown on the line.
fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;

    #[test]
    fn set_durations_keep_every_digit() {
        let cases = [
            (20 * S, "20s"),
            (500 * MS, "500ms"),
            (62 * S, "1m2s"),
            (1_500 * MS, "1s500ms"),
            (0, "0s"),
        ];
        for (ns, text) in cases {
            assert_eq!(exact(ns), text);
        }
    }

    #[test]
    fn measured_durations_are_rounded_down_to_what_matters() {
        let cases = [
            (0, "0s"),
            (17, "17ns"),
            (80_000, "80µs"),
            (1_250_000, "1.2ms"),
            (412 * MS, "412ms"),
            (999_999_999, "999ms"),
            (1_200 * MS, "1.2s"),
            (S, "1s"),
            (12_700 * MS, "12s"),
            (125 * S, "2m5s"),
            (3_600 * S, "1h"),
            (10_921 * S, "3h2m"),
            (100_000 * S, "1d3h"),
            (u64::MAX, "213503d23h"),
        ];
        for (ns, text) in cases {
            assert_eq!(rough(ns), text);
        }
    }

    #[test]
    fn counts_shorten_above_ten_thousand() {
        let cases = [
            (0, "0"),
            (9_999, "9999"),
            (12_345, "12.3k"),
            (4_000_000, "4.0M"),
            (u64::MAX, "18446744073.7G"),
        ];
        for (n, text) in cases {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn times_are_utc() {
        let us = 1_796_053_355_123_456;
        assert_eq!(second(us), "2026-11-30 15:42:35Z");
        assert_eq!(millisecond(us), "2026-11-30 15:42:35.123Z");
        assert_eq!(rfc3339(us).as_deref(), Some("2026-11-30T15:42:35.123456Z"));
    }

    #[test]
    fn a_time_beyond_the_calendar_is_shown_as_it_came() {
        assert_eq!(second(i64::MAX), "9223372036854775807us");
        assert_eq!(rfc3339(i64::MAX), None);
    }

    #[test]
    fn escape_sequences_and_direction_marks_are_spelled_out() {
        assert_eq!(
            clean("a\u{1b}[31mb\u{202e}c\nd é"),
            "a\\u{1b}[31mb\\u{202e}c\\u{a}d é"
        );
    }

    #[test]
    fn one_of_something_is_not_plural() {
        assert_eq!(plural(1, "agent"), "1 agent");
        assert_eq!(plural(0, "agent"), "0 agents");
    }
}
