mod file;
mod history;
mod how;
mod meter;
mod parts;
mod plan;
mod presets;
mod report;
mod rollout;
mod set;
mod show;
mod stages;
mod watch;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::settings::Settings;

/// See and change the tuning of the live fleet: interval T, misses N, timeout W
///
/// An agent beats at least once in T and is offline D = N·T + W after its last message. A change makes
/// a revision, goes to every live agent whose value changes, and never reconnects one.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Show(show::Args),
    Presets(presets::Args),
    Plan(plan::Args),
    Set(set::Set),
    Unset(set::Unset),
    Export(file::Export),
    Diff(file::Diff),
    Apply(file::Apply),
    Rollback(set::Rollback),
    Watch(watch::Args),
    #[command(subcommand)]
    Rollout(rollout::Command),
    History(history::Args),
    Report(report::Args),
}

pub(crate) async fn run(
    command: Command,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    match command {
        Command::Show(args) => show::run(args, settings, output).await,
        Command::Presets(args) => presets::run(&args, output),
        Command::Plan(args) => plan::run(&args, settings, output).await,
        Command::Set(set) => set::set(set, settings, output).await,
        Command::Unset(unset) => set::unset(unset, settings, output).await,
        Command::Export(args) => file::export(&args, settings, output).await,
        Command::Diff(args) => file::diff(args, settings, output).await,
        Command::Apply(args) => file::apply(args, settings, output).await,
        Command::Rollback(rollback) => set::rollback(rollback, settings, output).await,
        Command::Watch(args) => watch::run(&args, settings, output).await,
        Command::Rollout(command) => rollout::run(command, settings, output).await,
        Command::History(args) => history::run(&args, settings, output).await,
        Command::Report(args) => report::run(&args, settings, output).await,
    }
}
