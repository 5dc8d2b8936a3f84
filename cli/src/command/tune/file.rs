use std::io::Read as _;
use std::path::{Path, PathBuf};

use fleetbeat_proto::v1;

use super::how::How;
use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::Output;
use crate::policy_file;
use crate::settings::Settings;
use crate::table;
use crate::view::Outcome;

/// Far more than the largest set of policies needs.
const FILE_BYTES: u64 = 32 << 20;

/// Replace all policies by those of a file, live, and count the acknowledgements
///
/// The file is what `fleetbeat tune export` writes, and the whole of it: a policy that it does not have is
/// removed. When it says `revision = N` and the newest revision is another one, nothing is changed and the
/// difference is shown; without that line, and without --expect-revision, it goes on top of whatever there
/// is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune export > policies.toml
  fleetbeat tune apply -f policies.toml --reason 'merge 118: slower beats at the edge'
  fleetbeat tune apply -f policies.toml --reason test --dry-run
  generate-policies | fleetbeat tune apply -f - --reason nightly --expect-revision 12")]
pub(crate) struct Apply {
    #[command(flatten)]
    source: Source,
    /// Remove all policies when the file has none
    #[arg(long)]
    allow_empty: bool,
    #[command(flatten)]
    how: How,
}

/// Show what a file would change
///
/// The exit code is 0 when nothing would change, and 1 when something would.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune diff -f policies.toml
  fleetbeat tune diff -f policies.toml --output json | jq -r '.changes[]'")]
pub(crate) struct Diff {
    #[command(flatten)]
    source: Source,
}

/// Write the policies in force as a file for `fleetbeat tune apply`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune export > policies.toml
  fleetbeat tune export --no-revision > policies.toml   # applies on top of any revision")]
pub(crate) struct Export {
    /// Leave out the revision, so that applying does not ask for it
    #[arg(long)]
    no_revision: bool,
}

#[derive(Debug, clap::Args)]
struct Source {
    /// File with policies; - reads standard input
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
}

pub(super) async fn apply(
    apply: Apply,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let read = apply.source.read()?;
    if read.policies.is_empty() && !apply.allow_empty {
        let what = format!("{} has no [[policy]]", apply.source.name());
        return Err(Failure::refused(what)
            .next("add policies, or say --allow-empty to remove all those in force"));
    }
    let request = v1::ApplyPoliciesRequest {
        policies: Some(v1::PolicySet {
            policies: read.policies,
            ..v1::PolicySet::default()
        }),
        reason: apply.how.reason.clone(),
        expected_revision: apply.how.expect_revision.or(read.revision),
        dry_run: apply.how.dry_run,
        force: apply.how.force,
        staging: apply.how.stages.staging(),
        supersede: apply.how.stages.supersede,
        again: apply.how.stages.again,
    };
    let mut fleet = Fleet::connect(settings).await?;
    let answer = fleet.apply_policies(request).await?;
    apply.how.follow(answer, &mut fleet, output).await
}

pub(super) async fn diff(
    diff: Diff,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let read = diff.source.read()?;
    let request = v1::ApplyPoliciesRequest {
        policies: Some(v1::PolicySet {
            policies: read.policies,
            ..v1::PolicySet::default()
        }),
        dry_run: true,
        ..v1::ApplyPoliciesRequest::default()
    };
    let answer = Fleet::connect(settings)
        .await?
        .apply_policies(request)
        .await?;
    let outcome = Outcome::from_wire(answer, true);
    output.show(&outcome, |outcome, _| table::outcome(outcome))?;
    Ok(if outcome.changes.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

pub(super) async fn export(
    export: &Export,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let request = v1::GetTuningRequest::default();
    let answer = Fleet::connect(settings).await?.tuning(request).await?;
    let policies = answer.policies.unwrap_or_default();
    let text = policy_file::write(&policies, !export.no_revision);
    let text = text.map_err(|error| Failure::new(Exit::Failed, error))?;
    output.bytes(text.as_bytes())?;
    Ok(Exit::Done)
}

impl Source {
    fn name(&self) -> String {
        if self.is_input() {
            "standard input".to_owned()
        } else {
            self.file.display().to_string()
        }
    }

    fn is_input(&self) -> bool {
        self.file == Path::new("-")
    }

    fn read(&self) -> Result<policy_file::Read, Failure> {
        let name = self.name();
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::refused(format!("cannot read {name}: {why}"))
                .next("`fleetbeat tune export` writes such a file")
        };
        let mut text = String::new();
        let read = if self.is_input() {
            std::io::stdin()
                .take(FILE_BYTES + 1)
                .read_to_string(&mut text)
        } else {
            let file = std::fs::File::open(&self.file).map_err(|error| cannot(&error))?;
            file.take(FILE_BYTES + 1).read_to_string(&mut text)
        };
        read.map_err(|error| cannot(&error))?;
        if text.len() as u64 > FILE_BYTES {
            return Err(cannot(&format!(
                "it is larger than {} MiB",
                FILE_BYTES >> 20
            )));
        }
        policy_file::read(&text).map_err(|error| cannot(&error))
    }
}
