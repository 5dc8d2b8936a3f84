//! Statements against a real Postgres.

mod batches;
mod incidents;
mod operators;
mod rollouts;
mod rows;
mod runs;
mod schema;
