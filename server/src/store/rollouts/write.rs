use sqlx::PgConnection;
use time::OffsetDateTime;

use super::{Begun, Standing, Write, Written};
use crate::store::columns::{bigint, unsigned};
use crate::store::statement::{query, scalar};
use crate::store::tuning::{self, Appended};
use crate::store::{audit, leases};

/// Locks in one order, whoever writes: lease, head, rollouts.
pub(super) async fn apply(
    conn: &mut PgConnection,
    write: Write<'_>,
) -> Result<Written, sqlx::Error> {
    if let Some(lease) = write.lease
        && !leases::is_held(conn, lease).await?
    {
        return Ok(Written::Deposed);
    }
    let mut revision = None;
    if let Some((draft, floor)) = write.revision {
        match tuning::append(conn, draft, floor).await? {
            Appended::Made(number) => revision = Some(number),
            Appended::Moved(newest) => return Ok(Written::Moved(newest)),
        }
    }
    if let Some((rollout_id, steps, standing)) = write.moved
        && !update(conn, (rollout_id, steps), standing, write.at).await?
    {
        return Ok(Written::Overtaken);
    }
    let begun = match write.begun {
        Some((begun, standing)) => Some(insert(conn, begun, standing).await?),
        None => None,
    };
    if let Some(entry) = write.audit {
        let entry = audit::Entry {
            revision,
            ..entry.clone()
        };
        audit::insert(conn, &entry).await?;
    }
    Ok(Written::Done { revision, begun })
}

async fn update(
    conn: &mut PgConnection,
    (rollout_id, steps): (u64, u64),
    standing: &Standing,
    at: Option<OffsetDateTime>,
) -> Result<bool, sqlx::Error> {
    let done = query(
        "UPDATE rollouts SET state = $3, progress = $4, members = coalesce($5, members), \
             revision = $6, ended_at = $7, outcome = $8, updated_at = coalesce($9, updated_at), \
             steps = steps + 1 \
         WHERE rollout_id = $1 AND steps = $2 AND ended_at IS NULL",
    )
    .bind(bigint(rollout_id))
    .bind(bigint(steps))
    .bind(&standing.state)
    .bind(&standing.progress)
    .bind(&standing.members)
    .bind(bigint(standing.revision))
    .bind(standing.ended_at)
    .bind(&standing.outcome)
    .bind(at)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Needs the lock on the head row, which every rollout takes to begin: so numbers have no gaps.
async fn insert(
    conn: &mut PgConnection,
    begun: &Begun,
    standing: &Standing,
) -> Result<u64, sqlx::Error> {
    let rollout_id: i64 = scalar(
        "INSERT INTO rollouts (rollout_id, state, plan, progress, members, candidate, candidate_hash, \
             last_good, revision, author, reason, started_at, updated_at, ended_at, outcome) \
         SELECT coalesce(max(rollout_id), 0) + 1, $1, $2, $3, coalesce($4, '{}'::jsonb), $5, $6, $7, $8, \
             $9, $10, $11, $11, $12, $13 \
         FROM rollouts RETURNING rollout_id",
    )
    .bind(&standing.state)
    .bind(&begun.plan)
    .bind(&standing.progress)
    .bind(&standing.members)
    .bind(&begun.candidate)
    .bind(&begun.candidate_hash)
    .bind(bigint(begun.last_good))
    .bind(bigint(standing.revision))
    .bind(&begun.author)
    .bind(&begun.reason)
    .bind(begun.started_at)
    .bind(standing.ended_at)
    .bind(&standing.outcome)
    .fetch_one(conn)
    .await?;
    Ok(unsigned(rollout_id))
}
