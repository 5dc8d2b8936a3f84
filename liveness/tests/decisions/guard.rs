use fleetbeat_liveness::histogram::{BUCKETS, bucket};
use fleetbeat_liveness::rollout::guard::{Against, Answer, Need, Side};
use fleetbeat_liveness::rollout::{Evidence, Finding, Guard, Guards, Standing};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

use crate::given::dice;

/// Disconnects per member-hour.
const USUAL: f64 = 0.1;

/// `members` watched for an hour, each with `rate` disconnects on average and answering in 10 to 30 ms
/// times `slow`.
fn side(members: u32, rate: f64, slow: f64, rng: &mut impl Rng) -> Side {
    let mut side = Side {
        members,
        member_hours: f64::from(members),
        rtt: vec![0; BUCKETS],
        ..Side::default()
    };
    for _ in 0..members {
        let lost = (0..10)
            .map(|_| u32::from(rng.random_bool(rate / 10.0)))
            .sum::<u32>();
        side.disconnects += lost;
        side.reconnects += lost;
        let seconds = rng.random_range(0.01..0.03) * slow;
        let ns = std::time::Duration::from_secs_f64(seconds).as_nanos();
        side.rtt[bucket(u64::try_from(ns).expect("short"))] += 1;
    }
    side
}

fn judge(candidate: Side, old: Side, alpha: f64) -> Vec<Finding> {
    let cohort = (0..candidate.members).map(|_| Standing::Applied);
    let evidence = Evidence {
        candidate,
        old,
        against: Against::Rest,
    };
    Guards::default().judge(cohort, true, &evidence, alpha)
}

fn of(findings: &[Finding], guard: Guard) -> Answer {
    let finding = findings.iter().find(|finding| finding.guard == guard);
    finding.expect("a finding per guard").answer
}

fn halts(runs: u32, members: u32, rate: f64, rng: &mut StdRng) -> u32 {
    let halted = |rng: &mut StdRng| {
        let (candidate, old) = (
            side(members, rate, 1.0, rng),
            side(members, USUAL, 1.0, rng),
        );
        judge(candidate, old, 0.01 / 8.0)
            .iter()
            .any(Finding::is_bad)
    };
    (0..runs).map(|_| u32::from(halted(rng))).sum()
}

/// Hard case C6: one look with a chance of 1 % in all; 1,000 looks at each size.
#[test]
fn harmless_candidates_are_halted_no_oftener_than_the_chance_given() {
    let mut rng = dice(1);
    for members in [5, 50, 500] {
        let halted = halts(1_000, members, USUAL, &mut rng);
        // 10 are expected at most; 20 or more have a chance below 0.4 %.
        assert!(halted < 20, "{halted} of 1,000 with {members} members");
    }
}

#[test]
fn ten_times_the_disconnects_are_found_among_fifty() {
    let halted = halts(200, 50, USUAL * 10.0, &mut dice(2));
    assert!(halted >= 195, "{halted} of 200");
}

#[test]
fn five_members_are_too_few_and_it_is_said_how_many_would_do() {
    let mut rng = dice(3);
    let (candidate, old) = (side(5, 0.0, 1.0, &mut rng), side(5, 0.0, 1.0, &mut rng));
    let findings = judge(candidate, old, 0.001);
    let Answer::TooLittle(Need::MemberHours(hours)) = of(&findings, Guard::Disconnects) else {
        panic!("{findings:?}");
    };
    // exp(-6.9) is 0.001 at a limit of one per member-hour.
    assert!((6.9..6.91).contains(&hours), "{hours}");
    let Answer::TooLittle(Need::Members(members)) = of(&findings, Guard::Rtt) else {
        panic!("{findings:?}");
    };
    assert_eq!(members, 757); // 0.99^757 < 0.0005
    assert_eq!(
        of(&findings, Guard::Unacked),
        Answer::TooLittle(Need::Cohort(7)) // P(X ≥ 4 of 7) at 5 % is 0.0002, P(X ≥ 3 of 6) is 0.002
    );
}

#[test]
fn a_shift_of_the_p99_is_told_from_its_own_noise() {
    let mut rng = dice(4);
    let old = side(2_000, USUAL, 1.0, &mut rng);
    let slow = judge(side(2_000, USUAL, 3.0, &mut rng), old.clone(), 0.001);
    assert!(
        matches!(of(&slow, Guard::Rtt), Answer::Worse { .. }),
        "{slow:?}"
    );
    let same = judge(side(2_000, USUAL, 1.0, &mut rng), old, 0.001);
    assert_eq!(of(&same, Guard::Rtt), Answer::Fine);
}

#[test]
fn an_absolute_limit_holds_where_both_sides_are_bad() {
    let mut rng = dice(5);
    let mut candidate = side(500, USUAL, 200.0, &mut rng);
    candidate.disconnects = 900;
    let findings = judge(candidate.clone(), candidate, 0.001);
    for guard in [Guard::Disconnects, Guard::Rtt] {
        let answer = of(&findings, guard);
        assert!(matches!(answer, Answer::OverLimit { .. }), "{answer:?}");
    }
}

#[test]
fn events_of_no_watched_time_are_no_evidence() {
    let candidate = Side {
        members: 5,
        disconnects: 3,
        ..Side::default()
    };
    let findings = judge(candidate, Side::default(), 0.001);
    let answer = of(&findings, Guard::Disconnects);
    assert!(matches!(answer, Answer::TooLittle(_)), "{answer:?}");
}
