//! Desired tuning: the policies, their revisions, and who runs what.
//!
//! The [`Desk`] reads policies from Postgres and changes them there; the registry's copy is what every
//! session is judged by and greeted with, and it goes on while Postgres is away. A change is stored,
//! then visible to sessions that open, then pushed to live ones whose value differs. The [`Ledger`]
//! knows who answered. A change may reach the fleet in phases: [`rollout`].

mod ack_span;
mod desk;
mod draft;
mod failed;
mod grant;
mod ground;
mod ledger;
mod limits;
mod progress;
mod push;
pub mod rollout;
mod rules;
mod stored;
mod writing;

pub use desk::{Author, Changed, Desk, StagedTo, Terms, Way, Wish};
pub use draft::{Change, Draft, Partial, Which, in_force};
pub use failed::Failed;
pub use ledger::Ledger;
pub use progress::{Refusal, Tally};
pub use push::drifting;
pub use rules::{Wrong, check_group};
pub use stored::{Unreadable, policies_of};
