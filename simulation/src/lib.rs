//! Virtual agents and servers in virtual time, through the product's own code.
//!
//! The registry, sessions, judge and lanes' logic are those of `fleetbeat-server`, the machines of agents
//! those of `fleetbeat-agent`. Only clocks, network, disks and the scheduling of threads are simulated,
//! from one seed, on one thread: the same seed gives the same run. A referee knows what really happens and
//! checks after every event what the design promises. See `docs/simulation.md`.

mod agent;
mod dice;
mod fault;
mod flow;
mod host;
mod lane;
mod net;
mod plan;
mod referee;
mod server;
mod story;
mod timeline;
mod world;

pub use plan::Options;
pub use story::{Line, Tally, Violation, story};
pub use world::{Outcome, run};
