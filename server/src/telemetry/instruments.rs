//! Every metric of the server: its name, its sentence, and where it is read. Values are read when a
//! reader asks; nothing here runs when a heartbeat arrives.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetbeat_liveness::condition::Condition;
use fleetbeat_proto::v1::CloseReason;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};

use super::census::{GROUPS, OTHER};
use super::{Census, Error, Metrics, Recording, histograms, judge_figures};
use crate::judge::Pulse;
use crate::record::{State, Status};
use crate::registry::{GroupMeter, Kind, LaneGauge, Registry};
use crate::tuning::Ledger;

/// What is measured.
#[derive(Debug, Clone)]
pub struct Sources {
    pub registry: Arc<Registry>,
    pub census: Arc<Census>,
    pub pulse: Arc<Pulse>,
    pub recording: Recording,
    pub ledger: Arc<Ledger>,
}

impl Metrics {
    /// Registers every metric of the server. Call once.
    pub fn observe(&self, sources: &Sources) -> Result<(), Error> {
        let meter = Named(self.meter());
        lanes(&meter, sources);
        fleet(&meter, sources);
        sessions(&meter, sources);
        judge(&meter, sources);
        recorder(&meter, sources);
        tuning(&meter, sources);
        histograms::register(self.registry(), &sources.registry)
    }
}

fn lanes(meter: &Named, sources: &Sources) {
    type Read = fn(&LaneGauge) -> u64;
    let gauges: [(&'static str, &'static str, Read); 2] = [
        ("fleetbeat_sessions", "Live sessions", |lane| {
            lane.sessions()
        }),
        (
            "fleetbeat_lane_deaf",
            "1 while the lane leaves a nomination unanswered",
            |lane| u64::from(lane.is_deaf()),
        ),
    ];
    for (name, help, read) in gauges {
        let registry = Arc::clone(&sources.registry);
        meter.gauge(name, help, move |out| {
            each_lane(&registry, |lane, at| out.observe(read(lane), at));
        });
    }
    let registry = Arc::clone(&sources.registry);
    meter.counter("fleetbeat_beats_total", "Heartbeats received", move |out| {
        each_lane(&registry, |lane, at| out.observe(lane.beats(), at));
    });
    let registry = Arc::clone(&sources.registry);
    meter.seconds(
        "fleetbeat_lane_lag_seconds",
        "Lateness of the lane's last tick",
        move |out| {
            each_lane(&registry, |lane, at| {
                out.observe(lane.lag().as_secs_f64(), at);
            });
        },
    );
}

fn each_lane(registry: &Registry, mut see: impl FnMut(&LaneGauge, &[KeyValue])) {
    for (lane, number) in registry.lanes().iter().zip(0_i64..) {
        see(lane, &[KeyValue::new("lane", number)]);
    }
}

fn fleet(meter: &Named, sources: &Sources) {
    let census = Arc::clone(&sources.census);
    meter.gauge(
        "fleetbeat_agents",
        "Agents by verdict; groups past 1,000 are `other`",
        move |out| {
            for (group, verdicts) in &census.take().groups {
                for (verdict, count) in verdicts.by_verdict() {
                    let group = KeyValue::new("group", group.clone());
                    out.observe(count, &[group, KeyValue::new("verdict", verdict.as_str())]);
                }
            }
        },
    );
    let census = Arc::clone(&sources.census);
    let help = "Agents by what is the case beside their verdict";
    meter.gauge("fleetbeat_agent_conditions", help, move |out| {
        let counts = census.take().conditions;
        for (condition, count) in Condition::ALL.into_iter().zip(counts) {
            out.observe(count, &[KeyValue::new("condition", condition.as_str())]);
        }
    });
    let census = Arc::clone(&sources.census);
    let help = "Live agents that do not run the tuning that the policies want";
    meter.gauge("fleetbeat_tuning_drifting", help, move |out| {
        out.observe(census.take().drifting, &[]);
    });
}

fn sessions(meter: &Named, sources: &Sources) {
    type Read = fn(&GroupMeter) -> u64;
    let counters: [(&str, &str, Read); 2] = [
        (
            "fleetbeat_sessions_opened_total",
            "Sessions opened",
            GroupMeter::sessions_opened,
        ),
        (
            "fleetbeat_reconnects_total",
            "Sessions opened by agents that had one before",
            GroupMeter::sessions_reopened,
        ),
    ];
    for (name, help, read) in counters {
        let registry = Arc::clone(&sources.registry);
        meter.counter(name, help, move |out| {
            for (group, count) in by_group(&registry, read) {
                out.observe(count, &[KeyValue::new("group", group)]);
            }
        });
    }
    let registry = Arc::clone(&sources.registry);
    let help = "Hellos that were told to come later because too many came at once";
    meter.counter("fleetbeat_shed_total", help, move |out| {
        out.observe(registry.shed(), &[]);
    });
    let registry = Arc::clone(&sources.registry);
    meter.counter(
        "fleetbeat_sessions_closed_total",
        "Sessions ended, by close reason",
        move |out| {
            for reason in reasons() {
                let closed = registry
                    .meters()
                    .all()
                    .iter()
                    .map(|meter| meter.sessions_closed(reason))
                    .sum();
                out.observe(closed, &[KeyValue::new("reason", reason.word())]);
            }
        },
    );
}

/// Sums over lanes, by group. Each lane bounds its groups; together they are bounded here.
fn by_group(registry: &Registry, read: impl Fn(&GroupMeter) -> u64) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for meter in registry.meters().all() {
        let known = sums.len() < GROUPS || sums.contains_key(meter.group());
        let group = if known { meter.group() } else { OTHER };
        *sums.entry(group.to_owned()).or_default() += read(&meter);
    }
    sums
}

/// Every reason that a session can end with.
fn reasons() -> impl Iterator<Item = CloseReason> {
    (1..=CloseReason::ServerLost as i32).filter_map(|number| CloseReason::try_from(number).ok())
}

fn judge(meter: &Named, sources: &Sources) {
    let read = {
        let (registry, pulse) = (Arc::clone(&sources.registry), Arc::clone(&sources.pulse));
        move || judge_figures(&registry, &pulse)
    };
    let figures = read.clone();
    let help = "Time since the judge ended its last pass";
    meter.seconds("fleetbeat_judge_pass_age_seconds", help, move |out| {
        out.observe(figures().pass_age.as_secs_f64(), &[]);
    });
    let figures = read.clone();
    meter.gauge(
        "fleetbeat_judge_watched",
        "Agents that have a deadline",
        move |out| {
            out.observe(figures().watched, &[]);
        },
    );
    let figures = read.clone();
    let help = "Sessions that the judge asked to convict or spare themselves";
    meter.counter("fleetbeat_nominations_total", help, move |out| {
        out.observe(figures().nominations, &[]);
    });
    let figures = read.clone();
    let help = "Stalls of over 1 s of the process or of a lane";
    meter.counter("fleetbeat_stalls_total", help, move |out| {
        out.observe(figures().stalls, &[]);
    });
    let figures = read.clone();
    meter.seconds_total(
        "fleetbeat_stalled_seconds_total",
        "Sum of those stalls",
        move |out| {
            out.observe(figures().stalled.as_secs_f64(), &[]);
        },
    );
    let figures = read.clone();
    let help = "1 while verdicts are held because nearly nobody is heard";
    meter.gauge("fleetbeat_verdicts_held", help, move |out| {
        out.observe(u64::from(figures().held.is_some()), &[]);
    });
    let registry = Arc::clone(&sources.registry);
    let help = "Incidents of this server that last, by kind";
    meter.gauge("fleetbeat_incidents_open", help, move |out| {
        let open = registry.incidents().open();
        for kind in Kind::ALL {
            let count = open.iter().filter(|incident| incident.kind == kind).count();
            out.observe(count as u64, &[KeyValue::new("kind", kind.as_str())]);
        }
    });
    let figures = read;
    let help = "Nobody who was live before the last stall is convicted for so long";
    meter.seconds("fleetbeat_grace_left_seconds", help, move |out| {
        out.observe(figures().grace_left.as_secs_f64(), &[]);
    });
}

fn recorder(meter: &Named, sources: &Sources) {
    type Read = fn(&Status) -> u64;
    let gauges: [(&str, &str, Read); 4] = [
        (
            "fleetbeat_recorder_writing",
            "1 while Postgres takes what is recorded",
            |status| u64::from(status.state == State::Writing),
        ),
        (
            "fleetbeat_recorder_full",
            "1 while memory holds no more of what waits",
            |status| u64::from(status.full),
        ),
        (
            "fleetbeat_recorder_backlog_batches",
            "Batches that wait for Postgres",
            |status| status.backlog_batches,
        ),
        (
            "fleetbeat_recorder_backlog_rows",
            "Rows that wait for Postgres",
            |status| status.backlog_rows,
        ),
    ];
    for (name, help, read) in gauges {
        let recording = sources.recording.clone();
        meter.gauge(name, help, move |out| {
            out.observe(read(&recording.status()), &[]);
        });
    }
    let counters: [(&str, &str, Read); 3] = [
        (
            "fleetbeat_recorder_written_rows_total",
            "Rows written to Postgres",
            |status| status.written_rows,
        ),
        (
            "fleetbeat_recorder_rejected_rows_total",
            "Rows that Postgres refused",
            |status| status.rejected_rows,
        ),
        (
            "fleetbeat_recorder_lost_batches_total",
            "Batches that a fail-over lost",
            |status| status.lost_batches,
        ),
    ];
    for (name, help, read) in counters {
        let recording = sources.recording.clone();
        meter.counter(name, help, move |out| {
            out.observe(read(&recording.status()), &[]);
        });
    }
    let recording = sources.recording.clone();
    let help = "Age of the oldest record that waits for Postgres";
    meter.seconds("fleetbeat_recorder_backlog_age_seconds", help, move |out| {
        out.observe(recording.status().backlog_age.as_secs_f64(), &[]);
    });
}

fn tuning(meter: &Named, sources: &Sources) {
    let registry = Arc::clone(&sources.registry);
    meter.gauge(
        "fleetbeat_tuning_revision",
        "Policy revision in force on this server",
        move |out| {
            out.observe(registry.policies().revision(), &[]);
        },
    );
    let ledger = Arc::clone(&sources.ledger);
    let help = "Pushes sent to live sessions after a change of the policies";
    meter.counter("fleetbeat_tuning_pushes_total", help, move |out| {
        out.observe(ledger.totals().0, &[]);
    });
    let ledger = Arc::clone(&sources.ledger);
    meter.counter(
        "fleetbeat_tuning_acks_total",
        "Answers of agents to pushes",
        move |out| {
            let (_, applied, refused) = ledger.totals();
            out.observe(applied, &[KeyValue::new("outcome", "applied")]);
            out.observe(refused, &[KeyValue::new("outcome", "refused")]);
        },
    );
}

/// Makes instruments under their whole names.
struct Named(Meter);

impl Named {
    fn gauge<F>(&self, name: &'static str, help: &'static str, read: F)
    where
        F: Fn(&dyn AsyncInstrument<u64>) + Send + Sync + 'static,
    {
        self.0
            .u64_observable_gauge(name)
            .with_description(help)
            .with_callback(read)
            .build();
    }

    fn seconds<F>(&self, name: &'static str, help: &'static str, read: F)
    where
        F: Fn(&dyn AsyncInstrument<f64>) + Send + Sync + 'static,
    {
        self.0
            .f64_observable_gauge(name)
            .with_description(help)
            .with_callback(read)
            .build();
    }

    fn counter<F>(&self, name: &'static str, help: &'static str, read: F)
    where
        F: Fn(&dyn AsyncInstrument<u64>) + Send + Sync + 'static,
    {
        self.0
            .u64_observable_counter(name)
            .with_description(help)
            .with_callback(read)
            .build();
    }

    fn seconds_total<F>(&self, name: &'static str, help: &'static str, read: F)
    where
        F: Fn(&dyn AsyncInstrument<f64>) + Send + Sync + 'static,
    {
        self.0
            .f64_observable_counter(name)
            .with_description(help)
            .with_callback(read)
            .build();
    }
}
