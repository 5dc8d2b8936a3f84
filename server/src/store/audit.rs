//! `audit_log`: what operators did.

use sqlx::{PgConnection, Row as _};
use time::OffsetDateTime;

use super::columns::{bigint, unsigned};
use super::statement::query;
use super::{Error, Purpose, Store};

/// One call of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub at: OffsetDateTime,
    /// Name of the operator's token.
    pub actor: String,
    pub role: String,
    pub address: String,
    pub action: String,
    pub target: String,
    /// `done`, or why it was refused.
    pub outcome: String,
    pub reason: String,
    /// The revision that the call made.
    pub revision: Option<u64>,
    pub before: Option<serde_json::Value>,
    pub after: Option<serde_json::Value>,
}

impl Store {
    /// Writes one entry.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn append_audit(&self, entry: &Entry) -> Result<(), Error> {
        const DOING: &str = "write the audit log";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        insert(&mut tx, entry).await.map_err(Error::during(DOING))?;
        tx.commit().await.map_err(Error::during(DOING))
    }

    /// The last entries, newest first.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn recent_audit(&self, limit: u32) -> Result<Vec<Entry>, Error> {
        const DOING: &str = "read the audit log";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let rows = query(
            "SELECT at, actor, role, address, action, target, outcome, reason, revision, before, \
                 after \
             FROM audit_log ORDER BY audit_id DESC LIMIT $1",
        )
        .bind(i64::from(limit))
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        rows.iter()
            .map(entry)
            .collect::<Result<_, _>>()
            .map_err(Error::during(DOING))
    }
}

pub(super) async fn insert(conn: &mut PgConnection, entry: &Entry) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO audit_log (at, actor, role, address, action, target, outcome, reason, \
             revision, before, after) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(entry.at)
    .bind(&entry.actor)
    .bind(&entry.role)
    .bind(&entry.address)
    .bind(&entry.action)
    .bind(&entry.target)
    .bind(&entry.outcome)
    .bind(&entry.reason)
    .bind(entry.revision.map(bigint))
    .bind(&entry.before)
    .bind(&entry.after)
    .execute(conn)
    .await?;
    Ok(())
}

fn entry(row: &sqlx::postgres::PgRow) -> Result<Entry, sqlx::Error> {
    let revision: Option<i64> = row.try_get("revision")?;
    Ok(Entry {
        at: row.try_get("at")?,
        actor: row.try_get("actor")?,
        role: row.try_get("role")?,
        address: row.try_get("address")?,
        action: row.try_get("action")?,
        target: row.try_get("target")?,
        outcome: row.try_get("outcome")?,
        reason: row.try_get("reason")?,
        revision: revision.map(unsigned),
        before: row.try_get("before")?,
        after: row.try_get("after")?,
    })
}
