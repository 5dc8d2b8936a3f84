//! The Fleetbeat server: judges agents by their heartbeats, retunes them live, records what
//! happened.
//!
//! Imports point one way: `lane → registry → liveness`; `judge → registry, liveness`;
//! `record → store`; nobody imports `lane` but the composition root.

pub mod app;
pub mod clock;
pub mod judge;
pub mod lane;
pub mod operator;
pub mod postgres;
pub mod record;
pub mod registry;
pub mod settings;
pub mod store;
pub mod telemetry;
pub mod tuning;
