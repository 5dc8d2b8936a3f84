use std::sync::Arc;

use parking_lot::RwLock;
use time::OffsetDateTime;

use super::door::Caller;
use super::token::{Hash, Role, Token};

/// One accepted token.
#[derive(Clone, Debug)]
pub struct Key {
    /// Becomes the author of what its holder does.
    pub name: String,
    pub hash: Hash,
    pub role: Role,
    /// Not accepted from then on.
    pub expires_at: Option<OffsetDateTime>,
}

/// The accepted tokens as last read from Postgres, so that operators get in while it is away.
#[derive(Debug)]
pub struct Keyring {
    keys: RwLock<Arc<[Key]>>,
}

impl Keyring {
    /// Until Postgres was read only `first` is accepted: the token of this host's file.
    #[must_use]
    pub fn new(first: Key) -> Self {
        Self {
            keys: RwLock::new([first].into()),
        }
    }

    /// Accepts exactly these.
    pub fn replace(&self, keys: Vec<Key>) {
        *self.keys.write() = keys.into();
    }

    /// Whose token `text` is. Every key is compared, each in constant time.
    #[must_use]
    pub fn identify(&self, text: &str, now: OffsetDateTime) -> Option<Caller> {
        let hash = text.parse::<Token>().ok()?.hash();
        let keys = Arc::clone(&self.keys.read());
        let mut found = None;
        for key in &*keys {
            if key.hash.is(&hash) {
                found = Some(key);
            }
        }
        let valid = found.filter(|key| key.expires_at.is_none_or(|end| now < end))?;
        Some(Caller {
            name: valid.name.clone(),
            role: valid.role,
        })
    }
}
