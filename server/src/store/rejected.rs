use sqlx::PgConnection;
use uuid::Uuid;

use super::columns::bigint;
use super::statement::query;

/// A row that Postgres refused, and where it came from.
pub(super) struct Rejected<'a> {
    pub run_id: Uuid,
    pub batch: u64,
    pub table: &'static str,
    pub row_json: String,
    pub sqlstate: &'a str,
    pub why: &'a str,
}

pub(super) async fn insert(
    conn: &mut PgConnection,
    rejected: &Rejected<'_>,
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO rejected (run_id, batch, table_name, row_json, sqlstate, why) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(rejected.run_id)
    .bind(bigint(rejected.batch))
    .bind(rejected.table)
    .bind(&rejected.row_json)
    .bind(rejected.sqlstate)
    .bind(rejected.why)
    .execute(conn)
    .await?;
    Ok(())
}
