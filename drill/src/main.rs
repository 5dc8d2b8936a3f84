//! `fleetbeat-drill`: load, benchmarks and the demonstration.
#![expect(
    clippy::print_stdout,
    reason = "a command-line tool speaks on its standard output"
)]

mod demo_command;
mod interruption;
mod relay_command;
mod retune_command;
mod swarm_command;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "fleetbeat-drill",
    version,
    about = "Load, faults, benchmarks and the demonstration of Fleetbeat"
)]
struct Arguments {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(Subcommand)]
enum Drill {
    /// Simulated agents over the real contract, until SIGTERM or for some seconds
    Swarm(swarm_command::Arguments),
    /// A TCP relay that misbehaves as told, until SIGTERM or Ctrl-C
    Relay(relay_command::Arguments),
    /// How fast a large live fleet takes another tuning, and what its heartbeats notice of it
    Retune(retune_command::Arguments),
    /// The main job as a story on real processes; stays up until Ctrl-C
    Demo(demo_command::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().drill {
        Drill::Swarm(arguments) => swarm_command::run(arguments),
        Drill::Relay(arguments) => relay_command::run(&arguments),
        Drill::Retune(arguments) => retune_command::run(&arguments),
        Drill::Demo(arguments) => demo_command::run(&arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
