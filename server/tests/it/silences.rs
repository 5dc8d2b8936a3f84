//! Silences that outlasted T + W, as they are recorded and replayed.

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1;
use fleetbeat_server::store::agents::Identity;
use fleetbeat_server::store::batch::{Applied, Batch, Care};
use fleetbeat_server::store::partitions;
use fleetbeat_server::store::runs::Run;
use fleetbeat_server::store::sessions::Opened;
use fleetbeat_server::store::silences::{Ended, Silence, Span};
use uuid::Uuid;

use crate::actor::{Actor, fence, hello};
use crate::database::eventually;
use crate::office::{Office, interval};

/// T, N, W in milliseconds: suspect after 800 ms, offline after 1.6 s.
const SHORT: (u64, u32, u64) = (400, 3, 400);

async fn all(office: &Office) -> Vec<Silence> {
    let wall = office.house.registry().clock().wall();
    let span = Span {
        group: None,
        agents: None,
        from: wall - time::Duration::HOUR,
        to: wall + time::Duration::HOUR,
    };
    office.store.silences(span, 100).await.unwrap()
}

/// The silences, once there are `n` and `settled` holds for them.
async fn recorded(office: &Office, n: usize, settled: impl Fn(&[Silence]) -> bool) -> Vec<Silence> {
    eventually("silences are recorded", async || {
        let silences = all(office).await;
        silences.len() == n && settled(&silences)
    })
    .await;
    all(office).await
}

async fn until(office: &Office, n: u8, verdict: Verdict) {
    office
        .house
        .until(|| office.house.view(n).verdict == verdict)
        .await;
}

/// Hard case E4: gap, T in force, and how late the message was that ended it.
#[tokio::test]
async fn silence_that_ends_with_a_ping_knows_how_late_it_was() {
    let office = Office::open().await;
    let recorder = office.record();
    office.house.policy(1, SHORT);
    let agent = Actor::beating(&office.house, 1).await;
    until(&office, 1, Verdict::Suspect).await;
    // By its own clock the agent sent this 300 ms after the first, at 0.
    agent.ping(2, 300_000_000).await;
    until(&office, 1, Verdict::Online).await;
    let [silence] = &recorded(&office, 1, |_| true).await[..] else {
        panic!("one silence expected")
    };
    assert_eq!(silence.ended, Ended::Heard);
    assert_eq!(
        (silence.interval_ns, silence.timeout_ns),
        (400_000_000, 400_000_000)
    );
    assert!(silence.gap_ns > 800_000_000, "{silence:?}");
    let late = silence.lateness_ns.unwrap();
    assert_eq!(
        silence.gap_ns.abs_diff(late + 300_000_000) / 50_000_000,
        0,
        "{silence:?}"
    );
    assert_eq!(silence.group, "g1");
    drop(recorder);
    office.database.stop().await;
}

/// Hard case E4: one row for each, open until it is known who came back.
#[tokio::test]
async fn conviction_is_a_false_one_when_the_same_instance_returns_and_a_death_when_another_does() {
    let office = Office::open().await;
    let recorder = office.record();
    for n in 1..=3 {
        office.house.policy(n, SHORT);
    }
    let lived = Actor::beating(&office.house, 1).await;
    let died = Actor::beating(&office.house, 2).await;
    let gone = Actor::beating(&office.house, 3).await;
    for n in 1..=3 {
        until(&office, n, Verdict::Offline).await;
    }
    let open = recorded(&office, 3, |_| true).await;
    assert!(
        open.iter().all(|silence| silence.ended == Ended::Open),
        "{open:?}"
    );
    let mut restarted = fence(hello(2), 2, 1);
    restarted.instance_id = vec![99; 16];
    let _back = (
        Actor::join(&office.house, fence(hello(1), 1, 2)).await,
        Actor::join(&office.house, restarted).await,
    );
    let settled = |silences: &[Silence]| {
        silences
            .iter()
            .filter(|silence| silence.ended != Ended::Open)
            .count()
            == 2
    };
    let ended = recorded(&office, 3, settled).await;
    let of = |n: u8| {
        ended
            .iter()
            .find(|silence| silence.group == format!("g{n}"))
            .unwrap()
    };
    assert_eq!(
        [of(1).ended, of(2).ended, of(3).ended],
        [Ended::Returned, Ended::Died, Ended::Open]
    );
    let before = open.iter().find(|silence| silence.group == "g1").unwrap();
    assert!(of(1).gap_ns > before.gap_ns && of(1).began == before.began);
    drop((lived, died, gone));
    drop(recorder);
    office.database.stop().await;
}

#[tokio::test]
async fn what_is_shorter_than_t_and_w_is_no_silence() {
    let office = Office::open().await;
    let recorder = office.record();
    let broken = Actor::beating(&office.house, 1).await;
    let lost = office.house.session(1);
    drop(broken);
    office.house.ended(&lost).await;
    let _back = Actor::join(&office.house, fence(hello(1), 1, 2)).await;
    // Written in order: whatever was told before this event is there as well.
    let _last = Actor::beating(&office.house, 2).await;
    let scope = fleetbeat_server::store::events::Scope::Agent(office.house.agent(2).id);
    eventually("the last event is recorded", async || {
        let events = office.store.recent_events(&scope, 10).await.unwrap();
        !events.is_empty()
    })
    .await;
    assert_eq!(all(&office).await, []);
    drop(recorder);
    office.database.stop().await;
}

/// Requirement S7 and hard case E4, with what was really recorded.
#[tokio::test]
async fn plan_stands_on_what_was_measured_and_says_where_it_knows_too_little() {
    let office = Office::open().await;
    let recorder = office.record();
    let _members = [
        Actor::beating(&office.house, 1).await,
        Actor::beating(&office.house, 2).await,
    ];
    let mut client = office.client().await;
    let ask = v1::PlanTuningRequest {
        group: "g1".to_owned(),
        detect_ns: Some(20_000_000_000),
        rtt_p99_ns: Some(400_000_000),
        tuning: Some(v1::Tuning {
            misses: Some(2),
            ..v1::Tuning::default()
        }),
        ..v1::PlanTuningRequest::default()
    };
    let plan = client.plan_tuning(ask.clone()).await.unwrap().into_inner();
    let tuning = plan.tuning.unwrap();
    assert_eq!(
        (tuning.interval_ns, tuning.misses, tuning.timeout_ns),
        (Some(8_000_000_000), Some(2), Some(2_000_000_000))
    );
    assert_eq!((plan.agents, plan.today.unwrap().misses), (1, Some(3)));
    assert_eq!(plan.steps.len(), 3);
    assert!(
        plan.checks
            .iter()
            .any(|check| check.name == "rtt_margin" && check.ok)
    );
    let fact = |name: &str| plan.facts.iter().find(|fact| fact.name == name).unwrap();
    assert_eq!(fact("rtt_p99").source, "as it was said");
    assert!((fact("members").value - 1.0).abs() < 1e-9);
    let replay = plan.replay.unwrap();
    assert_eq!(replay.false_disconnects_per_day, None);
    assert!(
        replay.unknown.starts_with("too little data: 0.0"),
        "{replay:?}"
    );
    assert_eq!((replay.detection_p50_ns, replay.deaths), (None, 0));
    let beats = replay.beats_per_second.unwrap();
    assert!((beats.low - 0.125).abs() < 1e-9, "{beats:?}");
    drop(recorder);
    office.database.stop().await;
}

#[tokio::test]
async fn plans_that_cannot_be_made_are_refused_with_what_to_do() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let ask = v1::PlanTuningRequest {
        detect_ns: Some(20_000_000_000),
        ..v1::PlanTuningRequest::default()
    };
    for (wrong, said) in [
        (
            v1::PlanTuningRequest {
                days: 31,
                ..ask.clone()
            },
            "31 days are more than 30",
        ),
        (
            v1::PlanTuningRequest {
                preset: "x".to_owned(),
                ..ask.clone()
            },
            "there is no preset \"x\"",
        ),
        (
            v1::PlanTuningRequest {
                detect_ns: None,
                ..ask.clone()
            },
            "nothing to plan",
        ),
        (
            v1::PlanTuningRequest {
                tuning: Some(interval(5_000)),
                ..ask.clone()
            },
            "T and W go together",
        ),
        (
            v1::PlanTuningRequest {
                frame_bytes: Some(0),
                ..ask.clone()
            },
            "a message has 1 to",
        ),
        (
            v1::PlanTuningRequest {
                agents: Some(0),
                ..ask.clone()
            },
            "a load is that of 1 to",
        ),
        (
            v1::PlanTuningRequest {
                group: "a b".to_owned(),
                ..ask
            },
            "is not a group's name",
        ),
    ] {
        let refused = client.plan_tuning(wrong).await.unwrap_err();
        assert!(
            refused.message().contains(said),
            "wanted {said}, got {refused}"
        );
    }
    office.database.stop().await;
}

/// A day of so many agents at T = 20 s and W = 2 s: silences of so many seconds an hour apart, of which the
/// last two ended in a false conviction, and a death.
pub(crate) async fn history(office: &Office, agents: u128, gaps: &[u64]) {
    let to = office.house.registry().clock().wall();
    let from = to - time::Duration::DAY;
    let run = Run {
        server_id: Uuid::new_v4(),
        run_id: Uuid::new_v4(),
        name: "before".to_owned(),
        version: "0.1.0".to_owned(),
        started_at: from,
    };
    let store = &office.store;
    store
        .ensure_partitions(partitions::day(from), partitions::day(to))
        .await
        .unwrap();
    store.register(&run, to).await.unwrap();
    let fence = Fence {
        incarnation: 1,
        connection: 1,
    };
    let identity = |n: u128| Identity {
        agent_id: Uuid::from_u128(n),
        name: n.to_string(),
        group: "g1".to_owned(),
        labels: [].into(),
        agent_version: String::new(),
        boot_id: String::new(),
        instance_id: None,
        address: String::new(),
        fence,
        seen_at: from,
    };
    let opened = |n: u128| Opened {
        session_id: Uuid::from_u128(n),
        agent_id: Uuid::from_u128(n),
        server_id: run.server_id,
        run_id: run.run_id,
        instance_id: None,
        fence,
        address: String::new(),
        at: from,
    };
    let silence = |(at, gap): (usize, u64), ended| Silence {
        began: from + time::Duration::hours(i64::try_from(at).unwrap() + 1),
        session_id: Uuid::from_u128(1),
        agent_id: Uuid::from_u128(1),
        group: "g1".to_owned(),
        gap_ns: gap * 1_000_000_000,
        interval_ns: 20_000_000_000,
        timeout_ns: 2_000_000_000,
        lateness_ns: None,
        ended,
    };
    let lived = gaps.len() - 2;
    let mut silences: Vec<_> = gaps
        .iter()
        .copied()
        .enumerate()
        .map(|(at, gap)| {
            let ended = if at < lived {
                Ended::Heard
            } else {
                Ended::Returned
            };
            silence((at, gap), ended)
        })
        .collect();
    silences.push(silence((gaps.len(), 62), Ended::Died));
    let batch = Batch {
        identities: (1..=agents).map(identity).collect(),
        opened: (1..=agents).map(opened).collect(),
        silences,
        ..Batch::default()
    };
    let done = store.apply(&run, 1, &batch, Care::Whole, to).await.unwrap();
    assert_eq!(done, Applied::Written { rejected: 0 });
}

/// A day of 50 agents, as it would have been recorded: five lone silences, and a death.
#[tokio::test]
async fn recorded_days_are_replayed_under_the_plan_and_under_today() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let _member = Actor::beating(&office.house, 1).await;
    history(&office, 50, &[40, 50, 70, 90, 300]).await;
    let ask = |interval_s: u64| v1::PlanTuningRequest {
        group: "g1".to_owned(),
        tuning: Some(v1::Tuning {
            misses: Some(3),
            timeout_ns: Some(2_000_000_000),
            ..interval(interval_s * 1_000)
        }),
        ..v1::PlanTuningRequest::default()
    };
    let plan = client.plan_tuning(ask(60)).await.unwrap().into_inner();
    assert_eq!(plan.history_unavailable, "");
    let (patient, today) = (plan.replay.unwrap(), plan.replay_today.unwrap());
    assert_eq!(
        (
            patient.silences,
            patient.events,
            patient.deaths,
            patient.happened
        ),
        (5, 5, 1, 2)
    );
    assert!((patient.agent_days - 50.0).abs() < 0.01, "{patient:?}");
    // D = 182 s: only the one of 300 s. D = 62 s: that and one or two of 70 and 90 s, of 50 agents a day.
    let rate = |replay: &v1::Replay| replay.false_disconnects_per_day.unwrap();
    assert!(
        (rate(&patient).expected * patient.agent_days - 1.0).abs() < 1e-6,
        "{patient:?}"
    );
    let expected = rate(&today).expected * today.agent_days;
    assert!((2.0..3.1).contains(&expected), "{today:?}");
    assert!(rate(&today).low < rate(&today).expected && rate(&today).expected < rate(&today).high);
    assert!(patient.detection_p50_ns.unwrap().expected > today.detection_p50_ns.unwrap().expected);

    let hasty = client
        .plan_tuning(ask(5))
        .await
        .unwrap()
        .into_inner()
        .replay
        .unwrap();
    assert!(
        hasty
            .unknown
            .contains("below what was recorded: D is 17s, and silences up to 22s"),
        "{hasty:?}"
    );
    office.database.stop().await;
}
