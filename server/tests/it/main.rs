//! Tests of the server against real processes and a real Postgres, in one binary.

#![expect(clippy::unwrap_used, reason = "what helps a test fails by panicking")]

mod actor;
mod database;
mod house;
mod lane;
mod postgres;
mod store;
