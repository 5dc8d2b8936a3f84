//! One postmaster process: started by us, or found.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::pid_file::{PidFile, is_postmaster};
use super::{Binaries, Error, NAME, Place, io, log, socket};

/// Crash recovery may take minutes; longer means that something else is wrong.
const START: Duration = Duration::from_mins(10);
/// What a fast shutdown gets before an immediate one, and an immediate one before the end.
const STOP: [(Signal, Duration); 3] = [
    (Signal::SIGINT, Duration::from_mins(1)),
    (Signal::SIGQUIT, Duration::from_secs(10)),
    (Signal::SIGKILL, Duration::from_secs(10)),
];
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often somebody else's child is looked at: nothing tells us of its end.
const LOOK_AT_ADOPTED: Duration = Duration::from_millis(250);

/// No network, modest memory, times in UTC, messages in English.
const SETTINGS: [&str; 10] = [
    "listen_addresses=",
    "port=5432",
    "unix_socket_permissions=0700",
    "max_connections=50",
    "shared_buffers=128MB",
    "max_wal_size=512MB",
    "jit=off",
    "timezone=UTC",
    "log_timezone=UTC",
    "lc_messages=C",
];

/// How to start it, again and again.
#[derive(Debug)]
pub(super) struct Launch {
    pub binaries: Binaries,
    pub settings: Vec<String>,
    pub place: Place,
    /// Breaks off a start, so that no postmaster is left behind that nobody waits for.
    pub asked: CancellationToken,
}

/// A postmaster that answers.
#[derive(Debug)]
pub(super) enum Postmaster {
    Child {
        child: Child,
        pid: u32,
    },
    /// Left behind by an earlier run of the server.
    Adopted {
        pid: u32,
    },
}

impl Launch {
    pub(super) fn url(&self) -> String {
        socket::url(&self.place.socket_dir, NAME, NAME)
    }

    /// Adopts the postmaster of this cluster if one runs and can be reached, else starts one.
    pub(super) async fn adopt_or_start(&self) -> Result<Postmaster, Error> {
        let cluster = &self.place.cluster;
        let found = PidFile::read(cluster).filter(|file| is_postmaster(file.pid, cluster));
        let Some(found) = found else {
            return self.start().await;
        };
        let pid = u32::try_from(found.pid).unwrap_or_default();
        let mut orphan = Postmaster::Adopted { pid };
        if found.socket_dir != self.place.socket_dir || !socket::exists(&found.socket_dir) {
            tracing::warn!(
                postgres.pid = pid,
                "Stopping a private Postgres that can't be reached"
            );
            orphan.stop(cluster).await;
            return self.start().await;
        }
        if let Err(error) = self.answers(&mut orphan).await {
            if self.asked.is_cancelled() || is_postmaster(found.pid, cluster) {
                return Err(error);
            }
            // It was on its way out.
            return self.start().await;
        }
        tracing::info!(
            postgres.pid = pid,
            "Adopted the private Postgres of an earlier run"
        );
        Ok(orphan)
    }

    /// Starts it and waits until it answers.
    pub(super) async fn start(&self) -> Result<Postmaster, Error> {
        let cluster = &self.place.cluster;
        PidFile::remove(cluster).map_err(io("clear the pid file in", cluster))?;
        let log = log::open(&self.place.log).map_err(io("open", &self.place.log))?;
        let mut command = command(&self.place, &self.binaries, "postgres");
        command.arg("-D").arg(cluster);
        let sockets = format!("unix_socket_directories={}", quoted(&self.place.socket_dir));
        let settings = SETTINGS.iter().map(|setting| (*setting).to_owned());
        for setting in settings
            .chain([sockets])
            .chain(self.settings.iter().cloned())
        {
            command.arg("-c").arg(setting);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        // A Ctrl-C in a terminal is for the server, which stops its Postgres last.
        command.process_group(0);
        let child = command
            .spawn()
            .map_err(io("run postgres in", &self.binaries.directory))?;
        let pid = child.id().unwrap_or_default();
        let mut postmaster = Postmaster::Child { child, pid };
        self.answers(&mut postmaster).await?;
        tracing::info!(postgres.pid = pid, "Started the private Postgres");
        Ok(postmaster)
    }

    /// Waits until the postmaster's own pid file says that it takes connections.
    async fn answers(&self, postmaster: &mut Postmaster) -> Result<(), Error> {
        let not_started = |why| Error::NotStarted {
            why,
            log: self.place.log.clone(),
        };
        let cluster = &self.place.cluster;
        let began = Instant::now();
        let mut said = began;
        loop {
            let own = PidFile::read(cluster)
                .filter(|file| u32::try_from(file.pid) == Ok(postmaster.pid()));
            if own.is_some_and(|file| file.ready) {
                return Ok(());
            }
            if let Ok(how) = timeout(LOOK_EVERY, postmaster.ended(cluster)).await {
                return Err(not_started(format!(
                    "{how}: {}",
                    log::tail(&self.place.log)
                )));
            }
            if began.elapsed() > START || self.asked.is_cancelled() {
                postmaster.stop(cluster).await;
                return Err(not_started(format!(
                    "it did not answer in {:?}",
                    began.elapsed()
                )));
            }
            if said.elapsed() > Duration::from_secs(10) {
                said = Instant::now();
                tracing::info!(
                    postgres.pid = postmaster.pid(),
                    "Waiting for the private Postgres to recover"
                );
            }
        }
    }
}

impl Postmaster {
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Child { pid, .. } | Self::Adopted { pid } => *pid,
        }
    }

    /// The process to signal; `None` once its end was collected and the pid may be another's.
    fn living(&self) -> Option<Pid> {
        let pid = match self {
            Self::Child { child, .. } => child.id()?,
            Self::Adopted { pid } => *pid,
        };
        i32::try_from(pid)
            .ok()
            .filter(|pid| *pid > 1)
            .map(Pid::from_raw)
    }

    /// Returns when the process has ended, with how it did. May be dropped and called again.
    pub(super) async fn ended(&mut self, cluster: &Path) -> String {
        match self {
            Self::Child { child, .. } => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            Self::Adopted { pid } => {
                let pid = i32::try_from(*pid).unwrap_or_default();
                while is_postmaster(pid, cluster) {
                    sleep(LOOK_AT_ADOPTED).await;
                }
                "it is gone".to_owned()
            }
        }
    }

    /// Stops it, more firmly when it takes too long, and waits for its end.
    pub(super) async fn stop(&mut self, cluster: &Path) {
        for (signal, patience) in STOP {
            let sent = self.living().map(|pid| kill(pid, signal));
            if let Some(Err(errno)) = sent {
                tracing::debug!(error = %errno, "The private Postgres is gone already");
            }
            if timeout(patience, self.ended(cluster)).await.is_ok() {
                return;
            }
            tracing::warn!(postgres.pid = self.pid(), %signal, "The private Postgres does not stop");
        }
    }
}

/// A program of the binaries, run as the account, with nothing inherited that could lead it astray.
pub(super) fn command(place: &Place, binaries: &Binaries, program: &str) -> Command {
    let mut command = Command::new(binaries.directory.join(program));
    command.env_clear().env("LC_ALL", "C").env("TZ", "UTC");
    for name in ["PATH", "LD_LIBRARY_PATH"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.current_dir(place.cluster.parent().unwrap_or(&place.cluster));
    place.account.run_as(&mut command);
    command
}

/// The setting is a list: a directory with a comma or a quote in it needs quotes.
fn quoted(directory: &Path) -> String {
    format!(
        "\"{}\"",
        directory.display().to_string().replace('"', "\"\"")
    )
}
