use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::table;
use crate::view::Presets;

/// Show where to start from: T, N and W for a kind of fleet, and which error each of them prefers
///
/// Asks no server. Take one with `fleetbeat tune set --preset NAME`; a preset gives T, N and W, and leaves
/// lease and adaptive mode as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune presets
  fleetbeat tune presets -o json
  fleetbeat tune set --group edge --preset device-gateway --reason 'radio links' --dry-run")]
pub(crate) struct Args {}

pub(super) fn run(Args {}: &Args, output: &mut Output) -> Result<Exit, Failure> {
    output.show(&Presets::all(), table::presets)?;
    Ok(Exit::Done)
}
