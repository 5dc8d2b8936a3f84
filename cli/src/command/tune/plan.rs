use std::time::Duration;

use clap::ArgGroup;
use fleetbeat_liveness::Tuning;
use fleetbeat_liveness::plan::{Backstop, Facts, Load, PlanError, Step, checks, derive};
use fleetbeat_liveness::preset::Preset;
use fleetbeat_proto::PING_FRAME_BYTES;

use super::parts::{duration, preset};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::table;
use crate::view::Plan;

/// Derive T and W from a tolerated detection time, or check a tuning, before anybody runs it
///
/// Shows each step, what speaks against the tuning, and its load. Ends with 1 when a check fails.
#[derive(Debug, clap::Args)]
#[command(
    group(ArgGroup::new("tuning").args(["detect", "preset", "interval"]).required(true).multiple(true)),
    after_help = "\
Examples:
  fleetbeat tune plan --offline --detect 20s --rtt-p99 400ms --misses 2 --agents 50000
  fleetbeat tune plan --offline --preset web --rtt-p99 80ms --idle-timeout 60s
  fleetbeat tune plan --offline --interval 10s --misses 2 --timeout 3s --detect 30s --pause 2s -o json"
)]
pub(crate) struct Args {
    /// Asks no server: what is known of the fleet and its paths is said here
    #[arg(long, required = true)]
    offline: bool,
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
    /// Agents whose load is counted
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    agents: u64,
    /// Size of one message; the default is a heartbeat's, with its HTTP/2 frame
    #[arg(long, value_name = "BYTES", default_value_t = PING_FRAME_BYTES, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    frame_bytes: u64,
    /// Round to tenths of a second, and let W be shorter than one
    #[arg(long)]
    fine: bool,
}

pub(super) fn run(args: &Args, output: &mut Output) -> Result<Exit, Failure> {
    let facts = args.facts();
    let (tuning, steps) = args.tuning(&facts).map_err(|error| {
        Failure::refused(format!("nothing was planned: {error}"))
            .next("`fleetbeat tune plan --help` lists what can be said")
    })?;
    let checks = checks(&tuning, &facts);
    let load = Load::of(&tuning, args.agents, args.frame_bytes);
    let plan = Plan::of(&tuning, &steps, &checks, &load, args.agents);
    output.show(&plan, table::plan)?;
    let good = plan.checks.iter().all(|check| check.ok);
    Ok(if good { Exit::Done } else { Exit::Failed })
}

impl Args {
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

    /// The tuning that is asked about, with the steps that led to it.
    fn tuning(&self, facts: &Facts) -> Result<(Tuning, Vec<Step>), PlanError> {
        /// Of the built-in tuning.
        const MISSES: u32 = 3;
        facts.validate()?;
        let said = self.preset.map(Preset::tuning);
        let misses = self.misses.or(said.map(|said| said.misses()));
        let misses = misses.unwrap_or(MISSES);
        let interval = self.interval.or(said.map(|said| said.interval()));
        let timeout = self.timeout.or(said.map(|said| said.timeout()));
        match (interval, timeout, self.detect) {
            (Some(interval), Some(timeout), _) => {
                let tuning = Tuning::new(interval, misses, timeout, self.pong_every)?;
                Ok((tuning, Vec::new()))
            }
            (_, _, detect) => {
                let detect = detect.unwrap_or_default();
                let (tuning, steps) = derive(detect, misses, facts, self.fine)?;
                let (interval, timeout) = (tuning.interval(), tuning.timeout());
                let tuning = Tuning::new(interval, misses, timeout, self.pong_every)?;
                Ok((tuning, steps))
            }
        }
    }
}
