use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::process::Process;
use super::{Place, Stage};
use crate::swarm::{MOST_PER_CONNECTION, Report};

const LEAVE_WITHIN: Duration = Duration::from_secs(40);

/// Simulated agents in a process of their own. Killed when dropped.
#[derive(Debug)]
pub struct Crowd {
    process: Process,
    report: PathBuf,
}

impl Stage {
    /// Starts a swarm whose agents are named `<prefix>-00000` and so on, dealt to the groups in turn.
    pub fn start_crowd(&self, prefix: &str, agents: u32, groups: &[&str]) -> Result<Crowd> {
        let place = Place::beside(self.server.endpoints()?.lane);
        self.start_crowd_at(&place, prefix, agents, groups, MOST_PER_CONNECTION)
    }

    /// [`Self::start_crowd`] elsewhere, with so many agents on each connection.
    pub fn start_crowd_at(
        &self,
        place: &Place,
        prefix: &str,
        agents: u32,
        groups: &[&str],
        per_connection: u32,
    ) -> Result<Crowd> {
        let report = self.folder().join(format!("{prefix}.json"));
        let mut command = place.command(self.binaries().path("fleetbeat-drill")?);
        command.args(["swarm", "--server", &place.server]);
        command.args(["--groups", &groups.join(","), "--name-prefix", prefix]);
        command.args(["--agents", &agents.to_string()]);
        command.args(["--per-connection", &per_connection.to_string()]);
        command.arg("--report").arg(&report);
        let process = Process::start(&format!("swarm-{prefix}"), &mut command, &self.logs())?;
        Ok(Crowd { process, report })
    }
}

impl Crowd {
    /// Its process, to freeze it or to measure it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Lets every agent say Goodbye and yields what each did.
    pub async fn leave(mut self) -> Result<Report> {
        self.process.terminate(LEAVE_WITHIN).await?;
        let json = std::fs::read(&self.report);
        let json = json.with_context(|| format!("{} left no report", self.process.name()))?;
        serde_json::from_slice(&json).context("the swarm's report cannot be read")
    }
}
