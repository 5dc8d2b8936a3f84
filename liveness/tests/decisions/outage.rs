use fleetbeat_liveness::hearing::{Counts, owed_per_s};
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::outage::Outage;
use fleetbeat_liveness::tuning::Tuning;

use crate::given::{at, secs};

/// A fleet whose live members are heard as they should be, second by second.
struct Fleet {
    outage: Outage,
    second: u64,
    /// Seconds that members lived, each of which beats every 19.
    turns: u64,
}

impl Fleet {
    fn begin() -> Self {
        Self {
            outage: Outage::new(0.8),
            second: 0,
            turns: 0,
        }
    }

    fn now(&self) -> Moment {
        at(self.second)
    }

    /// True when the outage ended meanwhile.
    fn live(&mut self, seconds: u64, members: u32) -> bool {
        let mut ended = false;
        for _ in 0..seconds {
            self.second += 1;
            self.turns += u64::from(members);
            let heard = self.turns / 19;
            let owed_per_s = f64::from(members) * owed_per_s(secs(20));
            let counts = Counts {
                heard,
                owed_per_s,
                ..Counts::default()
            };
            ended |= self.outage.sample(self.now(), counts);
        }
        ended
    }

    /// So many are judged without a session; true when an outage began with one of them.
    fn lose(&mut self, members: u32) -> bool {
        let expectation = Tuning::default().expectation();
        let began = (0..members).filter(|_| {
            self.outage.lost(at(self.second), &expectation);
            self.outage.missed(expectation.look_back).is_some()
        });
        let began = began.count();
        assert!(began <= 1, "told once");
        began == 1
    }
}

/// Invariant 6: connections that break owe nothing, and their agents are missed all the same.
#[test]
fn a_fleet_that_loses_its_connections_is_out_once_until_no_more_are_missed() {
    let mut fleet = Fleet::begin();
    fleet.live(100, 1_000);
    fleet.live(42, 300);
    assert!(fleet.lose(400));
    assert!(!fleet.live(10, 300));
    assert!(!fleet.lose(300));
    assert!(!fleet.live(30, 300));
    assert!(fleet.live(20, 300), "a look-back after the last");
}

#[test]
fn a_few_that_are_lost_now_and_then_are_no_outage() {
    let mut fleet = Fleet::begin();
    fleet.live(100, 1_000);
    for _ in 0..500 {
        assert!(!fleet.lose(2));
        fleet.live(15, 1_000);
    }
    assert!(!fleet.lose(50));
}
