//! Simulated agents over the real contract: many in one process, each with its own identity, fence
//! and beat schedule, and each counting exactly what it sent.

mod agent;
mod counts;
mod outgoing;
mod session;
mod steady;
#[cfg(test)]
mod tests;
mod timings;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

pub use counts::{Counts, Live, Reading, Report, Told};
pub use timings::Timings;
pub use wire::reason_name;

use agent::Agent;

/// More streams on one connection than this, and a stall costs the whole connection: unread small
/// frames are charged to a budget per connection.
pub const MOST_PER_CONNECTION: u32 = 50;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// HTTP/2 windows, in bytes.
const CONNECTION_WINDOW: u32 = 4 << 20;
const STREAM_WINDOW: u32 = 64 << 10;

/// What a swarm consists of.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server's lane, such as `http://127.0.0.1:4317`.
    pub server: String,
    pub agents: u32,
    /// Agents are dealt to these groups in turn.
    pub groups: Vec<String>,
    /// Names are this, a hyphen and a number.
    pub name_prefix: String,
    pub per_connection: u32,
    /// How many agents start in a second.
    pub per_second: u32,
}

/// Keeps the agents connected until `stop`, then lets each say Goodbye. Yields what each did.
///
/// # Errors
///
/// When the plan makes no sense. An unreachable server is no error: agents retry.
pub async fn run(plan: &Plan, live: &Arc<Live>, stop: &CancellationToken) -> Result<Report> {
    ensure!(plan.agents > 0, "a swarm needs at least one agent");
    ensure!(!plan.groups.is_empty(), "a swarm needs at least one group");
    ensure!(
        plan.per_second > 0,
        "at least one agent has to start in a second"
    );
    ensure!(
        (1..=MOST_PER_CONNECTION).contains(&plan.per_connection),
        "a connection carries 1 to {MOST_PER_CONNECTION} agents",
    );
    let endpoint = endpoint(&plan.server)?;
    let mut running = JoinSet::new();
    let mut channel = endpoint.connect_lazy();
    for (number, group) in (0..plan.agents).zip(plan.groups.iter().cycle()) {
        if number % plan.per_connection == 0 {
            channel = endpoint.connect_lazy();
        }
        let name = format!("{}-{number:05}", plan.name_prefix);
        let agent = Agent::new(name, group.clone(), Arc::clone(live));
        let after = Duration::from_secs(number.into()) / plan.per_second;
        running.spawn(start(agent, channel.clone(), after, stop.clone()));
    }
    Ok(Report::new(running.join_all().await))
}

async fn start(agent: Agent, channel: Channel, after: Duration, stop: CancellationToken) -> Told {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(after) => {}
    }
    agent.run(channel, stop).await
}

fn endpoint(server: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::from_shared(server.to_owned());
    let endpoint = endpoint
        .with_context(|| format!("{server} is no address such as http://127.0.0.1:4317"))?;
    Ok(endpoint
        .connect_timeout(CONNECT_WITHIN)
        .tcp_nodelay(true)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW))
}
