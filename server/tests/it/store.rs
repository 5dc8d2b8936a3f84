//! Statements against a real Postgres.

mod batches;
mod operators;
mod rows;
mod runs;
mod schema;
