use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::data_dir::write_whole;
use crate::postgres::State;

const FILE: &str = "endpoints.json";

/// Where a running server is reached; written when it is ready, removed when it has stopped.
#[derive(Debug, Serialize)]
pub(super) struct Endpoints {
    pub(super) pid: u32,
    pub(super) lane: SocketAddr,
    pub(super) operator: SocketAddr,
    /// Of the private Postgres; a configured URL may hold a password and is not repeated.
    pub(super) database_url: Option<String>,
    pub(super) postgres_pid: Option<u32>,
}

/// The written file; dropping it removes it.
#[derive(Debug)]
pub(super) struct Published(PathBuf);

impl Endpoints {
    pub(super) fn publish(&self, data_dir: &Path) -> io::Result<Published> {
        let path = data_dir.join(FILE);
        self.write(&path)?;
        Ok(Published(path))
    }
}

impl Endpoints {
    /// Keeps the process id of the private Postgres true, which is another one after it died. Returns
    /// when `stop` is asked for, or when nobody looks after Postgres any more.
    pub(super) async fn follow(
        mut self,
        data_dir: PathBuf,
        mut postgres: watch::Receiver<State>,
        stop: CancellationToken,
    ) {
        loop {
            let changed = tokio::select! {
                () = stop.cancelled() => return,
                changed = postgres.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
            self.postgres_pid = match &*postgres.borrow_and_update() {
                State::Running { pid } => Some(*pid),
                State::Down { .. } | State::Stopped => None,
            };
            if let Err(error) = self.write(&data_dir.join(FILE)) {
                warn!(%error, "Endpoints could not be written");
            }
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        write_whole(path, &serde_json::to_vec_pretty(self)?)
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // A file that is gone already is what was wanted.
        let _ = std::fs::remove_file(&self.0);
    }
}
