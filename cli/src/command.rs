//! The commands, one file per family: arguments, calls, exit code.

pub(crate) mod agents;
pub(crate) mod completions;
pub(crate) mod events;
pub(crate) mod incidents;
pub(crate) mod status;
pub(crate) mod tune;
