use std::time::Duration;

use anyhow::{Context, Result};
use uuid::Uuid;

use super::{Story, server_restart};
use crate::stage::until;
use crate::swarm::Report as Swarm;

/// Metrics are recorded within 10 s, and a little later on a busy machine.
const RECORDED_WITHIN: Duration = Duration::from_secs(40);
/// Enough to see what kind of error it is.
const ERRORS_SHOWN: usize = 3;

/// The simulated agents leave, and what they counted is held against what Postgres has.
pub(super) async fn play(story: &mut Story) -> Result<()> {
    let crowd = story
        .crowd
        .take()
        .context("the simulated agents are gone")?;
    story.say("The simulated agents say Goodbye and tell what they sent");
    let swarm = crowd.leave().await?;
    beats(story, &swarm).await?;
    sessions(story, &swarm).await?;
    server_restart::count(story).await?;
    records(story).await?;
    errors(story)
}

async fn beats(story: &mut Story, swarm: &Swarm) -> Result<()> {
    let agents: Vec<Uuid> = swarm.agents.iter().map(|agent| agent.agent_id).collect();
    let sent = swarm.total.certain_pings();
    let recorded = until("all beats to be recorded", RECORDED_WITHIN, async || {
        Ok((story.ledger.beats(&agents).await? >= sent).then_some(()))
    });
    // What is still missing then is lost, and counted below.
    recorded.await.ok();
    let recorded = story.ledger.beats(&agents).await?;
    story.report.beats.sent = Some(sent);
    story.report.beats.recorded = Some(recorded);
    let doubtful = swarm.total.in_doubt;
    story.say(&format!(
        "They sent {sent} beats that must be recorded, and {doubtful} at the moment of an ending; \
         Postgres has {recorded}"
    ));
    story.expect(recorded >= sent, || {
        format!("{} beats are not recorded", sent - recorded)
    });
    story.expect(recorded <= sent + doubtful, || {
        format!(
            "{} beats more are recorded than were sent",
            recorded - sent - doubtful
        )
    });
    story.expect(swarm.total.left, || {
        "not every simulated agent could say Goodbye".to_owned()
    });
    Ok(())
}

async fn sessions(story: &mut Story, swarm: &Swarm) -> Result<()> {
    let recorded = story.ledger.sessions_by_agent().await?;
    let wrong = swarm.agents.iter().filter(|agent| {
        recorded.get(&agent.agent_id).copied().unwrap_or_default() != agent.counts.sessions
    });
    let wrong: Vec<&str> = wrong.map(|agent| agent.name.as_str()).collect();
    story.expect(wrong.is_empty(), || {
        format!(
            "{} agents have another number of sessions in Postgres than they had, such as {}",
            wrong.len(),
            wrong[0]
        )
    });
    Ok(())
}

async fn records(story: &mut Story) -> Result<()> {
    let duplicates = story.ledger.duplicates().await?;
    story.expect(duplicates == 0, || {
        format!("{duplicates} records stand twice in the end")
    });
    story.report.rows = story.ledger.rows().await?;
    let rejected = story
        .report
        .rows
        .get("rejected")
        .copied()
        .unwrap_or_default();
    story.expect(rejected == 0, || {
        format!("Postgres refused {rejected} rows")
    });
    Ok(())
}

/// An ERROR line needs a human, and this story gives no reason for one.
fn errors(story: &mut Story) -> Result<()> {
    let log = story.stage.server.log()?;
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    for line in errors.iter().take(ERRORS_SHOWN) {
        story.expect(false, || format!("the server logged an error: {line}"));
    }
    Ok(())
}
