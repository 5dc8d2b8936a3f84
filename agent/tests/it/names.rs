//! A name that moves while the agent runs: a table of hosts of its own, in a mount namespace of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::net::TcpListener;

use crate::fake::{Fake, revised};
use crate::host::{Host, Logged};
use crate::skip::skip;
use crate::within;

const NAME: &str = "fleet.test";
const OLD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const NEW: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

struct Names {
    host: Host,
    table: PathBuf,
}

impl Names {
    /// `None`, and a word about it, where namespaces cannot be made.
    fn new() -> Option<Self> {
        let possible = Command::new("unshare")
            .args(["--mount", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !possible {
            skip("root, and a kernel that makes mount namespaces");
            return None;
        }
        let host = Host::new();
        let table = host.file("hosts");
        let names = Self { host, table };
        names.point_to(OLD);
        Some(names)
    }

    /// In place: the mounted file is this one.
    fn point_to(&self, address: Ipv4Addr) {
        std::fs::write(&self.table, format!("{address} {NAME}\n")).unwrap();
    }

    fn run(&self, port: u16) -> Logged {
        let url = format!("http://{NAME}:{port}");
        let agent = self.host.command(&["--server", &url, "--allow-plaintext"]);
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c"])
            .arg("mount --bind \"$0\" /etc/hosts && exec \"$@\"")
            .arg(&self.table)
            .arg(agent.get_program())
            .args(agent.get_args());
        self.host.logged(command)
    }
}

/// A port that is free on both addresses, held on the new one by a server.
async fn server_at_new() -> Fake {
    for _ in 0..20 {
        let fake = Fake::start_at((NEW, 0).into()).await;
        if TcpListener::bind(SocketAddr::from((OLD, fake.address.port())))
            .await
            .is_ok()
        {
            return fake;
        }
    }
    panic!("no port is free on both addresses");
}

/// Field report A21.
#[tokio::test]
async fn a_name_that_moved_away_from_an_address_that_refuses_is_followed() {
    let Some(names) = Names::new() else { return };
    let mut fake = server_at_new().await;
    let agent = names.run(fake.address.port());
    agent.says("No session", Duration::from_secs(10)).await;
    names.point_to(NEW);
    let (mut peer, _) = within(
        Duration::from_secs(15),
        "the agent follows the name",
        fake.welcome(revised(0, 5_000, 3, 1_000)),
    )
    .await;
    peer.ping().await;
}

/// Field report A21: the old address still takes connections, and says nothing on them.
#[tokio::test]
async fn a_name_that_moved_away_from_an_address_that_stays_silent_is_followed() {
    let Some(names) = Names::new() else { return };
    let mut fake = server_at_new().await;
    let old = TcpListener::bind(SocketAddr::from((OLD, fake.address.port()))).await;
    let old = old.unwrap();
    let _agent = names.run(fake.address.port());
    let _silent = crate::soon("the old address is tried", old.accept()).await;
    names.point_to(NEW);
    let (mut peer, _) = within(
        Duration::from_secs(15),
        "the agent follows the name",
        fake.welcome(revised(0, 5_000, 3, 1_000)),
    )
    .await;
    peer.ping().await;
}
