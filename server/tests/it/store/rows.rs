//! Rows to write.

use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_proto::v1::{CloseReason, Verdict};
use fleetbeat_server::store::agents::{Identity, State};
use fleetbeat_server::store::batch::{Applied, Batch, Care};
use fleetbeat_server::store::events::{Happened, Kind};
use fleetbeat_server::store::metrics::{BeatRollup, Bucket};
use fleetbeat_server::store::runs::Run;
use fleetbeat_server::store::sessions::{Closed, Opened};
use fleetbeat_server::store::silences::{Ended, Silence};
use fleetbeat_server::store::{Store, partitions};
use time::OffsetDateTime;
use time::macros::datetime;
use uuid::Uuid;

use crate::database::Database;

pub(super) const NOON: OffsetDateTime = datetime!(2026-11-30 12:00 UTC);
pub(super) const SERVER: Uuid = Uuid::from_u128(0x5e);

pub(super) fn run(n: u128) -> Run {
    Run {
        server_id: SERVER,
        run_id: Uuid::from_u128(n),
        name: "beat-1".to_owned(),
        version: "0.1.0".to_owned(),
        started_at: NOON,
    }
}

pub(super) fn agent(n: u128) -> Uuid {
    Uuid::from_u128(0xa0_0000 + n)
}

pub(super) fn session(n: u128) -> Uuid {
    Uuid::from_u128(0x50_0000 + n)
}

pub(super) fn fence(incarnation: u64, connection: u64) -> Fence {
    Fence {
        incarnation,
        connection,
    }
}

pub(super) fn identity(n: u128, name: &str, fence: Fence) -> Identity {
    Identity {
        agent_id: agent(n),
        name: name.to_owned(),
        group: "web".to_owned(),
        labels: [("zone".to_owned(), "a".to_owned())].into(),
        agent_version: "0.1.0".to_owned(),
        boot_id: "b".to_owned(),
        instance_id: Some(Uuid::from_u128(7)),
        address: "10.0.0.1:5".to_owned(),
        fence,
        seen_at: NOON,
    }
}

pub(super) fn state(n: u128, verdict: Verdict, fence: Fence) -> State {
    State {
        agent_id: agent(n),
        verdict,
        verdict_since: NOON,
        last_seen_at: Some(NOON + Duration::from_secs(30)),
        session_id: Some(session(n)),
        fence,
        applied: Some(Revised {
            revision: 3,
            tuning: Tuning::default().with_adaptive(true).unwrap(),
        }),
        desired_revision: Some(4),
        at: NOON,
    }
}

pub(super) fn opened(n: u128, run: &Run, fence: Fence) -> Opened {
    Opened {
        session_id: session(n),
        agent_id: agent(n),
        server_id: run.server_id,
        run_id: run.run_id,
        instance_id: None,
        fence,
        address: "10.0.0.1:5".to_owned(),
        at: NOON,
    }
}

pub(super) fn closed(n: u128, reason: CloseReason) -> Closed {
    Closed {
        session_id: session(n),
        at: NOON + Duration::from_mins(1),
        reason,
        detail: "why".to_owned(),
        beats: 9,
    }
}

pub(super) fn silence(n: u128) -> Silence {
    Silence {
        began: NOON,
        session_id: session(n),
        agent_id: agent(n),
        group: "web".to_owned(),
        gap_ns: 30_000_000_000,
        interval_ns: 20_000_000_000,
        timeout_ns: 2_000_000_000,
        lateness_ns: Some(5),
        ended: Ended::Heard,
    }
}

pub(super) fn happened(n: u128, at: OffsetDateTime, kind: Kind, detail: &str) -> Happened {
    Happened {
        at,
        agent_id: agent(n),
        session_id: Some(session(n)),
        server_id: SERVER,
        kind,
        detail: detail.to_owned(),
        facts: None,
    }
}

pub(super) fn beats(n: u128, beats: u64, rtt: Option<(u64, u64)>) -> BeatRollup {
    BeatRollup {
        bucket: Bucket {
            start: NOON,
            seconds: 60,
        },
        agent_id: agent(n),
        session_id: session(n),
        beats,
        late: 1,
        rtt_count: 2,
        rtt_sum_ns: 300,
        rtt_extremes_ns: rtt,
    }
}

/// A store with partitions around noon and a registered run.
pub(super) async fn registered() -> (Database, Store, Run) {
    let (database, store) = Database::with_schema().await;
    let (run, day) = (run(1), partitions::day(NOON));
    store
        .ensure_partitions(day, day.next_day().unwrap())
        .await
        .unwrap();
    store.register(&run, NOON).await.unwrap();
    (database, store, run)
}

pub(super) async fn apply(store: &Store, run: &Run, number: u64, batch: &Batch) -> Applied {
    store
        .apply(run, number, batch, Care::Whole, NOON)
        .await
        .unwrap()
}

pub(super) const WRITTEN: Applied = Applied::Written { rejected: 0 };
