use std::time::Duration;

use fleetbeat_proto::v1;

use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::{Output, tell};
use crate::settings::Settings;
use crate::{table, view};

/// First pause before a lost server is tried again; doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MOST: Duration = Duration::from_secs(5);

/// Print recorded events, oldest first
///
/// With --follow the command goes on with each event as it is recorded. When the server goes away it
/// waits for it and resumes after the last event it printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat events -n 200
  fleetbeat events --follow --group edge
  fleetbeat events --agent web-1 --output json | jq -r 'select(.kind == \"verdict_changed\") | .detail'")]
pub(crate) struct Args {
    /// Only of this agent: id, beginning of one, or name
    #[arg(long, short, value_name = "A", conflicts_with = "group")]
    agent: Option<String>,
    /// Only of this group
    #[arg(long, short, value_name = "G")]
    group: Option<String>,
    /// How many recent events come first
    #[arg(short = 'n', long = "recent", value_name = "COUNT", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(0..=10_000))]
    recent: u32,
    /// Go on with events as they are recorded
    #[arg(long, short)]
    follow: bool,
}

pub(crate) async fn run(
    args: &Args,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut reader = Reader {
        args,
        settings,
        last: None,
        phase: Phase::Starting,
        pause: PAUSE,
    };
    loop {
        match reader.read(output).await {
            Ok(()) if !args.follow => return Ok(Exit::Done),
            Ok(()) => reader.lost("the server ended the stream"),
            Err(failure) if reader.may_wait(&failure) => reader.lost(&failure.to_string()),
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(reader.pause).await;
        reader.pause = (reader.pause * 2).min(PAUSE_MOST);
    }
}

/// Where the stream of events is, over several connections.
struct Reader<'a> {
    args: &'a Args,
    settings: &'a Settings,
    /// Last event that was printed.
    last: Option<u64>,
    phase: Phase,
    pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The server was not reached yet: a wrong address is an error, not an outage.
    Starting,
    Reading,
    /// The outage was told.
    Waiting,
}

impl Reader<'_> {
    /// Prints events until the stream ends.
    async fn read(&mut self, output: &mut Output) -> Result<(), Failure> {
        let mut fleet = Fleet::connect(self.settings).await?;
        let mut events = fleet.events(self.request()).await?;
        self.found();
        while let Some(event) = events.next().await? {
            self.last = self.last.max(Some(event.event_id));
            self.pause = PAUSE;
            output.show(&view::Event::from_wire(event), table::event)?;
        }
        Ok(())
    }

    fn request(&self) -> v1::WatchEventsRequest {
        v1::WatchEventsRequest {
            agent: self.args.agent.clone().unwrap_or_default(),
            group: self.args.group.clone().unwrap_or_default(),
            after_event_id: self.last,
            recent: self.args.recent,
            follow: self.args.follow,
        }
    }

    fn found(&mut self) {
        if self.phase == Phase::Waiting {
            let server = &self.settings.server;
            tell(&match self.last {
                Some(id) => format!("{server} is back, resuming after event {id}"),
                None => format!("{server} is back"),
            });
        }
        self.phase = Phase::Reading;
    }

    fn lost(&mut self, why: &str) {
        if self.phase == Phase::Reading {
            tell(&format!(
                "lost the events of {}: {why}; waiting for it",
                self.settings.server
            ));
        }
        self.phase = Phase::Waiting;
    }

    fn may_wait(&self, failure: &Failure) -> bool {
        self.args.follow && self.phase != Phase::Starting && failure.is_passing()
    }
}
