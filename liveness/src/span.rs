//! How a length of time reads to people.

use std::fmt;
use std::time::Duration;

/// Shows a duration with the precision that matters at its size: `2 ms`, `62.0 s`, `5 min 3 s`, `3 h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str, u64, &str); 3] = [
            (86_400, "d", 3_600, "h"),
            (3_600, "h", 60, "min"),
            (60, "min", 1, "s"),
        ];
        let Self(length) = self;
        let seconds = length.as_secs();
        if seconds < 1 {
            return match length.as_millis() {
                0 if !length.is_zero() => f.write_str("under 1 ms"),
                millis => write!(f, "{millis} ms"),
            };
        }
        if seconds < 120 {
            return write!(f, "{seconds}.{} s", length.subsec_millis() / 100);
        }
        let step = STEPS.into_iter().find(|step| seconds >= step.0);
        let (large, large_name, small, small_name) = step.unwrap_or(STEPS[2]);
        write!(f, "{} {large_name}", seconds / large)?;
        match seconds % large / small {
            0 => Ok(()),
            rest => write!(f, " {rest} {small_name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_as_precise_as_it_matters() {
        for (millis, text) in [
            (0, "0 ms"),
            (2, "2 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (62_049, "62.0 s"),
            (119_999, "119.9 s"),
            (303_900, "5 min 3 s"),
            (10_800_000, "3 h"),
            (432_000_000, "5 d"),
            (u64::MAX / 1_000_000, "213503 d 23 h"),
        ] {
            assert_eq!(Span(Duration::from_millis(millis)).to_string(), text);
        }
        assert_eq!(Span(Duration::from_nanos(1)).to_string(), "under 1 ms");
    }
}
