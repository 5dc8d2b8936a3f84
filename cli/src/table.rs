//! How views look to people. Pure: a view and a style in, text out.

mod agent;
mod event;
mod grid;
mod incident;
mod plan;
mod preset;
mod report;
mod rollout;
mod status;
mod tuning;

pub(crate) use agent::{agent, agents};
pub(crate) use event::event;
pub(crate) use incident::incidents;
pub(crate) use plan::plan;
pub(crate) use preset::presets;
pub(crate) use report::report;
pub(crate) use rollout::{rollout, rollout_line, rollouts};
pub(crate) use status::status;
pub(crate) use tuning::{outcome, policies, progress, progress_brief, progress_line, revisions};
