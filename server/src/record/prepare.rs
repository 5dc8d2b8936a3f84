//! What has to be done in Postgres before anything is recorded.

use time::{Duration, OffsetDateTime};

use crate::clock::Clock;
use crate::registry::{Facts, Known};
use crate::store::agents::Recorded;
use crate::store::runs::{Left, Run};
use crate::store::{Error, Store, partitions};

/// Days for which partitions are made ahead.
const AHEAD: Duration = Duration::days(7);

/// What Postgres remembers of the fleet.
#[derive(Debug)]
pub struct Remembered {
    /// Everybody who was ever recorded.
    pub agents: Vec<Known>,
    /// Sessions that the run before left open: so many agents are expected back.
    pub sessions_before: u64,
}

/// Brings the schema up to date, makes partitions, and takes over from earlier runs. Doing it again
/// changes nothing.
pub(super) async fn prepare(store: &Store, run: &Run, clock: Clock) -> Result<Left, Error> {
    store.migrate().await?;
    ahead(store, clock.wall()).await?;
    store.register(run, clock.wall()).await
}

/// Partitions from yesterday on: the last records of a day may be written on the next.
pub(super) async fn ahead(store: &Store, now: OffsetDateTime) -> Result<(), Error> {
    let first = partitions::day(now.saturating_sub(Duration::DAY));
    store
        .ensure_partitions(first, partitions::day(now.saturating_add(AHEAD)))
        .await
}

/// Partitions for a batch that found none, within reason: an absurd date is a bad row.
pub(super) async fn around(
    store: &Store,
    span: Option<(OffsetDateTime, OffsetDateTime)>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let Some((first, last)) = span else {
        return Ok(());
    };
    let first = first.max(now.saturating_sub(Duration::days(31)));
    let last = last.min(now.saturating_add(AHEAD));
    store
        .ensure_partitions(partitions::day(first), partitions::day(last))
        .await
}

pub(super) async fn remember(store: &Store, left: Left) -> Result<Remembered, Error> {
    let agents = store.load_known().await?.into_iter().map(known).collect();
    Ok(Remembered {
        agents,
        sessions_before: left.sessions,
    })
}

fn known(recorded: Recorded) -> Known {
    let identity = recorded.identity;
    Known {
        id: identity.agent_id,
        facts: Facts {
            name: identity.name,
            group: identity.group,
            labels: identity.labels,
            agent_version: identity.agent_version,
            boot_id: identity.boot_id,
            address: identity.address,
        },
        fence: recorded.fence,
        verdict: recorded.verdict.into(),
        since: recorded.verdict_since,
        last_seen: recorded.last_seen_at,
        applied: recorded.applied,
        refused: recorded.refused,
    }
}
