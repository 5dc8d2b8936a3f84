use std::time::Duration;

use fleetbeat_proto::v1;

use super::meter::Meter;
use super::parts;
use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::{Output, tell};
use crate::settings::Settings;
use crate::table;
use crate::view::Progress;

/// Bounds of the wait, as the contract has them.
const WAIT_LEAST: Duration = Duration::from_secs(1);
const WAIT_MOST: Duration = Duration::from_hours(1);
/// How much later than asked the server may end the count.
const GRACE: Duration = Duration::from_secs(10);

/// Count who has applied a revision, until all have answered or the wait is over
///
/// The exit code is 0 when every live agent to which the revision was pushed applied it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune watch 8
  fleetbeat tune watch 8 --wait 10m --output json | jq .refusals")]
pub(crate) struct Args {
    /// Revision, as `fleetbeat tune history` lists it
    revision: u64,
    /// How long to wait for acknowledgements (1s … 1h)
    #[arg(long, value_name = "TIME", value_parser = wait, default_value = "60s")]
    wait: Duration,
}

/// A wait as it is typed.
pub(super) fn wait(text: &str) -> Result<Duration, String> {
    let wait = parts::duration(text)?;
    if (WAIT_LEAST..=WAIT_MOST).contains(&wait) {
        Ok(wait)
    } else {
        Err("say something between 1s and 1h".to_owned())
    }
}

pub(super) async fn run(
    args: &Args,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut fleet = Fleet::connect(settings).await?;
    let progress = count(&mut fleet, args.revision, args.wait).await?;
    output.show(&progress, table::progress)?;
    Ok(verdict(&progress))
}

/// Follows the push of a revision to its end and shows how far it is on standard error.
pub(super) async fn count(
    fleet: &mut Fleet,
    revision: u64,
    wait: Duration,
) -> Result<Progress, Failure> {
    let next = format!("the revision stands; count on with `fleetbeat tune watch {revision}`");
    match tokio::time::timeout(wait + GRACE, to_the_end(fleet, revision, wait)).await {
        Ok(Ok(progress)) => Ok(progress),
        Ok(Err(failure)) if failure.is_passing() => Err(failure.next(next)),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::new(
            Exit::Unreachable,
            format!("the server did not end the count of revision {revision} in time"),
        )
        .next(next)),
    }
}

async fn to_the_end(fleet: &mut Fleet, revision: u64, wait: Duration) -> Result<Progress, Failure> {
    let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
    let mut answers = fleet
        .watch_revision(v1::WatchRevisionRequest { revision, wait_ns })
        .await?;
    let mut meter = Meter::start(revision);
    while let Some(answer) = answers.next().await? {
        let progress = Progress::from_wire(answer);
        meter.show(&progress);
        if progress.done {
            return Ok(progress);
        }
    }
    Err(Failure::new(
        Exit::Unreachable,
        format!("the server stopped counting revision {revision} before its end"),
    ))
}

/// Done only when all applied it; says what to do about the rest.
pub(super) fn verdict(progress: &Progress) -> Exit {
    if progress.all_applied() {
        return Exit::Done;
    }
    let revision = progress.revision;
    let steps = [
        (
            progress.refused,
            "refused: `fleetbeat agents show AGENT` says more".to_owned(),
        ),
        (
            progress.lost,
            "lost: they take it when they come back".to_owned(),
        ),
        (
            progress.superseded,
            "superseded: watch the newer revision".to_owned(),
        ),
        (
            progress.waiting,
            format!("waiting: count on with `fleetbeat tune watch {revision}`"),
        ),
    ];
    for (_, step) in steps.iter().filter(|(n, _)| *n > 0) {
        tell(&format!("next: {step}"));
    }
    Exit::Failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_between_a_second_and_an_hour() {
        assert_eq!(wait("1m"), Ok(Duration::from_mins(1)));
        assert_eq!(wait("1h"), Ok(WAIT_MOST));
        for bad in ["0s", "999ms", "61m", "60"] {
            assert!(wait(bad).is_err(), "{bad}");
        }
    }
}
