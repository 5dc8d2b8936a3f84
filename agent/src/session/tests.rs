mod adaptive;

use std::time::Duration;

use fleetbeat_liveness::{Moment, Revised, Tuning};
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::from_agent::Message as Upward;
use fleetbeat_proto::v1::from_server::Message as Downward;
use fleetbeat_proto::v1::tuning_ack::Outcome;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::{Cause, Ending, Output, Pause, Session};

const T: Duration = Duration::from_secs(2);

fn at(ms: u64) -> Moment {
    Moment::ZERO + Duration::from_millis(ms)
}

/// T = 2 s, N = 3, W = 1 s: D = 7 s.
fn tuned(revision: u64) -> Revised {
    revised(revision, 2_000, 3, 1_000)
}

fn revised(revision: u64, t: u64, n: u32, w: u64) -> Revised {
    let tuning = Tuning::new(Duration::from_millis(t), n, Duration::from_millis(w), 1).unwrap();
    Revised { revision, tuning }
}

fn push_of(revised: Revised) -> v1::TuningPush {
    v1::TuningPush {
        tuning: Some(v1::RevisedTuning::from(revised)),
        traceparent: "00-11112222333344445555666677778888-1111222233334444-01".to_owned(),
    }
}

fn down(message: Downward) -> v1::FromServer {
    v1::FromServer {
        message: Some(message),
    }
}

fn welcome() -> v1::Welcome {
    v1::Welcome {
        protocol: 1,
        session_id: vec![7; 16],
        server: "server-1".to_owned(),
        tuning: None,
        reconnect_spread_ns: 8_000_000_000,
        base: None,
    }
}

/// A session with its machine and what it asked for.
struct Scene(Session<StdRng>);

impl Scene {
    fn greeting(applied: Option<Revised>) -> Self {
        Self(Session::greet_patiently(
            at(0),
            applied,
            Duration::from_secs(10),
            StdRng::seed_from_u64(11),
        ))
    }

    /// Welcomed at 100 ms with T = 2 s; its first PING is gone.
    fn live() -> Self {
        let mut scene = Self::greeting(Some(tuned(3)));
        let outputs = scene.receive(100, Downward::Welcome(welcome()));
        assert_eq!(pings(&outputs), 1, "{outputs:?}");
        scene
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.0.poll()).collect()
    }

    fn receive(&mut self, ms: u64, message: Downward) -> Vec<Output> {
        self.0.handle_message(at(ms), down(message));
        self.outputs()
    }

    fn wake(&mut self, ms: u64) -> Vec<Output> {
        self.0.handle_timeout(at(ms), 0);
        self.outputs()
    }

    /// Time of the next wake-up and what it brings.
    fn next(&mut self) -> (Moment, Vec<Output>) {
        let due = self.0.poll_timeout();
        self.0.handle_timeout(due, 0);
        (due, self.outputs())
    }

    fn kept(&mut self, ms: u64, revised: Revised) -> Vec<Output> {
        self.0.kept(at(ms), revised);
        self.outputs()
    }
}

fn sent(outputs: &[Output]) -> Vec<&Upward> {
    fn message(output: &Output) -> Option<&Upward> {
        if let Output::Send(message) = output {
            Some(message)
        } else {
            None
        }
    }
    outputs.iter().filter_map(message).collect()
}

fn pinged(outputs: &[Output]) -> Vec<v1::Ping> {
    let ping = |message: &Upward| {
        if let Upward::Ping(ping) = message {
            Some(*ping)
        } else {
            None
        }
    };
    sent(outputs).into_iter().filter_map(ping).collect()
}

fn pings(outputs: &[Output]) -> usize {
    pinged(outputs).len()
}

fn acks(outputs: &[Output]) -> Vec<v1::TuningAck> {
    let ack = |message: &Upward| {
        if let Upward::TuningAck(ack) = message {
            Some(ack.clone())
        } else {
            None
        }
    };
    sent(outputs).into_iter().filter_map(ack).collect()
}

fn goodbye(outputs: &[Output]) -> Option<v1::CloseReason> {
    let reason = |message: &Upward| {
        if let Upward::Goodbye(goodbye) = message {
            Some(goodbye.reason())
        } else {
            None
        }
    };
    sent(outputs).into_iter().find_map(reason)
}

fn ending(outputs: &[Output]) -> Option<&Ending> {
    outputs.iter().find_map(|output| {
        if let Output::End(ending) = output {
            Some(ending)
        } else {
            None
        }
    })
}

fn pong_of(outputs: &[Output]) -> Downward {
    let ping = pinged(outputs).pop().unwrap();
    Downward::Pong(v1::Pong {
        seq: ping.seq,
        sent_ns: ping.sent_ns,
        ..v1::Pong::default()
    })
}

#[test]
fn a_ping_follows_welcome_at_once_and_the_next_within_one_interval() {
    let mut scene = Scene::live();
    let (due, outputs) = scene.next();
    assert_eq!(pings(&outputs), 1);
    assert!(due <= at(100) + T, "{due:?}");
    let (later, _) = scene.next();
    let gap = later.since(due);
    assert!(gap >= T * 9 / 10 && gap <= T, "{gap:?}");
}

#[test]
fn without_welcome_the_agent_leaves_after_ten_seconds() {
    let mut scene = Scene::greeting(None);
    assert_eq!(scene.0.poll_timeout(), at(10_000));
    assert!(scene.wake(9_999).is_empty());
    let outputs = scene.wake(10_000);
    assert_eq!(goodbye(&outputs), Some(v1::CloseReason::PeerGaveUp));
    let ending = ending(&outputs).unwrap();
    assert_eq!((ending.cause, ending.lived), (Cause::Unanswered, None));
}

#[test]
fn a_server_that_breaks_the_order_or_the_bounds_is_left() {
    let bad = [
        Downward::Pong(v1::Pong::default()),
        Downward::Check(v1::Check::default()),
        Downward::Tuning(push_of(tuned(4))),
        Downward::Welcome(v1::Welcome {
            protocol: 2,
            ..welcome()
        }),
        Downward::Welcome(v1::Welcome {
            session_id: vec![7; 15],
            ..welcome()
        }),
        Downward::Welcome(v1::Welcome {
            server: "s".repeat(256),
            ..welcome()
        }),
    ];
    for message in bad {
        let outputs = Scene::greeting(None).receive(10, message.clone());
        assert!(ending(&outputs).is_some(), "{message:?}");
        assert_eq!(goodbye(&outputs), Some(v1::CloseReason::PeerGaveUp));
    }
    let outputs = Scene::live().receive(200, Downward::Welcome(welcome()));
    assert_eq!(ending(&outputs).unwrap().cause, Cause::Broken);
}

#[test]
fn a_message_kind_of_a_later_version_is_ignored_and_proves_life() {
    let mut scene = Scene::live();
    scene
        .0
        .handle_message(at(3_000), v1::FromServer { message: None });
    assert!(scene.outputs().is_empty());
    assert!(ending(&scene.wake(7_200)).is_none());
    assert!(ending(&scene.wake(10_000)).is_none(), "one more look");
    assert!(ending(&scene.wake(10_020)).is_some());
}

#[test]
fn a_check_is_answered_at_once_with_its_nonce() {
    let outputs = Scene::live().receive(500, Downward::Check(v1::Check { nonce: 99 }));
    assert_eq!(
        sent(&outputs),
        [&Upward::CheckReply(v1::CheckReply { nonce: 99 })]
    );
}

/// Hard case A10: found by simulation. A PING that another message put off would have no answer within R.
#[test]
fn with_one_miss_no_other_message_puts_a_ping_off() {
    let mut scene = Scene::greeting(Some(revised(3, 2_000, 1, 1_000)));
    scene.receive(100, Downward::Welcome(welcome()));
    scene.next();
    let due = scene.0.poll_timeout();
    let before = due.before(Duration::from_millis(50));
    scene
        .0
        .handle_message(before, down(Downward::Check(v1::Check { nonce: 9 })));
    assert_eq!(scene.0.poll_timeout(), due);
}

#[test]
fn a_silent_server_is_left_at_its_deadline_and_told_why() {
    let mut scene = Scene::live();
    let outputs = loop {
        let (due, outputs) = scene.next();
        if ending(&outputs).is_some() {
            assert_eq!(due, at(7_120), "after one more look");
            break outputs;
        }
    };
    assert_eq!(goodbye(&outputs), Some(v1::CloseReason::PeerGaveUp));
    let ending = ending(&outputs).unwrap();
    assert_eq!(ending.cause, Cause::ServerSilent);
    assert_eq!(ending.lived, Some(Duration::from_millis(7_020)));
    assert_eq!(ending.spread, Duration::from_millis(3_500), "half of D");
    assert!(
        matches!(outputs.last(), Some(Output::End(_))),
        "Goodbye goes before the end"
    );
}

/// Hard case A7: a fleet grows after its first agents were welcomed.
#[test]
fn the_return_is_spread_over_what_the_server_told_last() {
    let mut scene = Scene::greeting(Some(tuned(3)));
    let outputs = scene.receive(100, Downward::Welcome(welcome()));
    let Downward::Pong(pong) = pong_of(&outputs) else {
        panic!("no PING followed Welcome");
    };
    scene.receive(
        200,
        Downward::Pong(v1::Pong {
            reconnect_spread_ns: Some(2_000_000_000),
            ..pong
        }),
    );
    scene.receive(300, Downward::Pong(pong));
    scene.0.broken(at(400), "the server ended the stream");
    assert_eq!(
        ending(&scene.outputs()).unwrap().spread,
        Duration::from_secs(2)
    );
}

#[test]
fn a_late_pong_is_life_and_one_of_another_stream_is_not() {
    let mut scene = Scene::greeting(Some(tuned(3)));
    let outputs = scene.receive(100, Downward::Welcome(welcome()));
    let late = pong_of(&outputs);
    let stranger = Downward::Pong(v1::Pong {
        seq: 40,
        ..v1::Pong::default()
    });
    scene.receive(5_000, stranger);
    assert_eq!(scene.0.judge.due(Duration::from_secs(7)), at(7_100));
    scene.receive(6_000, late);
    assert_eq!(scene.0.judge.due(Duration::from_secs(7)), at(13_000));
}

/// Field report B05.
#[test]
fn an_agent_that_was_stopped_for_long_sends_one_ping_and_no_burst() {
    let mut scene = Scene::live();
    let outputs = scene.wake(6_900);
    assert_eq!(pings(&outputs), 1);
    assert!(scene.wake(6_900).is_empty());
    assert!(scene.0.poll_timeout() > at(6_900));
}

#[test]
fn an_agent_that_slept_through_the_deadline_reads_before_it_judges() {
    let mut scene = Scene::live();
    let outputs = scene.wake(40_000);
    assert!(ending(&outputs).is_none(), "{outputs:?}");
    let bye = v1::Bye {
        reason: v1::CloseReason::MissedHeartbeats.into(),
        retry_after_min_ns: Some(0),
        retry_after_max_ns: Some(1_000_000_000),
        ..v1::Bye::default()
    };
    let outputs = scene.receive(40_001, Downward::Bye(bye));
    let Cause::Told(told) = ending(&outputs).unwrap().cause else {
        panic!("{outputs:?}");
    };
    assert_eq!(told.window, Some((Duration::ZERO, Duration::from_secs(1))));
}

/// Field report B06.
#[test]
fn a_suspended_host_leaves_only_when_the_server_must_have_given_up() {
    let mut scene = Scene::live();
    let short = Pause::Suspended(Duration::from_secs(5));
    scene.0.paused(at(1_000), short, 0);
    let outputs = scene.outputs();
    assert_eq!((pings(&outputs), ending(&outputs)), (1, None));
    assert!(scene.0.poll_timeout() <= at(1_000) + T, "it beats on");
    scene
        .0
        .paused(at(1_100), Pause::Suspended(Duration::from_hours(1)), 0);
    let outputs = scene.outputs();
    let ending = ending(&outputs).unwrap();
    assert_eq!(ending.cause, Cause::Slept);
    assert_eq!(goodbye(&outputs), Some(v1::CloseReason::PeerGaveUp));
    let account = ending.account(Duration::from_secs(1));
    assert_eq!(account.cause(), v1::last_ending::Cause::Suspend);
    assert!(account.detail.contains("3600"), "{}", account.detail);
}

/// Field report B06: whatever word ends the session soon after, the sleep was the cause.
#[test]
fn an_ending_soon_after_a_sleep_is_put_down_to_the_sleep() {
    let bye = v1::Bye {
        reason: v1::CloseReason::MissedHeartbeats.into(),
        ..v1::Bye::default()
    };
    let account = |pause, bye_at| {
        let mut scene = Scene::live();
        scene.0.paused(at(1_000), pause, 0);
        scene.outputs();
        let outputs = scene.receive(bye_at, Downward::Bye(bye.clone()));
        ending(&outputs).unwrap().account(Duration::ZERO)
    };
    let slept = Pause::Suspended(Duration::from_secs(6));
    let told = account(slept, 1_200);
    assert_eq!(told.cause(), v1::last_ending::Cause::Suspend);
    assert_eq!(told.bye(), v1::CloseReason::MissedHeartbeats);
    assert!(told.detail.contains("suspended for 6"), "{}", told.detail);
    // T + W later it explains nothing any more.
    assert_eq!(account(slept, 4_100).cause(), v1::last_ending::Cause::Bye);
    let stopped = account(Pause::Stalled(Duration::from_secs(6)), 1_200);
    assert_eq!(stopped.cause(), v1::last_ending::Cause::Bye);
    assert!(stopped.detail.contains("did not run"), "{}", stopped.detail);
}

/// Field report B07: one clock stands still while the host sleeps, the other runs on. Seen from outside
/// both agents do the same: no sample of the sleep, a word at once, gone within a second of waking, and
/// the next Hello tells the length.
#[test]
fn a_sleep_looks_the_same_from_outside_whichever_way_the_clock_counts_it() {
    let hour = Duration::from_hours(1);
    let hour_ms = 3_600_000;
    for (pause, woken) in [
        (Pause::Suspended(hour), 1_000),
        (Pause::Stalled(hour), 1_000 + hour_ms),
    ] {
        let mut scene = Scene::live();
        scene.0.paused(at(woken), pause, 0);
        let mut outputs = scene.outputs();
        assert!(!sent(&outputs).is_empty(), "{pause:?}: {outputs:?}");
        while ending(&outputs).is_none() {
            assert!(pinged(&outputs).iter().all(|ping| ping.rtt_ns.is_none()));
            let now = scene.0.poll_timeout().max(at(woken));
            assert!(now <= at(woken + 1_000), "{pause:?}: {now:?}");
            scene.0.handle_timeout(now, 0);
            outputs = scene.outputs();
        }
        assert_eq!(goodbye(&outputs), Some(v1::CloseReason::PeerGaveUp));
        let account = ending(&outputs).unwrap().account(Duration::ZERO);
        assert!(account.detail.contains("3600"), "{}", account.detail);
    }
}

#[test]
fn a_retune_is_in_force_at_once_and_acknowledged_when_it_is_kept() {
    let mut scene = Scene::live();
    let quick = revised(4, 500, 3, 400);
    let outputs = scene.receive(1_000, Downward::Tuning(push_of(quick)));
    assert!(
        matches!(outputs[..], [Output::Keep(kept)] if kept == quick),
        "{outputs:?}"
    );
    assert_eq!(scene.0.in_force(), &quick);
    assert!(scene.0.poll_timeout() <= at(1_500));
    let ack = acks(&scene.kept(1_002, quick)).pop().unwrap();
    assert_eq!((ack.revision, ack.hash), (4, quick.hash()));
    assert_eq!(ack.outcome(), Outcome::Applied);
    assert_eq!(ack.traceparent, push_of(quick).traceparent);
    assert_eq!(ack.applied, Some(v1::RevisedTuning::from(quick)));
}

#[test]
fn a_slow_disk_delays_the_ack_and_no_beat() {
    let mut scene = Scene::live();
    assert!(scene.next().0 < at(1_000));
    scene.receive(1_000, Downward::Tuning(push_of(revised(4, 400, 3, 300))));
    scene.receive(1_000, Downward::Tuning(push_of(revised(5, 300, 3, 300))));
    let mut beats = 0;
    while scene.0.poll_timeout() < at(2_100) {
        let (due, outputs) = scene.next();
        assert!(due >= at(1_100), "{due:?}");
        beats += pings(&outputs);
    }
    assert!(beats >= 3, "{beats}");
    let outputs = scene.kept(2_100, revised(5, 300, 3, 300));
    assert_eq!(acks(&outputs).len(), 1);
}

/// The ack of these pushes waits for the disk for ever, and each comes before the last one's PING.
#[test]
fn pushes_late_in_the_interval_stretch_no_silence_beyond_it() {
    for (seed, step) in (0..100).flat_map(|seed| [(seed, 7), (seed, 90), (seed, 5_000)]) {
        let mut scene = Scene::live();
        scene.0.rng = StdRng::seed_from_u64(seed);
        let mut last = scene.next().0;
        let mut push_at = last + T.mul_f64(0.95);
        for revision in 4..34 {
            let pushed = revised(revision, 2_000, 20, 1_000);
            while scene.0.poll_timeout() <= push_at {
                let (due, outputs) = scene.next();
                assert_eq!(pings(&outputs), 1, "{outputs:?}");
                assert!(
                    due.since(last) <= T,
                    "{seed}, {step}: {:?}",
                    due.since(last)
                );
                last = due;
            }
            scene
                .0
                .handle_message(push_at, down(Downward::Tuning(push_of(pushed))));
            assert_eq!(sent(&scene.outputs()).len(), 0);
            push_at = push_at + Duration::from_millis(step);
        }
    }
}

/// Field report E02.
#[test]
fn the_same_push_again_is_acknowledged_and_not_applied() {
    let mut scene = Scene::live();
    let wanted = revised(4, 500, 3, 400);
    scene.receive(1_000, Downward::Tuning(push_of(wanted)));
    let again = scene.receive(1_001, Downward::Tuning(push_of(wanted)));
    assert!(again.is_empty(), "{again:?}");
    assert_eq!(acks(&scene.kept(1_002, wanted)).len(), 1);
    for ms in 1_003..1_103 {
        let outputs = scene.receive(ms, Downward::Tuning(push_of(wanted)));
        assert_eq!((outputs.len(), acks(&outputs).len()), (1, 1));
    }
}

#[test]
fn only_the_newest_of_two_pushes_is_acknowledged() {
    let mut scene = Scene::live();
    let (first, second) = (revised(4, 500, 3, 400), revised(5, 5_000, 3, 1_000));
    scene.receive(1_000, Downward::Tuning(push_of(first)));
    scene.receive(1_001, Downward::Tuning(push_of(second)));
    assert!(scene.kept(1_002, first).is_empty());
    assert_eq!(acks(&scene.kept(1_003, second))[0].revision, 5);
    assert_eq!(scene.0.acknowledged, Some(second));
}

/// Field reports E03, E04 and E11.
#[test]
fn a_forged_tuning_is_refused_each_time_and_the_one_before_stays() {
    let mut scene = Scene::live();
    let good = v1::RevisedTuning::from(revised(4, 500, 3, 400));
    let values = good.tuning.unwrap();
    let forged = [
        v1::Tuning {
            interval_ns: Some(0),
            ..values
        },
        v1::Tuning {
            interval_ns: Some(u64::MAX),
            ..values
        },
        v1::Tuning {
            timeout_ns: Some(600_000_000),
            ..values
        },
        v1::Tuning {
            misses: None,
            ..values
        },
    ];
    for (ms, tuning) in (1_000..).zip(forged.into_iter().chain(forged)) {
        let push = v1::TuningPush {
            tuning: Some(v1::RevisedTuning {
                tuning: Some(tuning),
                ..good
            }),
            traceparent: String::new(),
        };
        let outputs = scene.receive(ms, Downward::Tuning(push));
        let ack = acks(&outputs).pop().unwrap();
        assert_eq!(ack.outcome(), Outcome::Refused, "{tuning:?}");
        assert_eq!(ack.applied, Some(v1::RevisedTuning::from(tuned(3))));
        assert!(!ack.reason.is_empty());
        assert_eq!((ack.revision, ack.hash), (4, good.hash));
        assert_eq!(scene.0.in_force(), &tuned(3));
    }
    let older = scene.receive(2_000, Downward::Tuning(push_of(tuned(2))));
    assert_eq!(acks(&older)[0].outcome(), Outcome::Refused);
}

#[test]
fn equal_revisions_with_other_values_follow_the_order_of_the_stream() {
    let mut scene = Scene::live();
    let other = revised(3, 500, 3, 400);
    scene.receive(1_000, Downward::Tuning(push_of(other)));
    assert_eq!(scene.0.in_force(), &other);
}

#[test]
fn the_tuning_of_welcome_wins_over_base_and_base_over_nothing() {
    let base = revised(0, 800, 3, 400);
    let with_base = v1::Welcome {
        base: Some(v1::RevisedTuning::from(base)),
        ..welcome()
    };

    let mut scene = Scene::greeting(None);
    let outputs = scene.receive(0, Downward::Welcome(with_base.clone()));
    assert_eq!((scene.0.in_force(), scene.0.acknowledged), (&base, None));
    assert_eq!((pings(&outputs), acks(&outputs).len()), (1, 0));
    assert!(scene.0.poll_timeout() <= at(800));

    let mut scene = Scene::greeting(Some(tuned(3)));
    scene.receive(0, Downward::Welcome(with_base.clone()));
    assert_eq!(scene.0.in_force(), &tuned(3));

    let pushed = v1::Welcome {
        tuning: Some(push_of(tuned(4))),
        ..with_base
    };
    let mut scene = Scene::greeting(None);
    let outputs = scene.receive(0, Downward::Welcome(pushed));
    assert_eq!(scene.0.in_force(), &tuned(4));
    assert_eq!(pings(&outputs), 1);
    assert!(matches!(outputs.last(), Some(Output::Keep(kept)) if *kept == tuned(4)));
}

#[test]
fn leaving_says_goodbye_in_every_phase_and_once() {
    for mut scene in [Scene::greeting(None), Scene::live()] {
        scene.0.leave(at(300), "stopped", None);
        let outputs = scene.outputs();
        assert_eq!(goodbye(&outputs), Some(v1::CloseReason::Goodbye));
        assert_eq!(ending(&outputs).unwrap().cause, Cause::Goodbye);
        scene.0.leave(at(301), "stopped", None);
        scene.0.broken(at(302), "reset");
        assert!(scene.wake(60_000).is_empty());
        assert_eq!(scene.0.poll_timeout(), Moment::FAR);
    }
}

#[test]
fn every_round_trip_is_reported_in_the_ping_after_it() {
    let mut scene = Scene::greeting(Some(tuned(3)));
    let outputs = scene.receive(100, Downward::Welcome(welcome()));
    let pong = pong_of(&outputs);
    scene.receive(125, pong);
    let (_, outputs) = scene.next();
    let next = pinged(&outputs).pop().unwrap();
    assert_eq!(
        (next.seq, next.rtt_ns, next.rtt_seq),
        (2, Some(25_000_000), Some(1))
    );
}
