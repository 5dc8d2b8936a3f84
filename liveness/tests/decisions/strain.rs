use std::time::Duration;

use fleetbeat_liveness::strain::{Degraded, LAG_MOST, QUEUE_MOST, Strain};

use crate::given::secs;

const GOOD: (Duration, u32) = (Duration::ZERO, 0);

fn beats(strain: &mut Strain, beats: &[(Duration, u32)]) -> Vec<bool> {
    beats
        .iter()
        .map(|(lag, queue)| strain.beat(*lag, *queue))
        .collect()
}

/// Field report D09: three PINGs in a row that tell of it, and three that do not.
#[test]
fn an_agent_that_lags_or_does_not_get_rid_of_its_messages_is_strained() {
    let lagging = (LAG_MOST + Duration::from_millis(1), 0);
    let stuck = (Duration::ZERO, QUEUE_MOST + 1);
    let mut strain = Strain::default();
    assert_eq!(
        beats(&mut strain, &[lagging, stuck, lagging]),
        [false, false, true]
    );
    assert!(strain.strained());
    assert_eq!(
        beats(&mut strain, &[GOOD, GOOD, stuck, GOOD, GOOD]),
        [false; 5]
    );
    assert_eq!(beats(&mut strain, &[GOOD]), [true]);
    assert!(!strain.strained());
}

#[test]
fn a_busy_moment_is_no_strain() {
    let bad = (secs(30), 100);
    let mut strain = Strain::default();
    for _ in 0..100 {
        assert_eq!(beats(&mut strain, &[bad, bad, GOOD]), [false; 3]);
    }
    let fine = (LAG_MOST, QUEUE_MOST);
    assert_eq!(beats(&mut strain, &[fine; 9]), [false; 9]);
}

/// Hard case A9, field report D09.
#[test]
fn every_reason_to_be_degraded_is_told() {
    assert_eq!(Degraded::default().because(), None);
    let all = Degraded {
        beatless: Some(secs(70)),
        strained: true,
        unanswered: Some(secs(61)),
        volatile_state: true,
    };
    let told = all.because().unwrap_or_default();
    for part in [
        "no PING for 70.0 s",
        "not progressing",
        "61.0 s",
        "state directory",
    ] {
        assert!(told.contains(part), "{told:?} tells {part}");
    }
}
