//! What a retune of a large live fleet costs: a real server with a Postgres of its own, agents in other
//! processes over real sockets, every one of them beating, and the tuning of all of them changed.

mod figures;
mod report;
mod round;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;

pub use figures::{Spread, spread};
pub use report::{Clients, Report, Round, Trips};

use crate::clock;
use crate::stage::{self, Crowd, Muster, Operator, Place, Stage, tuning};
use crate::swarm::{self, MOST_PER_CONNECTION, Timings};
use round::Step;

/// Groups to which the agents are dealt in turn, so that one of them is a tenth of the fleet.
const GROUPS: [&str; 10] = [
    "cell-0", "cell-1", "cell-2", "cell-3", "cell-4", "cell-5", "cell-6", "cell-7", "cell-8",
    "cell-9",
];
/// T before the first round and after the second.
const CALM: Duration = Duration::from_secs(8);
/// T that the fleet is hurried to.
const QUICK: Duration = Duration::from_secs(5);
const MISSES: u32 = 3;
const TIMEOUT: Duration = Duration::from_secs(2);
/// Agents that connect in a second: a server of default settings admits 1000.
const PER_SECOND: u32 = 800;
const SETTLE_WITHIN: Duration = Duration::from_mins(2);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub agents: u32,
    /// Processes that the agents are shared out to.
    pub processes: u32,
    /// How long the fleet beats undisturbed before each round.
    pub calm: Duration,
}

/// Runs the three rounds and yields what came of them. `say` is told how far it is.
///
/// # Errors
///
/// When the plan makes no sense, a program is missing, or the fleet does not come together.
pub async fn run(plan: &Plan, say: &impl Fn(&str)) -> Result<Report> {
    ensure!(
        plan.processes > 0 && plan.processes <= plan.agents,
        "{} agents cannot be shared out to {} processes: give --processes between 1 and --agents",
        plan.agents,
        plan.processes,
    );
    say("Starting the server with a Postgres of its own");
    let stage = Stage::start(stage::Plan::default()).await?;
    measure(plan, &stage, say)
        .await
        .with_context(|| stage.tails())
}

async fn measure(plan: &Plan, stage: &Stage, say: &impl Fn(&str)) -> Result<Report> {
    let operator = stage.operator()?;
    operator
        .retune(None, tuning(CALM, MISSES, TIMEOUT), "the benchmark begins")
        .await?;
    let began = clock::now();
    let crowds = muster(plan, stage)?;
    gathered(plan, &operator, say).await?;
    let connected_in = clock::now().saturating_duration_since(began);
    let before = sessions(&operator).await?;

    let mut measured = Vec::new();
    for step in steps() {
        say(&format!(
            "Round {}: {:?} of calm, then {step}",
            step.name, plan.calm
        ));
        let done = step.play(&operator, plan.calm).await?;
        say(&format!("Round {}: {}", step.name, done.account()));
        measured.push(done);
    }

    let after = sessions(&operator).await?;
    say("Letting the agents leave");
    let (swarms, timings) = leave(crowds).await?;
    let mut report = Report::new(plan.agents, plan.processes, connected_in);
    report.sessions_lost = count(
        before
            .iter()
            .filter(|(id, had)| after.get(*id) != Some(had)),
    );
    report.clients = Clients::of(&swarms, &timings);
    report.rounds = measured
        .into_iter()
        .map(|done| done.with(&timings))
        .collect();
    report.judge();
    Ok(report)
}

fn steps() -> [Step; 3] {
    let step = |name, group, from, to| Step {
        name,
        group,
        from,
        to,
    };
    [
        step("up", None, CALM, QUICK),
        step("down", None, QUICK, CALM),
        step("group", Some(GROUPS[0]), CALM, QUICK),
    ]
}

/// Starts the agents' processes, which connect at once and at a rate that the server admits.
fn muster(plan: &Plan, stage: &Stage) -> Result<Vec<Crowd>> {
    let place = Place::beside(stage.server.endpoints()?.lane);
    let crowd = |number: u32| {
        let extra = u32::from(number < plan.agents % plan.processes);
        let muster = Muster {
            prefix: &format!("bench-{number}"),
            agents: plan.agents / plan.processes + extra,
            groups: &GROUPS,
            per_connection: MOST_PER_CONNECTION,
            per_second: Some((PER_SECOND / plan.processes).max(1)),
            timed: true,
        };
        stage.muster(&place, &muster)
    };
    (0..plan.processes).map(crowd).collect()
}

/// Waits until everybody is online and has acknowledged the tuning of the Welcome.
async fn gathered(plan: &Plan, operator: &Operator, say: &impl Fn(&str)) -> Result<()> {
    let deadline =
        clock::now() + SETTLE_WITHIN + Duration::from_secs(plan.agents.into()) / PER_SECOND;
    loop {
        let status = operator.status().await?;
        let online = status.verdicts.unwrap_or_default().online;
        say(&format!("{online} of {} agents are online", plan.agents));
        if online == u64::from(plan.agents) && status.drifting == 0 {
            return Ok(());
        }
        ensure!(
            clock::now() < deadline,
            "only {online} of {} agents came online, and {} did not acknowledge their tuning",
            plan.agents,
            status.drifting,
        );
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Session of each live agent.
async fn sessions(operator: &Operator) -> Result<BTreeMap<String, String>> {
    let agents = operator.agents(None).await?.into_iter();
    Ok(agents
        .filter_map(|agent| Some((agent.agent_id, agent.session_id?)))
        .collect())
}

async fn leave(crowds: Vec<Crowd>) -> Result<(Vec<swarm::Report>, Vec<Timings>)> {
    let left = try_join_all(crowds.into_iter().map(Crowd::leave_timed)).await?;
    Ok(left.into_iter().unzip())
}

fn count<T>(of: impl Iterator<Item = T>) -> u64 {
    u64::try_from(of.count()).unwrap_or(u64::MAX)
}
