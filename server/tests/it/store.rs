//! Statements against a real Postgres.

use crate::database::Database;

#[tokio::test]
async fn every_table_and_column_says_what_it_means() {
    let (database, _store) = Database::with_schema().await;
    let silent: Vec<String> = database
        .value::<Vec<String>>(
            "SELECT coalesce(array_agg(c.relname || coalesce('.' || a.attname, '')), '{}') \
             FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 \
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') \
                 AND c.relname <> '_sqlx_migrations' \
                 AND (col_description(c.oid, a.attnum) IS NULL \
                     OR obj_description(c.oid, 'pg_class') IS NULL)",
        )
        .await;
    assert_eq!(silent, Vec::<String>::new());
    database.stop().await;
}
