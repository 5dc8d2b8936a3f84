//! Daily partitions, made ahead by the calendar and never by the data.

use sqlx::AssertSqlSafe;
use time::{Date, Duration, OffsetDateTime};

use super::statement::scalar;
use super::{Class, Error, Purpose, Store};

/// Tables that are partitioned by UTC day.
pub const TABLES: [&str; 5] = [
    "session_events",
    "beat_rollups",
    "group_rollups",
    "rtt_histograms",
    "silences",
];

impl Store {
    /// Makes the partitions of every UTC day from `first` to `last`, both included. What exists is
    /// left alone, and several servers may do this at once.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn ensure_partitions(&self, first: Date, last: Date) -> Result<(), Error> {
        for (table, day) in self.missing_partitions(first, last).await? {
            match self.make_partition(table, day).await {
                Ok(()) => {}
                Err(error)
                    if error.class() != Class::Unreachable && self.exists(table, day).await? => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn missing_partitions(
        &self,
        first: Date,
        last: Date,
    ) -> Result<Vec<(&'static str, Date)>, Error> {
        const DOING: &str = "list the partitions";
        let mut tx = self.begin(Purpose::Record, DOING).await?;
        let present: Vec<String> = scalar(
            "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
             WHERE i.inhparent = ANY ($1::text[]::regclass[])",
        )
        .bind(&TABLES[..])
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        let days =
            std::iter::successors(Some(first), |day| day.next_day()).take_while(|day| *day <= last);
        let wanted = days.flat_map(|day| TABLES.map(|table| (table, day)));
        Ok(wanted
            .filter(|(table, day)| !present.contains(&name(table, *day)))
            .collect())
    }

    async fn exists(&self, table: &'static str, day: Date) -> Result<bool, Error> {
        Ok(!self
            .missing_partitions(day, day)
            .await?
            .contains(&(table, day)))
    }

    /// Made apart and then attached: attaching lets reading and writing go on, while creating a
    /// partition in place locks everybody out of the parent.
    async fn make_partition(&self, table: &'static str, day: Date) -> Result<(), Error> {
        const DOING: &str = "make a partition";
        let mut tx = self.begin(Purpose::Record, DOING).await?;
        let name = name(table, day);
        let until = day.saturating_add(Duration::DAY);
        let statements = [
            "SET LOCAL lock_timeout = '3s'".to_owned(),
            format!(
                "CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS \
                 INCLUDING INDEXES INCLUDING COMMENTS)"
            ),
            format!(
                "ALTER TABLE {table} ATTACH PARTITION {name} \
                 FOR VALUES FROM ('{day} 00:00:00+00') TO ('{until} 00:00:00+00')"
            ),
        ];
        for statement in statements {
            sqlx::query(AssertSqlSafe(statement))
                .persistent(false)
                .execute(&mut *tx)
                .await
                .map_err(Error::during(DOING))?;
        }
        tx.commit().await.map_err(Error::during(DOING))
    }
}

/// UTC day of a moment.
#[must_use]
pub fn day(at: OffsetDateTime) -> Date {
    at.to_offset(time::UtcOffset::UTC).date()
}

fn name(table: &str, day: Date) -> String {
    format!(
        "{table}_{:04}{:02}{:02}",
        day.year(),
        u8::from(day.month()),
        day.day()
    )
}
