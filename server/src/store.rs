//! Postgres: the only user of sqlx, one file per table family.
//!
//! Every statement runs inside a transaction that sets its own time-outs, and none is kept prepared,
//! so that a pooler in transaction mode works as well as a direct connection. Columns are always
//! listed, so that a migration that adds one disturbs no running server.

pub mod agents;
pub mod audit;
pub mod batch;
mod columns;
mod error;
pub mod events;
pub mod facts;
pub mod incidents;
pub mod leases;
pub mod measured;
pub mod metrics;
pub mod partitions;
mod rejected;
pub mod report;
pub mod rollouts;
pub mod runs;
mod schema;
pub mod sessions;
pub mod silences;
mod statement;
pub mod tokens;
pub mod tuning;

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres, Transaction};

pub use error::{Class, Error};
use statement::query;

/// How to reach Postgres.
#[derive(Clone, Debug)]
pub struct Options {
    /// `postgres://user:password@host:port/database`, or with `?host=/directory` for a socket.
    pub url: String,
    /// Shown by Postgres in `pg_stat_activity`.
    pub application_name: String,
    /// Most connections held at once.
    pub connections: u32,
    /// Longest wait for a free connection.
    pub acquire_timeout: Duration,
}

impl Options {
    /// Sensible values for one server: 8 connections, 5 s to get one.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            application_name: "fleetbeat-server".to_owned(),
            connections: 8,
            acquire_timeout: Duration::from_secs(5),
        }
    }
}

/// A pool of connections. Clones share it.
#[derive(Clone, Debug)]
pub struct Store {
    pool: PgPool,
}

/// What a transaction is for; decides how long a statement may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Somebody waits for the answer.
    Ask,
    /// The recorder and start-up work, which retry.
    Record,
}

impl Purpose {
    /// `BEGIN` with its time-outs in one round trip. A client that stalls inside a transaction is
    /// cut, because an old snapshot keeps hot rows from being updated in place.
    const fn begin(self) -> &'static str {
        match self {
            Self::Ask => {
                "BEGIN; SET LOCAL statement_timeout = '10s'; \
                 SET LOCAL idle_in_transaction_session_timeout = '10s'; \
                 SET LOCAL lock_timeout = '5s'"
            }
            Self::Record => {
                "BEGIN; SET LOCAL statement_timeout = '60s'; \
                 SET LOCAL idle_in_transaction_session_timeout = '30s'"
            }
        }
    }
}

impl Store {
    /// Makes the pool without connecting: the first use connects.
    ///
    /// # Errors
    /// [`Class::Fatal`] when the URL can't be understood.
    pub fn open(options: &Options) -> Result<Self, Error> {
        let connect = PgConnectOptions::from_str(&options.url)
            .map_err(Error::during("understand the database URL"))?
            .application_name(&options.application_name)
            // Poolers refuse this start-up parameter, and no column holds a float.
            .extra_float_digits(None);
        let pool = PgPoolOptions::new()
            .max_connections(options.connections)
            .acquire_timeout(options.acquire_timeout)
            .idle_timeout(Duration::from_mins(10))
            .connect_lazy_with(connect);
        Ok(Self { pool })
    }

    /// Asks Postgres for a sign of life.
    ///
    /// # Errors
    /// Why it does not answer.
    pub async fn ping(&self) -> Result<(), Error> {
        const DOING: &str = "ask Postgres for a sign of life";
        let mut tx = self.begin(Purpose::Ask, DOING).await?;
        query("SELECT 1")
            .execute(&mut *tx)
            .await
            .map_err(Error::during(DOING))?;
        Ok(())
    }

    /// Connections open, and those of them that are idle.
    #[must_use]
    pub fn connections(&self) -> (u32, u32) {
        let idle = u32::try_from(self.pool.num_idle()).unwrap_or(u32::MAX);
        (self.pool.size(), idle)
    }

    /// Closes every connection once it is idle.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    async fn begin(
        &self,
        purpose: Purpose,
        doing: &'static str,
    ) -> Result<Transaction<'static, Postgres>, Error> {
        self.pool
            .begin_with(purpose.begin())
            .await
            .map_err(Error::during(doing))
    }
}
