//! Agents that live by themselves: they beat, answer pushes as they are told to, and come back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleetbeat_proto::v1::session_service_client::SessionServiceClient;
use fleetbeat_proto::v1::{
    Fence, FromAgent, Hello, Ping, RevisedTuning, TuningAck, from_agent, from_server, tuning_ack,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

use crate::actor::hello;

/// How an agent takes what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    Good,
    /// Loses its connection again and again while it runs a T below this, milliseconds.
    DropsBelow(u64),
    Refuses,
    /// Of a version that knows no acknowledgements.
    Mute,
}

/// Agents of group `web` in the background; gone when dropped.
pub(crate) struct Crew {
    address: SocketAddr,
    tasks: JoinSet<()>,
    seen: Seen,
}

/// Values of T that each agent was sent, milliseconds, in order.
type Seen = Arc<Mutex<BTreeMap<u8, Vec<u64>>>>;

struct Mate {
    address: SocketAddr,
    nature: Nature,
    seen: Seen,
    hello: Hello,
}

impl Crew {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self {
            address,
            tasks: JoinSet::new(),
            seen: Seen::default(),
        }
    }

    pub(crate) fn join(&mut self, n: u8, nature: Nature) {
        let mut hello = hello(n);
        "web".clone_into(&mut hello.group);
        self.join_as(hello, nature);
    }

    pub(crate) fn join_as(&mut self, hello: Hello, nature: Nature) {
        let mate = Mate {
            address: self.address,
            nature,
            seen: Arc::clone(&self.seen),
            hello,
        };
        self.tasks.spawn(mate.live());
    }

    /// Who was ever sent this value of T.
    pub(crate) fn saw(&self, interval_ms: u64) -> Vec<u8> {
        let seen = self.seen.lock().unwrap();
        let saw = seen.iter().filter(|(_, sent)| sent.contains(&interval_ms));
        saw.map(|(n, _)| *n).collect()
    }

    /// Whose last value was this one.
    pub(crate) fn on(&self, interval_ms: u64) -> Vec<u8> {
        let seen = self.seen.lock().unwrap();
        let on = seen
            .iter()
            .filter(|(_, sent)| sent.last() == Some(&interval_ms));
        on.map(|(n, _)| *n).collect()
    }
}

impl Mate {
    async fn live(mut self) {
        for connection in 1.. {
            self.hello.fence = Some(Fence {
                incarnation: 1,
                connection,
            });
            self.session().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// One stream, until either end ends it.
    async fn session(&mut self) -> Option<()> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).ok()?;
        let channel = endpoint.connect().await.ok()?;
        let (up, outgoing) = mpsc::channel(64);
        let say = |message| FromAgent {
            message: Some(message),
        };
        up.send(say(from_agent::Message::Hello(self.hello.clone())))
            .await
            .ok()?;
        let mut client = SessionServiceClient::new(channel);
        let answer = client.open(ReceiverStream::new(outgoing)).await.ok()?;
        let mut down = answer.into_inner();
        let mut seq = 0;
        loop {
            let pause = tokio::time::sleep(self.pause());
            let message = tokio::select! {
                () = pause => {
                    if self.breaks() {
                        return None;
                    }
                    seq += 1;
                    let ping = Ping { seq, sent_ns: seq, ..Ping::default() };
                    up.send(say(from_agent::Message::Ping(ping))).await.ok()?;
                    continue;
                }
                message = down.message() => message.ok()??,
            };
            let push = match message.message? {
                from_server::Message::Welcome(welcome) => welcome.tuning,
                from_server::Message::Tuning(push) => Some(push),
                from_server::Message::Bye(_) => return None,
                from_server::Message::Pong(_) | from_server::Message::Check(_) => None,
            };
            if let Some(tuning) = push.and_then(|push| push.tuning)
                && let Some(ack) = self.take(tuning)
            {
                up.send(say(from_agent::Message::TuningAck(ack)))
                    .await
                    .ok()?;
            }
        }
    }

    fn take(&mut self, tuning: RevisedTuning) -> Option<TuningAck> {
        let n = self.hello.agent_id[0];
        let mut seen = self.seen.lock().unwrap();
        seen.entry(n).or_default().push(interval_ms(&tuning));
        drop(seen);
        let first = self.hello.applied.is_none();
        let outcome = match self.nature {
            Nature::Mute if !first => return None,
            Nature::Refuses if !first => tuning_ack::Outcome::Refused,
            Nature::Good | Nature::DropsBelow(_) | Nature::Refuses | Nature::Mute => {
                self.hello.applied = Some(tuning);
                tuning_ack::Outcome::Applied
            }
        };
        let refused = outcome == tuning_ack::Outcome::Refused;
        Some(TuningAck {
            revision: tuning.revision,
            hash: tuning.hash,
            outcome: outcome.into(),
            reason: if refused {
                "no".to_owned()
            } else {
                String::new()
            },
            applied: self.hello.applied,
            traceparent: String::new(),
        })
    }

    /// Often enough for every T of these tests; beats are never too early.
    fn pause(&self) -> Duration {
        let interval = self.hello.applied.as_ref().map_or(20_000, interval_ms);
        Duration::from_millis((interval / 2).min(200))
    }

    fn breaks(&self) -> bool {
        let interval = self.hello.applied.as_ref().map_or(20_000, interval_ms);
        matches!(self.nature, Nature::DropsBelow(least) if interval < least)
    }
}

fn interval_ms(tuning: &RevisedTuning) -> u64 {
    let interval = tuning.tuning.and_then(|tuning| tuning.interval_ns);
    interval.unwrap_or_default() / 1_000_000
}
