//! The private Postgres: real binaries, real processes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use fleetbeat_server::postgres::{Error, Options, Private, Search, State};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use sqlx::Connection as _;
use tokio_util::task::TaskTracker;

use crate::database::{Database, options, runs};

fn pid_of(private: &Private) -> i32 {
    i32::try_from(private.pid().unwrap()).unwrap()
}

/// Processes whose command line or title speaks of `dir`.
fn processes_of(dir: &Path) -> Vec<String> {
    let dir = dir.to_string_lossy().into_owned();
    let all = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&line).replace('\0', " "))
        });
    all.filter(|line| line.contains(&dir) && line.contains("postgres"))
        .collect()
}

#[tokio::test]
async fn the_first_start_makes_a_cluster_that_the_next_start_finds_again() {
    let mut database = Database::fresh().await;
    database
        .sql("CREATE TABLE kept (n bigint); INSERT INTO kept VALUES (42)")
        .await;
    let checksums: String = database.value("SHOW data_checksums").await;
    let addresses: String = database.value("SHOW listen_addresses").await;
    assert_eq!((checksums.as_str(), addresses.as_str()), ("on", ""));
    let private = database.private.take().unwrap();
    let first = pid_of(&private);
    private.stop().await;
    assert!(!runs(first));
    let again = Private::start(&options(database.dir.path()), &database.tracker)
        .await
        .unwrap();
    assert_ne!(pid_of(&again), first);
    database.private = Some(again);
    assert_eq!(database.value::<i64>("SELECT n FROM kept").await, 42);
    let dir = database.dir.path().to_owned();
    database.stop().await;
    assert_eq!(processes_of(&dir), Vec::<String>::new());
}

#[tokio::test]
async fn it_runs_as_a_user_that_is_not_root_in_directories_closed_to_others() {
    let database = Database::fresh().await;
    let pid = pid_of(database.private.as_ref().unwrap());
    let runs_as = fs::metadata(format!("/proc/{pid}")).unwrap().uid();
    assert_ne!(runs_as, 0);
    for part in ["postgres", "postgres/run", "postgres/data"] {
        let found = fs::metadata(database.dir.path().join(part)).unwrap();
        assert_eq!((part, found.permissions().mode() & 0o777), (part, 0o700));
        assert_eq!((part, found.uid()), (part, runs_as));
    }
    database.stop().await;
}

#[tokio::test]
async fn a_postgres_that_dies_is_started_again_under_the_same_url() {
    let database = Database::start().await;
    let private = database.private.as_ref().unwrap();
    let url = private.url().to_owned();
    let first = pid_of(private);
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    let mut state = private.state();
    let running =
        |state: &State| matches!(state, State::Running { pid } if i32::try_from(*pid) != Ok(first));
    state.wait_for(running).await.unwrap();
    assert_eq!(private.url(), url);
    assert_eq!(database.value::<i32>("SELECT 1").await, 1);
    database.stop().await;
}

/// Starts one and lets its server die without a word: the postmaster runs on, nobody waits for it,
/// and the kernel has let go of the lock.
fn orphan(options: Options) -> i32 {
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let private = runtime
            .block_on(Private::start(&options, &TaskTracker::new()))
            .unwrap();
        let pid = pid_of(&private);
        runtime.shutdown_timeout(Duration::from_secs(5));
        pid
    });
    server.join().unwrap()
}

#[tokio::test]
async fn an_orphan_of_a_killed_server_is_adopted_and_stopped_in_the_end() {
    let mut database = Database::start().await;
    database.private.take().unwrap().stop().await;
    let dir = database.dir.path().to_owned();
    let pid = orphan(options(&dir));
    assert!(runs(pid));
    let adopted = Private::start(&options(&dir), &database.tracker)
        .await
        .unwrap();
    assert_eq!(pid_of(&adopted), pid);
    database.private = Some(adopted);
    assert_eq!(database.value::<i32>("SELECT 1").await, 1);
    database.stop().await;
    assert_eq!(processes_of(&dir), Vec::<String>::new());
}

#[tokio::test]
async fn an_adopted_postgres_that_dies_is_replaced() {
    let mut database = Database::start().await;
    database.private.take().unwrap().stop().await;
    let pid = orphan(options(database.dir.path()));
    let adopted = Private::start(&options(database.dir.path()), &database.tracker)
        .await
        .unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let mut state = adopted.state();
    state
        .wait_for(|state| {
            *state
                != State::Running {
                    pid: pid.unsigned_abs(),
                }
        })
        .await
        .unwrap();
    state
        .wait_for(|state| matches!(state, State::Running { .. }))
        .await
        .unwrap();
    assert_ne!(pid_of(&adopted), pid);
    database.private = Some(adopted);
    assert_eq!(database.value::<i32>("SELECT 1").await, 1);
    database.stop().await;
}

#[tokio::test]
async fn a_pid_file_whose_pid_another_process_got_does_not_block_the_start() {
    let mut database = Database::start().await;
    database.private.take().unwrap().stop().await;
    let file = database.dir.path().join("postgres/data/postmaster.pid");
    let mut other = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let text = format!("{}\n/data\n1\n5432\n/run/x\n\n1 1\nready\n", other.id());
    fs::write(&file, text).unwrap();
    let private = Private::start(&options(database.dir.path()), &database.tracker)
        .await
        .unwrap();
    database.private = Some(private);
    assert_eq!(database.value::<i32>("SELECT 1").await, 1);
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
    database.stop().await;
}

#[tokio::test]
async fn one_data_directory_serves_one_server() {
    let database = Database::start().await;
    let second = Private::start(&options(database.dir.path()), &database.tracker).await;
    assert!(matches!(second, Err(Error::InUse(_))), "{second:?}");
    database.stop().await;
}

#[tokio::test]
async fn a_cluster_of_another_version_is_refused_with_both_versions() {
    let mut database = Database::start().await;
    database.private.take().unwrap().stop().await;
    let file = database.dir.path().join("postgres/data/PG_VERSION");
    let found = fs::read_to_string(&file).unwrap().trim().to_owned();
    fs::write(&file, "9\n").unwrap();
    let error = Private::start(&options(database.dir.path()), &database.tracker)
        .await
        .unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("belong to Postgres 9") && said.contains(&found),
        "{said}"
    );
    assert!(said.contains("database.bin_dir"), "{said}");
    fs::write(&file, found).unwrap();
}

#[tokio::test]
async fn without_binaries_the_error_says_where_it_looked_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("bin");
    let search = Search {
        named: Some(nowhere.clone()),
        directories: Vec::new(),
    };
    let options = Options {
        search,
        ..options(dir.path())
    };
    let error = Private::start(&options, &TaskTracker::new())
        .await
        .unwrap_err();
    let said = error.to_string();
    assert!(said.contains(&nowhere.display().to_string()), "{said}");
    assert!(
        said.contains("apt install postgresql") && said.contains("database.url"),
        "{said}"
    );
}

#[tokio::test]
async fn a_cluster_that_was_made_half_is_made_again() {
    let mut database = Database::start().await;
    database.private.take().unwrap().stop().await;
    let home = database.dir.path().join("postgres");
    fs::rename(home.join("data"), home.join("data.partial")).unwrap();
    fs::remove_file(home.join("data.partial/PG_VERSION")).unwrap();
    let private = Private::start(&options(database.dir.path()), &database.tracker)
        .await
        .unwrap();
    database.private = Some(private);
    assert_eq!(database.value::<i32>("SELECT 1").await, 1);
    assert!(!home.join("data.partial").exists());
    database.stop().await;
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_gets_a_short_directory_that_nobody_else_can_enter() {
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let dir = root.path().join("long-directory-name-".repeat(6));
    let tracker = TaskTracker::new();
    let private = Private::start(&options(&dir), &tracker).await.unwrap();
    let url = private.url().to_owned();
    let socket_dir = Path::new(
        url.split_once("?host=")
            .unwrap()
            .1
            .split('&')
            .next()
            .unwrap(),
    );
    assert!(!socket_dir.starts_with(root.path()), "{url}");
    let found = fs::metadata(socket_dir).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o700);
    let mut conn = sqlx::PgConnection::connect(&url).await.unwrap();
    sqlx::query("SELECT 1").execute(&mut conn).await.unwrap();
    drop(conn);
    private.stop().await;
    assert_eq!(processes_of(root.path()), Vec::<String>::new());
    fs::remove_dir(socket_dir).unwrap();
}

#[tokio::test]
async fn a_directory_that_the_account_cannot_enter_is_named() {
    if !Uid::effective().is_root() {
        return crate::skip::skip("root's rights, which a server needs to hand itself down");
    }
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let error = Private::start(&options(&root.path().join("data")), &TaskTracker::new())
        .await
        .unwrap_err();
    let said = error.to_string();
    let way_out = format!(
        "chmod o+x {}",
        root.path().canonicalize().unwrap().display()
    );
    assert!(said.contains(&way_out), "{said}");
}
