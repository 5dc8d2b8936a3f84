//! What was recorded of some agents in a time: for the comparison of before and after.

use std::time::Duration;

use fleetbeat_proto::v1::CloseReason;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use super::columns::{bigint, reason_of, unsigned};
use super::silences::{Ended, Span};
use super::statement::query;
use super::{Error, Purpose, Store};

/// Endings that somebody meant: `goodbye`, `superseded`, `server_drain` and `shed`.
const MEANT: [i16; 4] = [1, 5, 7, 8];

/// Events of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub events: u64,
    /// Sum over short spans of time of the square of the events in each.
    pub squares: u64,
}

/// How long the silence was at verdicts of `offline`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub verdicts: u64,
    /// Nanoseconds, by the nearest rank.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
}

/// Sessions, silences and verdicts of a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Happened {
    /// Silences that began, by how they ended.
    pub silences: Vec<(Ended, Count)>,
    /// Sessions that ended, by reason.
    pub by_reason: Vec<(CloseReason, u64)>,
    /// Those of them that nobody meant.
    pub disconnects: Count,
    /// Sessions that opened.
    pub opened: Count,
    /// Heartbeats that came.
    pub beats: u64,
    /// Everybody who was called offline.
    pub offline: Found,
    /// Those of them in whose place another instance came back.
    pub died: Found,
}

impl Happened {
    /// Silences that ended so.
    #[must_use]
    pub fn silences(&self, ended: Ended) -> Count {
        let found = self.silences.iter().find(|(known, _)| *known == ended);
        found.map(|(_, count)| *count).unwrap_or_default()
    }
}

impl Store {
    /// What happened to the agents of the span, which names them. Events in the same `together`, at least a
    /// second long, are taken for one.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn happened(&self, span: Span<'_>, together: Duration) -> Result<Happened, Error> {
        const DOING: &str = "read what happened to some agents";
        let seconds = bigint(together.as_secs().max(1));
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        read(&mut tx, span, seconds)
            .await
            .map_err(Error::during(DOING))
    }
}

async fn read(
    conn: &mut PgConnection,
    span: Span<'_>,
    seconds: i64,
) -> Result<Happened, sqlx::Error> {
    let mut happened = Happened {
        silences: silences(conn, span, seconds).await?,
        disconnects: disconnects(conn, span, seconds).await?,
        opened: opened(conn, span, seconds).await?,
        offline: offline(conn, span).await?,
        died: died(conn, span).await?,
        ..Happened::default()
    };
    let rows = query(
        "SELECT close_reason, count(*) AS ended FROM sessions \
         WHERE closed_at >= $1 AND closed_at < $2 AND agent_id = ANY ($3) GROUP BY 1 ORDER BY 1",
    )
    .bind(span.from)
    .bind(span.to)
    .bind(span.agents)
    .fetch_all(&mut *conn)
    .await?;
    for row in rows {
        let reason = reason_of(row.try_get("close_reason")?);
        let ended = unsigned(row.try_get("ended")?);
        happened
            .by_reason
            .extend(reason.map(|reason| (reason, ended)));
    }
    let beats = query(
        "SELECT coalesce(sum(beats), 0)::bigint AS beats FROM beat_rollups \
         WHERE bucket_start >= $1 AND bucket_start < $2 AND agent_id = ANY ($3)",
    )
    .bind(span.from)
    .bind(span.to)
    .bind(span.agents)
    .fetch_one(conn)
    .await?;
    happened.beats = unsigned(beats.try_get("beats")?);
    Ok(happened)
}

/// Silences that ended together are of one event.
async fn silences(
    conn: &mut PgConnection,
    span: Span<'_>,
    seconds: i64,
) -> Result<Vec<(Ended, Count)>, sqlx::Error> {
    let rows = query(
        "SELECT ended, sum(n)::bigint AS events, sum(n * n)::bigint AS squares FROM ( \
             SELECT ended, count(*) AS n FROM silences \
             WHERE began_at >= $1 AND began_at < $2 AND agent_id = ANY ($3) \
             GROUP BY ended, floor((extract(epoch FROM began_at) + gap_ns / 1e9) / $4) \
         ) spans GROUP BY 1",
    )
    .bind(span.from)
    .bind(span.to)
    .bind(span.agents)
    .bind(seconds)
    .fetch_all(conn)
    .await?;
    rows.iter()
        .map(|row| Ok((Ended::read(row)?, count(row)?)))
        .collect()
}

async fn disconnects(
    conn: &mut PgConnection,
    span: Span<'_>,
    seconds: i64,
) -> Result<Count, sqlx::Error> {
    let row = query(
        "SELECT coalesce(sum(n), 0)::bigint AS events, coalesce(sum(n * n), 0)::bigint AS squares \
         FROM (SELECT count(*) AS n FROM sessions \
             WHERE closed_at >= $1 AND closed_at < $2 AND agent_id = ANY ($3) \
                 AND close_reason <> ALL ($5) \
             GROUP BY floor(extract(epoch FROM closed_at) / $4)) spans",
    )
    .bind(span.from)
    .bind(span.to)
    .bind(span.agents)
    .bind(seconds)
    .bind(&MEANT[..])
    .fetch_one(conn)
    .await?;
    count(&row)
}

async fn opened(
    conn: &mut PgConnection,
    span: Span<'_>,
    seconds: i64,
) -> Result<Count, sqlx::Error> {
    let row = query(
        "SELECT coalesce(sum(n), 0)::bigint AS events, coalesce(sum(n * n), 0)::bigint AS squares \
         FROM (SELECT count(*) AS n FROM sessions \
             WHERE opened_at >= $1 AND opened_at < $2 AND agent_id = ANY ($3) \
             GROUP BY floor(extract(epoch FROM opened_at) / $4)) spans",
    )
    .bind(span.from)
    .bind(span.to)
    .bind(span.agents)
    .bind(seconds)
    .fetch_one(conn)
    .await?;
    count(&row)
}

async fn offline(conn: &mut PgConnection, span: Span<'_>) -> Result<Found, sqlx::Error> {
    let row = query(
        "SELECT count(*) AS verdicts, \
             percentile_disc(0.5) WITHIN GROUP (ORDER BY silence) AS p50, \
             percentile_disc(0.99) WITHIN GROUP (ORDER BY silence) AS p99 \
         FROM (SELECT (facts #>> '{grounds,silence_ns}')::bigint AS silence FROM session_events \
             WHERE at >= $1 AND at < $2 AND agent_id = ANY ($3) AND verdict = 3) verdicts \
         WHERE silence IS NOT NULL",
    )
    .bind(span.from)
    .bind(span.to)
    .bind(span.agents)
    .fetch_one(conn)
    .await?;
    found(&row)
}

/// The verdicts within a silence that turned out to be a death.
async fn died(conn: &mut PgConnection, span: Span<'_>) -> Result<Found, sqlx::Error> {
    let row = query(
        "SELECT count(*) AS verdicts, \
             percentile_disc(0.5) WITHIN GROUP (ORDER BY silence) AS p50, \
             percentile_disc(0.99) WITHIN GROUP (ORDER BY silence) AS p99 \
         FROM (SELECT (e.facts #>> '{grounds,silence_ns}')::bigint AS silence \
             FROM session_events e JOIN silences s ON s.agent_id = e.agent_id \
                 AND e.at >= s.began_at AND e.at <= s.began_at + s.gap_ns / 1e9 * interval '1 second' \
             WHERE e.at >= $1 AND e.at < $2 AND e.agent_id = ANY ($3) AND e.verdict = 3 \
                 AND s.began_at >= $1 AND s.began_at < $2 AND s.ended = 'died') verdicts \
         WHERE silence IS NOT NULL",
    )
    .bind(span.from)
    .bind(span.to)
    .bind(span.agents)
    .fetch_one(conn)
    .await?;
    found(&row)
}

fn count(row: &PgRow) -> Result<Count, sqlx::Error> {
    Ok(Count {
        events: unsigned(row.try_get("events")?),
        squares: unsigned(row.try_get("squares")?),
    })
}

fn found(row: &PgRow) -> Result<Found, sqlx::Error> {
    let at = |name: &str| {
        let ns: Option<i64> = row.try_get(name)?;
        Ok::<_, sqlx::Error>(ns.map(unsigned))
    };
    Ok(Found {
        verdicts: unsigned(row.try_get("verdicts")?),
        p50_ns: at("p50")?,
        p99_ns: at("p99")?,
    })
}
