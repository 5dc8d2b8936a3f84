//! Bringing the schema up to this version of the server.

use std::collections::BTreeMap;

use sqlx::migrate::{Migration, Migrator};
use sqlx::{PgConnection, Row as _};

use super::statement::query;
use super::{Error, Store};

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// Serialises servers that start together.
const LOCK: i64 = 0x666c_6565_7462_6561;

impl Store {
    /// Brings the schema up to this version of the server, in one transaction: all of it or nothing.
    /// Servers that start together take turns.
    ///
    /// # Errors
    /// [`super::Class::Fatal`] when a later version of the server has migrated the database, or a
    /// statement fails.
    pub async fn migrate(&self) -> Result<(), Error> {
        const DOING: &str = "migrate the database";
        let mut tx = self.pool.begin().await.map_err(Error::during(DOING))?;
        let applied = begin(&mut tx).await.map_err(Error::during(DOING))?;
        for migration in missing(&applied).map_err(|why| Error::refusing(DOING, why))? {
            apply(&mut tx, migration)
                .await
                .map_err(Error::during(DOING))?;
        }
        tx.commit().await.map_err(Error::during(DOING))
    }
}

/// Takes the turn; yields the checksums of the migrations that are applied.
async fn begin(conn: &mut PgConnection) -> Result<BTreeMap<i64, Vec<u8>>, sqlx::Error> {
    query("SELECT pg_advisory_xact_lock($1)")
        .bind(LOCK)
        .execute(&mut *conn)
        .await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS schema_migrations ( \
             version bigint PRIMARY KEY, \
             description text NOT NULL, \
             checksum bytea NOT NULL, \
             applied_at timestamptz NOT NULL DEFAULT now()); \
         COMMENT ON TABLE schema_migrations IS 'What was done to this schema'; \
         COMMENT ON COLUMN schema_migrations.version IS 'Number of the migration'; \
         COMMENT ON COLUMN schema_migrations.description IS 'Its name'; \
         COMMENT ON COLUMN schema_migrations.checksum IS 'Of its text, which never changes'; \
         COMMENT ON COLUMN schema_migrations.applied_at IS 'When it was applied'",
    )
    .execute(&mut *conn)
    .await?;
    let rows = query("SELECT version, checksum FROM schema_migrations")
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| Ok((row.try_get("version")?, row.try_get("checksum")?)))
        .collect()
}

/// The migrations to apply, or why this server can't work with the schema.
fn missing(applied: &BTreeMap<i64, Vec<u8>>) -> Result<Vec<&'static Migration>, String> {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max();
    if let Some(version) = applied
        .keys()
        .find(|version| newest.is_none_or(|n| **version > n))
    {
        return Err(format!(
            "it was brought to version {version} by a later fleetbeat-server; run that version or a \
             later one"
        ));
    }
    let mut missing = Vec::new();
    for migration in MIGRATIONS.iter() {
        match applied.get(&migration.version) {
            None => missing.push(migration),
            Some(checksum) if **checksum == *migration.checksum => {}
            Some(_) => {
                return Err(format!(
                    "migration {} has another text than the one that was applied; run the version \
                     of fleetbeat-server that made this database, or a later release",
                    migration.version
                ));
            }
        }
    }
    Ok(missing)
}

async fn apply(conn: &mut PgConnection, migration: &Migration) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(migration.sql.clone())
        .execute(&mut *conn)
        .await?;
    query("INSERT INTO schema_migrations (version, description, checksum) VALUES ($1, $2, $3)")
        .bind(migration.version)
        .bind(&*migration.description)
        .bind(&*migration.checksum)
        .execute(conn)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> BTreeMap<i64, Vec<u8>> {
        MIGRATIONS
            .iter()
            .map(|m| (m.version, m.checksum.to_vec()))
            .collect()
    }

    #[test]
    fn no_two_migrations_share_a_number() {
        assert_eq!(all().len(), MIGRATIONS.iter().count());
    }

    #[test]
    fn what_is_missing_is_applied_in_order() {
        let mut applied = all();
        let versions =
            |missing: Vec<&Migration>| missing.iter().map(|m| m.version).collect::<Vec<_>>();
        assert_eq!(versions(missing(&applied).unwrap()), [0; 0]);
        applied.remove(&6);
        applied.remove(&5);
        assert_eq!(versions(missing(&applied).unwrap())[..2], [5, 6]);
    }

    #[test]
    fn a_schema_of_a_later_server_or_of_another_history_is_refused() {
        let mut later = all();
        later.insert(9_999, Vec::new());
        assert!(
            missing(&later)
                .unwrap_err()
                .contains("later fleetbeat-server")
        );
        let mut other = all();
        other.insert(1, vec![1]);
        assert!(missing(&other).unwrap_err().contains("migration 1 "));
    }
}
