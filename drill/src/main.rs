//! `fleetbeat-drill`: load and the demonstration.
#![expect(
    clippy::print_stdout,
    reason = "a command-line tool speaks on its standard output"
)]

mod demo_command;
mod swarm_command;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "fleetbeat-drill",
    version,
    about = "Load, faults and the demonstration of Fleetbeat"
)]
struct Arguments {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(Subcommand)]
enum Drill {
    /// Simulated agents over the real contract, until SIGTERM or for some seconds
    Swarm(swarm_command::Arguments),
    /// The main job as a story on real processes; stays up until Ctrl-C
    Demo(demo_command::Arguments),
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().drill {
        Drill::Swarm(arguments) => swarm_command::run(arguments),
        Drill::Demo(arguments) => demo_command::run(&arguments),
    }
}
