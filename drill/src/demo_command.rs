use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fleetbeat_drill::clock;
use fleetbeat_drill::story::{Plan, Report, Story};

use crate::interruption::Interruption;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Ends after this many seconds, or when the story is over if that is later; without it, at Ctrl-C
    #[arg(long)]
    seconds: Option<u64>,
    /// Where to write what was measured, as JSON
    #[arg(long)]
    report: Option<PathBuf>,
    /// Real agent processes, in two groups
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(4..=200))]
    agents: u16,
    /// Simulated agents
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    simulated: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(demo(arguments))
}

async fn demo(arguments: &Arguments) -> Result<ExitCode> {
    let mut interruption = Interruption::new()?;
    let ends = arguments
        .seconds
        .map(|seconds| clock::now() + Duration::from_secs(seconds));
    let plan = Plan {
        agents: arguments.agents.into(),
        simulated: arguments.simulated,
    };
    let told = async {
        let mut story = Story::open(plan).await?;
        story.play().await;
        anyhow::Ok(story)
    };
    let story = tokio::select! {
        story = told => story?,
        () = interruption.came() => bail!("interrupted before the story was over"),
    };
    let until_over = async {
        match ends {
            Some(ends) => tokio::time::sleep_until(ends.into()).await,
            None => std::future::pending().await,
        }
    };
    if ends.is_none() {
        println!("\n{}", story.invitation()?);
    }
    tokio::select! {
        () = until_over => {}
        () = interruption.came() => {}
    }
    let report = tokio::select! {
        report = story.close() => report,
        () = interruption.came() => bail!("interrupted before the accounts were settled"),
    };
    println!("\n{}", report.table());
    if let Some(path) = &arguments.report {
        write(&report, path)?;
    }
    Ok(if report.unexpected.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn write(report: &Report, path: &Path) -> Result<()> {
    let json = serde_json::to_string_pretty(report)?;
    std::fs::write(path, json + "\n").with_context(|| format!("cannot write {}", path.display()))
}
