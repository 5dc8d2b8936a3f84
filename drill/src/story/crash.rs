use std::time::Duration;

use anyhow::Result;
use fleetbeat_proto::v1::{Agent, CloseReason, Verdict};

use super::cast::{KILLED, RETUNED};
use super::report::ms;
use super::{Story, events};
use crate::clock;
use crate::swarm::reason_name;

const FOUND_WITHIN: Duration = Duration::from_secs(10);
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// One agent is killed and started again.
pub(super) async fn play(story: &mut Story) -> Result<()> {
    let before = story.operator.agent(KILLED).await?;
    story.say(&format!("Killing {KILLED} with SIGKILL"));
    let killed_us = clock::wall_us();
    story.stage.agent(KILLED)?.kill()?;
    let observed = observe(story, &before, killed_us).await;
    // The scenes to come need it, whatever was observed.
    story.say(&format!("Starting {KILLED} again"));
    story.stage.start_agent(KILLED, RETUNED)?;
    let back = story.verdict(KILLED, Verdict::Online, BACK_WITHIN).await?;
    story.expect(back.agent_id == before.agent_id, || {
        format!("{KILLED} came back as another agent")
    });
    story.say(&format!(
        "{KILLED} is back: the same agent, its next incarnation"
    ));
    observed
}

async fn observe(story: &mut Story, before: &Agent, killed_us: i64) -> Result<()> {
    let closed = events::closed(&story.operator, KILLED, killed_us).await?;
    let detected = ms(closed.at_unix_us - killed_us);
    let reason = closed.close_reason();
    story.report.crash.reason = Some(reason_name(reason));
    story.report.crash.detected_ms = Some(detected);
    story.say(&format!(
        "Its session ended {detected:.1} ms later as {}",
        reason_name(reason)
    ));
    story.expect(reason == CloseReason::TransportError, || {
        format!(
            "the session of the killed agent ended as {}",
            reason_name(reason)
        )
    });
    let deadline = Duration::from_nanos(before.deadline_ns);
    story
        .verdict(KILLED, Verdict::Offline, deadline + FOUND_WITHIN)
        .await?;
    story.say(&format!("{KILLED} is offline"));
    Ok(())
}
