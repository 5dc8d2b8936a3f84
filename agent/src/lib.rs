//! The agent: keeps one session with a Fleetbeat server from the host it is installed on.
//!
//! - [`config`]: flags over environment over file over defaults.
//! - [`state`]: identity, incarnation and the tuning acknowledged last, on disk.
//! - [`session`]: one session as a pure machine, from Hello to its end.
//! - [`comeback`]: when to try again, from how the last attempt ended.
//! - `transport`: look-up, connection, TLS, one HTTP/2 stream, each step within its deadline.
//! - `deadman`: the watch that ends a process whose loop is stuck.
//! - `agent`: the loop that feeds the machine and does what it says.
//!
//! When to beat, when to give up and how long to stay away is decided by `fleetbeat_liveness`; nothing
//! of that kind is decided here. [`session`] and [`comeback`] are public so that simulations run the same
//! machines: they know neither sockets nor clocks nor tasks.

mod agent;
mod clock;
pub mod comeback;
pub mod config;
mod deadman;
mod host;
mod keeper;
mod notify;
pub mod session;
pub mod state;
pub mod telemetry;
mod transport;

pub use agent::{Stop, run};
pub use deadman::Vitals;
