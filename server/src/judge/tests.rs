mod adaptive;
mod mass_silence;
mod patience;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::retune::Revised;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_proto::v1::CloseReason;
use uuid::Uuid;

use super::bench::Bench;
use crate::clock::Clock;
use crate::registry::{Agent, Facts, Opening, Rates, Registry, Session};

/// D of the default tuning.
const DEADLINE: Duration = Duration::from_secs(62);

struct Trial {
    registry: Arc<Registry>,
    bench: Bench,
    session: Arc<Session>,
}

impl Trial {
    /// A server with two lanes; one agent has a session on the first.
    fn begin() -> Self {
        let registry = Arc::new(Registry::new(Clock::start(), 2, Rates::default()));
        let session = open(&registry, 1, None);
        let bench = Bench::new(Arc::clone(&registry));
        Self {
            registry,
            bench,
            session,
        }
    }

    /// The agent's next Hello, which lay unread for a while.
    fn hello(&mut self, connection: u64) {
        self.session = open(&self.registry, connection, None);
    }

    fn agent(&self) -> &Arc<Agent> {
        &self.session.agent
    }

    fn verdict(&self) -> Verdict {
        self.agent().watch().verdict
    }

    fn later(&self, by: Duration) -> Moment {
        self.session.last_heard() + by
    }

    /// The lanes in `running` show that they run.
    fn tick(&self, running: &[usize], now: Moment) {
        for lane in running {
            self.registry.lanes()[*lane].ticked(now, now);
        }
    }
}

fn open(registry: &Registry, connection: u64, applied: Option<Revised>) -> Arc<Session> {
    registry.open(opening(connection, applied)).unwrap().session
}

fn opening(connection: u64, applied: Option<Revised>) -> Opening {
    let first = Opening::trial([1; 16]);
    Opening {
        fence: Fence {
            connection,
            ..first.fence
        },
        applied,
        ..first
    }
}

/// HARD-CASES A5: what a session that broke leaves behind is judged at D.
#[test]
fn an_agent_without_a_session_is_offline_at_its_deadline_and_not_before() {
    let mut trial = Trial::begin();
    let broke = CloseReason::TransportError;
    trial.registry.end(&trial.session, broke, "broke", None);
    let early = trial.later(Duration::from_millis(61_990));
    trial.tick(&[0, 1], early);
    trial.bench.pass(early);
    assert_eq!(trial.verdict(), Verdict::Suspect);
    let due = trial.later(DEADLINE + Duration::from_millis(20));
    trial.tick(&[0, 1], due);
    trial.bench.pass(due);
    assert_eq!(trial.verdict(), Verdict::Offline);
}

/// HARD-CASES A1: its Hello may lie unread on any lane that does not run.
#[test]
fn an_agent_without_a_session_is_not_called_offline_while_any_lane_is_stalled() {
    let mut trial = Trial::begin();
    let broke = CloseReason::TransportError;
    trial.registry.end(&trial.session, broke, "broke", None);
    let due = trial.later(DEADLINE + Duration::from_secs(5));
    trial.tick(&[0], due);
    trial.bench.pass(due);
    assert_eq!(trial.verdict(), Verdict::Suspect);
}

/// HARD-CASES A1, found by simulation: its agent may have come back to a lane that does not run just now.
#[test]
fn a_session_is_not_convicted_while_another_lane_may_hold_the_next_hello() {
    let mut trial = Trial::begin();
    let due = trial.later(DEADLINE + Duration::from_millis(20));
    let moment = Duration::from_millis(400);
    trial.tick(&[1], due.before(moment));
    trial.tick(&[0], due);
    assert_eq!(trial.bench.pass(due).nominated, 0);
    assert_eq!(trial.verdict(), Verdict::Suspect);
    let next = due + moment;
    trial.tick(&[0, 1], next);
    assert_eq!(trial.bench.pass(next).nominated, 1);
}

/// HARD-CASES A1: a nomination that its lane does not answer makes the lane deaf and the agent unknown;
/// after 30 s the lane is dead.
#[test]
fn a_lane_that_answers_no_nomination_is_deaf_and_later_dead() {
    let mut trial = Trial::begin();
    let due = trial.later(DEADLINE + Duration::from_millis(20));
    trial.tick(&[0, 1], due);
    assert_eq!(trial.bench.pass(due).nominated, 1);
    let unanswered = due + Duration::from_millis(1_500);
    trial.tick(&[0, 1], unanswered);
    trial.bench.pass(unanswered);
    assert_eq!(trial.verdict(), Verdict::Unknown);
    assert!(trial.registry.lanes()[0].is_deaf());
    assert!(!trial.registry.lanes()[1].is_deaf());
    assert_eq!(trial.bench.dead_lane(unanswered), None);
    let dead = due + Duration::from_secs(31);
    trial.tick(&[0, 1], dead);
    trial.bench.pass(dead);
    assert_eq!(trial.bench.dead_lane(dead), Some(0));
}

/// HARD-CASES A2: a pause of the process is nobody's silence, and no lane died of it.
#[test]
fn a_pause_of_the_process_convicts_nobody_and_kills_no_lane() {
    let mut trial = Trial::begin();
    let start = trial.later(Duration::ZERO);
    trial.tick(&[0, 1], start);
    trial.bench.pass(start);
    let resumed = trial.later(DEADLINE * 2);
    trial.registry.judged_at(resumed, start);
    trial.bench.stalled(resumed, DEADLINE * 2);
    assert_eq!(trial.bench.pass(resumed).nominated, 0);
    assert_eq!(trial.bench.dead_lane(resumed), None);
    let settled = resumed + Duration::from_secs(2);
    trial.tick(&[0, 1], settled);
    assert_eq!(trial.bench.pass(settled).nominated, 0, "grace of a minute");
    let over = resumed + Duration::from_secs(62);
    trial.tick(&[0, 1], over);
    assert_eq!(trial.bench.pass(over).nominated, 1);
}

/// HARD-CASES A2: an agent that gave the server up during a stall is on its way back, and what its
/// attempts during the stall left in the sockets proves nothing.
#[test]
fn an_agent_that_gave_up_a_stalled_server_is_unknown_until_it_had_time_to_return() {
    let mut trial = Trial::begin();
    let began = trial.registry.clock().now();
    trial.session.beat(began, None);
    let resumed = began + Duration::from_secs(35);
    trial.registry.judged_at(resumed, began);
    trial.tick(&[0, 1], resumed);
    for connection in 2..5 {
        let gave_up = CloseReason::PeerGaveUp;
        trial.registry.end(&trial.session, gave_up, "gave up", None);
        assert_eq!(trial.verdict(), Verdict::Unknown);
        trial.hello(connection);
        assert_eq!(trial.verdict(), Verdict::Online);
    }
    let broke = CloseReason::TransportError;
    trial.registry.end(&trial.session, broke, "broke", None);
    let later = resumed + Duration::from_secs(90);
    trial.tick(&[0, 1], later);
    trial.bench.pass(later);
    assert_eq!(trial.verdict(), Verdict::Unknown);
    let last = resumed + Duration::from_mins(10);
    trial.tick(&[0, 1], last);
    trial.bench.pass(last);
    assert_eq!(trial.verdict(), Verdict::Offline);
}

#[test]
fn an_agent_whose_session_breaks_without_a_stall_is_suspect() {
    let trial = Trial::begin();
    trial.tick(&[0, 1], trial.registry.clock().now());
    let gave_up = CloseReason::PeerGaveUp;
    trial.registry.end(&trial.session, gave_up, "gave up", None);
    assert_eq!(trial.verdict(), Verdict::Suspect);
}
