use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fleetbeat_proto::v1::{Agent, Verdict};
use nix::sys::signal::Signal;

use super::cast::FROZEN;
use super::report::ms;
use super::{Story, events};
use crate::clock;
use crate::stage::until;

/// Beyond its deadline.
const FOUND_WITHIN: Duration = Duration::from_secs(5);
const BACK_WITHIN: Duration = Duration::from_secs(40);
/// A verdict may come that late.
const LATE_MS: f64 = 250.0;

/// One agent is frozen. It becomes suspect, then offline, on time; thawed, it is back as itself.
pub(super) async fn play(story: &mut Story) -> Result<()> {
    let before = story.operator.agent(FROZEN).await?;
    let deadline = Duration::from_nanos(before.deadline_ns);
    story.report.silence.deadline_ms = Some(deadline.as_secs_f64() * 1e3);
    story.say(&format!(
        "Freezing {FROZEN} with SIGSTOP; its deadline is {deadline:?} after its last message"
    ));
    let frozen = clock::now();
    let frozen_us = clock::wall_us();
    story.stage.agent(FROZEN)?.signal(Signal::SIGSTOP)?;
    let observed = observe(story, deadline, frozen, frozen_us).await;
    // The scenes to come need it, whatever was observed.
    thaw(story, &before).await?;
    observed
}

async fn observe(
    story: &mut Story,
    deadline: Duration,
    frozen: Instant,
    frozen_us: i64,
) -> Result<()> {
    let within = deadline + FOUND_WITHIN;
    story.verdict(FROZEN, Verdict::Suspect, within).await?;
    story.say(&format!("{FROZEN} is suspect"));
    let silent = story.verdict(FROZEN, Verdict::Offline, within).await?;
    let passed = clock::now().saturating_duration_since(frozen);
    story.say(&format!(
        "{FROZEN} is offline, {passed:.2?} after SIGSTOP by our clock"
    ));
    measure(story, &silent, frozen_us).await
}

/// Takes the times from the server's own events, which the recorder writes a moment later.
async fn measure(story: &mut Story, silent: &Agent, frozen_us: i64) -> Result<()> {
    let last = silent
        .last_seen_unix_us
        .context("the server does not know when it heard the agent")?;
    let suspect = events::verdict_at(&story.operator, FROZEN, Verdict::Suspect, frozen_us).await?;
    let offline = events::verdict_at(&story.operator, FROZEN, Verdict::Offline, frozen_us).await?;
    let silence = &mut story.report.silence;
    silence.suspect_ms = Some(ms(suspect - last));
    silence.offline_ms = Some(ms(offline - last));
    let deadline = silence.deadline_ms.unwrap_or_default();
    let took = ms(offline - last);
    story.say(&format!(
        "By the server's events: suspect after {:.1} ms, offline after {took:.1} ms",
        ms(suspect - last)
    ));
    story.expect(took >= deadline, || {
        format!(
            "{FROZEN} was called offline {:.1} ms early",
            deadline - took
        )
    });
    story.expect(took <= deadline + LATE_MS, || {
        format!("{FROZEN} was called offline {:.1} ms late", took - deadline)
    });
    Ok(())
}

async fn thaw(story: &mut Story, before: &Agent) -> Result<()> {
    story.say(&format!("Thawing {FROZEN} with SIGCONT"));
    story.stage.agent(FROZEN)?.signal(Signal::SIGCONT)?;
    let back = story.verdict(FROZEN, Verdict::Online, BACK_WITHIN).await?;
    story.say(&format!(
        "{FROZEN} is back: the same agent, another session"
    ));
    story.expect(back.agent_id == before.agent_id, || {
        format!("{FROZEN} came back as another agent")
    });
    story.expect(back.session_id != before.session_id, || {
        format!("{FROZEN} came back in a session that had been closed")
    });
    let id = before.agent_id.parse()?;
    let closed = until(
        "the ended session to be recorded",
        BACK_WITHIN,
        async || {
            let sessions = story.ledger.sessions(id).await?;
            let closed: Vec<_> = sessions
                .iter()
                .filter_map(|session| session.close_reason)
                .collect();
            Ok((!closed.is_empty()).then_some(closed))
        },
    );
    let closed = closed.await?;
    story.expect(closed.len() == 1, || {
        format!(
            "{FROZEN} has {} ended sessions after one silence",
            closed.len()
        )
    });
    Ok(())
}
