use fleetbeat_liveness::bounds::{Bounds, Breach, Load};
use proptest::prelude::*;

use crate::given::{adaptive, any_tuning, secs, tuning};

fn bounds() -> Bounds {
    Bounds {
        interval_least: secs(5),
        deadline_most: secs(120),
        beats_per_second_most: 1_000.0,
    }
}

#[test]
fn a_change_is_refused_with_the_numbers_it_breaks() {
    let fleet = [
        Load {
            tuning: tuning(2, 3, 1),
            members: 1_900,
        },
        Load {
            tuning: tuning(60, 3, 2),
            members: 5_700,
        },
        Load {
            tuning: adaptive(20, 3, 2),
            members: 0,
        },
    ];
    let breaches: Vec<String> = bounds()
        .breaches(&fleet)
        .iter()
        .map(Breach::to_string)
        .collect();
    assert_eq!(
        breaches,
        [
            "interval 2s is below the fleet's floor of 5s",
            "silence would be tolerated for 182s, above the fleet's ceiling of 120s",
            "silence would be tolerated for 124s, above the fleet's ceiling of 120s",
            "7600 members would send 1100.0 heartbeats per second, above the fleet's ceiling of 1000.0: \
             intervals of 1.10 times theirs would fit",
        ]
    );
}

#[test]
fn values_at_the_limits_are_allowed() {
    let fleet = [Load {
        tuning: tuning(5, 3, 2),
        members: 4_750,
    }];
    assert_eq!(bounds().breaches(&fleet), []);
    let more = [Load {
        members: 4_751,
        ..fleet[0]
    }];
    assert_eq!(bounds().breaches(&more).len(), 1);
}

proptest! {
    #[test]
    fn the_default_refuses_no_tuning(tuning in any_tuning(), members in any::<u32>()) {
        prop_assert_eq!(Bounds::default().breaches(&[Load { tuning, members }]), []);
    }
}
