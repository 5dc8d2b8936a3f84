use std::time::Duration;

use anyhow::Result;
use fleetbeat_proto::v1::{Event, Verdict};

use crate::stage::{Operator, until};

/// The recorder writes an event within a second or so; more while Postgres was away.
const RECORDED_WITHIN: Duration = Duration::from_secs(20);

/// When the agent was given the verdict after `from_us`, by the server's wall clock.
pub(super) async fn verdict_at(
    operator: &Operator,
    agent: &str,
    verdict: Verdict,
    from_us: i64,
) -> Result<i64> {
    let what = format!("{} of {agent} to be recorded", verdict.as_str_name());
    let wanted = |event: &Event| event.kind == "verdict_changed" && event.verdict() == verdict;
    Ok(first(operator, agent, &what, from_us, wanted)
        .await?
        .at_unix_us)
}

/// The end of the agent's session after `from_us`.
pub(super) async fn closed(operator: &Operator, agent: &str, from_us: i64) -> Result<Event> {
    let what = format!("the end of {agent}'s session to be recorded");
    first(operator, agent, &what, from_us, |event| {
        event.kind == "session_closed"
    })
    .await
}

async fn first(
    operator: &Operator,
    agent: &str,
    what: &str,
    from_us: i64,
    wanted: impl Fn(&Event) -> bool,
) -> Result<Event> {
    until(what, RECORDED_WITHIN, async || {
        let events = operator.events(Some(agent), None).await?;
        Ok(events
            .into_iter()
            .find(|event| event.at_unix_us >= from_us && wanted(event)))
    })
    .await
}
