//! How a change reaches the fleet, as it is typed.

use std::time::Duration;

use fleetbeat_proto::v1::rollout_phase::Size;
use fleetbeat_proto::{nanos, v1};

use super::parts::duration;

/// Phases of a rollout, and what to do about another one.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "In phases")]
pub(super) struct Stages {
    /// Reach the fleet in phases: shares or counts of the connected members, the last one is 100%; each
    /// may have a soak time of its own, like 5%:30m
    #[arg(long, value_name = "SIZE[:TIME],…", value_delimiter = ',', value_parser = phase)]
    phases: Vec<v1::RolloutPhase>,
    /// How long each phase is watched; by default 10m, or 2·D + W when that is longer
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "phases")]
    soak: Option<Duration>,
    /// How often each phase is judged (1 … 20)
    #[arg(long, value_name = "COUNT", default_value_t = 4, requires = "phases",
          value_parser = clap::value_parser!(u32).range(1..=20))]
    looks: u32,
    /// After a phase that showed too little to judge
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        default_value = "advance",
        requires = "phases"
    )]
    on_little: OnLittle,
    /// What halts it, instead of the usual: disconnects=RATE and reconnects=RATE (per
    /// member-hour), rtt=TIME, refused=SHARE, unacked=SHARE, ack=TIME, false-halts=SHARE; may be said again
    #[arg(long, value_name = "NAME=VALUE", value_parser = guard, requires = "phases")]
    guard: Vec<Guard>,
    /// End the rollout that is on its way; this change is built on the policies from before it
    #[arg(long)]
    pub(super) supersede: bool,
    /// Also when a rollout of the same policies was rolled back
    #[arg(long)]
    pub(super) again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnLittle {
    /// Go on with the next one
    Advance,
    /// Wait for an operator
    Pause,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Guard {
    Disconnects(f64),
    Reconnects(f64),
    Rtt(Duration),
    Refused(f64),
    Unacked(f64),
    Ack(Duration),
    FalseHalts(f64),
}

impl Stages {
    /// Nothing when the change is for everybody at once.
    pub(super) fn staging(&self) -> Option<v1::Staging> {
        if self.phases.is_empty() {
            return None;
        }
        let on_little = match self.on_little {
            OnLittle::Advance => v1::OnLittle::Advance,
            OnLittle::Pause => v1::OnLittle::Pause,
        };
        Some(v1::Staging {
            phases: self.phases.clone(),
            soak_ns: self.soak.map(nanos),
            looks: Some(self.looks),
            on_little: on_little.into(),
            guards: self.guards(),
        })
    }

    fn guards(&self) -> Option<v1::RolloutGuards> {
        let mut guards = v1::RolloutGuards::default();
        let limit = |limit| {
            Some(v1::RolloutRate {
                limit: Some(limit),
                ..v1::RolloutRate::default()
            })
        };
        for guard in &self.guard {
            match *guard {
                Guard::Disconnects(rate) => guards.disconnects = limit(rate),
                Guard::Reconnects(rate) => guards.reconnects = limit(rate),
                Guard::Rtt(most) => guards.rtt_limit_ns = Some(nanos(most)),
                Guard::Refused(share) => guards.refused = Some(share),
                Guard::Unacked(share) => guards.unacked = Some(share),
                Guard::Ack(within) => guards.ack_within_ns = Some(nanos(within)),
                Guard::FalseHalts(share) => guards.false_halts = Some(share),
            }
        }
        (!self.guard.is_empty()).then_some(guards)
    }
}

/// `5%`, `3` or `25%:30m`
fn phase(text: &str) -> Result<v1::RolloutPhase, String> {
    const HOW: &str =
        "write a share like 5% or a count like 3, with a soak time like 5%:30m if need be";
    let (size, soak) = match text.split_once(':') {
        Some((size, soak)) => (size, Some(duration(soak)?)),
        None => (text, None),
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| HOW.to_owned());
    let size = match size.strip_suffix('%') {
        Some(percent) => Size::Percent(number(percent)?),
        None => Size::Count(number(size)?),
    };
    let allowed = match size {
        Size::Percent(percent) => (1..=100).contains(&percent),
        Size::Count(count) => count >= 1,
    };
    if !allowed {
        return Err(HOW.to_owned());
    }
    Ok(v1::RolloutPhase {
        size: Some(size),
        soak_ns: soak.map(nanos),
    })
}

fn guard(text: &str) -> Result<Guard, String> {
    let known = "there are disconnects, reconnects, rtt, refused, unacked, ack, false-halts; write one \
                 like disconnects=2 or unacked=10%";
    let (name, value) = text.split_once('=').ok_or(known)?;
    match name {
        "disconnects" => rate(value).map(Guard::Disconnects),
        "reconnects" => rate(value).map(Guard::Reconnects),
        "rtt" => duration(value).map(Guard::Rtt),
        "refused" => share(value).map(Guard::Refused),
        "unacked" => share(value).map(Guard::Unacked),
        "ack" => duration(value).map(Guard::Ack),
        "false-halts" => share(value).map(Guard::FalseHalts),
        _ => Err(known.to_owned()),
    }
}

/// Events per member-hour.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        Ok(_) | Err(_) => Err("write events per member-hour, like 2 or 0.5".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|text| text.parse::<f64>().ok());
    match percent {
        Some(percent) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        Some(_) | None => Err("write a share above 0% and below 100%, like 5%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_is_a_share_or_a_count_with_or_without_its_soak_time() {
        let phase = |text| phase(text).map(|phase| (phase.size, phase.soak_ns));
        assert_eq!(phase("5%"), Ok((Some(Size::Percent(5)), None)));
        assert_eq!(phase("3"), Ok((Some(Size::Count(3)), None)));
        let half_an_hour = Some(1_800_000_000_000);
        assert_eq!(
            phase("25%:30m"),
            Ok((Some(Size::Percent(25)), half_an_hour))
        );
        for bad in ["", "0", "0%", "101%", "5%:", "5 %", "-1", "all"] {
            assert!(phase(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn guard_has_a_name_and_a_value_of_its_kind() {
        assert_eq!(guard("disconnects=2"), Ok(Guard::Disconnects(2.0)));
        assert_eq!(guard("unacked=10%"), Ok(Guard::Unacked(0.1)));
        assert_eq!(
            guard("rtt=500ms"),
            Ok(Guard::Rtt(Duration::from_millis(500)))
        );
        for bad in [
            "disconnects",
            "disconnects=0",
            "disconnects=inf",
            "unacked=0.1",
            "refused=100%",
        ] {
            assert!(guard(bad).is_err(), "{bad}");
        }
        let unknown = guard("weather=1").unwrap_err();
        assert!(unknown.contains("false-halts"), "{unknown}");
    }
}
