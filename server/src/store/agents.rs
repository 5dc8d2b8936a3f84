//! `agents` (identity) and `agent_state` (hot).

use std::collections::BTreeMap;
use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_proto::v1::Verdict;
use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{PgConnection, Row as _};
use time::OffsetDateTime;
use uuid::Uuid;

use super::batch::Row;
use super::columns::{bigint, column, integer, nanos, unsigned, verdict_code, verdict_of};
use super::statement::query;
use super::{Error, Purpose, Store};

/// Who an agent is, as it told when it opened a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Identity {
    pub agent_id: Uuid,
    pub name: String,
    pub group: String,
    pub labels: BTreeMap<String, String>,
    pub agent_version: String,
    pub boot_id: String,
    pub instance_id: Option<Uuid>,
    pub address: String,
    #[serde(serialize_with = "super::columns::fence_text")]
    pub fence: Fence,
    pub seen_at: OffsetDateTime,
}

/// What is known of an agent at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct State {
    pub agent_id: Uuid,
    #[serde(serialize_with = "super::columns::verdict_name")]
    pub verdict: Verdict,
    pub verdict_since: OffsetDateTime,
    pub last_seen_at: Option<OffsetDateTime>,
    pub session_id: Option<Uuid>,
    #[serde(serialize_with = "super::columns::fence_text")]
    pub fence: Fence,
    #[serde(serialize_with = "super::columns::revised_text")]
    pub applied: Option<Revised>,
    pub desired_revision: Option<u64>,
    pub at: OffsetDateTime,
}

/// An agent as an earlier run recorded it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub identity: Identity,
    pub verdict: Verdict,
    pub verdict_since: OffsetDateTime,
    pub last_seen_at: Option<OffsetDateTime>,
    /// The highest fence recorded, which may be above the identity's.
    pub fence: Fence,
    /// What it acknowledged last, when that is still within bounds.
    pub applied: Option<Revised>,
    /// Revision and reason of its newest refusal, unless it applied a newer one.
    pub refused: Option<(u64, String)>,
}

impl Row for Identity {
    const TABLE: &'static str = "agents";

    /// Expects one row per agent, sorted by agent.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO agents AS a (agent_id, name, group_name, labels, agent_version, boot_id, \
                 instance_id, address, incarnation, connection, first_seen, updated_at) \
             SELECT agent_id, name, group_name, labels, agent_version, boot_id, instance_id, \
                 address, incarnation, connection, seen_at, seen_at \
             FROM UNNEST($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::text[], $6::text[], \
                 $7::uuid[], $8::text[], $9::bigint[], $10::bigint[], $11::timestamptz[]) \
                 AS r (agent_id, name, group_name, labels, agent_version, boot_id, instance_id, \
                 address, incarnation, connection, seen_at) \
             ON CONFLICT (agent_id) DO UPDATE SET name = EXCLUDED.name, \
                 group_name = EXCLUDED.group_name, labels = EXCLUDED.labels, \
                 agent_version = EXCLUDED.agent_version, boot_id = EXCLUDED.boot_id, \
                 instance_id = EXCLUDED.instance_id, address = EXCLUDED.address, \
                 incarnation = EXCLUDED.incarnation, connection = EXCLUDED.connection, \
                 updated_at = EXCLUDED.updated_at \
             WHERE (a.incarnation, a.connection) <= (EXCLUDED.incarnation, EXCLUDED.connection)",
        )
        .bind(column(rows, |r| r.agent_id))
        .bind(column(rows, |r| &r.name))
        .bind(column(rows, |r| &r.group))
        .bind(column(rows, |r| Json(&r.labels)))
        .bind(column(rows, |r| &r.agent_version))
        .bind(column(rows, |r| &r.boot_id))
        .bind(column(rows, |r| r.instance_id))
        .bind(column(rows, |r| &r.address))
        .bind(column(rows, |r| bigint(r.fence.incarnation)))
        .bind(column(rows, |r| bigint(r.fence.connection)))
        .bind(column(rows, |r| r.seen_at))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Row for State {
    const TABLE: &'static str = "agent_state";

    /// Expects one row per agent, sorted by agent.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO agent_state AS a (agent_id, verdict, verdict_since, last_seen_at, \
                 session_id, incarnation, connection, applied_revision, applied_interval_ns, \
                 applied_misses, applied_timeout_ns, applied_pong_every, applied_adaptive, \
                 desired_revision, updated_at) \
             SELECT agent_id, verdict, verdict_since, last_seen_at, session_id, incarnation, \
                 connection, revision, interval_ns, misses, timeout_ns, pong_every, adaptive, \
                 desired, at \
             FROM UNNEST($1::uuid[], $2::smallint[], $3::timestamptz[], $4::timestamptz[], \
                 $5::uuid[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], \
                 $10::integer[], $11::bigint[], $12::integer[], $13::boolean[], $14::bigint[], \
                 $15::timestamptz[]) \
                 AS r (agent_id, verdict, verdict_since, last_seen_at, session_id, incarnation, \
                 connection, revision, interval_ns, misses, timeout_ns, pong_every, adaptive, \
                 desired, at) \
             ON CONFLICT (agent_id) DO UPDATE SET verdict = EXCLUDED.verdict, \
                 verdict_since = EXCLUDED.verdict_since, last_seen_at = EXCLUDED.last_seen_at, \
                 session_id = EXCLUDED.session_id, incarnation = EXCLUDED.incarnation, \
                 connection = EXCLUDED.connection, \
                 applied_revision = EXCLUDED.applied_revision, \
                 applied_interval_ns = EXCLUDED.applied_interval_ns, \
                 applied_misses = EXCLUDED.applied_misses, \
                 applied_timeout_ns = EXCLUDED.applied_timeout_ns, \
                 applied_pong_every = EXCLUDED.applied_pong_every, \
                 applied_adaptive = EXCLUDED.applied_adaptive, \
                 desired_revision = EXCLUDED.desired_revision, updated_at = EXCLUDED.updated_at \
             WHERE (a.incarnation, a.connection) <= (EXCLUDED.incarnation, EXCLUDED.connection)",
        )
        .bind(column(rows, |r| r.agent_id))
        .bind(column(rows, |r| verdict_code(r.verdict)))
        .bind(column(rows, |r| r.verdict_since))
        .bind(column(rows, |r| r.last_seen_at))
        .bind(column(rows, |r| r.session_id))
        .bind(column(rows, |r| bigint(r.fence.incarnation)))
        .bind(column(rows, |r| bigint(r.fence.connection)))
        .bind(column(rows, |r| r.applied.map(|a| bigint(a.revision))))
        .bind(column(rows, |r| {
            r.applied.map(|a| nanos(a.tuning.interval()))
        }))
        .bind(column(rows, |r| {
            r.applied.map(|a| integer(a.tuning.misses()))
        }))
        .bind(column(rows, |r| {
            r.applied.map(|a| nanos(a.tuning.timeout()))
        }))
        .bind(column(rows, |r| {
            r.applied.map(|a| integer(a.tuning.pong_every()))
        }))
        .bind(column(rows, |r| r.applied.map(|a| a.tuning.adaptive())))
        .bind(column(rows, |r| r.desired_revision.map(bigint)))
        .bind(column(rows, |r| r.at))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Store {
    /// Every agent that was ever recorded, in the order of their ids.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn load_known(&self) -> Result<Vec<Recorded>, Error> {
        const DOING: &str = "load the known agents";
        let mut tx = self.begin(Purpose::Record, DOING).await?;
        let rows = query(
            "SELECT a.agent_id, a.name, a.group_name, a.labels, a.agent_version, a.boot_id, \
                 a.instance_id, a.address, a.incarnation, a.connection, a.updated_at, \
                 s.verdict, coalesce(s.verdict_since, a.updated_at) AS verdict_since, \
                 s.last_seen_at, s.applied_revision, s.applied_interval_ns, s.applied_misses, \
                 s.applied_timeout_ns, s.applied_pong_every, s.applied_adaptive, \
                 s.incarnation AS state_incarnation, s.connection AS state_connection, \
                 r.revision AS refused_revision, r.reason AS refused_reason \
             FROM agents a LEFT JOIN agent_state s USING (agent_id) \
             LEFT JOIN (SELECT DISTINCT ON (agent_id) agent_id, revision, reason \
                 FROM tuning_acks WHERE outcome = 'refused' ORDER BY agent_id, revision DESC) r \
                 ON r.agent_id = a.agent_id AND r.revision > coalesce(s.applied_revision, 0) \
             ORDER BY a.agent_id",
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        rows.iter()
            .map(recorded)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }
}

fn recorded(row: &PgRow) -> Result<Recorded, sqlx::Error> {
    let told = Fence {
        incarnation: unsigned(row.try_get("incarnation")?),
        connection: unsigned(row.try_get("connection")?),
    };
    let incarnation: Option<i64> = row.try_get("state_incarnation")?;
    let connection: Option<i64> = row.try_get("state_connection")?;
    let seen = incarnation
        .zip(connection)
        .map(|(incarnation, connection)| Fence {
            incarnation: unsigned(incarnation),
            connection: unsigned(connection),
        });
    let labels: Json<BTreeMap<String, String>> = row.try_get("labels")?;
    Ok(Recorded {
        identity: Identity {
            agent_id: row.try_get("agent_id")?,
            name: row.try_get("name")?,
            group: row.try_get("group_name")?,
            labels: labels.0,
            agent_version: row.try_get("agent_version")?,
            boot_id: row.try_get("boot_id")?,
            instance_id: row.try_get("instance_id")?,
            address: row.try_get("address")?,
            fence: told,
            seen_at: row.try_get("updated_at")?,
        },
        verdict: verdict_of(row.try_get("verdict")?),
        verdict_since: row.try_get("verdict_since")?,
        last_seen_at: row.try_get("last_seen_at")?,
        fence: seen.map_or(told, |seen| seen.max(told)),
        applied: applied(row)?,
        refused: refused(row)?,
    })
}

fn refused(row: &PgRow) -> Result<Option<(u64, String)>, sqlx::Error> {
    let revision: Option<i64> = row.try_get("refused_revision")?;
    let reason: Option<String> = row.try_get("refused_reason")?;
    Ok(revision.map(unsigned).zip(reason))
}

fn applied(row: &PgRow) -> Result<Option<Revised>, sqlx::Error> {
    let revision: Option<i64> = row.try_get("applied_revision")?;
    let interval: Option<i64> = row.try_get("applied_interval_ns")?;
    let misses: Option<i32> = row.try_get("applied_misses")?;
    let timeout: Option<i64> = row.try_get("applied_timeout_ns")?;
    let pong_every: Option<i32> = row.try_get("applied_pong_every")?;
    let adaptive: Option<bool> = row.try_get("applied_adaptive")?;
    let (Some(revision), Some(interval), Some(misses), Some(timeout), Some(pong_every)) =
        (revision, interval, misses, timeout, pong_every)
    else {
        return Ok(None);
    };
    let tuning = Tuning::new(
        Duration::from_nanos(unsigned(interval)),
        u32::try_from(misses).unwrap_or(0),
        Duration::from_nanos(unsigned(timeout)),
        u32::try_from(pong_every).unwrap_or(0),
    )
    .and_then(|tuning| tuning.with_adaptive(adaptive.unwrap_or(false)));
    Ok(tuning.ok().map(|tuning| Revised {
        revision: unsigned(revision),
        tuning,
    }))
}
