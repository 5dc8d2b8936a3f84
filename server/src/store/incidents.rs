//! `incidents`: what happened to many, or to a server.

use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use time::OffsetDateTime;
use uuid::Uuid;

use super::batch::Row;
use super::columns::column;
use super::runs::Run;
use super::statement::query;
use super::{Error, Purpose, Store};

/// An incident as it stands after its last change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Incident {
    pub incident_id: Uuid,
    pub server_id: Uuid,
    pub run_id: Uuid,
    pub kind: String,
    /// Empty for the whole server.
    pub group: String,
    pub began: OffsetDateTime,
    /// `None` while it lasts.
    pub ended: Option<OffsetDateTime>,
    pub because: String,
    pub outcome: String,
}

impl Row for Incident {
    const TABLE: &'static str = "incidents";

    /// An end, once written, never changes.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO incidents (incident_id, server_id, run_id, kind, group_name, began_at, \
                 ended_at, because, outcome) \
             SELECT * FROM UNNEST($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], \
                 $6::timestamptz[], $7::timestamptz[], $8::text[], $9::text[]) \
             ON CONFLICT (incident_id) DO UPDATE \
             SET ended_at = excluded.ended_at, outcome = excluded.outcome \
             WHERE incidents.ended_at IS NULL",
        )
        .bind(column(rows, |r| r.incident_id))
        .bind(column(rows, |r| r.server_id))
        .bind(column(rows, |r| r.run_id))
        .bind(column(rows, |r| &r.kind))
        .bind(column(rows, |r| &r.group))
        .bind(column(rows, |r| r.began))
        .bind(column(rows, |r| r.ended))
        .bind(column(rows, |r| &r.because))
        .bind(column(rows, |r| &r.outcome))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Store {
    /// The newest incidents of all servers, newest first; with `open` only those that last.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn recent_incidents(&self, limit: u32, open: bool) -> Result<Vec<Incident>, Error> {
        const DOING: &str = "read the recent incidents";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let rows = query(
            "SELECT incident_id, server_id, run_id, kind, group_name, began_at, ended_at, because, \
                 outcome \
             FROM incidents WHERE NOT $2 OR ended_at IS NULL \
             ORDER BY began_at DESC, incident_id DESC LIMIT $1",
        )
        .bind(i64::from(limit))
        .bind(open)
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        rows.iter()
            .map(incident)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }
}

/// Ends what earlier runs of this server left open.
pub(super) async fn end_left_open(
    conn: &mut PgConnection,
    run: &Run,
    at: OffsetDateTime,
) -> Result<u64, sqlx::Error> {
    let done = query(
        "UPDATE incidents SET ended_at = greatest($3, began_at), outcome = 'the server was stopped' \
         WHERE server_id = $1 AND run_id <> $2 AND ended_at IS NULL",
    )
    .bind(run.server_id)
    .bind(run.run_id)
    .bind(at)
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

fn incident(row: &PgRow) -> Result<Incident, sqlx::Error> {
    Ok(Incident {
        incident_id: row.try_get("incident_id")?,
        server_id: row.try_get("server_id")?,
        run_id: row.try_get("run_id")?,
        kind: row.try_get("kind")?,
        group: row.try_get("group_name")?,
        began: row.try_get("began_at")?,
        ended: row.try_get("ended_at")?,
        because: row.try_get("because")?,
        outcome: row.try_get("outcome")?,
    })
}
