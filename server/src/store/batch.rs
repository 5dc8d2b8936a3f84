//! A numbered batch of the recorder, applied once.
//!
//! The transaction that writes a batch first claims its number in `spools`, so Postgres itself says
//! how far recording got, also when the answer to a commit was lost.

use serde::Serialize;
use sqlx::{Connection as _, PgConnection};
use time::OffsetDateTime;
use uuid::Uuid;

use super::columns::{bigint, unsigned};
use super::error::classify_code;
use super::rejected::{self, Rejected};
use super::statement::{query, scalar};
use super::{
    Class, Error, Purpose, Store, agents, events, incidents, metrics, runs, sessions, silences,
    tuning,
};

/// Rows of one table that are written by one statement.
pub(super) trait Row: Serialize + Sync + Sized {
    const TABLE: &'static str;

    /// Writes `rows`; tells how many were written or changed.
    fn write(
        conn: &mut PgConnection,
        rows: &[Self],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

/// What the recorder writes at once. Each list is sorted by its key and holds a key once, except
/// events, which are in the order in which they happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    pub identities: Vec<agents::Identity>,
    pub opened: Vec<sessions::Opened>,
    pub closed: Vec<sessions::Closed>,
    pub causes: Vec<sessions::Caused>,
    pub states: Vec<agents::State>,
    pub events: Vec<events::Happened>,
    pub answers: Vec<tuning::Answer>,
    pub silences: Vec<silences::Silence>,
    pub incidents: Vec<incidents::Incident>,
    pub beats: Vec<metrics::BeatRollup>,
    pub groups: Vec<metrics::GroupRollup>,
    pub histograms: Vec<metrics::RttHistogram>,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Written; so many rows were set aside.
    Written { rejected: u64 },
    /// Nothing was written: Postgres has applied up to this number. `None` when it knows nothing of
    /// this run.
    Elsewhere { applied: Option<u64> },
}

/// How to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// One statement per table.
    Whole,
    /// Rows that are refused are searched for and set aside.
    RowByRow,
}

impl Batch {
    /// Rows in all tables.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.identities.len()
            + self.opened.len()
            + self.closed.len()
            + self.causes.len()
            + self.states.len()
            + self.events.len()
            + self.answers.len()
            + self.silences.len()
            + self.incidents.len()
            + self.beats.len()
            + self.groups.len()
            + self.histograms.len()
    }

    /// The first and last moment that partitions are needed for.
    #[must_use]
    pub fn span(&self) -> Option<(OffsetDateTime, OffsetDateTime)> {
        let events = self.events.iter().map(|r| r.at);
        let beats = self.beats.iter().map(|r| r.bucket.start);
        let groups = self.groups.iter().map(|r| r.bucket.start);
        let histograms = self.histograms.iter().map(|r| r.bucket.start);
        let silences = self.silences.iter().map(|r| r.began);
        let all = events
            .chain(silences)
            .chain(beats)
            .chain(groups)
            .chain(histograms);
        all.fold(None, |span, at| match span {
            None => Some((at, at)),
            Some((first, last)) => Some((at.min(first), at.max(last))),
        })
    }
}

impl Store {
    /// Writes batch number `number` of `run` unless Postgres has it already.
    ///
    /// # Errors
    /// [`Class::BadRow`] under [`Care::Whole`] when a row was refused: try [`Care::RowByRow`].
    /// [`Class::Unreachable`] leaves open whether it was written: try again.
    pub async fn apply(
        &self,
        run: &runs::Run,
        number: u64,
        batch: &Batch,
        care: Care,
        at: OffsetDateTime,
    ) -> Result<Applied, Error> {
        const DOING: &str = "record a batch";
        let mut tx = self.begin(Purpose::Record, DOING).await?;
        if !claim(&mut tx, run, number)
            .await
            .map_err(Error::during(DOING))?
        {
            let applied = applied(&mut tx, run.run_id)
                .await
                .map_err(Error::during(DOING))?;
            return Ok(Applied::Elsewhere { applied });
        }
        runs::raise_lease(&mut tx, run, at)
            .await
            .map_err(Error::during(DOING))?;
        let mut writer = Writer {
            conn: &mut tx,
            run_id: run.run_id,
            number,
            care,
            rejected: 0,
        };
        writer.batch(batch).await.map_err(Error::during(DOING))?;
        let rejected = writer.rejected;
        tx.commit().await.map_err(Error::during(DOING))?;
        Ok(Applied::Written { rejected })
    }
}

/// Waits for a first attempt that is still committing: it holds the row's lock.
async fn claim(conn: &mut PgConnection, run: &runs::Run, number: u64) -> Result<bool, sqlx::Error> {
    let done = query(
        "UPDATE spools SET applied = $2, updated_at = now() \
         WHERE run_id = $1 AND applied = $2 - 1",
    )
    .bind(run.run_id)
    .bind(bigint(number))
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

async fn applied(conn: &mut PgConnection, run_id: Uuid) -> Result<Option<u64>, sqlx::Error> {
    let applied: Option<i64> = scalar("SELECT applied FROM spools WHERE run_id = $1")
        .bind(run_id)
        .fetch_optional(conn)
        .await?;
    Ok(applied.map(unsigned))
}

struct Writer<'c> {
    conn: &'c mut PgConnection,
    run_id: Uuid,
    number: u64,
    care: Care,
    rejected: u64,
}

impl Writer<'_> {
    async fn batch(&mut self, batch: &Batch) -> Result<(), sqlx::Error> {
        self.rows(&batch.identities).await?;
        self.rows(&batch.opened).await?;
        self.rows(&batch.closed).await?;
        self.rows(&batch.causes).await?;
        self.rows(&batch.states).await?;
        self.rows(&batch.events).await?;
        self.rows(&batch.answers).await?;
        self.rows(&batch.silences).await?;
        self.rows(&batch.incidents).await?;
        self.rows(&batch.beats).await?;
        self.rows(&batch.groups).await?;
        self.rows(&batch.histograms).await
    }

    async fn rows<R: Row>(&mut self, rows: &[R]) -> Result<(), sqlx::Error> {
        if rows.is_empty() {
            return Ok(());
        }
        match self.care {
            Care::Whole => R::write(self.conn, rows).await.map(drop),
            Care::RowByRow => self.bisect(rows).await,
        }
    }

    /// Halves what is refused until the refused rows are alone, in the order of the rows.
    async fn bisect<R: Row>(&mut self, rows: &[R]) -> Result<(), sqlx::Error> {
        let mut parts = vec![rows];
        while let Some(part) = parts.pop() {
            let Some(refusal) = self.attempt(part).await? else {
                continue;
            };
            if let [row] = part {
                self.set_aside(row, &refusal).await?;
            } else {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
        }
        Ok(())
    }

    /// `None` when the rows were written, the refusal when they were not.
    async fn attempt<R: Row>(&mut self, rows: &[R]) -> Result<Option<Refusal>, sqlx::Error> {
        let mut savepoint = self.conn.begin().await?;
        match R::write(&mut savepoint, rows).await {
            Ok(_) => savepoint.commit().await.map(|()| None),
            Err(error) => match Refusal::of(&error) {
                Some(refusal) => savepoint.rollback().await.map(|()| Some(refusal)),
                None => Err(error),
            },
        }
    }

    async fn set_aside<R: Row>(&mut self, row: &R, refusal: &Refusal) -> Result<(), sqlx::Error> {
        let row_json = serde_json::to_string(row).unwrap_or_else(|error| error.to_string());
        self.rejected += 1;
        let rejected = Rejected {
            run_id: self.run_id,
            batch: self.number,
            table: R::TABLE,
            row_json,
            sqlstate: &refusal.sqlstate,
            why: &refusal.why,
        };
        rejected::insert(self.conn, &rejected).await
    }
}

/// Why Postgres refused a row.
struct Refusal {
    sqlstate: String,
    why: String,
}

impl Refusal {
    fn of(error: &sqlx::Error) -> Option<Self> {
        let database = error.as_database_error()?;
        let sqlstate = database.code()?.into_owned();
        let why = database.message().to_owned();
        (classify_code(&sqlstate) == Class::BadRow).then_some(Self { sqlstate, why })
    }
}
