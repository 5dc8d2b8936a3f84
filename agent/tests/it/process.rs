use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Stdio;
use std::time::Duration;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::CloseReason;
use fleetbeat_proto::v1::from_server::Message as Downward;
use nix::sys::signal::Signal;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::fake::{Fake, revised, wire};
use crate::host::{Host, Process};
use crate::{soon, within};

#[tokio::test]
async fn both_stop_signals_end_the_process_with_goodbye_and_0() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut agent = host.spawn(&["--server", &fake.url()]);
        let (mut peer, _) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
        peer.ping().await;
        agent.signal(signal);
        assert_eq!(peer.goodbye().await.reason(), CloseReason::Goodbye);
        drop(peer);
        let status = agent.exit(Duration::from_secs(2)).await;
        assert_eq!(status.code(), Some(0));
    }
}

/// The stream stays open although the agent said goodbye: it does not wait for ever.
#[tokio::test]
async fn a_server_that_ignores_goodbye_holds_the_exit_up_by_at_most_2_s() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let mut agent = host.spawn(&["--server", &fake.url()]);
    let (mut peer, _) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    peer.ping().await;
    agent.signal(Signal::SIGTERM);
    peer.goodbye().await;
    assert_eq!(agent.exit(Duration::from_secs(2)).await.code(), Some(0));
}

/// Neither a look-up nor a file system that hangs can be cancelled.
#[tokio::test]
async fn a_file_that_never_opens_does_not_hold_the_exit_up() {
    let host = Host::new();
    let pipe = host.file("ca.pem");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let mut agent = host.spawn(&["--server", &url, "--ca", pipe.to_str().unwrap()]);
    let _connection = soon("the agent connects", listener.accept()).await.unwrap();
    soon("a thread waits for the file", agent.has_threads(2)).await;
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.exit(Duration::from_secs(2)).await.code(), Some(0));
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_neither_the_heartbeats_nor_the_exit_up() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let (log, _unread) = UnixStream::pair().unwrap();
    log.set_nonblocking(true).unwrap();
    while (&log).write(&[b'\n'; 4096]).is_ok() {}
    log.set_nonblocking(false).unwrap();
    let mut command = host.command(&["--server", &fake.url()]);
    command.stderr(OwnedFd::from(log));
    let mut agent = Process::new(command.spawn().unwrap());
    drop(command);
    let (mut peer, _) = fake.welcome(revised(0, 500, 20, 500)).await;
    for _ in 0..3 {
        peer.ping().await;
    }
    agent.signal(Signal::SIGTERM);
    peer.goodbye().await;
    drop(peer);
    assert_eq!(agent.exit(Duration::from_secs(2)).await.code(), Some(0));
}

#[tokio::test]
async fn a_disk_that_hangs_while_the_incarnation_is_raised_does_not_hold_the_exit_up() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let mut agent = host.spawn(&["--server", &fake.url()]);
    let (mut peer, _) = fake.hello().await;
    // Whoever opens it for writing waits for a reader.
    let pipe = host.state_dir().join(".identity.json.tmp");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let stale = v1::Bye {
        reason: CloseReason::Superseded.into(),
        stale_floor: Some(v1::Fence {
            incarnation: 40,
            connection: 7,
        }),
        ..v1::Bye::default()
    };
    peer.send(Downward::Bye(stale)).await;
    assert_eq!(peer.receive().await, None);
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.exit(Duration::from_secs(2)).await.code(), Some(0));
}

/// Field report E12.
#[tokio::test]
async fn a_process_that_is_killed_comes_back_with_the_tuning_that_welcome_brought() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let wanted = revised(4, 5_000, 3, 1_000);
    let agent = host.spawn(&["--server", &fake.url()]);
    let (mut peer, _) = fake.hello().await;
    peer.welcome_with(revised(0, 30_000, 3, 1_000), wanted)
        .await;
    assert_eq!(peer.ack().await.revision, 4);
    agent.signal(Signal::SIGKILL);
    drop((peer, agent));

    let _agent = host.spawn(&["--server", &fake.url()]);
    let (mut peer, hello) = fake.hello().await;
    assert_eq!(hello.applied, Some(wire(&wanted)));
    std::fs::remove_file(host.state_dir().join("tuning.json")).unwrap();
    peer.welcome_with(revised(0, 30_000, 3, 1_000), wanted)
        .await;
    assert_eq!(peer.ack().await.revision, 4);
    assert!(
        !host.state_dir().join("tuning.json").exists(),
        "it was applied again"
    );
}

/// Field report B05.
#[tokio::test]
async fn a_process_that_was_stopped_sends_one_ping_and_no_burst() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let agent = host.spawn(&["--server", &fake.url()]);
    // D = 20.3 s: the stop is far from any verdict.
    let interval = Duration::from_secs(1);
    let (mut peer, _) = fake.welcome(revised(0, 1_000, 20, 300)).await;
    for _ in 0..2 {
        let ping = peer.ping().await;
        peer.answer(&ping, Duration::ZERO).await;
    }
    agent.signal(Signal::SIGSTOP);
    // Time has to pass here: the fault under test is made of missed beats.
    tokio::time::sleep(interval * 4).await;
    agent.signal(Signal::SIGCONT);
    let first = peer.ping().await;
    let continued = Instant::now();
    assert_eq!(first.seq, 3);
    assert!(first.lag_ns.is_none_or(|lag| lag >= 50_000_000));
    let second = peer.ping().await;
    assert_eq!(second.seq, 4);
    assert!(
        continued.elapsed() >= interval * 8 / 10,
        "{:?}",
        continued.elapsed()
    );
    assert!(
        second
            .lag_ns
            .or(first.lag_ns)
            .is_some_and(|lag| lag >= 1_000_000_000)
    );
}

/// Field reports B16 and F05: the unit becomes active while no server answers, and nothing of the
/// network ends the process.
#[tokio::test]
async fn the_service_manager_hears_ready_with_a_session_and_soon_without_one() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let ear = ear(&host, "with");
    let mut agent = notified(&host, "with", &fake.url());
    let (mut peer, _) = fake.welcome(revised(0, 30_000, 3, 1_000)).await;
    peer.ping().await;
    hears(&ear, "READY=1", Duration::from_secs(5)).await;
    agent.signal(Signal::SIGTERM);
    drop(peer);
    assert_eq!(agent.exit(Duration::from_secs(2)).await.code(), Some(0));

    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let ear = self::ear(&host, "without");
    let mut agent = notified(&host, "without", &closed);
    hears(&ear, "STATUS=No session", Duration::from_secs(5)).await;
    hears(&ear, "WATCHDOG=1", Duration::from_secs(5)).await;
    hears(&ear, "READY=1", Duration::from_secs(15)).await;
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.exit(Duration::from_secs(2)).await.code(), Some(0));
}

fn ear(host: &Host, name: &str) -> UnixDatagram {
    let ear = UnixDatagram::bind(host.file(name)).unwrap();
    ear.set_nonblocking(true).unwrap();
    ear
}

fn notified(host: &Host, name: &str, url: &str) -> Process {
    let mut command = host.command(&["--server", url]);
    command
        .env("NOTIFY_SOCKET", host.file(name))
        .env("WATCHDOG_USEC", "3000000")
        .stderr(Stdio::null());
    Process::new(command.spawn().unwrap())
}

/// Reads what the agent tells until a line begins with `wanted`.
async fn hears(ear: &UnixDatagram, wanted: &str, limit: Duration) {
    let ear = tokio::net::UnixDatagram::from_std(ear.try_clone().unwrap()).unwrap();
    let heard = async {
        let mut bytes = [0; 4096];
        loop {
            let length = ear.recv(&mut bytes).await.unwrap();
            let text = String::from_utf8_lossy(&bytes[..length]);
            if text.lines().any(|line| line.starts_with(wanted)) {
                return;
            }
        }
    };
    within(limit, wanted, heard).await;
}

#[tokio::test]
async fn an_agent_whose_server_is_killed_comes_back_to_the_one_that_replaces_it() {
    let host = Host::new();
    let mut fake = Fake::start().await;
    let mut second = Fake::start().await;
    let urls = format!("{},{}", fake.url(), second.url());
    let _agent = host.spawn(&["--server", &urls]);
    let either = async {
        tokio::select! {
            peer = fake.hello() => (peer, true),
            peer = second.hello() => (peer, false),
        }
    };
    let ((peer, _), first) = soon("either server is tried", either).await;
    drop(peer);
    if first {
        drop(fake);
        soon("the other server is tried", second.hello()).await;
    } else {
        drop(second);
        soon("the other server is tried", fake.hello()).await;
    }
}
