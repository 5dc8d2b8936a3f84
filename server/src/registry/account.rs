//! The facts of a session that a verdict rests on.

use std::time::Duration;

use fleetbeat_liveness::grounds::{Grounds, Silence, Trigger};
use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::path::Evidence;

use super::agent::State;
use super::{Registry, Session};

impl Session {
    /// What is known of its silence at `now`.
    pub(super) fn silence(&self, now: Moment) -> Silence {
        let heard = self.last_heard();
        let (age, beats) = (now.since(heard), self.totals().beats);
        let (agent_lag, agent_queue) = self.vitals.account();
        let promise = self.promise();
        Silence {
            last: self.vitals.last(beats),
            age,
            missed: promise.missed(age),
            owed: promise.owed(now),
            beats,
            rtt: self.rtt_window().summary(),
            agent_lag,
            agent_queue,
            evidence: self.evidence(heard),
        }
    }

    /// What the kernel told since the last message.
    fn evidence(&self, heard: Moment) -> Option<Evidence> {
        let (at, kernel) = self.link.kernel().filter(|(at, _)| *at > heard)?;
        let asked = self.vitals.asked_since(heard);
        let path = kernel.path(asked.map(|asked| at.since(asked)));
        Some(Evidence { kernel, path })
    }

    pub(super) fn grounds(&self, trigger: Trigger, now: Moment) -> Grounds {
        Grounds {
            trigger,
            silence: Some(self.silence(now)),
            lane_lag: self.gauge.lag(),
            held: Duration::ZERO,
        }
    }
}

impl Registry {
    /// Grounds of a conviction, with the time for which it was held back.
    pub(super) fn conviction(&self, session: &Session, now: Moment) -> Grounds {
        let limit = session.limits().offline_after;
        let grace = session.gauge.grace_for(session.opened);
        let grace = grace.max(self.grace_for(session.opened));
        let due = session.last_heard() + limit;
        Grounds {
            held: grace.map_or(Duration::ZERO, |until| until.since(due)),
            ..session.grounds(Trigger::Silent { limit }, now)
        }
    }
}

impl State {
    /// Grounds for an agent without a session.
    pub(super) fn absent_grounds(&self, trigger: Trigger, now: Moment) -> Grounds {
        let silence = self.parting.as_ref().zip(self.last);
        let silence = silence.map(|(parting, last)| {
            let age = now.since(last.heard);
            let missed = parting.promise.missed(age);
            Silence {
                age,
                missed,
                ..parting.silence.clone()
            }
        });
        Grounds {
            silence,
            ..Grounds::bare(trigger)
        }
    }
}
