//! `rollouts`: candidate policy sets on their way to the fleet.

mod write;

use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use super::columns::{bigint, unsigned};
use super::leases::Lease;
use super::statement::query;
use super::tuning;
use super::{Error, Purpose, Store, audit};

/// A rollout as it stands in Postgres.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    pub rollout_id: u64,
    pub begun: Begun,
    pub standing: Standing,
    /// How often it was written; who writes it states the one that was read.
    pub steps: u64,
    pub updated_at: OffsetDateTime,
}

/// What never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Begun {
    pub plan: Value,
    pub candidate: Value,
    /// SHA-256 of the candidate, hexadecimal.
    pub candidate_hash: String,
    /// Revision whose policies everybody else keeps; 0 for none.
    pub last_good: u64,
    pub author: String,
    pub reason: String,
    pub started_at: OffsetDateTime,
}

/// What moves.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// One of the words that the table allows.
    pub state: String,
    pub progress: Value,
    /// `None` leaves them as they are stored; so do lists, which do not read them.
    pub members: Option<Value>,
    /// The newest revision that the rollout made.
    pub revision: u64,
    /// `None` while it runs.
    pub ended_at: Option<OffsetDateTime>,
    pub outcome: String,
}

/// Everything that one step of a rollout writes, in one transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Write<'a> {
    /// Refuse unless this lease is still held.
    pub lease: Option<&'a Lease>,
    /// A revision that is to become the newest, at the number after this floor or its parent.
    pub revision: Option<(&'a tuning::Draft, u64)>,
    /// A rollout that moves: its id, the steps that were read, and how it is to stand.
    pub moved: Option<(u64, u64, &'a Standing)>,
    /// A rollout that begins.
    pub begun: Option<(&'a Begun, &'a Standing)>,
    pub audit: Option<&'a audit::Entry>,
    /// Wall time.
    pub at: Option<OffsetDateTime>,
}

/// What became of a [`Write`]; unless it is done nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Done {
        revision: Option<u64>,
        begun: Option<u64>,
    },
    /// The parent of the revision is not the newest any more; this one is.
    Moved(u64),
    /// Somebody else wrote the rollout since it was read.
    Overtaken,
    /// Another server leads.
    Deposed,
}

impl Store {
    /// Writes a step whole, or nothing of it. When the answer to the commit is lost the outcome is unknown,
    /// and the stored steps tell.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn write_rollout(&self, write: Write<'_>) -> Result<Written, Error> {
        const DOING: &str = "write a rollout";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let written = write::apply(&mut tx, write)
            .await
            .map_err(Error::during(DOING))?;
        if matches!(written, Written::Done { .. }) {
            tx.commit().await.map_err(Error::during(DOING))?;
        }
        Ok(written)
    }

    /// The rollout that runs, with its members.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn running_rollout(&self) -> Result<Option<Rollout>, Error> {
        self.one_rollout("read the running rollout", None).await
    }

    /// Id and steps of the rollout that runs: whether somebody wrote it.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn running_rollout_steps(&self) -> Result<Option<(u64, u64)>, Error> {
        const DOING: &str = "look for a running rollout";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let row = query("SELECT rollout_id, steps FROM rollouts WHERE ended_at IS NULL")
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::during(DOING))?;
        let read = |row: PgRow| -> Result<_, sqlx::Error> {
            let (id, steps) = (row.try_get("rollout_id")?, row.try_get("steps")?);
            Ok((unsigned(id), unsigned(steps)))
        };
        row.map(read).transpose().map_err(Error::during(DOING))
    }

    /// One rollout with its members; `None` when there is no such.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn rollout(&self, rollout_id: u64) -> Result<Option<Rollout>, Error> {
        self.one_rollout("read a rollout", Some(rollout_id)).await
    }

    /// The one of this id; without an id the one that runs.
    async fn one_rollout(
        &self,
        doing: &'static str,
        rollout_id: Option<u64>,
    ) -> Result<Option<Rollout>, Error> {
        let mut tx = self.begin(Purpose::Ask, doing).await?;
        let row = query(
            "SELECT rollout_id, state, plan, progress, members, candidate, candidate_hash, last_good, \
                 revision, author, reason, started_at, updated_at, ended_at, outcome, steps \
             FROM rollouts WHERE rollout_id = $1 OR ($1 IS NULL AND ended_at IS NULL)",
        )
        .bind(rollout_id.map(bigint))
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::during(doing))?;
        row.as_ref()
            .map(rollout)
            .transpose()
            .map_err(Error::during(doing))
    }

    /// Rollouts below `before` (all of them without it), newest first, without their members.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn rollouts(&self, before: Option<u64>, limit: u32) -> Result<Vec<Rollout>, Error> {
        const DOING: &str = "list the rollouts";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let rows = query(
            "SELECT rollout_id, state, plan, progress, NULL::jsonb AS members, candidate, \
                 candidate_hash, last_good, revision, author, reason, started_at, updated_at, ended_at, \
                 outcome, steps \
             FROM rollouts WHERE rollout_id < $1 ORDER BY rollout_id DESC LIMIT $2",
        )
        .bind(before.map_or(i64::MAX, bigint))
        .bind(i64::from(limit))
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        rows.iter()
            .map(rollout)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }

    /// The last rollout of this candidate that was rolled back by a guard: its id and outcome.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn failed_rollout(
        &self,
        candidate_hash: &str,
    ) -> Result<Option<(u64, String)>, Error> {
        const DOING: &str = "look for a failed rollout of the same policies";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let row = query(
            "SELECT rollout_id, outcome FROM rollouts \
             WHERE candidate_hash = $1 AND state = 'rolled_back' \
             ORDER BY rollout_id DESC LIMIT 1",
        )
        .bind(candidate_hash)
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        let read = |row: PgRow| -> Result<_, sqlx::Error> {
            Ok((
                unsigned(row.try_get("rollout_id")?),
                row.try_get("outcome")?,
            ))
        };
        row.map(read).transpose().map_err(Error::during(DOING))
    }
}

fn rollout(row: &PgRow) -> Result<Rollout, sqlx::Error> {
    Ok(Rollout {
        rollout_id: unsigned(row.try_get("rollout_id")?),
        begun: Begun {
            plan: row.try_get("plan")?,
            candidate: row.try_get("candidate")?,
            candidate_hash: row.try_get("candidate_hash")?,
            last_good: unsigned(row.try_get("last_good")?),
            author: row.try_get("author")?,
            reason: row.try_get("reason")?,
            started_at: row.try_get("started_at")?,
        },
        standing: Standing {
            state: row.try_get("state")?,
            progress: row.try_get("progress")?,
            members: row.try_get("members")?,
            revision: unsigned(row.try_get("revision")?),
            ended_at: row.try_get("ended_at")?,
            outcome: row.try_get("outcome")?,
        },
        steps: unsigned(row.try_get("steps")?),
        updated_at: row.try_get("updated_at")?,
    })
}
