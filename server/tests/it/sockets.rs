//! What the kernel was told about the server's own sockets, read back from them.

use std::os::fd::OwnedFd;
use std::time::Duration;

use fleetbeat_liveness::retune::Revised;
use fleetbeat_proto::v1::tuning_ack::Outcome;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use socket2::Socket;

use crate::actor::{Actor, Connection, hello, tuning};
use crate::house::House;

/// A second hand on the server's socket whose other end is `peer`.
fn server_end(peer: &str) -> Socket {
    let me = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let numbers = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let sockets = numbers.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let fd: OwnedFd = pidfd_getfd(&me, number, PidfdGetfdFlags::empty()).ok()?;
        Some(Socket::from(fd))
    });
    let named = |socket: &Socket| socket.peer_addr().ok()?.as_socket();
    let mut matching =
        sockets.filter(|socket| named(socket).is_some_and(|it| it.to_string() == peer));
    matching.next().expect("the server holds the other end")
}

/// `TCP_USER_TIMEOUT`, then idle, gap and probes of keepalive; seconds.
fn options(socket: &Socket) -> (u64, u64, u64, u32) {
    assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
    let user_timeout = socket.tcp_user_timeout().unwrap().unwrap_or_default();
    (
        user_timeout.as_secs(),
        socket.tcp_keepalive_time().unwrap().as_secs(),
        socket.tcp_keepalive_interval().unwrap().as_secs(),
        socket.tcp_keepalive_retries().unwrap(),
    )
}

/// Hard case B4: D + W, raised before a push can be seen, lowered by its ack, keepalive with it.
#[tokio::test]
async fn the_servers_socket_follows_every_retune() {
    let house = House::open(1);
    house.policy(1, (20_000, 3, 2_000));
    let mut agent = Actor::join(&house, hello(1)).await;
    agent.ack_welcome().await;
    let session = house.session(1);
    let socket = server_end(&session.address);
    house.until(|| options(&socket) == (64, 120, 30, 3)).await;
    for (revision, timing, before_ack, after_ack) in [
        (8, (300_000, 3, 5_000), (910, 815, 30, 3), (910, 815, 30, 3)),
        (9, (20_000, 3, 2_000), (910, 815, 30, 3), (64, 120, 30, 3)),
    ] {
        let pushed = Revised {
            revision,
            tuning: tuning(timing),
        };
        assert!(house.registry().push(&session, pushed, ""));
        house.until(|| options(&socket) == before_ack).await;
        agent.ack(Outcome::Applied).await;
        house.until(|| options(&socket) == after_ack).await;
    }
}

/// Hard case B3: a shared connection is as patient as the most patient of its sessions.
#[tokio::test]
async fn a_shared_socket_tolerates_what_its_most_patient_session_tolerates() {
    let house = House::open(1);
    house.policy(1, (1_000, 3, 1_000));
    house.policy(2, (60_000, 3, 2_000));
    let connection = Connection::dial(&house).await;
    let mut quick = Actor::on(&connection, hello(1)).await;
    quick.ack_welcome().await;
    let mut patient = Actor::on(&connection, hello(2)).await;
    patient.ack_welcome().await;
    let socket = server_end(&house.session(1).address);
    house.until(|| options(&socket).0 == 184).await;
    assert_eq!(house.session(1).offline_after(), Duration::from_secs(4));
}
