//! Studies: how detectors and returns compare, with the product's own decisions in virtual time.
//!
//! Each makes the tables of one page of the documentation from a fixed seed, so a table can be made again
//! and a test can tell when it is out of date. They use `fleetbeat-liveness` and nothing else of the
//! product: no sockets, no threads, no clock.

mod detectors;
mod draw;
mod essay;
mod page;
mod path;
mod phi;
mod rhythm;
mod rollouts;
mod server;
mod storm;
mod storms;
mod table;
mod trial;
mod watch;

pub use page::{Page, Study};
