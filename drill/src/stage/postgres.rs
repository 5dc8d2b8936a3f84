use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::Signal;
use nix::unistd::{Uid, User, chown};
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};

use super::process::Process;
use super::wait::until;

const START_WITHIN: Duration = Duration::from_secs(30);
const STOP_WITHIN: Duration = Duration::from_secs(15);
const KILL_WITHIN: Duration = Duration::from_secs(5);

/// A Postgres that the stage owns, so that it can be away for as long as a drill wants. It listens
/// on a Unix socket only and does not sync: it dies with the stage.
#[derive(Debug)]
pub struct Postgres {
    binaries: PathBuf,
    owner: Option<User>,
    data: PathBuf,
    socket: PathBuf,
    logs: PathBuf,
    process: Option<Process>,
}

impl Postgres {
    /// Creates a cluster under `folder`, which Postgres's user must be able to reach, and starts it.
    pub async fn start(folder: &Path, logs: &Path) -> Result<Self> {
        let owner = unprivileged()?;
        let data = own_folder(&folder.join("pg"), owner.as_ref())?;
        let socket = own_folder(&folder.join("pgs"), owner.as_ref())?;
        let binaries = binaries()?;
        let mut postgres = Self {
            binaries,
            owner,
            data,
            socket,
            logs: logs.to_owned(),
            process: None,
        };
        postgres.init()?;
        postgres.resume().await?;
        Ok(postgres)
    }

    /// Address for `--database-url`.
    #[must_use]
    pub fn url(&self) -> String {
        format!(
            "postgres:///postgres?host={}&user=postgres",
            self.socket.display()
        )
    }

    /// Stops it as an administrator would (`pg_ctl stop -m fast`).
    pub async fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("Postgres is not running")?;
        process.signal(Signal::SIGINT)?;
        process.ended(STOP_WITHIN).await?;
        Ok(())
    }

    /// Starts it again on the same data, and waits until it answers.
    pub async fn resume(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "Postgres is running already");
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(&self.data)
            .arg("-k")
            .arg(&self.socket);
        for setting in ["listen_addresses=", "fsync=off", "full_page_writes=off"] {
            command.args(["-c", setting]);
        }
        self.process = Some(Process::start("postgres", &mut command, &self.logs)?);
        until("Postgres to answer", START_WITHIN, async || {
            Ok(self.answers().await.then_some(()))
        })
        .await
    }

    async fn answers(&self) -> bool {
        let Ok(mut connection) = PgConnection::connect(&self.url()).await else {
            return false;
        };
        connection.execute("SELECT 1").await.is_ok()
    }

    fn init(&self) -> Result<()> {
        let mut command = self.command("initdb");
        command.args([
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--locale=C.UTF-8",
        ]);
        let made = command
            .args(["--encoding=UTF8", "-D"])
            .arg(&self.data)
            .output();
        let made = made.context("cannot run initdb")?;
        if !made.status.success() {
            bail!(
                "initdb failed: {}",
                String::from_utf8_lossy(&made.stderr).trim()
            );
        }
        Ok(())
    }

    /// A Postgres program that runs as the unprivileged user.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.join(program));
        command.current_dir("/");
        if let Some(owner) = &self.owner {
            command.uid(owner.uid.as_raw()).gid(owner.gid.as_raw());
        }
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An immediate shutdown ends the backends too; a killed postmaster would leave them to notice.
        if let Some(process) = &mut self.process {
            process.end_by(Signal::SIGQUIT, KILL_WITHIN);
        }
    }
}

/// The user that Postgres runs as when this process is root, which Postgres refuses to be.
fn unprivileged() -> Result<Option<User>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    for name in ["fleetbeat", "postgres"] {
        if let Some(user) = User::from_name(name)? {
            return Ok(Some(user));
        }
    }
    bail!("Postgres refuses to run as root: create a user with `useradd --system fleetbeat`")
}

fn own_folder(folder: &Path, owner: Option<&User>) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    if let Some(owner) = owner {
        chown(folder, Some(owner.uid), Some(owner.gid))?;
    }
    Ok(folder.to_owned())
}

/// Folder of the newest installed Postgres, or the one named in `FLEETBEAT_DATABASE_BIN_DIR`.
fn binaries() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("FLEETBEAT_DATABASE_BIN_DIR") {
        return Ok(folder.into());
    }
    let installed = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let numbered = installed.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    let complete =
        numbered.filter(|(_, bin)| bin.join("initdb").is_file() && bin.join("postgres").is_file());
    let (_, newest) = complete.max().context(
        "no Postgres server binaries: install the package postgresql, or name their folder in FLEETBEAT_DATABASE_BIN_DIR",
    )?;
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    async fn connect(postgres: &Postgres) -> Result<PgConnection, sqlx::Error> {
        PgConnection::connect(&postgres.url()).await
    }

    #[tokio::test]
    async fn it_is_away_while_it_is_stopped_and_has_its_data_afterwards() {
        let open = std::fs::Permissions::from_mode(0o755);
        let folder = tempfile::Builder::new()
            .permissions(open)
            .tempdir()
            .unwrap();
        let mut postgres = Postgres::start(folder.path(), folder.path()).await.unwrap();
        connect(&postgres)
            .await
            .unwrap()
            .execute("CREATE TABLE kept ()")
            .await
            .unwrap();
        postgres.stop().await.unwrap();
        assert!(connect(&postgres).await.is_err());
        postgres.resume().await.unwrap();
        connect(&postgres)
            .await
            .unwrap()
            .execute("SELECT FROM kept")
            .await
            .unwrap();
    }
}
