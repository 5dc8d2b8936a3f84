//! Through a real proxy (tinyproxy), and through things that are none.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::fake::{Fake, revised};
use crate::host::{Host, Process};
use crate::skip::skip;
use crate::tls::{authority, identity};
use crate::{soon, within};

/// What field report A22 allows for a clear error.
const CLEAR: Duration = Duration::from_secs(15);

struct Tinyproxy {
    address: SocketAddr,
    log: PathBuf,
    _process: Process,
}

impl Tinyproxy {
    /// At `address`, for this user and password. `None`, and a word about it, where it is not installed.
    async fn start(host: &Host, address: SocketAddr, user: &str, password: &str) -> Option<Self> {
        let (log, file) = (host.file("tinyproxy.log"), host.file("tinyproxy.conf"));
        let text = format!(
            "Listen {}\nPort {}\nAllow 127.0.0.1\nTimeout 600\nLogFile \"{}\"\nLogLevel Info\n\
             BasicAuth {user} {password}\n",
            address.ip(),
            address.port(),
            log.display()
        );
        std::fs::write(&file, text).unwrap();
        let started = Command::new("tinyproxy")
            .arg("-d")
            .arg("-c")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            skip("tinyproxy (Debian package tinyproxy-bin)");
            return None;
        };
        let process = Process::new(child);
        let listening = async {
            while TcpStream::connect(address).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon("tinyproxy listens", listening).await;
        Some(Self {
            address,
            log,
            _process: process,
        })
    }

    fn connects(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .filter(|line| line.contains("): CONNECT "))
            .count()
    }
}

async fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// Field report A22: TLS inside the tunnel, credentials in no log, `NO_PROXY` direct.
#[tokio::test]
async fn a_session_goes_through_the_proxy_and_for_a_host_of_no_proxy_around_it() {
    let host = Host::new();
    let Some(proxy) = Tinyproxy::start(&host, free().await, "web", "pass-w0rd").await else {
        return;
    };
    let right = authority();
    let mut fake = Fake::start_tls(identity(&right)).await;
    let ca = host.file("ca.pem");
    std::fs::write(&ca, right.pem()).unwrap();
    let server = format!("https://localhost:{}", fake.address.port());
    let url = format!("http://web:pass-w0rd@{}", proxy.address);
    let arguments = ["--server", &server, "--ca", ca.to_str().unwrap()];

    let agent = host.spawn_logged(&arguments, &[("FLEETBEAT_AGENT_PROXY", &url)]);
    let (mut peer, _) = fake.welcome(revised(0, 500, 20, 500)).await;
    for _ in 0..3 {
        let ping = peer.ping().await;
        peer.answer(&ping, Duration::ZERO).await;
    }
    assert_eq!(proxy.connects(), 1);
    let path = format!("through http://{} (proxy)", proxy.address);
    let log = agent.log();
    assert!(log.contains(&path), "{log}");
    assert!(!log.contains("pass-w0rd"), "{log}");
    drop((peer, agent));

    let variables = [
        ("FLEETBEAT_AGENT_PROXY", url.as_str()),
        ("NO_PROXY", "localhost"),
    ];
    let agent = host.spawn_logged(&arguments, &variables);
    let (mut peer, _) = fake.welcome(revised(0, 500, 20, 500)).await;
    peer.ping().await;
    assert_eq!(proxy.connects(), 1, "it went around the proxy");
    assert!(agent.log().contains("path=\"direct\""), "{}", agent.log());
}

/// Field report A22.
#[tokio::test]
async fn a_proxy_that_is_not_there_is_named_and_used_once_it_is() {
    let host = Host::new();
    let mut fake = Fake::start().await;
    let address = free().await;
    let url = format!("http://web:secret@{address}");
    let agent = host.spawn_logged(&["--server", &fake.url(), "--proxy", &url], &[]);
    let line = agent.says("No session", CLEAR).await;
    let named = format!("the proxy http://{address} (proxy) cannot be reached");
    assert!(line.contains(&named), "{line}");
    let Some(proxy) = Tinyproxy::start(&host, address, "web", "secret").await else {
        return;
    };
    let (mut peer, _) = fake.welcome(revised(0, 500, 20, 500)).await;
    peer.ping().await;
    assert!(proxy.connects() >= 1);
}

#[tokio::test]
async fn a_proxy_that_wants_other_credentials_says_so_and_no_password_is_logged() {
    let host = Host::new();
    let Some(proxy) = Tinyproxy::start(&host, free().await, "web", "right").await else {
        return;
    };
    let fake = Fake::start().await;
    let wrong = format!("http://web:wr0ng@{}", proxy.address);
    let agent = host.spawn_logged(&["--server", &fake.url(), "--proxy", &wrong], &[]);
    let line = agent.says("No session", CLEAR).await;
    assert!(
        line.contains("does not take the user and password"),
        "{line}"
    );
    assert!(!agent.log().contains("wr0ng"), "{}", agent.log());
    drop(agent);
    let none = format!("http://{}", proxy.address);
    let agent = host.spawn_logged(&["--server", &fake.url(), "--proxy", &none], &[]);
    let line = agent.says("No session", CLEAR).await;
    assert!(line.contains("USER:PASSWORD@"), "{line}");
}

/// Every answer has a bound: a head without an end, something that is not HTTP, and silence.
#[tokio::test]
async fn what_is_no_proxy_is_left_in_time_whatever_it_answers() {
    let host = Host::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = ["--server", "http://127.0.0.1:9", "--proxy", &url];
    let endless = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        while stream
            .write_all(&b"X-More: more\r\n".repeat(100))
            .await
            .is_ok()
        {}
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"220 mail.example.net ESMTP\r\n")
            .await
            .unwrap();
        let (silent, _) = listener.accept().await.unwrap();
        let (_next, _) = listener.accept().await.unwrap();
        drop(silent);
    };
    let agent = host.spawn_logged(&server, &[]);
    within(
        Duration::from_secs(40),
        "each is left for another try",
        endless,
    )
    .await;
    let log = agent.log();
    assert!(log.contains("gave no answer of HTTP"), "{log}");
    assert!(
        log.contains("the proxy's answer took longer than 5s"),
        "{log}"
    );
}
