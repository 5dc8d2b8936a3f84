//! What was measured of a group or the fleet.

use sqlx::Row as _;
use time::OffsetDateTime;

use super::columns::unsigned;
use super::statement::query;
use super::{Error, Purpose, Store};

/// Heartbeats of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beats {
    pub beats: u64,
    /// Those that came later than T after the one before.
    pub late: u64,
}

impl Store {
    /// Round trips of `groups` (everybody without them) between the two, merged: counts by bucket of
    /// [`fleetbeat_liveness::histogram`].
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn round_trips(
        &self,
        groups: Option<&[String]>,
        from: OffsetDateTime,
        to: OffsetDateTime,
    ) -> Result<Vec<u64>, Error> {
        const DOING: &str = "read the round trips";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let rows = query(
            "SELECT (h.first_bucket + c.place - 1)::bigint AS bucket, sum(c.count)::bigint AS count \
             FROM rtt_histograms h CROSS JOIN LATERAL UNNEST(h.counts) WITH ORDINALITY \
                 AS c (count, place) \
             WHERE h.bucket_start >= $1 AND h.bucket_start < $2 AND c.count > 0 \
                 AND ($3::text[] IS NULL OR h.group_name = ANY ($3)) \
             GROUP BY 1",
        )
        .bind(from)
        .bind(to)
        .bind(groups)
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        let mut counts = vec![0; fleetbeat_liveness::histogram::BUCKETS];
        for row in rows {
            let bucket: i64 = row.try_get("bucket").map_err(Error::during(DOING))?;
            let count: i64 = row.try_get("count").map_err(Error::during(DOING))?;
            let bucket = usize::try_from(bucket).unwrap_or(usize::MAX);
            if let Some(known) = counts.get_mut(bucket) {
                *known = unsigned(count);
            }
        }
        Ok(counts)
    }

    /// Heartbeats of `group` (everybody without it) since then, of agents that are in it now.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn beats(&self, group: Option<&str>, since: OffsetDateTime) -> Result<Beats, Error> {
        const DOING: &str = "count the heartbeats";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let row = query(
            "SELECT coalesce(sum(b.beats), 0)::bigint AS beats, coalesce(sum(b.late), 0)::bigint AS late \
             FROM beat_rollups b \
             WHERE b.bucket_start >= $1 AND ($2::text IS NULL OR EXISTS \
                 (SELECT FROM agents a WHERE a.agent_id = b.agent_id AND a.group_name = $2))",
        )
        .bind(since)
        .bind(group)
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        let read = |name: &str| {
            row.try_get(name)
                .map(unsigned)
                .map_err(Error::during(DOING))
        };
        Ok(Beats {
            beats: read("beats")?,
            late: read("late")?,
        })
    }
}
