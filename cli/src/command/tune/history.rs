use fleetbeat_proto::v1;

use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::Output;
use crate::settings::Settings;
use crate::{table, view};

/// List revisions, newest first: who changed what, and why
///
/// LIVE counts the agents on which a revision is the one last applied, DRIFT those that were sent it last and do
/// not run it: they have not answered, or refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune history
  fleetbeat tune history -n 100 --output json | jq '.revisions[] | {revision, author, reason}'")]
pub(crate) struct Args {
    /// How many
    #[arg(short = 'n', long = "recent", value_name = "COUNT", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    recent: u32,
}

pub(super) async fn run(
    args: &Args,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let request = v1::ListRevisionsRequest {
        page_size: args.recent,
        before_revision: None,
    };
    let answer = Fleet::connect(settings).await?.revisions(request).await?;
    let revisions = answer
        .revisions
        .into_iter()
        .map(view::Revision::from_wire)
        .collect();
    output.show(&view::Revisions { revisions }, table::revisions)?;
    Ok(Exit::Done)
}
