//! How statements are sent.
//!
//! None is kept prepared under a name: a pooler in transaction mode would mix the names of its
//! clients, and a kept plan is refused after a migration has changed its result.

use sqlx::postgres::PgArguments;
use sqlx::query::{Query, QueryScalar};
use sqlx::{FromRow, Postgres, postgres::PgRow};

pub(super) fn query(sql: &'static str) -> Query<'static, Postgres, PgArguments> {
    sqlx::query(sql).persistent(false)
}

/// For statements that yield one column.
pub(super) fn scalar<O>(sql: &'static str) -> QueryScalar<'static, Postgres, O, PgArguments>
where
    (O,): for<'r> FromRow<'r, PgRow>,
{
    sqlx::query_scalar(sql).persistent(false)
}
