//! The real `fleetbeat` binary against a fleet service that holds its policies in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agents;
mod connection;
mod events;
mod fleet;
mod incidents;
mod plan;
mod presets;
mod progress;
mod rollout;
mod run;
mod status;
mod tune;
