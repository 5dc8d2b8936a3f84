//! How round trips change the beat and the patience with the server.

use super::*;

/// How long an agent that is not late itself looks once more.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// T = 2 s, N = 3, W = 0.5 s: D = 6.5 s.
fn adaptive(on: bool) -> Revised {
    let quick = revised(4, 2_000, 3, 500);
    Revised {
        tuning: quick.tuning.with_adaptive(on).unwrap(),
        ..quick
    }
}

/// A live session under `in_force`, and when its last PING went.
struct Road {
    scene: Scene,
    last: v1::Ping,
    sent: Moment,
}

impl Road {
    fn open(in_force: Revised) -> Self {
        let mut scene = Scene::greeting(Some(in_force));
        let outputs = scene.receive(0, Downward::Welcome(welcome()));
        let last = pinged(&outputs).pop().unwrap();
        Self {
            scene,
            last,
            sent: at(0),
        }
    }

    /// The last PING is answered after `trip_ms`, the next one goes. Returns the gap between the two.
    fn beat(&mut self, trip_ms: u64, lag_ms: u64) -> Duration {
        let pong = v1::Pong {
            seq: self.last.seq,
            sent_ns: self.last.sent_ns,
            lag_ns: (lag_ms > 0).then_some(lag_ms * 1_000_000),
            ..v1::Pong::default()
        };
        let arrived = self.sent + Duration::from_millis(trip_ms);
        let message = down(Downward::Pong(pong));
        self.scene.0.handle_message(arrived, message);
        let (now, outputs) = self.scene.next();
        let gap = now.since(self.sent);
        self.last = pinged(&outputs).pop().expect("nothing else is due");
        self.sent = now;
        gap
    }

    /// The silence after which the server is left, after the last look at what arrived meanwhile.
    fn patience(&mut self) -> Duration {
        let heard = self.sent;
        let message = down(Downward::Check(v1::Check { nonce: 1 }));
        self.scene.0.handle_message(heard, message);
        self.scene.outputs();
        loop {
            let (now, outputs) = self.scene.next();
            if let Some(ending) = ending(&outputs) {
                assert_eq!(ending.cause, Cause::ServerSilent);
                return now.since(heard);
            }
        }
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A11, vector A04: half the interval while round trips grow, the whole again once they are calm.
#[test]
fn growing_round_trips_are_sampled_twice_as_often_and_then_as_before() {
    let mut road = Road::open(adaptive(true));
    for _ in 0..20 {
        road.beat(20, 0);
    }
    road.beat(90, 0);
    let gap = road.beat(90, 0);
    assert!(
        ms(900) <= gap && gap <= ms(1_000),
        "halved at once, {gap:?}"
    );
    for _ in 0..18 {
        assert!(road.beat(20, 0) <= ms(1_100));
    }
    let gaps: Vec<_> = (0..9).map(|_| road.beat(20, 0)).collect();
    assert!(gaps[8] >= ms(1_800), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= ms(2_000)), "{gaps:?}");
}

/// A11: no agent answers a slow server with more load.
#[test]
fn a_lagging_server_gets_no_beat_more() {
    let mut road = Road::open(adaptive(true));
    for _ in 0..20 {
        road.beat(20, 0);
    }
    for _ in 0..40 {
        let gap = road.beat(300, 101);
        assert!(gap >= ms(1_800), "{gap:?}");
    }
}

/// Vector A08, S15: an agent in a lift keeps its server for longer, never beyond 2·D, and only where asked.
#[test]
fn slow_round_trips_make_the_agent_patient_with_its_server() {
    for (on, trip, patience) in [
        (false, 1_500, 6_500),
        (true, 20, 7_000),
        (true, 1_500, 12_500),
        (true, 1_700, 13_000),
    ] {
        let mut road = Road::open(adaptive(on));
        for _ in 0..20 {
            road.beat(trip, 0);
        }
        let road = road.patience();
        assert_eq!(road, ms(patience) + LAST_LOOK, "adaptive {on}, {trip} ms");
    }
}

/// C1: a retune to another mode holds at once.
#[test]
fn a_push_switches_adaptive_mode_on_a_live_session() {
    let mut road = Road::open(adaptive(true));
    for _ in 0..20 {
        road.beat(1_500, 0);
    }
    let fixed = Revised {
        revision: 5,
        ..adaptive(false)
    };
    let now = road.sent;
    road.scene
        .0
        .handle_message(now, down(Downward::Tuning(push_of(fixed))));
    road.scene.outputs();
    road.scene.0.kept(now, fixed);
    road.scene.outputs();
    assert_eq!(road.patience(), ms(6_500) + LAST_LOOK);
}
