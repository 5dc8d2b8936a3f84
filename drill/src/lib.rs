//! How the parameters are verified: real processes on a stage, swarms of simulated agents over the
//! real contract, a relay that misbehaves between them, the story that the demonstration tells, and benchmarks.

pub mod benchmark;
pub mod clock;
pub mod ledger;
pub mod relay;
pub mod skip;
pub mod stage;
pub mod story;
pub mod swarm;
