//! What becomes of agents' answers: kept for every kind of agent, never asked for twice, made up for when
//! they were lost.

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::tuning_ack::Outcome;
use fleetbeat_proto::v1::{Hello, RevisedTuning, from_server};

use crate::actor::{Actor, fence, hello};
use crate::database::eventually;
use crate::office::{Client, Office, interval, set};
use crate::retune::{outcome, web};

fn web_hello(n: u8) -> Hello {
    let mut hello = hello(n);
    "web".clone_into(&mut hello.group);
    hello
}

/// Retunes group `web` to this T and yields the revision, if it made one.
async fn retune(client: &mut Client, interval_ms: u64) -> Option<u64> {
    let set = set("web", interval(interval_ms));
    client.set_tuning(set).await.unwrap().into_inner().revision
}

async fn shown(client: &mut Client, agent: &str) -> v1::Agent {
    let request = v1::GetAgentRequest {
        agent: agent.to_owned(),
    };
    let answer = client.get_agent(request).await.unwrap().into_inner();
    answer.agent.unwrap()
}

/// Sends so many heartbeats; the answer to each has to be the next thing that arrives.
async fn nothing_but_pongs(agent: &mut Actor, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        agent.ping(seq, seq).await;
        assert_eq!(agent.pong().await.seq, seq);
    }
}

/// The tuning that Welcome or a push carried.
async fn pushed(agent: &mut Actor) -> RevisedTuning {
    match agent.next().await {
        Some(from_server::Message::Tuning(push)) => push.tuning.unwrap(),
        other => panic!("a push expected, got {other:?}"),
    }
}

/// Field report E02: the same values 100 times are one revision, one push, and nothing after it.
#[tokio::test]
async fn same_tuning_a_hundred_times_is_sent_once() {
    let office = Office::open().await;
    let mut agent = web(&office, 1).await;
    let mut client = office.client().await;
    let mut made = Vec::new();
    for _ in 0..100 {
        made.extend(retune(&mut client, 5_000).await);
    }
    assert_eq!(made, [1]);
    assert_eq!(agent.ack(Outcome::Applied).await, 1);
    let progress = outcome(&mut client, 1).await;
    assert_eq!((progress.targets, progress.applied), (1, 1));
    let session = office.house.session(1);
    for _ in 0..100 {
        let again = session.in_force();
        assert!(!office.house.registry().push(&session, again, ""));
    }
    nothing_but_pongs(&mut agent, 1..=10).await;
    office.database.stop().await;
}

/// Field reports E03, E04 and E10: told once, and remembered over heartbeats, a reconnect and a restart of
/// the agent. Other software is asked once more, and a value that it takes ends it without a restart.
#[tokio::test]
async fn refused_revision_is_delivered_once_and_stays_refused() {
    let office = Office::open().await;
    let mut client = office.client().await;
    retune(&mut client, 8_000).await.unwrap();
    let mut agent = Actor::join(&office.house, web_hello(1)).await;
    let good = agent.welcome.tuning.clone().unwrap().tuning;
    agent.ack_welcome().await;
    let settled = |office: &Office| office.house.session(1).waiting_for().is_none();
    office.house.until(|| settled(&office)).await;

    let refused = retune(&mut client, 5_000).await.unwrap();
    assert_eq!(agent.ack(Outcome::Refused).await, refused);
    office.house.until(|| settled(&office)).await;
    nothing_but_pongs(&mut agent, 1..=10).await;

    let restarted = {
        let mut hello = fence(web_hello(1), 2, 1);
        hello.instance_id = vec![77; 16];
        hello
    };
    for hello in [fence(web_hello(1), 1, 2), restarted] {
        let hello = Hello {
            applied: good,
            ..hello
        };
        agent = Actor::join(&office.house, hello).await;
        assert_eq!(agent.welcome.tuning, None);
        nothing_but_pongs(&mut agent, 1..=10).await;
        let shown = shown(&mut client, "agent-1").await;
        assert_eq!(shown.refusal, "no");
        assert_eq!((shown.applied, shown.deadline_ns), (good, 26_000_000_000));
        assert_eq!(shown.desired.unwrap().revision, refused);
    }

    let upgraded = Hello {
        applied: good,
        instance_id: vec![78; 16],
        agent_version: "9.9".to_owned(),
        ..fence(web_hello(1), 3, 1)
    };
    agent = Actor::join(&office.house, upgraded).await;
    let again = agent.welcome.tuning.clone().unwrap();
    assert_eq!(again.tuning.unwrap().revision, refused);

    let better = retune(&mut client, 6_000).await.unwrap();
    while agent.ack(Outcome::Applied).await < better {}
    office.house.until(|| settled(&office)).await;
    let shown = shown(&mut client, "agent-1").await;
    assert_eq!(
        (shown.refusal.as_str(), shown.deadline_ns),
        ("", 20_000_000_000)
    );
    assert_eq!(shown.applied.unwrap().revision, better);
    office.database.stop().await;
}

/// Field report E06: whatever the agent is and however the tuning reached it, Postgres has its ack.
#[tokio::test]
async fn ack_of_every_kind_of_agent_is_recorded() {
    let office = Office::open().await;
    let recorder = office.record();
    let mut client = office.client().await;
    let first = retune(&mut client, 8_000).await.unwrap();
    let labelled = [("zone".to_owned(), "a".to_owned())].into();
    let kinds = [
        web_hello(1),
        Hello {
            agent_version: "0.0.1".to_owned(),
            ..web_hello(2)
        },
        Hello {
            volatile_state: true,
            ..web_hello(3)
        },
        Hello {
            labels: labelled,
            boot_id: "b".to_owned(),
            wall_unix_us: Some(1),
            ..web_hello(4)
        },
        Hello {
            name: String::new(),
            ..web_hello(5)
        },
        fence(web_hello(6), 40, 7),
    ];
    let mut agents = Vec::new();
    for kind in kinds {
        let mut agent = Actor::join(&office.house, kind).await;
        agent.ack_welcome().await;
        agents.push(agent);
    }
    recorded(&office, first, 6).await;
    // Live, in every mode that a tuning has.
    let modes = [
        interval(5_000),
        v1::Tuning {
            adaptive: Some(true),
            ..v1::Tuning::default()
        },
        v1::Tuning {
            adaptive: Some(false),
            pong_every: Some(3),
            ..v1::Tuning::default()
        },
    ];
    for mode in modes {
        let made = client.set_tuning(set("web", mode)).await.unwrap();
        let revision = made.into_inner().revision.unwrap();
        for agent in &mut agents {
            assert_eq!(agent.ack(Outcome::Applied).await, revision);
        }
        recorded(&office, revision, 6).await;
    }
    recorder.stop(std::time::Duration::from_secs(20)).await;
    office.database.stop().await;
}

async fn recorded(office: &Office, revision: u64, agents: usize) {
    let all = format!("{agents} on {revision}");
    eventually("Postgres has every ack", async || {
        let query = "SELECT concat(count(*), ' on ', string_agg(DISTINCT applied_revision::text, ', ')) FROM agent_state";
        office.database.value::<String>(query).await == all
    })
    .await;
}

/// Field report E12: acks of three retunes are lost on the way; the next Hello says what is in force, and
/// nothing is applied again.
#[tokio::test]
async fn lost_acks_are_made_up_by_the_next_hello() {
    let office = Office::open().await;
    let mut agent = web(&office, 1).await;
    let mut client = office.client().await;
    let mut applied = None;
    for interval_ms in [5_000, 6_000, 7_000] {
        let revision = retune(&mut client, interval_ms).await.unwrap();
        let tuning = pushed(&mut agent).await;
        assert_eq!(tuning.revision, revision);
        applied = Some(tuning);
    }
    let before = shown(&mut client, "agent-1").await.applied.unwrap();
    assert_eq!(before.revision, 0);
    let back = Hello {
        applied,
        ..fence(web_hello(1), 1, 2)
    };
    let mut agent = Actor::join(&office.house, back).await;
    assert_eq!(agent.welcome.tuning, None);
    nothing_but_pongs(&mut agent, 1..=10).await;
    let shown = shown(&mut client, "agent-1").await;
    assert_eq!((shown.applied, shown.desired), (applied, applied));
    assert_eq!(shown.deadline_ns, 23_000_000_000);
    office.database.stop().await;
}

/// Field report E01: of agents whose T lie far apart the server shows the deadline of what each acknowledged.
#[tokio::test]
async fn deadline_shown_is_of_the_acknowledged_tuning_whatever_the_interval() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let mut agents = Vec::new();
    for (n, seconds) in [(1, 1), (2, 60), (3, 3_600)] {
        let tuning = v1::Tuning {
            interval_ns: Some(seconds * 1_000_000_000),
            misses: Some(3),
            timeout_ns: Some(1_000_000_000),
            ..v1::Tuning::default()
        };
        client
            .set_tuning(set(&format!("g{n}"), tuning))
            .await
            .unwrap();
        let mut agent = Actor::join(&office.house, hello(n)).await;
        agent.ack_welcome().await;
        agents.push(agent);
        let settled = || office.house.session(n).waiting_for().is_none();
        office.house.until(settled).await;
        let shown = shown(&mut client, &format!("agent-{n}")).await;
        let deadline = (3 * seconds + 1) * 1_000_000_000;
        assert_eq!(shown.deadline_ns, deadline);
        let applied = shown.applied.unwrap().tuning.unwrap();
        assert_eq!(applied.interval_ns, Some(seconds * 1_000_000_000));
        assert_eq!(
            u64::try_from(office.house.session(n).offline_after().as_nanos()),
            Ok(deadline)
        );
    }
    office.database.stop().await;
}
