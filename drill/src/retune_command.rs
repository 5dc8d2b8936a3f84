use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fleetbeat_drill::benchmark::{self, Plan};
use fleetbeat_drill::clock;

use crate::interruption::Interruption;

/// Starts a server with a Postgres of its own in a temporary folder and agents in other processes, then
/// retunes the whole fleet from T 8 s to 5 s and back, and a tenth of it to 5 s, while all of them beat.
///
/// Prints what the server counted and what the agents saw, and ends with status 1 when a session was lost
/// or an agent is not accounted for. A p99 of more than two seconds is told as beyond the target; it is no
/// failure, because it says as much about the machine. Progress goes to standard error.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Agents, each with a session of its own; up to 50 share a connection
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    agents: u32,
    /// Processes that the agents are shared out to
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: u32,
    /// Seconds that the fleet beats undisturbed before each round
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=600))]
    calm: u64,
    /// Where to write what was measured, as JSON
    #[arg(long)]
    report: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(retune(arguments))
}

async fn retune(arguments: &Arguments) -> Result<ExitCode> {
    let mut interruption = Interruption::new()?;
    let plan = Plan {
        agents: arguments.agents,
        processes: arguments.processes,
        calm: Duration::from_secs(arguments.calm),
    };
    let began = clock::now();
    let say = |said: &str| {
        let passed = clock::now().saturating_duration_since(began);
        eprintln!("{:>6.1}s  {said}", passed.as_secs_f64());
    };
    let report = tokio::select! {
        report = benchmark::run(&plan, &say) => report?,
        () = interruption.came() => bail!("interrupted before the last round was over"),
    };
    println!("{report}");
    if let Some(path) = &arguments.report {
        let json = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, json + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if report.unexpected.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
