//! What speaks for a tuning and against it, from what was measured of the agents it is for.

use std::time::Duration;

use fleetbeat_liveness::bounds;
use fleetbeat_liveness::histogram;
use fleetbeat_liveness::plan::{self, Backstop, Check, Facts, Grade, Step, Wanted};
use fleetbeat_liveness::policy::Selector;
use fleetbeat_liveness::preset::{self, Preset};
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::{PING_FRAME_BYTES, nanos, v1};

use super::super::Trouble;
use super::{Parts, replay};
use crate::tuning::{Failed, check_group, in_force};

const DAYS: u32 = 7;
const DAYS_MOST: u32 = 30;
const IDLE_TIMEOUTS: usize = 16;
const FRAME_BYTES_MOST: u64 = 1 << 20;
const AGENTS_MOST: u64 = 100_000_000;
/// Round trips are merged over this time, which is as much as it takes for a P99.
const ROUND_TRIPS_OVER: time::Duration = time::Duration::DAY;
/// Fewer samples than this say nothing of a P99.
const ROUND_TRIPS_LEAST: u64 = 1_000;
/// Late heartbeats are counted over this time.
const BEATS_OVER: time::Duration = time::Duration::HOUR;

pub(super) async fn plan(
    parts: &Parts,
    request: v1::PlanTuningRequest,
) -> Result<v1::PlanTuningResponse, Trouble> {
    let asked = Asked::of(&request)?;
    let mut known = Known::of(parts, &asked);
    let history = known.measure(parts, &asked).await;
    let wrong = |error: plan::PlanError| Trouble::Wrong(format!("nothing was planned: {error}"));
    let (tuning, steps) = plan::plan(&asked.wanted, &known.facts).map_err(wrong)?;
    let policies = parts.desk.policies();
    let selector = asked
        .group
        .clone()
        .map_or_else(Selector::fleet, Selector::group);
    let today = in_force(&policies, &selector);
    let replayed = match &history {
        Ok(silences) => {
            let replay = |tuning| replay::to_wire(silences, &known, &asked, tuning);
            Some((replay(&tuning), replay(&today)))
        }
        Err(_) => None,
    };
    let (replay, replay_today) = replayed.unzip();
    let load = bounds::Load {
        tuning,
        members: u32::try_from(known.agents).unwrap_or(u32::MAX),
    };
    let exceeded = parts.desk.bounds().breaches(&[load]);
    Ok(v1::PlanTuningResponse {
        tuning: Some(tuning.into()),
        checks: plan::checks(&tuning, &known.facts)
            .into_iter()
            .map(check)
            .collect(),
        steps: steps.into_iter().map(step).collect(),
        facts: known.told,
        agents: known.agents,
        frame_bytes: asked.frame_bytes,
        today: Some(today.into()),
        replay,
        replay_today,
        history_unavailable: history
            .err()
            .map(|away| away.sentence())
            .unwrap_or_default(),
        exceeded: exceeded.iter().map(ToString::to_string).collect(),
    })
}

/// A request within its bounds.
pub(super) struct Asked {
    pub(super) group: Option<String>,
    wanted: Wanted,
    said: Facts,
    agents: Option<u64>,
    pub(super) frame_bytes: u64,
    pub(super) days: u32,
}

impl Asked {
    fn of(request: &v1::PlanTuningRequest) -> Result<Self, Trouble> {
        let wrong = |what: String| Err(Trouble::Wrong(what));
        let group = (!request.group.is_empty()).then(|| request.group.clone());
        if let Some(group) = &group {
            check_group(group).map_err(|wrong| Trouble::Wrong(wrong.to_string()))?;
        }
        if request.days > DAYS_MOST {
            return wrong(format!("{} days are more than {DAYS_MOST}", request.days));
        }
        if request.idle_timeouts_ns.len() > IDLE_TIMEOUTS {
            return wrong(format!(
                "more than {IDLE_TIMEOUTS} idle time-outs were given"
            ));
        }
        let frame_bytes = request.frame_bytes.unwrap_or(PING_FRAME_BYTES);
        if !(1..=FRAME_BYTES_MOST).contains(&frame_bytes) {
            return wrong(format!(
                "a message has 1 to {FRAME_BYTES_MOST} bytes, not {frame_bytes}"
            ));
        }
        if let Some(agents) = request
            .agents
            .filter(|agents| !(1..=AGENTS_MOST).contains(agents))
        {
            return wrong(format!(
                "a load is that of 1 to {AGENTS_MOST} agents, not of {agents}"
            ));
        }
        Ok(Self {
            group,
            wanted: wanted(request)?,
            said: said(request),
            agents: request.agents,
            frame_bytes,
            days: if request.days == 0 {
                DAYS
            } else {
                request.days
            },
        })
    }
}

fn wanted(request: &v1::PlanTuningRequest) -> Result<Wanted, Trouble> {
    let preset = match request.preset.as_str() {
        "" => None,
        name => Some(Preset::named(name).ok_or_else(|| {
            let names = preset::ALL.map(|preset| preset.name).join(", ");
            Trouble::Wrong(format!("there is no preset {name:?}; there are {names}"))
        })?),
    };
    let tuning = request.tuning.unwrap_or_default();
    Ok(Wanted {
        misses: tuning.misses,
        interval: tuning.interval_ns.map(Duration::from_nanos),
        timeout: tuning.timeout_ns.map(Duration::from_nanos),
        preset,
        pong_every: tuning.pong_every,
        fine: request.fine,
    })
}

fn said(request: &v1::PlanTuningRequest) -> Facts {
    let time = |ns: Option<u64>| ns.map(Duration::from_nanos);
    Facts {
        detect: time(request.detect_ns),
        rtt_p95: time(request.rtt_p95_ns),
        rtt_p99: time(request.rtt_p99_ns),
        pause: time(request.pause_ns),
        idle_timeouts: request
            .idle_timeouts_ns
            .iter()
            .map(|ns| Duration::from_nanos(*ns))
            .collect(),
        keepalive: request.keepalive.map(|keepalive| Backstop {
            idle: Duration::from_nanos(keepalive.idle_ns),
            interval: Duration::from_nanos(keepalive.interval_ns),
            probes: keepalive.probes,
        }),
    }
}

/// What is said and what is measured.
pub(super) struct Known {
    facts: Facts,
    pub(super) agents: u64,
    /// Known agents that have not said goodbye.
    pub(super) members: u64,
    told: Vec<v1::PlanFact>,
}

impl Known {
    fn of(parts: &Parts, asked: &Asked) -> Self {
        let of_it = |group: &str| asked.group.as_ref().is_none_or(|asked| asked == group);
        let agents = parts.registry.agents();
        let members = agents
            .iter()
            .filter(|agent| agent.watch().verdict != Verdict::Left && of_it(&agent.facts().group));
        let members = u64::try_from(members.count()).unwrap_or(u64::MAX);
        let mut known = Self {
            facts: asked.said.clone(),
            agents: asked.agents.unwrap_or(members),
            members,
            told: Vec::new(),
        };
        known.tell(
            "members",
            members,
            "known agents that have not said goodbye".to_owned(),
        );
        if let Some(p99) = known.facts.rtt_p99 {
            known.tell("rtt_p99", nanos(p99), "as it was said".to_owned());
        }
        if let Some(pause) = known.facts.pause {
            known.tell("pause", nanos(pause), "as it was said".to_owned());
        }
        known
    }

    /// Fills in what was measured where nothing was said, and reads what happened.
    async fn measure(&mut self, parts: &Parts, asked: &Asked) -> Result<replay::Recorded, Failed> {
        let (store, group) = (&parts.store, asked.group.as_deref());
        let now = parts.registry.clock().wall();
        let groups = asked.group.as_ref().map(std::slice::from_ref);
        let trips = store
            .round_trips(groups, now - ROUND_TRIPS_OVER, now)
            .await?;
        self.round_trips(&trips);
        let beats = store.beats(group, now - BEATS_OVER).await?;
        if beats.beats > 0 {
            let share = share(beats.late, beats.beats);
            let source = format!(
                "{} of {} heartbeats of the last hour",
                beats.late, beats.beats
            );
            self.told.push(v1::PlanFact {
                name: "late".to_owned(),
                value: share,
                source,
            });
        }
        let recorded = replay::Recorded::read(parts, asked).await?;
        if let Some((only, source)) = recorded.only(asked.days) {
            self.tell("replayed", nanos(only), source);
        }
        if let (None, Some(pause)) = (self.facts.pause, recorded.longest_pause()) {
            let pause = Duration::from_millis(nanos(pause).div_ceil(1_000_000));
            self.facts.pause = Some(pause);
            let days = asked.days;
            let source = format!("the longest that an agent itself was late in {days} days");
            self.tell("pause", nanos(pause), source);
        }
        Ok(recorded)
    }

    fn round_trips(&mut self, counts: &[u64]) {
        let samples: u64 = counts.iter().sum();
        let at = |share| histogram::quantile(counts, share);
        for (name, share) in [("rtt_p50", 0.5), ("rtt_p95", 0.95), ("rtt_p99", 0.99)] {
            if let Some(ns) = at(share) {
                let few = if samples < ROUND_TRIPS_LEAST {
                    format!(", too few to plan with: {ROUND_TRIPS_LEAST} are needed")
                } else {
                    String::new()
                };
                let source = format!("{samples} round trips of the last day, ± 3 %{few}");
                self.tell(name, ns, source);
            }
        }
        let unsaid = self.facts.rtt_p95.is_none() && self.facts.rtt_p99.is_none();
        if unsaid && samples >= ROUND_TRIPS_LEAST {
            let tenth_ms = |ns: u64| Duration::from_micros(ns.div_ceil(100_000) * 100);
            self.facts.rtt_p95 = at(0.95).map(tenth_ms);
            self.facts.rtt_p99 = at(0.99).map(tenth_ms);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn tell(&mut self, name: &str, value: u64, source: String) {
        // What was said goes before what was measured.
        if self.told.iter().any(|fact| fact.name == name) {
            return;
        }
        self.told.push(v1::PlanFact {
            name: name.to_owned(),
            value: value as f64,
            source,
        });
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share, for people")]
fn share(some: u64, all: u64) -> f64 {
    some as f64 / all as f64
}

fn check(check: Check) -> v1::PlanCheck {
    v1::PlanCheck {
        name: check.name.to_owned(),
        ok: check.grade != Grade::Failed,
        grade: check.grade.as_str().to_owned(),
        reason: check.reason,
    }
}

fn step(step: Step) -> v1::PlanStep {
    v1::PlanStep {
        of: step.of.to_owned(),
        text: step.text,
    }
}
