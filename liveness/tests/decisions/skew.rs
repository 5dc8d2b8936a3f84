use fleetbeat_liveness::skew::Skew;

use crate::given::secs;

const SECOND: i64 = 1_000_000;

/// Field report B14: days behind after a sleep.
#[test]
fn clocks_that_differ_by_more_than_a_slow_hello_are_told_with_the_amount() {
    let server = 1_796_053_355 * SECOND;
    let of = |by: i64| Skew::of(server + by * SECOND, server, secs(0));
    assert_eq!(of(5), None);
    assert_eq!(of(-5), None);
    assert_eq!(of(6), Some(Skew::Ahead(secs(6))));
    assert_eq!(of(-5 * 86_400), Some(Skew::Behind(secs(5 * 86_400))));
    let told = of(-5 * 86_400).map(|skew| skew.to_string());
    assert_eq!(
        told.as_deref(),
        Some("its clock is 5 d behind the server's")
    );
}

/// Requirement S30: a Hello that the server left unread for a minute makes nobody's clock wrong.
#[test]
fn what_the_server_left_unread_is_no_fault_of_the_agents_clock() {
    assert_eq!(Skew::of(0, 60 * SECOND, secs(60)), None);
    assert_eq!(
        Skew::of(0, 66 * SECOND, secs(60)),
        Some(Skew::Behind(secs(66)))
    );
    assert_eq!(
        Skew::of(66 * SECOND, 0, secs(60)),
        Some(Skew::Ahead(secs(66)))
    );
}

#[test]
fn no_clock_is_too_wrong_to_be_told() {
    assert!(matches!(
        Skew::of(i64::MIN, i64::MAX, secs(0)),
        Some(Skew::Behind(_))
    ));
    assert!(matches!(
        Skew::of(i64::MAX, i64::MIN, secs(0)),
        Some(Skew::Ahead(_))
    ));
}
