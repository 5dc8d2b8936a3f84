//! `fleetbeat`: what operators type.
//!
//! `command` talks to the server (one file per family), `view` turns its answers into what is shown
//! (and serialised as JSON), `table` lays views out for people. Exit codes live in `failure`.

mod cli;
mod command;
mod config_file;
mod failure;
mod fleet;
mod format;
mod output;
mod policy_file;
mod settings;
mod table;
mod view;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let line = cli::CommandLine::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            output::tell(&format!("error: cannot start: {error}"));
            return failure::Exit::Failed.into();
        }
    };
    match runtime.block_on(cli::run(line)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if let Some(text) = failure.report() {
                output::tell(&text);
            }
            failure.exit().into()
        }
    }
}
