//! The real program with its private Postgres.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const START_WITHIN: Duration = Duration::from_mins(1);

/// Stopped with SIGTERM when dropped, so that its Postgres ends with it.
pub(crate) struct Served {
    child: Child,
    dir: TempDir,
    pub(crate) lane: SocketAddr,
    pub(crate) operator: SocketAddr,
}

impl Served {
    /// Starts it; `dress` may change how.
    pub(crate) async fn start(dress: impl FnOnce(&mut Command)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleetbeat-server"));
        command
            .env_clear()
            .args(["--config", "/dev/null", "--lane-count", "1"])
            .args([
                "--lane-listen",
                "127.0.0.1:0",
                "--operator-listen",
                "127.0.0.1:0",
            ])
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(log(dir.path())).unwrap());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        dress(&mut command);
        let mut child = command.spawn().unwrap();
        let ready = async {
            loop {
                if let Some(status) = child.try_wait().unwrap() {
                    panic!("the server ended with {status}");
                }
                if let Some(ports) = ports(dir.path()) {
                    return ports;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let ready = tokio::time::timeout(START_WITHIN, ready).await;
        let (lane, operator) = ready.expect("a server that is ready");
        Self {
            child,
            dir,
            lane,
            operator,
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(log(self.dir.path())).unwrap()
    }

    pub(crate) fn terminate(&self) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    }

    pub(crate) async fn ended(&mut self, within: Duration) -> ExitStatus {
        let ended = async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ended = tokio::time::timeout(within, ended).await;
        ended.unwrap_or_else(|_| panic!("it runs on after {within:?}\n{}", self.log()))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.terminate();
            // Its own stop is bounded.
            drop(self.child.wait());
        }
    }
}

fn log(dir: &Path) -> PathBuf {
    dir.join("server.log")
}

fn ports(dir: &Path) -> Option<(SocketAddr, SocketAddr)> {
    let text = std::fs::read_to_string(dir.join("data/endpoints.json")).ok()?;
    let told: serde_json::Value = serde_json::from_str(&text).ok()?;
    let port = |name: &str| told[name].as_str()?.parse().ok();
    Some((port("lane")?, port("operator")?))
}
