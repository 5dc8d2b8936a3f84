//! Tests of the server against real processes and a real Postgres, in one binary.

mod actor;
mod house;
mod lane;
