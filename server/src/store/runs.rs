//! `servers` and `spools`: runs of servers, and what an earlier run left open.

use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::statement::query;
use super::{Error, Purpose, Store, incidents, partitions};

/// One run of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Kept in the data directory.
    pub server_id: Uuid,
    /// Random, for this run of the process.
    pub run_id: Uuid,
    pub name: String,
    pub version: String,
    pub started_at: OffsetDateTime,
}

/// What was left by earlier runs of the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Sessions that were open; each is closed as `server_lost`.
    pub sessions: u64,
    /// Agents that were online or suspect; each is `unknown`.
    pub agents: u64,
}

impl Store {
    /// Makes `run` the owner of its server's row, and ends what earlier runs left: their open
    /// sessions are `server_lost` at the last moment they were known to live, and their agents
    /// `unknown`; their incidents are over. Doing it again changes nothing.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn register(&self, run: &Run, at: OffsetDateTime) -> Result<Left, Error> {
        const DOING: &str = "register this server";
        let today = partitions::day(at);
        self.ensure_partitions(today, today).await?;
        let mut tx = self.begin(Purpose::Record, DOING).await?;
        own_server(&mut tx, run, at)
            .await
            .map_err(Error::during(DOING))?;
        own_spool(&mut tx, run)
            .await
            .map_err(Error::during(DOING))?;
        let sessions = close_lost(&mut tx, run, at)
            .await
            .map_err(Error::during(DOING))?;
        let agents = doubt_lost(&mut tx, run, at)
            .await
            .map_err(Error::during(DOING))?;
        incidents::end_left_open(&mut tx, run, at)
            .await
            .map_err(Error::during(DOING))?;
        tx.commit().await.map_err(Error::during(DOING))?;
        Ok(Left { sessions, agents })
    }

    /// Notes that `run` ended in order.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn deregister(&self, run: &Run, at: OffsetDateTime) -> Result<(), Error> {
        const DOING: &str = "note that this server stopped";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        query("UPDATE servers SET stopped_at = $3 WHERE server_id = $1 AND run_id = $2")
            .bind(run.server_id)
            .bind(run.run_id)
            .bind(at)
            .execute(&mut *tx)
            .await
            .map_err(Error::during(DOING))?;
        tx.commit().await.map_err(Error::during(DOING))
    }

    /// Jumps over batches that are gone, after a fail-over to a standby that never had them.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn skip_batches(&self, run: &Run, applied: u64) -> Result<(), Error> {
        const DOING: &str = "skip batches that are gone";
        let mut tx = self.begin(Purpose::Record, DOING).await?;
        query("UPDATE spools SET applied = $2, updated_at = now() WHERE run_id = $1")
            .bind(run.run_id)
            .bind(super::columns::bigint(applied))
            .execute(&mut *tx)
            .await
            .map_err(Error::during(DOING))?;
        tx.commit().await.map_err(Error::during(DOING))
    }
}

/// Raised inside the transaction of a batch, so that it stands still when recording does.
pub(super) async fn raise_lease(
    conn: &mut PgConnection,
    run: &Run,
    at: OffsetDateTime,
) -> Result<(), sqlx::Error> {
    query(
        "UPDATE servers SET lease = lease + 1, lease_at = $3 \
         WHERE server_id = $1 AND run_id = $2",
    )
    .bind(run.server_id)
    .bind(run.run_id)
    .bind(at)
    .execute(conn)
    .await?;
    Ok(())
}

async fn own_server(
    conn: &mut PgConnection,
    run: &Run,
    at: OffsetDateTime,
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO servers AS s (server_id, run_id, name, version, started_at, lease_at) \
         VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (server_id) DO UPDATE SET run_id = EXCLUDED.run_id, name = EXCLUDED.name, \
             version = EXCLUDED.version, started_at = EXCLUDED.started_at, \
             lease = s.lease + 1, lease_at = EXCLUDED.lease_at, stopped_at = NULL",
    )
    .bind(run.server_id)
    .bind(run.run_id)
    .bind(&run.name)
    .bind(&run.version)
    .bind(run.started_at)
    .bind(at)
    .execute(conn)
    .await?;
    Ok(())
}

/// Spools of runs that ended a week ago are of no use to anybody.
async fn own_spool(conn: &mut PgConnection, run: &Run) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO spools (run_id, server_id, applied, updated_at) VALUES ($1, $2, 0, now()) \
         ON CONFLICT (run_id) DO NOTHING",
    )
    .bind(run.run_id)
    .bind(run.server_id)
    .execute(&mut *conn)
    .await?;
    query(
        "DELETE FROM spools WHERE server_id = $1 AND run_id <> $2 \
             AND updated_at < now() - interval '7 days'",
    )
    .bind(run.server_id)
    .bind(run.run_id)
    .execute(conn)
    .await?;
    Ok(())
}

async fn close_lost(
    conn: &mut PgConnection,
    run: &Run,
    at: OffsetDateTime,
) -> Result<u64, sqlx::Error> {
    let done = query(
        "WITH lost AS ( \
             UPDATE sessions s SET close_reason = 12, \
                 close_detail = 'the server process that held it ended without closing it', \
                 closed_at = coalesce( \
                     (SELECT greatest(a.last_seen_at, s.opened_at) FROM agent_state a \
                      WHERE a.agent_id = s.agent_id AND a.session_id = s.session_id), \
                     s.opened_at) \
             WHERE s.server_id = $1 AND s.run_id <> $2 AND s.closed_at IS NULL \
             RETURNING s.session_id, s.agent_id, s.close_detail \
         ) \
         INSERT INTO session_events (at, agent_id, session_id, server_id, kind, close_reason, \
             detail) \
         SELECT $3, agent_id, session_id, $1, 'session_closed', 12, close_detail \
         FROM lost ORDER BY agent_id, session_id",
    )
    .bind(run.server_id)
    .bind(run.run_id)
    .bind(at)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// The agents that were last held by an earlier run, in a session or since one broke.
async fn doubt_lost(
    conn: &mut PgConnection,
    run: &Run,
    at: OffsetDateTime,
) -> Result<u64, sqlx::Error> {
    let done = query(
        "WITH doubted AS ( \
             UPDATE agent_state a SET verdict = 5, verdict_since = $3, session_id = NULL, \
                 updated_at = $3 \
             FROM sessions s \
             WHERE s.agent_id = a.agent_id AND s.incarnation = a.incarnation \
                 AND s.connection = a.connection AND s.server_id = $1 AND s.run_id <> $2 \
                 AND a.verdict IN (1, 2) \
             RETURNING a.agent_id, s.session_id \
         ) \
         INSERT INTO session_events (at, agent_id, session_id, server_id, kind, verdict, detail) \
         SELECT $3, agent_id, session_id, $1, 'verdict_changed', 5, \
             'the server was away, so nobody can say' \
         FROM doubted ORDER BY agent_id",
    )
    .bind(run.server_id)
    .bind(run.run_id)
    .bind(at)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
