use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Stage;
use super::process::Process;
use crate::swarm::Report;

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
        let lane = self.server.endpoints()?.lane;
        let report = self.folder().join(format!("{prefix}.json"));
        let mut command = Command::new(self.binaries().path("fleetbeat-drill")?);
        command.args([
            "swarm",
            "--server",
            &format!("http://{lane}"),
            "--groups",
            &groups.join(","),
        ]);
        command.args(["--agents", &agents.to_string(), "--name-prefix", prefix]);
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
