//! What should have happened by this time: verdicts in time, nobody stuck.

use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_liveness::backoff::absence_grace;
use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_server::registry::{Agent, Session, Watch};

use crate::net::Way;
use crate::server::RATES;
use crate::world::World;

/// Lateness that the design allows, the wheel's tick and the task's own delay.
const LATE: Duration = Duration::from_millis(160);
/// When the judge looks again at what it cannot judge yet.
const LATER: Duration = Duration::from_millis(250);

/// How long agents may take to come back that nobody could hear.
fn fair_chance(sessions: u64, deadline: Duration) -> Duration {
    absence_grace(sessions, RATES.admission_per_s, deadline)
}

impl World {
    /// Looks at everybody on every server.
    pub(crate) fn sweep(&mut self) {
        let now = self.now;
        for server in 0..self.servers.len() {
            if let Some(process) = &mut self.servers[server].process {
                process.note_what_is_owed(now);
            }
            self.check_counters(server);
            let stopped = |process: &crate::server::Process| {
                process.judge_stops > 0
                    || process.draining
                    || process.lanes.iter().any(|lane| lane.stops > 0)
            };
            let Some(process) = &self.servers[server].process else {
                continue;
            };
            if stopped(process) {
                continue;
            }
            for agent in process.registry.agents() {
                self.check_in_time(server, &agent);
            }
        }
        self.sweep_flows();
    }

    fn check_in_time(&mut self, server: usize, agent: &Agent) {
        let number = crate::host::number(agent.id);
        let watch = agent.watch();
        match &watch {
            Watch {
                session: Some(session),
                verdict,
                ..
            } => {
                self.check_live(server, number, session, *verdict);
            }
            Watch {
                verdict: Verdict::Suspect,
                last: Some(last),
                ..
            } => {
                let due = self.world_time(server, last.heard) + last.limits.offline_after;
                let (_, hindered) = self.graces(server, None, Moment::ZERO);
                let back_by = self.back_by(server, self.world_time(server, last.heard));
                self.check_due(
                    server,
                    number,
                    due.max(hindered).max(back_by),
                    "suspect without a session",
                );
            }
            Watch {
                verdict: Verdict::Unknown,
                ..
            } => self.check_unknown(server, number),
            Watch {
                verdict: Verdict::Online | Verdict::Suspect,
                ..
            } => {
                let verdict = watch.verdict;
                let host = self.host_of(number);
                self.object("8", host, Some(server), || {
                    format!("{verdict} without a session")
                });
            }
            Watch {
                verdict: Verdict::Offline | Verdict::Left,
                ..
            } => {}
        }
    }

    fn check_live(&mut self, server: usize, agent: usize, session: &Session, verdict: Verdict) {
        if session.ending().is_some() {
            return;
        }
        let heard = self.world_time(server, session.last_heard());
        let limits = session.limits();
        let (_, hindered) = self.graces(server, Some(session.lane), Moment::ZERO);
        let read = self.nothing_waits(server, agent);
        let suspect_at = (heard + limits.suspect_after).max(hindered);
        // The agent may have come back to a lane that does not run.
        let (_, anywhere) = self.graces(server, None, Moment::ZERO);
        let offline_at = (heard + limits.offline_after).max(anywhere);
        match verdict {
            _ if !read => {}
            Verdict::Online => {
                self.check_due(server, agent, suspect_at, "online and silent for T + W");
                self.check_due(server, agent, offline_at, "online and silent for D");
            }
            Verdict::Unknown if self.is_held(server) => {}
            Verdict::Suspect | Verdict::Unknown => {
                self.check_due(server, agent, offline_at, "silent for D with a session");
                let since = self.referee.book(server, agent, self.now).since;
                if heard > since {
                    self.check_due(server, agent, heard.max(hindered), "heard again");
                }
            }
            Verdict::Offline | Verdict::Left => {
                let host = self.host_of(agent);
                self.object("8", host, Some(server), || {
                    format!("{verdict} with a session")
                });
            }
        }
    }

    /// Whether everything that reached the kernel was read.
    fn nothing_waits(&mut self, server: usize, agent: usize) -> bool {
        let now = self.now;
        let seat = self.referee.book(server, agent, now).seated;
        let flow = seat.and_then(|seat| self.flows[seat.flow].as_ref());
        flow.is_none_or(|flow| flow.pipes[Way::Up as usize].inbox.is_empty())
    }

    fn check_unknown(&mut self, server: usize, agent: usize) {
        let (now, period) = (self.now, self.servers[server].period);
        let held = self.is_held(server);
        let book = self.referee.book(server, agent, now);
        if !book.known || held {
            return;
        }
        let deadline = book.last.map_or(book.deadline, |last| last.deadline);
        let sessions = u64::try_from(self.hosts.len()).unwrap_or(u64::MAX);
        let book = self.referee.book(server, agent, now);
        let since = book.since;
        let due = since + fair_chance(sessions, deadline.max(self.plan.longest));
        let (_, hindered) = self.graces(server, None, Moment::ZERO);
        let due = due.max(hindered).max(self.back_by(server, since)) + period;
        self.check_due(
            server,
            agent,
            due,
            "unknown for longer than it takes to return",
        );
    }

    /// Until when whoever was lost by `lost` may come back after verdicts were held.
    fn back_by(&self, server: usize, lost: Moment) -> Moment {
        let released = self.servers[server].process.as_ref().map(|p| p.released);
        let sessions = u64::try_from(self.hosts.len()).unwrap_or(u64::MAX);
        released
            .filter(|released| *released > lost)
            .map_or(Moment::ZERO, |at| {
                at + fair_chance(sessions, self.plan.longest)
            })
    }

    fn check_due(&mut self, server: usize, agent: usize, due: Moment, what: &str) {
        let (now, period) = (self.now, self.servers[server].period);
        let due = due.max(self.held_until(server));
        if now > due + LATE + LATER + period * 2 {
            let host = self.host_of(agent);
            let late = now.since(due);
            self.object("7", host, Some(server), || {
                format!("still {what}, {late:.3?} after that should have been settled")
            });
        }
    }

    fn is_held(&self, server: usize) -> bool {
        let process = self.servers[server].process.as_ref();
        process.is_some_and(|process| process.held_since.is_some())
    }

    /// Until when a hold may put verdicts off: a bound for itself, and a grace after it.
    pub(crate) fn held_until(&self, server: usize) -> Moment {
        /// The longest grace, and the time to look again.
        const GRACE: Duration = Duration::from_secs(62);
        let bound = self.plan.longest.max(Duration::from_secs(30)) + Duration::from_secs(1);
        self.servers[server]
            .process
            .as_ref()
            .map_or(Moment::ZERO, |process| {
                let held = process.held_since.map(|since| since + bound);
                let grace = Some(process.released).filter(|at| *at > Moment::ZERO);
                held.max(grace.map(|at| at + GRACE)).unwrap_or(Moment::ZERO)
            })
    }
}
