//! The command line: global options and the families of commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::command::{agents, completions, events, incidents, status, tune};
use crate::config_file::ConfigFile;
use crate::failure::{EXIT_CODES, Exit, Failure};
use crate::output::{Output, Shape};
use crate::settings::Settings;

const AFTER_HELP: &str = "\
Examples:
  fleetbeat status
  fleetbeat agents list --verdict suspect,offline
  fleetbeat events --follow --group edge
  fleetbeat tune set --group edge --interval 5s --reason 'find dead gateways sooner'

The server and the token come from, in this order: options, the environment (FLEETBEAT_SERVER,
FLEETBEAT_TOKEN, FLEETBEAT_TOKEN_FILE), the config file (keys server, token, token_file, ca,
allow_plaintext, output), the defaults.

";

const SERVER_HELP: &str = "Address of the server's operator port [default: http://127.0.0.1:7602]";

/// Watch and tune a fleet that keeps heartbeats with a Fleetbeat server.
#[derive(Debug, Parser)]
#[command(
    name = "fleetbeat",
    version,
    after_help = format!("{AFTER_HELP}{EXIT_CODES}"),
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    #[arg(long, global = true, value_name = "URL", help = SERVER_HELP)]
    pub(crate) server: Option<String>,
    /// Token itself; other users of this machine can see it, so rather name a file
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        conflicts_with = "token_file"
    )]
    pub(crate) token: Option<String>,
    /// File with the token, `-` for standard input
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate authority of an https server, PEM [default: those that the system trusts]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Talk http to a server on another machine, though everyone on the way can read the token
    #[arg(long, global = true)]
    pub(crate) allow_plaintext: bool,
    /// Shape of the result [default: table]
    #[arg(long, short, global = true, value_enum)]
    pub(crate) output: Option<Shape>,
    /// Config file [default: ~/.config/fleetbeat/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::Args),
    #[command(subcommand)]
    Agents(agents::Command),
    Events(events::Args),
    Incidents(incidents::Args),
    #[command(subcommand)]
    Tune(Box<tune::Command>),
    Completions(completions::Args),
}

pub(crate) async fn run(line: CommandLine) -> Result<Exit, Failure> {
    if let Command::Completions(args) = line.command {
        return completions::run(&args, &mut Output::new(Shape::Table));
    }
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let file = ConfigFile::find(line.globals.config.as_deref(), environment)?;
    let settings = Settings::resolve(line.globals, environment, file)?;
    let mut output = Output::new(settings.shape);
    match line.command {
        Command::Status(_) => status::run(&settings, &mut output).await,
        Command::Agents(command) => agents::run(command, &settings, &mut output).await,
        Command::Events(args) => events::run(&args, &settings, &mut output).await,
        Command::Incidents(args) => incidents::run(&args, &settings, &mut output).await,
        Command::Tune(command) => Box::pin(tune::run(*command, &settings, &mut output)).await,
        Command::Completions(args) => completions::run(&args, &mut output),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_that_does_something_shows_an_example() {
        fn leaves(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            if command.has_subcommands() {
                command.get_subcommands().for_each(|sub| leaves(sub, &path));
            } else {
                let help = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(
                    help.contains("Examples:\n  fleetbeat "),
                    "`{path}` has no example"
                );
            }
        }
        CommandLine::command()
            .get_subcommands()
            .for_each(|sub| leaves(sub, "fleetbeat"));
    }
}
