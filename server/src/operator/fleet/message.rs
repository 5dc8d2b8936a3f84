//! From values of the server to messages of the contract.

use fleetbeat_liveness::cause::Cause;
use fleetbeat_liveness::policy::PolicySet;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::{nanos, v1};
use time::OffsetDateTime;

use crate::registry::{AgentView, Standing};
use crate::store;
use crate::store::facts::Grounds;
use crate::telemetry::Verdicts;
use crate::tuning::Tally;

/// Microseconds since the Unix epoch.
pub(super) fn unix_us(time: OffsetDateTime) -> i64 {
    let micros = time.unix_timestamp_nanos() / 1_000;
    i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX })
}

pub(super) fn verdict(verdict: Verdict) -> i32 {
    v1::Verdict::from(verdict).into()
}

pub(super) fn verdicts(verdicts: &Verdicts) -> v1::Verdicts {
    v1::Verdicts {
        online: verdicts.online,
        suspect: verdicts.suspect,
        offline: verdicts.offline,
        left: verdicts.left,
        unknown: verdicts.unknown,
    }
}

pub(super) fn agent(view: &AgentView, policies: &PolicySet) -> v1::Agent {
    let desired = policies.effective(&view.facts.attributes(view.id)).tuning;
    let session = view.session.as_ref();
    let refused = session.and_then(|session| session.refused.as_ref());
    let deadline = session.map_or(desired.tuning.deadline(), |session| session.deadline);
    // What an agent says of itself must never pass for what an operator or a certificate says.
    let reported = view.facts.labels.iter();
    let labels = reported.map(|(key, value)| (format!("reported.{key}"), value.clone()));
    v1::Agent {
        agent_id: view.id.to_string(),
        name: view.facts.name.clone(),
        group: view.facts.group.clone(),
        labels: labels.collect(),
        verdict: verdict(view.verdict),
        because: view.because.clone(),
        verdict_since_unix_us: unix_us(view.since),
        last_seen_unix_us: view.last_seen.map(unix_us),
        last_seen_age_ns: view.age.map(nanos),
        session_id: session.map(|session| session.id.to_string()),
        fence: view.fence.map(Into::into),
        agent_version: view.facts.agent_version.clone(),
        address: session
            .map_or(&view.facts.address, |session| &session.address)
            .clone(),
        desired: Some(desired.into()),
        applied: view.applied.map(Into::into),
        refusal: refused.map_or_else(String::new, |(_, reason)| reason.clone()),
        rtt_median_ns: session.and_then(|session| session.rtt.median()).map(nanos),
        rtt_p95_ns: session.and_then(|session| session.rtt.p95()).map(nanos),
        conditions: view
            .conditions
            .iter()
            .map(|one| one.condition.to_string())
            .collect(),
        deadline_ns: nanos(deadline),
        grounds: view
            .grounds
            .as_deref()
            .map(|grounds| Grounds::from(grounds).into()),
        condition_details: view.conditions.iter().map(condition).collect(),
    }
}

fn condition(standing: &Standing) -> v1::Condition {
    v1::Condition {
        name: standing.condition.to_string(),
        since_unix_us: unix_us(standing.since),
        detail: standing.detail.clone(),
    }
}

pub(super) fn session(session: store::sessions::Session) -> v1::Session {
    v1::Session {
        session_id: session.session_id.to_string(),
        fence: Some(session.fence.into()),
        address: session.address,
        opened_unix_us: unix_us(session.opened_at),
        closed_unix_us: session.closed.map(|(at, _)| unix_us(at)),
        close_reason: session.closed.map_or(0, |(_, reason)| reason.into()),
        close_detail: session.close_detail,
        beats: session.beats.unwrap_or_default(),
        cause: session.cause.map_or(0, Into::into),
    }
}

pub(super) fn event(event: store::events::Event) -> v1::Event {
    v1::Event {
        event_id: event.event_id,
        at_unix_us: unix_us(event.at),
        agent_id: event.agent_id.to_string(),
        agent_name: event.agent_name,
        group: event.group,
        kind: event.kind,
        session_id: event.session_id.map(|id| id.to_string()),
        close_reason: event.close_reason.map_or(0, Into::into),
        verdict: event.verdict.map_or(0, Into::into),
        revision: event.revision,
        detail: event.detail,
        cause: cause(event.facts.cause.as_deref()),
        condition: event.facts.condition.unwrap_or_default(),
        grounds: event.facts.grounds.map(Into::into),
    }
}

fn cause(word: Option<&str>) -> i32 {
    let named = Cause::ALL
        .into_iter()
        .find(|cause| Some(cause.as_str()) == word);
    named.map_or(0, |cause| v1::Cause::from(cause).into())
}

/// `ended` marks the stream's last message even when some still wait.
pub(super) fn progress(tally: &Tally, ended: bool) -> v1::RevisionProgress {
    let refusals = tally.refusals.iter().map(|refusal| v1::Refusal {
        agent_id: refusal.agent_id.to_string(),
        agent_name: refusal.agent_name.clone(),
        reason: refusal.reason.clone(),
    });
    v1::RevisionProgress {
        revision: tally.revision,
        targets: tally.targets,
        applied: tally.applied,
        refused: tally.refused,
        lost: tally.lost,
        superseded: tally.superseded,
        waiting: tally.waiting,
        overdue: tally.overdue,
        ack_p50_ns: tally.ack_p50_ns,
        ack_p99_ns: tally.ack_p99_ns,
        ack_max_ns: tally.ack_max_ns,
        refusals: refusals.collect(),
        done: ended || tally.done,
    }
}
