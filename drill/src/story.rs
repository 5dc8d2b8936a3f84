//! The main job as a story on real processes: a fleet connects, one group is retuned live, an agent
//! freezes, another is killed, Postgres restarts, the server restarts, and in the end every beat is
//! accounted for.

mod accounts;
mod cast;
mod crash;
mod events;
mod opening;
mod postgres_restart;
mod report;
mod retune;
mod server_restart;
mod silence;
mod table;
mod voice;

use std::time::Duration;

use anyhow::Result;
use fleetbeat_proto::v1::{Agent, Verdict};

use crate::ledger::Ledger;
use crate::stage::{Crowd, Operator, Stage, until};
use cast::Actor;
use voice::Voice;

pub use report::Report;

/// What the story is played with.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Real agent processes, at least four.
    pub agents: usize,
    /// Simulated agents in one process.
    pub simulated: u32,
}

/// A story in progress. Its processes end when it is dropped.
#[derive(Debug)]
pub struct Story {
    // Dropped first: agents outlive no server.
    crowd: Option<Crowd>,
    stage: Stage,
    operator: Operator,
    ledger: Ledger,
    cast: Vec<Actor>,
    voice: Voice,
    report: Report,
    /// Wall time over which the server was restarted and its agents came back.
    restarted: Option<(i64, i64)>,
}

impl Story {
    /// Starts everything and waits until the whole fleet is online.
    pub async fn open(plan: Plan) -> Result<Self> {
        opening::open(plan).await
    }

    /// Plays the scenes. One that breaks off is noted, and the next one starts.
    pub async fn play(&mut self) {
        let played = retune::play(self).await;
        self.note("the retune", played);
        let played = silence::play(self).await;
        self.note("the scene of the frozen agent", played);
        let played = crash::play(self).await;
        self.note("the scene of the killed agent", played);
        let played = postgres_restart::play(self).await;
        self.note("the restart of Postgres", played);
        let played = server_restart::play(self).await;
        self.note("the restart of the server", played);
    }

    /// Lets the simulated agents leave, settles the accounts and yields the report.
    pub async fn close(mut self) -> Report {
        let played = accounts::play(&mut self).await;
        self.note("the accounting", played);
        if !self.report.unexpected.is_empty() {
            voice::print(&self.stage.tails());
        }
        self.report
    }

    /// How to look around in the fleet, for people.
    pub fn invitation(&self) -> Result<String> {
        let operator = self.stage.server.endpoints()?.operator;
        let token = self.stage.server.token_file();
        let cli = self.stage.binaries().path("fleetbeat")?;
        let cli = cli.display();
        Ok(format!(
            "The fleet stays up until Ctrl-C. Look around from another terminal:\n\n  \
             export FLEETBEAT_SERVER=http://{operator} FLEETBEAT_TOKEN_FILE={}\n  \
             {cli} status\n  {cli} agents list\n  {cli} agents show {}\n  {cli} events --follow\n  \
             {cli} tune set --group {} --interval 1s --timeout 500ms --reason 'trying it'\n  \
             {cli} tune history\n  curl http://{operator}/metrics\n",
            token.display(),
            cast::FROZEN,
            cast::STEADY,
        ))
    }

    fn say(&self, step: &str) {
        self.voice.say(step);
    }

    /// Notes the sentence unless the condition holds.
    fn expect(&mut self, holds: bool, sentence: impl FnOnce() -> String) {
        if !holds {
            let sentence = sentence();
            self.say(&format!("UNEXPECTED: {sentence}"));
            self.report.unexpected.push(sentence);
        }
    }

    fn note(&mut self, scene: &str, played: Result<()>) {
        if let Err(error) = played {
            self.expect(false, || format!("{scene} broke off: {error:#}"));
        }
    }

    /// Waits until the server says that of the agent.
    async fn verdict(&self, agent: &str, verdict: Verdict, within: Duration) -> Result<Agent> {
        until(
            &format!("{agent} to be {}", verdict.as_str_name()),
            within,
            async || {
                let seen = self.operator.agent(agent).await?;
                Ok((seen.verdict() == verdict).then_some(seen))
            },
        )
        .await
    }

    /// How many agents are online.
    async fn online(&self) -> Result<u64> {
        Ok(self
            .operator
            .status()
            .await?
            .verdicts
            .unwrap_or_default()
            .online)
    }
}
