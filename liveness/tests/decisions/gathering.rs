//! Evidence counted over the phases of a rollout, and how findings read.

use std::time::Duration;

use fleetbeat_liveness::rollout::guard::{Against, Need, Side};
use fleetbeat_liveness::rollout::plan::soak_least;
use fleetbeat_liveness::rollout::{Answer, Finding, Gathering, Guard, Part, Shown};
use fleetbeat_liveness::tuning::Tuning;

use crate::given::secs;

fn shown(minutes: u64, disconnects: u32, rtt: &[u64]) -> Shown {
    Shown {
        connected: secs(minutes * 60),
        disconnects,
        reconnects: disconnects,
        rtt: rtt.to_vec(),
    }
}

/// Hard case C6: the last phase has no rest, so what the rests before it showed stands for the time before.
#[test]
fn the_rests_of_earlier_phases_are_what_the_last_phase_is_compared_with() {
    let mut gathering = Gathering::default();
    gathering.begin(2);
    for _ in 0..2 {
        gathering.add(Part::Rest, &shown(30, 1, &[20_000_000]));
    }
    gathering.timed(Part::Rest, 2);
    gathering.add(Part::Candidate, &shown(30, 7, &[]));
    let evidence = gathering.evidence();
    assert_eq!(evidence.against, Against::Rest);
    assert_eq!(
        (evidence.candidate.disconnects, evidence.old.disconnects),
        (7, 2)
    );
    gathering.begin(1);
    assert_eq!(gathering.evidence().candidate, Side::default());
    gathering.add(Part::Rest, &shown(60, 0, &[30_000_000]));
    gathering.timed(Part::Rest, 1);
    gathering.begin(0);
    let evidence = gathering.evidence();
    assert_eq!(
        (evidence.against, evidence.old.members),
        (Against::Before, 2)
    );
    assert!((evidence.old.member_hours - 2.0).abs() < 1e-9);
    assert_eq!(evidence.old.rtt.iter().sum::<u64>(), 3);
}

/// One slow host sends many slow samples and is one draw; and who is seen again by an owner that starts
/// again is no other one.
#[test]
fn members_are_draws_whatever_they_send_and_however_often_they_are_counted() {
    let mut gathering = Gathering::default();
    gathering.begin(1);
    gathering.add(Part::Candidate, &shown(1, 0, &[1, 2, 3, 4]));
    gathering.add(Part::Candidate, &shown(1, 0, &[]));
    gathering.timed(Part::Candidate, 3);
    gathering.timed(Part::Candidate, 2);
    assert_eq!(
        (gathering.candidate.members, gathering.rest.members),
        (3, 0)
    );
    assert_eq!(gathering.candidate.rtt.iter().sum::<u64>(), 4);
}

#[test]
fn a_rollout_of_one_phase_has_nothing_to_compare_with_and_says_so() {
    let mut gathering = Gathering::default();
    gathering.begin(0);
    let evidence = gathering.evidence();
    assert_eq!(
        (evidence.against, evidence.old),
        (Against::Before, Side::default())
    );
}

/// Hard case C6: D = 181 s cannot be seen in a soak of 120 s.
#[test]
fn soak_is_at_least_twice_the_longest_silence_that_is_tolerated() {
    let slow = Tuning::new(secs(60), 3, Duration::from_secs(1), 1).expect("valid");
    let fast = Tuning::new(secs(3), 3, Duration::from_secs(1), 1).expect("valid");
    assert_eq!(soak_least([fast, slow]), secs(2 * 181 + 1));
    let adaptive = fast.with_adaptive(true).expect("valid");
    assert_eq!(soak_least([adaptive]), secs(4 * 10 + 1));
    assert_eq!(soak_least([]), Duration::ZERO);
}

#[test]
fn findings_read_as_sentences_with_their_numbers() {
    let finding = |guard, answer| Finding {
        guard,
        answer,
        against: Against::Rest,
    };
    let worse = |candidate, old| Answer::Worse { candidate, old };
    let table = [
        (
            finding(Guard::Disconnects, worse(14.2, 0.1)),
            "disconnects 14.20 per member-hour against 0.10 per member-hour of the rest over the same time",
        ),
        (
            finding(Guard::Rtt, worse(0.25, 0.02)),
            "round trips (p99) 250 ms against 20 ms of the rest over the same time",
        ),
        (
            finding(
                Guard::Refusals,
                Answer::OverLimit {
                    candidate: 0.5,
                    limit: 0.01,
                },
            ),
            "refusals 50.0 %, above the limit of 1.0 %",
        ),
        (
            finding(Guard::Rtt, Answer::TooLittle(Need::Members(900))),
            "little evidence of round trips (p99), it takes 900 members on each side",
        ),
        (
            finding(Guard::Reconnects, Answer::Fine),
            "reconnects no worse",
        ),
    ];
    for (finding, text) in table {
        assert_eq!(finding.to_string(), text);
    }
}
