use clap::{CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use crate::cli::CommandLine;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat completions bash > /etc/bash_completion.d/fleetbeat
  fleetbeat completions zsh > ~/.zfunc/_fleetbeat
  fleetbeat completions fish > ~/.config/fish/completions/fleetbeat.fish")]
pub(crate) struct Args {
    #[arg(value_enum)]
    shell: Known,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Known {
    Bash,
    Zsh,
    Fish,
}

pub(crate) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let shell = match args.shell {
        Known::Bash => Shell::Bash,
        Known::Zsh => Shell::Zsh,
        Known::Fish => Shell::Fish,
    };
    // The generator panics when its writer fails, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "fleetbeat", &mut script);
    output.bytes(&script)?;
    Ok(Exit::Done)
}
