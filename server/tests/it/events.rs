//! Recorded events as operators follow them.

use std::time::Duration;

use fleetbeat_proto::v1;
use fleetbeat_server::postgres::Private;
use tonic::{Code, Streaming};

use crate::actor::{Actor, fence, hello};
use crate::database::options;
use crate::office::Office;

async fn next(events: &mut Streaming<v1::Event>) -> v1::Event {
    let next = tokio::time::timeout(Duration::from_secs(30), events.message()).await;
    next.expect("an event in time").unwrap().expect("an event")
}

/// Passes over events until one of `kind`.
async fn next_of(events: &mut Streaming<v1::Event>, kind: &str) -> v1::Event {
    loop {
        let event = next(events).await;
        if event.kind == kind {
            return event;
        }
    }
}

#[tokio::test]
async fn follower_sees_each_event_once_and_in_order_also_over_a_restart_of_postgres() {
    let mut office = Office::open().await;
    let recorder = office.record();
    let mut client = office.client().await;
    let follow = v1::WatchEventsRequest {
        follow: true,
        ..v1::WatchEventsRequest::default()
    };
    let mut all = client
        .watch_events(follow.clone())
        .await
        .unwrap()
        .into_inner();
    let only = v1::WatchEventsRequest {
        group: "g2".to_owned(),
        ..follow
    };
    let mut second = client.watch_events(only).await.unwrap().into_inner();

    let mut agent = Actor::join(&office.house, hello(1)).await;
    agent.ack_welcome().await;
    let opened = next_of(&mut all, "session_opened").await;
    assert_eq!(
        (opened.agent_name.as_str(), opened.group.as_str()),
        ("agent-1", "g1")
    );
    agent.goodbye(v1::CloseReason::Goodbye).await;
    let closed = next_of(&mut all, "session_closed").await;
    assert_eq!(closed.close_reason(), v1::CloseReason::Goodbye);
    assert!(closed.event_id > opened.event_id && closed.session_id == opened.session_id);

    office.database.private.take().unwrap().stop().await;
    let mut while_away = Actor::join(&office.house, hello(2)).await;
    while_away.ack_welcome().await;
    let options = options(office.database.dir.path());
    let again = Private::start(&options, &office.database.tracker).await;
    office.database.private = Some(again.unwrap());
    let opened = next_of(&mut all, "session_opened").await;
    assert_eq!(opened.agent_name, "agent-2");
    assert_eq!(next_of(&mut second, "session_opened").await, opened);

    let past = v1::WatchEventsRequest {
        after_event_id: Some(0),
        ..v1::WatchEventsRequest::default()
    };
    let mut past = client.watch_events(past).await.unwrap().into_inner();
    let mut ids = Vec::new();
    while let Some(event) = past.message().await.unwrap() {
        ids.push(event.event_id);
    }
    assert!(ids.len() >= 4 && ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    let recent = v1::WatchEventsRequest {
        recent: 2,
        ..v1::WatchEventsRequest::default()
    };
    let mut recent = client.watch_events(recent).await.unwrap().into_inner();
    let mut last = Vec::new();
    while let Some(event) = recent.message().await.unwrap() {
        last.push(event.event_id);
    }
    assert_eq!(last, ids[ids.len() - 2..]);

    let shown = client
        .get_agent(v1::GetAgentRequest {
            agent: "agent-1".to_owned(),
        })
        .await;
    let shown = shown.unwrap().into_inner();
    assert_eq!(shown.sessions.len(), 1);
    assert_eq!(shown.sessions[0].close_reason(), v1::CloseReason::Goodbye);
    assert!(
        shown.events.is_sorted_by(|a, b| a.event_id > b.event_id),
        "{:?}",
        shown.events
    );
    recorder.stop(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn impossible_wishes_for_events_are_refused() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let none = v1::WatchEventsRequest::default;
    for (request, code) in [
        (
            v1::WatchEventsRequest {
                recent: 10_001,
                ..none()
            },
            Code::InvalidArgument,
        ),
        (
            v1::WatchEventsRequest {
                agent: "nobody".to_owned(),
                ..none()
            },
            Code::NotFound,
        ),
        (
            v1::WatchEventsRequest {
                agent: "a".to_owned(),
                group: "b".to_owned(),
                ..none()
            },
            Code::InvalidArgument,
        ),
    ] {
        let refused = client.watch_events(request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{}", refused.message());
    }
    office.database.stop().await;
}

/// Requirement S2: grounds, causes and conditions as an operator sees them, from Postgres and from memory.
#[tokio::test]
async fn operators_see_why_a_session_was_lost_and_what_else_is_the_case() {
    let office = Office::open().await;
    let recorder = office.record();
    let mut client = office.client().await;
    let follow = v1::WatchEventsRequest {
        follow: true,
        ..v1::WatchEventsRequest::default()
    };
    let mut all = client.watch_events(follow).await.unwrap().into_inner();
    let mut first = Actor::join(&office.house, hello(1)).await;
    first.ping(1, 0).await;
    first.pong().await;
    drop(first);
    let ended = loop {
        let event = next_of(&mut all, "verdict_changed").await;
        if event.verdict() == v1::Verdict::Suspect {
            break event;
        }
    };
    let grounds = ended.grounds.expect("a verdict has grounds");
    assert_eq!(grounds.trigger, "ended");
    assert_eq!(grounds.last_ping_seq, Some(1));
    assert!(ended.detail.contains("PING 1"), "{}", ended.detail);

    let mut restarted = fence(hello(1), 2, 1);
    restarted.instance_id = vec![2; 16];
    restarted.volatile_state = true;
    let _second = Actor::join(&office.house, restarted).await;
    let settled = next_of(&mut all, "cause_settled").await;
    assert_eq!(settled.cause(), v1::Cause::Crash);
    let began = next_of(&mut all, "condition_began").await;
    assert_eq!(began.condition, "degraded");

    let shown = client
        .get_agent(v1::GetAgentRequest {
            agent: "agent-1".to_owned(),
        })
        .await;
    let shown = shown.unwrap().into_inner();
    assert_eq!(shown.sessions[1].cause(), v1::Cause::Crash);
    assert_eq!(shown.sessions[0].cause(), v1::Cause::Unspecified);
    let agent = shown.agent.unwrap();
    assert_eq!(agent.conditions, ["degraded"]);
    assert!(
        agent.condition_details[0]
            .detail
            .contains("state directory")
    );
    assert_eq!(agent.grounds.unwrap().trigger, "opened");
    let metrics = office.http("/metrics", None).await;
    let counted = "fleetbeat_agent_conditions{condition=\"degraded\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    recorder.stop(Duration::from_secs(10)).await;
}
