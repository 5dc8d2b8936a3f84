//! A throw-away private Postgres for one test.

use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fleetbeat_server::postgres::{Options, Private, Search};
use fleetbeat_server::store::{self, Store};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

/// A Postgres that is gone when this is dropped, with all of its processes.
pub(crate) struct Database {
    pub(crate) private: Option<Private>,
    pub(crate) dir: TempDir,
    pub(crate) tracker: TaskTracker,
    pid: i32,
}

impl Database {
    /// As the first start makes it.
    pub(crate) async fn fresh() -> Self {
        Self::start_in(directory()).await
    }

    /// With the schema of this version, and no partitions. Copied from a cluster that the first such
    /// test has made: initdb takes longer than most tests.
    pub(crate) async fn start() -> Self {
        let dir = directory();
        let template = Box::pin(template()).await;
        copy(&template, &dir.path().join("postgres"));
        Self::start_in(dir).await
    }

    pub(crate) async fn with_schema() -> (Self, Store) {
        let database = Self::start().await;
        let store = database.store();
        (database, store)
    }

    async fn start_in(dir: TempDir) -> Self {
        let tracker = TaskTracker::new();
        let private = Private::start(&options(dir.path()), &tracker)
            .await
            .unwrap();
        let pid = i32::try_from(private.pid().unwrap()).unwrap();
        Self {
            private: Some(private),
            dir,
            tracker,
            pid,
        }
    }

    pub(crate) fn url(&self) -> &str {
        self.private.as_ref().unwrap().url()
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&store::Options::new(self.url())).unwrap()
    }

    /// Runs statements on a connection of their own.
    pub(crate) async fn sql(&self, statements: &'static str) {
        use sqlx::{Connection as _, Executor as _};
        let mut conn = sqlx::PgConnection::connect(self.url()).await.unwrap();
        conn.execute(statements).await.unwrap();
        conn.close().await.unwrap();
    }

    /// The one value that a query yields.
    pub(crate) async fn value<T>(&self, query: &'static str) -> T
    where
        T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        use sqlx::Connection as _;
        let mut conn = sqlx::PgConnection::connect(self.url()).await.unwrap();
        let value = sqlx::query_scalar(query)
            .fetch_one(&mut conn)
            .await
            .unwrap();
        conn.close().await.unwrap();
        value
    }

    pub(crate) async fn stop(mut self) {
        if let Some(private) = self.private.take() {
            private.stop().await;
        }
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl Drop for Database {
    /// After a failed test nobody has stopped it.
    fn drop(&mut self) {
        end(self.pid, self.dir.path());
    }
}

/// As `mkdir` of a careful administrator: the server opens the way through it.
fn directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

/// The home of a stopped cluster with the schema of this version, made by the first who asks.
async fn template() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lock = fs::File::create(root.join("cluster.lock")).unwrap();
    let wait = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock));
    let _lock = wait.await.unwrap().unwrap();
    let template = root.join(format!("cluster-{:016x}", migrations()));
    if !template.exists() {
        let mut database = Database::fresh().await;
        database.store().migrate().await.unwrap();
        database.private.take().unwrap().stop().await;
        let partial = root.join("cluster.partial");
        if partial.exists() {
            fs::remove_dir_all(&partial).unwrap();
        }
        copy(&database.dir.path().join("postgres"), &partial);
        fs::rename(partial, &template).unwrap();
    }
    template
}

/// With owners and modes.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .arg("-a")
        .args([from, to])
        .status()
        .unwrap();
    assert!(copied.success());
}

/// Differs when the migrations do, or how they are applied.
fn migrations() -> u64 {
    let server = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = fs::read_dir(server.join("../migrations")).unwrap();
    let mut files: Vec<PathBuf> = dir.map(|file| file.unwrap().path()).collect();
    files.push(server.join("src/store/schema.rs"));
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(file).unwrap().hash(&mut hasher);
    }
    hasher.finish()
}

/// What fits a test: nothing has to survive a power cut.
pub(crate) fn options(data_dir: &Path) -> Options {
    let settings = [
        "fsync=off",
        "synchronous_commit=off",
        "full_page_writes=off",
    ];
    Options {
        data_dir: data_dir.to_owned(),
        search: search(),
        settings: settings.map(str::to_owned).to_vec(),
        stop: tokio_util::sync::CancellationToken::new(),
    }
}

pub(crate) fn search() -> Search {
    let path: Option<OsString> = std::env::var_os("PATH");
    Search::new(
        std::env::var_os("FLEETBEAT_DATABASE_BIN_DIR").map(PathBuf::from),
        path,
    )
}

/// Waits, for at most 20 s, until `holds`.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited 20 s in vain: {what}");
}

/// Whether a process is there and has not ended.
pub(crate) fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Ends the postmaster `pid` of `data_dir` if it is still there.
fn end(pid: i32, data_dir: &Path) {
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let ours = String::from_utf8_lossy(&command_line).contains(&*data_dir.to_string_lossy());
    if ours && kill(Pid::from_raw(pid), Signal::SIGQUIT).is_ok() {
        for _ in 0..250 {
            if !runs(pid) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
