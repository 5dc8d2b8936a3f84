//! The keyring follows Postgres.

use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::token::Hash;
use super::{FirstToken, Key, Keyring, Role};
use crate::clock::Clock;
use crate::store::{self, Store, tokens};

/// How long a revoked token is accepted at most, while Postgres answers.
const POLL: Duration = Duration::from_secs(5);

/// Reads the accepted tokens from Postgres, where this host's first one is entered.
#[derive(Debug)]
pub struct Keys {
    store: Store,
    clock: Clock,
    keyring: Arc<Keyring>,
    first: Key,
}

impl Keys {
    /// Until Postgres was read only `first` is accepted.
    #[must_use]
    pub fn new(store: Store, clock: Clock, first: &FirstToken) -> Self {
        let first = first_key(first);
        let keyring = Arc::new(Keyring::new(first.clone()));
        Self {
            store,
            clock,
            keyring,
            first,
        }
    }

    #[must_use]
    pub fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.keyring)
    }

    /// Follows changes until `stop`; while Postgres is away the tokens known stay accepted.
    pub async fn run(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let refreshed = tokio::select! {
                () = stop.cancelled() => return,
                refreshed = self.refresh() => refreshed,
            };
            match &refreshed {
                Ok(()) if failing => tracing::info!("Operator tokens can be read again"),
                Err(error) if !failing => {
                    let error = error.sentence();
                    tracing::warn!(error, "Operator tokens cannot be read, those known stay");
                }
                Ok(()) | Err(_) => {}
            }
            failing = refreshed.is_err();
        }
    }

    /// Reads once.
    pub async fn refresh(&self) -> Result<(), store::Error> {
        let mut stored = self.store.tokens().await?;
        if !stored.iter().any(|token| token.hash == self.first.hash.0) {
            self.store
                .create_token(&draft(&self.first, self.clock.wall()))
                .await?;
            stored = self.store.tokens().await?;
        }
        self.keyring
            .replace(stored.into_iter().filter_map(accepted).collect());
        Ok(())
    }
}

/// Its name holds part of its hash: a fresh file is a fresh token beside the old one, on any server.
fn first_key(first: &FirstToken) -> Key {
    let hash = first.token.hash();
    let [a, b, c, d, ..] = hash.0;
    let name = format!("first-{a:02x}{b:02x}{c:02x}{d:02x}");
    Key {
        name,
        hash,
        role: Role::Admin,
        expires_at: None,
    }
}

fn draft(key: &Key, now: OffsetDateTime) -> tokens::Draft {
    tokens::Draft {
        name: key.name.clone(),
        hash: key.hash.0,
        role: key.role.as_str().to_owned(),
        created_at: now,
        created_by: "the server, at its first start".to_owned(),
        expires_at: key.expires_at,
    }
}

/// `None` for what is revoked, or of a later version.
fn accepted(token: tokens::Token) -> Option<Key> {
    if token.revoked_at.is_some() {
        return None;
    }
    Some(Key {
        name: token.name,
        hash: Hash(token.hash.try_into().ok()?),
        role: Role::parse(&token.role)?,
        expires_at: token.expires_at,
    })
}
