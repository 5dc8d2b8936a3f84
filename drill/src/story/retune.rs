use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Story;
use super::cast::RETUNED;

/// An operator retunes one group from the command line, on its live sessions.
pub(super) async fn play(story: &mut Story) -> Result<()> {
    let before = sessions(story).await?;
    story.say(&format!(
        "Retuning group {RETUNED} live: T 2s → 500ms, N 3 → 6, W 1s → 500ms"
    ));
    let outcome = story
        .stage
        .cli_json(&[
            "tune",
            "set",
            "--group",
            RETUNED,
            "--interval",
            "500ms",
            "--misses",
            "6",
            "--timeout",
            "500ms",
            "--reason",
            "the demonstration looks closer at this group",
        ])
        .await?;
    let after = sessions(story).await?;
    let moved = before
        .iter()
        .filter(|(agent, session)| after.get(*agent) != Some(session))
        .count();
    read(story, &outcome, u64::try_from(moved)?)?;
    judge(story, u64::try_from(before.len())?);
    Ok(())
}

/// Live sessions of the group's agents.
async fn sessions(story: &Story) -> Result<BTreeMap<String, String>> {
    let agents = story.operator.agents(None).await?.into_iter();
    let group = agents.filter(|agent| agent.group == RETUNED);
    Ok(group
        .filter_map(|agent| Some((agent.agent_id, agent.session_id?)))
        .collect())
}

fn read(story: &mut Story, outcome: &Value, reconnects: u64) -> Result<()> {
    let progress = outcome
        .get("progress")
        .context("tune set told no progress")?;
    let number = |name: &str| progress.get(name).and_then(Value::as_u64);
    let ms = |name: &str| Some(progress.get(name)?.as_f64()? / 1e6);
    let retune = &mut story.report.retune;
    retune.revision = outcome.get("revision").and_then(Value::as_u64);
    retune.targets = number("targets");
    retune.acked = number("applied");
    retune.reconnects = Some(reconnects);
    retune.ack_ms.p50 = ms("ack_p50_ns");
    retune.ack_ms.p99 = ms("ack_p99_ns");
    Ok(())
}

fn judge(story: &mut Story, live: u64) {
    let retune = &story.report.retune;
    let (targets, acked, reconnects) = (retune.targets, retune.acked, retune.reconnects);
    let shown = |count: Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
    let said = format!(
        "Revision {} went to {} agents, {} acknowledged it, {} reconnected",
        shown(retune.revision),
        shown(targets),
        shown(acked),
        shown(reconnects),
    );
    story.say(&said);
    story.expect(targets == Some(live), || {
        format!(
            "the retune went to {} agents, but {live} of the group were live",
            shown(targets)
        )
    });
    story.expect(acked == targets, || {
        format!(
            "{} of {} agents acknowledged the retune",
            shown(acked),
            shown(targets)
        )
    });
    story.expect(reconnects == Some(0), || {
        format!("the retune made {} agents reconnect", shown(reconnects))
    });
}
