//! Pure decisions of Fleetbeat: who is late, when to beat, how to retune safely, when to come back.
//!
//! Everything here takes the time (a [`Moment`]) and randomness as arguments and returns a decision.
//! Nothing waits, sends, logs or reads a clock, so each rule can be tested against every schedule of
//! loss, delay and reordering.
//!
//! | question | module |
//! |---|---|
//! | what a tuning is and which ones are allowed | [`tuning`] |
//! | what the whole fleet limits policies to | [`bounds`] |
//! | which tuning to start from, and what speaks against one | [`preset`], [`plan`] |
//! | how long each side may hear nothing | [`expectation`] |
//! | what holds between a push and its answer | [`retune`] |
//! | what a tuning would have done to what was recorded | [`whatif`] |
//! | whether something became rarer or more frequent after a change | [`report`] |
//! | which tuning an agent should have | [`policy`] |
//! | how a candidate reaches the fleet, and when it is taken back | [`rollout`] |
//! | what the kernel is told about a connection | [`socket`] |
//! | when the agent sends | [`beat`] |
//! | how a slow path is told from a dead peer | [`adaptive`] |
//! | when the agent comes back, and how many at once | [`backoff`], [`admission`] |
//! | who is silent for too long | [`verdict`], [`deafness`], [`wheel`] |
//! | whether the silence is the server's own | [`hearing`], [`hold`], [`outage`] |
//! | why a verdict was reached | [`grounds`], [`path`] |
//! | what else is the case with an agent | [`condition`], [`flapping`], [`strain`], [`twins`], [`skew`] |
//! | why a session was lost | [`cause`] |
//! | which of two sessions is the newer | [`fence`] |
//! | how round trips are kept | [`rtt`], [`histogram`] |

pub mod adaptive;
pub mod admission;
pub mod backoff;
pub mod beat;
pub mod bounds;
pub mod cause;
pub mod condition;
pub mod deafness;
mod draw;
pub mod expectation;
pub mod fence;
pub mod flapping;
pub mod grounds;
pub mod hearing;
pub mod histogram;
pub mod hold;
pub mod moment;
mod odds;
pub mod outage;
pub mod path;
pub mod plan;
pub mod policy;
pub mod preset;
pub mod report;
pub mod retune;
pub mod rollout;
pub mod rtt;
pub mod skew;
pub mod socket;
pub mod span;
pub mod strain;
pub mod tuning;
pub mod twins;
pub mod verdict;
pub mod whatif;
pub mod wheel;

pub use adaptive::Limits;
pub use expectation::Expectation;
pub use moment::Moment;
pub use retune::Revised;
pub use socket::{Keepalive, SocketOptions};
pub use tuning::{Tuning, TuningError};
