use std::collections::HashMap;
use std::time::Duration;

use fleetbeat_liveness::policy::{Attributes, Because, Effective, PolicySet};
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_proto::v1;
use tonic::Request;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::super::Trouble;
use super::super::door::{Caller, Peer};
use super::{Parts, agents, find, message, policies, rollouts};
use crate::store::Class;
use crate::telemetry::{TRACED, parent_of, traceparent};
use crate::tuning::{
    Author, Change, Changed, Failed, Partial, Terms, Way, Which, Wish, check_group,
};

const REVISIONS: u32 = 50;

pub(super) fn get(
    parts: &Parts,
    request: &v1::GetTuningRequest,
) -> Result<v1::GetTuningResponse, Trouble> {
    let policies = parts.desk.policies();
    let attributes = match (request.agent.as_str(), request.group.as_str()) {
        ("", "") => None,
        ("", group) => {
            check_group(group).map_err(|wrong| Trouble::Wrong(wrong.to_string()))?;
            let group = group.to_owned();
            Some(Attributes {
                agent_id: [0; 16],
                group,
                labels: std::collections::BTreeMap::new(),
            })
        }
        (agent, "") => {
            let agent = find::agent(&parts.registry, agent)?;
            Some(agent.facts().attributes(agent.id))
        }
        (_, _) => return Err(Trouble::Wrong("give an agent or a group, not both".into())),
    };
    let effective = attributes.map(|attributes| policies.effective(&attributes));
    let because = effective
        .as_ref()
        .map(|effective| because(effective, &policies));
    Ok(v1::GetTuningResponse {
        policies: Some(policies::to_wire(&policies)),
        defaults: Some(Tuning::default().into()),
        sources: effective
            .as_ref()
            .map(policies::sources)
            .unwrap_or_default(),
        effective: effective.map(|effective| effective.tuning.into()),
        effective_because: because.unwrap_or_default(),
    })
}

/// `policy group-web in revision 7; adaptive of policy radio yields: …`
fn because(effective: &Effective, policies: &PolicySet) -> String {
    let nobody = effective
        .sources
        .each()
        .all(|(_, because)| *because == Because::Default);
    let mut text = effective.sources.to_string();
    if !nobody {
        text = format!("{text} in revision {}", policies.revision());
    }
    if effective.staged {
        text.push_str(", where a rollout has brought its candidate");
    }
    for lost in &effective.yields {
        text = format!("{text}; {lost}");
    }
    text
}

pub(super) async fn set(
    parts: &Parts,
    request: Request<v1::SetTuningRequest>,
) -> Result<v1::SetTuningResponse, Trouble> {
    let (span, author) = accept("SetTuning", &request)?;
    let request = request.into_inner();
    let terms = Terms {
        expected: request.expected_revision,
        dry_run: request.dry_run,
        force: request.force,
        way: way(request.staging, request.supersede, request.again)?,
    };
    let named = (!request.policy.is_empty()).then_some(request.policy);
    let selector = request.selector.map(policies::selector).transpose()?;
    let which = match named {
        Some(name) => Which::Named(name, selector),
        None => Which::Of(selector.unwrap_or_default()),
    };
    let change = match (request.remove, request.tuning) {
        (true, _) => Change::Unset { which },
        (false, Some(tuning)) if tuning != v1::Tuning::default() => Change::Set {
            which,
            tuning: partial(tuning),
            expires_in: request.expires_in_ns.map(Duration::from_nanos),
        },
        (false, _) => {
            return Err(Trouble::Wrong(
                "nothing to set: give at least one of interval, misses, timeout, pong_every, adaptive"
                    .into(),
            ));
        }
    };
    change_it(
        parts,
        Wish::Change(change),
        (author, request.reason),
        terms,
        span,
    )
    .await
}

pub(super) async fn apply(
    parts: &Parts,
    request: Request<v1::ApplyPoliciesRequest>,
) -> Result<v1::SetTuningResponse, Trouble> {
    let (span, author) = accept("ApplyPolicies", &request)?;
    let request = request.into_inner();
    let terms = Terms {
        expected: request.expected_revision,
        dry_run: request.dry_run,
        force: request.force,
        way: way(request.staging, request.supersede, request.again)?,
    };
    let policies = request.policies.ok_or_else(|| {
        Trouble::Wrong("no policies: send an empty set to remove all of them".to_owned())
    })?;
    let policies = policies::from_wire(policies)?;
    let wish = Wish::Change(Change::Replace { policies });
    change_it(parts, wish, (author, request.reason), terms, span).await
}

pub(super) async fn rollback(
    parts: &Parts,
    request: Request<v1::RollbackTuningRequest>,
) -> Result<v1::SetTuningResponse, Trouble> {
    let (span, author) = accept("RollbackTuning", &request)?;
    let request = request.into_inner();
    let terms = Terms {
        expected: request.expected_revision,
        dry_run: request.dry_run,
        force: request.force,
        way: way(request.staging, request.supersede, request.again)?,
    };
    let wish = Wish::Rollback(request.to_revision);
    change_it(parts, wish, (author, request.reason), terms, span).await
}

async fn change_it(
    parts: &Parts,
    wish: Wish,
    (author, reason): (Author, String),
    terms: Terms,
    span: Span,
) -> Result<v1::SetTuningResponse, Trouble> {
    let author = Author { reason, ..author };
    let changed = parts
        .desk
        .change(wish, author, terms)
        .instrument(span)
        .await;
    Ok(answer(changed.map_err(trouble)?))
}

fn way(staging: Option<v1::Staging>, supersede: bool, again: bool) -> Result<Way, Trouble> {
    Ok(Way {
        staging: staging.map(rollouts::staging).transpose()?,
        supersede,
        again,
    })
}

/// The span of a change, and who asks for it.
pub(super) fn accept<T>(call: &str, request: &Request<T>) -> Result<(Span, Author), Trouble> {
    let span = tracing::info_span!(
        target: TRACED,
        "operator call",
        otel.name = format!("fleetbeat.v1.FleetService/{call}"),
        otel.kind = "server"
    );
    let author = author(request, &span)?;
    Ok((span, author))
}

fn partial(tuning: v1::Tuning) -> Partial {
    Partial {
        interval: tuning.interval_ns.map(Duration::from_nanos),
        misses: tuning.misses,
        timeout: tuning.timeout_ns.map(Duration::from_nanos),
        pong_every: tuning.pong_every,
        adaptive: tuning.adaptive,
    }
}

/// Who calls; the call's span becomes the child of the caller's.
fn author<T>(request: &Request<T>, span: &tracing::Span) -> Result<Author, Trouble> {
    let caller = request
        .extensions()
        .get::<Caller>()
        .ok_or(Trouble::Unknown)?;
    let peer = request.extensions().get::<Peer>();
    // Fails only when no collector is configured.
    let _ = span.set_parent(parent_of(request.metadata().as_ref()));
    Ok(Author {
        name: caller.name.clone(),
        role: caller.role.as_str().to_owned(),
        address: peer.map_or_else(String::new, |peer| peer.0.to_string()),
        reason: String::new(),
        traceparent: traceparent(&span.context()),
    })
}

fn answer(changed: Changed) -> v1::SetTuningResponse {
    let (before, after) = changed.beats_per_second;
    v1::SetTuningResponse {
        revision: changed.revision,
        policies: Some(policies::to_wire(&changed.policies)),
        before: Some(changed.before.into()),
        after: Some(changed.after.into()),
        targets: changed.targets,
        changes: changed.changes,
        beats_per_second_before: before,
        beats_per_second_after: after,
        exceeded: changed.exceeded,
        staged_to: changed.staged.map(|staged| v1::StagedTo {
            rollout: staged.rollout.unwrap_or_default(),
            cohort: staged.cohort,
            connected: staged.connected,
        }),
    }
}

pub(super) fn trouble(failed: Failed) -> Trouble {
    match failed {
        Failed::Staging(wrong) => Trouble::Wrong(wrong.to_string()),
        Failed::NoRollout(_) | Failed::NoneRuns => Trouble::NotFound(format!(
            "{failed}; `fleetbeat tune rollout list` shows those there were"
        )),
        Failed::NotNow(_) => Trouble::NotNow(failed.to_string()),
        Failed::Underway { .. } => Trouble::NotNow(format!(
            "{failed}: wait for its end, abort it (`fleetbeat tune rollout abort`), or let this change \
             take its place (`--supersede`), built on the policies from before it"
        )),
        Failed::TriedBefore { rollout, .. } => Trouble::NotNow(format!(
            "{failed}; `fleetbeat tune rollout show {rollout}` tells why, and `--again` tries them once \
             more"
        )),
        Failed::Contended => Trouble::Busy,
        Failed::Wrong(wrong) => Trouble::Wrong(wrong.to_string()),
        Failed::MovedOn {
            expected,
            newest,
            since,
        } => Trouble::MovedOn {
            expected,
            newest,
            since,
        },
        Failed::Exceeds(limits) => Trouble::Exceeds(limits),
        Failed::NoRevision(revision) => Trouble::NotFound(format!(
            "there is no revision {revision}; `fleetbeat tune history` shows those there are"
        )),
        Failed::Store(error) => store_trouble("changing the policies", &error),
        Failed::Unreadable(_) => Trouble::broken("changing the policies", failed.sentence()),
        Failed::Stopped => Trouble::Stopping,
    }
}

/// What an error of the store means for the caller who is `doing` something.
pub(super) fn store_trouble(doing: &'static str, error: &crate::store::Error) -> Trouble {
    match error.class() {
        Class::Unreachable => Trouble::Away {
            doing,
            why: error.sentence(),
        },
        Class::Conflict => Trouble::Busy,
        Class::BadRow | Class::Fatal => Trouble::broken(doing, error.sentence()),
    }
}

pub(super) async fn revisions(
    parts: &Parts,
    request: &v1::ListRevisionsRequest,
) -> Result<v1::ListRevisionsResponse, Trouble> {
    let size = agents::page_size(request.page_size, REVISIONS)?;
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let stored = parts.store.revisions(request.before_revision, size).await;
    let stored = stored.map_err(|error| store_trouble("listing revisions", &error))?;
    let (applied, drifting) = running_now(parts);
    let revisions = stored.into_iter().map(|stored| v1::Revision {
        revision: stored.revision,
        created_unix_us: message::unix_us(stored.draft.created_at),
        author: stored.draft.author,
        reason: stored.draft.reason,
        changes: stored.draft.changes,
        parent: stored.draft.parent,
        applied_now: applied.get(&stored.revision).copied().unwrap_or_default(),
        drifting_now: drifting.get(&stored.revision).copied().unwrap_or_default(),
    });
    Ok(v1::ListRevisionsResponse {
        revisions: revisions.collect(),
    })
}

/// Live agents by the revision that they acknowledged last, and those that do not run what they were sent by
/// the revision that they were sent last.
fn running_now(parts: &Parts) -> (HashMap<u64, u64>, HashMap<u64, u64>) {
    let (mut applied, mut drifting) = (HashMap::new(), HashMap::new());
    for agent in parts.registry.agents() {
        let Some(session) = agent.session() else {
            continue;
        };
        if let Some(acknowledged) = session.acknowledged() {
            *applied.entry(acknowledged.revision).or_default() += 1;
        }
        let sent = session.waiting_for().map(|sent| sent.revision);
        let refused = || session.refused().map(|(revision, _)| revision);
        if let Some(sent) = sent.or_else(refused) {
            *drifting.entry(sent).or_default() += 1;
        }
    }
    (applied, drifting)
}
