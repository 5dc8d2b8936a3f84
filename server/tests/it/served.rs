//! The real program with its private Postgres.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use fleetbeat_proto::v1::fleet_service_client::FleetServiceClient;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tonic::transport::Endpoint;

use crate::office::{Bearer, Client};

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
        let free = "127.0.0.1:0".parse().unwrap();
        let mut command = command(dir.path(), free, free);
        dress(&mut command);
        let mut child = command.spawn().unwrap();
        let (lane, operator) = ready(&mut child, dir.path()).await;
        Self {
            child,
            dir,
            lane,
            operator,
        }
    }

    /// Ends it with SIGKILL, as a crash would, and starts it again where it was.
    pub(crate) async fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::fs::remove_file(endpoints(self.dir.path())).unwrap();
        let mut command = command(self.dir.path(), self.lane, self.operator);
        self.child = command.spawn().unwrap();
        ready(&mut self.child, self.dir.path()).await;
    }

    /// With the first token.
    pub(crate) async fn client(&self) -> Client {
        let file = self.dir.path().join("data/operator.token");
        let token = std::fs::read_to_string(file).unwrap();
        let endpoint = Endpoint::from_shared(format!("http://{}", self.operator)).unwrap();
        let channel = endpoint.connect().await.unwrap();
        FleetServiceClient::with_interceptor(channel, Bearer::new(token.trim()))
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

fn command(dir: &Path, lane: SocketAddr, operator: SocketAddr) -> Command {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(log(dir));
    let mut command = Command::new(env!("CARGO_BIN_EXE_fleetbeat-server"));
    command
        .env_clear()
        .args(["--config", "/dev/null", "--lane-count", "1"])
        .args(["--lane-listen", &lane.to_string()])
        .args(["--operator-listen", &operator.to_string()])
        .arg("--data-dir")
        .arg(dir.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.unwrap());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Where it serves, once it does.
async fn ready(child: &mut Child, dir: &Path) -> (SocketAddr, SocketAddr) {
    let ready = async {
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the server ended with {status}");
            }
            if let Some(ports) = ports(dir) {
                return ports;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let ready = tokio::time::timeout(START_WITHIN, ready).await;
    ready.expect("a server that is ready")
}

fn endpoints(dir: &Path) -> PathBuf {
    dir.join("data/endpoints.json")
}

fn log(dir: &Path) -> PathBuf {
    dir.join("server.log")
}

fn ports(dir: &Path) -> Option<(SocketAddr, SocketAddr)> {
    let text = std::fs::read_to_string(endpoints(dir)).ok()?;
    let told: serde_json::Value = serde_json::from_str(&text).ok()?;
    let port = |name: &str| told[name].as_str()?.parse().ok();
    Some((port("lane")?, port("operator")?))
}
