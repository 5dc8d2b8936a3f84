//! How a change is made, and what is said of it until the agents have answered.

use std::time::Duration;

use fleetbeat_proto::v1;

use super::stages::Stages;
use super::watch;
use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::{Output, Shape, tell};
use crate::table;
use crate::view::{Outcome, Progress};

/// Longest reason that the audit keeps.
const REASON_BYTES: usize = 500;

#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// Why, for the audit
    #[arg(long, short, value_name = "TEXT", value_parser = reason)]
    pub(super) reason: String,
    /// Refuse when the newest revision is another one
    #[arg(long, value_name = "R", visible_alias = "expect")]
    pub(super) expect_revision: Option<u64>,
    /// Check and show, change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Go beyond the fleet's limits; the audit tells which
    #[arg(long)]
    pub(super) force: bool,
    /// Do not wait for acknowledgements
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// How long to wait for acknowledgements (1s … 1h)
    #[arg(long, value_name = "TIME", value_parser = watch::wait, default_value = "60s")]
    wait: Duration,
    #[command(flatten)]
    pub(super) stages: Stages,
}

pub(super) fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("say why, so that the history explains itself".to_owned()),
        text if text.len() > REASON_BYTES => Err(format!(
            "{} bytes are too many, shorten it to {REASON_BYTES}",
            text.len()
        )),
        text => Ok(text.to_owned()),
    }
}

impl How {
    /// Shows what was answered, and counts the acknowledgements when a revision was made.
    pub(super) async fn follow(
        &self,
        answer: v1::SetTuningResponse,
        fleet: &mut Fleet,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        let mut outcome = Outcome::from_wire(answer, self.dry_run);
        if output.shape() == Shape::Table {
            output.line(&table::outcome(&outcome))?;
        }
        let watched = match outcome.revision {
            Some(revision) if !self.no_wait => Some(watch::count(fleet, revision, self.wait).await),
            Some(revision) => {
                tell(&format!(
                    "next: `fleetbeat tune watch {revision}` counts the acknowledgements"
                ));
                None
            }
            None => None,
        };
        let rollout = outcome.staged_to.as_ref().map(|staged| staged.rollout);
        if let Some(rollout) = rollout.filter(|rollout| *rollout != 0) {
            tell(&format!(
                "next: `fleetbeat tune rollout watch {rollout}` follows it, `fleetbeat tune rollout show \
                 {rollout}` shows what its guards found"
            ));
        }
        finish(&mut outcome, watched, output)
    }
}

/// Shows where it ended. In JSON that is the only object, also when the server was lost meanwhile.
fn finish(
    outcome: &mut Outcome,
    watched: Option<Result<Progress, Failure>>,
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
