use fleetbeat_proto::v1;

use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::Output;
use crate::settings::Settings;
use crate::{table, view};

/// Show the policies, and what they give one group or agent
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune show
  fleetbeat tune show --group edge
  fleetbeat tune show --agent web-1 --output json | jq .effective")]
pub(crate) struct Args {
    /// Also what is in force for this group
    #[arg(long, short, value_name = "G", conflicts_with = "agent")]
    group: Option<String>,
    /// Also what is in force for this agent: id, beginning of one, or name
    #[arg(long, short, value_name = "A")]
    agent: Option<String>,
}

pub(super) async fn run(
    args: Args,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let request = v1::GetTuningRequest {
        agent: args.agent.unwrap_or_default(),
        group: args.group.unwrap_or_default(),
    };
    let answer = Fleet::connect(settings).await?.tuning(request).await?;
    output.show(&view::Policies::from_wire(answer), table::policies)?;
    Ok(Exit::Done)
}
