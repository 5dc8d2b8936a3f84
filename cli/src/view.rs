//! What is shown: the server's answers with the shapes and names that scripts may rely on.
//!
//! A view is what `--output json` prints, and tables are made from nothing else. Keys follow the
//! contract: durations are whole nanoseconds (`_ns`), times are RFC 3339 in UTC (`_at`, `_since`).
//! What is unset is `null`. Keys are added, never renamed or removed.

#![expect(clippy::struct_field_names, reason = "fields are the keys of the JSON")]

mod agent;
mod event;
mod grounds;
mod incident;
mod plan;
mod preset;
mod report;
mod rollout;
mod status;
mod tuning;

use serde::{Serialize, Serializer};

pub(crate) use agent::{Agent, AgentDetails, AgentList, Session};
pub(crate) use event::Event;
pub(crate) use grounds::Grounds;
pub(crate) use incident::{Incident, IncidentList};
pub(crate) use plan::{Plan, Range, Replay};
pub(crate) use preset::Presets;
pub(crate) use report::{Finding, Report, Side};
pub(crate) use rollout::{
    Finding as RolloutFinding, Phase as RolloutPhase, Rollout, RolloutList, Side as RolloutSide,
};
pub(crate) use status::{Judge, Recorder, Status};
pub(crate) use tuning::{
    Outcome, Policies, Policy, Progress, Revised, Revision, Revisions, Tuning,
};

use crate::format;

/// Microseconds since the Unix epoch, as the contract has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) i64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match format::rfc3339(self.0) {
            Some(text) => serializer.serialize_str(&text),
            None => serializer.serialize_none(),
        }
    }
}

/// `VERDICT_ONLINE` is `online`; a value that this program does not know keeps its number.
fn plain_name(known: Option<&'static str>, prefix: &str, number: i32) -> String {
    match known.and_then(|name| name.strip_prefix(prefix)) {
        Some(name) => name.to_lowercase(),
        None => format!("{}{number}", prefix.to_lowercase()),
    }
}

/// Why a session ended; none while it lives.
fn close_reason(number: i32) -> Option<String> {
    let known = fleetbeat_proto::v1::CloseReason::try_from(number).ok();
    (number != 0).then(|| plain_name(known.map(|r| r.as_str_name()), "CLOSE_REASON_", number))
}

/// Why a session was lost; none until that is settled.
fn cause(number: i32) -> Option<String> {
    let known = fleetbeat_proto::v1::Cause::try_from(number).ok();
    (number != 0).then(|| plain_name(known.map(|c| c.as_str_name()), "CAUSE_", number))
}

fn verdict(number: i32) -> Option<String> {
    let known = fleetbeat_proto::v1::Verdict::try_from(number).ok();
    (number != 0).then(|| plain_name(known.map(|v| v.as_str_name()), "VERDICT_", number))
}

/// Nothing instead of an empty text.
fn told(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_contract_lose_their_prefix() {
        assert_eq!(verdict(1).as_deref(), Some("online"));
        assert_eq!(close_reason(2).as_deref(), Some("missed_heartbeats"));
        assert_eq!(cause(4).as_deref(), Some("middlebox_suspected"));
    }

    #[test]
    fn a_value_from_a_later_contract_keeps_its_number() {
        assert_eq!(verdict(99).as_deref(), Some("verdict_99"));
        assert_eq!(close_reason(99).as_deref(), Some("close_reason_99"));
    }

    #[test]
    fn unspecified_is_null() {
        assert_eq!(verdict(0), None);
        assert_eq!(close_reason(0), None);
    }
}
