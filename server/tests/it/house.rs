//! Lanes, registry and judge of a server, without Postgres.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::Keepalive;
use fleetbeat_liveness::cause::Settled;
use fleetbeat_liveness::condition::Condition;
use fleetbeat_liveness::grounds::{Grounds, Silence};
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::policy::{Policy, Selector};
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::CloseReason;
use fleetbeat_server::clock::Clock;
use fleetbeat_server::judge::{Judge, Pulse};
use fleetbeat_server::lane::{self, Gate, Lane, bind};
use fleetbeat_server::registry::{Agent, AgentView, Rates, Registry, Session, Transition};
use rustls::ServerConfig;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::actor::tuning;

/// Longest wait for anything; a level that is not reached by then never is.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server's fast path on free ports of the loopback.
pub(crate) struct House {
    registry: Arc<Registry>,
    pub(crate) address: SocketAddr,
    judge: Judge,
    _stop: DropGuard,
}

impl House {
    pub(crate) fn open(lanes: usize) -> Self {
        Self::build(lanes, None, Rates::default())
    }

    /// As [`Self::open`], of a server that opens so many sessions per second.
    pub(crate) fn open_narrow(admission_per_s: u64) -> Self {
        let rates = Rates {
            admission_per_s,
            ..Rates::default()
        };
        Self::build(1, None, rates)
    }

    /// As [`Self::open`], behind a gate that speaks TLS.
    pub(crate) fn open_gated(lanes: usize, tls: Arc<ServerConfig>) -> Self {
        Self::build(lanes, Some(tls), Rates::default())
    }

    fn build(lanes: usize, tls: Option<Arc<ServerConfig>>, rates: Rates) -> Self {
        let registry = Arc::new(Registry::new(Clock::start(), lanes, rates));
        let hard = CancellationToken::new();
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut listeners = vec![listener];
        if tls.is_none() {
            listeners.extend((1..lanes).map(|_| bind(address).unwrap()));
        }
        let told = lane::Options {
            server: "house".to_owned(),
            keepalive: Keepalive::default(),
        };
        let start = |index| {
            let own = if tls.is_none() { listeners.pop() } else { None };
            let soft = hard.child_token();
            Lane::start(index, &registry, &told, own, soft, hard.clone()).unwrap()
        };
        let running: Vec<Lane> = (0..lanes).map(start).collect();
        if let Some(tls) = tls {
            let gated = listeners.pop().unwrap();
            Gate::start(gated, tls, &running, hard.child_token()).unwrap();
        }
        let died = |lane| panic!("lane {lane} died");
        let judge = Judge::start(Arc::clone(&registry), died).unwrap();
        Self {
            registry,
            address,
            judge,
            _stop: hard.drop_guard(),
        }
    }

    pub(crate) fn shared(&self) -> Arc<Registry> {
        Arc::clone(&self.registry)
    }

    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(self.judge.pulse())
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn now(&self) -> Moment {
        self.registry.clock().now()
    }

    /// Gives the group of agent `n` a policy: T and W in milliseconds.
    pub(crate) fn policy(&self, n: u8, timing: (u64, u32, u64)) {
        let policies = self.registry.policies();
        let next = policies.with(Policy::whole(
            Selector::group(format!("g{n}")),
            tuning(timing),
        ));
        self.registry
            .set_policies(Arc::new(next.at_revision(policies.revision() + 1)));
    }

    pub(crate) fn agent(&self, n: u8) -> Arc<Agent> {
        self.registry
            .get(Uuid::from_bytes([n; 16]))
            .expect("known agent")
    }

    pub(crate) fn view(&self, n: u8) -> AgentView {
        let clock = self.registry.clock();
        self.agent(n).view(clock.now(), clock.wall())
    }

    pub(crate) fn session(&self, n: u8) -> Arc<Session> {
        self.agent(n).session().expect("live session")
    }

    pub(crate) async fn until(&self, level: impl Fn() -> bool) {
        let wait = async {
            while !level() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .expect("the level is reached");
    }

    pub(crate) async fn verdict(&self, n: u8, verdict: Verdict) {
        self.until(|| self.view(n).verdict == verdict).await;
    }

    pub(crate) fn has(&self, n: u8, condition: Condition) -> bool {
        self.agent(n).conditions().contains(&condition)
    }

    /// What the verdict of agent `n` rests on.
    pub(crate) fn grounds(&self, n: u8) -> Arc<Grounds> {
        self.view(n).grounds.expect("a verdict of this run")
    }

    pub(crate) fn silence(&self, n: u8) -> Silence {
        let silence = self.grounds(n).silence.clone();
        silence.expect("a verdict about an agent that was heard")
    }

    /// Waits for `told` in the journal of agent `n`, and takes what is before it out.
    pub(crate) async fn told<T>(&self, n: u8, told: impl Fn(Transition) -> Option<T>) -> T {
        let agent = self.agent(n);
        let wait = async {
            loop {
                let entries = agent.take_journal().into_iter();
                if let Some(found) = entries.map(|entry| entry.what).find_map(&told) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, wait).await;
        found.expect("the journal tells it")
    }

    /// Why agent `n` lost a session, and which.
    pub(crate) async fn cause(&self, n: u8) -> (Uuid, Settled) {
        let settled = |what| {
            let Transition::CauseSettled { session, settled } = what else {
                return None;
            };
            Some((session, settled))
        };
        self.told(n, settled).await
    }

    pub(crate) async fn ended(&self, session: &Session) {
        self.until(|| session.ending().is_some()).await;
    }

    pub(crate) async fn sessions_left(&self, count: u64) {
        self.until(|| self.registry.session_count() == count).await;
    }

    /// Close reasons in the journal of agent `n`, once there is one.
    pub(crate) async fn closings(&self, n: u8) -> Vec<CloseReason> {
        let mut reasons = Vec::new();
        let agent = self.agent(n);
        for _ in 0..PATIENCE.as_millis() / 2 {
            for entry in agent.take_journal() {
                if let Transition::SessionClosed { reason, .. } = entry.what {
                    reasons.push(reason);
                }
            }
            if !reasons.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        reasons
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.judge.stop();
    }
}
