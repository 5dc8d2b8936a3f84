use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use serde::Deserialize;

use super::orphan;
use super::process::{Process, tail};
use super::wait::until;

/// A first start creates a Postgres cluster and migrates it.
const START_WITHIN: Duration = Duration::from_mins(1);
const DRAIN_WITHIN: Duration = Duration::from_secs(45);
/// Port 0 lets the system choose; a restart asks for the port that it chose.
const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// What a ready server writes into its data directory.
#[derive(Debug, Clone, Deserialize)]
pub struct Endpoints {
    pub pid: u32,
    /// Where agents connect.
    pub lane: SocketAddr,
    /// Where operators connect.
    pub operator: SocketAddr,
    /// Set when the server runs a private Postgres; another one's address may hold a password.
    pub database_url: Option<String>,
    /// Set when the server runs a private Postgres.
    pub postgres_pid: Option<u32>,
}

/// The server under test. It keeps its data directory and ports over restarts.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    data: PathBuf,
    logs: PathBuf,
    database_url: Option<String>,
    environment: Vec<(String, String)>,
    /// Where it takes agents at its first start.
    lane: SocketAddr,
    endpoints: Option<Endpoints>,
    process: Option<Process>,
}

impl Server {
    pub(super) fn new(program: PathBuf, folder: &Path, logs: &Path) -> Self {
        Self {
            program,
            data: folder.join("server"),
            logs: logs.to_owned(),
            database_url: None,
            environment: Vec::new(),
            lane: ANY_PORT,
            endpoints: None,
            process: None,
        }
    }

    pub(super) fn use_database(&mut self, url: String) {
        self.database_url = Some(url);
    }

    pub(super) fn use_environment(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    pub(super) fn use_lane(&mut self, lane: SocketAddr) {
        self.lane = lane;
    }

    /// Starts the process and waits until it is ready, on the ports it had before, if any.
    pub async fn start(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "the server runs already");
        let (lane, operator) = match &self.endpoints {
            Some(before) => (before.lane, before.operator),
            None => (self.lane, ANY_PORT),
        };
        let mut command = Command::new(&self.program);
        command.arg("--data-dir").arg(&self.data);
        command.arg("--lane-listen").arg(lane.to_string());
        command.arg("--operator-listen").arg(operator.to_string());
        if let Some(url) = &self.database_url {
            command.args(["--database-url", url]);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let process = self
            .process
            .insert(Process::start("server", &mut command, &self.logs)?);
        let file = self.data.join("endpoints.json");
        let log = process.log().to_owned();
        let ready = until("the server to be ready", START_WITHIN, async || {
            if let Some(status) = process.status()? {
                bail!("the server ended with {status}");
            }
            Ok(read_endpoints(&file)?.filter(|endpoints| endpoints.pid == process.pid()))
        });
        let ready = ready.await.with_context(|| tail(&log).unwrap_or_default());
        self.endpoints = Some(ready?);
        Ok(())
    }

    /// Addresses of the server as it was last ready.
    pub fn endpoints(&self) -> Result<&Endpoints> {
        self.endpoints
            .as_ref()
            .context("the server was never ready")
    }

    /// The operator token that the server made at its first start.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.data.join("operator.token")
    }

    /// The postmaster of its private Postgres, as it is noted at the moment.
    pub fn postgres_pid(&self) -> Result<u32> {
        orphan::noted(&self.data)
            .next()
            .context("the server has no private Postgres that runs")
    }

    /// What the server said so far.
    pub fn log(&self) -> Result<String> {
        let log = self.logs.join("server.log");
        std::fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))
    }

    /// The running process.
    pub fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("the server is not running")
    }

    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        self.process()?.signal(signal)
    }

    /// `kill -9`. Its private Postgres, if any, lives on.
    pub fn kill(&mut self) -> Result<()> {
        self.process
            .take()
            .context("the server is not running")?
            .kill()
    }

    /// SIGTERM: the server says BYE to its agents and ends. Yields its exit status.
    pub async fn drain(&mut self) -> Result<ExitStatus> {
        let mut process = self.process.take().context("the server is not running")?;
        process.terminate(DRAIN_WITHIN).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process = None;
        let known = self
            .endpoints
            .as_ref()
            .and_then(|endpoints| endpoints.postgres_pid);
        orphan::end_postgres(&self.data, known);
    }
}

/// What the file holds, once it is there. The server replaces it atomically.
fn read_endpoints(file: &Path) -> Result<Option<Endpoints>> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(Some(
            serde_json::from_slice(&bytes).context("endpoints.json is not as agreed")?,
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}
