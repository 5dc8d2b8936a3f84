//! `tuning_revisions` under their head row, and the answers that need attention.

use serde::Serialize;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};
use time::OffsetDateTime;
use uuid::Uuid;

use super::batch::Row;
use super::columns::{bigint, column, unsigned};
use super::statement::{query, scalar};
use super::{Error, Purpose, Store, audit};

/// A policy set that is to become the newest.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The revision it was built on; 0 when there was none.
    pub parent: u64,
    pub author: String,
    pub reason: String,
    pub created_at: OffsetDateTime,
    pub policies: serde_json::Value,
    pub changes: Vec<String>,
}

/// A revision as it stands in Postgres.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    pub revision: u64,
    pub draft: Draft,
}

/// What became of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is this revision.
    Made(u64),
    /// Its parent is not the newest any more; this one is. Nothing was written.
    Moved(u64),
}

/// An answer to a push that needs attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    pub revision: u64,
    pub agent_id: Uuid,
    pub session_id: Uuid,
    pub outcome: Outcome,
    pub reason: String,
    pub at: OffsetDateTime,
    pub took_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Refused,
    Late,
}

impl Row for Answer {
    const TABLE: &'static str = "tuning_acks";

    /// Expects one row per revision and agent, sorted by them. A later answer replaces an earlier.
    async fn write(conn: &mut PgConnection, rows: &[Self]) -> Result<u64, sqlx::Error> {
        let done = query(
            "INSERT INTO tuning_acks (revision, agent_id, session_id, outcome, reason, at, took_ns) \
             SELECT revision, agent_id, session_id, outcome, reason, at, took_ns \
             FROM UNNEST($1::bigint[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], \
                 $6::timestamptz[], $7::bigint[]) \
                 AS r (revision, agent_id, session_id, outcome, reason, at, took_ns) \
             ON CONFLICT (revision, agent_id) DO UPDATE SET session_id = EXCLUDED.session_id, \
                 outcome = EXCLUDED.outcome, reason = EXCLUDED.reason, at = EXCLUDED.at, \
                 took_ns = EXCLUDED.took_ns",
        )
        .bind(column(rows, |r| bigint(r.revision)))
        .bind(column(rows, |r| r.agent_id))
        .bind(column(rows, |r| r.session_id))
        .bind(column(rows, |r| match r.outcome {
            Outcome::Refused => "refused",
            Outcome::Late => "late",
        }))
        .bind(column(rows, |r| &r.reason))
        .bind(column(rows, |r| r.at))
        .bind(column(rows, |r| r.took_ns.map(bigint)))
        .execute(conn)
        .await?;
        Ok(done.rows_affected())
    }
}

impl Store {
    /// The newest revision; `None` while only the built-in defaults apply.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn newest_revision(&self) -> Result<Option<Revision>, Error> {
        const DOING: &str = "read the newest tuning revision";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let row = query(
            "SELECT revision, parent, author, reason, created_at, policies, changes \
             FROM tuning_revisions WHERE revision = (SELECT h.revision FROM tuning_head h)",
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        row.as_ref()
            .map(revision)
            .transpose()
            .map_err(Error::during(DOING))
    }

    /// Number of the newest revision; 0 while only the built-in defaults apply.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn newest_revision_number(&self) -> Result<u64, Error> {
        const DOING: &str = "read the number of the newest tuning revision";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let head: i64 = scalar("SELECT revision FROM tuning_head")
            .fetch_one(&mut *tx)
            .await
            .map_err(Error::during(DOING))?;
        Ok(unsigned(head))
    }

    /// One revision; `None` when there is no such.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn revision(&self, number: u64) -> Result<Option<Revision>, Error> {
        const DOING: &str = "read a tuning revision";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let row = query(
            "SELECT revision, parent, author, reason, created_at, policies, changes \
             FROM tuning_revisions WHERE revision = $1",
        )
        .bind(bigint(number))
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        row.as_ref()
            .map(revision)
            .transpose()
            .map_err(Error::during(DOING))
    }

    /// Revisions below `before` (all of them without it), newest first.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn revisions(&self, before: Option<u64>, limit: u32) -> Result<Vec<Revision>, Error> {
        const DOING: &str = "list the tuning revisions";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let rows = query(
            "SELECT revision, parent, author, reason, created_at, policies, changes \
             FROM tuning_revisions WHERE revision < $1 ORDER BY revision DESC LIMIT $2",
        )
        .bind(before.map_or(i64::MAX, bigint))
        .bind(i64::from(limit))
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        rows.iter()
            .map(revision)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }

    /// Makes `draft` the newest revision if its parent still is, and writes `entry` with it. Its number
    /// is above `floor`: agents that outlived a database refuse what is older than what they run.
    ///
    /// The lock on the head row makes the order of commits the order of numbers. When the answer to
    /// the commit is lost the outcome is unknown: the error is [`super::Class::Unreachable`], and the newest
    /// revision tells.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn append_revision(
        &self,
        draft: &Draft,
        floor: u64,
        entry: &audit::Entry,
    ) -> Result<Appended, Error> {
        const DOING: &str = "write a tuning revision";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let appended = append(&mut tx, draft, floor)
            .await
            .map_err(Error::during(DOING))?;
        let Appended::Made(number) = appended else {
            return Ok(appended);
        };
        let entry = audit::Entry {
            revision: Some(number),
            ..entry.clone()
        };
        audit::insert(&mut tx, &entry)
            .await
            .map_err(Error::during(DOING))?;
        tx.commit().await.map_err(Error::during(DOING))?;
        Ok(appended)
    }
}

/// Takes the lock on the head row until the transaction ends, and inserts `draft` if its parent is the
/// newest: at the number after `floor`, or after the parent when that is higher.
pub(super) async fn append(
    conn: &mut PgConnection,
    draft: &Draft,
    floor: u64,
) -> Result<Appended, sqlx::Error> {
    let head: i64 = scalar("SELECT revision FROM tuning_head FOR UPDATE")
        .fetch_one(&mut *conn)
        .await?;
    if unsigned(head) != draft.parent {
        return Ok(Appended::Moved(unsigned(head)));
    }
    let number = head.max(bigint(floor)) + 1;
    insert(conn, number, draft).await?;
    Ok(Appended::Made(unsigned(number)))
}

async fn insert(conn: &mut PgConnection, number: i64, draft: &Draft) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO tuning_revisions \
             (revision, parent, author, reason, created_at, policies, changes) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(number)
    .bind(bigint(draft.parent))
    .bind(&draft.author)
    .bind(&draft.reason)
    .bind(draft.created_at)
    .bind(&draft.policies)
    .bind(&draft.changes)
    .execute(&mut *conn)
    .await?;
    query("UPDATE tuning_head SET revision = $1")
        .bind(number)
        .execute(conn)
        .await?;
    Ok(())
}

fn revision(row: &PgRow) -> Result<Revision, sqlx::Error> {
    Ok(Revision {
        revision: unsigned(row.try_get("revision")?),
        draft: Draft {
            parent: unsigned(row.try_get("parent")?),
            author: row.try_get("author")?,
            reason: row.try_get("reason")?,
            created_at: row.try_get("created_at")?,
            policies: row.try_get("policies")?,
            changes: row.try_get("changes")?,
        },
    })
}
