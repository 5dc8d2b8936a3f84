//! A pooler in transaction mode, when this machine has one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::unistd::Uid;
use tempfile::TempDir;

use crate::database::eventually;
use crate::skip::skip;

const PROGRAM: &str = "/usr/sbin/pgbouncer";
const SOCKET: &str = ".s.PGSQL.6432";

/// A pgbouncer that is gone when dropped.
pub(crate) struct Pooler {
    dir: TempDir,
    process: Child,
}

impl Pooler {
    /// In front of the Postgres of `url`; `None` without pgbouncer.
    pub(crate) async fn before(url: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            skip(&format!(
                "{PROGRAM}, which Debian's package pgbouncer brings"
            ));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let behind = url
            .split_once("?host=")
            .unwrap()
            .1
            .split('&')
            .next()
            .unwrap();
        let config = dir.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\nfleetbeat = host={behind} user=fleetbeat\n\
             [pgbouncer]\nunix_socket_dir = {}\nlisten_port = 6432\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 3\n",
            dir.path().display()
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new(PROGRAM);
        if Uid::effective().is_root() {
            command.args(["-u", "postgres"]);
        }
        let process = command.arg(&config).stderr(Stdio::null()).spawn().unwrap();
        let pooler = Self { dir, process };
        let socket = pooler.dir.path().join(SOCKET);
        eventually("the pooler listens", async || socket.exists()).await;
        Some(pooler)
    }

    pub(crate) fn url(&self) -> String {
        let dir = self.dir.path().display();
        format!("postgres://fleetbeat@localhost:6432/fleetbeat?host={dir}&sslmode=disable")
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
