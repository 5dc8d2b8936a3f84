//! nginx and HAProxy as people run them, in a folder and on ports of their own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use fleetbeat_drill::skip::skip;
use fleetbeat_drill::stage::{Process, until};
use tempfile::TempDir;

use crate::scene::SOON;

const NGINX: &str = "/usr/sbin/nginx";
const HAPROXY: &str = "/usr/sbin/haproxy";

/// A proxy in front of a lane, with idle time-outs of four seconds. Killed when dropped.
pub(crate) struct Proxy {
    kind: Kind,
    /// Where agents connect.
    pub(crate) address: SocketAddr,
    process: Process,
    folder: TempDir,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// nginx with `grpc_pass`.
    Nginx,
    /// HAProxy in `mode http`: many agents' streams on few connections to the server.
    HaproxyHttp,
    /// HAProxy in `mode tcp`.
    HaproxyTcp,
}

impl Proxy {
    /// None, and the test is skipped, when it is not installed.
    pub(crate) async fn start(kind: Kind, lane: SocketAddr) -> Option<Self> {
        let program = kind.program();
        if !Path::new(program).is_file() {
            skip(&format!(
                "{program}, which the Debian package of that name brings"
            ));
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let address = free_address();
        std::fs::write(
            folder.path().join("proxy.conf"),
            kind.configuration(address, lane),
        )
        .unwrap();
        let process = kind.run(folder.path());
        let mut proxy = Self {
            kind,
            address,
            process,
            folder,
        };
        proxy.listens().await;
        Some(proxy)
    }

    /// `kill -9`, then the same again.
    pub(crate) async fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process = self.kind.run(self.folder.path());
        self.listens().await;
    }

    async fn listens(&mut self) {
        until("the proxy to listen", SOON, async || {
            if let Some(status) = self.process.status()? {
                let said = std::fs::read_to_string(self.process.log())?;
                anyhow::bail!("it ended with {status}: {said}");
            }
            Ok(TcpStream::connect(self.address).ok())
        })
        .await
        .unwrap();
    }
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::Nginx => NGINX,
            Self::HaproxyHttp | Self::HaproxyTcp => HAPROXY,
        }
    }

    fn run(self, folder: &Path) -> Process {
        let mut command = Command::new(self.program());
        let configuration = folder.join("proxy.conf");
        match self {
            Self::Nginx => command.arg("-p").arg(folder).arg("-c").arg(configuration),
            Self::HaproxyHttp | Self::HaproxyTcp => command.arg("-db").arg("-f").arg(configuration),
        };
        Process::start("proxy", &mut command, folder).unwrap()
    }

    fn configuration(self, address: SocketAddr, lane: SocketAddr) -> String {
        match self {
            Self::Nginx => nginx(address, lane),
            Self::HaproxyHttp => haproxy("http", "proto h2", address, lane),
            Self::HaproxyTcp => haproxy("tcp", "", address, lane),
        }
    }
}

fn nginx(address: SocketAddr, lane: SocketAddr) -> String {
    format!(
        "daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen {address} http2;
        client_max_body_size 0;
        client_body_timeout 4s;
        send_timeout 4s;
        location / {{
            grpc_pass grpc://{lane};
            grpc_read_timeout 4s;
            grpc_send_timeout 4s;
        }}
    }}
}}
"
    )
}

fn haproxy(mode: &str, protocol: &str, address: SocketAddr, lane: SocketAddr) -> String {
    let reuse = if mode == "http" {
        "http-reuse always"
    } else {
        ""
    };
    format!(
        "global
    maxconn 4096
defaults
    mode {mode}
    timeout connect 2s
    timeout client 4s
    timeout server 4s
frontend agents
    bind {address} {protocol}
    default_backend lane
backend lane
    {reuse}
    server lane {lane} {protocol}
"
    )
}

/// A port that was free a moment ago: these programs do not tell which one they were given.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Established connections to a local port.
pub(crate) fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() > 3 && row[1].ends_with(&local) && row[3] == "01")
        .count()
}
