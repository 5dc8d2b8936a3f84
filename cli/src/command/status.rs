use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::Output;
use crate::settings::Settings;
use crate::{table, view};

/// Show the server, its fleet and whether it is well, on one page
///
/// T is the interval, N the misses, W the timeout; an agent is offline D = N·T + W after its last
/// message. A recorder that waits keeps its records in memory until Postgres is back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat status
  fleetbeat status --output json | jq '.recorder.backlog_rows'")]
pub(crate) struct Args {}

pub(crate) async fn run(settings: &Settings, output: &mut Output) -> Result<Exit, Failure> {
    let answer = Fleet::connect(settings).await?.status().await?;
    let status = view::Status::from_wire(answer, settings.server.to_string());
    output.show(&status, table::status)?;
    Ok(Exit::Done)
}
