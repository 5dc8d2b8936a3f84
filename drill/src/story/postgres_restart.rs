use std::time::Duration;

use anyhow::{Context, Result};
use fleetbeat_proto::v1::Verdict;
use fleetbeat_proto::v1::recorder_status::State;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uuid::Uuid;

use super::Story;
use super::cast::{RESTARTED, STEADY};
use crate::stage::until;

const BACK_WITHIN: Duration = Duration::from_mins(1);
const LEFT_WITHIN: Duration = Duration::from_secs(10);

/// Postgres is shut down and comes back by the server's care; an agent leaves and returns meanwhile.
pub(super) async fn play(story: &mut Story) -> Result<()> {
    let agent = story.operator.agent(RESTARTED).await?;
    let left = agent
        .session_id
        .context("the agent to restart has no session")?;
    let before = story.stage.server.postgres_pid()?;
    story.say("Shutting Postgres down");
    kill(Pid::from_raw(i32::try_from(before)?), Signal::SIGINT)?;
    story.say(&format!(
        "{RESTARTED} says Goodbye and is started again meanwhile"
    ));
    story.stage.agent(RESTARTED)?.terminate(LEFT_WITHIN).await?;
    story.stage.start_agent(RESTARTED, STEADY)?;
    let back = story
        .verdict(RESTARTED, Verdict::Online, BACK_WITHIN)
        .await?;
    let opened = back
        .session_id
        .context("the restarted agent has no session")?;
    until(
        "Postgres to be back and written to",
        BACK_WITHIN,
        async || {
            let again = story
                .stage
                .server
                .postgres_pid()
                .is_ok_and(|pid| pid != before);
            let recorder = story.operator.status().await?.recorder.unwrap_or_default();
            let written = recorder.state() == State::Writing && recorder.backlog_rows == 0;
            let answers = story.ledger.duplicates().await.is_ok();
            Ok((again && written && answers).then_some(()))
        },
    )
    .await?;
    count(story, left.parse()?, opened.parse()?).await
}

async fn count(story: &mut Story, left: Uuid, opened: Uuid) -> Result<()> {
    let due = [(left, "session_closed"), (opened, "session_opened")];
    let recorded = until(
        "what happened meanwhile to be recorded",
        LEFT_WITHIN,
        async || {
            let lost = lost(story, &due).await?;
            Ok((lost == 0).then_some(()))
        },
    );
    // What is still missing then is lost, and counted below.
    recorded.await.ok();
    let lost = lost(story, &due).await?;
    let duplicates = story.ledger.duplicates().await?;
    story.report.postgres_restart.events_lost = Some(lost);
    story.report.postgres_restart.duplicates = Some(duplicates);
    story.say(&format!(
        "Postgres is back: {lost} events lost, {duplicates} recorded twice"
    ));
    story.expect(lost == 0, || {
        format!("{lost} events were lost while Postgres was away")
    });
    story.expect(duplicates == 0, || {
        format!("{duplicates} records stand twice after Postgres was away")
    });
    Ok(())
}

async fn lost(story: &Story, due: &[(Uuid, &str)]) -> Result<u64> {
    let mut lost = 0;
    for (session, kind) in due {
        lost += u64::from(story.ledger.events_of_session(*session, kind).await? == 0);
    }
    Ok(lost)
}
