//! `fleetbeat-simulate`: runs seeds, or replays one.
#![expect(
    clippy::print_stdout,
    reason = "a command-line tool speaks on its standard output"
)]

mod report;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use fleetbeat_simulation::{Options, Outcome, Tally, run};

/// Seeds between two lines of progress.
const PROGRESS: u64 = 20;

#[derive(Debug, Parser)]
#[command(about = "Simulates fleets and checks what the design promises")]
struct Arguments {
    /// Replays this seed alone and tells what happens to whoever a promise was broken to
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds to run
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them; drawn at random unless given
    #[arg(long)]
    from: Option<u64>,
    /// Agents of each fleet, 20 to 80 unless given
    #[arg(long)]
    agents: Option<usize>,
    /// Virtual minutes in which faults strike, 5 to 12 unless given
    #[arg(long)]
    minutes: Option<u32>,
    /// One server, the default tuning, and no fault but hosts that lose power: how late verdicts are
    #[arg(long)]
    calm: bool,
    /// Goes on after a broken promise and tells one line of each
    #[arg(long)]
    keep_going: bool,
    /// Prints every line of the replayed seed
    #[arg(long, requires = "seed")]
    trace: bool,
    #[arg(long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let (from, seeds) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (arguments.from.unwrap_or_else(fresh), arguments.seeds),
    };
    let began = clock();
    let mut tally = Tally::default();
    let mut broken = 0;
    for seed in from..from.saturating_add(seeds) {
        let options = arguments.options(seed);
        let outcome = run(&options, arguments.trace);
        tally.add(&outcome.tally);
        if arguments.trace {
            outcome.lines.iter().for_each(|line| println!("{line}"));
        }
        if let Some(violation) = &outcome.violation {
            broken += 1;
            if !arguments.keep_going {
                report::broken(&options, violation, arguments.output)?;
                return Ok(ExitCode::FAILURE);
            }
        }
        arguments.progress(seed, seed - from + 1, &outcome, began);
    }
    report::summary(from, seeds, broken, &tally, arguments.output)?;
    Ok(if broken > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

impl Arguments {
    fn options(&self, seed: u64) -> Options {
        Options {
            seed,
            agents: self.agents,
            minutes: self.minutes,
            calm: self.calm,
            ..Options::default()
        }
    }

    fn progress(&self, seed: u64, ran: u64, outcome: &Outcome, began: Instant) {
        if self.output == Form::Json {
            return;
        }
        if let Some(violation) = &outcome.violation {
            let (invariant, text) = (violation.invariant, &violation.text);
            println!("Seed {seed} breaks invariant {invariant}: {text}");
        }
        if ran.is_multiple_of(PROGRESS) {
            let ran_for = clock().saturating_duration_since(began).as_millis();
            println!("{ran} of {} seeds after {ran_for} ms", self.seeds);
        }
    }
}

/// A first seed that leaves room for many.
fn fresh() -> u64 {
    u64::from(rand::random::<u32>()) << 16
}

#[expect(
    clippy::disallowed_methods,
    reason = "real time, for the rate of seeds alone"
)]
fn clock() -> Instant {
    Instant::now()
}
