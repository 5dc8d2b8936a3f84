use std::time::Duration;

use clap::ArgGroup;
use fleetbeat_liveness::plan::{self, Backstop, Facts, Load, Wanted, checks};
use fleetbeat_liveness::preset::Preset;
use fleetbeat_proto::{PING_FRAME_BYTES, nanos, v1};

use super::parts::{duration, preset};
use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::output::Output;
use crate::settings::Settings;
use crate::table;
use crate::view::Plan;

/// Agents whose load is counted when nobody is asked.
const AGENTS: u64 = 1_000;

/// Derive T and W from a tolerated detection time, or check a tuning, before anybody runs it
///
/// Asks the server what it measured of the agents and replays their recorded silences under the tuning:
/// how many live agents it would have called offline, and how soon it would have found the dead. Shows each
/// step, what speaks against the tuning, and its load. Ends with 1 when a check fails.
#[derive(Debug, clap::Args)]
#[command(
    group(ArgGroup::new("tuning").args(["detect", "preset", "interval"]).required(true).multiple(true)),
    group(ArgGroup::new("whom").args(["group", "fleet", "offline"]).required(true)),
    after_help = "\
Examples:
  fleetbeat tune plan --group edge --detect 20s
  fleetbeat tune plan --fleet --interval 10s --misses 3 --timeout 2s --days 14
  fleetbeat tune plan --group mobile --preset mobile-messaging --output json | jq .replay
  fleetbeat tune plan --offline --detect 20s --rtt-p99 400ms --misses 2 --agents 50000
  fleetbeat tune plan --offline --preset web --rtt-p99 80ms --idle-timeout 60s
  fleetbeat tune plan --offline --interval 10s --misses 2 --timeout 3s --detect 30s --pause 2s -o json"
)]
pub(crate) struct Args {
    /// Agents of this group
    #[arg(long, short, value_name = "G", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// All agents
    #[arg(long)]
    fleet: bool,
    /// Asks no server: what is known of the fleet and its paths is said here
    #[arg(long)]
    offline: bool,
    /// How many of the last days are replayed (1 … 30)
    #[arg(long, value_name = "DAYS", default_value_t = 7, conflicts_with = "offline", value_parser = clap::value_parser!(u32).range(1..=30))]
    days: u32,
    /// How long an agent's end may stay unknown
    #[arg(long, value_name = "TIME", value_parser = duration)]
    detect: Option<Duration>,
    /// N: how many heartbeats may be missed (1 … 20); 3, or the preset's, unless said
    #[arg(long, short, value_name = "N")]
    misses: Option<u32>,
    /// Check this T instead of deriving one
    #[arg(long, short, value_name = "T", value_parser = duration, requires = "timeout", conflicts_with = "preset")]
    interval: Option<Duration>,
    /// The W that goes with it
    #[arg(long, short, value_name = "W", value_parser = duration, requires = "interval")]
    timeout: Option<Duration>,
    /// Check the tuning of this preset, see `fleetbeat tune presets`
    #[arg(long, value_name = "NAME", value_parser = preset)]
    preset: Option<&'static Preset>,
    /// 95th percentile of the round trip; W is made of it when the 99th is not known
    #[arg(long, value_name = "TIME", value_parser = duration)]
    rtt_p95: Option<Duration>,
    /// 99th percentile of the round trip
    #[arg(long, value_name = "TIME", value_parser = duration)]
    rtt_p99: Option<Duration>,
    /// Longest time for which an agent is known to stop, as for a garbage collection
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pause: Option<Duration>,
    /// Idle time-out of something on the path; 5m is assumed when none is said
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle_timeout: Vec<Duration>,
    /// TCP keepalive of the path: time of idleness before the first probe
    #[arg(long, value_name = "TIME", value_parser = duration, requires_all = ["keepalive_interval", "keepalive_probes"])]
    keepalive_idle: Option<Duration>,
    /// Time between two probes
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "keepalive_idle")]
    keepalive_interval: Option<Duration>,
    /// Unanswered probes that end the connection
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100), requires = "keepalive_idle")]
    keepalive_probes: Option<u32>,
    /// Answer every K-th heartbeat only (1 … 10)
    #[arg(long, value_name = "K", default_value_t = 1)]
    pong_every: u32,
    /// Agents whose load is counted: those that the server knows, or 1000, unless said
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    agents: Option<u64>,
    /// Size of one message; the default is a heartbeat's, with its HTTP/2 frame
    #[arg(long, value_name = "BYTES", default_value_t = PING_FRAME_BYTES, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    frame_bytes: u64,
    /// Round to tenths of a second, and let W be shorter than one
    #[arg(long)]
    fine: bool,
}

pub(super) async fn run(
    args: &Args,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let plan = if args.offline {
        args.alone()?
    } else {
        let request = args.request();
        let answer = Fleet::connect(settings).await?.plan(request).await?;
        Plan::from_wire(answer).map_err(|error| {
            Failure::new(
                Exit::Failed,
                format!("the server plans a tuning that this program does not know: {error}"),
            )
            .next("is `fleetbeat --version` as new as the server, which `fleetbeat status` shows?")
        })?
    };
    output.show(&plan, table::plan)?;
    let good = plan.checks.iter().all(|check| check.ok);
    Ok(if good { Exit::Done } else { Exit::Failed })
}

impl Args {
    fn alone(&self) -> Result<Plan, Failure> {
        let facts = self.facts();
        let (tuning, steps) = plan::plan(&self.wanted(), &facts).map_err(|error| {
            Failure::refused(format!("nothing was planned: {error}"))
                .next("`fleetbeat tune plan --help` lists what can be said")
        })?;
        let agents = self.agents.unwrap_or(AGENTS);
        let load = Load::of(&tuning, agents, self.frame_bytes);
        Ok(Plan::of(
            &tuning,
            &steps,
            &checks(&tuning, &facts),
            &load,
            agents,
        ))
    }

    fn request(&self) -> v1::PlanTuningRequest {
        let (facts, wanted) = (self.facts(), self.wanted());
        v1::PlanTuningRequest {
            group: self.group.clone().unwrap_or_default(),
            detect_ns: facts.detect.map(nanos),
            tuning: Some(v1::Tuning {
                interval_ns: wanted.interval.map(nanos),
                misses: wanted.misses,
                timeout_ns: wanted.timeout.map(nanos),
                pong_every: wanted.pong_every,
                adaptive: None,
            }),
            preset: self
                .preset
                .map(|preset| preset.name.to_owned())
                .unwrap_or_default(),
            fine: self.fine,
            rtt_p95_ns: facts.rtt_p95.map(nanos),
            rtt_p99_ns: facts.rtt_p99.map(nanos),
            pause_ns: facts.pause.map(nanos),
            idle_timeouts_ns: facts.idle_timeouts.into_iter().map(nanos).collect(),
            keepalive: facts.keepalive.map(|backstop| v1::Keepalive {
                idle_ns: nanos(backstop.idle),
                interval_ns: nanos(backstop.interval),
                probes: backstop.probes,
            }),
            agents: self.agents,
            frame_bytes: Some(self.frame_bytes),
            days: self.days,
        }
    }

    fn facts(&self) -> Facts {
        let backstop = |idle| {
            Some(Backstop {
                idle,
                interval: self.keepalive_interval?,
                probes: self.keepalive_probes?,
            })
        };
        Facts {
            detect: self.detect,
            rtt_p95: self.rtt_p95,
            rtt_p99: self.rtt_p99,
            pause: self.pause,
            idle_timeouts: self.idle_timeout.clone(),
            keepalive: self.keepalive_idle.and_then(backstop),
        }
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            misses: self.misses,
            interval: self.interval,
            timeout: self.timeout,
            preset: self.preset,
            pong_every: Some(self.pong_every),
            fine: self.fine,
        }
    }
}
