//! A private Postgres in the server's data directory, for a server that was given no other.
//!
//! It has no network port, only a socket in a directory that nobody else can enter. It survives a
//! server that is killed and is adopted by the next one through its pid file; nothing here asks the
//! kernel to kill it with its parent, because that follows the spawning thread and not the process.

mod account;
mod binaries;
mod cluster;
mod log;
mod pid_file;
mod postmaster;
mod socket;
mod supervisor;

use std::fs::File;
use std::path::{Path, PathBuf};

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use account::Account;
pub use binaries::{Binaries, Search};

/// Name of the only role and of the database.
const NAME: &str = "fleetbeat";

/// Where and how to run it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's data directory; `postgres/` inside it is ours.
    pub data_dir: PathBuf,
    /// Where to look for `initdb` and `postgres`.
    pub search: Search,
    /// Settings beyond the built-in ones, as `name=value`.
    pub settings: Vec<String>,
    /// Ends a start that is under way, and later the running Postgres.
    pub stop: CancellationToken,
}

/// Why there is no private Postgres, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "found no Postgres binaries (initdb, postgres) in {}; install them (Debian: apt install \
         postgresql), name their directory in `database.bin_dir`, or set `database.url` to use \
         another Postgres",
        list(.searched)
    )]
    NoBinaries { searched: Vec<PathBuf> },
    #[error("{} can't be run: {why}", .program.display())]
    UnusableBinary { program: PathBuf, why: String },
    #[error(
        "the data in {} belong to Postgres {data}, but the binaries found are of {found}; install \
         Postgres {data} or name its directory in `database.bin_dir`, or move the data over with \
         pg_upgrade",
        .cluster.display()
    )]
    OtherVersion {
        cluster: PathBuf,
        data: u32,
        found: String,
    },
    #[error(
        "Postgres refuses to run as root and there is neither a user `fleetbeat` nor `postgres`; \
         create one: useradd --system --no-create-home --shell /usr/sbin/nologin fleetbeat"
    )]
    NoAccount,
    #[error(
        "{} belongs to uid {owner}, but Postgres would run as {account}; hand it over: \
         chown -R {account} {}",
        .path.display(),
        .path.display()
    )]
    OtherOwner {
        path: PathBuf,
        owner: u32,
        account: String,
    },
    #[error(
        "user {account}, which Postgres runs as, can't enter {}; choose another `data_dir` (such \
         as /var/lib/fleetbeat-server) or open the way: chmod o+x {}",
        .path.display(),
        .path.display()
    )]
    NoWay { path: PathBuf, account: String },
    #[error("another fleetbeat-server uses {}; stop it or choose another `data_dir`", .0.display())]
    InUse(PathBuf),
    #[error("found no directory for the socket: {why}; choose a `data_dir` whose path is shorter")]
    NoSocketDirectory { why: String },
    #[error("{} is no Postgres cluster; move it away or choose another `data_dir`", .0.display())]
    NotACluster(PathBuf),
    #[error("initdb failed: {0}")]
    Init(String),
    #[error("Postgres did not start: {why}; its log is {}", .log.display())]
    NotStarted { why: String, log: PathBuf },
    #[error("could not {doing} {}", .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// How the private Postgres is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Running {
        pid: u32,
    },
    /// It died and is being started again.
    Down {
        why: String,
    },
    Stopped,
}

/// A running private Postgres. Dropping it asks for its end, [`Private::stop`] waits for it too.
#[derive(Debug)]
pub struct Private {
    url: String,
    state: watch::Receiver<State>,
    asked: CancellationToken,
    _ask_on_drop: DropGuard,
}

impl Private {
    /// Starts it, or adopts the one that an earlier run of the server left behind, and returns when
    /// it answers. From then on it is started again whenever it dies. `tracker` owns the task.
    ///
    /// The first start makes the cluster, which takes a second or two.
    ///
    /// # Errors
    /// Every error says what to do.
    pub async fn start(options: &Options, tracker: &TaskTracker) -> Result<Self, Error> {
        let place = Place::prepare(&options.data_dir)?;
        let binaries = cluster::ready(&place, &options.search).await?;
        let asked = options.stop.child_token();
        let settings = options.settings.clone();
        let launch = postmaster::Launch {
            binaries,
            settings,
            place,
            asked: asked.clone(),
        };
        let running = launch.adopt_or_start().await?;
        let url = launch.url();
        let (tell, state) = watch::channel(State::Running { pid: running.pid() });
        tracker.spawn(supervisor::run(launch, running, tell));
        Ok(Self {
            url,
            state,
            asked: asked.clone(),
            _ask_on_drop: asked.drop_guard(),
        })
    }

    /// URL of the database, for [`crate::store::Options`]. It stays the same over restarts.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Process id of the postmaster; `None` while it is down.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &*self.state.borrow() {
            State::Running { pid } => Some(*pid),
            State::Down { .. } | State::Stopped => None,
        }
    }

    /// Follows how it is.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Stops it as `pg_ctl stop -m fast` does and waits until no process of it is left.
    pub async fn stop(self) {
        self.asked.cancel();
        let mut state = self.state.clone();
        // An error means that the supervising task is gone, and with it whoever could stop it.
        let _ = state.wait_for(|state| *state == State::Stopped).await;
    }
}

/// The directories of one private Postgres, ready for the user that runs it.
#[derive(Debug)]
struct Place {
    account: Account,
    cluster: PathBuf,
    partial: PathBuf,
    log: PathBuf,
    socket_dir: PathBuf,
    /// Held for as long as the place is used; the kernel lets go of it when the process ends.
    _lock: File,
}

impl Place {
    fn prepare(data_dir: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(data_dir).map_err(io("make the directory", data_dir))?;
        let data_dir = data_dir.canonicalize().map_err(io("resolve", data_dir))?;
        let home = data_dir.join("postgres");
        let account = Account::choose(&home)?;
        account.check_way(&data_dir)?;
        account.own_directory(&home)?;
        let lock = File::open(&home).map_err(io("open", &home))?;
        if lock.try_lock().is_err() {
            return Err(Error::InUse(data_dir));
        }
        let socket_dir = socket::directory(&home, &account)?;
        Ok(Self {
            account,
            cluster: home.join("data"),
            partial: home.join("data.partial"),
            log: home.join("postgres.log"),
            socket_dir,
            _lock: lock,
        })
    }
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        doing,
        path,
        source,
    }
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}
