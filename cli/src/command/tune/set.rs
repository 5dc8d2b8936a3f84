use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use fleetbeat_proto::{nanos, v1};

use super::how::How;
use super::parts::{self, Parts};
use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::Output;
use crate::settings::Settings;

/// Bounds of a temporary policy, as the contract has them.
const LIFE_LEAST: Duration = Duration::from_secs(1);
const LIFE_MOST: Duration = Duration::from_hours(24 * 366);

/// Change one policy, live, and count the acknowledgements
///
/// T, N and W are one value: of the three what is not said stays as it is in force. --preset says them at
/// once, and a part said beside it holds instead. Other parameters that are not said are left to the
/// other policies. Later policies go before earlier ones, and `fleetbeat tune show` lists them in order; a
/// policy that is made here goes behind all that do not select more narrowly. The exit code is 0 when every
/// live agent that got the value applied it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune set --group edge --interval 5s --reason 'find dead gateways sooner'
  fleetbeat tune set --fleet --interval 20s --misses 3 --timeout 2s --reason 'back to normal'
  fleetbeat tune set --group edge --preset device-gateway --misses 5 --reason 'poor radio links'
  fleetbeat tune set --group mobile --adaptive on --reason 'round trips of seconds in the metro'
  fleetbeat tune set --group registry --pong-every 5 --reason 'agents only renew a lease'
  fleetbeat tune set --group edge --interval 2s --timeout 1s --for 2h --reason 'hunting a flapper'
  fleetbeat tune set --policy zone-b --label zone=b1,b2 --misses 5 --reason 'works on the uplink'
  fleetbeat tune set --policy one-host --agent web-1 --interval 1s --timeout 1s --for 30m --reason drill
  fleetbeat tune set --group edge --misses 4 --reason 'long pauses' --dry-run
  fleetbeat tune set --group edge --interval 1s --timeout 500ms --reason drill --expect-revision 12
  fleetbeat tune set --group edge --interval 5s --phases 5%,25%,100% --soak 10m --reason 'find dead ones sooner'
  fleetbeat tune set --fleet --misses 4 --phases 3,10%:30m,100% --on-little pause --reason 'long pauses'")]
pub(crate) struct Set {
    #[command(flatten)]
    whom: Whom,
    #[command(flatten)]
    parts: Parts,
    /// Let it end by itself after this (1s … 1 year); without --policy the lasting policy stays below it
    #[arg(long = "for", value_name = "TIME", value_parser = life)]
    life: Option<Duration>,
    #[command(flatten)]
    how: How,
}

/// Which agents, by a policy that is named or follows from them. All that is said must be met.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Whom {
    /// Agents of this group
    #[arg(long, short, value_name = "G", value_parser = NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// All agents
    #[arg(long, conflicts_with_all = ["group", "label", "agent"])]
    fleet: bool,
    /// Agents with this label; with several values, one of them. Needs --policy
    #[arg(long, value_name = "KEY=VALUE,…", value_parser = label, requires = "policy")]
    label: Vec<(String, Vec<String>)>,
    /// This agent, by id, beginning of one, or name; may be said again. Needs --policy
    #[arg(long, short, value_name = "A", requires = "policy")]
    agent: Vec<String>,
    /// Name of the policy to change or make; by default `fleet` or `group-G`
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    policy: Option<String>,
}

/// Remove a policy, so that those before it apply again
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune unset --group edge --reason 'incident 42 is over'
  fleetbeat tune unset --policy zone-b --reason 'the uplink is well'
  fleetbeat tune unset --group edge --reason test --dry-run")]
pub(crate) struct Unset {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The policy of this group
    #[arg(long, short, value_name = "G", value_parser = NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// The policy of the whole fleet
    #[arg(long)]
    fleet: bool,
    /// The policy of this name
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    policy: Option<String>,
}

/// Make a newer revision with the policies of an older one
///
/// Temporary policies of the older one whose time is over do not come back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fleetbeat tune history
  fleetbeat tune rollback 7 --reason 'revision 8 was too fast for the radio links'
  fleetbeat tune rollback 7 --reason test --dry-run
  fleetbeat tune rollback 7 --phases 10%,100% --supersede --reason 'back, but slowly'")]
pub(crate) struct Rollback {
    /// Revision whose policies to take
    revision: u64,
    #[command(flatten)]
    how: How,
}

pub(super) async fn set(
    set: Set,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    set.parts.check()?;
    let mut fleet = Fleet::connect(settings).await?;
    let selector = set.whom.selector(&mut fleet).await?;
    let request = v1::SetTuningRequest {
        selector,
        tuning: Some(set.parts.said()),
        reason: set.how.reason.clone(),
        expected_revision: set.how.expect_revision,
        dry_run: set.how.dry_run,
        policy: set.whom.policy.unwrap_or_default(),
        expires_in_ns: set.life.map(nanos),
        force: set.how.force,
        staging: set.how.stages.staging(),
        supersede: set.how.stages.supersede,
        again: set.how.stages.again,
        remove: false,
    };
    let answer = fleet.set_tuning(request).await?;
    set.how.follow(answer, &mut fleet, output).await
}

pub(super) async fn unset(
    unset: Unset,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut fleet = Fleet::connect(settings).await?;
    let Which { group, policy, .. } = unset.which;
    let selector = v1::Selector {
        group,
        ..v1::Selector::default()
    };
    let request = v1::SetTuningRequest {
        selector: policy.is_none().then_some(selector),
        remove: true,
        reason: unset.how.reason.clone(),
        expected_revision: unset.how.expect_revision,
        dry_run: unset.how.dry_run,
        policy: policy.unwrap_or_default(),
        force: unset.how.force,
        staging: unset.how.stages.staging(),
        supersede: unset.how.stages.supersede,
        again: unset.how.stages.again,
        ..v1::SetTuningRequest::default()
    };
    let answer = fleet.set_tuning(request).await?;
    unset.how.follow(answer, &mut fleet, output).await
}

pub(super) async fn rollback(
    rollback: Rollback,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut fleet = Fleet::connect(settings).await?;
    let request = v1::RollbackTuningRequest {
        to_revision: rollback.revision,
        reason: rollback.how.reason.clone(),
        expected_revision: rollback.how.expect_revision,
        dry_run: rollback.how.dry_run,
        force: rollback.how.force,
        staging: rollback.how.stages.staging(),
        supersede: rollback.how.stages.supersede,
        again: rollback.how.stages.again,
    };
    let answer = fleet.rollback_tuning(request).await?;
    rollback.how.follow(answer, &mut fleet, output).await
}

impl Whom {
    /// Nothing when only a policy was named: it keeps its own.
    async fn selector(&self, fleet: &mut Fleet) -> Result<Option<v1::Selector>, Failure> {
        let unsaid = self.group.is_none() && self.label.is_empty() && self.agent.is_empty();
        if unsaid && !self.fleet {
            return Ok(None);
        }
        let mut agent_ids = Vec::new();
        for agent in &self.agent {
            let found = fleet.agent(agent.clone()).await?.agent;
            agent_ids.extend(found.map(|agent| agent.agent_id));
        }
        let labels = self.label.iter().cloned();
        Ok(Some(v1::Selector {
            group: self.group.clone(),
            agent_ids,
            labels: labels
                .map(|(key, values)| (key, v1::LabelValues { values }))
                .collect(),
        }))
    }
}

/// `zone=b1,b2`
fn label(text: &str) -> Result<(String, Vec<String>), String> {
    match text.split_once('=') {
        Some((key, values)) if !key.is_empty() => {
            let values = values.split(',').map(str::to_owned).collect();
            Ok((key.to_owned(), values))
        }
        Some(_) | None => Err("write a label and its values, like zone=b1,b2".to_owned()),
    }
}

fn life(text: &str) -> Result<Duration, String> {
    let life = parts::duration(text)?;
    if (LIFE_LEAST..=LIFE_MOST).contains(&life) {
        Ok(life)
    } else {
        Err("say something between 1s and a year".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_has_a_key_and_values() {
        let values = ["b1", "b2"].map(str::to_owned).to_vec();
        assert_eq!(label("zone=b1,b2"), Ok(("zone".to_owned(), values)));
        assert_eq!(label("zone="), Ok(("zone".to_owned(), vec![String::new()])));
        for bad in ["zone", "=b1"] {
            assert!(label(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn temporary_policy_lasts_a_second_to_a_year() {
        assert_eq!(life("2h"), Ok(Duration::from_hours(2)));
        for bad in ["0s", "999ms", "2y", "120"] {
            assert!(life(bad).is_err(), "{bad}");
        }
    }
}
