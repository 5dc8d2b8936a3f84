use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::process::Process;
use super::{Place, Stage};
use crate::swarm::{MOST_PER_CONNECTION, Report, Timings};

const LEAVE_WITHIN: Duration = Duration::from_secs(40);

/// Simulated agents in a process of their own. Killed when dropped.
#[derive(Debug)]
pub struct Crowd {
    process: Process,
    report: PathBuf,
    timings: PathBuf,
}

/// Who a crowd is.
#[derive(Debug, Clone)]
pub struct Muster<'a> {
    /// Agents are named `<prefix>-00000` and so on.
    pub prefix: &'a str,
    pub agents: u32,
    /// Agents are dealt to these in turn.
    pub groups: &'a [&'a str],
    pub per_connection: u32,
    /// How many of them start in a second; as the swarm is used to when unset.
    pub per_second: Option<u32>,
    /// Keep when tunings arrived and how long round trips took.
    pub timed: bool,
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
        let muster = Muster {
            prefix,
            agents,
            groups,
            per_connection,
            per_second: None,
            timed: false,
        };
        self.muster(place, &muster)
    }

    /// Starts exactly that swarm.
    pub fn muster(&self, place: &Place, muster: &Muster<'_>) -> Result<Crowd> {
        let prefix = muster.prefix;
        let report = self.folder().join(format!("{prefix}.json"));
        let timings = self.folder().join(format!("{prefix}-timings.json"));
        let mut command = place.command(self.binaries().path("fleetbeat-drill")?);
        command.args(["swarm", "--server", &place.server]);
        command.args(["--groups", &muster.groups.join(",")]);
        command.args(["--name-prefix", prefix]);
        command.args(["--agents", &muster.agents.to_string()]);
        command.args(["--per-connection", &muster.per_connection.to_string()]);
        command.arg("--report").arg(&report);
        if let Some(per_second) = muster.per_second {
            command.args(["--per-second", &per_second.to_string()]);
        }
        if muster.timed {
            command.arg("--timings").arg(&timings);
        }
        let process = Process::start(&format!("swarm-{prefix}"), &mut command, &self.logs())?;
        Ok(Crowd {
            process,
            report,
            timings,
        })
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
        self.read(&self.report)
    }

    /// [`Self::leave`] of a timed crowd, with its times.
    pub async fn leave_timed(mut self) -> Result<(Report, Timings)> {
        self.process.terminate(LEAVE_WITHIN).await?;
        Ok((self.read(&self.report)?, self.read(&self.timings)?))
    }

    fn read<T: serde::de::DeserializeOwned>(&self, file: &Path) -> Result<T> {
        let json = std::fs::read(file);
        let json = json.with_context(|| format!("{} left no report", self.process.name()))?;
        serde_json::from_slice(&json).context("the swarm's report cannot be read")
    }
}
