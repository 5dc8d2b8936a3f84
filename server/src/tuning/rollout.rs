//! Rollouts as the server drives them: [`fleetbeat_liveness::rollout`] decides, this stores what it decided
//! together with the revision it asks for, and feeds it what live members show.
//!
//! An operator's change with a [`Staging`] begins one ([`Desk::change`](super::Desk::change)); the
//! [`Driver`] of whichever server holds the lease takes it on. Every step is one transaction that states
//! the step before it, so that an operator's word, the driver and a second server never write over each
//! other, and a start after a crash goes on from what is stored.

mod account;
mod course;
mod driver;
mod members;
mod orders;
mod staging;
mod start;
mod steps;
mod stored;
mod watch;

pub use course::Course;
pub(super) use course::hash;
pub use driver::Driver;
pub use orders::Order;
pub use staging::{Staging, StagingError};
pub(super) use start::Start;
pub(super) use watch::Frozen;
