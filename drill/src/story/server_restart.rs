use std::time::Duration;

use anyhow::Result;
use fleetbeat_proto::v1::Verdict;

use super::Story;
use crate::clock;
use crate::stage::until;

const BACK_WITHIN: Duration = Duration::from_mins(2);

/// The server is stopped in order and started again on the same ports and data.
pub(super) async fn play(story: &mut Story) -> Result<()> {
    story.say("Restarting the server");
    let stopped = clock::now();
    let stopped_us = clock::wall_us();
    let status = story.stage.server.drain().await?;
    story.expect(status.success(), || {
        format!("the server ended with {status} at SIGTERM")
    });
    story.stage.server.start().await?;
    story.say("It is ready again; its agents come back, each at its own time");
    let expected = story.report.agents.expected;
    until("every agent to be online again", BACK_WITHIN, async || {
        Ok((story.online().await? >= expected).then_some(()))
    })
    .await?;
    let back = clock::now()
        .saturating_duration_since(stopped)
        .as_secs_f64()
        * 1e3;
    story.report.server_restart.back_ms = Some(back);
    story.restarted = Some((stopped_us, clock::wall_us()));
    story.say(&format!(
        "All {expected} agents are online, {:.1} s after SIGTERM",
        back / 1e3
    ));
    Ok(())
}

/// Counts who was called offline between the stop and the return. Nobody was away.
pub(super) async fn count(story: &mut Story) -> Result<()> {
    let Some((from_us, to_us)) = story.restarted else {
        return Ok(());
    };
    let judged = story
        .ledger
        .judged(Verdict::Offline as i16, from_us, to_us)
        .await?;
    story.report.server_restart.false_offline = Some(u64::try_from(judged.len())?);
    story.expect(judged.is_empty(), || {
        format!(
            "{} agents were called offline over the restart of the server: {}",
            judged.len(),
            judged.join(", ")
        )
    });
    Ok(())
}
