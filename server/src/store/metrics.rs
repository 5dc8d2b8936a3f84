//! `beat_rollups`, `group_rollups`, `rtt_histograms`: heartbeats as numbers.

use serde::Serialize;
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::batch::Row;
use super::columns::{array_literal, bigint, column};
use super::statement::query;

/// A span of wall-clock time, aligned to its own width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Bucket {
    pub start: OffsetDateTime,
    pub seconds: u32,
}

/// Heartbeats of one session in one bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BeatRollup {
    pub bucket: Bucket,
    pub agent_id: Uuid,
    pub session_id: Uuid,
    pub beats: u64,
    pub late: u64,
    pub rtt_count: u64,
    pub rtt_sum_ns: u64,
    /// Shortest and longest; `None` without samples.
    pub rtt_extremes_ns: Option<(u64, u64)>,
}

/// One group in one bucket, as one server counted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupRollup {
    pub bucket: Bucket,
    pub server_id: Uuid,
    pub group: String,
    /// Live at the end of the bucket.
    pub sessions: u64,
    pub beats: u64,
    pub opened: u64,
    /// By close reason, from reason 1 on.
    pub closed: [u64; 12],
}

/// Round trips of one group in one bucket, as one server measured them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RttHistogram {
    pub bucket: Bucket,
    pub server_id: Uuid,
    pub group: String,
    /// Log-linear bucket of `counts[0]`.
    pub first_bucket: u32,
    pub counts: Vec<u64>,
}

impl Row for BeatRollup {
    const TABLE: &'static str = "beat_rollups";

    /// Expects one row per bucket, agent and session. A row that exists grows.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO beat_rollups AS b (bucket_start, bucket_seconds, agent_id, session_id, \
                 beats, late, rtt_count, rtt_sum_ns, rtt_min_ns, rtt_max_ns) \
             SELECT bucket_start, bucket_seconds, agent_id, session_id, beats, late, rtt_count, \
                 rtt_sum_ns, rtt_min_ns, rtt_max_ns \
             FROM UNNEST($1::timestamptz[], $2::integer[], $3::uuid[], $4::uuid[], $5::bigint[], \
                 $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[]) \
                 AS r (bucket_start, bucket_seconds, agent_id, session_id, beats, late, rtt_count, \
                 rtt_sum_ns, rtt_min_ns, rtt_max_ns) \
             ON CONFLICT (bucket_start, agent_id, session_id) DO UPDATE SET \
                 bucket_seconds = greatest(b.bucket_seconds, EXCLUDED.bucket_seconds), \
                 beats = b.beats + EXCLUDED.beats, late = b.late + EXCLUDED.late, \
                 rtt_count = b.rtt_count + EXCLUDED.rtt_count, \
                 rtt_sum_ns = b.rtt_sum_ns + EXCLUDED.rtt_sum_ns, \
                 rtt_min_ns = least(b.rtt_min_ns, EXCLUDED.rtt_min_ns), \
                 rtt_max_ns = greatest(b.rtt_max_ns, EXCLUDED.rtt_max_ns)",
        )
        .bind(column(rows, |r| r.bucket.start))
        .bind(column(rows, |r| seconds(r.bucket)))
        .bind(column(rows, |r| r.agent_id))
        .bind(column(rows, |r| r.session_id))
        .bind(column(rows, |r| bigint(r.beats)))
        .bind(column(rows, |r| bigint(r.late)))
        .bind(column(rows, |r| bigint(r.rtt_count)))
        .bind(column(rows, |r| bigint(r.rtt_sum_ns)))
        .bind(column(rows, |r| {
            r.rtt_extremes_ns.map(|(min, _)| bigint(min))
        }))
        .bind(column(rows, |r| {
            r.rtt_extremes_ns.map(|(_, max)| bigint(max))
        }))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Row for GroupRollup {
    const TABLE: &'static str = "group_rollups";

    /// Expects one row per bucket and group. A row that exists grows; `sessions` is replaced.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO group_rollups AS g (bucket_start, bucket_seconds, server_id, group_name, \
                 sessions, beats, opened, closed) \
             SELECT bucket_start, bucket_seconds, server_id, group_name, sessions, beats, opened, \
                 closed::bigint[] \
             FROM UNNEST($1::timestamptz[], $2::integer[], $3::uuid[], $4::text[], $5::bigint[], \
                 $6::bigint[], $7::bigint[], $8::text[]) \
                 AS r (bucket_start, bucket_seconds, server_id, group_name, sessions, beats, \
                 opened, closed) \
             ON CONFLICT (bucket_start, group_name, server_id) DO UPDATE SET \
                 sessions = EXCLUDED.sessions, beats = g.beats + EXCLUDED.beats, \
                 opened = g.opened + EXCLUDED.opened, \
                 closed = ARRAY(SELECT o + n FROM UNNEST(g.closed, EXCLUDED.closed) \
                     WITH ORDINALITY AS c (o, n, place) ORDER BY place)",
        )
        .bind(column(rows, |r| r.bucket.start))
        .bind(column(rows, |r| seconds(r.bucket)))
        .bind(column(rows, |r| r.server_id))
        .bind(column(rows, |r| &r.group))
        .bind(column(rows, |r| bigint(r.sessions)))
        .bind(column(rows, |r| bigint(r.beats)))
        .bind(column(rows, |r| bigint(r.opened)))
        .bind(column(rows, |r| array_literal(&r.closed)))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Row for RttHistogram {
    const TABLE: &'static str = "rtt_histograms";

    /// Expects one row per bucket and group. A row that exists, from a run that ended inside the
    /// bucket, is merged bucket by bucket.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO rtt_histograms AS h (bucket_start, bucket_seconds, server_id, group_name, \
                 first_bucket, counts) \
             SELECT bucket_start, bucket_seconds, server_id, group_name, first_bucket, \
                 counts::bigint[] \
             FROM UNNEST($1::timestamptz[], $2::integer[], $3::uuid[], $4::text[], $5::integer[], \
                 $6::text[]) \
                 AS r (bucket_start, bucket_seconds, server_id, group_name, first_bucket, counts) \
             ON CONFLICT (bucket_start, group_name, server_id) DO UPDATE SET \
                 first_bucket = least(h.first_bucket, EXCLUDED.first_bucket), \
                 counts = ARRAY(SELECT coalesce(h.counts[i - h.first_bucket + 1], 0) \
                         + coalesce(EXCLUDED.counts[i - EXCLUDED.first_bucket + 1], 0) \
                     FROM generate_series(least(h.first_bucket, EXCLUDED.first_bucket), \
                         greatest(h.first_bucket + cardinality(h.counts), \
                             EXCLUDED.first_bucket + cardinality(EXCLUDED.counts)) - 1) i \
                     ORDER BY i)",
        )
        .bind(column(rows, |r| r.bucket.start))
        .bind(column(rows, |r| seconds(r.bucket)))
        .bind(column(rows, |r| r.server_id))
        .bind(column(rows, |r| &r.group))
        .bind(column(rows, |r| {
            i32::try_from(r.first_bucket).unwrap_or(i32::MAX)
        }))
        .bind(column(rows, |r| array_literal(&r.counts)))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

fn seconds(bucket: Bucket) -> i32 {
    i32::try_from(bucket.seconds).unwrap_or(i32::MAX)
}
