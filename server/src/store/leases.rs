//! `leases`: who leads what only one server may do at a time.

use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

use super::columns::{bigint, unsigned};
use super::statement::{query, scalar};
use super::{Error, Purpose, Store};

/// Leadership as a leader states it with each of its writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub name: &'static str,
    pub epoch: u64,
}

/// Who asks for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub server_id: Uuid,
    /// An earlier run of the same server has ended, so its lease passes on at once.
    pub run_id: Uuid,
}

impl Store {
    /// Takes the lease when it is free, or renews it, for `length` by the clock of Postgres. `None` while
    /// another server holds it.
    ///
    /// The answer says nothing about the time after it was sent: a leader acts only for as long as its
    /// own clock allows since it asked.
    ///
    /// # Errors
    /// Why Postgres could not be asked.
    pub async fn hold_lease(
        &self,
        name: &'static str,
        holder: Holder,
        length: Duration,
    ) -> Result<Option<Lease>, Error> {
        const DOING: &str = "hold a lease";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        let epoch: Option<i64> = scalar(
            "INSERT INTO leases AS l (name, holder, run_id, epoch, until, renewed_at) \
             VALUES ($1, $2, $3, 1, clock_timestamp() + $4::float8 * interval '1 second', \
                 clock_timestamp()) \
             ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, run_id = EXCLUDED.run_id, \
                 epoch = l.epoch + (l.run_id <> EXCLUDED.run_id)::int, until = EXCLUDED.until, \
                 renewed_at = EXCLUDED.renewed_at \
             WHERE l.holder = EXCLUDED.holder OR l.until < clock_timestamp() \
             RETURNING epoch",
        )
        .bind(name)
        .bind(holder.server_id)
        .bind(holder.run_id)
        .bind(length.as_secs_f64())
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::during(DOING))?;
        tx.commit().await.map_err(Error::during(DOING))?;
        Ok(epoch.map(|epoch| Lease {
            name,
            epoch: unsigned(epoch),
        }))
    }

    /// Gives the lease back, so that another server need not wait for its end.
    ///
    /// # Errors
    /// Why Postgres could not be written to.
    pub async fn release_lease(&self, lease: &Lease) -> Result<(), Error> {
        const DOING: &str = "give a lease back";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        query("UPDATE leases SET until = '-infinity' WHERE name = $1 AND epoch = $2")
            .bind(lease.name)
            .bind(bigint(lease.epoch))
            .execute(&mut *tx)
            .await
            .map_err(Error::during(DOING))?;
        tx.commit().await.map_err(Error::during(DOING))
    }
}

/// Whether the lease is still this one, and keeps it so until the transaction ends. An end that has passed
/// does not matter while nobody else has taken it.
pub(super) async fn is_held(conn: &mut PgConnection, lease: &Lease) -> Result<bool, sqlx::Error> {
    let held: Option<i64> =
        scalar("SELECT epoch FROM leases WHERE name = $1 AND epoch = $2 FOR SHARE")
            .bind(lease.name)
            .bind(bigint(lease.epoch))
            .fetch_optional(conn)
            .await?;
    Ok(held.is_some())
}
