use std::time::Duration;

use fleetbeat_liveness::socket::{KERNEL_MOST, KeepaliveError};
use fleetbeat_liveness::{Keepalive, SocketOptions, Tuning};
use proptest::prelude::*;

use crate::given::{any_tuning, secs};

fn tuning(t: u64, n: u32, w: u64, pong_every: u32) -> Tuning {
    Tuning::new(secs(t), n, secs(w), pong_every).expect("within the bounds")
}

fn keepalive(idle: u64, gap: u64, probes: u32) -> Result<Keepalive, KeepaliveError> {
    Keepalive::new(secs(idle), secs(gap), probes)
}

fn options(t: u64, n: u32, w: u64) -> SocketOptions {
    Keepalive::default().under(&tuning(t, n, w, 1).expectation())
}

/// K01 and K02: the essays' numbers, as a sum and not as a product.
#[test]
fn detection_by_keepalive_is_idle_and_all_gaps() {
    assert_eq!(Keepalive::default().detects_after(), secs(210));
    assert_eq!(keepalive(7200, 75, 9).unwrap().detects_after(), secs(7875));
}

/// K03: whoever lowers idle and leaves the system's gap is told.
#[test]
fn a_half_changed_keepalive_is_refused() {
    let error = keepalive(60, 75, 9).unwrap_err().to_string();
    assert!(error.contains("lower the gap"), "{error}");
}

/// K04 and S1: probes run between no two heartbeats that are on time, and end nothing before the judge.
#[test]
fn a_keepalive_that_contradicts_the_tuning_is_named_with_its_numbers() {
    let usual = Keepalive::default();
    assert_eq!(usual.check(&Tuning::default()), Ok(()));
    let error = usual.check(&tuning(180, 3, 2, 1)).unwrap_err().to_string();
    assert!(error.contains("120s") && error.contains("182s"), "{error}");
    let error = usual.check(&tuning(100, 3, 2, 1)).unwrap_err().to_string();
    assert!(error.contains("210s") && error.contains("302s"), "{error}");
}

#[test]
fn bounds_are_refused_and_what_is_written_is_read() {
    for (idle, gap, probes) in [
        (0, 1, 1),
        (7201, 30, 3),
        (120, 0, 3),
        (120, 30, 0),
        (120, 30, 21),
    ] {
        assert!(
            keepalive(idle, gap, probes).is_err(),
            "{idle}/{gap}/{probes}"
        );
    }
    let fraction = Keepalive::new(Duration::from_millis(120_500), secs(30), 3);
    assert_eq!(fraction, Err(KeepaliveError::Fraction));
    for text in [
        "",
        "120s",
        "120s/30s",
        "120s/30s/3/4",
        "2m/30s/3",
        "a/b/c",
        "-1/1/1",
    ] {
        let error = text.parse::<Keepalive>().unwrap_err().to_string();
        assert!(error.contains("120s/30s/3"), "{text}: {error}");
    }
    assert_eq!("90s/15/4".parse(), keepalive(90, 15, 4));
    let usual = Keepalive::default();
    assert_eq!(usual.to_string().parse(), Ok(usual));
}

/// Hard case B4, field reports A11 and A12: the kernel never ends what the judge tolerates, and one lost
/// probe ends nothing.
#[test]
fn the_kernel_gives_up_after_the_judge_and_after_every_probe() {
    let quick = options(20, 3, 2);
    assert_eq!((quick.user_timeout, quick.adjusted), (secs(64), false));
    assert_eq!(quick.keepalive, Keepalive::default());
    let slow = options(300, 3, 2);
    assert_eq!((slow.user_timeout, slow.adjusted), (secs(904), true));
    assert_eq!(slow.keepalive.idle(), secs(812));
    assert_eq!(slow.keepalive.detects_after(), secs(902));
    // 120 s without a byte in one direction: 210 s at least.
    assert_eq!(options(119, 1, 1).user_timeout, secs(121));
    assert!(options(120, 1, 1).user_timeout >= secs(210));
    let adaptive = tuning(20, 3, 2, 1)
        .with_adaptive(true)
        .expect("it answers each PING");
    let adaptive = Keepalive::default().under(&adaptive.expectation());
    assert_eq!(adaptive.user_timeout, secs(126));
    let lease = Keepalive::default().under(&tuning(20, 3, 2, 10).expectation());
    assert_eq!(lease.user_timeout, secs(210));
}

#[test]
fn the_longest_deadline_still_fits_into_the_kernel() {
    let longest = options(3600, 20, 3600);
    assert_eq!(longest.keepalive.idle(), KERNEL_MOST);
    assert!(longest.keepalive.gap() <= KERNEL_MOST);
    assert!(longest.keepalive.detects_after() >= secs(75_600));
}

fn any_keepalive() -> impl Strategy<Value = Keepalive> {
    (1..=7200_u64)
        .prop_flat_map(|idle| (Just(idle), 1..=idle, 1..=20_u32))
        .prop_map(|(idle, gap, probes)| keepalive(idle, gap, probes).expect("within the bounds"))
}

proptest! {
    #[test]
    fn what_is_applied_never_contradicts_the_tuning(
        configured in any_keepalive(), tuning in any_tuning(),
    ) {
        let options = configured.under(&tuning.expectation());
        prop_assert_eq!(options.keepalive.check(&tuning), Ok(()));
        prop_assert!(options.user_timeout >= tuning.expectation().offline_at_most + tuning.timeout());
        prop_assert!(options.keepalive.idle() >= configured.idle());
        prop_assert_eq!(options.adjusted, configured.check(&tuning).is_err());
        if tuning.interval() * tuning.pong_every() >= options.keepalive.idle() {
            prop_assert!(options.user_timeout >= options.keepalive.detects_after());
        }
    }
}
