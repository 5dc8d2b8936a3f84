use std::time::Duration;

use fleetbeat_liveness::cause::{Account, Ages, Cause, Cut, Loss, Pattern, Return, settle};
use proptest::prelude::*;

use crate::given::{millis, secs};

const BACK: Return = Return {
    loss: Loss::Broke,
    restarted: Some(false),
    booted: false,
    account: None,
    server_deaf: false,
};
const CUT: Cut = Cut {
    age: Duration::from_secs(100),
    idle: None,
};

fn cause(back: Return) -> Cause {
    settle(back, CUT, &mut Ages::default()).cause
}

/// Requirement S2, field reports B06 and A27.
#[test]
fn the_cause_follows_from_what_returns() {
    let restarted = Some(true);
    let suspend = Some(Account::Suspend);
    let silent = Some(Account::ServerSilent);
    for (name, back, expected) in [
        (
            "another boot",
            Return {
                booted: true,
                restarted,
                ..BACK
            },
            Cause::HostRestart,
        ),
        (
            "another process",
            Return { restarted, ..BACK },
            Cause::Crash,
        ),
        (
            "a killed process",
            Return {
                restarted,
                loss: Loss::Replaced,
                ..BACK
            },
            Cause::Crash,
        ),
        (
            "a laptop that slept",
            Return {
                account: suspend,
                loss: Loss::Silent,
                ..BACK
            },
            Cause::Suspend,
        ),
        ("the same process", BACK, Cause::Path),
        (
            "it gave up",
            Return {
                account: silent,
                loss: Loss::GaveUp,
                ..BACK
            },
            Cause::Path,
        ),
        (
            "a move to another network",
            Return {
                loss: Loss::Replaced,
                ..BACK
            },
            Cause::Path,
        ),
        (
            "a deaf server",
            Return {
                account: silent,
                server_deaf: true,
                ..BACK
            },
            Cause::Unknown,
        ),
        (
            "a crash meanwhile",
            Return {
                restarted,
                server_deaf: true,
                ..BACK
            },
            Cause::Crash,
        ),
        (
            "nothing to compare",
            Return {
                restarted: None,
                ..BACK
            },
            Cause::Unknown,
        ),
        (
            "a reader that slept",
            Return {
                loss: Loss::SlowConsumer,
                ..BACK
            },
            Cause::Unknown,
        ),
    ] {
        assert_eq!(cause(back), expected, "{name}");
    }
}

/// `PeerGaveUp` told by the next Hello explains an ending that broke without a word.
#[test]
fn the_agents_account_is_part_of_the_explanation() {
    let account = Some(Account::ServerSilent);
    let settled = settle(Return { account, ..BACK }, CUT, &mut Ages::default());
    assert!(
        settled.because.contains("given it up"),
        "{}",
        settled.because
    );
}

fn idle(age_ms: u64, idle_ms: u64) -> Cut {
    Cut {
        age: millis(age_ms),
        idle: Some(millis(idle_ms)),
    }
}

/// Field report A07: a proxy that cuts at 60 s of idleness while T is 90 s.
#[test]
fn endings_that_cluster_suspect_a_middlebox_with_its_timeout() {
    let mut ages = Ages::default();
    let cuts = [
        idle(63_000, 60_010),
        idle(118_000, 60_200),
        idle(91_000, 59_900),
    ];
    let causes = cuts.map(|cut| settle(BACK, cut, &mut ages).cause);
    assert_eq!(
        causes,
        [Cause::Path, Cause::Path, Cause::MiddleboxSuspected]
    );
    let Some(Pattern::Idle { about, count }) = ages.pattern() else {
        panic!("the ages have something in common");
    };
    assert_eq!((about, count), (millis(60_010), 3));
    let told = settle(BACK, idle(70_000, 60_000), &mut ages).because;
    assert!(
        told.contains("about 60.0 s") && told.contains("idle time-out"),
        "{told}"
    );
}

#[test]
fn connections_that_are_ended_at_one_age_suspect_a_middlebox_too() {
    let mut ages = Ages::default();
    for age in [3_600_000, 3_601_000, 3_599_000] {
        ages.push(idle(age, age % 17_000));
    }
    let about = secs(3_600);
    assert_eq!(ages.pattern(), Some(Pattern::Age { about, count: 3 }));
}

#[test]
fn ages_that_differ_or_are_short_suspect_nobody() {
    for cuts in [
        [
            idle(60_000, 60_000),
            idle(200_000, 60_000),
            idle(400_000, 70_000),
        ],
        [idle(1_000, 500), idle(1_010, 505), idle(1_005, 500)],
    ] {
        let mut ages = Ages::default();
        for cut in cuts {
            ages.push(cut);
        }
        assert_eq!(ages.pattern(), None, "{cuts:?}");
    }
}

/// A crash loop with a period of a minute is no time-out of anything between.
#[test]
fn only_the_path_s_endings_count() {
    let mut ages = Ages::default();
    let crash = Return {
        restarted: Some(true),
        ..BACK
    };
    let deaf = Return {
        server_deaf: true,
        ..BACK
    };
    for back in [crash, deaf, crash, deaf] {
        assert_ne!(
            settle(back, idle(60_000, 60_000), &mut ages).cause,
            Cause::Path
        );
    }
    assert_eq!(ages.pattern(), None);
}

proptest! {
    /// Three endings within ±1 % of each other are found whatever else happened, up to eight back.
    #[test]
    fn a_timeout_is_found_among_other_endings(
        timeout in 6_000..7_200_000_u64,
        noise in prop::collection::vec(1..100_u64, 0..5),
        wobble in prop::collection::vec(0..100_u64, 3),
    ) {
        let mut ages = Ages::default();
        for share in noise {
            // Far from the time-out: below half of it.
            ages.push(idle(share, timeout * share / 250));
        }
        for part in wobble {
            ages.push(idle(timeout * (part + 3), timeout + timeout * part / 10_000));
        }
        let found = matches!(ages.pattern(), Some(Pattern::Idle { count, .. }) if count >= 3);
        prop_assert!(found, "{ages:?}");
    }

    #[test]
    fn a_suspicion_rests_on_three_endings_that_agree(
        cuts in prop::collection::vec((0..100_000_u64, 0..100_000_u64), 0..12),
    ) {
        let mut ages = Ages::default();
        for (age, idle_ms) in &cuts {
            ages.push(idle(*age, *idle_ms));
        }
        if let Some(pattern) = ages.pattern() {
            let of = |cut: &(u64, u64)| match pattern {
                Pattern::Idle { .. } => millis(cut.1),
                Pattern::Age { .. } => millis(cut.0),
            };
            let about = pattern.about();
            let agree = cuts.iter().rev().take(8).map(of);
            let agree = agree.filter(|age| age.abs_diff(about) <= about * 3 / 100).count();
            prop_assert!(agree >= 3 && about >= secs(5));
            prop_assert_eq!(agree, pattern.count());
        }
    }
}
