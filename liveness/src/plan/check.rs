use std::time::Duration;

use super::{Facts, ROUND_TRIPS};
use crate::tuning::Tuning;

/// T covers so many round trips (essay 1 §4.2).
const MARGIN: u32 = 10;
/// A known pause above `T / 10` needs so many misses (essay 1 §4.2).
const PATIENT: u32 = 4;
/// A middlebox that nobody declared may forget a connection that was idle for so long (essay 1 §2.2).
const ASSUMED_IDLE: Duration = Duration::from_mins(5);
/// The longest quiet time may be a third of that, and should be a fifth (essay 1 §4.3).
const IDLE_MOST: u32 = 3;
const IDLE_GOOD: u32 = 5;
/// Room that one retransmission of TCP takes.
const RETRANSMISSION: Duration = Duration::from_millis(300);
/// Heartbeats that cost so many times what would do are wasted (essay 1 §7.3).
const WASTE: f64 = 2.0;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    Good,
    /// It holds, barely, or on an assumption.
    Warning,
    Failed,
}

impl Grade {
    /// `ok`, `warning` or `failed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// One thing to know before a tuning comes into force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Lower case with underscores.
    pub name: &'static str,
    pub grade: Grade,
    /// The numbers, and what to do.
    pub reason: String,
}

/// Everything that can be said of `tuning` from `facts`.
#[must_use]
pub fn checks(tuning: &Tuning, facts: &Facts) -> Vec<Check> {
    let mut checks = vec![margin(tuning, facts), timeout(tuning, facts)];
    checks.extend(facts.pause.map(|pause| covers_pause(tuning, pause)));
    checks.push(middleboxes(tuning, facts));
    if let Some(detect) = facts.detect {
        checks.push(within(tuning, detect));
        checks.push(waste(tuning, detect));
    }
    checks.extend(backstop(tuning, facts));
    checks
}

fn check(name: &'static str, grade: Grade, reason: String) -> Check {
    Check {
        name,
        grade,
        reason,
    }
}

fn margin(tuning: &Tuning, facts: &Facts) -> Check {
    let interval = tuning.interval();
    let Some(p99) = facts.rtt_p99.or(facts.rtt_p95) else {
        let reason =
            "no round trip is known: measure its P99 and give it with --rtt-p99".to_owned();
        return check("rtt_margin", Grade::Warning, reason);
    };
    let need = p99 * MARGIN;
    let ratio = interval.div_duration_f64(p99);
    let (grade, advice) = match interval.cmp(&need) {
        std::cmp::Ordering::Greater => (Grade::Good, String::new()),
        std::cmp::Ordering::Equal => (
            Grade::Warning,
            ", which is barely enough: widen it".to_owned(),
        ),
        std::cmp::Ordering::Less => (Grade::Failed, format!(": raise T to at least {need:?}")),
    };
    let reason = format!(
        "T is {ratio:.1} times the round trip's P99 of {p99:?}, {MARGIN} are needed{advice}"
    );
    check("rtt_margin", grade, reason)
}

fn timeout(tuning: &Tuning, facts: &Facts) -> Check {
    let timeout = tuning.timeout();
    let Some((which, rtt)) = facts.rtt() else {
        let reason = format!("W is {timeout:?}, and no round trip is known to compare it with");
        return check("timeout", Grade::Warning, reason);
    };
    let (need, good) = (rtt * ROUND_TRIPS, rtt * ROUND_TRIPS + RETRANSMISSION);
    let (grade, advice) = if timeout < need {
        (Grade::Failed, format!(": raise W to at least {need:?}"))
    } else if timeout < good {
        let advice =
            format!(", but one retransmission does not fit: {good:?} would leave room for it");
        (Grade::Warning, advice)
    } else {
        (Grade::Good, String::new())
    };
    let reason = format!("W is {timeout:?}, {ROUND_TRIPS} * {which} is {need:?}{advice}");
    check("timeout", grade, reason)
}

fn covers_pause(tuning: &Tuning, pause: Duration) -> Check {
    let (interval, misses) = (tuning.interval(), tuning.misses());
    let share = pause.div_duration_f64(interval) * 100.0;
    let known = format!("a pause of {pause:?} is {share:.0} % of T");
    let (grade, advice) = match (pause * MARGIN).cmp(&interval) {
        std::cmp::Ordering::Less => (Grade::Good, String::new()),
        std::cmp::Ordering::Equal => (Grade::Warning, ", which is barely little enough".to_owned()),
        std::cmp::Ordering::Greater if misses >= PATIENT => {
            (Grade::Good, format!(", and N = {misses} rides it out"))
        }
        std::cmp::Ordering::Greater => {
            let long = pause * MARGIN;
            let advice =
                format!(": N = {misses} is too few, set it to {PATIENT}, or T to {long:?}");
            (Grade::Failed, advice)
        }
    };
    check("pause", grade, format!("{known}{advice}"))
}

fn middleboxes(tuning: &Tuning, facts: &Facts) -> Check {
    let declared = facts.idle_timeouts.iter().min().copied();
    let idle = declared.unwrap_or(ASSUMED_IDLE);
    // The server is the quieter side of a lease.
    let quiet = tuning.interval() * tuning.pong_every();
    let (most, good) = (idle / IDLE_MOST, idle / IDLE_GOOD);
    let (grade, advice) = if quiet > most {
        (
            Grade::Failed,
            format!(": at most {most:?} is safe, {good:?} is good"),
        )
    } else if quiet > good {
        (Grade::Warning, format!(", on the edge: {good:?} is good"))
    } else {
        (Grade::Good, String::new())
    };
    let origin = if declared.is_some() {
        format!("the path forgets what is idle for {idle:?}")
    } else {
        format!(
            "no idle time-out is declared, {idle:?} is assumed; ask for every middlebox on the path"
        )
    };
    let reason = format!("one side may be quiet for {quiet:?}{advice}; {origin}");
    check("idle_timeout", grade, reason)
}

fn within(tuning: &Tuning, detect: Duration) -> Check {
    let worst = tuning.deadline();
    let (grade, advice) = if worst > detect {
        (Grade::Failed, ": lower T, N or W, or tolerate more")
    } else {
        (Grade::Good, "")
    };
    let reason = format!("found within {worst:?} at worst, {detect:?} are tolerated{advice}");
    check("detection", grade, reason)
}

fn waste(tuning: &Tuning, detect: Duration) -> Check {
    let would_do = detect.saturating_sub(tuning.timeout()) / tuning.misses();
    let factor = would_do.div_duration_f64(tuning.interval());
    let (grade, advice) = if factor >= WASTE {
        (Grade::Warning, ": raise T, or tolerate less")
    } else {
        (Grade::Good, "")
    };
    let reason = format!(
        "T could be {would_do:.1?} for the tolerated {detect:?}; heartbeats cost {factor:.1} times as much{advice}"
    );
    check("waste", grade, reason)
}

/// Keepalive finds what heartbeats cannot, and must never be quicker (essay 1 §3.2, essay 2 §2.4).
fn backstop(tuning: &Tuning, facts: &Facts) -> Option<Check> {
    let keepalive = facts.keepalive?;
    let finds = keepalive.idle + keepalive.interval * keepalive.probes;
    let known = format!(
        "keepalive finds a dead path after {:?} + {} * {:?} = {finds:?}",
        keepalive.idle, keepalive.probes, keepalive.interval
    );
    let (interval, deadline) = (tuning.interval(), tuning.deadline());
    let (grade, advice) = if keepalive.idle <= interval {
        let advice = format!(
            "; its idle time is not above T = {interval:?}, so it fires in normal running: raise it"
        );
        (Grade::Failed, advice)
    } else if finds < deadline {
        let advice = format!(", before D = {deadline:?}: raise it, the heartbeat judges first");
        (Grade::Failed, advice)
    } else if keepalive.interval > keepalive.idle {
        let advice =
            ", most of it between probes: only the idle time seems to have been changed".to_owned();
        (Grade::Warning, advice)
    } else {
        (Grade::Good, String::new())
    };
    Some(check("keepalive", grade, format!("{known}{advice}")))
}
