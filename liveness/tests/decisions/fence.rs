use fleetbeat_liveness::fence::{Claim, Fence, Held, InstanceId, claim, claim_without_proof};
use proptest::prelude::*;

const A: InstanceId = InstanceId([1; 16]);
const B: InstanceId = InstanceId([2; 16]);

fn fence(incarnation: u64, connection: u64) -> Fence {
    Fence {
        incarnation,
        connection,
    }
}

/// D1: the highest fence wins, whatever the order of arrival.
#[test]
fn a_hello_is_judged_by_its_fence_and_instance() {
    let floor = fence(18, 6);
    let held = Held {
        fence: floor,
        instance: A,
    };
    for (name, fence, instance, expected) in [
        ("its next connection", fence(18, 7), A, Claim::Takeover),
        (
            "a delayed older connection",
            fence(18, 5),
            A,
            Claim::Stale { floor },
        ),
        (
            "the same connection again",
            floor,
            A,
            Claim::Stale { floor },
        ),
        ("the restarted process", fence(19, 1), B, Claim::Takeover),
        ("a restored image", fence(17, 40), B, Claim::Stale { floor }),
        (
            "a restored memory snapshot",
            fence(17, 40),
            A,
            Claim::Stale { floor },
        ),
        ("a clone that is ahead", fence(18, 7), B, Claim::Twins),
        ("a clone that is behind", fence(18, 1), B, Claim::Twins),
        ("a clone at the same point", floor, B, Claim::Twins),
    ] {
        assert_eq!(claim(Some(&held), fence, instance), expected, "{name}");
    }
    assert_eq!(claim(None, fence(1, 1), A), Claim::First);
}

/// D1: a host restored from an image, or one that cannot write its state, is not locked out.
#[test]
fn an_agent_that_was_told_the_floor_gets_in_with_the_next_incarnation() {
    let held = Held {
        fence: fence(18, 6),
        instance: A,
    };
    let Claim::Stale { floor } = claim_without_proof(Some(&held), fence(18, 1), B) else {
        panic!("a second instance is no proof here");
    };
    assert_eq!(claim(Some(&held), floor.above(), B), Claim::Takeover);
    assert_eq!(
        claim_without_proof(Some(&held), fence(19, 1), B),
        Claim::Takeover
    );
    assert_eq!(claim_without_proof(None, fence(1, 1), B), Claim::First);
}

proptest! {
    /// D1: Hellos that overtake each other leave the highest in place.
    #[test]
    fn in_any_order_of_arrival_the_highest_fence_ends_up_holding(
        arrivals in prop::collection::vec((1..5_u64, 1..5_u64), 1..20),
    ) {
        let mut holder: Option<Held> = None;
        for (incarnation, connection) in &arrivals {
            let fence = fence(*incarnation, *connection);
            let instance = InstanceId([u8::try_from(*incarnation).expect("below 5"); 16]);
            match claim(holder.as_ref(), fence, instance) {
                Claim::First | Claim::Takeover => holder = Some(Held { fence, instance }),
                Claim::Stale { floor } => prop_assert!(fence <= floor),
                Claim::Twins => prop_assert!(false, "each incarnation has one instance"),
            }
        }
        let highest = arrivals.iter().max().map(|(incarnation, connection)| fence(*incarnation, *connection));
        prop_assert_eq!(holder.map(|held| held.fence), highest);
    }
}
