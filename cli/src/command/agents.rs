use clap::{Subcommand, ValueEnum};
use fleetbeat_proto::v1;

use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::Output;
use crate::settings::Settings;
use crate::{table, view};

/// Agents that are asked for at once.
const PAGE: u32 = 500;

/// See the agents and what the server can say about them
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    List(List),
    Show(Show),
}

/// List agents by name with verdict, tuning and round trip
///
/// SEEN is the age of the last valid message, T/N/W the tuning that the agent applied last. FLAGS are
/// conditions beside the verdict, `drifting` while the applied tuning is not the desired one, and
/// `refused` when the agent refused it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat agents list
  fleetbeat agents list --group edge --verdict suspect,offline
  fleetbeat agents list --match web- --limit 20
  fleetbeat agents list --verdict offline --output json | jq -r '.agents[].name'")]
pub(crate) struct List {
    /// Only this group
    #[arg(long, short, value_name = "G")]
    group: Option<String>,
    /// Only these verdicts, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "VERDICT")]
    verdict: Vec<Verdict>,
    /// Only agents with this in their name, or at the beginning of their id
    #[arg(long = "match", value_name = "TEXT")]
    matching: Option<String>,
    /// At most so many [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

/// Show one agent: verdict and why, tuning, sessions, events
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat agents show web-1
  fleetbeat agents show 0198c3f2
  fleetbeat agents show web-1 --output json | jq -r .because")]
pub(crate) struct Show {
    /// Id, unambiguous beginning of one, or unambiguous name
    agent: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verdict {
    Online,
    Suspect,
    Offline,
    Left,
    Unknown,
}

impl From<Verdict> for v1::Verdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Online => Self::Online,
            Verdict::Suspect => Self::Suspect,
            Verdict::Offline => Self::Offline,
            Verdict::Left => Self::Left,
            Verdict::Unknown => Self::Unknown,
        }
    }
}

pub(crate) async fn run(
    command: Command,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut fleet = Fleet::connect(settings).await?;
    match command {
        Command::List(list) => {
            let list = gather(&mut fleet, list).await?;
            output.show(&list, table::agents)?;
        }
        Command::Show(Show { agent }) => {
            let answer = fleet.agent(agent.clone()).await?;
            let details = view::AgentDetails::from_wire(answer).ok_or_else(|| {
                Failure::new(
                    Exit::NotFound,
                    format!("the server knows no agent `{agent}`"),
                )
                .next("`fleetbeat agents list --match TEXT` finds it by a part of its name")
            })?;
            output.show(&details, table::agent)?;
        }
    }
    Ok(Exit::Done)
}

async fn gather(fleet: &mut Fleet, list: List) -> Result<view::AgentList, Failure> {
    let limit = list.limit.unwrap_or(u32::MAX) as usize;
    let mut request = v1::ListAgentsRequest {
        group: list.group.unwrap_or_default(),
        verdicts: list
            .verdict
            .into_iter()
            .map(|v| v1::Verdict::from(v).into())
            .collect(),
        r#match: list.matching.unwrap_or_default(),
        page_size: PAGE.min(list.limit.unwrap_or(PAGE)),
        page_token: String::new(),
    };
    let mut agents = Vec::new();
    loop {
        let page = fleet.list_agents(request.clone()).await?;
        agents.extend(page.agents.into_iter().map(view::Agent::from_wire));
        // A token that does not move would make this endless.
        let ended = page.next_page_token.is_empty() || page.next_page_token == request.page_token;
        if ended || agents.len() >= limit {
            agents.truncate(limit);
            return Ok(view::AgentList {
                agents,
                total: page.total,
            });
        }
        request.page_token = page.next_page_token;
    }
}
