use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;
use fleetbeat_proto::v1::{self, FromAgent, from_agent::Message};

use super::{Attendance, BLOCKED_LOOKS};
use crate::clock::{Clock, Hands};
use crate::lane::Context;
use crate::registry::{Link, Outbox, Rates, Registry};

/// D of the default tuning.
const DEADLINE: Duration = Duration::from_secs(62);

struct Trial {
    hands: &'static Hands,
    registry: Arc<Registry>,
    link: Arc<Link>,
    attendance: Attendance,
}

impl Trial {
    /// A session opens at the clock's origin.
    fn begin() -> Self {
        let hands: &'static Hands = Box::leak(Box::default());
        let registry = Arc::new(Registry::new(Clock::by_hand(hands), 1, Rates::default()));
        let context = Arc::new(Context::new(&registry, 0, "test"));
        let (outbox, link) = (Arc::new(Outbox::default()), Arc::new(Link::default()));
        let peer = "127.0.0.1:9".parse().unwrap();
        let attendance = Attendance::new(context, outbox, Arc::clone(&link), peer);
        let mut trial = Self {
            hands,
            registry,
            link,
            attendance,
        };
        trial.receive(Message::Hello(v1::Hello {
            protocol: 1,
            agent_id: vec![1; 16],
            instance_id: vec![2; 16],
            fence: Some(v1::Fence {
                incarnation: 1,
                connection: 1,
            }),
            ..v1::Hello::default()
        }));
        trial
    }

    fn receive(&mut self, message: Message) {
        self.attendance.received(FromAgent {
            message: Some(message),
        });
    }

    fn ping(&mut self) {
        self.receive(Message::Ping(v1::Ping {
            seq: 1,
            ..v1::Ping::default()
        }));
    }

    /// The lane runs at so long after the origin.
    fn at(&self, after: Duration) -> Moment {
        let now = Moment::ZERO + after;
        self.hands.set(now);
        self.registry.lanes()[0].ticked(now, now);
        now
    }
}

/// Hard case A1: found by simulation. A lane that stalls for less than a second right after a nomination
/// wakes with the agent's beat unread; one look that finds it there is no blocked connection.
#[test]
fn a_beat_that_waits_out_a_short_stall_of_the_lane_saves_its_session() {
    let mut trial = Trial::begin();
    let nominated = trial.at(DEADLINE);
    trial
        .attendance
        .session()
        .unwrap()
        .nominate(nominated, None);
    trial.at(DEADLINE + Duration::from_millis(900));
    trial.link.unread();
    trial.attendance.convict_or_spare();
    assert!(!trial.attendance.over());
    trial.ping();
    trial.attendance.convict_or_spare();
    assert!(!trial.attendance.over());
    assert_eq!(trial.attendance.session().unwrap().nominated(), None);
}

/// Hard case B1.
#[test]
fn a_connection_that_stays_blocked_is_closed_as_a_slow_consumer() {
    let mut trial = Trial::begin();
    let nominated = trial.at(DEADLINE);
    trial
        .attendance
        .session()
        .unwrap()
        .nominate(nominated, None);
    for _ in 1..BLOCKED_LOOKS {
        trial.link.unread();
    }
    trial.attendance.convict_or_spare();
    assert!(!trial.attendance.over());
    trial.link.unread();
    trial.attendance.convict_or_spare();
    assert_eq!(
        trial.attendance.finish(),
        Some(v1::CloseReason::SlowConsumer)
    );
}
