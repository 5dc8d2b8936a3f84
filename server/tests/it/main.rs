//! Tests of the server against real processes and a real Postgres, in one binary.

#![expect(clippy::unwrap_used, reason = "what helps a test fails by panicking")]

mod acks;
mod actor;
mod causes;
mod command_line;
mod conditions;
mod crew;
mod database;
mod endings;
mod events;
mod faults;
mod frames;
mod gate;
mod grounds;
mod house;
mod lane;
mod modes;
mod office;
mod operators;
mod policies;
mod pooler;
mod postgres;
mod proxy;
mod record;
mod replay;
mod report;
mod retune;
mod rollout;
mod served;
mod silences;
#[expect(unreachable_pub, reason = "one file for the tests of two crates")]
#[path = "../../../drill/src/skip.rs"]
mod skip;
mod sockets;
mod stop;
mod store;
mod trace;
