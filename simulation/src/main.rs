//! `fleetbeat-simulate`: runs seeds, or replays one.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use fleetbeat_simulation::{Options, Tally, Violation, run, story};

#[derive(Parser)]
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
    /// Goes on after a broken promise and tells one line of each
    #[arg(long)]
    keep_going: bool,
    /// Prints every line of the replayed seed
    #[arg(long, requires = "seed")]
    trace: bool,
    #[arg(long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let (from, seeds) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (
            arguments
                .from
                .unwrap_or_else(|| u64::from(rand::random::<u32>())),
            arguments.seeds,
        ),
    };
    let clock = clock();
    let mut tally = Tally::default();
    let (mut ran, mut broken) = (0, 0);
    for seed in from..from.saturating_add(seeds) {
        let options = Options {
            seed,
            agents: arguments.agents,
            minutes: arguments.minutes,
            ..Options::default()
        };
        let outcome = run(&options, arguments.trace);
        tally.add(&outcome.tally);
        ran += 1;
        if arguments.trace {
            for line in &outcome.lines {
                println!("{line}");
            }
        }
        if let Some(violation) = outcome.violation {
            broken += 1;
            if arguments.keep_going {
                println!(
                    "seed {seed} breaks invariant {}: {}",
                    violation.invariant, violation.text
                );
                continue;
            }
            report(&options, &violation, arguments.output)?;
            return Ok(ExitCode::FAILURE);
        }
        if arguments.output == Form::Text && ran % 20 == 0 {
            let rate = f64::from(ran) / clock.elapsed().as_secs_f64();
            println!("{ran} of {seeds} seeds, {rate:.1} a second");
        }
    }
    if broken > 0 {
        println!("{broken} of {ran} seeds broke a promise");
        return Ok(ExitCode::FAILURE);
    }
    summary(from, ran, &tally, arguments.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the seed once more, listening.
fn report(options: &Options, violation: &Violation, form: Form) -> Result<()> {
    let told = run(options, true);
    let lines = story(&told.lines, violation);
    if form == Form::Json {
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        let report = serde_json::json!({
            "seed": options.seed,
            "invariant": violation.invariant,
            "violation": violation.text,
            "story": lines,
        });
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    for line in lines {
        println!("{line}");
    }
    println!();
    println!(
        "Seed {} breaks invariant {}: {}",
        options.seed, violation.invariant, violation.text
    );
    println!(
        "Replay it with `fleetbeat-simulate --seed {}`",
        replay(options)
    );
    Ok(())
}

fn replay(options: &Options) -> String {
    let mut words = options.seed.to_string();
    if let Some(agents) = options.agents {
        words += &format!(" --agents {agents}");
    }
    if let Some(minutes) = options.minutes {
        words += &format!(" --minutes {minutes}");
    }
    words
}

fn summary(from: u64, ran: u32, tally: &Tally, form: Form) -> Result<()> {
    if form == Form::Json {
        let summary = serde_json::json!({ "from": from, "seeds": ran, "tally": tally });
        println!("{}", serde_json::to_string_pretty(&summary)?);
        return Ok(());
    }
    println!("{ran} seeds from {from}: every promise was kept");
    println!(
        "  {} h of virtual time, {} events, {} beats",
        tally.virtual_seconds / 3_600,
        tally.events,
        tally.beats
    );
    println!(
        "  sessions {}, convictions {}, pushes {}",
        tally.opened, tally.convictions, tally.pushes
    );
    for (what, counts) in [
        ("endings", &tally.endings),
        ("verdicts", &tally.verdicts),
        ("faults", &tally.faults),
    ] {
        let counts: Vec<_> = counts
            .iter()
            .map(|(word, count)| format!("{word} {count}"))
            .collect();
        println!("  {what}: {}", counts.join(", "));
    }
    let lateness = [50, 99, 100].map(|percent| tally.lateness(percent).unwrap_or_default());
    println!(
        "  lateness of convictions p50 {:.1?}, p99 {:.1?}, max {:.1?}",
        lateness[0], lateness[1], lateness[2]
    );
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "real time, for the rate of seeds alone"
)]
fn clock() -> Instant {
    Instant::now()
}
