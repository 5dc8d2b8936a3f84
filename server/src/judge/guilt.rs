use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::expectation::Expectation;
use fleetbeat_liveness::hearing::Counts;
use fleetbeat_liveness::hold::{Change, Evidence, Hold, Leave};
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::outage::Outage;
use tracing::{info, warn};
use uuid::Uuid;

use crate::registry::{Kind, Registry};

/// How often groups, lanes and the last minute are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// The fleet is partly silent below this share of what is owed.
const PARTLY_BELOW: f64 = 0.8;
/// So many agents that are expected back and do not come are too many for chance.
const TELLING: usize = 20;
/// A group is silent below this share.
const GROUP_BELOW: f64 = 0.2;

/// Whether a silence may be the server's own fault, and what is told of it.
#[derive(Debug)]
pub(super) struct Guilt {
    registry: Arc<Registry>,
    hold: Hold,
    held: Option<Uuid>,
    fleet: Scope,
    groups: HashMap<String, Scope>,
    lanes: Vec<Lane>,
    late: Option<Uuid>,
    looked: Moment,
    /// Somebody was heard since the start.
    heard: bool,
    /// Agents that were heard last before the first of these moments, when somebody was heard again, have
    /// until the second to come back.
    fair: (Moment, Moment),
    /// Sessions when verdicts were held.
    sessions: u64,
}

/// A part of the fleet that may be out.
#[derive(Debug)]
struct Scope {
    outage: Outage,
    incident: Option<Uuid>,
}

/// What is known of one lane.
#[derive(Clone, Debug, Default)]
struct Lane {
    stalls: (u64, Duration),
    deaf: Option<Uuid>,
}

impl Guilt {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        let lanes = vec![Lane::default(); registry.lanes().len()];
        Self {
            registry,
            hold: Hold::new(),
            held: None,
            fleet: Scope::new(PARTLY_BELOW),
            groups: HashMap::new(),
            lanes,
            late: None,
            looked: Moment::ZERO,
            heard: false,
            fair: (Moment::ZERO, Moment::ZERO),
            sessions: 0,
        }
    }

    /// Before anybody is looked at. True when those that were not judged have to be looked at again.
    pub(super) fn look(&mut self, now: Moment) -> bool {
        let counts = self.registry.counts();
        let first = !self.heard && counts.heard > 0;
        self.heard |= first;
        if first && self.held.is_some() {
            self.fair = (now, now + self.registry.fair_chance(self.sessions));
            self.release("somebody was heard for the first time since the start".to_owned());
        }
        let change = self.hold.sample(now, counts);
        if now.since(self.looked) >= EVERY {
            self.looked = now;
            self.look_closer(now);
        }
        let released = change.is_some_and(|change| {
            self.tell(now, change);
            !self.hold.waits()
        });
        released || first
    }

    /// Until when an agent may come back that was heard last at `heard`, when nobody was heard after that
    /// for a while.
    pub(super) fn fair_until(&self, heard: Moment) -> Option<Moment> {
        let (before, until) = self.fair;
        (heard < before).then_some(until)
    }

    /// Whether an agent, last heard at `heard`, longer ago than D, may be judged.
    pub(super) fn ask(&mut self, now: Moment, heard: Moment, expectation: &Expectation) -> Leave {
        let (leave, change) = self.hold.ask(now, heard, expectation);
        if let Some(change) = change {
            self.tell(now, change);
        }
        leave
    }

    /// An agent of `group` is judged whose session had ended, and with it what the group owed.
    pub(super) fn lost(&mut self, now: Moment, expectation: &Expectation, group: &str) {
        self.fleet.outage.lost(now, expectation);
        if let Some(scope) = self.groups.get_mut(group) {
            scope.outage.lost(now, expectation);
        }
        self.missed(group, expectation.look_back);
    }

    /// The server cannot show that it hears anybody: verdicts are held, or `waiting` agents had time to come
    /// back and nobody was heard since the start. The first of many that are not called offline for that
    /// begins the incident.
    pub(super) fn knows_nothing(&mut self, now: Moment, waiting: usize) -> bool {
        if self.hold.holds() {
            return true;
        }
        if self.heard || waiting < TELLING {
            return false;
        }
        if self.held.is_none() {
            let because = format!(
                "nobody was heard since the start, though {waiting} agents had time to come back; they are \
                 unknown until somebody is"
            );
            self.sessions = waiting as u64;
            self.begin(now, because);
        }
        true
    }

    /// The whole process did not run for `length`.
    pub(super) fn stalled(&self, length: Duration) {
        let because = format!("the server did not run for {length:.3?}");
        self.past(Kind::ServerStalled, length, because);
    }

    /// A lane stopped to answer, or answers again.
    pub(super) fn lane_deaf(&mut self, number: usize, deaf: bool) {
        let wall = self.registry.clock().wall();
        let lane = &mut self.lanes[number];
        let incidents = self.registry.incidents();
        if deaf {
            warn!(
                lane = number,
                "Lane is deaf: its agents are unknown until it answers"
            );
            let because = format!("lane {number} does not answer, its agents are unknown");
            lane.deaf = Some(incidents.begin(Kind::LaneDeaf, "", wall, because));
        } else if let Some(incident) = lane.deaf.take() {
            incidents.end(incident, wall, "the lane answers again".to_owned());
        }
    }

    fn tell(&mut self, now: Moment, change: Change) {
        let registry = Arc::clone(&self.registry);
        match change {
            Change::Began { evidence, until } => {
                let because = format!(
                    "{}; verdicts are held for at most {:.0?}",
                    sentence("this server", evidence),
                    until.since(now)
                );
                self.sessions = registry.session_count();
                self.begin(now, because);
            }
            Change::Heard { since } => {
                info!(silence = ?now.since(since), "Somebody is heard again");
                registry.deaf_between(since, now);
                self.fair = (now, now + registry.fair_chance(self.sessions));
                if !self.hold.holds() {
                    let outcome = format!(
                        "first heard somebody after {:.1?}; the others have the time of a grace",
                        now.since(since)
                    );
                    self.release(outcome);
                }
            }
            Change::Recovered { since } => {
                registry.deaf_between(since, now);
                let outcome = format!(
                    "half of what was owed arrives again, {:.1?} after the silence began",
                    now.since(since)
                );
                self.release(outcome);
            }
            Change::Passed { heard_somebody } => {
                if heard_somebody {
                    let outcome = "the bound has passed and others were heard meanwhile: the silence \
                                   is that of the agents";
                    self.release(outcome.to_owned());
                } else {
                    warn!("Nobody was heard within the bound, silent agents are unknown");
                }
            }
        }
    }

    fn begin(&mut self, now: Moment, because: String) {
        warn!(because, "Nearly nobody is heard, verdicts are held");
        self.registry.set_held_since(Some(now));
        let wall = self.registry.clock().wall();
        let incidents = self.registry.incidents();
        self.held = Some(incidents.begin(Kind::MassSilence, "", wall, because));
    }

    fn release(&mut self, outcome: String) {
        info!(outcome, "Verdicts are no longer held");
        self.registry.set_held_since(None);
        if let Some(incident) = self.held.take() {
            let wall = self.registry.clock().wall();
            self.registry.incidents().end(incident, wall, outcome);
        }
    }

    /// An agent of `group` is judged: perhaps many are.
    pub(super) fn missed(&mut self, group: &str, look_back: Duration) {
        let wall = self.registry.clock().wall();
        let incidents = self.registry.incidents();
        let scope = self.groups.get_mut(group);
        if let Some(scope) = scope {
            if let Some(evidence) = scope.outage.missed(look_back) {
                let because = sentence(&format!("group {group}"), evidence);
                warn!(group, because, "Group is silent");
                scope.incident = Some(incidents.begin(Kind::GroupSilence, group, wall, because));
            }
            if scope.incident.is_some() {
                return;
            }
        }
        if let Some(evidence) = self.fleet.outage.missed(look_back) {
            let because = sentence("this server", evidence);
            warn!(because, "Much of the fleet is silent");
            self.fleet.incident = Some(incidents.begin(Kind::PartialSilence, "", wall, because));
        }
    }

    fn look_closer(&mut self, now: Moment) {
        self.look_at_scopes(now);
        self.look_at_lanes();
        self.look_at_lateness(now);
    }

    fn look_at_scopes(&mut self, now: Moment) {
        let counts = self.registry.counts();
        self.fleet.sample(now, counts, &self.registry);
        let mut groups: HashMap<String, Counts> = HashMap::new();
        for meter in self.registry.meters().all() {
            let counts = groups.entry(meter.group().to_owned()).or_default();
            counts.heard += meter.beats();
            counts.owed_per_s += meter.owed().per_s();
        }
        for (group, counts) in groups {
            self.groups
                .entry(group)
                .or_insert_with(|| Scope::new(GROUP_BELOW))
                .sample(now, counts, &self.registry);
        }
    }

    fn look_at_lanes(&mut self) {
        for (number, gauge) in self.registry.lanes().iter().enumerate() {
            let stalls = gauge.stalls();
            let before = std::mem::replace(&mut self.lanes[number].stalls, stalls);
            if stalls.0 > before.0 {
                let length = stalls.1.saturating_sub(before.1);
                let because = format!("lane {number} did not run for {length:.3?}");
                self.past(Kind::LaneStalled, length, because);
            }
        }
    }

    fn look_at_lateness(&mut self, now: Moment) {
        let lanes = self.registry.lanes().iter();
        let mut minutes = lanes.map(|gauge| gauge.last_minute(now));
        let own = self.registry.deafness().last_minute(now);
        let late = own.alarming() || minutes.any(|minute| minute.alarming());
        let wall = self.registry.clock().wall();
        let incidents = self.registry.incidents();
        match (self.late, late) {
            (None, true) => {
                let because = "verdicts were late for over 10 % of the last minute, because the server \
                               was deaf or gave graces for it";
                warn!("Verdicts are late for over 10 % of the time");
                self.late = Some(incidents.begin(Kind::VerdictsLate, "", wall, because.to_owned()));
            }
            (Some(incident), false) => {
                incidents.end(incident, wall, "verdicts are in time again".to_owned());
                self.late = None;
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// Something that is over when it is noticed.
    fn past(&self, kind: Kind, length: Duration, because: String) {
        let wall = self.registry.clock().wall();
        let incidents = self.registry.incidents();
        let incident = incidents.begin(kind, "", wall - length, because);
        let outcome = "nobody who was live then is judged before the grace ends".to_owned();
        incidents.end(incident, wall, outcome);
    }
}

impl Scope {
    fn new(below: f64) -> Self {
        Self {
            outage: Outage::new(below),
            incident: None,
        }
    }

    fn sample(&mut self, now: Moment, counts: Counts, registry: &Registry) {
        if self.outage.sample(now, counts)
            && let Some(incident) = self.incident.take()
        {
            let wall = registry.clock().wall();
            let outcome = "those that are left are heard as they should be".to_owned();
            registry.incidents().end(incident, wall, outcome);
        }
    }
}

fn sentence(who: &str, Evidence { look_back, share }: Evidence) -> String {
    format!(
        "of {:.0} messages owed to {who} in the last {look_back:.1?}, {:.0} arrived",
        share.owed, share.heard
    )
}
