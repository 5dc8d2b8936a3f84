//! Who is connected, and what can be said about every known agent.
//!
//! A heartbeat never comes here: the lane has its [`Session`] in hand. The registry is asked when a
//! session opens or ends, when the judge finds an agent silent, and by operators and the recorder.
//!
//! Lock order: a shard of the map, then one agent. Nothing is sent while either is held.

mod account;
mod agent;
mod conditions;
mod dirty;
mod ending;
mod incidents;
mod journal;
mod lane_gauge;
mod lateness;
mod link;
mod loss;
mod meter;
mod opening;
mod outbox;
mod owed;
mod refusal;
mod roster;
mod rtt_meter;
mod session;
mod standing;
mod view;
mod vitals;

pub use agent::{Agent, Facts, Known, Last, Presence, Watch};
pub use conditions::Standing;
pub use dirty::Dirty;
pub use incidents::{Incident, Incidents, Kind};
pub use journal::{Entry, Quiet, Quieted, Transition};
pub use lane_gauge::LaneGauge;
pub use link::Link;
pub use loss::Toll;
pub use meter::{GroupMeter, Meters};
pub use opening::{Opened, Opening, Refused};
pub use outbox::{Farewell, Outbox};
pub use roster::{Rates, Registry};
pub use session::{Answered, Ending, Session, Totals};
pub use view::{AgentView, SessionView};
