//! The operators' port: `FleetService` with health and reflection, `/metrics` and `/healthz`.
//!
//! Nothing here touches a lane. Calls read snapshots of the registry and ask Postgres for history;
//! what needs Postgres says so when it is away, the rest goes on.

mod door;
mod first_token;
mod fleet;
mod impatient;
mod keyring;
mod keys;
mod pages;
mod port;
mod token;
mod trouble;

pub use door::{Caller, Door};
pub use first_token::{FirstToken, NoToken};
pub use fleet::{Fleet, Parts};
pub use keyring::{Key, Keyring};
pub use keys::Keys;
pub use pages::{Readiness, pages};
pub use port::Port;
pub use token::{Hash, Role, Token};
pub(crate) use trouble::Trouble;
