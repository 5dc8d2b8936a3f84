//! The relay over real sockets.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::{Relay, busiest};
use crate::stage::until;

const SOON: Duration = Duration::from_secs(5);
/// Nothing comes within this time where nothing may come.
const QUIET: Duration = Duration::from_millis(200);

struct Trial {
    relay: Relay,
    behind: TcpListener,
}

impl Trial {
    async fn start(commands: &[&str]) -> Self {
        let behind = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let relay = Relay::start(listen, behind.local_addr().unwrap()).await;
        let trial = Self {
            relay: relay.unwrap(),
            behind,
        };
        for command in commands {
            trial.relay.tell(command).unwrap();
        }
        trial
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.relay.address()).await.unwrap()
    }

    async fn accepted(&self) -> TcpStream {
        timeout(SOON, self.behind.accept())
            .await
            .unwrap()
            .unwrap()
            .0
    }

    /// Both ends of a flow.
    async fn flow(&self) -> (TcpStream, TcpStream) {
        let client = self.client().await;
        (client, self.accepted().await)
    }
}

async fn byte(stream: &mut TcpStream) -> std::io::Result<u8> {
    timeout(SOON, stream.read_u8()).await.unwrap()
}

async fn quiet(stream: &mut TcpStream) {
    let read = timeout(QUIET, stream.read_u8()).await;
    assert!(read.is_err(), "{read:?} came through");
}

fn is_reset<T: std::fmt::Debug>(read: std::io::Result<T>) {
    let kind = read.unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::ConnectionReset);
}

fn is_end<T: std::fmt::Debug>(read: std::io::Result<T>) {
    let kind = read.unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn bytes_and_ends_pass_both_ways_when_nothing_is_wrong() {
    let trial = Trial::start(&[]).await;
    let (mut client, mut server) = trial.flow().await;
    client.write_all(&[1]).await.unwrap();
    assert_eq!(byte(&mut server).await.unwrap(), 1);
    client.shutdown().await.unwrap();
    is_end(byte(&mut server).await);
    server.write_all(&[2]).await.unwrap();
    assert_eq!(byte(&mut client).await.unwrap(), 2);
    server.set_zero_linger().unwrap();
    drop(server);
    is_reset(byte(&mut client).await);
    until("the flow to be over", SOON, async || {
        Ok((trial.relay.tally().open == 0).then_some(()))
    })
    .await
    .unwrap();
    let tally = trial.relay.tally();
    assert_eq!(
        (tally.accepted, tally.bytes_up, tally.bytes_down),
        (1, 1, 1)
    );
    assert_eq!(busiest(&trial.relay.arrivals(), SOON), 1);
}

#[tokio::test]
async fn one_way_stops_while_the_other_goes_on_and_what_was_held_follows() {
    let trial = Trial::start(&[]).await;
    let (mut client, mut server) = trial.flow().await;
    trial.relay.tell("up stop").unwrap();
    client.write_all(&[1]).await.unwrap();
    server.write_all(&[2]).await.unwrap();
    assert_eq!(byte(&mut client).await.unwrap(), 2);
    quiet(&mut server).await;
    trial.relay.tell("heal").unwrap();
    assert_eq!(byte(&mut server).await.unwrap(), 1);
}

/// An order holds for every byte that is sent after it, whichever of both the flow is woken by.
#[tokio::test]
async fn byte_sent_after_an_order_falls_under_it() {
    for _ in 0..200 {
        let trial = Trial::start(&[]).await;
        let (mut client, mut server) = trial.flow().await;
        trial.relay.tell("up stop").unwrap();
        client.write_all(&[1]).await.unwrap();
        server.write_all(&[2]).await.unwrap();
        assert_eq!(byte(&mut client).await.unwrap(), 2);
        assert_eq!(trial.relay.tally().bytes_up, 0);
    }
}

#[tokio::test]
async fn a_delay_holds_each_byte_for_its_time() {
    let trial = Trial::start(&["up delay=300ms"]).await;
    let (mut client, mut server) = trial.flow().await;
    let sent = Instant::now();
    client.write_all(&[1]).await.unwrap();
    assert_eq!(byte(&mut server).await.unwrap(), 1);
    assert!(sent.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn an_end_is_held_back_while_bytes_still_pass() {
    let trial = Trial::start(&["both hold-ends"]).await;
    let (mut client, mut server) = trial.flow().await;
    client.write_all(&[1]).await.unwrap();
    client.set_zero_linger().unwrap();
    assert_eq!(byte(&mut server).await.unwrap(), 1);
    drop(client);
    quiet(&mut server).await;
    assert_eq!(trial.relay.tally().ends_held, 1);
    trial.relay.tell("both pass-ends").unwrap();
    is_reset(byte(&mut server).await);
}

#[tokio::test]
async fn an_idle_flow_is_reset_and_one_that_speaks_is_not() {
    let trial = Trial::start(&["idle 400ms reset"]).await;
    let (mut idle, _idle_server) = trial.flow().await;
    let (mut busy, mut busy_server) = trial.flow().await;
    for number in 0..8 {
        busy.write_all(&[number]).await.unwrap();
        assert_eq!(byte(&mut busy_server).await.unwrap(), number);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    is_reset(byte(&mut idle).await);
    let tally = trial.relay.tally();
    assert_eq!((tally.idle, tally.resets, tally.open), (1, 1, 1));
}

#[tokio::test]
async fn one_silent_way_is_idle_when_only_that_way_is_watched() {
    let trial = Trial::start(&["idle 300ms close down"]).await;
    let (mut client, mut server) = trial.flow().await;
    let cut = async {
        loop {
            client.write_all(&[1]).await.unwrap();
            let read = timeout(Duration::from_millis(50), client.read_u8()).await;
            if let Ok(read) = read {
                return read;
            }
        }
    };
    let (read, _) = tokio::join!(timeout(SOON, cut), async {
        let mut all = Vec::new();
        server.read_to_end(&mut all).await
    });
    is_end(read.unwrap());
}

#[tokio::test]
async fn a_forgotten_flow_swallows_everything_and_tells_nobody() {
    let trial = Trial::start(&[]).await;
    let (mut client, mut server) = trial.flow().await;
    trial.relay.tell("cut forget").unwrap();
    until("the flow to be forgotten", SOON, async || {
        Ok((trial.relay.tally().forgotten == 1).then_some(()))
    })
    .await
    .unwrap();
    client.write_all(&[1]).await.unwrap();
    client.shutdown().await.unwrap();
    quiet(&mut server).await;
    let (mut fresh, mut fresh_server) = trial.flow().await;
    fresh.write_all(&[2]).await.unwrap();
    assert_eq!(byte(&mut fresh_server).await.unwrap(), 2);
    assert_eq!(trial.relay.tally().swallowed, 1);
}

#[tokio::test]
async fn a_forgotten_flow_may_answer_what_comes_with_a_reset() {
    let trial = Trial::start(&["idle 100ms forget-then-reset"]).await;
    let (mut client, mut server) = trial.flow().await;
    quiet(&mut client).await;
    server.write_all(&[1]).await.unwrap();
    is_reset(byte(&mut client).await);
    is_reset(byte(&mut server).await);
}

#[tokio::test]
async fn a_mute_relay_takes_connections_and_connects_nobody_until_it_is_healed() {
    let trial = Trial::start(&["mute"]).await;
    let mut client = trial.client().await;
    client.write_all(&[1]).await.unwrap();
    quiet(&mut client).await;
    assert!(timeout(QUIET, trial.behind.accept()).await.is_err());
    trial.relay.tell("heal").unwrap();
    assert_eq!(byte(&mut trial.accepted().await).await.unwrap(), 1);
}

#[tokio::test]
async fn a_share_of_flows_is_held_while_the_others_pass_it() {
    let trial = Trial::start(&["flows 1/2 up stop"]).await;
    let mut held = trial.client().await;
    held.write_all(&[1]).await.unwrap();
    let (mut free, mut free_server) = trial.flow().await;
    free.write_all(&[2]).await.unwrap();
    assert_eq!(byte(&mut free_server).await.unwrap(), 2);
    trial.relay.tell("heal").unwrap();
    assert_eq!(byte(&mut trial.accepted().await).await.unwrap(), 1);
}

#[tokio::test]
async fn a_cut_that_a_share_knew_later_hits_nobody_again_when_the_share_is_dropped() {
    let trial = Trial::start(&[]).await;
    let (mut first, _first_server) = trial.flow().await;
    trial.relay.tell("cut reset").unwrap();
    is_reset(byte(&mut first).await);
    let (mut second, _second_server) = trial.flow().await;
    trial.relay.tell("flows 1/1 cut reset").unwrap();
    is_reset(byte(&mut second).await);
    let (mut third, mut third_server) = trial.flow().await;
    for command in ["flows 1/2 up delay=1ms", "heal"] {
        trial.relay.tell(command).unwrap();
        third.write_all(&[1]).await.unwrap();
        assert_eq!(byte(&mut third_server).await.unwrap(), 1);
    }
    trial.relay.tell("cut reset").unwrap();
    is_reset(byte(&mut third).await);
    assert_eq!(trial.relay.tally().resets, 3);
}

/// A flow that waits to be let through, and the relay that holds it.
async fn waiting() -> (Trial, TcpStream) {
    let trial = Trial::start(&["mute"]).await;
    let client = trial.client().await;
    until("the connection to be taken", SOON, async || {
        Ok((trial.relay.tally().open == 1).then_some(()))
    })
    .await
    .unwrap();
    (trial, client)
}

#[tokio::test]
async fn a_flow_that_waits_is_cut_as_the_word_says() {
    let (trial, mut client) = waiting().await;
    trial.relay.tell("cut reset").unwrap();
    is_reset(byte(&mut client).await);
    assert_eq!(trial.relay.tally().resets, 1);
    let (trial, mut client) = waiting().await;
    trial.relay.tell("cut close").unwrap();
    is_end(byte(&mut client).await);
    assert_eq!(trial.relay.tally().closes, 1);
}

#[tokio::test]
async fn a_flow_that_waits_can_be_forgotten() {
    let (trial, mut client) = waiting().await;
    trial.relay.tell("cut forget").unwrap();
    client.write_all(&[1]).await.unwrap();
    until("the byte to be swallowed", SOON, async || {
        Ok((trial.relay.tally().swallowed == 1).then_some(()))
    })
    .await
    .unwrap();
    trial.relay.tell("heal").unwrap();
    quiet(&mut client).await;
    assert_eq!(trial.relay.tally().forgotten, 1);
}

#[tokio::test]
async fn a_thousand_flows_are_cut_at_once_by_one_word() {
    let trial = Trial::start(&[]).await;
    let mut flows = Vec::new();
    for _ in 0..1_000 {
        flows.push(trial.flow().await);
    }
    trial.relay.tell("cut reset").unwrap();
    for (mut client, mut server) in flows {
        is_reset(byte(&mut client).await);
        is_reset(byte(&mut server).await);
    }
    let tally = trial.relay.tally();
    assert_eq!((tally.resets, tally.open), (1_000, 0));
}
