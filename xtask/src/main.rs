//! `cargo xtask demo` shows the main job on real processes; `cargo xtask test` checks everything.
//! Both install what the machine lacks and say so.
#![expect(
    clippy::print_stdout,
    reason = "a command-line tool speaks on its standard output"
)]

mod checks;
mod demo;
mod mutants;
mod packages;
mod simulate;
mod skipped;
mod steps;
mod study;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Sets up and runs Fleetbeat's main job and all of its tests"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Builds a release and shows the main job: server, agents, a retune, faults. Stays up until Ctrl-C
    Demo {
        /// Handed to `fleetbeat-drill demo`, such as `--seconds 60 --report report.json`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Plays the studies and writes their tables into docs/detectors.md and docs/storms.md
    Study,
    /// Simulates fleets in virtual time and checks what the design promises
    Simulate {
        /// Handed to `fleetbeat-simulate`, such as `--seeds 1000` or `--seed 7`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Plants bugs in a copy of the product and expects the simulator to find each
    Mutants,
    /// Formatting, lints, dependencies, build, all tests
    Test {
        /// Leaves out the fleets of real processes and the documentation's examples
        #[arg(long)]
        quick: bool,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Demo { arguments } => demo::run(&arguments),
        Task::Study => study::run(),
        Task::Simulate { arguments } => simulate::run(&arguments),
        Task::Mutants => mutants::run(),
        Task::Test { quick } => checks::run(quick),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
