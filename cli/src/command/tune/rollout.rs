use std::time::Duration;

use clap::Subcommand;
use fleetbeat_proto::{nanos, v1};

use super::how::reason;
use super::parts;
use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::{Output, Shape, tell};
use crate::settings::Settings;
use crate::table;
use crate::view::{Rollout, RolloutList};

/// Bounds of the wait, as the contract has them.
const WAIT_LEAST: Duration = Duration::from_secs(1);
const WAIT_MOST: Duration = Duration::from_hours(24);

/// See changes that reach the fleet in phases, and tell them what to do
///
/// `fleetbeat tune set --phases 5%,25%,100% …` begins one, and so do unset, apply and rollback. Each phase is
/// watched for its soak time and judged against the members that keep the old policies; a guard that finds
/// harm takes everybody back by itself.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  fleetbeat tune set --group edge --interval 5s --phases 5%,25%,100% --soak 10m --reason 'find dead ones sooner'
  fleetbeat tune rollout show
  fleetbeat tune rollout watch
  fleetbeat tune rollout pause --reason 'the network team works on the uplink'
  fleetbeat tune rollout abort --reason 'wrong group'")]
pub(crate) enum Command {
    List(List),
    Show(Show),
    Watch(Watch),
    Pause(Pause),
    Resume(Resume),
    Abort(Abort),
}

/// List rollouts, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune rollout list
  fleetbeat tune rollout list --output json | jq '.rollouts[] | select(.state == \"rolled_back\")'")]
pub(crate) struct List {
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Only those before this one
    #[arg(long, value_name = "ID")]
    before: Option<u64>,
}

/// Show how far a rollout is, and each guard with its numbers against the rest
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune rollout show
  fleetbeat tune rollout show 3
  fleetbeat tune rollout show --output json | jq .findings")]
pub(crate) struct Show {
    /// The rollout; by default the one that runs, or else the newest
    id: Option<u64>,
}

/// Watch a rollout to its end
///
/// The exit code is 0 when it completed, 1 when everybody was taken back, another change took its place, or
/// the wait is over.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune rollout watch
  fleetbeat tune rollout watch 3 --wait 6h --output json")]
pub(crate) struct Watch {
    /// The rollout; by default the one that runs, or else the newest
    id: Option<u64>,
    /// How long to watch (1s … 24h)
    #[arg(long, value_name = "TIME", value_parser = wait, default_value = "1h")]
    wait: Duration,
}

/// Stop looks and soak time; everybody keeps what they have
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune rollout pause --reason 'the network team works on the uplink'")]
pub(crate) struct Pause {
    #[command(flatten)]
    order: Order,
}

/// Go on where it was paused; after the last look of a phase, with the next one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune rollout resume --reason 'the uplink is well'")]
pub(crate) struct Resume {
    #[command(flatten)]
    order: Order,
}

/// Take everybody back to the policies from before the rollout, as a newer revision
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune rollout abort --reason 'wrong group'
  fleetbeat tune rollout abort 3 --reason 'wrong group'")]
pub(crate) struct Abort {
    #[command(flatten)]
    order: Order,
}

#[derive(Debug, clap::Args)]
struct Order {
    /// The rollout; by default the one that runs
    id: Option<u64>,
    /// Why, for the audit
    #[arg(long, short, value_name = "TEXT", value_parser = reason)]
    reason: String,
}

fn wait(text: &str) -> Result<Duration, String> {
    let wait = parts::duration(text)?;
    if (WAIT_LEAST..=WAIT_MOST).contains(&wait) {
        Ok(wait)
    } else {
        Err("say something between 1s and 24h".to_owned())
    }
}

pub(super) async fn run(
    command: Command,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut fleet = Fleet::connect(settings).await?;
    let rollout = match command {
        Command::List(list) => return self::list(&list, &mut fleet, output).await,
        Command::Watch(watch) => return self::watch(&watch, &mut fleet, output).await,
        Command::Show(Show { id }) => {
            let rollout = id.unwrap_or_default();
            fleet.rollout(v1::GetRolloutRequest { rollout }).await?
        }
        Command::Pause(Pause { order }) => fleet.pause_rollout(order.request()).await?,
        Command::Resume(Resume { order }) => fleet.resume_rollout(order.request()).await?,
        Command::Abort(Abort { order }) => fleet.abort_rollout(order.request()).await?,
    };
    output.show(&Rollout::from_wire(rollout), table::rollout)?;
    Ok(Exit::Done)
}

async fn list(list: &List, fleet: &mut Fleet, output: &mut Output) -> Result<Exit, Failure> {
    let request = v1::ListRolloutsRequest {
        page_size: list.limit,
        before_rollout: list.before,
    };
    let list = RolloutList::from_wire(fleet.rollouts(request).await?);
    output.show(&list, table::rollouts)?;
    Ok(Exit::Done)
}

/// A line for each thing that moves on standard error; where it ended on standard output.
async fn watch(watch: &Watch, fleet: &mut Fleet, output: &mut Output) -> Result<Exit, Failure> {
    let request = v1::WatchRolloutRequest {
        rollout: watch.id.unwrap_or_default(),
        wait_ns: nanos(watch.wait),
    };
    let mut answers = fleet.watch_rollout(request).await?;
    let (mut last, mut told) = (None, String::new());
    while let Some(answer) = answers.next().await? {
        let rollout = Rollout::from_wire(answer);
        let line = table::rollout_line(&rollout);
        if line != told && output.shape() == Shape::Table {
            tell(&line);
        }
        told = line;
        last = Some(rollout);
    }
    let Some(rollout) = last else {
        let what = "the server stopped telling of the rollout before its end";
        return Err(Failure::new(Exit::Unreachable, what));
    };
    output.show(&rollout, table::rollout)?;
    if rollout.state == "completed" {
        return Ok(Exit::Done);
    }
    if rollout.ended_at.is_none() {
        let id = rollout.rollout;
        tell(&format!(
            "next: it goes on; watch it again with `fleetbeat tune rollout watch {id}`"
        ));
    }
    Ok(Exit::Failed)
}

impl Order {
    fn request(self) -> v1::OrderRolloutRequest {
        v1::OrderRolloutRequest {
            rollout: self.id.unwrap_or_default(),
            reason: self.reason,
        }
    }
}
