//! What must hold at the end, on the real programs: `cargo build --workspace`, then
//! `cargo nextest run -p fleetbeat-drill`. Each test has the machine to itself.
#![expect(
    clippy::unwrap_used,
    reason = "what is not there fails the test, and shows the logs"
)]

mod accounts;
mod benchmark;
mod demonstration;
mod endings;
mod fleet;
mod postgres_away;
mod refusals;
mod retuning;
mod server_faults;
mod silence;
