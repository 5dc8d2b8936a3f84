use fleetbeat_liveness::flapping::{Flapping, WINDOW};
use proptest::prelude::*;

use crate::given::{at, secs};

fn after(losses: &[u64], now: u64) -> bool {
    let mut flapping = Flapping::default();
    for loss in losses {
        flapping.lost(at(*loss));
        flapping.judge(at(*loss));
    }
    flapping.judge(at(now))
}

/// Field report C10.
#[test]
fn an_agent_that_loses_its_session_again_and_again_flaps() {
    for (losses, now, flaps) in [
        (&[0][..], 0, false),
        (&[0, 1], 1, false),
        (&[0, 1, 2], 2, true),
        (&[0, 200, 400], 400, true),
        (&[0, 201, 402], 402, false),
        (&[0, 200, 400, 599], 599, true),
        (&[0, 300, 600, 900, 1_200], 1_200, false),
    ] {
        assert_eq!(after(losses, now), flaps, "{losses:?}");
    }
}

/// Consecutive counts would end with the first good session; a score has to fall well below where it
/// began.
#[test]
fn flapping_ends_when_one_loss_at_most_is_left_in_the_window() {
    let losses = [0, 1, 2, 3];
    assert!(after(&losses, 599));
    assert!(!after(&losses, 602));
    let mut flapping = Flapping::default();
    for loss in losses {
        flapping.lost(at(loss));
    }
    assert!(flapping.judge(at(3)));
    flapping.lost(at(500));
    assert!(
        flapping.judge(at(600)),
        "two losses count for more than one"
    );
    assert!(!flapping.judge(at(604)));
}

/// Field report C10: two losses a second for ten minutes are one state.
#[test]
fn a_fast_flapper_flaps_all_the_time_in_bounded_memory() {
    let mut flapping = Flapping::default();
    let mut begun = 0;
    let mut before = false;
    for tick in 0..1_200 {
        let now = fleetbeat_liveness::Moment::ZERO + secs(1) * tick / 2;
        flapping.lost(now);
        let flaps = flapping.judge(now);
        begun += u32::from(flaps && !before);
        before = flaps;
    }
    assert_eq!((begun, before), (1, true));
    assert!(size_of::<Flapping>() + 16 * 8 < 256);
}

/// The score of the docstring over every loss that ever was, in thousandths.
fn naive_score(losses: &[u64], now: u64) -> u64 {
    let ages = losses.iter().map(|loss| now - loss);
    let counted = ages.filter(|age| *age < WINDOW.as_secs());
    counted.map(|age| 1_000 - age * 1_000 / 1_200).sum()
}

proptest! {
    #[test]
    fn what_is_forgotten_never_changes_the_judgement(
        gaps in prop::collection::vec(0..400_u64, 1..60),
    ) {
        let (mut flapping, mut losses, mut now, mut expected) =
            (Flapping::default(), Vec::new(), 0, false);
        for gap in gaps {
            now += gap;
            losses.push(now);
            flapping.lost(at(now));
            let bar = if expected { 1_000 } else { 2_500 };
            let score = naive_score(&losses, now);
            // Whole thousandths are rounded loss by loss.
            prop_assume!(score.abs_diff(bar) > losses.len() as u64);
            expected = score >= bar;
            prop_assert_eq!(flapping.judge(at(now)), expected);
        }
    }
}
