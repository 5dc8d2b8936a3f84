use std::time::Duration;

use super::apply::{Terms, Wish, apply};
use super::parts::Parts;
use super::watch;
use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::{Output, Shape, tell};
use crate::settings::Settings;
use crate::table;
use crate::view::Outcome;

/// Longest reason that the audit keeps.
const REASON_BYTES: usize = 500;

/// Change the tuning of a group or of the fleet, live, and count the acknowledgements
///
/// Parts of the tuning that are not said keep what is in force; --preset says T, N and W at once, and a
/// part said beside it holds instead. Values out of bounds are refused before
/// anything is sent. The exit code is 0 when every live agent that got the value applied it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune set --group edge --interval 5s --reason 'find dead gateways sooner'
  fleetbeat tune set --fleet --interval 20s --misses 3 --timeout 2s --reason 'back to normal'
  fleetbeat tune set --group edge --preset device-gateway --misses 5 --reason 'poor radio links'
  fleetbeat tune set --group mobile --adaptive on --reason 'round trips of seconds in the metro'
  fleetbeat tune set --group registry --pong-every 5 --reason 'agents only renew a lease'
  fleetbeat tune set --group edge --misses 4 --reason 'long pauses' --dry-run
  fleetbeat tune set --group edge --interval 1s --timeout 500ms --reason drill --expect-revision 12")]
pub(crate) struct Set {
    #[command(flatten)]
    selector: Selector,
    #[command(flatten)]
    parts: Parts,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Selector {
    /// Agents of this group
    #[arg(long, short, value_name = "G", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// All agents without a policy of their group
    #[arg(long)]
    fleet: bool,
}

/// Remove the policy of a group, so that the fleet's applies to it again
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune unset --group edge --reason 'incident 42 is over'
  fleetbeat tune unset --group edge --reason test --dry-run")]
pub(crate) struct Unset {
    /// Agents of this group
    #[arg(long, short, value_name = "G", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    group: String,
    #[command(flatten)]
    how: How,
}

/// Make a newer revision with the policies of an older one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune history
  fleetbeat tune rollback 7 --reason 'revision 8 was too fast for the radio links'
  fleetbeat tune rollback 7 --reason test --dry-run")]
pub(crate) struct Rollback {
    /// Revision whose policies to take
    revision: u64,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
struct How {
    /// Why, for the audit
    #[arg(long, short, value_name = "TEXT", value_parser = reason)]
    reason: String,
    /// Refuse when the newest revision is another one
    #[arg(long, value_name = "R")]
    expect_revision: Option<u64>,
    /// Check and show, change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not wait for acknowledgements
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// How long to wait for acknowledgements (1s … 1h)
    #[arg(long, value_name = "TIME", value_parser = watch::wait, default_value = "60s")]
    wait: Duration,
}

fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("say why, so that the history explains itself".to_owned()),
        text if text.len() > REASON_BYTES => Err(format!(
            "{} bytes are too many, shorten it to {REASON_BYTES}",
            text.len()
        )),
        text => Ok(text.to_owned()),
    }
}

pub(super) async fn set(
    set: Set,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    set.parts.check()?;
    let wish = Wish::Set {
        group: set.selector.group,
        parts: set.parts,
    };
    run(wish, set.how, settings, output).await
}

pub(super) async fn unset(
    unset: Unset,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    run(
        Wish::Unset { group: unset.group },
        unset.how,
        settings,
        output,
    )
    .await
}

pub(super) async fn rollback(
    rollback: Rollback,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    run(
        Wish::Rollback {
            to: rollback.revision,
        },
        rollback.how,
        settings,
        output,
    )
    .await
}

async fn run(
    wish: Wish,
    how: How,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut fleet = Fleet::connect(settings).await?;
    let terms = Terms {
        reason: how.reason,
        expect: how.expect_revision,
        dry_run: how.dry_run,
    };
    let mut outcome = apply(&mut fleet, &wish, &terms).await?;
    let people = output.shape() == Shape::Table;
    if people {
        if !outcome.changes.is_empty() {
            output.line(&table::changes(&outcome.changes))?;
        }
        output.line(&table::outcome(&outcome))?;
    }
    let watched = match outcome.revision {
        Some(revision) if !how.no_wait => Some(watch::count(&mut fleet, revision, how.wait).await),
        Some(revision) => {
            tell(&format!(
                "next: `fleetbeat tune watch {revision}` counts the acknowledgements"
            ));
            None
        }
        None => None,
    };
    finish(&mut outcome, watched, output)
}

/// Shows where it ended. In JSON that is the only object, also when the server was lost meanwhile.
fn finish(
    outcome: &mut Outcome,
    watched: Option<Result<crate::view::Progress, Failure>>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let (progress, failure) = match watched {
        Some(Ok(progress)) => (Some(progress), None),
        Some(Err(failure)) => (None, Some(failure)),
        None => (None, None),
    };
    outcome.progress = progress;
    match output.shape() {
        Shape::Json => output.show(&*outcome, |_, _| String::new())?,
        Shape::Table => {
            if let Some(progress) = &outcome.progress {
                output.show(progress, table::progress)?;
            }
        }
    }
    match (failure, &outcome.progress) {
        (Some(failure), _) => Err(failure),
        (None, Some(progress)) => Ok(watch::verdict(progress)),
        (None, None) => Ok(Exit::Done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_words_and_a_bound() {
        assert_eq!(reason(" why ").as_deref(), Ok("why"));
        assert!(reason("  ").is_err());
        assert!(reason(&"a".repeat(500)).is_ok());
        assert!(reason(&"a".repeat(501)).is_err());
    }
}
