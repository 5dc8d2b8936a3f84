use std::time::Duration;

use anyhow::Result;

use super::cast::{GROUPS, cast};
use super::report::Report;
use super::voice::Voice;
use super::{Plan, Story};
use crate::ledger::Ledger;
use crate::stage::{self, Stage, until};

const CONNECTED_WITHIN: Duration = Duration::from_mins(1);

/// Raises the stage and waits until the whole fleet is online.
pub(super) async fn open(plan: Plan) -> Result<Story> {
    let voice = Voice::new();
    voice.say("Starting the server with a Postgres of its own");
    let stage = Stage::start(stage::Plan::default()).await?;
    let endpoints = stage.server.endpoints()?;
    let (lane, operator) = (endpoints.lane, endpoints.operator);
    voice.say(&format!(
        "The server is ready: agents at {lane}, operators at {operator}"
    ));
    let mut story = Story {
        crowd: None,
        operator: stage.operator()?,
        ledger: Ledger::new(stage.database().await?),
        stage,
        cast: cast(plan.agents),
        voice,
        report: Report::default(),
        restarted: None,
    };
    let gathered = async {
        tune_fleet(&mut story).await?;
        gather(&mut story, plan).await
    };
    match gathered.await {
        Ok(()) => Ok(story),
        Err(error) => Err(error.context(story.stage.tails())),
    }
}

async fn tune_fleet(story: &mut Story) -> Result<()> {
    story.say("Tuning the fleet: T 2s, N 3, W 1s, so that silence is found within 7s");
    let outcome = story.stage.cli_json(&[
        "tune",
        "set",
        "--fleet",
        "--interval",
        "2s",
        "--misses",
        "3",
        "--timeout",
        "1s",
        "--reason",
        "a pace that suits a demonstration",
    ]);
    outcome.await?;
    Ok(())
}

async fn gather(story: &mut Story, plan: Plan) -> Result<()> {
    let cast = story.cast.clone();
    story.say(&format!(
        "Starting {} agents and {} simulated ones in two groups",
        cast.len(),
        plan.simulated
    ));
    for actor in &cast {
        story.stage.start_agent(&actor.name, actor.group)?;
    }
    story.crowd = Some(story.stage.start_crowd("sim", plan.simulated, &GROUPS)?);
    let expected = u64::try_from(cast.len())? + u64::from(plan.simulated);
    story.report.agents.expected = expected;
    let gathered = until("the fleet to be online", CONNECTED_WITHIN, async || {
        Ok((story.online().await? >= expected).then_some(()))
    });
    let gathered = gathered.await;
    let connected = story.operator.status().await?.sessions;
    story.report.agents.connected = Some(connected);
    story.say(&format!("{connected} of {expected} agents are connected"));
    story.note("the gathering of the fleet", gathered);
    Ok(())
}
