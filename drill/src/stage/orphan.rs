use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use super::process::as_pid;
use super::wait::LOOK_EVERY;
use crate::clock;

const QUIT_WITHIN: Duration = Duration::from_secs(5);

/// Ends the private Postgres that a killed server left behind in its data directory.
pub(super) fn end_postgres(data: &Path, known: Option<u32>) {
    for pid in known.into_iter().chain(noted(data)) {
        end(pid, data);
    }
}

/// Postmasters that the pid files below the data directory name.
pub(super) fn noted(data: &Path) -> impl Iterator<Item = u32> {
    let postgres = data.join("postgres");
    let nested = std::fs::read_dir(&postgres).into_iter().flatten().flatten();
    let folders = nested.map(|entry| entry.path()).chain([postgres]);
    folders.filter_map(|folder| noted_pid(&folder))
}

/// First line of `postmaster.pid`.
fn noted_pid(folder: &Path) -> Option<u32> {
    std::fs::read_to_string(folder.join("postmaster.pid"))
        .ok()?
        .lines()
        .next()?
        .trim()
        .parse()
        .ok()
}

/// An immediate shutdown, which ends the backends too, then `kill -9`.
fn end(pid: u32, data: &Path) {
    let deadline = clock::now() + QUIT_WITHIN;
    let mut signal = Signal::SIGQUIT;
    while works_on(pid, data) {
        if kill(as_pid(pid), signal).is_err() || signal == Signal::SIGKILL {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
        if clock::now() >= deadline {
            signal = Signal::SIGKILL;
        }
    }
}

/// Whether that process is one of this data directory; a pid alone may belong to another by then.
fn works_on(pid: u32, data: &Path) -> bool {
    let Ok(command) = std::fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    String::from_utf8_lossy(&command).contains(&*data.to_string_lossy())
}
