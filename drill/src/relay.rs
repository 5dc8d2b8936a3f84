//! A TCP relay that misbehaves on demand: what networks and the boxes in them do to a flow, as far as
//! one that ends TCP on both sides can do it.
//!
//! It delays, limits, stops without a word, holds back ends, resets, cuts what is idle, forgets flows,
//! and takes connections without saying anything; each way apart, for all flows or for a share of them,
//! and differently at any moment. The kernels of both peers see every segment acknowledged, so what
//! they do about loss is not tested with it.

mod arrivals;
mod command;
mod counts;
mod cut;
mod faults;
mod flow;
mod orders;
mod pipe;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use arrivals::busiest;
pub use command::{Command, GRAMMAR};
pub use counts::Tally;
pub use faults::{Cut, Direction, Faults, Idle, Plan, Share, Way};

use counts::Counts;

/// Pause after the system refused a connection, for want of descriptors.
const AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// A relay that runs; it ends, with its flows, when dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    plan: watch::Sender<Plan>,
    counts: Arc<Counts>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// Takes connections at `listen` and leads each to `to`, faultlessly until told otherwise.
    pub async fn start(listen: SocketAddr, to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        let (plan, told) = watch::channel(Plan::default());
        let counts = Arc::new(Counts::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, to, told, Arc::clone(&counts)));
        Ok(Self {
            address,
            plan,
            counts,
            _tasks: tasks,
        })
    }

    /// Where it takes connections.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens to flows, those that are open included.
    pub fn obey(&self, command: &Command) {
        self.plan.send_modify(|plan| command.apply(plan));
    }

    /// [`Self::obey`] of a line in the [`GRAMMAR`].
    pub fn tell(&self, line: &str) -> Result<()> {
        self.obey(&line.parse()?);
        Ok(())
    }

    /// What it did so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.counts.read()
    }

    /// When connections came, since the start; the first 1,000,000 of them.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Duration> {
        self.counts.arrivals.read()
    }
}

async fn accept(
    listener: TcpListener,
    to: SocketAddr,
    plan: watch::Receiver<Plan>,
    counts: Arc<Counts>,
) {
    let mut flows = JoinSet::new();
    for number in 0.. {
        let client = loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => break client,
                    Err(error) => {
                        tracing::warn!(%error, "Connection could not be taken");
                        tokio::time::sleep(AFTER_REFUSAL).await;
                    }
                },
                Some(_) = flows.join_next() => {}
            }
        };
        counts.accepted();
        flows.spawn(flow::run(
            client,
            to,
            number,
            plan.clone(),
            Arc::clone(&counts),
        ));
    }
}
