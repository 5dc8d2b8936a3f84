use fleetbeat_liveness::grounds::Trigger;

use super::*;

/// A server that takes in one agent a second; its only agent has had its turn.
struct Narrow {
    registry: Arc<Registry>,
    bench: Bench,
    session: Arc<Session>,
}

impl Narrow {
    fn begin() -> Self {
        let rates = Rates {
            admission_per_s: 1,
            ..Rates::default()
        };
        let registry = Arc::new(Registry::new(Clock::start(), 1, rates));
        Self {
            bench: Bench::new(Arc::clone(&registry)),
            session: open(&registry, 1, None),
            registry,
        }
    }

    /// The agent says Hello and is told to come again.
    fn send_away(&self, connection: u64) {
        let refused = self.registry.open(opening(connection, None)).unwrap_err();
        assert_eq!(refused.0.reason, CloseReason::Shed);
    }

    /// The judge looks at everybody so much after the agent's last message.
    fn judge(&mut self, by: Duration) {
        let now = self.session.last_heard() + by;
        self.registry.lanes()[0].ticked(now, now);
        self.bench.pass(now);
    }

    fn because(&self) -> String {
        let clock = self.registry.clock();
        self.session.agent.view(clock.now(), clock.wall()).because
    }

    fn trigger(&self) -> Option<Trigger> {
        let clock = self.registry.clock();
        let view = self.session.agent.view(clock.now(), clock.wall());
        view.grounds.map(|grounds| grounds.trigger.clone())
    }
}

/// Field report D19: who left, and said Hello in time, is waited for until its turn and then for D.
#[test]
fn an_agent_that_left_and_was_told_to_come_again_is_not_overdue_before_its_turn() {
    let mut narrow = Narrow::begin();
    let within = Some(Duration::from_secs(2));
    narrow.registry.leave(&narrow.session, "an update", within);
    narrow.send_away(2);
    narrow.judge(Duration::from_mins(1));
    assert!(matches!(narrow.trigger(), Some(Trigger::Left { .. })));
    narrow.judge(Duration::from_secs(70));
    assert!(matches!(narrow.trigger(), Some(Trigger::Overdue { .. })));
}

/// Requirement S2: the sentence of a verdict says what happened, and blames no absence that was none.
#[test]
fn an_agent_that_misses_its_turn_is_offline_for_that_and_for_no_absence_of_the_server() {
    let mut narrow = Narrow::begin();
    let broke = CloseReason::TransportError;
    narrow.registry.end(&narrow.session, broke, "broke", None);
    narrow.send_away(2);
    narrow.send_away(3);
    let told = narrow.because();
    assert!(
        told.starts_with("said Hello, and was told to come back in 2.0"),
        "of the turn told last: {told}"
    );
    narrow.judge(Duration::from_secs(80));
    let agent = &narrow.session.agent;
    assert_eq!(agent.watch().verdict, Verdict::Offline);
    let because = narrow.because();
    assert!(
        because.starts_with("did not come back although it had time to; before: said Hello"),
        "{because}"
    );
    assert!(!because.contains("away"), "{because}");
}
