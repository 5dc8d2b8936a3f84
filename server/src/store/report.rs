//! What was recorded of some agents in a time: for the comparison of before and after.

use fleetbeat_proto::v1::CloseReason;
use sqlx::Row as _;
use sqlx::types::Json;

use super::columns::{reason_of, unsigned};
use super::silences::Span;
use super::statement::query;
use super::{Error, Purpose, Store};

/// Sessions and verdicts of a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Endings {
    /// Sessions that ended, by reason.
    pub by_reason: Vec<(CloseReason, u64)>,
    /// Sessions that opened.
    pub opened: u64,
    /// Heartbeats that came.
    pub beats: u64,
    /// Silence of those that were called offline, in nanoseconds.
    pub offline_after_ns: Vec<u64>,
}

impl Store {
    /// What happened to the agents of the span, which names them.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn endings(&self, span: Span<'_>) -> Result<Endings, Error> {
        const DOING: &str = "read what happened to sessions";
        let during = Error::during;
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let rows = query(
            "SELECT close_reason, count(*) AS ended FROM sessions \
             WHERE closed_at >= $1 AND closed_at < $2 AND agent_id = ANY ($3) GROUP BY 1 ORDER BY 1",
        )
        .bind(span.from)
        .bind(span.to)
        .bind(span.agents)
        .fetch_all(&mut *tx)
        .await
        .map_err(during(DOING))?;
        let mut by_reason = Vec::new();
        for row in rows {
            let code = row.try_get("close_reason").map_err(during(DOING))?;
            let ended = row.try_get("ended").map_err(during(DOING))?;
            by_reason.extend(reason_of(code).map(|reason| (reason, unsigned(ended))));
        }
        let row = query(
            "SELECT \
                 (SELECT count(*) FROM sessions \
                  WHERE opened_at >= $1 AND opened_at < $2 AND agent_id = ANY ($3)) AS opened, \
                 (SELECT coalesce(sum(beats), 0)::bigint FROM beat_rollups \
                  WHERE bucket_start >= $1 AND bucket_start < $2 AND agent_id = ANY ($3)) AS beats, \
                 (SELECT coalesce(json_agg((facts #>> '{grounds,silence_ns}')::bigint), '[]') \
                  FROM session_events \
                  WHERE at >= $1 AND at < $2 AND agent_id = ANY ($3) AND verdict = 3 \
                      AND facts #>> '{grounds,silence_ns}' IS NOT NULL) AS offline",
        )
        .bind(span.from)
        .bind(span.to)
        .bind(span.agents)
        .fetch_one(&mut *tx)
        .await
        .map_err(during(DOING))?;
        let Json(offline_after_ns) = row
            .try_get::<Json<Vec<u64>>, _>("offline")
            .map_err(during(DOING))?;
        let count = |name: &str| row.try_get(name).map(unsigned).map_err(during(DOING));
        Ok(Endings {
            by_reason,
            opened: count("opened")?,
            beats: count("beats")?,
            offline_after_ns,
        })
    }
}
