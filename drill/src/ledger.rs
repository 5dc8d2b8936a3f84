//! What Postgres holds in the end, read by the only SQL of this crate.

use std::collections::BTreeMap;

use anyhow::Result;
use sqlx::{AssertSqlSafe, FromRow, PgPool};
use uuid::Uuid;

/// A session as it was recorded.
#[derive(Debug, Clone, FromRow)]
pub struct Session {
    pub session_id: Uuid,
    pub incarnation: i64,
    pub connection: i64,
    /// Microseconds since the Unix epoch.
    pub opened_us: i64,
    pub closed_us: Option<i64>,
    /// Numbered as `CloseReason`.
    pub close_reason: Option<i16>,
    pub beats: Option<i64>,
}

/// The records of one stage.
#[derive(Debug, Clone)]
pub struct Ledger {
    pool: PgPool,
}

impl Ledger {
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// Heartbeats recorded of these agents.
    pub async fn beats(&self, agents: &[Uuid]) -> Result<u64> {
        let sum: i64 = sqlx::query_scalar(
            "SELECT coalesce(sum(beats), 0)::bigint FROM beat_rollups WHERE agent_id = ANY($1)",
        )
        .bind(agents)
        .fetch_one(&self.pool)
        .await?;
        Ok(sum.unsigned_abs())
    }

    /// Heartbeats recorded of each agent.
    pub async fn beats_by_agent(&self) -> Result<BTreeMap<Uuid, u64>> {
        let rows: Vec<(Uuid, i64)> = sqlx::query_as(
            "SELECT agent_id, sum(beats)::bigint FROM beat_rollups GROUP BY agent_id",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(agent, beats)| (agent, beats.unsigned_abs()))
            .collect())
    }

    /// Sessions of an agent, oldest first.
    pub async fn sessions(&self, agent: Uuid) -> Result<Vec<Session>> {
        Ok(sqlx::query_as(
            "SELECT session_id, incarnation, connection, close_reason, beats,
                    (extract(epoch FROM opened_at) * 1000000)::bigint AS opened_us,
                    (extract(epoch FROM closed_at) * 1000000)::bigint AS closed_us
             FROM sessions WHERE agent_id = $1 ORDER BY incarnation, connection",
        )
        .bind(agent)
        .fetch_all(&self.pool)
        .await?)
    }

    /// Sessions recorded of each agent.
    pub async fn sessions_by_agent(&self) -> Result<BTreeMap<Uuid, u64>> {
        let rows: Vec<(Uuid, i64)> =
            sqlx::query_as("SELECT agent_id, count(*) FROM sessions GROUP BY agent_id")
                .fetch_all(&self.pool)
                .await?;
        Ok(rows
            .into_iter()
            .map(|(agent, sessions)| (agent, sessions.unsigned_abs()))
            .collect())
    }

    /// Ended sessions by reason, which is numbered as `CloseReason`.
    pub async fn closes(&self) -> Result<BTreeMap<i16, u64>> {
        let rows: Vec<(i16, i64)> = sqlx::query_as(
            "SELECT close_reason, count(*) FROM sessions WHERE close_reason IS NOT NULL
             GROUP BY close_reason",
        )
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(reason, sessions)| (reason, sessions.unsigned_abs()))
            .collect())
    }

    /// Events of a kind that belong to a session.
    pub async fn events_of_session(&self, session: Uuid, kind: &str) -> Result<u64> {
        let count: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM session_events WHERE session_id = $1 AND kind = $2",
        )
        .bind(session)
        .bind(kind)
        .fetch_one(&self.pool)
        .await?;
        Ok(count.unsigned_abs())
    }

    /// Names of agents that were given the verdict (numbered as `Verdict`) between two times.
    pub async fn judged(&self, verdict: i16, from_us: i64, to_us: i64) -> Result<Vec<String>> {
        Ok(sqlx::query_scalar(
            "SELECT a.name FROM session_events e JOIN agents a USING (agent_id)
             WHERE e.kind = 'verdict_changed' AND e.verdict = $1
               AND e.at >= to_timestamp($2::float8 / 1000000)
               AND e.at <= to_timestamp($3::float8 / 1000000)
             ORDER BY a.name",
        )
        .bind(verdict)
        .bind(from_us)
        .bind(to_us)
        .fetch_all(&self.pool)
        .await?)
    }

    /// Records that stand there twice: a session of one fence, an opening or ending of one session,
    /// or one change of an agent's state at one time.
    pub async fn duplicates(&self) -> Result<u64> {
        let count: i64 = sqlx::query_scalar(
            "SELECT coalesce(sum(copies - 1), 0)::bigint FROM (
                SELECT count(*) AS copies FROM sessions
                GROUP BY agent_id, incarnation, connection
                UNION ALL
                SELECT count(*) FROM session_events
                WHERE kind IN ('session_opened', 'session_closed')
                GROUP BY session_id, kind
                UNION ALL
                SELECT count(*) FROM session_events
                WHERE kind NOT IN ('session_opened', 'session_closed')
                GROUP BY agent_id, session_id, kind, at, verdict, revision
             ) AS counted",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(count.unsigned_abs())
    }

    /// Agents whose last acknowledged tuning is of that revision.
    pub async fn applied(&self, revision: u64) -> Result<u64> {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM agent_state WHERE applied_revision = $1")
                .bind(i64::try_from(revision)?)
                .fetch_one(&self.pool)
                .await?;
        Ok(count.unsigned_abs())
    }

    /// When each recorded session opened, in microseconds since the Unix epoch, oldest first.
    pub async fn openings(&self) -> Result<Vec<i64>> {
        Ok(sqlx::query_scalar(
            "SELECT (extract(epoch FROM opened_at) * 1000000)::bigint FROM sessions
             ORDER BY opened_at",
        )
        .fetch_all(&self.pool)
        .await?)
    }

    /// Sessions without an end.
    pub async fn open_sessions(&self) -> Result<u64> {
        let count: i64 =
            sqlx::query_scalar("SELECT count(*) FROM sessions WHERE closed_at IS NULL")
                .fetch_one(&self.pool)
                .await?;
        Ok(count.unsigned_abs())
    }

    /// Rows of every table; partitions count for the table that they belong to.
    pub async fn rows(&self) -> Result<BTreeMap<String, u64>> {
        let tables: Vec<(String, String)> = sqlx::query_as(
            "SELECT relname::text, quote_ident(relname) FROM pg_class
             WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
               AND NOT relispartition AND relname <> 'schema_migrations' ORDER BY relname",
        )
        .fetch_all(&self.pool)
        .await?;
        let mut rows = BTreeMap::new();
        for (name, quoted) in tables {
            // The name comes from the catalogue and is quoted by it.
            let count = AssertSqlSafe(format!("SELECT count(*) FROM public.{quoted}"));
            let count: i64 = sqlx::query_scalar(count).fetch_one(&self.pool).await?;
            rows.insert(name, count.unsigned_abs());
        }
        Ok(rows)
    }
}
