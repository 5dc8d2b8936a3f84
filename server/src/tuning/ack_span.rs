//! One span per agent's answer, so that a retune is one trace from the operator's call to every agent.
//! Made here, after the fact: a lane makes none.

use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, Tracer as _};
use opentelemetry::{KeyValue, global};
use time::OffsetDateTime;

use crate::registry::{Answered, Session};
use crate::telemetry::context_of;

/// Records an answer that was received by `now`; nothing when its push was not traced.
pub(super) fn record(session: &Session, answer: &Answered, now: OffsetDateTime) {
    if answer.traceparent.is_empty() {
        return;
    }
    let facts = session.agent.facts();
    let span = SpanBuilder::from_name("tuning ack")
        .with_kind(SpanKind::Producer)
        .with_start_time(now - answer.took)
        .with_attributes([
            KeyValue::new("agent.id", session.agent.id.to_string()),
            KeyValue::new("agent.name", facts.name.clone()),
            KeyValue::new("agent.group", facts.group.clone()),
            KeyValue::new("session.id", session.id.to_string()),
            KeyValue::new(
                "tuning.revision",
                i64::try_from(answer.revision).unwrap_or(i64::MAX),
            ),
        ]);
    let tracer = global::tracer("fleetbeat-server");
    let mut span = tracer.build_with_context(span, &context_of(&answer.traceparent));
    if !answer.refusal.is_empty() {
        span.set_status(Status::error(answer.refusal.clone()));
    }
    span.end_with_timestamp(now.into());
}
