use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::data_dir::write_whole;

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
        write_whole(&path, &serde_json::to_vec_pretty(self)?)?;
        Ok(Published(path))
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // A file that is gone already is what was wanted.
        let _ = std::fs::remove_file(&self.0);
    }
}
