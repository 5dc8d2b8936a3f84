//! `sessions`: one row per stream, with exactly one end.

use fleetbeat_liveness::fence::Fence;
use fleetbeat_proto::v1::{Cause, CloseReason};
use serde::Serialize;
use sqlx::{PgConnection, Row as _};
use time::OffsetDateTime;
use uuid::Uuid;

use super::batch::Row;
use super::columns::{bigint, cause_code, cause_of, column, reason_code, reason_of, unsigned};
use super::statement::query;
use super::{Error, Purpose, Store};

/// A session that opened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Opened {
    pub session_id: Uuid,
    pub agent_id: Uuid,
    pub server_id: Uuid,
    pub run_id: Uuid,
    pub instance_id: Option<Uuid>,
    #[serde(serialize_with = "super::columns::fence_text")]
    pub fence: Fence,
    pub address: String,
    pub at: OffsetDateTime,
}

/// A session that ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Closed {
    pub session_id: Uuid,
    pub at: OffsetDateTime,
    #[serde(serialize_with = "super::columns::reason_name")]
    pub reason: CloseReason,
    pub detail: String,
    pub beats: u64,
}

/// Why a session was lost, known once its agent has returned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Caused {
    pub session_id: Uuid,
    #[serde(serialize_with = "super::columns::cause_name")]
    pub cause: Cause,
}

/// A session as it stands in Postgres.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub session_id: Uuid,
    pub agent_id: Uuid,
    pub fence: Fence,
    pub address: String,
    pub opened_at: OffsetDateTime,
    /// `None` while it lives.
    pub closed: Option<(OffsetDateTime, CloseReason)>,
    pub close_detail: String,
    /// `None` while it lives, and when its server died with the count.
    pub beats: Option<u64>,
    /// `None` until its agent returned after it was lost.
    pub cause: Option<Cause>,
}

impl Row for Opened {
    const TABLE: &'static str = "sessions";

    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO sessions (session_id, agent_id, server_id, run_id, instance_id, \
                 incarnation, connection, address, opened_at) \
             SELECT session_id, agent_id, server_id, run_id, instance_id, incarnation, \
                 connection, address, at \
             FROM UNNEST($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], \
                 $6::bigint[], $7::bigint[], $8::text[], $9::timestamptz[]) \
                 AS r (session_id, agent_id, server_id, run_id, instance_id, incarnation, \
                 connection, address, at) \
             ON CONFLICT (session_id) DO NOTHING",
        )
        .bind(column(rows, |r| r.session_id))
        .bind(column(rows, |r| r.agent_id))
        .bind(column(rows, |r| r.server_id))
        .bind(column(rows, |r| r.run_id))
        .bind(column(rows, |r| r.instance_id))
        .bind(column(rows, |r| bigint(r.fence.incarnation)))
        .bind(column(rows, |r| bigint(r.fence.connection)))
        .bind(column(rows, |r| &r.address))
        .bind(column(rows, |r| r.at))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Row for Closed {
    const TABLE: &'static str = "sessions";

    /// The first end stands: a session that is closed already is left as it is.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "UPDATE sessions s SET closed_at = r.at, close_reason = r.reason, \
                 close_detail = r.detail, beats = r.beats \
             FROM UNNEST($1::uuid[], $2::timestamptz[], $3::smallint[], $4::text[], $5::bigint[]) \
                 AS r (session_id, at, reason, detail, beats) \
             WHERE s.session_id = r.session_id AND s.closed_at IS NULL",
        )
        .bind(column(rows, |r| r.session_id))
        .bind(column(rows, |r| r.at))
        .bind(column(rows, |r| reason_code(r.reason)))
        .bind(column(rows, |r| &r.detail))
        .bind(column(rows, |r| bigint(r.beats)))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Row for Caused {
    const TABLE: &'static str = "sessions";

    /// What was settled first stands.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "UPDATE sessions s SET cause = r.cause \
             FROM UNNEST($1::uuid[], $2::smallint[]) AS r (session_id, cause) \
             WHERE s.session_id = r.session_id AND s.cause IS NULL",
        )
        .bind(column(rows, |r| r.session_id))
        .bind(column(rows, |r| cause_code(r.cause)))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Store {
    /// Sessions of one agent, newest first.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn recent_sessions(&self, agent: Uuid, limit: u32) -> Result<Vec<Session>, Error> {
        const DOING: &str = "read the sessions of an agent";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let rows = query(
            "SELECT session_id, agent_id, incarnation, connection, address, opened_at, closed_at, \
                 close_reason, close_detail, beats, cause \
             FROM sessions WHERE agent_id = $1 ORDER BY opened_at DESC, session_id LIMIT $2",
        )
        .bind(agent)
        .bind(i64::from(limit))
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        rows.iter()
            .map(session)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }
}

fn session(row: &sqlx::postgres::PgRow) -> Result<Session, sqlx::Error> {
    let closed_at: Option<OffsetDateTime> = row.try_get("closed_at")?;
    let beats: Option<i64> = row.try_get("beats")?;
    Ok(Session {
        session_id: row.try_get("session_id")?,
        agent_id: row.try_get("agent_id")?,
        fence: Fence {
            incarnation: unsigned(row.try_get("incarnation")?),
            connection: unsigned(row.try_get("connection")?),
        },
        address: row.try_get("address")?,
        opened_at: row.try_get("opened_at")?,
        closed: closed_at.zip(reason_of(row.try_get("close_reason")?)),
        close_detail: row.try_get("close_detail")?,
        beats: beats.map(unsigned),
        cause: cause_of(row.try_get("cause")?),
    })
}
