//! `silences`: gaps that outlasted T + W, and how they ended.

use std::time::Duration;

use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use time::OffsetDateTime;
use uuid::Uuid;

use super::batch::Row;
use super::columns::{bigint, column, unsigned};
use super::statement::{query, scalar};
use super::{Error, Purpose, Store};

/// How a silence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The session spoke again.
    Heard,
    /// The same instance opened another session: it had lived.
    Returned,
    /// Another instance opened one.
    Died,
    /// It was called offline and has not come back.
    Open,
}

/// One silence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Silence {
    pub began: OffsetDateTime,
    pub session_id: Uuid,
    pub agent_id: Uuid,
    pub group: String,
    pub gap_ns: u64,
    /// T and W that the agent had acknowledged.
    pub interval_ns: u64,
    pub timeout_ns: u64,
    /// How much longer the gap was here than between the agent's two sendings.
    pub lateness_ns: Option<u64>,
    pub ended: Ended,
}

/// Whose silences, and of which time.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Everybody without either.
    pub group: Option<&'a str>,
    pub agents: Option<&'a [Uuid]>,
    pub from: OffsetDateTime,
    pub to: OffsetDateTime,
}

impl Ended {
    const ALL: [Self; 4] = [Self::Heard, Self::Returned, Self::Died, Self::Open];

    const fn name(self) -> &'static str {
        match self {
            Self::Heard => "heard",
            Self::Returned => "returned",
            Self::Died => "died",
            Self::Open => "open",
        }
    }

    /// From the column `ended`.
    pub(super) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        let name: String = row.try_get("ended")?;
        let known = Self::ALL.into_iter().find(|ended| ended.name() == name);
        known.ok_or_else(|| {
            let source = format!("{name:?} is no end of a silence").into();
            sqlx::Error::ColumnDecode {
                index: "ended".to_owned(),
                source,
            }
        })
    }
}

impl Row for Silence {
    const TABLE: &'static str = "silences";

    /// Expects a silence once. One that is known to have ended stays as it is.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO silences (began_at, session_id, agent_id, group_name, gap_ns, interval_ns, \
                 timeout_ns, lateness_ns, ended) \
             SELECT * FROM UNNEST($1::timestamptz[], $2::uuid[], $3::uuid[], $4::text[], \
                 $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[]) \
             ON CONFLICT (began_at, session_id) DO UPDATE \
             SET gap_ns = excluded.gap_ns, lateness_ns = excluded.lateness_ns, ended = excluded.ended \
             WHERE silences.ended = 'open'",
        )
        .bind(column(rows, |r| r.began))
        .bind(column(rows, |r| r.session_id))
        .bind(column(rows, |r| r.agent_id))
        .bind(column(rows, |r| &r.group))
        .bind(column(rows, |r| bigint(r.gap_ns)))
        .bind(column(rows, |r| bigint(r.interval_ns)))
        .bind(column(rows, |r| bigint(r.timeout_ns)))
        .bind(column(rows, |r| r.lateness_ns.map(bigint)))
        .bind(column(rows, |r| r.ended.name()))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Store {
    /// Silences that began within the span, oldest first; of more than `limit` the last ones.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn silences(&self, span: Span<'_>, limit: u32) -> Result<Vec<Silence>, Error> {
        const DOING: &str = "read the silences";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let rows = query(
            "SELECT * FROM ( \
                 SELECT began_at, session_id, agent_id, group_name, gap_ns, interval_ns, timeout_ns, \
                     lateness_ns, ended \
                 FROM silences WHERE began_at >= $1 AND began_at < $2 \
                     AND ($3::text IS NULL OR group_name = $3) \
                     AND ($4::uuid[] IS NULL OR agent_id = ANY ($4)) \
                 ORDER BY began_at DESC, session_id DESC LIMIT $5) last \
             ORDER BY began_at, session_id",
        )
        .bind(span.from)
        .bind(span.to)
        .bind(span.group)
        .bind(span.agents)
        .bind(i64::from(limit))
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        rows.iter()
            .map(silence)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }

    /// For how long agents had a session within the span, all together; of the group they are in now.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn watched(&self, span: Span<'_>) -> Result<Duration, Error> {
        const DOING: &str = "sum up the sessions";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let seconds: f64 = scalar(
            "SELECT coalesce(sum(extract(epoch FROM least(coalesce(s.closed_at, $2), $2) \
                 - greatest(s.opened_at, $1))), 0)::float8 \
             FROM sessions s \
             WHERE s.opened_at < $2 AND coalesce(s.closed_at, $2) > $1 \
                 AND ($4::uuid[] IS NULL OR s.agent_id = ANY ($4)) \
                 AND ($3::text IS NULL OR EXISTS \
                     (SELECT FROM agents a WHERE a.agent_id = s.agent_id AND a.group_name = $3))",
        )
        .bind(span.from)
        .bind(span.to)
        .bind(span.group)
        .bind(span.agents)
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        Ok(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
    }
}

fn silence(row: &PgRow) -> Result<Silence, sqlx::Error> {
    let lateness: Option<i64> = row.try_get("lateness_ns")?;
    Ok(Silence {
        began: row.try_get("began_at")?,
        session_id: row.try_get("session_id")?,
        agent_id: row.try_get("agent_id")?,
        group: row.try_get("group_name")?,
        gap_ns: unsigned(row.try_get("gap_ns")?),
        interval_ns: unsigned(row.try_get("interval_ns")?),
        timeout_ns: unsigned(row.try_get("timeout_ns")?),
        lateness_ns: lateness.map(unsigned),
        ended: Ended::read(row)?,
    })
}
