use std::fmt::{self, Write as _};
use std::str::FromStr;

use rand::CryptoRng;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

const BYTES: usize = 32;

/// A bearer token: 32 random bytes, written as 64 hexadecimal digits.
#[derive(Clone)]
pub struct Token([u8; BYTES]);

/// SHA-256 of a token's bytes; all that is kept of it.
#[derive(Clone, Copy, Debug)]
pub struct Hash(pub [u8; 32]);

/// What the holder of a token may do; a later one may all that an earlier one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Also retunes.
    Operator,
    /// Also manages tokens.
    Admin,
}

impl Token {
    #[must_use]
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut bytes = [0; BYTES];
        rng.fill_bytes(&mut bytes);
        Self(bytes)
    }

    #[must_use]
    pub fn hash(&self) -> Hash {
        Hash(Sha256::digest(self.0).into())
    }

    /// The text that operators present; for the token's file, never for logs.
    #[must_use]
    pub fn expose(&self) -> String {
        self.0
            .iter()
            .fold(String::with_capacity(2 * BYTES), |mut text, byte| {
                // Writing to a String cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            })
    }
}

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a token: expected 64 hexadecimal digits")]
pub struct Malformed;

impl FromStr for Token {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let digits = text.as_bytes();
        if digits.len() != 2 * BYTES {
            return Err(Malformed);
        }
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn digit(digit: u8) -> Result<u8, Malformed> {
    let value = char::from(digit).to_digit(16).ok_or(Malformed)?;
    u8::try_from(value).map_err(|_| Malformed)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Hash {
    /// Compares in constant time.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Role {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// As Postgres stores it; `None` for a role of a later version.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Viewer, Self::Operator, Self::Admin]
            .into_iter()
            .find(|role| role.as_str() == text)
    }
}
