//! A stage: the real server, agents and swarms as processes in a folder of their own, on free
//! ports, with hands to stop, freeze and kill them. Everything ends when the stage is dropped, also
//! by a panic, which shows the ends of the logs first.

mod binaries;
mod crowd;
mod metrics;
mod operator;
mod orphan;
mod place;
mod postgres;
mod process;
mod server;
mod wait;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tempfile::TempDir;

pub use binaries::Binaries;
pub use crowd::{Crowd, Muster};
pub use metrics::Metrics;
pub use operator::{Operator, tuning};
pub use place::Place;
pub use postgres::Postgres;
pub use process::Process;
pub use server::{Endpoints, Server};
pub use wait::until;

const COMMAND_WITHIN: Duration = Duration::from_secs(30);
const POOL_WITHIN: Duration = Duration::from_secs(10);

/// What the stage is made of.
#[derive(Debug, Default)]
pub struct Plan {
    /// A Postgres that the stage owns and can stop, instead of the server's private one.
    pub own_postgres: bool,
    /// Settings handed to the server, such as `("FLEETBEAT_LOG", "debug")`.
    pub environment: Vec<(String, String)>,
    /// Where the server takes agents; a free port of this host when unset.
    pub lane: Option<SocketAddr>,
}

/// Real processes in a folder of their own.
#[derive(Debug)]
pub struct Stage {
    // Fields are dropped in this order: nothing outlives what it needs.
    agents: BTreeMap<String, Process>,
    pub server: Server,
    postgres: Option<Postgres>,
    binaries: Binaries,
    folder: TempDir,
}

impl Stage {
    /// Starts the server, with its Postgres, and waits until it is ready.
    pub async fn start(plan: Plan) -> Result<Self> {
        let binaries = Binaries::find()?;
        // Postgres may run as another user, who must be able to reach what is below.
        let open = std::fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new()
            .prefix("fleetbeat-")
            .permissions(open)
            .tempdir()?;
        let logs = folder.path().join("logs");
        std::fs::create_dir(&logs)?;
        let mut server = Server::new(binaries.path("fleetbeat-server")?, folder.path(), &logs);
        for (name, value) in &plan.environment {
            server.use_environment(name, value);
        }
        if let Some(lane) = plan.lane {
            server.use_lane(lane);
        }
        let postgres = if plan.own_postgres {
            Some(Postgres::start(folder.path(), &logs).await?)
        } else {
            None
        };
        if let Some(postgres) = &postgres {
            server.use_database(postgres.url());
        }
        let mut stage = Self {
            agents: BTreeMap::new(),
            server,
            postgres,
            binaries,
            folder,
        };
        stage.server.start().await?;
        Ok(stage)
    }

    /// Folder of the whole stage.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    /// Starts an agent process. A second start under the same name is the same agent: it keeps its
    /// state directory.
    pub fn start_agent(&mut self, name: &str, group: &str) -> Result<()> {
        let place = Place::beside(self.server.endpoints()?.lane);
        self.start_agent_at(&place, name, group)
    }

    /// [`Self::start_agent`] elsewhere.
    pub fn start_agent_at(&mut self, place: &Place, name: &str, group: &str) -> Result<()> {
        let mut command = place.command(self.binaries.path("fleetbeat-agent")?);
        command.arg("--server").arg(&place.server);
        if let Some(ca) = &place.ca {
            command.arg("--ca").arg(ca);
        }
        command.arg("--state-dir").arg(self.state_dir(name));
        command.args(["--name", name, "--group", group]);
        let process = Process::start(name, &mut command, &self.logs())?;
        self.agents.insert(name.to_owned(), process);
        Ok(())
    }

    /// Where an agent keeps its identity.
    #[must_use]
    pub fn state_dir(&self, agent: &str) -> PathBuf {
        self.folder.path().join("agents").join(agent)
    }

    /// A started agent's process.
    pub fn agent(&mut self, name: &str) -> Result<&mut Process> {
        self.agents
            .get_mut(name)
            .with_context(|| format!("no agent {name} was started"))
    }

    /// The Postgres that the stage owns.
    pub fn postgres(&mut self) -> Result<&mut Postgres> {
        self.postgres
            .as_mut()
            .context("the server of this stage runs its own Postgres")
    }

    /// What an operator can do.
    pub fn operator(&self) -> Result<Operator> {
        Operator::new(self.server.endpoints()?.operator, &self.server.token_file())
    }

    /// The server's metrics.
    pub async fn metrics(&self) -> Result<Metrics> {
        Metrics::read(self.server.endpoints()?.operator).await
    }

    /// A pool on what the server records.
    pub async fn database(&self) -> Result<PgPool> {
        let own = self.postgres.as_ref().map(Postgres::url);
        let url = own.or_else(|| self.server.endpoints().ok()?.database_url.clone());
        let url = url.context("the server does not say where it records")?;
        let options = PgPoolOptions::new()
            .max_connections(2)
            .acquire_timeout(POOL_WITHIN);
        Ok(options.connect(&url).await?)
    }

    /// Arguments that point the operators' command at this stage.
    pub fn cli_arguments(&self) -> Result<Vec<String>> {
        let operator = self.server.endpoints()?.operator;
        let token = self.server.token_file().display().to_string();
        Ok(vec![
            "--server".into(),
            format!("http://{operator}"),
            "--token-file".into(),
            token,
        ])
    }

    /// Runs the operators' command to its end and yields what it said.
    pub async fn cli(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = tokio::process::Command::new(self.binaries.path("fleetbeat")?);
        command
            .args(self.cli_arguments()?)
            .args(arguments)
            .kill_on_drop(true);
        let ended = tokio::time::timeout(COMMAND_WITHIN, command.output()).await;
        ended
            .with_context(|| format!("`fleetbeat {}` did not end", arguments.join(" ")))?
            .context("cannot run fleetbeat")
    }

    /// Runs the operators' command and reads its JSON.
    pub async fn cli_json(&self, arguments: &[&str]) -> Result<serde_json::Value> {
        let output = self
            .cli(&[&["--output", "json"], arguments].concat())
            .await?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!(
                "`fleetbeat {}` ended with {}: {}",
                arguments.join(" "),
                output.status,
                said.trim()
            );
        }
        serde_json::from_slice(&output.stdout).context("fleetbeat printed no JSON")
    }

    /// The programs under test.
    #[must_use]
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Ends of all logs, for people.
    #[must_use]
    pub fn tails(&self) -> String {
        let logs = std::fs::read_dir(self.logs())
            .into_iter()
            .flatten()
            .flatten();
        let mut logs: Vec<PathBuf> = logs.map(|entry| entry.path()).collect();
        logs.sort();
        let shown = logs.iter().filter_map(|log| {
            let tail = process::tail(log)
                .ok()
                .filter(|tail| !tail.trim().is_empty())?;
            Some(format!("--- end of {}\n{tail}\n", log.display()))
        });
        shown.collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.tails());
        }
    }
}
