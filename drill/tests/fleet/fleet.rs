//! A fleet on a stage: what the tests do and wait for.

use std::collections::BTreeMap;
use std::time::Duration;

use fleetbeat_drill::ledger::{Ledger, Session};
use fleetbeat_drill::stage::{Operator, Plan, Stage, until};
use fleetbeat_proto::v1::{Agent, CloseReason, Verdict};
use serde_json::Value;
use uuid::Uuid;

/// Long enough for anything that is not measured.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) struct Fleet {
    pub(crate) stage: Stage,
    pub(crate) operator: Operator,
    pub(crate) ledger: Ledger,
}

impl Fleet {
    /// A server with its private Postgres.
    pub(crate) async fn start() -> Self {
        Self::on(Plan::default()).await
    }

    /// A server on a Postgres that the test can stop.
    pub(crate) async fn start_on_own_postgres() -> Self {
        Self::on(Plan {
            own_postgres: true,
            ..Plan::default()
        })
        .await
    }

    async fn on(plan: Plan) -> Self {
        let stage = Stage::start(plan).await.unwrap();
        let operator = stage.operator().unwrap();
        let ledger = Ledger::new(stage.database().await.unwrap());
        Self {
            stage,
            operator,
            ledger,
        }
    }

    /// Changes the tuning as an operator does, waits for the acks, and yields what the command told.
    pub(crate) async fn tune(
        &self,
        selector: &[&str],
        interval: &str,
        misses: &str,
        timeout: &str,
    ) -> Value {
        let values = [
            "--interval",
            interval,
            "--misses",
            misses,
            "--timeout",
            timeout,
        ];
        let reason = ["--reason", "a test wants it"];
        self.stage
            .cli_json(&[&["tune", "set"], selector, &values, &reason].concat())
            .await
            .unwrap()
    }

    pub(crate) async fn all_online(&self, agents: u64, within: Duration) {
        self.operator.all_online(agents, within).await.unwrap();
    }

    pub(crate) async fn verdict(&self, agent: &str, verdict: Verdict, within: Duration) -> Agent {
        until(
            &format!("{agent} to be {}", verdict.as_str_name()),
            within,
            async || {
                let Ok(seen) = self.operator.agent(agent).await else {
                    return Ok(None);
                };
                Ok((seen.verdict() == verdict).then_some(seen))
            },
        )
        .await
        .unwrap()
    }

    /// When the agent was given the verdict after that time, by the server's wall clock.
    pub(crate) async fn judged_at(&self, agent: &str, verdict: Verdict, from_us: i64) -> i64 {
        until(
            &format!("{} of {agent} to be recorded", verdict.as_str_name()),
            SOON,
            async || {
                let events = self.operator.events(Some(agent), None).await?;
                let wanted = events.iter().find(|event| {
                    event.kind == "verdict_changed"
                        && event.verdict() == verdict
                        && event.at_unix_us >= from_us
                });
                Ok(wanted.map(|event| event.at_unix_us))
            },
        )
        .await
        .unwrap()
    }

    /// Waits until the agent has that many ended sessions, and yields all of its sessions.
    pub(crate) async fn ended_sessions(&self, agent: &Agent, ended: usize) -> Vec<Session> {
        let id = agent_id(agent);
        until(
            &format!("{ended} ended sessions of {}", agent.name),
            SOON,
            async || {
                let sessions = self.ledger.sessions(id).await?;
                let count = sessions
                    .iter()
                    .filter(|session| session.close_reason.is_some())
                    .count();
                Ok((count >= ended).then_some(sessions))
            },
        )
        .await
        .unwrap()
    }

    /// Session of each live agent.
    pub(crate) async fn live_sessions(&self) -> BTreeMap<String, String> {
        let agents = self.operator.agents(None).await.unwrap().into_iter();
        agents
            .filter_map(|agent| Some((agent.agent_id, agent.session_id?)))
            .collect()
    }

    /// Names of agents that were ever called that.
    pub(crate) async fn ever_judged(&self, verdict: Verdict) -> Vec<String> {
        self.ledger
            .judged(verdict as i16, 0, i64::MAX / 2)
            .await
            .unwrap()
    }

    /// Waits until the recorder has nothing to write.
    pub(crate) async fn written(&self, within: Duration) {
        until(
            "the recorder to have written everything",
            within,
            async || {
                let recorder = self.operator.status().await?.recorder.unwrap_or_default();
                Ok((recorder.backlog_rows == 0).then_some(()))
            },
        )
        .await
        .unwrap();
    }
}

pub(crate) fn agent_id(agent: &Agent) -> Uuid {
    agent.agent_id.parse().unwrap()
}

pub(crate) fn reasons(sessions: &[Session]) -> Vec<CloseReason> {
    let ended = sessions.iter().filter_map(|session| session.close_reason);
    ended
        .map(|reason| CloseReason::try_from(i32::from(reason)).unwrap())
        .collect()
}

/// Milliseconds between two times of the server.
pub(crate) fn ms_between(from_us: i64, to_us: i64) -> i64 {
    (to_us - from_us) / 1_000
}
