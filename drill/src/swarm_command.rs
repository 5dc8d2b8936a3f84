use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use fleetbeat_drill::swarm::{Live, MOST_PER_CONNECTION, Plan, run as run_swarm};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

const SHOW_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server's lane, such as <http://127.0.0.1:4317>
    #[arg(long)]
    server: String,
    #[arg(long)]
    agents: u32,
    /// Groups, to which the agents are dealt in turn
    #[arg(long, value_delimiter = ',', default_value = "default")]
    groups: Vec<String>,
    /// Ends after this many seconds; without it, at SIGTERM or Ctrl-C
    #[arg(long)]
    seconds: Option<u64>,
    /// Where to write what each agent did, as JSON
    #[arg(long)]
    report: Option<PathBuf>,
    /// Where to write when each tuning arrived and how long each round trip took, as JSON
    #[arg(long)]
    timings: Option<PathBuf>,
    #[arg(long, default_value = "sim")]
    name_prefix: String,
    #[arg(long, default_value_t = MOST_PER_CONNECTION)]
    per_connection: u32,
    /// How many agents start in a second
    #[arg(long, default_value_t = 500)]
    per_second: u32,
}

/// One thread is enough for thousands of agents and spares their beats the way between threads.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(swarm(arguments))
}

async fn swarm(arguments: Arguments) -> Result<ExitCode> {
    let plan = Plan {
        server: arguments.server,
        agents: arguments.agents,
        groups: arguments.groups,
        name_prefix: arguments.name_prefix,
        per_connection: arguments.per_connection,
        per_second: arguments.per_second,
    };
    let live = Arc::new(match arguments.timings {
        Some(_) => Live::timed(),
        None => Live::default(),
    });
    let stop = CancellationToken::new();
    let running = run_swarm(&plan, &live, &stop);
    let until_stop = async {
        show_until_end(&live, arguments.seconds).await?;
        stop.cancel();
        anyhow::Ok(())
    };
    let (report, ()) = tokio::try_join!(running, until_stop)?;
    if let Some(path) = &arguments.timings {
        write(path, &live.timings())?;
    }
    if let Some(path) = &arguments.report {
        write(path, &report)?;
    }
    println!("{}", serde_json::to_string(&report.total)?);
    Ok(if report.total.left {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn write(path: &Path, told: &impl serde::Serialize) -> Result<()> {
    let json = serde_json::to_vec(told)?;
    std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))
}

/// A line of counts each second, until the time is over or a signal comes.
async fn show_until_end(live: &Live, seconds: Option<u64>) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut ticks = tokio::time::interval(SHOW_EVERY);
    let mut passed = 0;
    loop {
        tokio::select! {
            _ = terminated.recv() => return Ok(()),
            _ = interrupted.recv() => return Ok(()),
            _ = ticks.tick() => {
                println!("{}", serde_json::to_string(&live.read(passed))?);
                std::io::stdout().flush()?;
                if seconds.is_some_and(|seconds| passed >= seconds) {
                    return Ok(());
                }
                passed += 1;
            }
        }
    }
}
